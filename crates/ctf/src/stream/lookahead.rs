//! Events found before the reader asks for them.
//!
//! An event's beginning is known once the event before is read to its end: a chain of loads, each waiting for the
//! load before. Going ahead over events with fixed sizes keeps this chain in registers, and the work on the events
//! beside it.

use super::head::Heading;
use super::plans::{Need, Sizes};

/// A passed event.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FoundEvent {
    pub class: u32,
    pub stamp: u64,
    /// Its fields' first byte, in the bytes in sight.
    pub begin: usize,
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

    /// Walks over events from bit `at` on, with headers that `head` reads; `stamp` is the previous event's. `bytes` end
    /// with the packet's whole bytes in sight. Stops at an event without a known size or not wholly in sight, or after
    /// enough events. Returns this event's bit, and the stamp before it.
    #[inline]
    pub fn scan(
        &mut self,
        head: impl Fn(&[u8], u64) -> Option<(Heading, usize)>,
        sizes: &Sizes,
        bytes: &[u8],
        (at, mut stamp): (u64, u64),
    ) -> (u64, u64) {
        let first = at.div_ceil(8) as usize;
        let mut rest = bytes.get(first..).unwrap_or_default();
        let (whole, mut len) = (rest.len(), 0);
        // Whether the next event in the row replaces the event found last.
        let mut in_row = false;
        while len < MAX_AHEAD
            && let Some((heading, header)) = head(rest, stamp)
            && let Some(size) = sizes.get(heading.id)
            && let Some((_, behind)) = rest.split_at_checked(header + usize::from(size.bytes))
        {
            let begin = bytes.len() - rest.len() + header;
            let found = FoundEvent { class: size.class, stamp: heading.stamp, begin };
            match size.need {
                Need::None => {}
                Need::LastInRow if in_row => self.found[(len - 1) % MAX_AHEAD] = found,
                need => {
                    self.found[len % MAX_AHEAD] = found;
                    // The first event stays, so that a stream keeps its beginning.
                    in_row = need == Need::LastInRow && len > 0;
                    len += 1;
                }
            }
            (rest, stamp) = (behind, heading.stamp);
        }
        (self.next, self.len) = (0, len);
        (if rest.len() < whole { (bytes.len() - rest.len()) as u64 * 8 } else { at }, stamp)
    }
}
