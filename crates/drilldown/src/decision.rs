//! Decisions with their votes, as data: the explanation of a search.

use serde::{Deserialize, Serialize};

use crate::contributor::{Contributor, Foreign};
use crate::event::{Epoch, NodeId};

/// The decision on one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// The node.
    pub node: NodeId,
    /// The epoch in which its last vote was cast.
    pub epoch: Epoch,
    /// The calls of f₀ within the peak since the decision before.
    pub calls: u64,
    /// Those in which the node was called: each had a vote.
    pub votes: u64,
    /// The votes that depend on the time that probes take.
    pub unsure: u64,
    /// The calls that are within the peak, or outside of it, only because of the time that probes take.
    pub shifted: u64,
    /// The records of calls that overflowed or were lost meanwhile.
    pub missing: u64,
    /// The contributors that were seen, in their order.
    pub contributors: Vec<Contribution>,
    /// Something that took most of the node's time, and hit several places below it: then this is the answer, and no
    /// contributor is chosen.
    pub spread: Option<Spread>,
    /// The callees that could not be measured.
    pub not_measured: u64,
    /// The batches in which its callees were measured, if they did not fit at a time.
    pub batches: Vec<Batch>,
    /// The callees that were left out of the vote after the batches, with the mean of their longest calls over all
    /// votes of their batch, ns, the largest first.
    pub left_out: Vec<(NodeId, u64)>,
    /// A callee of a site whose targets are not known all was among the largest in this number of calls.
    pub unknown_targets: u64,
}

/// A contributor in a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contribution {
    /// The contributor.
    pub contributor: Contributor,
    /// The calls of f₀ in which it was among the largest.
    pub maxcount: u64,
    /// The calls of f₀ in which it took any time.
    pub calls: u64,
    /// Its mean latency over all votes, ns.
    pub mean_ns: u64,
    /// Its median latency over the calls in which it was among the largest, ns.
    pub median_ns: u64,
    /// Whether it was chosen.
    pub chosen: bool,
}

/// Something that hit a node and what is below it in no particular place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spread {
    /// The cause.
    pub foreign: Foreign,
    /// The calls of f₀ in which it took more than half of the node's time.
    pub maxcount: u64,
    /// Its mean time over all votes, ns.
    pub mean_ns: u64,
}

/// Callees that were measured together because all of them did not fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// The callees.
    pub nodes: Vec<NodeId>,
    /// The calls of f₀ within the peak that it took.
    pub calls: u64,
}

impl Decision {
    /// The contribution of a contributor, if it was seen.
    pub fn of(&self, contributor: Contributor) -> Option<&Contribution> {
        self.contributors.iter().find(|it| it.contributor == contributor)
    }

    /// The largest number of votes for a contributor that was not chosen.
    pub fn runner_up(&self) -> u64 {
        self.contributors.iter().filter(|it| !it.chosen).map(|it| it.maxcount).max().unwrap_or(0)
    }
}
