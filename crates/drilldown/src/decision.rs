//! Decisions with their votes, as data: the explanation of a search.

use serde::{Deserialize, Serialize};

use crate::contributor::{Contributor, Foreign};
use crate::event::{Epoch, NodeId};

/// The decision on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// The node.
    pub node: NodeId,
    /// The epoch of its last vote.
    pub epoch: Epoch,
    /// The calls to f₀ within the peak since the decision before.
    pub calls: u64,
    /// The calls in which the node was called: each had a vote.
    pub votes: u64,
    /// The votes that depend on the probes' time.
    pub unsure: u64,
    /// The calls that are within the peak, or outside, only because of the probes' time.
    pub shifted: u64,
    /// The call records that overflowed or were lost meanwhile.
    pub missing: u64,
    /// The contributors seen, in their order.
    pub contributors: Vec<Contribution>,
    /// An activity that took most of the node's time, and hit several places below it: then this is the answer, and no
    /// contributor is chosen.
    pub spread: Option<Spread>,
    /// The number of call sites that could not be measured.
    pub not_measured: u64,
    /// The batches in which the callees were measured, if they did not fit at a time.
    pub batches: Vec<Batch>,
    /// The callees left out of the vote after the batches, with the mean of their longest calls over all votes in their
    /// batch, ns, the largest first.
    pub left_out: Vec<(NodeId, u64)>,
    /// The number of calls in which a callee of a site with unknown targets was among the largest.
    pub unknown_targets: u64,
}

/// A contributor in a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contribution {
    /// The contributor.
    pub contributor: Contributor,
    /// The calls to f₀ in which the contributor was among the largest.
    pub maxcount: u64,
    /// The calls to f₀ in which the contributor took any time.
    pub calls: u64,
    /// The mean latency over all votes, ns.
    pub mean_ns: u64,
    /// The median latency over the calls in which the contributor was among the largest, ns.
    pub median_ns: u64,
    /// Whether the contributor was chosen.
    pub chosen: bool,
}

/// An activity that hit a node and the nodes below it in no particular place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spread {
    /// The cause.
    pub foreign: Foreign,
    /// The calls to f₀ in which the cause took more than half of the node's time.
    pub maxcount: u64,
    /// The mean time over all votes, ns.
    pub mean_ns: u64,
}

/// Callees measured together because all together did not fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// The callees.
    pub nodes: Vec<NodeId>,
    /// The calls to f₀ within the peak during the batch.
    pub calls: u64,
}

impl Decision {
    /// A contributor's contribution, if it was seen.
    pub fn of(&self, contributor: Contributor) -> Option<&Contribution> {
        self.contributors.iter().find(|it| it.contributor == contributor)
    }

    /// The largest number of votes for a contributor not chosen.
    pub fn runner_up(&self) -> u64 {
        self.contributors.iter().filter(|it| !it.chosen).map(|it| it.maxcount).max().unwrap_or(0)
    }
}
