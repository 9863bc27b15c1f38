//! Events that are found before they are asked for.
//!
//! Where an event begins is known when the one before it was seen to its end, and that takes a chain of
//! loads, each waiting for the one before. Going ahead over events whose size their class fixes keeps
//! that chain in registers, and what is done with the events beside it.

use super::head::HeadShape;
use super::plans::Sizes;
use crate::plan::Registers;

/// An event that was passed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FoundEvent {
    pub class: u32,
    pub stamp: u64,
    /// The bit where its fields begin.
    pub at: u64,
}

/// The number of events found at once: few enough to stay in the nearest cache.
const MAX_AHEAD: usize = 64;

/// Events of one packet in a row, all of them wholly in sight.
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

    /// Goes over events from bit `at` on; `stamp` is that of the event before. Stops at an event whose size is not
    /// fixed, whose header is unusual or which is not all in sight, or when it found enough. Returns the bit of that
    /// event, and the stamp of the event before it.
    pub fn scan(
        &mut self,
        (head, sizes): (&HeadShape, &Sizes),
        (bytes, end): (&[u8], u64),
        (mut at, mut stamp): (u64, u64),
        registers: &mut Registers,
    ) -> (u64, u64) {
        self.clear();
        let end = end.min(bytes.len() as u64 * 8);
        // Whether the event found last gives its place to a next one of the row.
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
            // The first event stays, so that a stream begins where it begins.
            in_row = if size.wanted { size.in_row && index > 0 } else { in_row };
            self.len = index + usize::from(size.wanted || index < self.len);
            (at, stamp) = (behind, heading.stamp);
        }
        (at, stamp)
    }
}
