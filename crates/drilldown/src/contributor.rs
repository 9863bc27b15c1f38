//! The consumers of a node's time.

use serde::{Deserialize, Serialize};

use crate::event::NodeId;

/// A contributor to a node's latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Contributor {
    /// The function itself, with all calls to each callee except the longest.
    Itself,
    /// The longest call to a callee.
    Callee(NodeId),
    /// An activity that took the CPU from the function.
    Foreign(Foreign),
}

/// An activity that takes the CPU from a thread (Traeger 2008, section 3.12).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Foreign {
    /// Another thread ran.
    Preemption,
    /// The hypervisor ran something else.
    Steal,
    /// An interrupt with this number was handled.
    Interrupt(u32),
}
