//! The time that probes may take: a share of the machine's.
//!
//! Each hit at a probed function's entry counts, in whatever process: hits × the calibrated cost for this kind of probe is the programs' lost
//! time. Beyond the budget the dearest probes go.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use libbpf_rs::MapCore;

use crate::callers::LearnedCallers;
use crate::libbpf::sum_per_cpu;
use crate::probes;

/// The future's budget that may be spent at once.
pub const AHEAD: Duration = Duration::from_millis(100);
/// A single-stepped probe's time where it could not be calibrated, ns.
pub const SINGLE_STEP_NS: u64 = 20_000;

/// A share in the machine's time.
#[derive(Debug, Clone, Copy)]
pub struct ProbeBudget {
    /// From 0 to 1.
    share: f64,
    cpus: f64,
}

impl ProbeBudget {
    /// A share in all CPUs' time, from 0 to 1.
    pub fn new(share: f64) -> Self {
        let cpus = std::thread::available_parallelism().map_or(1.0, |cpus| cpus.get() as f64);
        Self { share, cpus }
    }

    /// The same share on another number of CPUs.
    #[must_use]
    pub const fn on_cpus(self, cpus: f64) -> Self {
        Self { cpus, ..self }
    }

    /// The allowed share, from 0 to 1.
    pub const fn share(self) -> f64 {
        self.share
    }

    /// The time allowed to probes in this time, ns.
    pub fn allowed_ns(self, elapsed: Duration) -> f64 {
        self.share * self.cpus * (elapsed + AHEAD).as_nanos() as f64
    }

    /// A time's share of the machine's in this time.
    pub fn share_of(self, ns: u64, elapsed: Duration) -> f64 {
        ns as f64 / (elapsed.as_nanos().max(1) as f64 * self.cpus)
    }
}

/// The functions whose probes have to go, the dearest first: the others' time fits. `spent`: each function's time for its probes, ns. Only
/// `removable` functions go; the others' time counts too.
pub fn to_remove(spent: &BTreeMap<u32, u64>, removable: impl Fn(u32) -> bool, allowed_ns: f64) -> Vec<u32> {
    let mut left = spent.values().fold(0_u64, |sum, ns| sum.saturating_add(*ns));
    let mut by_time: Vec<_> =
        spent.iter().filter(|(function, ns)| removable(**function) && **ns > 0).collect();
    by_time.sort_by_key(|(function, ns)| (std::cmp::Reverse(**ns), **function));
    let gone = by_time.into_iter().take_while(|(_, ns)| {
        let is_over = left as f64 > allowed_ns;
        left -= if is_over { **ns } else { 0 };
        is_over
    });
    gone.map(|(function, _)| *function).collect()
}

/// A function's probes, removed since they took too much.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RemovedProbes {
    /// The time until then.
    pub after: Duration,
    /// The hits at its entry, in all processes.
    pub hits: u64,
    /// The time for each, ns.
    pub per_call_ns: u64,
    /// The probes' part in the machine's time, from 0 to 1.
    pub share: f64,
    /// The allowed part.
    pub budget: f64,
}

/// A session's single-stepped functions, and the limit for their probes.
#[derive(Debug)]
pub(crate) struct StepBudget {
    budget: ProbeBudget,
    /// The functions with probes, and each one's time per hit, ns.
    per_call_ns: BTreeMap<u32, u64>,
}

impl StepBudget {
    /// `functions`: the single-stepped ones, with the calibrated time per hit, ns. No share: no limit.
    pub(crate) fn new(share: Option<f64>, functions: impl Iterator<Item = (u32, Option<u64>)>) -> Self {
        let per_call_ns = functions.map(|(function, ns)| (function, ns.unwrap_or(SINGLE_STEP_NS)));
        Self {
            budget: ProbeBudget::new(share.unwrap_or(f64::INFINITY)),
            per_call_ns: if share.is_some() { per_call_ns.collect() } else { BTreeMap::new() },
        }
    }

    /// Without functions.
    pub(crate) fn none() -> Self {
        Self::new(None, std::iter::empty())
    }

    /// Whether a function is left whose probes may have to go.
    pub(crate) fn is_needed(&self) -> bool {
        !self.per_call_ns.is_empty()
    }

    /// The functions whose probes have to go now. `hits`: a function's hits so far.
    fn over(&self, hits: impl Fn(u32) -> u64, elapsed: Duration) -> Vec<u32> {
        let spent = self.per_call_ns.iter();
        let spent = spent.map(|(function, ns)| (*function, hits(*function).saturating_mul(*ns)));
        to_remove(&spent.collect(), |_| true, self.budget.allowed_ns(elapsed))
    }

    /// Removes probes beyond their budget. `maps`: the hits at the functions' entries, and the places behind their calls. `began`: when the probes
    /// were attached. The entry's breakpoint goes at once, though the kernel takes tens of milliseconds for each probe.
    pub(crate) fn keep<L, C>(
        &mut self,
        probes: &mut BTreeMap<u32, Vec<L>>,
        callers: &mut LearnedCallers<C>,
        maps: (&impl MapCore, &impl MapCore),
        began: Instant,
    ) -> Vec<(u32, RemovedProbes)> {
        if self.per_call_ns.is_empty() {
            return Vec::new();
        }
        let (entries, seen) = maps;
        // Behind its calls others' returns hit probes too.
        let hits = |callers: &LearnedCallers<C>, function| {
            let entries = sum_per_cpu(entries, function).unwrap_or(0);
            entries.saturating_add(callers.strays_by(seen, function))
        };
        let over = self.over(|function| hits(callers, function), began.elapsed());
        let removed = over.into_iter().filter_map(|function| {
            let removed = self.removed(function, hits(callers, function), began.elapsed())?;
            probes::detach(probes.get_mut(&function)?);
            callers.remove(seen, function);
            Some((function, removed))
        });
        removed.collect()
    }

    /// A function's probes are being removed.
    fn removed(&mut self, function: u32, hits: u64, after: Duration) -> Option<RemovedProbes> {
        let per_call_ns = self.per_call_ns.remove(&function)?;
        // The calibrated cost is not the exact one.
        let share = self.budget.share_of(hits.saturating_mul(per_call_ns), after).min(1.0);
        Some(RemovedProbes { after, hits, per_call_ns, share, budget: self.budget.share() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spent(all: &[(u32, u64)]) -> BTreeMap<u32, u64> {
        all.iter().copied().collect()
    }

    #[test]
    fn the_dearest_probes_go_until_the_others_fit_and_some_stay() {
        let all = spent(&[(0, 900), (1, 100), (2, 500), (3, 0), (4, 300)]);
        let gone = |allowed_ns| to_remove(&all, |function| function != 0, allowed_ns);
        assert_eq!(gone(1800.0), [0; 0]);
        assert_eq!(gone(1799.0), [2]);
        assert_eq!(gone(1300.0), [2]);
        assert_eq!(gone(1299.0), [2, 4]);
        assert_eq!(gone(0.0), [2, 4, 1]);
        assert_eq!(to_remove(&spent(&[(7, 5), (5, 5)]), |_| true, 5.0), [5]);
        assert_eq!(to_remove(&spent(&[(7, u64::MAX), (5, 5)]), |_| true, 5.0), [7]);
    }

    #[test]
    fn a_share_of_all_cpus_is_allowed_and_a_tenth_of_a_second_ahead() {
        let budget = ProbeBudget::new(0.05).on_cpus(4.0);
        assert_eq!(budget.allowed_ns(Duration::ZERO), 20_000_000.0);
        assert_eq!(budget.allowed_ns(Duration::from_millis(900)), 200_000_000.0);
        assert_eq!(budget.share_of(200_000_000, Duration::from_secs(1)), 0.05);
    }

    #[test]
    fn stepped_functions_go_once_when_their_hits_take_more_than_their_share() {
        let functions = [(3, Some(10_000)), (5, None)];
        let mut steps = StepBudget::new(Some(0.05), functions.into_iter());
        steps.budget = steps.budget.on_cpus(2.0);
        let second = Duration::from_secs(1);
        // 110 ms are allowed: 90 and 20 ms fit.
        assert!(steps.over(|function| [9_000, 1_000][usize::from(function == 5)], second).is_empty());
        assert!(steps.is_needed());
        let hits = |function| [9_001, 1_000][usize::from(function == 5)];
        let removed = RemovedProbes {
            after: second,
            hits: 9_001,
            per_call_ns: 10_000,
            share: 90_010_000.0 / 2e9,
            budget: 0.05,
        };
        assert_eq!(steps.over(hits, second), [3]);
        assert_eq!(steps.removed(3, 9_001, second), Some(removed));
        // It is gone, and the other one fits.
        assert!(steps.over(hits, second).is_empty() && steps.is_needed());
        assert_eq!(steps.removed(3, 9_001, second), None);
        assert_eq!(steps.over(|_| 10_000, second), [5]);
        // The calibrated cost may be more than the time that there was.
        let share = steps.removed(5, 1_000_000, second).map(|gone| (gone.per_call_ns, gone.share));
        assert_eq!(share, Some((20_000, 1.0)));
        assert!(!steps.is_needed() && steps.over(|_| u64::MAX, second).is_empty());
    }

    #[test]
    fn without_a_share_nothing_goes() {
        let steps = StepBudget::new(None, [(0, Some(1_000_000))].into_iter());
        assert!(!steps.is_needed() && steps.over(|_| u64::MAX, Duration::ZERO).is_empty());
    }
}
