//! Another tracer's file, from its head to its events' graph.

use std::fmt::Display;

use wakepath_event::{Damage, EventSource};
use wakepath_wait_graph::Builder;

/// Reads the file called `name` with this number of bytes. Each makes at most `events_per_byte`
/// events.
///
/// # Panics
/// When a law is broken.
pub fn check<T: EventSource<Damage = Damage>>(
    opened: Result<T, impl Display>,
    name: &str,
    bytes: usize,
    events_per_byte: u64,
) {
    let file = match opened {
        Ok(file) => file,
        Err(error) => return assert!(error.to_string().contains(name), "{error}"),
    };
    let mut builder = Builder::default();
    let (mut events, mut last) = (0_u64, 0);
    let damages = file.for_each(|event| {
        assert!(event.at.ns() >= last, "by time");
        (events, last) = (events + 1, event.at.ns());
        builder.push(event);
    });
    builder.finish();
    assert!(events <= 1000 + events_per_byte * bytes as u64, "{bytes} bytes make {events} events");
    for damage in &damages {
        assert_eq!(damage.file, name);
    }
    let mut again = 0;
    let same = file.for_each(|_| again += 1);
    assert_eq!((again, same), (events, damages), "the same again");
}
