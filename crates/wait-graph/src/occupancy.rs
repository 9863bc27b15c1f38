//! A CPU's occupancies: the thread on the CPU at each time.

use wakepath_clock::{Reference, Stamp};

use crate::Occupant;
use crate::chunks::Chunks;
use crate::wait::{pack_occupant, unpack_occupant};

/// A stretch in which a thread, or the idle thread, had a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occupancy {
    /// The first nanosecond.
    pub from: Stamp<Reference>,
    /// The nanosecond after the last.
    pub to: Stamp<Reference>,
    /// The thread on the CPU, if known.
    pub occupant: Occupant,
}

/// All occupancies of a CPU.
#[derive(Debug, Default)]
pub(crate) struct Occupancies {
    packed: Chunks<Packed>,
}

/// An [`Occupancy`] without its end, which is the next beginning.
#[derive(Debug, Clone, Copy)]
#[repr(Rust, packed(4))]
struct Packed {
    from: u64,
    occupant: u32,
}

const _: () = assert!(size_of::<Packed>() == 12);

impl Occupancies {
    pub(crate) const fn new() -> Self {
        Self { packed: Chunks::new() }
    }

    pub(crate) fn push(&mut self, at: Stamp<Reference>, occupant: Occupant) {
        let occupant = pack_occupant(occupant);
        if let Some(last) = self.packed.last_mut() {
            // An occupancy without length is dropped.
            if last.from >= at.ns() {
                last.occupant = occupant;
                return;
            }
            if last.occupant == occupant {
                return;
            }
        }
        self.packed.push(Packed { from: at.ns(), occupant });
    }

    /// The occupancies that tile a window.
    pub(crate) fn tiles(
        &self,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
    ) -> impl Iterator<Item = Occupancy> + '_ {
        self.tiles_until(self.packed.partition_point(|occupancy| occupancy.from <= from.ns()), from, to)
    }

    /// The index of the first occupancy that begins after `at`, searched from `near` outwards.
    pub(crate) fn next_near(&self, near: usize, at: Stamp<Reference>) -> usize {
        self.packed.partition_point_near(near, |occupancy| occupancy.from <= at.ns())
    }

    /// The occupancies that tile a window; `next` is the index of the first to begin after `from`.
    pub(crate) fn tiles_until(
        &self,
        mut next: usize,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
    ) -> impl Iterator<Item = Occupancy> + '_ {
        let mut occupant = match next.checked_sub(1).and_then(|first| self.packed.get(first)) {
            Some(first) => unpack_occupant(first.occupant),
            None => Occupant::Unknown,
        };
        let mut at = from;
        std::iter::from_fn(move || {
            if at >= to {
                return None;
            }
            let following = self.packed.get(next);
            let end = following.map_or(to, |occupancy| Stamp::from_ns(occupancy.from).min(to));
            debug_assert!(at < end, "the tiles go on");
            let occupancy = Occupancy { from: at, to: end, occupant };
            at = end;
            if let Some(following) = following {
                occupant = unpack_occupant(following.occupant);
            }
            next += 1;
            Some(occupancy)
        })
    }

    pub(crate) fn shrink(&mut self) {
        self.packed.shrink();
    }

    pub(crate) fn bytes(&self) -> usize {
        self.packed.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ThreadIndex;

    #[test]
    fn stays_tile_any_window() {
        let thread = |n| Occupant::Thread(ThreadIndex(n));
        let mut occupancies = Occupancies::default();
        for (at, occupant) in
            [(10, thread(1)), (20, thread(2)), (20, Occupant::Idle), (30, Occupant::Idle), (40, thread(1))]
        {
            occupancies.push(Stamp::from_ns(at), occupant);
        }
        let all =
            [(0, 10, Occupant::Unknown), (10, 20, thread(1)), (20, 40, Occupant::Idle), (40, 60, thread(1))];
        for from in 0..60 {
            for to in from..=60 {
                let expected: Vec<_> = all
                    .iter()
                    .map(|&(f, t, o)| (f.max(from), t.min(to), o))
                    .filter(|&(f, t, _)| f < t)
                    .collect();
                let found: Vec<_> = occupancies
                    .tiles(Stamp::from_ns(from), Stamp::from_ns(to))
                    .map(|s| (s.from.ns(), s.to.ns(), s.occupant))
                    .collect();
                assert_eq!(found, expected, "{from}..{to}");
                let near: Vec<_> = occupancies
                    .tiles_until(
                        occupancies.next_near(to as usize % 5, Stamp::from_ns(from)),
                        Stamp::from_ns(from),
                        Stamp::from_ns(to),
                    )
                    .map(|s| (s.from.ns(), s.to.ns(), s.occupant))
                    .collect();
                assert_eq!(near, expected, "{from}..{to}");
            }
        }
    }
}
