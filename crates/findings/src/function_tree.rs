//! The functions in which a function's calls spend their time, by samples and by the waits' stacks: nothing below the function needs a probe.
//!
//! ```text
//! f0        fffaaaaaabbwwwwwwf      a call: in itself, in `a`, in `b` below `a`, waiting below `b`
//! samples    .   .   .              each stands for an equal part of the time in which the calls ran
//! stacks              .             a wait has its length and the stack with which it began
//! ```
//!
//! The selected calls are compared with the usual calls, per call: what both have makes nothing slow. The path goes down to the callee with the
//! largest difference, as a drill-down by probes does (Traeger 2008, section 3.3), until no callee has more than the function itself. Samples say how
//! often, never how long a single call took: the path is *sampled*, and probes may prove it.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use wakepath_loaded::Frame;
use wakepath_symbols::Found;

use crate::groups::PerGroup;

/// The samples in the selected calls that are enough for an answer.
pub const ENOUGH_SAMPLES: u64 = 30;
/// The waits that are enough too.
pub const ENOUGH_WAITS: u64 = 10;
/// The most functions on a path; recursion counts once.
const MAX_STEPS: usize = 64;

/// Samples and waits in a function, or below.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// The samples there.
    pub samples: u64,
    /// The waits there.
    pub waits: u64,
    /// Their time, ns.
    pub waited_ns: u64,
}

impl Spent {
    fn add(&mut self, other: Self) {
        self.samples += other.samples;
        self.waits += other.waits;
        self.waited_ns += other.waited_ns;
    }
}

/// A group's calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupTimes {
    /// The number of calls.
    pub calls: u64,
    /// Their time on a CPU, ns.
    pub ran_ns: u64,
    /// Their time ready to run, without a CPU, ns.
    pub ready_ns: u64,
    /// Their time in all, ns.
    pub total_ns: u64,
}

#[derive(Debug, Clone, Default)]
struct Node {
    spent: PerGroup<Spent>,
    /// The callees' places in the tree.
    callees: BTreeMap<Frame, usize>,
}

/// A function and its callees, with the time in two groups' calls.
#[derive(Debug, Clone)]
pub struct FunctionTree {
    /// The first is the function itself.
    nodes: Vec<Node>,
    times: PerGroup<GroupTimes>,
    /// Samples and waits whose stacks do not show the function.
    unplaced: PerGroup<Spent>,
    /// Samples in the kernel's work for probes.
    probes: PerGroup<Spent>,
}

/// A function on the path.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The function.
    pub frame: Frame,
    /// The selected calls' samples and waits in it and below.
    pub spent: Spent,
    /// The time in it and below, ns per call: the selected calls' less the usual calls'.
    pub more_ns: f64,
}

/// A reason for doubt about a path.
#[derive(Debug, Clone, PartialEq)]
pub enum SampledDoubt {
    /// At the path's last function, or above, another part is as large within the samples' error: the number of its step, and its callee; `None` for
    /// itself.
    Close(usize, Option<Frame>),
    /// Too few samples and waits for an answer.
    Few,
    /// Samples and waits whose stacks do not reach the function, and all of them.
    Unplaced(u64, u64),
}

/// The callees with the largest part, level by level.
#[derive(Debug, Clone, PartialEq)]
pub struct SampledPath {
    /// The functions below the asked function, in order; empty: it spends the time itself.
    pub steps: Vec<Step>,
    /// Both groups' calls.
    pub times: PerGroup<GroupTimes>,
    /// The selected calls' samples and waits.
    pub spent: Spent,
    /// A selected call's mean time less a usual call's, ns.
    pub more_ns: f64,
    /// Its part without a CPU, ready to run: no function spends it.
    pub ready_ns: f64,
    /// Its part in the kernel's work for probes, ns: no function spends it either.
    pub probes_ns: f64,
    /// The last function's own part, ns: less its callees'.
    pub own_ns: f64,
    /// Whether the last function's own part is mostly waits.
    pub waits: bool,
    /// Reasons for doubt.
    pub doubts: Vec<SampledDoubt>,
}

impl SampledPath {
    /// Whether samples and waits rank functions: there are enough, and most of their stacks show the function. A function that leaves by a jump is
    /// in no stack.
    pub fn is_ranked(&self) -> bool {
        self.doubts.iter().all(|doubt| match doubt {
            SampledDoubt::Few => false,
            SampledDoubt::Unplaced(lost, all) => lost * 2 <= *all,
            SampledDoubt::Close(..) => true,
        })
    }
}

impl Default for FunctionTree {
    fn default() -> Self {
        let [unplaced, probes] = [PerGroup::default(); 2];
        Self { nodes: vec![Node::default()], times: PerGroup::default(), unplaced, probes }
    }
}

impl FunctionTree {
    /// Adds calls of a group.
    pub fn add_calls(&mut self, is_asked: bool, more: GroupTimes) {
        let times = self.times.of(is_asked);
        times.calls += more.calls;
        times.ran_ns += more.ran_ns;
        times.ready_ns += more.ready_ns;
        times.total_ns += more.total_ns;
    }

    /// Adds a sample or a wait with the functions below the asked function, outermost first; `None`: its stack does not show it.
    pub fn add(&mut self, is_asked: bool, spent: Spent, functions: Option<impl IntoIterator<Item = Frame>>) {
        let Some(functions) = functions else { return self.unplaced.of(is_asked).add(spent) };
        let mut at = 0;
        self.nodes[at].spent.of(is_asked).add(spent);
        let mut last: Option<Frame> = None;
        for mut frame in functions {
            if let Found::Function(function) = &mut frame.found {
                function.line = None;
            }
            // A function that calls itself is a single step.
            if last.as_ref() == Some(&frame) {
                continue;
            }
            let new = self.nodes.len();
            let next = *self.nodes[at].callees.entry(frame.clone()).or_insert(new);
            if next == new {
                self.nodes.push(Node::default());
            }
            at = next;
            self.nodes[at].spent.of(is_asked).add(spent);
            last = Some(frame);
        }
    }

    /// Adds a sample in the kernel's work for a probe. It stands for its time, and belongs to no function.
    pub fn add_probe(&mut self, is_asked: bool) {
        self.probes.of(is_asked).samples += 1;
    }

    /// A function's time per selected call, less its time per usual call, ns.
    fn more(&self, spent: PerGroup<Spent>) -> f64 {
        let of = |times: GroupTimes, all: u64, spent: Spent| {
            let per_sample = times.ran_ns as f64 / all.max(1) as f64;
            (spent.samples as f64).mul_add(per_sample, spent.waited_ns as f64) / times.calls.max(1) as f64
        };
        let PerGroup { asked, usual } = self.samples();
        of(self.times.asked, asked, spent.asked) - of(self.times.usual, usual, spent.usual)
    }

    /// All samples, those in probes too.
    fn samples(&self) -> PerGroup<u64> {
        let all = self.all();
        PerGroup {
            asked: all.asked.samples + self.probes.asked.samples,
            usual: all.usual.samples + self.probes.usual.samples,
        }
    }

    /// All samples and waits in the functions, those without a place too.
    fn all(&self) -> PerGroup<Spent> {
        let mut all = self.nodes[0].spent;
        all.asked.add(self.unplaced.asked);
        all.usual.add(self.unplaced.usual);
        all
    }

    /// The path to the function with the largest difference.
    pub fn path(&self) -> SampledPath {
        let all = self.all();
        let PerGroup { asked, usual } = self.times;
        let per_call = |ns: u64, times: GroupTimes| ns as f64 / times.calls.max(1) as f64;
        let mut found = SampledPath {
            steps: Vec::new(),
            times: self.times,
            spent: all.asked,
            more_ns: per_call(asked.total_ns, asked) - per_call(usual.total_ns, usual),
            ready_ns: per_call(asked.ready_ns, asked) - per_call(usual.ready_ns, usual),
            probes_ns: self.more(self.probes),
            own_ns: 0.0,
            waits: false,
            doubts: Vec::new(),
        };
        if all.asked.samples < ENOUGH_SAMPLES && all.asked.waits < ENOUGH_WAITS {
            found.doubts.push(SampledDoubt::Few);
        }
        let PerGroup { asked: unplaced, .. } = self.unplaced;
        let (lost, of) = (unplaced.samples + unplaced.waits, all.asked.samples + all.asked.waits);
        if lost * 10 > of {
            found.doubts.push(SampledDoubt::Unplaced(lost, of));
        }
        let mut at = 0;
        loop {
            let node = &self.nodes[at];
            let mut callees: Vec<_> = node.callees.iter().map(|(frame, place)| (frame, *place)).collect();
            let more = |place: usize| self.more(self.nodes[place].spent);
            callees.sort_by(|one, other| more(other.1).total_cmp(&more(one.1)));
            let own_ns = self.more(node.spent) - callees.iter().map(|(_, place)| more(*place)).sum::<f64>();
            let largest = callees.first().filter(|(_, place)| more(*place) > own_ns);
            let Some(&(frame, next)) = largest.filter(|_| found.steps.len() < MAX_STEPS) else {
                found.own_ns = own_ns;
                found.waits = self.is_mostly_waiting(node, own_ns);
                if let Some((frame, place)) = callees.first()
                    && self.is_close(own_ns, more(*place))
                {
                    found.doubts.push(SampledDoubt::Close(found.steps.len(), Some((*frame).clone())));
                }
                return found;
            };
            let second = callees.get(1).map(|(frame, place)| (more(*place), Some((*frame).clone())));
            let second =
                second.into_iter().chain([(own_ns, None)]).max_by(|one, other| one.0.total_cmp(&other.0));
            if let Some((_, other)) = second.filter(|(ns, _)| self.is_close(more(next), *ns)) {
                found.doubts.push(SampledDoubt::Close(found.steps.len(), other));
            }
            let step =
                Step { frame: frame.clone(), spent: self.nodes[next].spent.asked, more_ns: more(next) };
            found.steps.push(step);
            at = next;
        }
    }

    /// Whether waits are most of a function's own time.
    fn is_mostly_waiting(&self, node: &Node, own_ns: f64) -> bool {
        let below = node.callees.values().map(|place| self.nodes[*place].spent.asked.waited_ns);
        let waited_ns = node.spent.asked.waited_ns - below.sum::<u64>();
        waited_ns as f64 / self.times.asked.calls.max(1) as f64 > own_ns / 2.0
    }

    /// Whether two parts differ by less than two standard deviations of the samples' numbers.
    fn is_close(&self, larger_ns: f64, smaller_ns: f64) -> bool {
        let PerGroup { asked: times, .. } = self.times;
        let samples = self.samples().asked;
        if smaller_ns <= 0.0 {
            return false;
        }
        let of_sample = times.ran_ns as f64 / samples as f64 / times.calls.max(1) as f64;
        let [larger, smaller] = [larger_ns, smaller_ns].map(|ns| ns / of_sample);
        larger - smaller < 2.0 * (larger + smaller).sqrt()
    }
}
