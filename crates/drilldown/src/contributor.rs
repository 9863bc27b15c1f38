//! The things that a node's time can go to.

use serde::{Deserialize, Serialize};

use crate::event::NodeId;

/// A contributor to the latency of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Contributor {
    /// The function itself, with all calls of each callee but the longest one.
    Itself,
    /// The longest call of a callee.
    Callee(NodeId),
    /// Something that took the CPU from it.
    Foreign(Foreign),
}

/// Something that takes the CPU from a thread (Traeger 2008, section 3.12).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Foreign {
    /// Another thread ran.
    Preemption,
    /// The hypervisor ran something else.
    Steal,
    /// An interrupt with this number was handled.
    Interrupt(u32),
}
