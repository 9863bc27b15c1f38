use wakepath_clock::{Reference, Stamp};

/// A stretch of time in which the hypervisor did not let a CPU run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Taken {
    from: u64,
    to: u64,
    /// What all before it come to.
    before: u64,
}

/// When the hypervisor did not let one CPU run.
#[derive(Debug, Default)]
pub struct Stolen {
    taken: Vec<Taken>,
}

impl Stolen {
    pub(crate) const fn new() -> Self {
        Self { taken: Vec::new() }
    }

    /// Stretches come in order and do not overlap.
    pub(crate) fn push(&mut self, from: Stamp<Reference>, to: Stamp<Reference>) {
        let before = self.taken.last().map_or(0, |last| last.before + (last.to - last.from));
        if from < to {
            self.taken.push(Taken { from: from.ns(), to: to.ns(), before });
        }
    }

    /// How much of the time before `at`, ns.
    pub fn until(&self, at: Stamp<Reference>) -> u64 {
        let behind = self.taken.partition_point(|taken| taken.from < at.ns());
        let Some(last) = behind.checked_sub(1).and_then(|last| self.taken.get(last)) else { return 0 };
        last.before + (last.to.min(at.ns()) - last.from)
    }

    /// The parts that tile a window, each with whether it was taken.
    pub fn parts(
        &self,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
    ) -> impl Iterator<Item = (Stamp<Reference>, Stamp<Reference>, bool)> + '_ {
        let mut next = self.taken.partition_point(|taken| taken.to <= from.ns());
        let mut at = from;
        std::iter::from_fn(move || {
            if at >= to {
                return None;
            }
            let begun = at;
            let taken = self.taken.get(next).copied();
            let is_taken = taken.is_some_and(|taken| taken.from <= begun.ns());
            let end = taken.map_or(to.ns(), |taken| if is_taken { taken.to } else { taken.from });
            at = Stamp::from_ns(end).min(to);
            next += usize::from(is_taken);
            Some((begun, at, is_taken))
        })
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.taken)
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
                assert_eq!(stolen.until(at(to)) - stolen.until(at(from)), sum, "{from}..{to}");
            }
        }
    }
}
