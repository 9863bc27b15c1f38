use wakepath_clock::{Reference, Stamp};

use crate::Occupant;
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

/// Who had one CPU, as two vectors that belong together.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    from: Vec<u64>,
    occupant: Vec<u32>,
}

impl Lane {
    pub(crate) const fn new() -> Self {
        Self { from: Vec::new(), occupant: Vec::new() }
    }

    pub(crate) fn push(&mut self, at: Stamp<Reference>, occupant: Occupant) {
        let occupant = pack_occupant(occupant);
        if let (Some(&from), Some(last)) = (self.from.last(), self.occupant.last_mut()) {
            // Who had it for no time did not have it.
            if from >= at.ns() {
                *last = occupant;
                return;
            }
            if *last == occupant {
                return;
            }
        }
        self.from.push(at.ns());
        self.occupant.push(occupant);
    }

    /// The stays that tile a window.
    pub(crate) fn stays(
        &self,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
    ) -> impl Iterator<Item = Stay> + '_ {
        let mut next = self.from.partition_point(|&at| at <= from.ns());
        let mut occupant = match next.checked_sub(1) {
            Some(first) => unpack_occupant(self.occupant[first]),
            None => Occupant::Unknown,
        };
        let mut at = from;
        std::iter::from_fn(move || {
            if at >= to {
                return None;
            }
            let end = self.from.get(next).map_or(to, |&ns| Stamp::from_ns(ns).min(to));
            let stay = Stay { from: at, to: end, occupant };
            at = end;
            if let Some(&packed) = self.occupant.get(next) {
                occupant = unpack_occupant(packed);
            }
            next += 1;
            Some(stay)
        })
    }

    pub(crate) fn shrink(&mut self) {
        self.from.shrink_to_fit();
        self.occupant.shrink_to_fit();
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.from) + size_of_val(&*self.occupant)
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
            }
        }
    }
}
