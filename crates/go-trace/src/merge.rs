//! Merges threads' events by time, and by the trace's own counters.
//!
//! Each start of a goroutine, and each event that makes it ready, has a number that counts these events in a generation. An event whose number is
//! not due waits for the one before it, which another thread wrote:
//!
//! ```text
//! thread 1   10: makes G ready (1)   14: makes G ready (3)
//! thread 2   10: runs G (2), and G parks
//! merged     ready (1), runs (2), ready (3)
//! ```

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use crate::events::{Event, Stream};

/// The longest time for which an event waits for one with a later stamp, in units of the stamps: 128 µs. Two CPUs' clocks agree far better: an
/// event that is due after this time is missing.
const MAX_WAIT: u64 = 2000;

/// Emits all events: the thread, the event, and the time at which it is due.
pub(crate) fn merge(streams: &[Stream], mut emit: impl FnMut(u64, &Event, u64)) {
    let mut merge = Merge {
        streams,
        next: vec![0; streams.len()],
        heads: BinaryHeap::new(),
        due: HashMap::new(),
        held: HashMap::new(),
        first_held: BinaryHeap::new(),
    };
    for stream in 0..streams.len() {
        merge.push(stream);
    }
    let mut now = 0;
    while let Some((stream, event, counted)) = merge.pop() {
        now = event.stamp.max(now);
        emit(streams[stream].thread, event, now);
        merge.next[stream] += 1;
        merge.push(stream);
        if let Some((goroutine, count)) = counted {
            merge.due.insert(goroutine, count.wrapping_add(1));
            // Another thread's event may be due now.
            if let Some(waiting) = merge.held.remove(&(goroutine, count.wrapping_add(1))) {
                merge.push(waiting);
            }
        }
    }
}

struct Merge<'a> {
    streams: &'a [Stream],
    /// By stream, the place of its next event.
    next: Vec<usize>,
    /// The streams whose next event may be due, the earliest first.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    /// By goroutine, the number that is due; 1 for the others.
    due: HashMap<u64, u64>,
    /// The streams that wait, by goroutine and number.
    held: HashMap<(u64, u64), usize>,
    /// The same by their next event's stamp, and by its place; some no longer wait.
    first_held: BinaryHeap<Reverse<(u64, usize, usize)>>,
}

/// A stream's next event; its goroutine and number.
type Next<'a> = (usize, &'a Event, Option<(u64, u64)>);

impl<'a> Merge<'a> {
    fn push(&mut self, stream: usize) {
        if let Some(event) = self.event(stream) {
            self.heads.push(Reverse((event.stamp, stream)));
        }
    }

    fn event(&self, stream: usize) -> Option<&'a Event> {
        self.streams[stream].events.get(self.next[stream])
    }

    /// The next event in the order of time among the due events; one that waited too long counts as due.
    fn pop(&mut self) -> Option<Next<'a>> {
        loop {
            let first = self.heads.peek().map(|Reverse((stamp, _))| *stamp);
            if let Some(late) = self.late(first) {
                return Some(late);
            }
            let Reverse((_, stream)) = self.heads.pop()?;
            let event = self.event(stream)?;
            let counted = event.kind.count();
            let is_early = |(goroutine, count): (u64, u64)| count > *self.due.get(&goroutine).unwrap_or(&1);
            match counted.filter(|counted| is_early(*counted)) {
                // Only in a damaged trace do two events have the same number: then the second does not wait.
                Some(number) if !self.held.contains_key(&number) => {
                    self.held.insert(number, stream);
                    self.first_held.push(Reverse((event.stamp, stream, self.next[stream])));
                }
                _ => return Some((stream, event, counted)),
            }
        }
    }

    /// The held event with the earliest stamp, if it waited too long or nothing else is left.
    fn late(&mut self, first: Option<u64>) -> Option<Next<'a>> {
        while let Some(&Reverse((stamp, stream, place))) = self.first_held.peek() {
            let event = self.event(stream)?;
            let counted = event.kind.count();
            let still_waits = self.next[stream] == place
                && counted.is_some_and(|counted| self.held.get(&counted) == Some(&stream));
            if still_waits {
                if first.is_some_and(|first| first <= stamp.saturating_add(MAX_WAIT)) {
                    return None;
                }
                self.held.remove(&counted?);
                self.first_held.pop();
                return Some((stream, event, counted));
            }
            self.first_held.pop();
        }
        None
    }
}
