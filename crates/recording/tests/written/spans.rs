//! The file of spans beside the streams: it reads as written, its room is bounded, and old recordings have none.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use wakepath_event::{EventSource as _, RecordingFormat as _};
use wakepath_recording::{FramesEnd, MAX_FRAME_BYTES, Options, Recording, WriteError, Writer, rotate};

use crate::made;

fn create(path: &Path, most_bytes: Option<u64>) -> Writer {
    let options = Options { most_bytes, ..made::options() };
    Writer::create(path, &made::host(), &options).expect("a new recording")
}

fn read(path: &Path) -> (Vec<Vec<u8>>, FramesEnd) {
    let recording = Recording::open(path).expect("a recording");
    assert_eq!(recording.for_each(|_| {}), [], "the spans are no problem of the streams");
    let mut frames = recording.spans().expect("readable").expect("it has spans");
    // More than any test file has.
    let messages = frames.by_ref().take(100).collect();
    assert_eq!(frames.next(), None, "the file ends");
    (messages, frames.end().expect("an end").clone())
}

#[test]
fn messages_are_read_as_they_were_written() {
    let (_folder, path) = made::place();
    let writer = create(&path, None);
    let mut spans = writer.spans().expect("a file");
    assert_eq!(read(&path), (vec![], FramesEnd::Whole), "none came yet");
    let long = vec![7; 70_000];
    for message in [b"first", &long[..], b"", b"last"] {
        spans.append(message).expect("room");
    }
    assert_eq!(read(&path), (vec![b"first".to_vec(), long, b"last".to_vec()], FramesEnd::Whole));
    let file = path.join("spans");
    let bytes = fs::read(&file).expect("the file");
    assert_eq!(bytes[..9], *b"\0\0\0\x05first", "as the Collector's file exporter writes it");
    assert_eq!((spans.bytes(), writer.bytes()), (bytes.len() as u64, bytes.len() as u64));
    assert_eq!(fs::metadata(&file).expect("the file").permissions().mode() & 0o7777, 0o600);
    fs::write(&file, &bytes[..bytes.len() - 1]).expect("cut");
    let (messages, end) = read(&path);
    assert_eq!(messages.len(), 2);
    assert!(matches!(end, FramesEnd::Torn { offset: 70_013, .. }), "{end:?}");
}

#[test]
fn a_recording_without_spans_has_none() {
    let (_folder, path) = made::place();
    made::record(&path, &[], 1);
    assert!(Recording::open(&path).expect("a recording").spans().expect("nothing to fail").is_none());
    fs::create_dir(path.join("spans")).expect("a directory");
    let recording = Recording::open(&path).expect("its streams are as before");
    assert!(recording.spans().is_err(), "only a regular file is read");
}

#[test]
fn spans_take_a_quarter_of_the_room_at_most_and_leave_the_rest_to_the_streams() {
    let (_folder, path) = made::place();
    let writer = create(&path, Some(4000));
    let mut spans = writer.spans().expect("a file");
    spans.append(&[1; 596]).expect("600 of 1000 bytes");
    let error = spans.append(&[2; 397]).expect_err("1001 bytes");
    assert!(matches!(error, WriteError::SpansLimit { limit: 1000 }) && error.is_out_of_room(), "{error}");
    spans.append(&[3; 396]).expect("1000 bytes");
    assert_eq!(writer.bytes(), 1000, "what was refused is not counted");
    let (messages, end) = read(&path);
    assert_eq!((messages, end), (vec![vec![1; 596], vec![3; 396]], FramesEnd::Whole));
}

#[test]
fn spans_do_not_take_what_is_kept_for_the_end_of_the_streams() {
    let (_folder, path) = made::place();
    let options = Options { most_bytes: Some(4000), kept_for_end: 3500, ..made::options() };
    let writer = Writer::create(&path, &made::host(), &options).expect("a new recording");
    let mut spans = writer.spans().expect("a file");
    let error = spans.append(&[1; 600]).expect_err("only 500 bytes are not kept for the end");
    assert!(matches!(error, WriteError::SizeLimit { limit: 4000 }), "{error}");
}

#[test]
fn a_message_that_no_reader_accepts_is_refused() {
    let (_folder, path) = made::place();
    let mut spans = create(&path, None).spans().expect("a file");
    let mut message = vec![5; MAX_FRAME_BYTES + 1];
    let error = spans.append(&message).expect_err("too long");
    assert!(matches!(error, WriteError::LargeFrame { bytes, .. } if bytes == message.len()), "{error}");
    message.pop();
    spans.append(&message).expect("the longest");
    assert_eq!(read(&path), (vec![message], FramesEnd::Whole));
}

#[test]
fn a_recording_with_spans_moves_aside_and_is_deleted_as_any_other() {
    let (folder, path) = made::place();
    for round in 0..3 {
        create(&path, None).spans().expect("a file").append(&[round]).expect("room");
        assert!(rotate(&path).expect("a recording"));
        let old = folder.path().join("wakepath.rec.old");
        assert_eq!(read(&old).0, [[round]]);
        assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 1);
    }
    // A directory that only has this name is a user's own.
    made::record(&path, &[], 1);
    fs::create_dir(path.join("spans")).expect("a directory");
    assert!(rotate(&path).expect_err("something foreign").to_string().contains("it holds spans"));
}

#[test]
fn needs_root_spans_leave_the_disk_its_reserve() {
    let (folder, _) = made::place();
    let small = folder.path().join("small");
    fs::create_dir(&small).expect("a directory");
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"]).arg(&small).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        let required = std::env::var_os("WAKEPATH_REQUIRE_LIVE").is_some_and(|value| value == "1");
        assert!(!required, "a small file system cannot be mounted");
        eprintln!("skipped: cannot mount; it would have shown that spans leave a disk its reserve");
        return;
    }
    let path = small.join("wakepath.rec");
    let options = Options { least_free_percent: Some(50), ..made::options() };
    let writer = Writer::create(&path, &made::host(), &options).expect("a new recording");
    let mut spans = writer.spans().expect("a file");
    let results: Vec<_> = (0..60).map(|_| spans.append(&[7; 4092])).collect();
    let (written, bytes) = (read(&path).0.len() as u64, spans.bytes());
    drop((writer, spans));
    assert!(Command::new("umount").arg(&small).status().expect("umount").success());
    let error = results.into_iter().find_map(Result::err).expect("half of it");
    assert!(matches!(error, WriteError::DiskReserve { least: 131_072, .. }), "{error}");
    assert!(written > 10 && bytes == written * 4096 && bytes <= 131_072, "{written} messages");
}
