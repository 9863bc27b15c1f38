//! `wakepath record` on the machine that runs the tests: exit codes and signals that it passes on, the recording that
//! it leaves, and that its answer adds up.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use wakepath_harness::live::{WAKEPATH, adds_up, of_kind, path, place, record, skip};

#[test]
fn a_sleeping_command_waited_for_a_timer() {
    let Some(folder) = place("a sleep is told as a timer") else { return };
    let output = record(folder.path(), &["--", "sleep", "0.3"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let document = path(folder.path());
    let window = adds_up(&document);
    assert!(window >= 300_000_000, "{window}");
    // A sleep of 300 ms ends within its slack of 50 µs; if the kernel leaves a wake-up untraced, the answer says so.
    let timer = of_kind(&document, "timer") + of_kind(&document, "unknown");
    assert!((299_000_000..301_000_000).contains(&timer), "{timer}");
}

/// Each recording learns the places of the current thread and its registers anew, from the threads that run then.
#[test]
fn the_call_that_a_thread_waits_in_is_the_one_it_made() {
    let Some(folder) = place("a wait is told with the call that was made") else { return };
    let mut timers = 0;
    for _ in 0..8 {
        // On an idle machine, a recording that learns then must not learn from the idle thread.
        std::thread::sleep(Duration::from_millis(300));
        let sleeps = "taskset -c 0 sleep 0.02; taskset -c 1 sleep 0.02; sleep 0.02";
        let output = record(folder.path(), &["--", "sh", "-c", sleeps]);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let document = path(folder.path());
        timers += of_kind(&document, "timer");
        for one in document["contributors"].as_array().expect("contributors") {
            assert!(one["kind"] != "timer" || one["call"] == "clock_nanosleep", "{one}");
        }
    }
    // Where the CPUs are busy, the shell is still on its way to wait while its child sleeps; and a sleep
    // whose end the kernel left untraced is unknown.
    assert!(timers > 100_000_000, "five at least of 24 sleeps of 20 ms: {timers}");
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
fn path_only_records_the_path_alone() {
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
    let info = Command::new(*WAKEPATH)
        .args(["info", "--json"])
        .current_dir(folder.path())
        .output()
        .expect("wakepath");
    let info: Value = serde_json::from_slice(&info.stdout).expect("JSON");
    assert!(info["events"].get("sample").is_none_or(|count| count == 0), "{}", info["events"]);
}

#[test]
fn a_process_that_does_not_exist_is_named() {
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
fn the_recorder_has_priority_over_others_and_its_command_does_not() {
    let Some(folder) = place("the recorder gets its turn where CPUs are short") else { return };
    // The command's parent is the recorder, once it has begun: nice values of its threads, then the command's own.
    let nice = "sleep 0.5; cut -d' ' -f19 /proc/$PPID/task/*/stat; cut -d' ' -f19 /proc/$$/stat";
    let output = record(folder.path(), &["--", "sh", "-c", nice]);
    let said = String::from_utf8_lossy(&output.stdout);
    let mut nice: Vec<i32> = said.lines().map(|line| line.parse().expect("a number")).collect();
    assert_eq!(nice.pop(), Some(0), "the command's");
    // The threads that drain and write have priority; the one that reads mappings has not.
    nice.sort_unstable();
    assert_eq!(nice, [-20, -20, 0]);
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
        let mut command = Command::new(*WAKEPATH);
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
fn other_tools_read_the_streams() {
    let Some(folder) = place("babeltrace2 reads a recording") else { return };
    record(folder.path(), &["--", "sh", "-c", "ls / > /dev/null; sleep 0.05"]);
    let trace = folder.path().join("wakepath.rec/kernel");
    let Ok(output) = Command::new("babeltrace2").arg(&trace).output() else {
        return skip("no babeltrace2 here", "other tools read a recording");
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
    let text = String::from_utf8_lossy(&output.stdout);
    let info = Command::new(*WAKEPATH)
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
