//! Go programs' execution traces beside the streams: they read as written, their room is bounded, and they go with their recording.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use wakepath_event::{EventSource as _, RecordingFormat as _};
use wakepath_recording::{MAX_GO_TRACES, Options, Recording, WriteError, Writer, rotate};

use crate::made;

fn create(path: &Path, most_bytes: Option<u64>) -> Writer {
    let options = Options { most_bytes, ..made::options() };
    Writer::create(path, &made::host(), &options).expect("a new recording")
}

fn read(path: &Path) -> Vec<(String, Option<Vec<u8>>)> {
    let recording = Recording::open(path).expect("a recording");
    assert_eq!(recording.for_each(|_| {}), [], "the traces are no problem of the streams");
    recording.go_traces().into_iter().map(|file| (file.name, file.bytes.ok())).collect()
}

#[test]
fn traces_are_read_as_they_were_written() {
    let (_folder, path) = made::place();
    let writer = create(&path, None);
    assert_eq!(read(&path), []);
    let [mut first, second] = [0, 1].map(|number| writer.go_trace(number).expect("a file"));
    first.append(b"go 1.26").expect("room");
    first.append(b" trace").expect("room");
    let expected = [("go_trace_0", &b"go 1.26 trace"[..]), ("go_trace_1", b"")];
    assert_eq!(read(&path), expected.map(|(name, bytes)| (name.to_owned(), Some(bytes.to_vec()))));
    assert_eq!((first.bytes(), second.bytes(), writer.bytes()), (13, 0, 13));
    let mode = fs::metadata(path.join("go_trace_0")).expect("the file").permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
    fs::remove_file(path.join("go_trace_0")).expect("it is there");
    fs::create_dir(path.join("go_trace_0")).expect("a directory");
    let names: Vec<_> = read(&path).into_iter().map(|(name, bytes)| (name, bytes.is_some())).collect();
    assert_eq!(
        names,
        [("go_trace_0".to_owned(), false), ("go_trace_1".to_owned(), true)],
        "only regular files"
    );
}

#[test]
fn a_trace_takes_an_eighth_of_the_room_at_most_and_says_when_it_should_end() {
    let (_folder, path) = made::place();
    let writer = create(&path, Some(8000));
    let mut trace = writer.go_trace(0).expect("a file");
    trace.append(&[1; 750]).expect("room");
    assert!(!trace.is_nearly_full());
    trace.append(&[1; 1]).expect("room");
    assert!(trace.is_nearly_full());
    trace.append(&[2; 249]).expect("1000 bytes");
    let error = trace.append(&[3; 1]).expect_err("1001 bytes");
    assert!(matches!(error, WriteError::GoTraceLimit { limit: 1000 }) && error.is_out_of_room(), "{error}");
    assert_eq!((trace.bytes(), writer.bytes()), (1000, 1000));
}

#[test]
fn traces_go_with_their_recording_and_other_files_stay() {
    let (_folder, path) = made::place();
    let with_trace = |name: &str| {
        let _ = fs::remove_dir_all(&path);
        drop(create(&path, None));
        fs::write(path.join(name), "trace").expect("room");
    };
    let last = format!("go_trace_{}", MAX_GO_TRACES - 1);
    for name in ["go_trace_0", &last] {
        with_trace(name);
        let mut old = path.clone().into_os_string();
        old.push(".old");
        let old = Path::new(&old);
        rotate(&path).expect("a recording");
        assert!(old.join(name).exists(), "{}", old.display());
        drop(create(&path, None));
        rotate(&path).expect("the older one is deleted");
        assert!(!old.join(name).exists());
    }
    for name in ["go_trace_64", "go_trace_", "go_trace_00", "go_trace_x"] {
        with_trace(name);
        let error = rotate(&path).expect_err("a file of another").to_string();
        assert!(error.contains(name), "{error}");
    }
}
