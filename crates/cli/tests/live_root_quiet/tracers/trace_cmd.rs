//! trace-cmd's files from this machine, read like wakepath's own recordings.
//!
//! If trace-cmd is installed, its reading of a file built by the harness from tracefs is compared with wakepath's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use wakepath_event::{Event, EventKind, EventSource, RecordingFormat};
use wakepath_harness::ftrace::{Buffer, place, record};
use wakepath_harness::live::{left_as, not_possible, run, skip, texts};
use wakepath_import::TraceDat;

use super::alike::is_read_as;

/// The switches and wake-ups as trace-cmd itself prints them; `None`, with a printed reason, if it is not installed.
fn reported(file: &Path) -> Option<Vec<String>> {
    let report = Command::new("trace-cmd").args(["report", "-t", "-R", "-i"]).arg(file).output();
    let Ok(report) = report else {
        skip(
            "trace-cmd is not installed",
            "stamps, CPUs, threads and states of a trace.dat are what it prints",
        );
        return None;
    };
    Some(texts(&report).0.lines().filter_map(line_of).collect())
}

/// `           sleep-3043  [000]  1437.105543210: sched_switch:  prev_comm=… prev_pid=… prev_state=0x1 … next_pid=…`
fn line_of(line: &str) -> Option<String> {
    let (head, tail) = ["sched_switch:", "sched_waking:"].iter().find_map(|name| {
        let at = line.find(&format!(": {name}"))?;
        Some((&line[..at], &line[at + 2..]))
    })?;
    let (head, at) = head.rsplit_once(' ')?;
    let (seconds, ns) = at.split_once('.')?;
    let at = seconds.parse::<u64>().ok()? * 1_000_000_000 + format!("{ns:0<9}").parse::<u64>().ok()?;
    let (who, cpu) = head.rsplit_once('[')?;
    let cpu: u16 = cpu.split(']').next()?.parse().ok()?;
    let current = who.trim().rsplit_once('-')?.1;
    let value = |key: &str| {
        let text = tail.rsplit_once(&format!(" {key}="))?.1.split(' ').next()?;
        match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => text.parse().ok(),
        }
    };
    Some(match tail.starts_with("sched_switch:") {
        true => format!(
            "{at} {cpu} {current} {} from {} to {}",
            match value("prev_state")? {
                _ if value("prev_pid")? == 0 => "runnable",
                0 => "runnable",
                1 => "interruptible",
                2 => "uninterruptible",
                4 => "stopped",
                16 | 32 => "dead",
                64 => "parked",
                128 => "idle",
                256.. => "runnable",
                _ => "another",
            },
            value("prev_pid")?,
            value("next_pid")?
        ),
        false => format!("{at} {cpu} {current} wakes {}", value("pid")?),
    })
}

fn ours(event: &Event) -> Option<String> {
    let what = match event.kind {
        EventKind::Switch { next, out, .. } => {
            let state = left_as(&out);
            format!("{state} from {} to {next}", event.current)
        }
        EventKind::Waking { target, newborn: false, .. } => format!("wakes {target}"),
        _ => return None,
    };
    Some(format!("{} {} {} {what}", event.at.ns(), event.cpu.0, event.current))
}

#[test]
fn every_switch_and_waking_is_read_as_trace_cmd_itself_prints_it() {
    let Some(folder) = place("stamps, CPUs, threads and states of a trace.dat are what trace-cmd prints")
    else {
        return;
    };
    let file = folder.join("trace.dat");
    // Short-lived processes, sleeps, and a process name that looks like a field.
    let script =
        "for n in 1 2 3 4 5; do sleep 0.02; ls / >/dev/null; done; exec -a 'a prev_pid=7 b' sleep 0.05";
    record(&file, "every", 16384, Command::new("bash").args(["-c", script]));
    let Some(lines) = compared(&file) else { return };
    assert!(lines > 50, "{lines}");
    // The file in trace-cmd's newer version, which is compressed unless an option says otherwise.
    let newer = folder.join("newer.dat");
    assert!(convert(&file, &newer, "7", "none"));
    assert_eq!(compared(&newer), Some(lines));
    // If trace-cmd was built with a compression.
    for by in ["zstd", "zlib"] {
        if convert(&file, &newer, "7", by) {
            println!("compressed by {by}");
            assert_eq!(compared(&newer), Some(lines), "{by}");
        }
    }
}

/// Whether trace-cmd could write a file anew, with this version and compression.
fn convert(from: &Path, to: &Path, version: &str, compression: &str) -> bool {
    let arguments = ["convert", "--compression", compression, "--file-version", version, "-i"];
    let done = Command::new("trace-cmd").args(arguments).arg(from).arg("-o").arg(to).output();
    done.is_ok_and(|output| output.status.success())
}

/// Compares wakepath's reading of a file with trace-cmd's output: the number of lines; `None` if trace-cmd is not
/// installed.
#[track_caller]
fn compared(file: &Path) -> Option<usize> {
    let expected = reported(file)?;
    Some(is_read_as(&TraceDat::open(file).expect("a trace.dat"), ours, &expected))
}

#[test]
fn real_files_of_trace_cmd_are_read_as_it_prints_them_in_either_version() {
    let Some(folder) = std::env::var_os("WAKEPATH_TRACES").map(PathBuf::from) else {
        return not_possible(
            "WAKEPATH_TRACES names no folder",
            "files that trace-cmd wrote are read as it prints them",
        );
    };
    let made = tempfile::tempdir().expect("a folder");
    let folders = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let files: Vec<_> =
        folders.map(|folder| folder.join("trace.dat")).filter(|file| file.is_file()).collect();
    if files.is_empty() {
        not_possible(
            "WAKEPATH_TRACES has no trace.dat",
            "files that trace-cmd wrote are read as it prints them",
        );
    }
    for file in files {
        for (version, by) in [("6", "none"), ("7", "none"), ("7", "zstd")] {
            let converted = made.path().join(version);
            if convert(&file, &converted, version, by) {
                let lines = compared(&converted);
                assert!(lines.is_none_or(|lines| lines > 10), "{}: {lines:?}", file.display());
            } else {
                let why = format!("trace-cmd is not installed, or cannot write version {version} with {by}");
                skip(&why, &format!("{} is read as it prints it", file.display()));
            }
        }
    }
}

#[test]
fn events_that_a_full_buffer_overwrote_are_reported_as_lost() {
    let Some(folder) = place("what found no room in the kernel's buffer is told as lost") else {
        return;
    };
    let file = folder.join("trace.dat");
    // Some thousand switches in a buffer for a few hundred.
    let script = "for n in $(seq 300); do true | cat; done";
    let buffers = record(&file, "full", 64, Command::new("sh").args(["-c", script]));
    let mut lost = Vec::new();
    TraceDat::open(&file).expect("a trace.dat").for_each(|event| {
        if let EventKind::Loss { count, .. } = event.kind {
            lost.push(count);
        }
    });
    let mut expected: Vec<_> = buffers.iter().filter_map(Buffer::loss).collect();
    println!("lost by the kernel's own count, and as read: {expected:?} {lost:?}");
    assert!(!expected.is_empty(), "no buffer was full");
    expected.sort_unstable();
    lost.sort_unstable();
    assert_eq!(lost, expected);
    let (said, _) = run(&folder, &["info", "trace.dat"], 0);
    assert!(said.contains("lost"), "{said}");
}
