//! Answers: the status, the root causes, and the reasons for doubt. Data, without sentences.

use serde::{Deserialize, Serialize};

use crate::event::{Drift, NoSites, NodeId};

/// A drill-down's progress (Traeger 2008, section 3.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Status {
    /// No peak is chosen yet: calls to f₀ are counted.
    Counting,
    /// Functions are measured.
    InProgress,
    /// Each path ended, at least one at the maximum depth.
    MaxDepthReached,
    /// Each path ended by itself.
    RootCauseFound,
    /// Each path ended by itself, but none at a cause: the functions below its last node could not be measured.
    EndsEarly,
    /// The search ended before all paths did.
    Stopped(StopReason),
}

/// The reason why a drill-down ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum StopReason {
    /// The user ended it.
    User,
    /// The program ended.
    ProgramEnded,
    /// The allowed time or overhead is used up.
    Budget,
    /// The code was unloaded or replaced.
    Unloaded,
    /// The histogram has no peak with the number `start_peak`.
    NoSuchPeak {
        /// The requested number, counted from 1.
        asked: u32,
        /// The number of peaks.
        peaks: u32,
    },
    /// The chosen functions were not called any more.
    NotSeen,
    /// The tree has [`crate::MAX_NODES`] nodes.
    TreeFull,
}

/// A path from f₀ to a root cause.
#[derive(Debug, Clone, PartialEq)]
pub struct RootCause {
    /// The nodes from [`NodeId::F0`] to the path's last node.
    pub path: Vec<NodeId>,
    /// The consumer of the time there. `None`: not decided yet, or unmeasured callees may have taken the time.
    pub cause: Option<NodeCause>,
    /// The reason why the path ends there; `None` while its last node is examined.
    pub end: Option<End>,
    /// The cause's mean time per call to f₀ within the peak, ns; divided by [`RootCause::f0_ns`], its share.
    pub ns: u64,
    /// The mean time in which the last node's function was blocked itself, over the same calls, ns.
    pub blocked_ns: u64,
    /// The mean latency of f₀ in these calls, ns.
    pub f0_ns: u64,
    /// The votes at each level, from f₀ down.
    pub levels: Vec<LevelVotes>,
    /// From 0 to 1: the lowest [`LevelVotes::confidence`].
    pub confidence: f64,
    /// Reasons to doubt the path, without duplicates; empty if there are none.
    pub doubts: Vec<Doubt>,
}

/// The votes at a level of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LevelVotes {
    /// The decided node.
    pub node: NodeId,
    /// The calls to f₀ with a vote.
    pub calls: u64,
    /// The calls in which the chosen contributor was among the largest (`maxcount`).
    pub chosen: u64,
    /// The `maxcount` of the largest contributor not chosen; 0 if there is none.
    pub runner_up: u64,
}

impl LevelVotes {
    /// The chosen contributor's lead, divided by all calls: from 0 to 1.
    pub fn confidence(&self) -> f64 {
        if self.calls == 0 {
            0.0
        } else {
            self.chosen.saturating_sub(self.runner_up) as f64 / self.calls as f64
        }
    }
}

/// The consumer of a node's time, where a path ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum NodeCause {
    /// The function itself; [`RootCause::blocked_ns`] is the part of it spent waiting.
    Itself,
    /// Many short calls to the same callee (Traeger 2008, section 3.4): f calls g n times.
    Loop {
        /// The callee's node.
        callee: NodeId,
        /// The median number of calls to the callee per call to f₀.
        calls: u64,
    },
    /// Another thread had the CPU (section 3.12).
    Preempted {
        /// Whether the preemption hit several callees, none in half of the calls, so that the path ends here.
        spread: bool,
    },
    /// An interrupt (section 3.12).
    Interrupt {
        /// The interrupt's number.
        number: u32,
        /// Like in [`NodeCause::Preempted`].
        spread: bool,
    },
    /// The hypervisor had the CPU.
    Stolen {
        /// Like in [`NodeCause::Preempted`].
        spread: bool,
    },
    /// Calls from an indirect site with unknown targets, or too many.
    UnknownTarget,
}

/// The reason why a path ends at a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum End {
    /// The time is spent in the function itself, or taken from it: no callee is among the largest contributors, or the
    /// function is among them beside its callees.
    Itself,
    /// The function has no measurable callees.
    NoCallees(NoSites),
    /// The path is `max_depth` calls long.
    MaxDepth,
    /// The function's latency is in a bucket below `min_bucket`.
    BelowMinBucket,
    /// The called function is not known.
    UnknownTarget,
    /// The function was chosen, and then not called any more.
    NotSeen,
    /// The search was stopped before the decision on the node.
    #[default]
    Stopped,
}

/// A reason to doubt a path.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Doubt {
    /// Another contributor to this node came close and was not chosen: it had at least a sixth of the chosen
    /// contributor's votes, or more than half of its mean time.
    CloseVotes {
        /// The node.
        node: NodeId,
    },
    /// The chosen contributor was among the largest in less than half of the calls.
    NoMajority {
        /// The node.
        node: NodeId,
    },
    /// Fewer than ten calls had a vote on this node.
    FewCalls {
        /// The node.
        node: NodeId,
        /// The number of calls with a vote.
        calls: u64,
    },
    /// The vote of some calls depends on the probes' time (Traeger 2008, section 3.5).
    ProbeCost {
        /// The node.
        node: NodeId,
        /// The number of these calls.
        calls: u64,
    },
    /// Some calls are within the peak only because of the probes' time, or only without it.
    PeakShift {
        /// The number of these calls.
        calls: u64,
    },
    /// Call sites in this node were not measured, and the path ends here: their time counts as the node's own.
    SitesNotMeasured {
        /// The node.
        node: NodeId,
        /// The number of sites; 0 if not known.
        sites: u64,
    },
    /// An indirect site in this node called unknown functions.
    UnknownTargets {
        /// The node.
        node: NodeId,
    },
    /// Callees were measured in batches, and a callee left out of the decision may be among the largest.
    LeftOut {
        /// The node.
        node: NodeId,
    },
    /// Call records overflowed or were lost.
    CallsMissing {
        /// The number of records.
        calls: u64,
    },
    /// f₀'s distribution changed.
    Drift(Drift),
}
