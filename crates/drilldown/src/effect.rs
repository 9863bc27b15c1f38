//! The effects by which the machine moves its driver.

use crate::Status;
use crate::event::{Epoch, FunctionId, NodeId, SiteId, SiteKind};

/// A wish of the machine. Effects are obeyed in the order in which they come, except where one says otherwise: those of an
/// event all before those of the next one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Find the call sites of a function and answer with [`crate::Event::Sites`]. Asked once per function.
    FindSites {
        /// The first node with that function.
        node: NodeId,
        /// The function.
        function: FunctionId,
    },
    /// Measure these nodes from now on.
    Measure(Measurement),
    /// Remove the probes that only these nodes need, and answer with [`crate::Event::Removed`]. This is of low priority:
    /// it may wait as long as there is anything else to do (Traeger 2008, section 3.6). A node that is to be measured again
    /// before it is removed stays.
    Remove {
        /// The nodes. Their calls in later records have no vote; the time of their probes is still taken off.
        nodes: Vec<NodeId>,
    },
    /// There is something new to show: a peak, a decision, a batch.
    Report,
    /// The search has ended. Nothing is measured any more; the probes of f₀ itself can go too.
    Finished(Status),
}

/// All nodes that are to be measured, from an epoch on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measurement {
    /// The epoch that begins when the probes of all nodes are in place. Calls that began earlier keep theirs.
    pub epoch: Epoch,
    /// The nodes, each behind its parent; [`NodeId::F0`] is not listed, it is always measured. Those that are measured
    /// already stay; new ones are instrumented before anything is removed.
    ///
    /// Two nodes may have one call site: then its function is reached on two paths, and has its probes once (Traeger
    /// 2008, section 3.7).
    pub nodes: Vec<MeasuredNode>,
}

/// A node that is to be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MeasuredNode {
    /// The node.
    pub node: NodeId,
    /// Its caller's node.
    pub parent: NodeId,
    /// The call site.
    pub site: SiteId,
    /// How the site calls.
    pub kind: SiteKind,
    /// The function that is called.
    ///
    /// `None` stands for all targets of an indirect site that are no nodes of their own: their calls count here, and
    /// the first call of each is an [`crate::Event::Target`].
    pub callee: Option<FunctionId>,
}
