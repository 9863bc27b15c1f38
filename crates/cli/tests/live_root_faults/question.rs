//! Questions that make no sense, and those that are kept with the recording.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use wakepath_harness::live::{Beside, document, list, place, run, skip};

use crate::record;

#[test]
fn an_earlier_recording_stays_where_it_is_until_the_next_one_really_begins() {
    let Some(folder) = place("a wrong question costs no recording") else { return };
    fs::write(folder.join("text"), "not a program").expect("a file");
    fs::set_permissions(folder.join("text"), PermissionsExt::from_mode(0o644)).expect("its mode");
    record(&folder, &["--", "true"], 0);
    record(&folder, &["--", "true"], 0);
    let inode = |name: &str| folder.join(name).metadata().map(|data| data.ino()).ok();
    let before = [inode("wakepath.rec"), inode("wakepath.rec.old")];
    assert!(before.iter().all(Option::is_some), "one, and the one before it");
    for (question, code, says) in [
        (&["-p", "4194303"][..], 2, "there is no process 4194303"),
        (&["--cgroup", "no-such.service"], 2, "there is no cgroup, unit or container `no-such.service`"),
        (&["--", "./no-such-command"], 127, "command not found: ./no-such-command"),
        (&["--", "./text"], 126, "cannot run ./text"),
        (&["--", "/"], 126, "cannot run /"),
        (&["--buffer", "1K", "-a"], 2, "--buffer"),
    ] {
        let (_, said) = record(&folder, question, code);
        assert!(said.contains(says), "{said}");
        assert_eq!([inode("wakepath.rec"), inode("wakepath.rec.old")], before, "{question:?}");
    }
    // Nothing else is left behind either.
    let mut names: Vec<_> = fs::read_dir(&folder)
        .expect("the folder")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["text", "wakepath.rec", "wakepath.rec.old"]);
}

/// A cgroup of this test's own, in whichever hierarchy can have one.
struct Cgroup {
    name: String,
    folder: std::path::PathBuf,
}

impl Cgroup {
    fn new() -> Option<Self> {
        let name = format!("wakepath-test-{}", std::process::id());
        let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/cpu"];
        let roots = roots.map(Path::new).into_iter().filter(|root| root.join("cgroup.procs").exists());
        let made = |root: &Path| {
            let folder = root.join(&name);
            fs::create_dir(&folder).ok()?;
            Some(Self { name: name.clone(), folder })
        };
        roots.map(made).next().flatten()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder);
    }
}

#[test]
fn a_cgroup_that_was_asked_about_is_the_question_afterwards_too() {
    let Some(folder) = place("--cgroup is kept with the recording") else { return };
    let Some(cgroup) = Cgroup::new() else {
        return skip("no cgroup can be made here", "--cgroup is kept with the recording");
    };
    let procs = cgroup.folder.join("cgroup.procs");
    let script = format!("echo $$ >{} && exec sleep 30", procs.display());
    let inside = Beside(Command::new("sh").args(["-c", &script]).spawn().expect("a shell"));
    while fs::read_to_string(&procs).is_ok_and(|members| members.trim().is_empty()) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let pid = u64::from(inside.0.id());
    let (said, _) = record(&folder, &["--cgroup", &cgroup.name, "-d", "0.3"], 0);
    drop(inside);
    assert!(said.starts_with(&cgroup.name), "{said}");

    let later = document(&folder, &["path"]);
    assert_eq!(later["scope"]["by"], "cgroup", "{}", later["scope"]);
    assert_eq!(later["scope"]["cgroup"], cgroup.name.as_str());
    let pids: Vec<_> = list(&later["threads"]).iter().map(|one| one["pid"].as_u64()).collect();
    assert_eq!(pids, [Some(pid)], "its only process");
    assert_eq!(document(&folder, &["info"])["cgroup"], cgroup.name.as_str());
    // Another question is still possible.
    let own = std::process::id();
    let other = document(&folder, &["path", "--pid", &own.to_string()]);
    assert!(other["scope"]["pids"][0] == own || other["window"]["pid"] == own, "{}", other["scope"]);
}

#[test]
fn only_a_recording_that_was_just_made_is_told_to_be_saved() {
    let Some(folder) = place("what is told where") else { return };
    assert!(record(&folder, &["--", "true"], 0).1.contains("saved in ./wakepath.rec"));
    let (said, _) = run(&folder, &["path"], 0);
    assert!(!said.contains("saved in") && said.contains("next: wakepath path --tree"), "{said}");
}
