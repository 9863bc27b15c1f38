//! The time that a hypervisor stole from a CPU.

use wakepath_clock::{Reference, Stamp};

/// A time range in which the hypervisor did not let a CPU run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct StolenTime {
    from: u64,
    to: u64,
    /// The sum of all stretches before, ns.
    before: u64,
}

/// The stretches in which the hypervisor did not let a CPU run.
#[derive(Debug, Default)]
pub struct Stolen {
    times: Vec<StolenTime>,
}

impl Stolen {
    pub(crate) const fn new() -> Self {
        Self { times: Vec::new() }
    }

    /// Stretches come in order and do not overlap.
    pub(crate) fn push(&mut self, from: Stamp<Reference>, to: Stamp<Reference>) {
        let before = self.times.last().map_or(0, |last| last.before + (last.to - last.from));
        if from < to {
            self.times.push(StolenTime { from: from.ns(), to: to.ns(), before });
        }
    }

    /// The stolen time before `at`, ns.
    pub fn ns_before(&self, at: Stamp<Reference>) -> u64 {
        let behind = self.times.partition_point(|time| time.from < at.ns());
        let Some(last) = behind.checked_sub(1).and_then(|last| self.times.get(last)) else { return 0 };
        last.before + (last.to.min(at.ns()) - last.from)
    }

    /// The parts that tile a window, each with whether it was stolen.
    pub fn parts(
        &self,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
    ) -> impl Iterator<Item = (Stamp<Reference>, Stamp<Reference>, bool)> + '_ {
        let mut next = self.times.partition_point(|time| time.to <= from.ns());
        let mut at = from;
        std::iter::from_fn(move || {
            if at >= to {
                return None;
            }
            let begun = at;
            let time = self.times.get(next).copied();
            let is_taken = time.is_some_and(|time| time.from <= begun.ns());
            let end = time.map_or(to.ns(), |time| if is_taken { time.to } else { time.from });
            at = Stamp::from_ns(end).min(to);
            debug_assert!(begun < at, "the parts go on");
            next += usize::from(is_taken);
            Some((begun, at, is_taken))
        })
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_tile_any_window_and_add_up_to_what_was_taken() {
        let at = Stamp::<Reference>::from_ns;
        let mut stolen = Stolen::default();
        for (from, to) in [(10, 20), (20, 25), (30, 30), (40, 41)] {
            stolen.push(at(from), at(to));
        }
        let is_taken = |ns: u64| (10..25).contains(&ns) || ns == 40;
        for from in 0..50 {
            for to in from..=50 {
                let mut next = from;
                let mut sum = 0;
                for (begin, end, taken) in stolen.parts(at(from), at(to)) {
                    assert_eq!(begin.ns(), next, "{from}..{to}");
                    assert!((begin.ns()..end.ns()).all(|ns| is_taken(ns) == taken), "{from}..{to}");
                    assert!(begin < end);
                    sum += if taken { end.ns() - begin.ns() } else { 0 };
                    next = end.ns();
                }
                assert_eq!(next, to, "{from}..{to}");
                assert_eq!(stolen.ns_before(at(to)) - stolen.ns_before(at(from)), sum, "{from}..{to}");
            }
        }
    }
}
