//! Files are written with the calling user's rights, and files planted or owned by another user stay untouched. The
//! other users are numbers without an account.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use wakepath_harness::live::{Place, command, place, texts};

/// An attacking user, and the user who calls sudo.
const OTHER: u32 = 54321;
const CALLER: u32 = 54322;

/// A folder writable by every user.
fn open_place(would_show: &str) -> Option<Place> {
    let folder = place(would_show)?;
    fs::set_permissions(&folder, PermissionsExt::from_mode(0o777)).expect("its mode");
    Some(folder)
}

/// Runs a shell command in a folder as another user.
fn as_user(uid: u32, folder: &Path, text: &str) {
    let done = Command::new("sh").args(["-c", text]).current_dir(folder).uid(uid).gid(uid).status();
    assert!(done.expect("a shell").success(), "{text}");
}

/// The exit code and stderr of `wakepath`, called by root or through sudo.
fn wakepath(folder: &Path, sudo: Option<u32>, arguments: &[&str]) -> (i32, String) {
    let mut command = command(folder, arguments);
    for name in ["SUDO_UID", "SUDO_GID", "SUDO_USER"] {
        command.env_remove(name);
    }
    if let Some(uid) = sudo {
        command.env("SUDO_UID", uid.to_string()).env("SUDO_GID", uid.to_string()).env("SUDO_USER", "made-up");
    }
    let output = command.output().expect("wakepath");
    (output.status.code().unwrap_or(-1), texts(&output).1)
}

fn count(folder: &Path) -> usize {
    folder.read_dir().expect("a folder").count()
}

/// The three ways to write: a recording, a trace for Perfetto, a table for Parquet. Each writes `at`; the recording
/// `source` exists for reading.
fn ways(at: &str) -> [Vec<String>; 3] {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect();
    [
        words(&format!("record -o {at} -- true")),
        words(&format!("export --format perfetto -o {at} source")),
        words(&format!("latency --parquet {at} runqueue -- true")),
    ]
}

/// Tries the three ways with `at`: `judge` gets the exit code, stderr and the way.
fn try_ways(folder: &Path, sudo: Option<u32>, at: &str, judge: impl Fn(i32, &str, &str)) {
    for (round, way) in ways(at).into_iter().enumerate() {
        let arguments: Vec<String> =
            way.iter().map(|word| word.replace("ROUND", &round.to_string())).collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let (code, said) = wakepath(folder, sudo, &arguments);
        judge(code, &said, &arguments.join(" "));
    }
}

fn source(folder: &Path) {
    let (code, said) = wakepath(folder, None, &["record", "-o", "source", "--", "true"]);
    assert_eq!(code, 0, "{said}");
}

#[test]
fn a_link_that_another_user_made_leads_nowhere() {
    let Some(folder) = open_place("another user's link cannot choose where root writes") else { return };
    source(&folder);
    fs::create_dir_all(folder.join("victim/deep")).expect("a folder of root");
    as_user(
        OTHER,
        &folder,
        "ln -s victim way; ln -s victim/new file; mkdir -m 777 its; ln -s ../victim its/way",
    );
    // Root's own link, which leads over a link owned by the other user.
    symlink("its/way/deep", folder.join("over")).expect("a link");
    for at in ["way/x", "its/way/x", "over/x", "file"] {
        try_ways(&folder, None, at, |code, said, way| {
            let refused =
                code != 0 && (said.contains("54321") || at == "file" && said.contains("in the way"));
            let refused = refused || at == "file" && said.contains("it cannot be opened as a directory");
            assert!(refused, "{way}: {code}: {said}");
        });
    }
    assert_eq!((count(&folder.join("victim")), count(&folder.join("victim/deep"))), (1, 0));
}

#[test]
fn links_of_ones_own_work() {
    let Some(folder) = open_place("links of the caller's own, and of root, still work") else { return };
    source(&folder);
    // Root's links, for root; and the caller's own and root's links, for the caller.
    fs::create_dir(folder.join("there")).expect("a folder");
    symlink("there", folder.join("way")).expect("a link");
    as_user(CALLER, &folder, "mkdir home; ln -s home/../home own");
    symlink("own", folder.join("to_own")).expect("a link");
    for (sudo, at) in [(None, "way"), (Some(CALLER), "own"), (Some(CALLER), "to_own")] {
        let target = folder.join(at).canonicalize().expect("a folder");
        let whole = target.to_str().expect("a path").to_owned();
        // Root's recording, which the caller may not read, is still read with root's rights.
        for at in [format!("{at}/{}_ROUND", at.len()), format!("{whole}/whole_{}_ROUND", at.len())] {
            let at = at.as_str();
            try_ways(&folder, sudo, at, |code, said, way| assert_eq!(code, 0, "{way}: {said}"));
        }
        let owners: Vec<u32> = target
            .read_dir()
            .expect("a folder")
            .flatten()
            .map(|e| e.metadata().expect("a file").uid())
            .collect();
        assert!(owners.len() >= 6 && owners.iter().all(|uid| *uid == sudo.unwrap_or(0)), "{at}: {owners:?}");
    }
    let kernel = folder.join("home/3_0/kernel");
    for entry in fs::read_dir(&kernel).expect("a recording").flatten() {
        let data = entry.metadata().expect("a file");
        assert_eq!(
            (data.uid(), data.gid(), data.mode() & 0o777),
            (CALLER, CALLER, 0o600),
            "{:?}",
            entry.path()
        );
    }
}

#[test]
fn under_sudo_nothing_is_written_where_the_caller_may_not() {
    let Some(folder) = open_place("sudo lends no right to write") else { return };
    source(&folder);
    fs::create_dir(folder.join("private")).expect("a folder of root");
    fs::set_permissions(folder.join("private"), PermissionsExt::from_mode(0o755)).expect("its mode");
    as_user(CALLER, &folder, "ln -s private own");
    for at in ["own/x", "private/x"] {
        try_ways(&folder, Some(CALLER), at, |code, said, way| {
            assert!(code != 0 && said.contains("ermission denied"), "{way}: {code}: {said}");
            assert!(said.contains("sudo"), "the hint names the reason: {said}");
        });
    }
    assert_eq!(count(&folder.join("private")), 0);
}

#[test]
fn what_another_user_recorded_or_wrote_stays() {
    let Some(folder) = open_place("another user's recording is neither moved nor deleted") else { return };
    source(&folder);
    let made_by = |sudo: Option<u32>, name: &str| {
        let (code, said) = wakepath(&folder, sudo, &["record", "-o", name, "--", "true"]);
        assert_eq!(code, 0, "{said}");
        folder.join(name).metadata().expect("a recording").ino()
    };
    for (maker, taker, says) in [
        (Some(OTHER), None, "user 54321"),
        (Some(OTHER), Some(CALLER), "user 54321"),
        (None, Some(CALLER), "root"),
    ] {
        let inode = made_by(maker, "rec");
        let (code, said) = wakepath(&folder, taker, &["record", "-o", "rec", "--", "true"]);
        assert!(code == 125 && said.contains("belongs to") && said.contains(says), "{code}: {said}");
        assert_eq!(folder.join("rec").metadata().expect("still there").ino(), inode);
        assert!(!folder.join("rec.old").exists());
        // The next recording would delete the second to last.
        fs::rename(folder.join("rec"), folder.join("rec.old")).expect("root may");
        let mine = made_by(taker, "rec");
        let (code, said) = wakepath(&folder, taker, &["record", "-o", "rec", "--", "true"]);
        assert!(code == 125 && said.contains("belongs to") && said.contains(says), "{code}: {said}");
        let there = ["rec", "rec.old"].map(|name| folder.join(name).metadata().expect("still there").ino());
        assert_eq!(there, [mine, inode]);
        for name in ["rec", "rec.old"] {
            fs::remove_dir_all(folder.join(name)).expect("root may");
        }
    }
    as_user(OTHER, &folder, "umask 0; echo mine > file");
    for sudo in [None, Some(CALLER)] {
        for arguments in &ways("file")[1..] {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let (code, said) = wakepath(&folder, sudo, &arguments);
            assert!(code != 0 && said.contains("belongs to user 54321"), "{arguments:?}: {code}: {said}");
        }
    }
    assert_eq!(fs::read(folder.join("file")).expect("there"), b"mine\n");
}
