//! Perfetto's traces: an export is read back as it was.

use std::path::Path;

use serde_json::Value;
use wakepath_harness::live::{document, list, run};
use wakepath_import::trace_cmd::synthetic::File;

use crate::trace_dat::meeting;

/// Behind that meeting, a third thread wakes 8 and is pushed off its CPU by it.
fn pushed_off() -> File {
    meeting()
        .switch((950_000, 1, 0, 0), 0, 9, "third")
        .waking((1_010_000, 1, 9, 9), 8)
        .switch((1_050_000, 1, 9, 9), 0, 8, "there")
        .switch((1_100_000, 1, 8, 8), 1, 9, "third")
}

/// A path's pieces: time, kind and thread.
fn pieces(folder: &Path, file: &str, tid: &str) -> Vec<[Value; 4]> {
    let path = document(folder, &["path", file, "--tid", tid]);
    let piece = |one: &Value| ["from_ns", "to_ns", "kind", "tid"].map(|key| one[key].clone());
    list(&path["segments"]).iter().map(piece).collect()
}

#[test]
fn an_export_to_perfetto_is_read_back_with_the_same_paths() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    std::fs::write(folder.join("trace.dat"), pushed_off().bytes()).expect("room");
    run(folder, &["export", "--format", "perfetto", "-o", "out", "trace.dat"], 0);
    let out =
        ["out", "out.perfetto-trace"].into_iter().find(|name| folder.join(name).exists()).expect("a file");
    // An export has the wake-ups that ended a wait in the recording: thread 8 begins with its first turn.
    // Without a recorded exit, an export shows a dead thread as pushed off its CPU.
    let (read, all) = (pieces(folder, out, "7"), pieces(folder, "trace.dat", "7"));
    assert_eq!(read[..all.len()], all);
    let (read, all) = (pieces(folder, out, "8"), pieces(folder, "trace.dat", "8"));
    assert_eq!(read[..3], all[1..4]);
    let switches = |file| document(folder, &["info", file])["events"]["switch"].clone();
    assert_eq!((switches(out), switches("trace.dat")), (9.into(), 9.into()));
}
