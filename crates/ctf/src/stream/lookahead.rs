//! Events found before the reader asks for them.
//!
//! An event's beginning is known once the event before is read to its end: a chain of loads, each waiting for the
//! load before. Going ahead over events with fixed sizes keeps this chain in registers, and the work on the events
//! beside it.

use super::head::HeadShape;
use super::plans::Sizes;
use crate::plan::Registers;

/// A passed event.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FoundEvent {
    pub class: u32,
    pub stamp: u64,
    /// The first bit of its fields.
    pub at: u64,
}

/// The number of events found at once: few enough for the nearest cache.
const MAX_AHEAD: usize = 64;

/// A packet's events in a row, all wholly in sight.
#[derive(Debug, Clone)]
pub(super) struct Lookahead {
    found: Box<[FoundEvent; MAX_AHEAD]>,
    next: usize,
    len: usize,
}

impl Default for Lookahead {
    fn default() -> Self {
        Self { found: Box::new([FoundEvent::default(); MAX_AHEAD]), next: 0, len: 0 }
    }
}

impl Lookahead {
    #[inline]
    pub fn pop(&mut self) -> Option<FoundEvent> {
        if self.next == self.len {
            return None;
        }
        let found = self.found[self.next % MAX_AHEAD];
        self.next += 1;
        Some(found)
    }

    /// Forgets all events ahead.
    pub fn clear(&mut self) {
        (self.next, self.len) = (0, 0);
    }

    /// Walks over events from bit `at` on; `stamp` is the previous event's. Stops at an event without a fixed size,
    /// with an unusual header or not wholly in sight, or after enough events. Returns this event's bit, and the stamp
    /// before it.
    pub fn scan(
        &mut self,
        (head, sizes): (&HeadShape, &Sizes),
        (bytes, end): (&[u8], u64),
        (mut at, mut stamp): (u64, u64),
        registers: &mut Registers,
    ) -> (u64, u64) {
        self.clear();
        let end = end.min(bytes.len() as u64 * 8);
        // Whether the next event in the row replaces the event found last.
        let mut in_row = false;
        while self.len < MAX_AHEAD && at < end {
            let Ok((heading, begin)) = head.read(bytes, at, registers, stamp) else { break };
            let Some(size) = sizes.get(heading.id) else { break };
            let behind = begin + u64::from(size.bits);
            if behind > end {
                break;
            }
            let index = self.len - usize::from(in_row & size.in_row);
            self.found[index % MAX_AHEAD] = FoundEvent { class: size.class, stamp: heading.stamp, at: begin };
            // The first event stays, so that a stream keeps its beginning.
            in_row = if size.wanted { size.in_row && index > 0 } else { in_row };
            self.len = index + usize::from(size.wanted || index < self.len);
            (at, stamp) = (behind, heading.stamp);
        }
        (at, stamp)
    }
}
