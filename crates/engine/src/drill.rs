//! The answer of a drill-down: which functions, inside the slow calls of one, make them slow (T08 chapter 3). `live` finds it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use wakepath_distribution::{Histogram, Peak, bounds};
pub use wakepath_drilldown::{
    Cause, Contribution, Contributor, Decision, Doubt, End, Epoch, Foreign, FunctionId, LevelVotes, NoSites,
    NodeId, RootCause, SiteId, Status, StopReason,
};

use crate::latency::ProbeCost;
use crate::{Host, Which};

/// The answer of a drill-down.
#[derive(Debug, Clone)]
pub struct Drilled {
    /// The machine.
    pub host: Host,
    /// The function as it was asked for, and as its language writes it.
    pub target: String,
    /// The names of all functions, by their numbers in the tree.
    pub functions: Vec<DrillFunction>,
    /// The process, and its command's name.
    pub process: (u32, String),
    /// The latencies of f0 before anything below it was probed.
    pub histogram: Histogram,
    /// Its peaks.
    pub peaks: Vec<Peak>,
    /// The number of the one that is explained, counted from 1.
    pub peak: usize,
    /// How long f0 was counted before its peak was chosen.
    pub counted_for: Duration,
    /// How long all of it took.
    pub elapsed: Duration,
    /// The calls of f0 since the beginning.
    pub calls: u64,
    /// The program's phases in which these calls began; `None` where all its time counts.
    pub phases: Option<Phases>,
    /// The requests of these calls; `None` where it does not matter whether another thread handed one over.
    pub handed_over: Option<HandedOver>,
    /// How far it came.
    pub status: Status,
    /// The paths from f0 to what takes the time.
    pub root_causes: Vec<RootCause>,
    /// The decisions, in order, with the votes of each contributor.
    pub decisions: Vec<Decision>,
    /// The tree: for each node its parent, its call site and its function.
    pub nodes: HashMap<NodeId, DrilledNode>,
    /// The source files and lines at which the nodes of the paths are called, where debug information has them.
    pub lines: HashMap<NodeId, (String, u32)>,
    /// Where samples found the threads within a path's last function, for functions with CPU time.
    pub sampled: HashMap<NodeId, Sampled>,
    /// Whether the calls are those of goroutines: while one waits, its thread runs others.
    pub of_goroutines: bool,
    /// Whether the calls are those of Python, whose functions all have probes.
    pub of_python: bool,
    /// The cost of a probed call, where it could be measured.
    pub probe: Option<ProbeCost>,
    /// The functions that were probed at once, at most.
    pub most_probed: usize,
    /// Limits to the meaning of the answer.
    pub notes: Vec<String>,
}

/// Samples of a function's code, in the peak's calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sampled {
    /// Their number.
    pub samples: u64,
    /// The calls that had any.
    pub calls: u64,
    /// Where they were, those with most samples first.
    pub places: Vec<SampledPlace>,
}

/// A line of a function's code, or a function that it calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampledPlace {
    /// The function, perhaps inlined into the one that is sampled; the file where it has no name.
    pub function: String,
    /// The last component of its source file, and the line; `None` without debug information.
    pub line: Option<(String, u32)>,
    /// The number of samples.
    pub samples: u64,
}

/// Whether a path's last cause is mostly a wait.
pub fn is_wait(path: &RootCause) -> bool {
    path.ns > 0 && path.blocked_ns.saturating_mul(2) >= path.ns
}

impl Drilled {
    /// Whether a path ends at a function whose thread mostly waited: a recording of the wait explains it.
    pub fn waits(&self) -> bool {
        !self.of_goroutines && self.root_causes.iter().any(is_wait)
    }

    /// The calls to explain: those from the peak to the next one, or all longer ones.
    pub fn calls_of_peak(&self) -> Which {
        let begin = |index: usize| Some(bounds(self.peaks.get(index)?.from_bucket).start().saturating_sub(1));
        let above = self.peak.checked_sub(1).and_then(begin).unwrap_or(0);
        begin(self.peak).map_or(Which::Above(above), |to| Which::Between(above, to))
    }

    /// A time in which some ten calls of the peak come, if they come as often as before: from 1 to 10 s.
    pub fn time_of_calls(&self) -> Duration {
        let peak = self.peak.checked_sub(1).and_then(|index| self.peaks.get(index));
        let calls = peak.map_or(1, |peak| peak.count.max(1));
        let ten = self.counted_for.as_secs_f64() * 10.0 / calls as f64;
        Duration::from_secs_f64(ten.clamp(1.0, 10.0))
    }
}

/// A function of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrillFunction {
    /// Its name in the form of its language.
    pub name: String,
    /// The file that it is in, as the process sees it.
    pub file: PathBuf,
    /// Its address as the file states it.
    pub address: u64,
    /// The reason why it is not probed.
    pub refused: Option<String>,
}

/// A node of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrilledNode {
    /// Its caller's node; `None` for f0.
    pub parent: Option<NodeId>,
    /// The offset of the call in the caller's file.
    pub site: Option<SiteId>,
    /// Its function; `None` for unknown targets of an indirect call.
    pub function: Option<FunctionId>,
}

/// The functions by which a program says that a phase begins, and that it ends; without the first, one begins at once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PhaseMarks {
    /// A call of it begins a phase.
    pub begins: Option<String>,
    /// A call of it ends one.
    pub ends: Option<String>,
}

/// The phases in which calls were measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phases {
    /// The functions that mark them.
    pub marks: PhaseMarks,
    /// The number of those that began.
    pub began: u64,
}

impl PhaseMarks {
    /// Whether all of the program's time counts.
    pub fn is_empty(&self) -> bool {
        self.begins.is_none() && self.ends.is_none()
    }
}

/// The way of requests to the function that a drill-down begins at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandOver {
    /// The function that hands a request over, as people write it.
    pub by: String,
    /// The number of its argument that is the request's address, counted from 1.
    pub argument: u32,
    /// The number of the first function's argument with the request.
    pub request: u32,
    /// Only requests count that are handed over within a call of this function.
    pub within: Option<String>,
}

/// The requests that were handed over while the calls were measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandedOver {
    /// Their way.
    pub way: HandOver,
    /// Their number.
    pub requests: u64,
    /// Those that were not followed, since too many had not begun.
    pub not_followed: u64,
    /// Those whose call began.
    pub begun: Queued,
    /// Those whose call was measured within the peak.
    pub in_peak: Queued,
    /// Calls that began with another argument, and were not measured.
    pub others: u64,
}

/// Requests between their hand-over and the beginning of their call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Queued {
    /// Their number.
    pub requests: u64,
    /// Their time in between, together, ns.
    pub ns: u64,
}

impl Queued {
    /// The mean time, ns; `None` without requests.
    pub fn mean_ns(&self) -> Option<u64> {
        self.ns.checked_div(self.requests)
    }

    /// Adds a request that took this time, ns.
    pub fn add(&mut self, ns: u64) {
        self.requests += 1;
        self.ns = self.ns.saturating_add(ns);
    }
}
