//! `wakepath record` on the machine that runs the tests: what it passes on, what it leaves behind,
//! and that its answer adds up.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;

const WAKEPATH: &str = env!("CARGO_BIN_EXE_wakepath");

/// A folder of its own where a test may record; `None`, with a line that says so, where it may not.
fn place(would_show: &str) -> Option<tempfile::TempDir> {
    let can = Command::new(WAKEPATH).arg("doctor").output().expect("wakepath").status.success();
    if !can {
        assert!(std::env::var_os("WAKEPATH_REQUIRE_LIVE").is_none(), "live tests are required here");
        eprintln!("skipped: this machine or these rights allow no recording; would show that {would_show}");
        return None;
    }
    Some(tempfile::tempdir().expect("a folder"))
}

fn record(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(WAKEPATH).arg("record").args(arguments).current_dir(folder).output().expect("wakepath")
}

/// `wakepath path --json` of the recording in a folder.
fn path(folder: &Path) -> Value {
    let output =
        Command::new(WAKEPATH).args(["path", "--json"]).current_dir(folder).output().expect("wakepath");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The segments tile the window; the sum of the contributors is the window. Returns it, ns.
fn adds_up(document: &Value) -> i64 {
    let number = |value: &Value| value.as_i64().expect("a number");
    let (from, to) = (number(&document["window"]["from_ns"]), number(&document["window"]["to_ns"]));
    let mut at = from;
    for segment in document["segments"].as_array().expect("segments") {
        assert_eq!(number(&segment["from_ns"]), at, "no gap, no overlap");
        at = number(&segment["to_ns"]);
    }
    assert_eq!(at, to, "the segments reach the window's end");
    let contributors = document["contributors"].as_array().expect("contributors");
    assert_eq!(contributors.iter().map(|one| number(&one["total_ns"])).sum::<i64>(), to - from);
    to - from
}

/// ns of all contributors of a kind.
fn of_kind(document: &Value, kind: &str) -> i64 {
    let contributors = document["contributors"].as_array().expect("contributors");
    let of_kind = contributors.iter().filter(|one| one["kind"] == kind);
    of_kind.map(|one| one["total_ns"].as_i64().expect("a number")).sum()
}

#[test]
fn a_sleeping_command_waited_for_a_timer() {
    let Some(folder) = place("a sleep is told as a timer") else { return };
    let output = record(folder.path(), &["--", "sleep", "0.3"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let document = path(folder.path());
    let window = adds_up(&document);
    assert!(window >= 300_000_000, "{window}");
    // A sleep of 300 ms ends within its slack of 50 µs; a kernel that leaves a wake-up untraced says so.
    let timer = of_kind(&document, "timer") + of_kind(&document, "unknown");
    assert!((299_000_000..301_000_000).contains(&timer), "{timer}");
}

#[test]
fn a_wait_for_a_child_is_what_the_child_did() {
    let Some(folder) = place("a wait for a child resolves into it") else { return };
    record(folder.path(), &["--", "sh", "-c", "sleep 0.2; true"]);
    let document = path(folder.path());
    adds_up(&document);
    let sleep = document["contributors"]
        .as_array()
        .expect("contributors")
        .iter()
        .find(|one| one["comm"] == "sleep" && (one["kind"] == "timer" || one["kind"] == "unknown"));
    let sleep = sleep.expect("the child's sleep")["total_ns"].as_i64().expect("a number");
    assert!((190_000_000..210_000_000).contains(&sleep), "{sleep}");
}

#[test]
fn the_exit_code_is_the_commands_own_or_one_of_ours() {
    let Some(folder) = place("exit codes are passed on") else { return };
    let script = folder.path().join("no-program");
    std::fs::write(&script, "neither a script nor an ELF").expect("a file");
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).expect("its mode");
    let not_executable = script.to_str().expect("a path");
    for (command, expected) in [
        (&["sh", "-c", "exit 3"][..], 3),
        (&["sh", "-c", "kill -TERM $$"], 128 + 15),
        (&["./no-such-command"], 127),
        (&["no-such-command"], 127),
        (&[not_executable], 126),
    ] {
        let output = record(folder.path(), &[&["--"], command].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(expected), "{command:?}: {said}");
        if (126..128).contains(&expected) {
            assert!(said.starts_with("error: "), "{said}");
        }
    }
}

#[test]
fn the_path_alone_is_recorded_where_that_is_asked() {
    let Some(folder) = place("system calls and stacks can be left out") else { return };
    record(
        folder.path(),
        &["--path-only", "--", "sh", "-c", "sleep 0.05; while [ $((i=i+1)) -lt 100000 ]; do :; done"],
    );
    let document = path(folder.path());
    adds_up(&document);
    let called =
        document["segments"].as_array().expect("segments").iter().filter(|one| !one["call"].is_null());
    assert_eq!(called.count(), 0, "no segment names a system call");
    let info = Command::new(WAKEPATH)
        .args(["info", "--json"])
        .current_dir(folder.path())
        .output()
        .expect("wakepath");
    let info: Value = serde_json::from_slice(&info.stdout).expect("JSON");
    assert!(info["events"].get("sample").is_none_or(|count| count == 0), "{}", info["events"]);
}

#[test]
fn a_process_that_does_not_live_is_named() {
    let Some(folder) = place("a wrong process number is told at once") else { return };
    let output = record(folder.path(), &["-p", "4194303"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("there is no process 4194303"), "{said}");
}

#[test]
fn a_commands_output_is_its_own() {
    let Some(folder) = place("the answer does not mix with the command's output") else { return };
    let output = record(folder.path(), &["--", "echo", "mine"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "mine\n");
    assert!(String::from_utf8_lossy(&output.stderr).contains("echo took"), "the answer is on stderr");
}

#[test]
fn a_recording_is_private_and_the_one_before_is_kept() {
    let Some(folder) = place("recordings are private and nothing foreign is overwritten") else { return };
    record(folder.path(), &["--", "true"]);
    let recording = folder.path().join("wakepath.rec");
    assert_eq!(recording.metadata().expect("a recording").mode() & 0o777, 0o700);
    let before = recording.metadata().expect("a recording").ino();
    record(folder.path(), &["--", "true"]);
    assert_eq!(folder.path().join("wakepath.rec.old").metadata().expect("the old one").ino(), before);

    // A link in its place is neither followed nor replaced.
    let elsewhere = folder.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).expect("a folder");
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&elsewhere, &link).expect("a link");
    let output = record(folder.path(), &["-o", "link", "--", "true"]);
    assert_eq!(output.status.code(), Some(125), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(
        elsewhere.read_dir().expect("the folder").next().is_none(),
        "nothing was written behind the link"
    );
}

#[test]
fn under_sudo_the_command_and_the_recording_are_the_callers() {
    let Some(folder) = place("nothing runs as root that need not") else { return };
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).expect("its mode");
    let as_caller = |arguments: &[&str]| {
        let mut command = Command::new(WAKEPATH);
        command.env("SUDO_UID", "65534").env("SUDO_GID", "65534").env("SUDO_USER", "nobody");
        command.arg("record").args(arguments).current_dir(folder.path()).output().expect("wakepath")
    };
    let output = as_caller(&["--", "id", "-u"]);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "65534\n",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let kernel = folder.path().join("wakepath.rec/kernel");
    for entry in std::fs::read_dir(&kernel).expect("a recording").flatten() {
        assert_eq!(entry.metadata().expect("a file").uid(), 65534, "{:?}", entry.path());
    }
    let output = as_caller(&["--as-root", "--", "id", "-u"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0\n");
}

#[test]
fn a_thread_named_with_terminal_escapes_prints_as_text() {
    let Some(folder) = place("names cannot drive a terminal") else { return };
    let program = folder.path().join("\u{1b}[31mred");
    std::fs::copy("/bin/sleep", &program).expect("a copy");
    let output = record(folder.path(), &["--", program.to_str().expect("a path"), "0.05"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("[31mred took") && !said.contains('\u{1b}'), "{said:?}");
}

#[test]
fn a_recording_that_is_killed_can_be_read() {
    let Some(folder) = place("what was flushed survives kill -9") else { return };
    for (round, pause) in [5, 60, 150, 300, 450].into_iter().enumerate() {
        let recording: PathBuf = folder.path().join(format!("killed-{round}"));
        let mut recorder = Command::new(WAKEPATH)
            .args(["record", "-a", "-o"])
            .arg(&recording)
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("wakepath");
        // Killed while it attaches, while it drains, in between.
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        while !recording.join("kernel/metadata").exists() && std::time::Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(pause));
        recorder.kill().expect("a signal");
        recorder.wait().expect("its end");
        let output =
            Command::new(WAKEPATH).args(["info", "--json"]).arg(&recording).output().expect("wakepath");
        let said = String::from_utf8_lossy(&output.stderr);
        let code = output.status.code();
        // Before the first flush there is nothing in it, and that is said.
        let nothing_yet = code == Some(3) && said.contains("nothing") || said.contains("no events");
        assert!(code == Some(0) || nothing_yet, "after {pause} ms: {code:?} {said}");
        assert!(!said.contains("panicked"), "{said}");
    }
}

#[test]
fn other_tools_read_the_streams() {
    let Some(folder) = place("babeltrace2 reads a recording") else { return };
    record(folder.path(), &["--", "sh", "-c", "ls / > /dev/null; sleep 0.05"]);
    let trace = folder.path().join("wakepath.rec/kernel");
    let Ok(output) = Command::new("babeltrace2").arg(&trace).output() else {
        assert!(std::env::var_os("WAKEPATH_REQUIRE_LIVE").is_none(), "babeltrace2 is required here");
        eprintln!("skipped: no babeltrace2 here; would show that other tools read a recording");
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
    let text = String::from_utf8_lossy(&output.stdout);
    let info = Command::new(WAKEPATH)
        .args(["info", "--json"])
        .current_dir(folder.path())
        .output()
        .expect("wakepath");
    let info: Value = serde_json::from_slice(&info.stdout).expect("JSON");
    for kind in ["switch", "waking", "fork", "exec"] {
        let theirs = text.lines().filter(|line| {
            // A switch has three forms, a waking two; they count as one kind.
            let event = line.split_whitespace().find(|word| word.ends_with(':')).unwrap_or("");
            event.trim_end_matches(':').split('_').next() == Some(kind)
        });
        assert_eq!(theirs.count() as u64, info["events"][kind].as_u64().expect("a count"), "{kind}");
    }
}
