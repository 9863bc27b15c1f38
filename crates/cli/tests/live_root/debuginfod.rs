//! `--debuginfod` under sudo: fetched files are the calling user's, a number without an account.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use wakepath_harness::files::Server;
use wakepath_harness::live::{command, place, program, texts};

const CALLER: u32 = 54322;
const HEX: &str = "00112233445566778899aabbccddeeff01234567";
const SOURCE: &str = "static volatile int sum;
static int __attribute__((noinline)) pack_items(int n) { for (int i = 0; i < n; i++) sum += i; return sum; }
int main(void) { for (int i = 0; i < 100000; i++) pack_items(5000); return 0; }
";

/// The answer of `wakepath` through sudo, with its warnings.
fn wakepath(folder: &Path, cache: &Path, arguments: &[&str]) -> String {
    let mut command = command(folder, arguments);
    let uid = CALLER.to_string();
    command.env("SUDO_UID", &uid).env("SUDO_GID", &uid).env("SUDO_USER", "made-up");
    let (out, err) = texts(&command.env("DEBUGINFOD_CACHE_PATH", cache).output().expect("wakepath"));
    out + &err
}

fn owners(folder: &Path) -> Vec<(PathBuf, u32)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let data = fs::symlink_metadata(&path).expect("it is there");
        found.push((path.clone(), data.uid()));
        if data.is_dir() {
            found.extend(owners(&path));
        }
    }
    found
}

#[test]
fn fetched_files_belong_to_the_user_who_called_sudo() {
    let Some(folder) = place("names come from a server after a recording, into the caller's own folder")
    else {
        return;
    };
    fs::set_permissions(&folder, PermissionsExt::from_mode(0o777)).expect("its mode");
    let whole = program(&folder, "whole", SOURCE, &["-g", "-O1", &format!("-Wl,--build-id=0x{HEX}")]);
    for (option, to) in [("--only-keep-debug", "shop.debug"), ("--strip-all", "shop")] {
        let made = Command::new("objcopy").args([option, &whole, to]).current_dir(&folder).status();
        assert!(made.expect("objcopy").success());
    }
    let server = Server::new(&[(format!("/buildid/{HEX}/debuginfo"), folder.join("shop.debug"))]);
    let option = format!("--debuginfod={}", server.url);
    let named = "samples in pack_items (shop)";
    let (own, roots) = (folder.join("own"), folder.join("roots"));
    for cache in [&own, &roots] {
        fs::create_dir(cache).expect("made");
        fs::set_permissions(cache, PermissionsExt::from_mode(0o700)).expect("its mode");
    }
    chown(&own, Some(CALLER), Some(CALLER)).expect("root may");
    let answer = wakepath(&folder, &own, &["record", &option, "--", "./shop"]);
    assert!(answer.contains(named) && !answer.contains("warning: cannot keep"), "{answer}");
    let found = owners(&own);
    assert!(found.len() == 2 && found.iter().all(|(_, owner)| *owner == CALLER), "{found:?}");
    // By a process that still is root.
    fs::remove_dir_all(own.join(HEX)).expect("removed");
    let answer = wakepath(&folder, &own, &["path", &option]);
    assert!(answer.contains(named), "{answer}");
    let found = owners(&own);
    assert!(found.len() == 2 && found.iter().all(|(_, owner)| *owner == CALLER), "{found:?}");
    let answer = wakepath(&folder, &roots, &["path", &option]);
    assert!(answer.contains("cannot keep a fetched file") && !answer.contains(named), "{answer}");
    assert_eq!(owners(&roots), []);
}
