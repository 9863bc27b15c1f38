//! Real traces without a stream, or without a stream's first packet.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use wakepath_event::{Damage, EventKind, EventSource, RecordingFormat};
use wakepath_import::{Lttng, TraceDat};
use wakepath_wait_graph::Builder;

/// The folder with real traces.
fn traces() -> Option<PathBuf> {
    let folder = std::env::var_os("WAKEPATH_TRACES").map(PathBuf::from);
    if folder.is_none() {
        println!("skipped: not possible here: WAKEPATH_TRACES names no folder of traces to shorten");
    }
    folder
}

/// The reasons to doubt the numbers.
fn marks(file: &impl EventSource<Damage = Damage>) -> Vec<String> {
    let (mut builder, mut marks) = (Builder::default(), Vec::new());
    let damages = file.for_each(|event| {
        if matches!(event.kind, EventKind::Loss { .. } | EventKind::Unrecorded) {
            marks.push(format!("CPU {}: {:?}", event.cpu.0, event.kind));
        }
        builder.push(event);
    });
    marks.extend(damages.iter().map(|damage| format!("{:?}", damage.kind)));
    marks.push(format!("{} switches missing", builder.finish().counts().missing_switches));
    marks.sort();
    marks
}

/// The packets' ends in an LTTng stream, bytes: `packet_size` stands 56 bytes after a packet's begin.
fn packet_ends(bytes: &[u8]) -> Vec<usize> {
    let mut ends = vec![0];
    while let Some(size) = ends.last().and_then(|end| bytes.get(end + 56..end + 64)?.first_chunk()) {
        ends.push(ends[ends.len() - 1] + (u64::from_le_bytes(*size) / 8) as usize);
    }
    ends.split_off(1)
}

/// LTTng's kernel traces with several streams.
const LTTNG: [&str; 6] = [
    "lttng-imbalance/ctf/kernel",
    "lttng-mutex/ctf/kernel",
    "lttng-pipeline/ctf/kernel",
    "lttng-rpc-local/ctf/kernel",
    "lttng-ust-app/ctf/kernel",
    "many-threads",
];

#[test]
fn a_stream_of_lttng_that_is_left_out_or_begins_late_is_noticed() {
    let Some(folder) = traces() else { return };
    let mut shortened = 0;
    for trace in LTTNG {
        let copy = tempfile::tempdir().expect("a folder");
        let mut streams = BTreeMap::new();
        for entry in fs::read_dir(folder.join(trace)).expect("a trace") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_owned();
            if path.is_file() {
                let bytes = fs::read(&path).expect("a file");
                fs::write(copy.path().join(&name), &bytes).expect("room");
                if name != "metadata" {
                    streams.insert(name, bytes);
                }
            }
        }
        assert!(streams.len() > 1, "{trace}");
        let read = || marks(&Lttng::open(copy.path()).expect("a trace"));
        let whole = read();
        for (name, bytes) in &streams {
            let path = copy.path().join(name);
            fs::remove_file(&path).expect("a file");
            assert_ne!(read(), whole, "{trace} without {name:?}");
            let ends = packet_ends(bytes);
            assert_eq!(ends.last(), Some(&bytes.len()), "{trace}: the packets of {name:?}");
            // A stream with a single packet is left out with it.
            if ends.len() > 1 {
                fs::write(&path, &bytes[ends[0]..]).expect("room");
                assert_ne!(read(), whole, "{trace} without the first packet of {name:?}");
                shortened += 1;
            }
            fs::write(&path, bytes).expect("room");
        }
    }
    assert!(shortened >= 8, "{shortened} streams with several packets");
}

/// The entries in a version 6 file's CPU table: a position and a size each.
fn table(file: &[u8], cpus: usize) -> Vec<usize> {
    let tag = b"flyrecord\0";
    let at = file.windows(tag.len()).position(|part| part == tag).expect("a table") + tag.len();
    (0..cpus).map(|cpu| at + 16 * cpu).collect()
}

#[test]
fn a_cpu_without_its_pages_is_noticed_in_a_trace_dat() {
    let Some(folder) = traces() else { return };
    for trace in ["lttng-imbalance", "lttng-mutex", "lttng-pipeline"] {
        let copy = tempfile::tempdir().expect("a folder");
        let file = copy.path().join("six.dat");
        // Without compression, in a version whose table is easily changed.
        let converted = Command::new("trace-cmd")
            .args(["convert", "--file-version", "6", "-i"])
            .arg(folder.join(trace).join("trace.dat"))
            .arg("-o")
            .arg(&file)
            .output();
        let Ok(output) = converted else {
            println!("skipped: not possible here: trace-cmd is not installed: whether a CPU is missed");
            return;
        };
        assert!(output.status.success(), "{output:?}");
        let whole = fs::read(&file).expect("a file");
        let read = |bytes: &[u8]| TraceDat::from_source(bytes, Path::new("a.dat")).map(|file| marks(&file));
        let all = read(&whole).expect("a file");
        let word = |at: usize| u64::from_le_bytes(*whole[at..].first_chunk().expect("a word"));
        for (cpu, entry) in table(&whole, 2).into_iter().enumerate() {
            let (from, size) = (word(entry), word(entry + 8));
            assert!(size > 8192, "{trace}: {size} bytes of CPU {cpu}");
            for (what, from, size) in [("all", from, 0), ("the first page", from + 4096, size - 4096)] {
                let mut bytes = whole.clone();
                bytes[entry..entry + 8].copy_from_slice(&from.to_le_bytes());
                bytes[entry + 8..entry + 16].copy_from_slice(&size.to_le_bytes());
                let part = read(&bytes).expect("a file");
                println!("{trace} CPU {cpu} without {what}: noticed: {}", part != all);
                // Pages have no numbers, but the kernel counted the events.
                assert!(part != all, "{trace}, CPU {cpu} without {what}");
            }
        }
    }
}
