//! Public files that were once misread, with their right values. They are found through `WAKEPATH_FOUND`.

mod spans;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use wakepath_harness::live::{document, length, list, not_possible, run};

/// An unpacked file from that folder, in a folder of its own: a single file is `file`.
fn found(name: &str, shows: &str) -> Option<tempfile::TempDir> {
    let Some(folder) = std::env::var_os("WAKEPATH_FOUND").map(PathBuf::from) else {
        not_possible("WAKEPATH_FOUND names no folder", shows);
        return None;
    };
    let into = tempfile::tempdir().expect("a temporary directory");
    let packed = folder.join(name);
    let unpacked = match name.strip_suffix(".tar.xz") {
        Some(_) => {
            Command::new("tar").arg("-xJf").arg(packed).arg("-C").arg(into.path()).status().expect("tar")
        }
        None if !name.ends_with(".xz") => {
            Command::new("cp").arg(packed).arg(into.path().join("file")).status().expect("cp")
        }
        None => {
            let file = std::fs::File::create(into.path().join("file")).expect("room");
            Command::new("xz").arg("-dc").arg(packed).stdout(file).status().expect("xz")
        }
    };
    assert!(unpacked.success(), "{name} cannot be unpacked");
    Some(into)
}

/// A document's problems, by their codes.
fn codes(document: &Value) -> Vec<&str> {
    list(&document["problems"]).iter().filter_map(|problem| problem["code"].as_str()).collect()
}

/// A thread's own segments of this kind, on its path: each with its length, ns, and how it is known.
fn segments(folder: &Path, tid: u32, kind: &str) -> Vec<(u64, String)> {
    let recording = if folder.join("file").exists() { "file" } else { "." };
    let path = document(folder, &["path", "--tid", &tid.to_string(), recording]);
    let own = list(&path["segments"]).iter().filter(|part| part["kind"] == kind && part["tid"] == tid);
    own.map(|part| (length(part) as u64, part["basis"].as_str().unwrap_or_default().to_owned())).collect()
}

fn time(folder: &Path, tid: u32, kind: &str) -> u64 {
    segments(folder, tid, kind).iter().map(|(ns, _)| ns).sum()
}

#[test]
fn a_stream_in_several_files_is_whole() {
    let Some(folder) = found("lttng-tracefile-rotation.tar.xz", "a stream in several files is whole") else {
        return;
    };
    let info = document(folder.path(), &["info", "."]);
    assert_eq!(codes(&info), Vec::<&str>::new(), "{info}");
    assert!(info["losses"].as_array().is_none_or(Vec::is_empty), "{info}");
}

#[test]
fn cpus_whose_files_are_missing_are_said_and_claim_no_wait() {
    let Some(folder) = found("lttng-one-of-four-cpus.tar.xz", "CPUs without a file are said") else { return };
    let info = document(folder.path(), &["info", "."]);
    assert_eq!(codes(&info), ["cpus_unrecorded"], "{info}");
    let text = list(&info["problems"])[0]["text"].as_str().expect("a text");
    assert!(text.contains("CPUs 1-3 were not recorded, though 469 wake-ups"), "{text}");
    for ask in [&["path"][..], &["latency", "runqueue", "-a", "-i"]] {
        let (out, _) = run(folder.path(), &[ask, &["."]].concat(), 0);
        assert!(out.contains("the recorded CPUs") && !out.contains("whole machine"), "{out}");
    }
}

#[test]
fn a_cpu_whose_first_packet_is_gone_is_unknown_until_its_own_begin() {
    let Some(folder) = found("lttng-cpu-begins-late.tar.xz", "a CPU that begins late is said") else {
        return;
    };
    let path = document(folder.path(), &["path", "--tid", "1901", "."]);
    assert!(codes(&path).contains(&"begin_missing"), "{path}");
    let losses: Vec<_> = list(&path["losses"]).iter().map(|loss| loss["cpu"].as_u64()).collect();
    assert_eq!(losses, [Some(2)], "{path}");
    // The file claims 1 001 167 239 ns of waiting for a CPU, which no record proves.
    assert!(time(folder.path(), 1901, "runnable") < 100_000);
    assert!(time(folder.path(), 1901, "unknown") > 1_000_000_000);
}

#[test]
fn own_states_by_an_older_lttng_are_read_as_such() {
    let Some(folder) = found("lttng-2.10-on-4.15-raw-states.tar.xz", "own states of tasks are read") else {
        return;
    };
    let info = document(folder.path(), &["info", "."]);
    assert_eq!(codes(&info), Vec::<&str>::new(), "{info}");
    let all = document(folder.path(), &["path", "."]);
    let thread =
        |tid: u64| list(&all["threads"]).iter().find(|thread| thread["tid"] == tid).expect("a thread");
    let times = [(8, "running_ns", 1_127_938), (8, "runnable_ns", 4_143_462), (302, "runnable_ns", 88_508)];
    for (tid, key, ns) in times {
        assert_eq!(thread(tid)[key], ns, "{tid} {key}");
    }
}

#[test]
fn a_cpu_that_perf_did_not_record_is_said_and_claims_no_wait() {
    let Some(folder) = found("perf-one-cpu.data.xz", "a CPU left out by perf is said") else { return };
    let info = document(folder.path(), &["info", "file"]);
    assert!(codes(&info).contains(&"cpus_unrecorded"), "{info}");
    // The file seems to have them wait for a CPU for 72 ms and 101 ms. The second was pushed off its CPU by recorded threads,
    // and may have gone on elsewhere.
    assert!(time(folder.path(), 15, "runnable") < 1_000_000);
    let waits = segments(folder.path(), 7664, "runnable");
    assert!(waits.iter().all(|(_, basis)| basis == "ambiguous"), "{waits:?}");
    assert!(time(folder.path(), 7664, "unknown") > 60_000_000);
}

#[test]
fn before_the_first_tracepoint_nothing_is_known() {
    let Some(folder) =
        found("perf-a-first-tracepoint-late.data.xz", "time before the first event is not known")
    else {
        return;
    };
    assert!(time(folder.path(), 8815, "running") <= 940_600);
}

#[test]
fn traces_without_the_kernels_switches_are_refused_with_what_they_hold() {
    for (name, holds) in [
        ("ust-only.tar.xz", "holds traces of programs only (LTTng-UST)"),
        ("kernel-without-switches.tar.xz", "holds no switches of threads (it holds "),
    ] {
        let Some(folder) = found(name, "a trace without switches is refused with what it holds") else {
            return;
        };
        is_refused_by_each_verb(folder.path(), ".", holds);
    }
}

#[test]
fn a_file_without_switches_is_refused_by_each_verb_with_its_own_reason() {
    for (name, says) in [
        (
            "perf-switch-records.data",
            "holds switch records (perf record --switch-events), which are not read",
        ),
        ("perf-magic-PERFFILE.data", "is a perf.data of perf's first format (PERFFILE), which is not read"),
        ("perf-p-without-events.data.xz", "sched:sched_switch was recorded and did not occur"),
    ] {
        let Some(folder) = found(name, "files without switches are refused") else { return };
        is_refused_by_each_verb(folder.path(), "file", says);
    }
}

#[test]
fn a_trace_that_perf_converted_is_read_without_a_date() {
    let Some(folder) = found("perf-convert-to-ctf.tar.xz", "CTF by perf is read") else { return };
    let info = document(folder.path(), &["info", "."]);
    let events = &info["events"];
    assert_eq!((&events["switch"], &events["waking"]), (&562.into(), &346.into()), "{info}");
    assert_eq!(info["origin_realtime_ns"], Value::Null, "{info}");
    // Each event names its CPU: none is missing.
    assert_eq!(codes(&info), ["states_undescribed", "late_wakings"], "{info}");
}

#[test]
fn a_session_that_babeltrace_wrote_is_lttngs() {
    let Some(folder) = found("babeltrace2-written-session.tar.xz", "a session of babeltrace2 is read") else {
        return;
    };
    let whole = document(folder.path(), &["info", "session"]);
    let kernel = document(folder.path(), &["info", "session/kernel"]);
    assert_eq!(whole["hosts"], kernel["hosts"]);
}

#[test]
fn an_empty_file_is_said_to_be_empty_by_each_verb() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(folder.path().join("perf.data"), []).expect("room");
    is_refused_by_each_verb(folder.path(), "perf.data", "perf.data is empty: nothing was written");
}

fn is_refused_by_each_verb(folder: &Path, file: &str, says: &str) {
    for verb in [
        &["path", file][..],
        &["info", file],
        &["latency", "runqueue", "-i", file],
        &["export", "--format", "perfetto", "-o", "out", file],
    ] {
        let (out, error) = run(folder, verb, 3);
        assert!(out.is_empty() && error.contains(says), "{verb:?}: {out}{error}");
    }
}
