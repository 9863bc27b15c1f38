//! Functions at which a drill-down cannot begin, or which it loses: the message names the function, the reason and the
//! next step.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use wakepath_harness::live::{Beside, Place, command, first_byte, list, program, run, texts};

use crate::drill::{Drilled, PUSH, alone};

const OPTIONS: [&str; 2] = ["-O1", "-pthread"];

fn built(folder: &Path, name: &str, more: &[&str]) -> String {
    program(folder, name, include_str!("targets.c"), &[&OPTIONS, more].concat())
}

/// A running `targets`; it is killed when dropped.
struct Targets(Beside, String);

impl Targets {
    fn start(program: &str, arguments: &[&str]) -> Self {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("targets");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("its number");
        Self(Beside(child), line.trim_end().to_owned())
    }

    fn say(&mut self, line: &str) {
        writeln!(self.0.0.stdin.as_mut().expect("a pipe"), "{line}").expect("it reads");
    }

    /// Waits until a function has a probe.
    fn await_probe(&self, file: &str, function: &str, drill: &mut Child) {
        let began = Instant::now();
        while first_byte(self.1.parse().expect("a number"), file, function) == PUSH {
            let ended = drill.try_wait().expect("wakepath");
            assert!(began.elapsed() < Duration::from_secs(20) && ended.is_none(), "{function} has no probe");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Runs `wakepath drill` beside the test.
fn drill(folder: &Place, target: &str, pid: &str, more: &[&str]) -> Child {
    let mut drill = command(folder, &[&["drill", target, "-p", pid], more].concat());
    drill.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("wakepath")
}

/// The message of a drill-down without an answer.
#[track_caller]
fn refusal(output: &Output) -> String {
    let (out, err) = texts(output);
    assert_eq!((output.status.code(), out.as_str()), (Some(2), ""), "{err}");
    err
}

/// Checks that a message has all these parts.
#[track_caller]
fn says(message: &str, parts: &[&str]) {
    // Lines are wrapped when full.
    let text = message.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in parts {
        assert!(text.contains(part), "{part} is missing in {message}");
    }
}

#[test]
fn a_function_that_was_inlined_is_told_from_one_that_never_was() {
    let Some(folder) = alone("functions without code of their own are named") else { return };
    let with = built(&folder, "with", &["-g"]);
    let without = built(&folder, "without", &[]);
    for (program, parts) in [
        (
            &with,
            &["no function `folded`", "the compiler inlined it into its callers (1 place)", "probe a caller"]
                [..],
        ),
        (&without, &["no function `folded`", "whether the compiler inlined it", "probe a caller", "-g"]),
    ] {
        let running = Targets::start(program, &[]);
        let (out, err) = run(&folder, &["drill", &format!("{program}:folded"), "-p", &running.1], 2);
        assert_eq!(out, "");
        says(&err, parts);
    }
}

#[test]
fn a_function_without_calls_is_told_from_one_that_does_not_return() {
    let Some(folder) = alone("functions that are not called, or do not return, are named") else { return };
    let program = built(&folder, "targets", &["-g"]);
    let mut running = Targets::start(&program, &[]);
    let never = drill(&folder, &format!("{program}:never"), &running.1, &["-d", "2s"]);
    let message = refusal(&never.wait_with_output().expect("wakepath"));
    says(&message, &["was not called in 2.", "had begun before", "wakepath latency -a", "calls it"]);
    let mut stays = drill(&folder, &format!("{program}:stays"), &running.1, &["-d", "4s"]);
    running.await_probe(&program, "stays", &mut stays);
    running.say("stay");
    let message = refusal(&stays.wait_with_output().expect("wakepath"));
    says(
        &message,
        &[
            "was called, but did not return in 4.",
            "1 call is open",
            &format!("wakepath record -p {}", running.1),
        ],
    );
    // The thread is still in its call: no call begins.
    let again = drill(&folder, &format!("{program}:stays"), &running.1, &["-d", "1s"]);
    let message = refusal(&again.wait_with_output().expect("wakepath"));
    says(&message, &["was not called in 1.", "a call that had begun before is not seen"]);
}

#[test]
fn a_process_that_ends_too_soon_is_said() {
    let Some(folder) = alone("processes that end too soon are named") else { return };
    let program = built(&folder, "targets", &["-g"]);
    let mut running = Targets::start(&program, &[]);
    let mut drill = drill(&folder, &format!("{program}:never"), &running.1, &[]);
    running.await_probe(&program, "never", &mut drill);
    drop(running.0.0.stdin.take());
    let _ = running.0.0.wait();
    let message = refusal(&drill.wait_with_output().expect("wakepath"));
    says(&message, &["the process ended after", "returned 0 of the 1000 times", "--start-ops"]);
}

#[test]
fn a_process_that_ends_amid_the_search_ends_it_and_what_was_found_is_shown() {
    let Some(folder) = alone("a search whose process ends is no error") else { return };
    // A different moment each time: for most of the search, probes are being placed.
    for tenths in 4..12 {
        let mut drilled = Drilled::start(&folder, &["lock"]);
        let target = format!("{}:serve", folder.join("drilled").display());
        let drill = drill(&folder, &target, &drilled.1, &["--start-ops", "200", "--no-waits"]);
        std::thread::sleep(Duration::from_millis(100 * tenths));
        drilled.0.kill().expect("it runs");
        let (out, err) = texts(&drill.wait_with_output().expect("wakepath"));
        let all = format!("{out}{err}").split_whitespace().collect::<Vec<_>>().join(" ");
        // On a slow machine the process ends before its peaks are known, on a fast machine after the answer.
        let is_over = all.contains("of the peak's time");
        assert!(is_over || all.contains("the process ended"), "{tenths}: {all}");
    }
}

/// A program with a library that it can unload, and both paths.
fn with_library(folder: &Place) -> (String, String) {
    let library = program(folder, "plugin.so", include_str!("plugin.c"), &["-O1", "-g", "-shared", "-fPIC"]);
    (built(folder, "targets", &["-g"]), library)
}

#[test]
fn a_library_that_is_unloaded_before_a_peak_is_known_is_said() {
    let Some(folder) = alone("unloaded libraries are named") else { return };
    let (program, library) = with_library(&folder);
    let mut running = Targets::start(&program, &[&library]);
    let target = format!("{library}:plugged");
    let mut drill = drill(&folder, &target, &running.1, &["--start-ops", "1000000"]);
    running.await_probe(&library, "plugged", &mut drill);
    running.say("unload");
    let began = Instant::now();
    let message = refusal(&drill.wait_with_output().expect("wakepath"));
    assert!(began.elapsed() < Duration::from_secs(5), "it does not wait for calls that cannot come");
    says(
        &message,
        &[&format!("process {} unloaded {library}", running.1), "while the process has the file loaded"],
    );
    let (out, err) = run(&folder, &["drill", &target, "-p", &running.1], 2);
    assert_eq!(out, "");
    says(&err, &["has not mapped", &library, "while the process has the file loaded"]);
}

#[test]
fn a_library_that_is_unloaded_or_moved_amid_the_search_ends_it() {
    let Some(folder) = alone("a library that moves gives no wrong path") else { return };
    let (program, library) = with_library(&folder);
    for line in ["unload", "move"] {
        let mut running = Targets::start(&program, &[&library]);
        let mut drill = drill(
            &folder,
            &format!("{library}:plugged"),
            &running.1,
            &["--start-ops", "100", "--json", "--no-waits"],
        );
        running.await_probe(&library, "inner", &mut drill);
        running.say(line);
        let output = drill.wait_with_output().expect("wakepath");
        let (out, err) = texts(&output);
        assert!(output.status.success(), "{err}");
        let answer: Value = serde_json::from_str(&out).expect("JSON");
        assert_eq!(answer["status"], "stopped: the code was unloaded", "{line}: {answer}");
        assert!(list(&answer["causes"]).iter().all(|cause| cause["cause"].is_null()), "{line}: {answer}");
        let notes = list(&answer["notes"]).iter().filter_map(Value::as_str).collect::<Vec<_>>().join("; ");
        says(&notes, &[&format!("unloaded {library} meanwhile"), "drill again"]);
    }
}

#[test]
fn a_command_is_ended_where_the_drill_down_refuses_its_question_also_one_that_ignores_sigterm() {
    let Some(folder) = alone("a refused drill-down leaves no command") else { return };
    let program = built(&folder, "refused", &[]);
    let pid_file = folder.join("pid");
    for ignores in ["", "trap '' TERM; "] {
        let script = format!("{ignores}echo $$ >{}; exec sleep 60", pid_file.display());
        let (_, err) =
            run(&folder, &["drill", &format!("{program}:nosuch"), "--", "/bin/sh", "-c", &script], 125);
        assert!(err.contains("nosuch") && err.contains("the command was ended"), "{err}");
        // The shell may have been ended before its first line, or within it.
        let Ok(pid) = std::fs::read_to_string(&pid_file) else { continue };
        if pid.is_empty() {
            continue;
        }
        assert!(!Path::new("/proc").join(pid.trim()).exists(), "{pid} goes on: {err}");
        std::fs::remove_file(&pid_file).expect("the number's file");
    }
}
