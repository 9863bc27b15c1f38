//! The effects by which the machine moves its driver.

use crate::Status;
use crate::event::{Epoch, FunctionId, NodeId, SiteId, SiteKind};

/// A wish of the machine. Effects are obeyed in their order, except where an effect's description says otherwise: all
/// effects of an event before the next event's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Find a function's call sites and answer with [`crate::Event::Sites`]. Asked once per function.
    FindSites {
        /// The first node with the function.
        node: NodeId,
        /// The function.
        function: FunctionId,
    },
    /// Measure these nodes from now on.
    Measure(Measurement),
    /// Remove the probes that only these nodes need, and answer with [`crate::Event::Removed`]. The removal has low
    /// priority: it may wait as long as there is anything else to do (Traeger 2008, section 3.6). A node stays if it is
    /// to be measured again before its removal.
    Remove {
        /// The nodes. Their calls in later records have no vote; their probes' time is still taken off.
        nodes: Vec<NodeId>,
    },
    /// There is something new to show: a peak, a decision, a batch.
    Report,
    /// The search has ended. Nothing is measured any more; the probes of f₀ itself can go too.
    Finished(Status),
}

/// All nodes to be measured, from an epoch on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measurement {
    /// The epoch that begins when the probes of all nodes are in place. Calls that began earlier keep their epoch.
    pub epoch: Epoch,
    /// The nodes, each behind its parent; [`NodeId::F0`] is not listed, since it is always measured. Nodes already
    /// measured stay; new nodes are instrumented before anything is removed.
    ///
    /// Two nodes may share a call site: then its function is reached on two paths, and has its probes once (Traeger
    /// 2008, section 3.7).
    pub nodes: Vec<MeasuredNode>,
}

/// A node to be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MeasuredNode {
    /// The node.
    pub node: NodeId,
    /// The caller's node.
    pub parent: NodeId,
    /// The call site.
    pub site: SiteId,
    /// The site's kind.
    pub kind: SiteKind,
    /// The called function.
    ///
    /// `None` stands for all targets of an indirect site without nodes of their own: their calls count here, and the
    /// first call to each is an [`crate::Event::Target`].
    pub callee: Option<FunctionId>,
}
