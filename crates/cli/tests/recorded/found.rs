//! Public files that were once misread, with their right values. They are found through `WAKEPATH_FOUND`.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use wakepath_harness::live::{document, list, not_possible};

/// An unpacked file from that folder, in a folder of its own.
fn found(name: &str, shows: &str) -> Option<tempfile::TempDir> {
    let Some(folder) = std::env::var_os("WAKEPATH_FOUND").map(PathBuf::from) else {
        not_possible("WAKEPATH_FOUND names no folder", shows);
        return None;
    };
    let into = tempfile::tempdir().expect("a temporary directory");
    let mut tar = Command::new("tar");
    let unpacked = tar.arg("-xJf").arg(folder.join(name)).arg("-C").arg(into.path()).status().expect("tar");
    assert!(unpacked.success(), "{name} cannot be unpacked");
    Some(into)
}

/// A document's problems, by their codes.
fn codes(document: &Value) -> Vec<&str> {
    list(&document["problems"]).iter().filter_map(|problem| problem["code"].as_str()).collect()
}

/// A thread's time in segments of this kind, ns.
fn time(folder: &Path, tid: &str, kind: &str) -> u64 {
    let path = document(folder, &["path", "--tid", tid, "."]);
    let parts = list(&path["contributors"]).iter().filter(|part| part["kind"] == kind);
    parts.map(|part| part["total_ns"].as_u64().expect("a time")).sum()
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
    assert!(time(folder.path(), "1901", "runnable") < 100_000);
    assert!(time(folder.path(), "1901", "unknown") > 1_000_000_000);
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
