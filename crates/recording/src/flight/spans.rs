//! The last seconds' spans, as the messages in which they came.

use std::collections::VecDeque;

use crate::{SpanWriter, WriteError};

/// A flight recorder's memory for spans.
#[derive(Debug)]
pub struct FlightSpans {
    window_ns: u64,
    max_bytes: usize,
    /// Each message's arrival, ns, and its bytes.
    messages: VecDeque<(u64, Box<[u8]>)>,
    bytes: usize,
    /// The arrival of the last message dropped for lack of memory, ns.
    short_until: Option<u64>,
}

/// A message's memory beside its bytes.
const OVERHEAD_BYTES: usize = 48;

impl FlightSpans {
    /// An empty memory for the last `window_ns`, with at most `max_bytes`.
    pub const fn new(window_ns: u64, max_bytes: usize) -> Self {
        Self { window_ns, max_bytes, messages: VecDeque::new(), bytes: 0, short_until: None }
    }

    /// Takes a message that arrived at `now`, a monotonic stamp, ns.
    pub fn push(&mut self, now: u64, message: &[u8]) {
        self.bytes += message.len() + OVERHEAD_BYTES;
        self.messages.push_back((now, message.into()));
        let oldest = now.saturating_sub(self.window_ns);
        while let Some((at, first)) = self.messages.front()
            && (*at < oldest || self.bytes > self.max_bytes)
        {
            if *at >= oldest {
                self.short_until = Some(*at);
            }
            self.bytes -= first.len() + OVERHEAD_BYTES;
            self.messages.pop_front();
        }
    }

    /// The memory in use, bytes.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether messages that arrived since `from` were dropped for lack of memory.
    fn is_short_since(&self, from: u64) -> bool {
        self.short_until.is_some_and(|until| until >= from)
    }

    /// Writes all messages in memory. Returns whether messages since `from` were dropped for lack of memory.
    ///
    /// # Errors
    /// When the messages cannot be written.
    pub fn write(&self, writer: &mut SpanWriter, from: u64) -> Result<bool, WriteError> {
        self.messages.iter().try_for_each(|(_, message)| writer.append(message))?;
        Ok(self.is_short_since(from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HostIdentity, Options, Writer};

    #[test]
    fn messages_go_by_age_and_by_size() {
        let mut spans = FlightSpans::new(100, 4 * (10 + OVERHEAD_BYTES));
        for at in [0, 50, 90, 120, 150, 160] {
            spans.push(at, &[1; 10]);
        }
        let kept = |spans: &FlightSpans| spans.messages.iter().map(|(at, _)| *at).collect::<Vec<_>>();
        assert_eq!(kept(&spans), [90, 120, 150, 160]);
        assert_eq!((spans.bytes(), spans.short_until), (4 * (10 + OVERHEAD_BYTES), None), "50 was too old");
        spans.push(161, &[1; 10]);
        assert_eq!((kept(&spans).len(), spans.short_until), (4, Some(90)), "too much");
        spans.push(200, &[1; 1000]);
        assert_eq!((kept(&spans).len(), spans.bytes()), (0, 0), "a message that has no room at all");
    }

    #[test]
    fn each_shortage_counts_from_its_own_time_on() {
        let mut spans = FlightSpans::new(100, 2 * (10 + OVERHEAD_BYTES));
        assert!(!spans.is_short_since(0), "nothing was dropped");
        // A message's arrival, and the last beginning from which a window lacks a message for lack of memory.
        for (at, until) in [
            (10, None),
            (20, None),
            (30, Some(10)),
            (40, Some(20)),
            // The messages before were too old.
            (200, Some(20)),
            (210, Some(20)),
            (220, Some(200)),
            // An exact fit, once the others are too old.
            (400, Some(200)),
        ] {
            spans.push(at, &[1; 10]);
            assert_eq!(spans.short_until, until, "at {at}");
            for (from, is_short) in until.into_iter().flat_map(|until| [(until, true), (until + 1, false)]) {
                assert_eq!(spans.is_short_since(from), is_short, "from {from}, at {at}");
            }
        }
    }
    #[test]
    fn all_messages_in_memory_are_written_and_a_shortage_in_their_window_is_said() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let host = HostIdentity {
            name: "web3".to_owned(),
            boot_id: "67e2237c-99e6-488f-b6e0-82e34227d61c".to_owned(),
            kernel_release: "6.18.0".to_owned(),
            machine: "x86_64".to_owned(),
            cpus: 1,
        };
        let mut spans = FlightSpans::new(100, 2 * (10 + OVERHEAD_BYTES));
        for at in [10, 20, 30] {
            spans.push(at, &[at as u8; 10]);
        }
        // The window's beginning, and whether it lacks a message: the first has gone.
        for (from, is_short) in [(10, true), (11, false)] {
            let path = folder.path().join(format!("from-{from}"));
            let writer = Writer::create(&path, &host, &Options::new("0", "")).expect("a place");
            let mut file = writer.spans().expect("a file");
            assert_eq!(spans.write(&mut file, from).expect("room"), is_short);
            let bytes = std::fs::read(path.join(crate::spans::SPANS)).expect("a file");
            let has = |message: u8| bytes.windows(10).any(|part| part == [message; 10]);
            assert_eq!([10, 20, 30].map(has), [false, true, true]);
        }
    }
}
