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
pub(super) struct Found {
    pub class: u32,
    pub stamp: u64,
    /// The bit where its fields begin.
    pub at: u64,
}

/// Found at once: few enough to stay in the nearest cache.
const MAX_AHEAD: usize = 64;

/// Events of one packet in a row, all of them wholly in sight.
#[derive(Debug, Clone)]
pub(super) struct Ahead {
    found: Box<[Found; MAX_AHEAD]>,
    next: usize,
    len: usize,
}

impl Default for Ahead {
    fn default() -> Self {
        Self { found: Box::new([Found::default(); MAX_AHEAD]), next: 0, len: 0 }
    }
}

impl Ahead {
    #[inline]
    pub fn pop(&mut self) -> Option<Found> {
        if self.next == self.len {
            return None;
        }
        let found = self.found[self.next % MAX_AHEAD];
        self.next += 1;
        Some(found)
    }

    /// Nothing is ahead any more.
    pub fn clear(&mut self) {
        (self.next, self.len) = (0, 0);
    }

    /// Goes over events from bit `at` on, `stamp` being that of the one before. Says at which bit the first
    /// one begins that it leaves, and the stamp of the one before that: because its size is not fixed, its header says something unusual or not
    /// all of it is in sight, or because it found enough.
    pub fn scan(
        &mut self,
        (head, sizes): (&HeadShape, &Sizes),
        (bytes, end): (&[u8], u64),
        (mut at, mut stamp): (u64, u64),
        registers: &mut Registers,
    ) -> (u64, u64) {
        self.clear();
        let end = end.min(bytes.len() as u64 * 8);
        while self.len < MAX_AHEAD && at < end {
            let Ok((heading, begin)) = head.read(bytes, at, registers, stamp) else { break };
            let Some(size) = sizes.get(heading.id) else { break };
            let behind = begin + u64::from(size.bits);
            if behind > end {
                break;
            }
            self.found[self.len] = Found { class: size.class, stamp: heading.stamp, at: begin };
            self.len += usize::from(size.wanted);
            (at, stamp) = (behind, heading.stamp);
        }
        (at, stamp)
    }
}
