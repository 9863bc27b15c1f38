//! The text that perf, trace-cmd and ftrace print, read like the file with the same moments.

use std::fs;
use std::path::Path;
use std::process::Command;

use wakepath_event::{Event, EventKind, EventSource, RecordingFormat};
use wakepath_harness::ftrace;
use wakepath_harness::live::{left_as, run, skip};
use wakepath_harness::perf::{self, EVENTS};
use wakepath_import::{PerfData, TextTrace, TraceDat};

use super::alike::is_read_as;

/// Short-lived processes, sleeps, and processes with names that look like fields and like separators.
const SCRIPT: &str = "for n in 1 2 3 4 5; do sleep 0.02; ls / >/dev/null; done; \
                      cp \"$(command -v sleep)\" 'a prev_pid=7 b'; './a prev_pid=7 b' 0.03; \
                      mv 'a prev_pid=7 b' 'a:1 [0] S ==> b'; './a:1 [0] S ==> b' 0.03";

/// A switch or a wake-up as a line.
fn line(event: &Event) -> Option<String> {
    line_at(event, event.at.ns())
}

/// The same, with its stamp rounded as ftrace prints it.
fn line_of_microseconds(event: &Event) -> Option<String> {
    line_at(event, (event.at.ns() + 500) / 1000 * 1000)
}

fn line_at(event: &Event, at: u64) -> Option<String> {
    let what = match event.kind {
        EventKind::Switch { next, out, .. } => format!("{} from {} to {next}", left_as(&out), event.current),
        EventKind::Waking { target, newborn, .. } => format!("wakes {target}, new: {newborn}"),
        _ => return None,
    };
    Some(format!("{at} {} {} {what}", event.cpu.0, event.current))
}

/// The expected lines: the same file's, read without text.
fn lines_of(file: &impl EventSource, line: impl Fn(&Event) -> Option<String>) -> Vec<String> {
    let mut lines = Vec::new();
    file.for_each(|event| lines.extend(line(event)));
    lines
}

/// A program's output, in a file.
fn printed(folder: &Path, program: &str, arguments: &[&str]) -> Option<TextTrace> {
    let output = Command::new(program).args(arguments).current_dir(folder).output().ok()?;
    let path = folder.join(format!("{program}.txt"));
    fs::write(&path, output.stdout).expect("room");
    assert!(TextTrace::recognises(&path), "{program} {arguments:?}");
    Some(TextTrace::open(&path).expect("a text"))
}

#[test]
fn what_perf_script_prints_is_read_as_its_file_to_the_nanosecond() {
    let Some(folder) =
        perf::place("the text of perf script gives the same switches and wake-ups as perf.data")
    else {
        return;
    };
    perf::record(&folder, "perf.data", &["-k", "CLOCK_MONOTONIC", "-e", EVENTS], &["bash", "-c", SCRIPT]);
    let expected = lines_of(&PerfData::open(&folder.join("perf.data")).expect("a perf.data"), line);
    let text = printed(&folder, "perf", &["script", "-i", "perf.data", "--ns"]).expect("perf");
    assert!(is_read_as(&text, line, &expected) > 50);
    let (said, _) = run(&folder, &["path", "perf.txt", "--comm", "a prev_pid=7 b"], 0);
    // This kernel reports some switches to nobody.
    assert!(said.contains("timer") || said.contains("a task switch was not recorded"), "{said}");
}

#[test]
fn what_trace_cmd_and_ftrace_print_is_read_as_the_file_with_the_same_moments() {
    let Some(folder) =
        ftrace::place("texts of trace-cmd and ftrace give the same switches and wake-ups as trace.dat")
    else {
        return;
    };
    let file = folder.join("trace.dat");
    ftrace::record(&file, "text", 16384, Command::new("bash").args(["-c", SCRIPT]).current_dir(&*folder));
    let binary = TraceDat::open(&file).expect("a trace.dat");
    // The kernel prints microseconds, in the order of its own stamps.
    let path = folder.join("trace.txt");
    let mut ours = lines_of(&TextTrace::open(&path).expect("a text"), line);
    let mut expected = lines_of(&binary, line_of_microseconds);
    ours.sort_unstable();
    expected.sort_unstable();
    assert!(expected.len() > 50);
    let differ = ours.iter().zip(&expected).find(|(ours, theirs)| ours != theirs);
    assert_eq!((ours.len(), differ), (expected.len(), None));
    let (said, _) = run(&folder, &["info", "trace.txt"], 0);
    assert!(said.contains("ftrace, as text") && said.contains("exact to 1 us"), "{said}");
    let expected = lines_of(&binary, line);
    for arguments in [&["report", "-t", "-i", "trace.dat"][..], &["report", "-t", "-l", "-i", "trace.dat"]] {
        let Some(text) = printed(&folder, "trace-cmd", arguments) else {
            return skip("trace-cmd is not installed", "the text of trace-cmd report is read as its file");
        };
        assert!(is_read_as(&text, line, &expected) > 50);
    }
}
