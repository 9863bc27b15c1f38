//! The probes' time, held below a share of the machine's.
//!
//! Each hit at an entry probe is counted, whether its call is measured or not: hits × the calibrated cost for this kind of probe is the program's lost
//! time. Beyond the budget the dearest probes go, and their functions get none for the rest of the search.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use wakepath_collect::{
    AHEAD, Calibration, DrillCall, DrillNode, Error as CollectError, ProbeBudget, SINGLE_STEP_NS, Signals,
    to_remove,
};
use wakepath_drilldown::{FunctionId, MeasuredNode, NodeId};

use super::behind::{PlaceCost, is_seen_behind};
use super::functions::is_stepped;
use super::{Driver, Known, LOOK_EVERY, kind};
use crate::drill::DrillError;

/// The longest pause before new probes.
const MAX_PAUSE: Duration = Duration::from_secs(3);

/// Probes on a callee are removed if they take more than this part of an f0 call: an eighth of its time.
const TOO_DEAR: u64 = 8;
/// Fewer calls in an f0 call are no loop: if their probes matter, the votes are in doubt.
const MANY_CALLS: u64 = 16;

/// The probes' time, and how much of it is allowed.
#[derive(Debug)]
pub(super) struct Budget {
    /// The allowed share of the machine's time.
    limit: ProbeBudget,
    /// When the search began.
    began: Instant,
    /// Since then the probes in place are the same.
    since: Instant,
    /// Whether a call returned since then.
    has_heard: bool,
    /// The functions' hits then.
    before: BTreeMap<u32, u64>,
    /// All functions with probes now or before.
    ever: BTreeSet<u32>,
    /// The watched indirect calls' time, ns.
    watched_ns: u64,
    /// The places with probes behind calls, and the time for a hit.
    pub(super) places: BTreeMap<u64, PlaceCost>,
    /// The time spent there before the probes in place came, ns.
    places_before: BTreeMap<u64, u64>,
    /// The functions whose probes were too dear.
    dear: BTreeSet<u32>,
    /// The watched indirect calls before those watched now.
    steps_before: u64,
}

impl Budget {
    pub(super) fn new(share: f64) -> Self {
        Self {
            limit: ProbeBudget::new(share),
            began: Instant::now(),
            since: Instant::now(),
            has_heard: false,
            before: BTreeMap::new(),
            ever: BTreeSet::new(),
            watched_ns: 0,
            places: BTreeMap::new(),
            places_before: BTreeMap::new(),
            dear: BTreeSet::new(),
            steps_before: 0,
        }
    }

    /// The time spent beyond the share in this time, ns.
    fn owed_ns(&self, spent_ns: u64, elapsed: Duration) -> f64 {
        spent_ns as f64 - (self.limit.allowed_ns(elapsed) - self.limit.allowed_ns(Duration::ZERO))
    }

    /// Calls of f0 within the peak returned.
    pub(super) const fn heard(&mut self, calls: usize) {
        self.has_heard |= calls > 0;
    }

    /// Whether probes have to go. The first call that returns shows how often each callee was called, which is an answer: it may return for a tenth of
    /// a second.
    fn is_over(&self, spent_ns: u64, elapsed: Duration) -> bool {
        let waits = !self.has_heard && elapsed < AHEAD && u128::from(spent_ns) < AHEAD.as_nanos();
        !waits && spent_ns as f64 > self.limit.allowed_ns(elapsed)
    }

    /// A function gets no probes any more.
    pub(super) fn leave_out(&mut self, function: u32) {
        self.dear.insert(function);
    }

    /// Whether a function's probes were too dear.
    pub(super) fn is_dear(&self, function: u32) -> bool {
        self.dear.contains(&function)
    }
}

/// A function whose probes were removed.
#[derive(Debug, Clone)]
pub(super) struct TooOften {
    name: String,
    /// Its calls a second, with its probes.
    per_second: f64,
    /// The machine's share that they took.
    percent: f64,
}

/// A sentence about functions whose probes were removed, the dearest first.
pub(super) fn removed(functions: &[TooOften]) -> Option<String> {
    let mut functions = functions.to_vec();
    functions.sort_by(|one, other| other.percent.total_cmp(&one.percent));
    let shown = functions.iter().take(MAX_NAMED).map(|one| {
        format!("{} ({:.0} calls a second, {:.0}% of the machine)", one.name, one.per_second, one.percent)
    });
    let shown: Vec<_> = shown.collect();
    let more = match functions.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!shown.is_empty()).then(|| {
        format!(
            "probes that took too much were removed (--budget), so that their functions' time counts as their callers' own: {}{more}",
            shown.join(", ")
        )
    })
}

/// The most functions named in the sentence.
const MAX_NAMED: usize = 3;

impl Driver<'_> {
    /// Whether the kernel single-steps f0's probes.
    fn is_f0_stepped(&self) -> bool {
        matches!(self.functions.first(), Some(Known::Probed(f0)) if is_stepped(f0))
    }

    /// Whether f0's probes took more than half the budget since they are there: a recorded call has a second probe.
    pub(in crate::drill) fn is_f0_dear(&self) -> bool {
        let ns = self.spent().get(&0).copied().unwrap_or(0);
        2.0 * self.budget.limit.share_of(ns, self.budget.since.elapsed()) > self.budget.limit.share()
    }

    /// The error where f0's probes take more than the budget, and the kernel single-steps them. `--slow-probes` asks for them whatever they take.
    pub(super) fn check_f0(&self, target: &str, elapsed: Duration) -> Result<(), DrillError> {
        let ns = self.spent().get(&0).copied().unwrap_or(0);
        if !self.is_f0_stepped()
            || self.allowed.slow_probes
            || ns as f64 <= self.budget.limit.allowed_ns(elapsed)
        {
            return Ok(());
        }
        let hits = self.drill.hits(0);
        Err(DrillError::TooOften {
            target: target.to_owned(),
            per_second: hits as f64 / elapsed.as_secs_f64().max(1e-3),
            per_call_ns: ns / hits.max(1),
            share: self.budget.limit.share_of(ns, elapsed),
            budget: self.budget.limit.share(),
        })
    }

    /// A function's time per hit at its entry, ns, with its return's; returns behind known calls are counted there.
    fn hit_ns(&self, function: u32) -> u64 {
        let Some(Known::Probed(found)) = self.functions.get(FunctionId(function)) else { return 0 };
        if function != 0 && is_seen_behind(found) {
            return self.parts_of(function).0;
        }
        let cost = self.costs.get(&kind(&found.function.probe)).copied().flatten();
        cost.map_or(SINGLE_STEP_NS, |cost| cost.per_call_ns)
    }

    /// Each probed function's time since the probes in place are the same, ns.
    fn spent(&self) -> BTreeMap<u32, u64> {
        let of = |function: u32| {
            let before = self.budget.before.get(&function).copied().unwrap_or(0);
            self.drill.hits(function).saturating_sub(before).saturating_mul(self.hit_ns(function))
        };
        let mut spent: BTreeMap<u32, u64> =
            self.probed.iter().map(|function| (*function, of(*function))).collect();
        let functions = self.functions_by_place();
        for (at, ns) in self.places_ns() {
            let before = self.budget.places_before.get(&at).copied().unwrap_or(0);
            if let Some(function) = functions.get(&at) {
                *spent.entry(*function).or_default() += ns.saturating_sub(before);
            }
        }
        spent
    }

    /// The probes are other ones from now on.
    pub(super) fn begin_budget(&mut self) {
        self.budget.ever.extend(&self.probed);
        let drill = &self.drill;
        self.budget.before = self.probed.iter().map(|function| (*function, drill.hits(*function))).collect();
        self.budget.places_before = self.places_ns();
        self.budget.since = Instant::now();
        self.budget.has_heard = false;
    }

    /// Waits before new probes until the search's probes so far fit its budget: each set of probes may take a tenth of a second at once. f0's own
    /// probes stay; where they take the whole budget, the pause ends.
    pub(super) fn pay_back(&mut self, stop: &Signals) -> Result<(), CollectError> {
        let (began, owed) = (Instant::now(), self.owed_ns());
        if owed <= 0.0 {
            return Ok(());
        }
        self.drill.remove_unneeded(|number| number == 0);
        let drill = &self.drill;
        self.probed.retain(|&number| drill.is_probed(number));
        self.drill.see_returns(&[]);
        loop {
            // An earlier plan's calls.
            self.drill.calls(LOOK_EVERY)?;
            self.learn_callers();
            let left = self.owed_ns();
            let grows = began.elapsed() > AHEAD && left >= owed;
            if left <= 0.0 || grows || began.elapsed() > MAX_PAUSE || self.ended(stop).is_some() {
                return Ok(());
            }
        }
    }

    /// The time that the search's probes took beyond its budget so far, ns.
    fn owed_ns(&self) -> f64 {
        self.budget.owed_ns(self.spent_ns(), self.budget.began.elapsed())
    }

    /// A time's share of the machine's.
    pub(in crate::drill) fn share_of_machine(&self, ns: u64, elapsed: Duration) -> f64 {
        self.budget.limit.share_of(ns, elapsed)
    }

    /// All probes' time so far, ns.
    pub(in crate::drill) fn spent_ns(&self) -> u64 {
        let of = |function: &u32| self.drill.hits(*function).saturating_mul(self.hit_ns(*function));
        let strays_ns = self.drill.strays().saturating_mul(SINGLE_STEP_NS);
        let places_ns: u64 = self.places_ns().values().sum();
        self.budget.watched_ns
            + strays_ns
            + places_ns
            + self.python_ns()
            + self.budget.ever.iter().map(of).sum::<u64>()
    }

    /// The time for indirect calls watched since the last count, ns.
    fn steps_ns(&self) -> u64 {
        let steps: u64 = self.drill.targets().iter().map(|(.., times)| times).sum();
        steps.saturating_sub(self.budget.steps_before).saturating_mul(SINGLE_STEP_NS)
    }

    /// Counts this time.
    pub(super) fn count_steps(&mut self) {
        let ns = self.steps_ns();
        self.budget.watched_ns += ns;
        self.budget.steps_before += ns / SINGLE_STEP_NS;
    }

    /// Whether the watched indirect calls took more than the budget allows in this time.
    pub(super) fn steps_are_over_budget(&self, elapsed: Duration) -> bool {
        self.steps_ns() as f64 > self.budget.limit.allowed_ns(elapsed)
    }

    /// The nodes whose probes took too much of a call's time. If a node still takes at least half of its caller's time
    /// without the probes' cost, the node is kept as a loop.
    pub(super) fn too_dear(&mut self, call: &DrillCall) -> Vec<NodeId> {
        // Probes on Python functions cannot be removed one by one.
        if self.python.is_some() {
            return Vec::new();
        }
        let is_dear = |count: u64, cost: Calibration| {
            count >= MANY_CALLS && count.saturating_mul(cost.per_call_ns) > call.latency / TOO_DEAR
        };
        let measured = call.nodes.iter().filter(|times| times.node != 0);
        let dear: Vec<(NodeId, &DrillNode, Calibration)> = measured
            .filter_map(|times| {
                let node = *self.search.slots.get(times.node as usize)?;
                let cost = self.cost(node)?;
                is_dear(times.count, cost).then_some((node, times, cost))
            })
            .collect();
        for &(node, times, cost) in &dear {
            let Some(known) = self.search.nodes.get(&node).copied() else { continue };
            let Some(parent) = known.parent else { continue };
            let in_caller = |of: &&DrillNode| self.search.slots.get(of.node as usize) == Some(&parent);
            let callers = call.nodes.iter().find(in_caller).map_or(0, |caller| caller.sum);
            let net = times.sum.saturating_sub(times.count.saturating_mul(cost.shift));
            let times = times.count;
            self.search.dear.push((parent, node, times));
            if net.saturating_mul(2) >= callers.saturating_sub(times.saturating_mul(cost.per_call_ns)) {
                self.search.frequent.push((parent, node, times));
            }
            let names = [parent, node].map(|node| self.name(node).unwrap_or_default());
            self.note(format!(
                "{} calls {} {times} times in a call: its probes would take a large part of it, so its time counts as {}'s own",
                names[0], names[1], names[0]
            ));
        }
        dear.into_iter().map(|(node, ..)| node).collect()
    }

    /// The measured nodes whose probes take more than the budget allows; they are noted, and their functions get none any more.
    pub(super) fn over_budget(&mut self) -> Vec<NodeId> {
        let elapsed = self.budget.since.elapsed();
        let spent = self.spent();
        if !self.budget.is_over(spent.values().sum(), elapsed) {
            return Vec::new();
        }
        let gone = to_remove(&spent, |function| function != 0, self.budget.limit.allowed_ns(elapsed));
        for function in &gone {
            let ns = spent.get(function).copied().unwrap_or(0);
            let Some(Known::Probed(found)) = self.functions.get(FunctionId(*function)) else { continue };
            let name = found.function.readable.clone();
            let hits = self.drill.hits(*function) - self.budget.before.get(function).copied().unwrap_or(0);
            let per_second = hits as f64 / elapsed.as_secs_f64().max(1e-3);
            let percent = 100.0 * self.budget.limit.share_of(ns, elapsed);
            self.search.too_often.push(TooOften { name, per_second, percent });
            self.budget.leave_out(*function);
        }
        let is_gone = |node: &&MeasuredNode| node.callee.is_some_and(|callee| gone.contains(&callee.0));
        self.search.measured.iter().filter(is_gone).map(|node| node.node).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_probes_are_named_in_a_sentence_the_dearest_first() {
        let one =
            |name: &str, percent: f64| TooOften { name: name.to_owned(), per_second: 1e3 * percent, percent };
        assert_eq!(removed(&[]), None);
        let all = [one("a", 3.0), one("b", 40.4), one("c", 5.0), one("d", 4.0), one("e", 1.0)];
        let text = removed(&all).expect("a sentence");
        let named = text.split_once("own: ").expect("names").1;
        assert_eq!(
            named,
            "b (40400 calls a second, 40% of the machine), c (5000 calls a second, 5% of the machine), d (4000 calls a second, 4% of the machine) and 2 \
             more"
        );
        assert!(removed(&all[..1]).is_some_and(|text| text.ends_with("3% of the machine)")));
    }

    #[test]
    fn a_first_call_may_return_for_a_tenth_of_a_second() {
        let mut budget = Budget { limit: ProbeBudget::new(0.05).on_cpus(1.0), ..Budget::new(0.05) };
        let ms = Duration::from_millis;
        // 5 ms are allowed at once.
        let is_over = |budget: &Budget, spent_ms: u64, at: u64| budget.is_over(spent_ms * 1_000_000, ms(at));
        assert_eq!(
            [is_over(&budget, 99, 99), is_over(&budget, 99, 100), is_over(&budget, 100, 99)],
            [false, true, true]
        );
        assert!(!is_over(&budget, 10, 100));
        budget.heard(0);
        assert!(!is_over(&budget, 99, 99));
        budget.heard(1);
        budget.heard(0);
        assert_eq!([is_over(&budget, 5, 0), is_over(&budget, 6, 0)], [false, true]);
    }

    #[test]
    fn what_a_search_took_beyond_its_share_is_owed() {
        let budget = Budget { limit: ProbeBudget::new(0.05).on_cpus(4.0), ..Budget::new(0.05) };
        let owed = |spent_ns, seconds| budget.owed_ns(spent_ns, Duration::from_secs(seconds)).round();
        assert_eq!([owed(0, 0), owed(1_000, 0), owed(500_000_000, 2)], [0.0, 1_000.0, 100_000_000.0]);
        assert_eq!(owed(500_000_000, 3), -100_000_000.0);
    }
}
