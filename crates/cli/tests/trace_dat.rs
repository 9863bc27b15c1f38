//! Files of trace-cmd, asked like recordings of our own.

use std::process::{Command, Output};

use wakepath_harness::live::WAKEPATH;
use wakepath_import::trace_cmd::synthetic::File;

fn wakepath(folder: &std::path::Path, arguments: &[&str]) -> Output {
    Command::new(*WAKEPATH).args(arguments).current_dir(folder).output().expect("wakepath")
}

/// Thread 7 wakes 8 on the other CPU, and waits until that wakes it.
fn meeting() -> File {
    File::default()
        .switch((100_000, 0, 0, 0), 0, 7, "here")
        .waking((200_000, 0, 7, 7), 8)
        .switch((300_000, 0, 7, 7), 1, 0, "swapper/0")
        .switch((210_000, 1, 0, 0), 0, 8, "there")
        .waking((800_000, 1, 8, 8), 7)
        .switch((900_000, 1, 8, 8), 1, 0, "swapper/1")
        .switch((810_000, 0, 0, 0), 0, 7, "here")
        .switch((1_000_000, 0, 7, 7), 16, 0, "swapper/0")
}

#[test]
fn a_path_leads_to_who_ended_the_wait_in_either_version() {
    let folder = tempfile::tempdir().expect("a folder");
    for version in [6, 7] {
        std::fs::write(folder.path().join("trace.dat"), meeting().version(version).bytes()).expect("room");
        let output = wakepath(folder.path(), &["path", "trace.dat", "--tid", "7", "--json"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(document["clock"]["name"], "monotonic");
        let segments = document["segments"].as_array().expect("segments");
        let told: Vec<_> = segments
            .iter()
            .map(|one| {
                (one["from_ns"].as_i64(), one["to_ns"].as_i64(), one["kind"].as_str(), one["tid"].as_i64())
            })
            .collect();
        assert!(told.contains(&(Some(200_000), Some(700_000), Some("running"), Some(8))), "{document:#}");
        let latency = wakepath(folder.path(), &["latency", "-i", "trace.dat", "runqueue"]);
        let said = [latency.stdout, latency.stderr].concat();
        assert!(latency.status.success(), "{}", String::from_utf8_lossy(&said));
    }
}

#[test]
fn what_is_not_read_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    for (file, says) in [
        (meeting().clock("counter"), "which counts events and does not measure time: record with -C mono"),
        (meeting().compressed("lz4"), "trace-cmd convert --compression none"),
        (File::default(), "record the switches with trace-cmd record -C mono"),
    ] {
        std::fs::write(folder.path().join("trace.dat"), file.bytes()).expect("room");
        let output = wakepath(folder.path(), &["path", "trace.dat"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains(says), "{said}");
    }
}
