//! trace-cmd's files, read like wakepath's own recordings.

use wakepath_harness::live::{document, list, run};
use wakepath_import::trace_cmd::synthetic::File;

/// Thread 7 wakes 8 on the other CPU, and waits until 8 wakes it.
pub(super) fn meeting() -> File {
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
        let path = document(folder.path(), &["path", "trace.dat", "--tid", "7"]);
        assert_eq!(path["clock"]["name"], "monotonic");
        let is_there = list(&path["segments"]).iter().any(|one| {
            (&one["from_ns"], &one["to_ns"], &one["kind"], &one["tid"])
                == (&200_000.into(), &700_000.into(), &"running".into(), &8.into())
        });
        assert!(is_there, "{path}");
        run(folder.path(), &["latency", "-i", "trace.dat", "runqueue"], 0);
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
        let (_, said) = run(folder.path(), &["path", "trace.dat"], 3);
        assert!(said.contains(says), "{said}");
    }
}
