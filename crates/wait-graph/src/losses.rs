//! Record losses, found by time.

use wakepath_clock::{Reference, Stamp};
use wakepath_event::{Cpu, LostRecords};

use crate::Loss;

/// A recording's losses, with queries by time.
#[derive(Debug, Default)]
pub struct Losses {
    /// All losses, ordered by beginning.
    listed: SortedLosses,
    /// Reported losses of evidence alone, for wake-ups by packets and by disks.
    evidence: [SortedLosses; 2],
    /// All losses except evidence-only losses, like each list below.
    all: SortedLosses,
    /// The losses reported by a recorder.
    reported: SortedLosses,
    /// Reported losses with possibly more than one record. A switch that the kernel did not report is not
    /// included: it is missing alone, and a thread needs two switches to run in between.
    several: SortedLosses,
    /// By CPU, its losses and the losses on an unknown CPU: `several`, and `all`.
    on: Vec<(Cpu, [SortedLosses; 2])>,
    /// Reported losses on an unknown CPU.
    without_cpu: SortedLosses,
}

#[derive(Debug, Default)]
struct SortedLosses {
    /// Ordered by beginning.
    losses: Vec<Loss>,
    /// For each loss, the latest two ends among it and all before it, the latest first.
    latest_ends: Vec<[Stamp<Reference>; 2]>,
}

/// The ends that count as part of a window.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    Neither,
    From,
    Both,
}

impl Losses {
    pub(crate) fn new(mut losses: Vec<Loss>) -> Self {
        losses.sort_by_key(|loss| (loss.from, loss.to, loss.cpu));
        let among = |records| losses.iter().copied().filter(move |loss| loss.records == records).collect();
        let evidence =
            [LostRecords::Sockets, LostRecords::DiskRequests].map(|one| SortedLosses::new(among(one)));
        let listed = losses.clone();
        losses.retain(|loss| !loss.records.is_evidence_alone());
        let reported: Vec<_> = losses.iter().copied().filter(|loss| loss.reported).collect();
        let several: Vec<_> = reported.iter().copied().filter(|loss| loss.count != 1).collect();
        let mut cpus: Vec<_> = losses.iter().map(|loss| loss.cpu).collect();
        cpus.sort_unstable();
        cpus.dedup();
        let of = |losses: &[Loss], cpu| {
            let on = losses.iter().copied().filter(|loss| loss.cpu == cpu || loss.cpu == Cpu::UNKNOWN);
            SortedLosses::new(on.collect())
        };
        let on = cpus.into_iter().map(|cpu| (cpu, [of(&several, cpu), of(&losses, cpu)])).collect();
        let without_cpu = reported.iter().copied().filter(|loss| loss.cpu == Cpu::UNKNOWN).collect();
        let [listed, all, reported, several, without_cpu] =
            [listed, losses, reported, several, without_cpu].map(SortedLosses::new);
        Self { listed, evidence, all, reported, several, on, without_cpu }
    }

    /// All losses, ordered by beginning.
    pub fn all(&self) -> &[Loss] {
        &self.listed.losses
    }

    /// Whether a record of a thread's state or of a wake-up may have been lost from `from` to `to`, both included, on any CPU.
    pub fn touch(&self, from: Stamp<Reference>, to: Stamp<Reference>) -> bool {
        self.all.intersect(from, to, Ends::Both)
    }

    /// Whether a recorder reported such a loss from `from` to `to`, both included, on any CPU.
    pub fn touch_reported(&self, from: Stamp<Reference>, to: Stamp<Reference>) -> bool {
        self.reported.intersect(from, to, Ends::Both)
    }

    /// Whether a loss may hide the socket whose packet woke a thread at `at`, and nothing more.
    pub fn touch_sockets(&self, at: Stamp<Reference>) -> bool {
        self.evidence[0].intersect(at, at, Ends::Both)
    }

    /// Whether a loss may hide the disk request whose end woke a thread at `at`, and nothing more.
    pub fn touch_disk_requests(&self, at: Stamp<Reference>) -> bool {
        self.evidence[1].intersect(at, at, Ends::Both)
    }

    /// Whether a recorder reported a loss from `from` to `to`, both included, on an unknown CPU.
    pub fn touch_without_cpu(&self, from: Stamp<Reference>, to: Stamp<Reference>) -> bool {
        self.without_cpu.intersect(from, to, Ends::Both)
    }

    /// Whether the losses between `from` and `to`, on any CPU, may hold two records or more: enough for a thread to have come and gone, or to have
    /// been woken and to have come; a switch that the kernel did not report may be one of two. With a coarse clock the run takes no time, so a loss
    /// that ends at `from` counts: its records may come after the record at `from`.
    pub fn may_hide_a_run(&self, from: Stamp<Reference>, to: Stamp<Reference>) -> bool {
        let one_reported = self.touch_reported(from, to);
        self.several.intersect(from, to, Ends::From) || (one_reported && self.all.are_two(from, to))
    }

    /// The same on a single CPU. Its records have an order, so only losses inside count, and if two losses have a single record each, one of them
    /// must be on an unknown CPU: between two losses on this CPU, a record shows the running thread.
    pub fn may_hide_a_run_on(&self, cpu: Cpu, from: Stamp<Reference>, to: Stamp<Reference>) -> bool {
        let on = |cpu| self.on.iter().find(|(c, _)| *c == cpu).map(|(_, losses)| losses);
        on(cpu).or_else(|| on(Cpu::UNKNOWN)).is_some_and(|[several, all]| {
            several.intersect(from, to, Ends::Neither)
                || (self.without_cpu.intersect(from, to, Ends::Neither) && all.are_two(from, to))
        })
    }

    /// The losses that overlap or touch a window.
    pub fn overlapping(
        &self,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
    ) -> impl Iterator<Item = &Loss> + '_ {
        let until = self.listed.losses.partition_point(|loss| loss.from <= to);
        self.listed.losses[..until].iter().filter(move |loss| loss.to >= from)
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.listed.losses) * 5
    }
}

impl SortedLosses {
    fn new(losses: Vec<Loss>) -> Self {
        let mut ends = [Stamp::MIN; 2];
        let latest_ends = losses
            .iter()
            .map(|loss| {
                ends = [ends[0].max(loss.to), ends[1].max(ends[0].min(loss.to))];
                ends
            })
            .collect();
        Self { losses, latest_ends }
    }

    /// Whether two losses touch a window.
    fn are_two(&self, from: Stamp<Reference>, to: Stamp<Reference>) -> bool {
        let until = self.losses.partition_point(|loss| loss.from <= to);
        // All of these begin early enough; two that also end late enough touch the window.
        until >= 2 && self.latest_ends[until - 1][1] >= from
    }

    fn intersect(&self, from: Stamp<Reference>, to: Stamp<Reference>, ends: Ends) -> bool {
        let until =
            self.losses.partition_point(|loss| loss.from < to || (ends == Ends::Both && loss.from == to));
        let Some(&[latest_end, _]) = until.checked_sub(1).and_then(|last| self.latest_ends.get(last)) else {
            return false;
        };
        latest_end > from || (ends != Ends::Neither && latest_end == from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(cpu: u16, from: u64, to: u64, count: u64) -> Loss {
        Loss {
            cpu: Cpu(cpu),
            from: Stamp::from_ns(from),
            to: Stamp::from_ns(to),
            count,
            records: LostRecords::Any,
            reported: true,
        }
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
    fn two_losses_of_one_record_each_hide_as_much_as_one_of_two() {
        let at = Stamp::from_ns;
        let losses =
            Losses::new(vec![loss(0, 10, 20, 1), loss(1, 15, 60, 1), loss(0, 40, 50, 1), loss(1, 70, 80, 1)]);
        for (from, to, two) in [
            (0, 14, false),
            (0, 15, true),
            (20, 21, true),
            (21, 39, false),
            (21, 40, true),
            (50, 55, true),
            (51, 69, false),
            (60, 70, true),
            (61, 90, false),
        ] {
            assert_eq!(losses.may_hide_a_run(at(from), at(to)), two, "{from} to {to}");
        }
    }

    #[test]
    fn one_of_two_losses_of_one_record_each_on_a_cpu_has_no_cpu() {
        let at = Stamp::from_ns;
        let unknown = |from, to| Loss { cpu: Cpu::UNKNOWN, ..loss(0, from, to, 1) };
        let losses =
            Losses::new(vec![loss(0, 10, 20, 1), loss(0, 30, 40, 1), unknown(50, 60), unknown(70, 80)]);
        for (cpu, from, to, hidden) in [
            (0, 0, 45, false),
            (0, 0, 51, true),
            (0, 35, 55, true),
            (0, 45, 65, false),
            (1, 0, 65, false),
            (1, 55, 71, true),
            (1, 80, 99, false),
        ] {
            assert_eq!(losses.may_hide_a_run_on(Cpu(cpu), at(from), at(to)), hidden, "{cpu}: {from} to {to}");
        }
    }

    #[test]
    fn a_switch_that_was_left_out_hides_no_thread_that_nobody_woke() {
        let losses = Losses::new(vec![Loss { reported: false, ..loss(0, 10, 90, 0) }]);
        let at = Stamp::from_ns;
        assert!(losses.touch(at(50), at(60)));
        assert!(!losses.may_hide_a_run(at(0), at(100)));
        let unreported = |from, to| Loss { reported: false, ..loss(0, from, to, 0) };
        let losses = Losses::new(vec![unreported(10, 20), unreported(15, 40), loss(1, 30, 50, 1)]);
        assert!(!losses.may_hide_a_run(at(0), at(29)), "two of them");
        assert!(losses.may_hide_a_run(at(25), at(30)), "one of them, and a record that was lost");
        assert!(!losses.may_hide_a_run(at(41), at(60)), "the record alone");
        let no_cpu = Loss { cpu: Cpu::UNKNOWN, ..loss(0, 30, 50, 1) };
        let losses = Losses::new(vec![unreported(10, 20), no_cpu]);
        assert!(losses.may_hide_a_run_on(Cpu(0), at(15), at(35)), "the same on its CPU");
        assert!(!losses.may_hide_a_run_on(Cpu(1), at(15), at(35)), "on another CPU it is the record alone");
    }

    #[test]
    fn a_loss_of_evidence_hides_no_state_and_is_listed() {
        let of = |records, from, to| Loss { cpu: Cpu::UNKNOWN, records, ..loss(0, from, to, 9) };
        let losses = Losses::new(vec![
            of(LostRecords::Sockets, 10, 20),
            of(LostRecords::DiskRequests, 30, 40),
            of(LostRecords::WakeUps, 50, 60),
        ]);
        let at = Stamp::from_ns;
        for (from, to, hides) in [(10, 20, false), (30, 40, false), (0, 49, false), (45, 55, true)] {
            let (from, to) = (at(from), at(to));
            assert_eq!(losses.touch(from, to), hides, "{from:?}");
            assert_eq!(losses.touch_reported(from, to), hides, "{from:?}");
            assert_eq!(losses.touch_without_cpu(from, to), hides, "{from:?}");
            assert_eq!(losses.may_hide_a_run(from, to), hides, "{from:?}");
            assert_eq!(losses.may_hide_a_run_on(Cpu(3), from, to), hides, "{from:?}");
        }
        let sockets = [9, 10, 20, 21, 35, 55].map(|ns| losses.touch_sockets(at(ns)));
        assert_eq!(sockets, [false, true, true, false, false, false]);
        let requests = [15, 29, 30, 40, 41, 55].map(|ns| losses.touch_disk_requests(at(ns)));
        assert_eq!(requests, [false, false, true, true, false, false]);
        assert_eq!((losses.all().len(), losses.overlapping(at(0), at(99)).count()), (3, 3));
    }

    #[test]
    fn losses_that_touch_a_window_are_those_of_it() {
        let at = Stamp::from_ns;
        let losses = Losses::new(vec![loss(0, 30, 40, 1), loss(1, 10, 20, 0), loss(0, 15, 90, 2)]);
        let begins =
            |losses: &mut dyn Iterator<Item = &Loss>| losses.map(|l| l.from.ns()).collect::<Vec<_>>();
        assert_eq!(begins(&mut losses.all().iter()), [10, 15, 30]);
        for (from, to, expected) in [
            (0, 9, &[][..]),
            (0, 10, &[10]),
            (20, 20, &[10, 15]),
            (21, 29, &[15]),
            (21, 30, &[15, 30]),
            (40, 50, &[15, 30]),
            (41, 99, &[15]),
            (91, 99, &[]),
        ] {
            assert_eq!(begins(&mut losses.overlapping(at(from), at(to))), expected, "{from} to {to}");
        }
    }
}
