//! Losses of records, found by time.

use wakepath_clock::{Reference, Stamp};
use wakepath_event::Cpu;

use crate::Loss;

/// The losses of a recording, with queries by time.
#[derive(Debug, Default)]
pub struct Losses {
    all: SortedLosses,
    /// The losses that a recorder reported.
    reported: SortedLosses,
    /// Reported losses of possibly more than one record. A switch that the kernel did not report is not
    /// among them: it is missing alone, and a thread needs two switches to run in between.
    several: SortedLosses,
    /// The same losses by CPU.
    several_on: Vec<(Cpu, SortedLosses)>,
}

#[derive(Debug, Default)]
struct SortedLosses {
    /// In the order of their beginnings.
    losses: Vec<Loss>,
    /// For each loss, the latest end of it and of those before it.
    latest_end: Vec<Stamp<Reference>>,
}

/// The ends of a window that count as part of it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    Neither,
    From,
    Both,
}

impl Losses {
    pub(crate) fn new(mut losses: Vec<Loss>) -> Self {
        losses.sort_by_key(|loss| (loss.from, loss.to, loss.cpu));
        let reported: Vec<_> = losses.iter().copied().filter(|loss| loss.reported).collect();
        let several: Vec<_> = reported.iter().copied().filter(|loss| loss.count != 1).collect();
        let mut cpus: Vec<_> = several.iter().map(|loss| loss.cpu).collect();
        cpus.sort_unstable();
        cpus.dedup();
        let several_on = cpus
            .into_iter()
            .map(|cpu| {
                let on = several.iter().copied().filter(|loss| loss.cpu == cpu || loss.cpu == Cpu::UNKNOWN);
                (cpu, SortedLosses::new(on.collect()))
            })
            .collect();
        let [all, reported, several] = [losses, reported, several].map(SortedLosses::new);
        Self { all, reported, several, several_on }
    }

    /// All losses, in the order of their beginnings.
    pub fn all(&self) -> &[Loss] {
        &self.all.losses
    }

    /// Whether a record may have been lost from `from` to `to`, both included, on any CPU.
    pub fn touch(&self, from: Stamp<Reference>, to: Stamp<Reference>) -> bool {
        self.all.intersect(from, to, Ends::Both)
    }

    /// Whether a recorder reported a loss from `from` to `to`, both included, on any CPU.
    pub fn touch_reported(&self, from: Stamp<Reference>, to: Stamp<Reference>) -> bool {
        self.reported.intersect(from, to, Ends::Both)
    }

    /// Whether one loss between `from` and `to`, on any CPU, may hold two records or more: enough for a
    /// thread to have come and gone. With a coarse clock that takes no time, so a loss that ends at
    /// `from` counts: its records may come after the one at `from`.
    pub fn may_hide_a_run(&self, from: Stamp<Reference>, to: Stamp<Reference>) -> bool {
        self.several.intersect(from, to, Ends::From)
    }

    /// The same on one CPU. Its records have an order, so only losses inside count.
    pub fn may_hide_a_run_on(&self, cpu: Cpu, from: Stamp<Reference>, to: Stamp<Reference>) -> bool {
        let on = |cpu| self.several_on.iter().find(|(c, _)| *c == cpu).map(|(_, losses)| losses);
        on(cpu).or_else(|| on(Cpu::UNKNOWN)).is_some_and(|losses| losses.intersect(from, to, Ends::Neither))
    }

    /// The losses that overlap or touch a window.
    pub fn overlapping(
        &self,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
    ) -> impl Iterator<Item = &Loss> + '_ {
        let until = self.all.losses.partition_point(|loss| loss.from <= to);
        self.all.losses[..until].iter().filter(move |loss| loss.to >= from)
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.all.losses) * 4
    }
}

impl SortedLosses {
    fn new(losses: Vec<Loss>) -> Self {
        let mut latest = Stamp::MIN;
        let latest_end = losses
            .iter()
            .map(|loss| {
                latest = latest.max(loss.to);
                latest
            })
            .collect();
        Self { losses, latest_end }
    }

    fn intersect(&self, from: Stamp<Reference>, to: Stamp<Reference>, ends: Ends) -> bool {
        let until =
            self.losses.partition_point(|loss| loss.from < to || (ends == Ends::Both && loss.from == to));
        let Some(&latest_end) = until.checked_sub(1).and_then(|last| self.latest_end.get(last)) else {
            return false;
        };
        latest_end > from || (ends != Ends::Neither && latest_end == from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(cpu: u16, from: u64, to: u64, count: u64) -> Loss {
        Loss { cpu: Cpu(cpu), from: Stamp::from_ns(from), to: Stamp::from_ns(to), count, reported: true }
    }

    #[test]
    fn a_long_loss_reaches_past_the_short_ones_behind_it() {
        let losses = Losses::new(vec![loss(0, 10, 90, 5), loss(1, 20, 30, 1), loss(1, 95, 99, 0)]);
        let at = Stamp::from_ns;
        assert!(losses.touch(at(50), at(60)), "the loss from 10 to 90");
        assert!(losses.touch(at(90), at(92)), "ends count");
        assert!(!losses.touch(at(91), at(94)));
        assert!(losses.may_hide_a_run(at(50), at(60)));
        assert!(losses.may_hide_a_run(at(90), at(94)), "what began as the loss ended may have been hidden");
        assert!(!losses.may_hide_a_run(at(5), at(10)), "what ended as it began may not");
        assert!(!losses.may_hide_a_run_on(Cpu(0), at(90), at(94)), "nor what follows it on its own CPU");
        assert!(losses.may_hide_a_run_on(Cpu(0), at(50), at(60)));
        assert!(!losses.may_hide_a_run_on(Cpu(1), at(20), at(30)), "one record is no stay");
        assert!(losses.may_hide_a_run_on(Cpu(1), at(96), at(97)), "an unknown number may be one");
    }

    #[test]
    fn a_switch_that_was_left_out_hides_no_thread_that_nobody_woke() {
        let losses = Losses::new(vec![Loss { reported: false, ..loss(0, 10, 90, 0) }]);
        let at = Stamp::from_ns;
        assert!(losses.touch(at(50), at(60)));
        assert!(!losses.may_hide_a_run(at(0), at(100)));
    }
}
