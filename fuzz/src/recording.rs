//! A directory, opened as a recording and read to its end.
//!
//! The input is described in `fuzz/src/directory.rs`.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use wakepath_clock::Stamp;
use wakepath_event::{EventSource, RecordingFormat};
use wakepath_recording::Recording;

use crate::directory::Scratch;

/// The largest number of problems in a stream, and one more with the number of the others.
const MAX_PROBLEMS: usize = 101;

/// Makes the directory, and reads it if it can be opened at all.
///
/// # Panics
/// When a law is broken.
pub fn check(input: &[u8]) {
    thread_local!(static SCRATCH: Scratch = Scratch::new());
    let (path, bytes) = SCRATCH.with(|scratch| scratch.fill(input));
    let recording = match Recording::open(&path) {
        Ok(recording) => recording,
        Err(refused) => return assert!(!refused.to_string().is_empty()),
    };
    let streams = recording.streams().len();
    let (events, digest, problems) = read(&recording);
    // A record takes at least 16 bytes and has at most one loss before it. Behind a stream's last record,
    // each packet (80 bytes) and the stream's end may add another.
    assert!(events <= bytes / 8 + streams, "{events} events of {bytes} bytes in {streams} streams");
    assert!(problems.len() <= MAX_PROBLEMS * streams + 8, "{} problems", problems.len());
    assert_eq!(read(&recording), (events, digest, problems), "the same bytes, the same events");
    let of_each: usize = (0..streams)
        .map(|stream| {
            let (mut events, mut at) = (0, Stamp::MIN);
            recording.for_each_of(stream, |event| {
                assert!(event.at >= at, "stamps do not go back");
                at = event.at;
                events += 1;
            });
            events
        })
        .sum();
    assert_eq!(of_each, events, "all streams together have the events of each");
}

/// The number of events, their digest, and the problems.
fn read(recording: &Recording) -> (usize, u64, Vec<String>) {
    let (mut events, mut at, mut digest) = (0, Stamp::MIN, DefaultHasher::new());
    let problems = recording.for_each(|event| {
        assert!(event.at >= at, "stamps do not go back");
        at = event.at;
        events += 1;
        (event.at, event.cpu, event.current, std::mem::discriminant(&event.kind)).hash(&mut digest);
    });
    (events, digest.finish(), problems.iter().map(|problem| format!("{problem:?}")).collect())
}
