//! `wakepath record` on the test machine: the passed-on exit codes and signals, the written recording, and an answer
//! that adds up.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;

use wakepath_harness::live::{
    WAKEPATH, adds_up, command, document, list, number, path, place, record, skip, texts,
};

#[test]
fn the_exit_code_is_the_commands_own_or_one_of_ours() {
    let Some(folder) = place("exit codes are passed on") else { return };
    let script = folder.join("no-program");
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
        let (_, said) = record(&folder, &[&["--"], command].concat(), expected);
        if (126..128).contains(&expected) {
            assert!(said.starts_with("error: "), "{said}");
        }
    }
}

#[test]
fn path_only_records_the_path_alone() {
    let Some(folder) = place("system calls and stacks can be left out") else { return };
    let busy = "sleep 0.05; while [ $((i=i+1)) -lt 100000 ]; do :; done";
    record(&folder, &["--path-only", "--", "sh", "-c", busy], 0);
    let answer = path(&folder);
    adds_up(&answer);
    let called = list(&answer["segments"]).iter().filter(|one| !one["call"].is_null());
    assert_eq!(called.count(), 0, "no segment names a system call");
    let info = document(&folder, &["info"]);
    assert!(info["events"].get("sample").is_none_or(|count| count == 0), "{}", info["events"]);
}

#[test]
fn a_process_that_does_not_exist_is_named() {
    let Some(folder) = place("a wrong process number is told at once") else { return };
    let (_, said) = record(&folder, &["-p", "4194303"], 2);
    assert!(said.contains("there is no process 4194303"), "{said}");
}

#[test]
fn a_commands_output_is_its_own() {
    let Some(folder) = place("the answer does not mix with the command's output") else { return };
    let (out, err) = record(&folder, &["--", "echo", "mine"], 0);
    assert_eq!(out, "mine\n");
    assert!(err.contains("echo took"), "the answer is on stderr");
}

#[test]
fn the_recorder_has_priority_over_others_and_its_command_does_not() {
    let Some(folder) = place("the recorder gets its turn where CPUs are short") else { return };
    // The command's parent is the recorder, once it has begun: the nice values of its threads, then of the command.
    let nice = "sleep 0.5; cut -d' ' -f19 /proc/$PPID/task/*/stat; cut -d' ' -f19 /proc/$$/stat";
    let (said, _) = record(&folder, &["--", "sh", "-c", nice], 0);
    let mut nice: Vec<i32> = said.lines().map(|line| line.parse().expect("a number")).collect();
    assert_eq!(nice.pop(), Some(0), "the command's");
    // The draining and writing threads have priority, and the thread that finishes stacks some; the threads that read mappings, and
    // process files for thread contexts, have none.
    nice.sort_unstable();
    assert_eq!(nice, [-5, -5, -3, 0, 0]);
}

#[test]
fn a_recording_is_private_and_the_one_before_is_kept() {
    let Some(folder) = place("recordings are private and nothing foreign is overwritten") else { return };
    record(&folder, &["--", "true"], 0);
    let recording = folder.join("wakepath.rec");
    assert_eq!(recording.metadata().expect("a recording").mode() & 0o777, 0o700);
    let before = recording.metadata().expect("a recording").ino();
    record(&folder, &["--", "true"], 0);
    assert_eq!(folder.join("wakepath.rec.old").metadata().expect("the old one").ino(), before);

    // A link in the recording's place is neither followed nor replaced.
    let elsewhere = folder.join("elsewhere");
    std::fs::create_dir(&elsewhere).expect("a folder");
    let link = folder.join("link");
    std::os::unix::fs::symlink(&elsewhere, &link).expect("a link");
    record(&folder, &["-o", "link", "--", "true"], 125);
    let behind_the_link = elsewhere.read_dir().expect("the folder").count();
    assert_eq!(behind_the_link, 0, "nothing was written there");
}

#[test]
fn under_sudo_the_command_and_the_recording_are_the_callers() {
    let Some(folder) = place("nothing runs as root that need not") else { return };
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o777)).expect("its mode");
    let as_caller = |arguments: &[&str]| {
        let mut record = command(&folder, arguments);
        record.env("SUDO_UID", "65534").env("SUDO_GID", "65534").env("SUDO_USER", "nobody");
        texts(&record.output().expect("wakepath"))
    };
    let (out, err) = as_caller(&["record", "--", "id", "-u"]);
    assert_eq!(out, "65534\n", "{err}");
    let kernel = folder.join("wakepath.rec/kernel");
    for entry in std::fs::read_dir(&kernel).expect("a recording").flatten() {
        assert_eq!(entry.metadata().expect("a file").uid(), 65534, "{:?}", entry.path());
    }
    assert_eq!(as_caller(&["record", "--as-root", "--", "id", "-u"]).0, "0\n");
}

#[test]
fn a_thread_named_with_terminal_escapes_prints_as_text() {
    let Some(folder) = place("names cannot drive a terminal") else { return };
    let program = folder.join("\u{1b}[31mred");
    std::fs::copy("/bin/sleep", &program).expect("a copy");
    let (_, said) = record(&folder, &["--", program.to_str().expect("a path"), "0.05"], 0);
    assert!(said.contains("[31mred took") && !said.contains('\u{1b}'), "{said:?}");
}

#[test]
fn other_tools_read_the_streams() {
    let Some(folder) = place("babeltrace2 reads a recording") else { return };
    record(&folder, &["--", "sh", "-c", "ls / > /dev/null; sleep 0.05"], 0);
    let trace = folder.join("wakepath.rec/kernel");
    let Ok(output) = Command::new("babeltrace2").arg(&trace).output() else {
        return skip("no babeltrace2 here", "other tools read a recording");
    };
    let (text, said) = texts(&output);
    assert!(output.status.success() && said.is_empty(), "{said}");
    let info = document(&folder, &["info"]);
    for kind in ["switch", "waking", "fork", "exec"] {
        let theirs = text.lines().filter(|line| {
            // A switch has three forms, a waking two; each counts as one kind.
            let event = line.split_whitespace().find(|word| word.ends_with(':')).unwrap_or("");
            event.trim_end_matches(':').split('_').next() == Some(kind)
        });
        assert_eq!(theirs.count() as u64, number(&info["events"][kind]), "{kind}");
    }
}

/// The recorder marks the end of each CPU's stream, so a stream without the mark is noticed, wherever it was cut.
#[test]
fn a_stream_that_was_cut_between_packets_is_noticed() {
    let Some(folder) = place("a CPU whose stream ends early is unknown from there on") else { return };
    record(&folder, &["-a", "-d", "2"], 0);
    let whole = document(&folder, &["path"]);
    let damaged = |document: &serde_json::Value| {
        list(&document["problems"]).iter().filter(|problem| problem["code"] == "recording_damaged").count()
    };
    assert_eq!(damaged(&whole), 0, "{}", whole["problems"]);
    let stream = folder.join("wakepath.rec/kernel/sched_1");
    let bytes = std::fs::read(&stream).expect("a stream");
    // A packet's size, bits, stands 48 bytes after its beginning.
    let mut ends = vec![0];
    while let Some(size) = bytes.get(ends[ends.len() - 1] + 48..).and_then(|rest| rest.first_chunk()) {
        ends.push(ends[ends.len() - 1] + usize::try_from(u64::from_le_bytes(*size) / 8).expect("a size"));
    }
    assert_eq!(ends.last(), Some(&bytes.len()));
    assert!(ends.len() > 4, "{ends:?}");
    std::fs::write(&stream, &bytes[..ends[ends.len() / 2]]).expect("room");
    let cut = document(&folder, &["path"]);
    assert_eq!(damaged(&cut), 1, "{}", cut["problems"]);
    assert!(
        cut["problems"].to_string().contains("nothing is known of its CPU in the last "),
        "{}",
        cut["problems"]
    );
    let unknown = |document: &serde_json::Value| -> u64 {
        list(&document["threads"]).iter().map(|thread| number(&thread["unknown_ns"])).sum()
    };
    assert!(unknown(&cut) > unknown(&whole) + 500_000_000, "{} {}", unknown(&cut), unknown(&whole));
}

#[test]
fn where_wakepath_was_started_with_sigchld_ignored_the_command_is_too_and_its_exit_code_arrives() {
    let Some(folder) = place("a command's exit code arrives though SIGCHLD is ignored") else { return };
    let within = ["--kill-after=5", "30", "env", "--ignore-signal=CHLD", *WAKEPATH];
    for (arguments, code, out) in [
        (&["record", "--no-calibration", "--", "sh", "-c", "exit 3"][..], 3, None),
        (&["latency", "--no-exceptions", "libc:malloc", "--", "sh", "-c", "exit 3"], 3, None),
        (&["record", "--no-calibration", "--", "grep", "SigIgn", "/proc/self/status"], 0, Some(1 << 16)),
    ] {
        let mut command = Command::new("timeout");
        let output = command.args(within).args(arguments).current_dir(&folder).output().expect("timeout");
        let (printed, err) = texts(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {err}");
        if let Some(bit) = out {
            let mask = printed.split_whitespace().find_map(|word| u64::from_str_radix(word, 16).ok());
            assert_eq!(mask.expect("a mask") & bit, bit, "{printed}");
        }
    }
}
