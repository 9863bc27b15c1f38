use wakepath_clock::{Reference, Stamp};

use crate::Occupant;
use crate::chunks::Chunks;
use crate::wait::{pack_occupant, unpack_occupant};

/// Who had a CPU from when to when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stay {
    /// Its first nanosecond.
    pub from: Stamp<Reference>,
    /// One past its last.
    pub to: Stamp<Reference>,
    /// Who.
    pub occupant: Occupant,
}

/// Who had one CPU.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    stays: Chunks<Packed>,
}

/// A [`Stay`] without its end, which is where the next begins.
#[derive(Debug, Clone, Copy)]
#[repr(Rust, packed(4))]
struct Packed {
    from: u64,
    occupant: u32,
}

const _: () = assert!(size_of::<Packed>() == 12);

impl Lane {
    pub(crate) const fn new() -> Self {
        Self { stays: Chunks::new() }
    }

    pub(crate) fn push(&mut self, at: Stamp<Reference>, occupant: Occupant) {
        let occupant = pack_occupant(occupant);
        if let Some(last) = self.stays.last_mut() {
            // Who had it for no time did not have it.
            if last.from >= at.ns() {
                last.occupant = occupant;
                return;
            }
            if last.occupant == occupant {
                return;
            }
        }
        self.stays.push(Packed { from: at.ns(), occupant });
    }

    /// The stays that tile a window.
    pub(crate) fn stays(
        &self,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
    ) -> impl Iterator<Item = Stay> + '_ {
        self.stays_before(self.stays.partition_point(|stay| stay.from <= from.ns()), from, to)
    }

    /// The number of the first stay that begins behind `at`, which is looked for around `near`.
    pub(crate) fn next_near(&self, near: usize, at: Stamp<Reference>) -> usize {
        self.stays.partition_point_near(near, |stay| stay.from <= at.ns())
    }

    /// The stays that tile a window, of which the `next`th is the first that begins behind `from`.
    pub(crate) fn stays_before(
        &self,
        mut next: usize,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
    ) -> impl Iterator<Item = Stay> + '_ {
        let mut occupant = match next.checked_sub(1).and_then(|first| self.stays.get(first)) {
            Some(first) => unpack_occupant(first.occupant),
            None => Occupant::Unknown,
        };
        let mut at = from;
        std::iter::from_fn(move || {
            if at >= to {
                return None;
            }
            let following = self.stays.get(next);
            let end = following.map_or(to, |stay| Stamp::from_ns(stay.from).min(to));
            let stay = Stay { from: at, to: end, occupant };
            at = end;
            if let Some(following) = following {
                occupant = unpack_occupant(following.occupant);
            }
            next += 1;
            Some(stay)
        })
    }

    pub(crate) fn shrink(&mut self) {
        self.stays.shrink();
    }

    pub(crate) fn bytes(&self) -> usize {
        self.stays.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ThreadIndex;

    #[test]
    fn stays_tile_any_window() {
        let thread = |n| Occupant::Thread(ThreadIndex(n));
        let mut lane = Lane::default();
        for (at, occupant) in
            [(10, thread(1)), (20, thread(2)), (20, Occupant::Idle), (30, Occupant::Idle), (40, thread(1))]
        {
            lane.push(Stamp::from_ns(at), occupant);
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
                let stays: Vec<_> = lane
                    .stays(Stamp::from_ns(from), Stamp::from_ns(to))
                    .map(|s| (s.from.ns(), s.to.ns(), s.occupant))
                    .collect();
                assert_eq!(stays, expected, "{from}..{to}");
                let near: Vec<_> = lane
                    .stays_before(
                        lane.next_near(to as usize % 5, Stamp::from_ns(from)),
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
