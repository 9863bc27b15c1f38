//! Answers: the status, the root causes, and the reasons for doubt. Data, without sentences.

use serde::{Deserialize, Serialize};

use crate::event::{Drift, NoSites, NodeId};

/// How far a drill-down has come (Traeger 2008, section 3.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Status {
    /// No peak is chosen yet: calls of f₀ are counted.
    Counting,
    /// Functions are measured.
    InProgress,
    /// Each path ended, at least one of them because it reached the maximum depth.
    MaxDepthReached,
    /// Each path ended by itself.
    RootCauseFound,
    /// Each path ended by itself, and none of them at a cause: the functions below its last one could not be measured.
    EndsEarly,
    /// It ended before all paths did.
    Stopped(StopReason),
}

/// The reason for which a drill-down ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum StopReason {
    /// The user ended it.
    User,
    /// The program ended.
    ProgramEnded,
    /// The time or the overhead that was allowed is used up.
    Budget,
    /// The code was unloaded or replaced.
    Unloaded,
    /// The histogram has no peak with the number `start_peak`.
    NoSuchPeak {
        /// The number that was asked for, counted from 1.
        asked: u32,
        /// The number of peaks.
        peaks: u32,
    },
    /// The functions that were chosen were not called any more.
    NotSeen,
    /// The tree has [`crate::MAX_NODES`] nodes.
    TreeFull,
}

/// A path from f₀ to a root cause.
#[derive(Debug, Clone, PartialEq)]
pub struct RootCause {
    /// The nodes from [`NodeId::F0`] to the one that the path ends at.
    pub path: Vec<NodeId>,
    /// The thing that takes the time there; `None` if that is not known: not decided yet, or the time may be that of
    /// callees which were not measured.
    pub cause: Option<Cause>,
    /// The reason for which the path ends there; `None` while it is examined.
    pub end: Option<End>,
    /// The time of the cause in a call of f₀ within the peak, mean, ns; with [`RootCause::f0_ns`] its share.
    pub ns: u64,
    /// The time in which the last node's function was blocked itself, mean of the same calls, ns.
    pub blocked_ns: u64,
    /// The latency of those calls of f₀, mean, ns.
    pub f0_ns: u64,
    /// The votes at each level, from f₀ down.
    pub levels: Vec<LevelVotes>,
    /// From 0 to 1: the lowest [`LevelVotes::confidence`].
    pub confidence: f64,
    /// Reasons to doubt the path, without duplicates; empty if there are none.
    pub doubts: Vec<Doubt>,
}

/// The votes by which one level of a path was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LevelVotes {
    /// The node that was decided.
    pub node: NodeId,
    /// The calls of f₀ that had a vote.
    pub calls: u64,
    /// The calls in which the chosen contributor was among the largest (`maxcount`).
    pub chosen: u64,
    /// The same of the largest contributor that was not chosen; 0 if there is none.
    pub runner_up: u64,
}

impl LevelVotes {
    /// The lead of the chosen contributor, as a part of all calls: from 0 to 1.
    pub fn confidence(&self) -> f64 {
        if self.calls == 0 {
            0.0
        } else {
            self.chosen.saturating_sub(self.runner_up) as f64 / self.calls as f64
        }
    }
}

/// The thing that takes the time of a node at which a path ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Cause {
    /// The function itself; [`RootCause::blocked_ns`] says how much of it was waiting.
    Itself,
    /// Many short calls of one callee (Traeger 2008, section 3.4): f calls g n times.
    Loop {
        /// The callee's node.
        callee: NodeId,
        /// The median number of its calls per call of f₀.
        calls: u64,
    },
    /// Another thread had the CPU (section 3.12).
    Preempted {
        /// Whether it hit several callees, none of them in half of the calls, so that the path ends here.
        spread: bool,
    },
    /// An interrupt (section 3.12).
    Interrupt {
        /// Its number.
        number: u32,
        /// Like in [`Cause::Preempted`].
        spread: bool,
    },
    /// The hypervisor had the CPU.
    Stolen {
        /// Like in [`Cause::Preempted`].
        spread: bool,
    },
    /// Calls of an indirect site whose targets are not known, or too many.
    UnknownTarget,
}

/// The reason for which a path ends at a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum End {
    /// The time is spent in the function itself, or taken from it: no callee is among the largest contributors, or
    /// the function is one of them beside its callees.
    Itself,
    /// It has no callees that can be measured.
    NoCallees(NoSites),
    /// The path is `max_depth` calls long.
    MaxDepth,
    /// Its latency is in a bucket below `min_bucket`.
    BelowMinBucket,
    /// The function that is called is not known.
    UnknownTarget,
    /// It was chosen, and then not called any more.
    NotSeen,
    /// The search was stopped before it was decided.
    #[default]
    Stopped,
}

/// A reason to doubt a path.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Doubt {
    /// Another contributor of this node came close and was not chosen: it had at least a sixth of the votes of the chosen
    /// one, or took more than half of its time in the mean.
    CloseVotes {
        /// The node.
        node: NodeId,
    },
    /// The chosen contributor was among the largest in less than half of the calls.
    NoMajority {
        /// The node.
        node: NodeId,
    },
    /// Fewer calls had a vote on this node than `decision_calls`.
    FewCalls {
        /// The node.
        node: NodeId,
        /// Their number.
        calls: u64,
    },
    /// The vote of some calls depends on the time that probes take (Traeger 2008, section 3.5).
    ProbeCost {
        /// The node.
        node: NodeId,
        /// The number of these calls.
        calls: u64,
    },
    /// Some calls are within the peak only because of the time that probes take, or only without it.
    PeakShift {
        /// The number of these calls.
        calls: u64,
    },
    /// Call sites of this node were not measured, and the path ends here: their time counts as the node's own.
    SitesNotMeasured {
        /// The node.
        node: NodeId,
        /// The number of sites; 0 if it is not known.
        sites: u64,
    },
    /// An indirect site of this node called functions that are not known.
    UnknownTargets {
        /// The node.
        node: NodeId,
    },
    /// Callees were measured in batches, and one that was left out of the decision may be among the largest.
    LeftOut {
        /// The node.
        node: NodeId,
    },
    /// Records of calls overflowed or were lost.
    CallsMissing {
        /// Their number.
        calls: u64,
    },
    /// f₀'s distribution changed.
    Drift(Drift),
}
