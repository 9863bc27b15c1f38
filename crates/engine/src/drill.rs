//! A drill-down's answer: the functions, inside a function's slow calls, that make them slow (T08 chapter 3). `live` finds it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use wakepath_distribution::{Histogram, Peak, bounds};
pub use wakepath_drilldown::{
    Contribution, Contributor, Decision, Doubt, End, Epoch, Foreign, FunctionId, LevelVotes, NoSites,
    NodeCause, NodeId, RootCause, SiteId, Status, StopReason,
};

pub use wakepath_findings::ENOUGH_SAMPLES;

use crate::latency::ProbeCost;
use crate::{Host, Which};

/// A drill-down's answer.
#[derive(Debug, Clone)]
pub struct Drilled {
    /// The machine.
    pub host: Host,
    /// The function as it was asked for, and as its language writes it.
    pub target: String,
    /// All functions, by their numbers in the tree.
    pub functions: Vec<DrillFunction>,
    /// The process id and command name.
    pub process: (u32, String),
    /// f0's latencies before any probes below it.
    pub histogram: Histogram,
    /// Its peaks.
    pub peaks: Vec<Peak>,
    /// The explained peak's number, from 1 on.
    pub peak: usize,
    /// The total time.
    pub elapsed: Duration,
    /// The f0 calls since the beginning.
    pub calls: u64,
    /// The program's phases in which these calls began; `None` where all its time counts.
    pub phases: Option<Phases>,
    /// The requests behind these calls; `None` where calls count whatever their requests.
    pub handed_over: Option<HandedOver>,
    /// The search's state.
    pub status: Status,
    /// The paths from f0 to the functions that take the time.
    pub root_causes: Vec<RootCause>,
    /// The decisions, in order, with each contributor's votes.
    pub decisions: Vec<Decision>,
    /// The tree: for each node its parent, its call site and its function.
    pub nodes: HashMap<NodeId, DrilledNode>,
    /// The call's source file and line for each node on a path, where debug information has them.
    pub lines: HashMap<NodeId, (String, u32)>,
    /// The functions called by a node's function that had no probes, and why.
    pub unmeasured: HashMap<NodeId, Vec<Unmeasured>>,
    /// Where samples found the threads within a path's last function, for functions with CPU time.
    pub sampled: HashMap<NodeId, Sampled>,
    /// Whether goroutines make the calls: while a goroutine waits, its thread runs others.
    pub of_goroutines: bool,
    /// Whether the calls are Python calls: all Python functions have probes.
    pub of_python: bool,
    /// A probed call's cost, where it could be measured.
    pub probe: Option<ProbeCost>,
    /// The most functions probed at once.
    pub most_probed: usize,
    /// The search's cost to the program.
    pub cost: SearchCost,
    /// Limits to the answer's meaning.
    pub notes: Vec<String>,
}

impl Drilled {
    /// The most time that a node's unmeasured calls may hold in a call of f0, ns: its function's own. `None` before a decision.
    pub fn own_ns(&self, node: NodeId) -> Option<u64> {
        let ends_itself = |path: &&RootCause| {
            path.path.last() == Some(&node) && matches!(path.cause, Some(NodeCause::Itself))
        };
        let of_path = self.root_causes.iter().find(ends_itself).map(|path| path.ns);
        of_path.or_else(|| {
            let decision = self.decisions.iter().rfind(|decision| decision.node == node)?;
            Some(decision.of(Contributor::Itself).map_or(0, |own| own.mean_ns))
        })
    }
}

/// A function without probes, which a measured function calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unmeasured {
    /// Its name as its language writes it; without one its file and address.
    pub function: String,
    /// The reason.
    pub why: NotMeasured,
}

/// The reason why a function has no probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NotMeasured {
    /// The kernel would single-step its probes.
    SingleStep,
    /// It may leave by a jump, and no probe sees when its calls return.
    Jump,
    /// Its code is in no file.
    OutsideFiles,
    /// Its code could not be decoded safely.
    NotDecoded,
    /// A probe might break the program for another reason.
    Unsafe,
    /// The kernel refused its probe.
    Kernel,
    /// Its probes would take a large part of a call.
    TooOften,
    /// Its probes took more than the budget.
    Budget,
}

/// A search's cost to the program.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SearchCost {
    /// The probes' time, ns: their hits by their calibrated cost.
    pub ns: u64,
    /// Its share of the machine's time.
    pub of_machine: f64,
    /// The search's time.
    pub elapsed: Duration,
    /// The mean latency before the search, ns, for calls at least as long as the peak's; 0 without such calls.
    pub call_before_ns: u64,
    /// The same, meanwhile.
    pub call_meanwhile_ns: u64,
}

/// Samples of a function's code, in the peak's calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sampled {
    /// The number of samples.
    pub samples: u64,
    /// The calls with samples.
    pub calls: u64,
    /// The samples' places, most samples first.
    pub places: Vec<SampledPlace>,
}

/// A line of a function's code, or a callee.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampledPlace {
    /// The function, perhaps inlined into the sampled function; its file if it has no name.
    pub function: String,
    /// The last component of the source file's path, and the line; `None` without debug information.
    pub line: Option<(String, u32)>,
    /// The number of samples.
    pub samples: u64,
}

/// Whether a path's last cause is mostly a wait.
pub fn is_wait(path: &RootCause) -> bool {
    path.ns > 0 && path.blocked_ns.saturating_mul(2) >= path.ns
}

/// A peak's calls, by its number from 1 on: from its lower bound to the next peak's, or all longer calls.
pub fn calls_of_peak(peaks: &[Peak], number: usize) -> Which {
    let begin = |index: usize| Some(bounds(peaks.get(index)?.from_bucket).start().saturating_sub(1));
    let above = number.checked_sub(1).and_then(begin).unwrap_or(0);
    begin(number).map_or(Which::Above(above), |to| Which::Between(above, to))
}

/// A function in the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrillFunction {
    /// Its name as its language writes it.
    pub name: String,
    /// Its file, as the process sees it.
    pub file: PathBuf,
    /// Its address according to the file.
    pub address: u64,
    /// The reason for its lack of probes, if any.
    pub refused: Option<String>,
}

/// A node in the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrilledNode {
    /// Its caller's node; `None` for f0.
    pub parent: Option<NodeId>,
    /// The call's offset in the caller's file.
    pub site: Option<SiteId>,
    /// Its function; `None` for an indirect call's unknown targets.
    pub function: Option<FunctionId>,
}

/// The functions that mark a phase's beginning and end in a program; without the first, a phase begins at once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PhaseMarks {
    /// A call of this function begins a phase.
    pub begins: Option<String>,
    /// A call of this function ends a phase.
    pub ends: Option<String>,
}

/// The phases in which calls were measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phases {
    /// The functions that mark the phases.
    pub marks: PhaseMarks,
    /// The begun phases.
    pub began: u64,
}

impl PhaseMarks {
    /// Whether all of the program's time counts.
    pub fn is_empty(&self) -> bool {
        self.begins.is_none() && self.ends.is_none()
    }
}

/// The requests' way to the drill-down's first function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandOver {
    /// The function that hands a request over, as users write it.
    pub by: String,
    /// The number of its argument with the request's address, from 1 on.
    pub argument: u32,
    /// The number of the first function's argument with the request.
    pub request: u32,
    /// Only requests handed over within a call of this function count.
    pub within: Option<String>,
}

/// The requests handed over while calls were measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandedOver {
    /// Their way to f0.
    pub way: HandOver,
    /// The number of requests.
    pub requests: u64,
    /// Requests not followed, because too many had not begun.
    pub not_followed: u64,
    /// Requests whose call began.
    pub begun: Queued,
    /// Requests whose call was measured within the peak.
    pub in_peak: Queued,
    /// Unmeasured calls, which began with another argument.
    pub others: u64,
}

/// Requests between their hand-over and the beginning of their call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Queued {
    /// The number of requests.
    pub requests: u64,
    /// Their total time in between, ns.
    pub ns: u64,
}

impl Queued {
    /// The mean time, ns; `None` without requests.
    pub fn mean_ns(&self) -> Option<u64> {
        self.ns.checked_div(self.requests)
    }

    /// Adds a request with this time, ns.
    pub fn add(&mut self, ns: u64) {
        self.requests += 1;
        self.ns = self.ns.saturating_add(ns);
    }
}
