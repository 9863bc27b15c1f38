//! The driver's events for the machine, and the numbers by which both name functions, calls and nodes.

use serde::{Deserialize, Serialize};
use wakepath_distribution::Histogram;

/// A function, by the driver's number. The machine compares these numbers and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FunctionId(pub u32);

/// A node in the function tree: a call in the context of its path (Traeger 2008, section 3.1).
///
/// Nodes are numbered in the order in which they become known, and a number is never given to another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The root of the tree: the calls to f₀.
    pub const F0: NodeId = NodeId(0);
}

/// A call instruction, by its address.
///
/// The driver chooses the addresses. A save can be resumed in another process only if they are addresses in the
/// function's file, not in a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SiteId {
    /// The call instruction's address (the jump's, for a tail call).
    pub address: u64,
}

/// The way in which a call site calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SiteKind {
    /// A call to a known function.
    Direct(FunctionId),
    /// A call through a register or memory; its targets become known while the program runs ([`Event::Target`]).
    Indirect,
    /// A jump to another function in place of a call and a return: the caller's own call ends when the callee returns,
    /// and so does the callee's.
    Tail(FunctionId),
    /// A tail call through a register or memory.
    IndirectTail,
}

impl SiteKind {
    /// The called function, if the instruction names it.
    pub const fn callee(self) -> Option<FunctionId> {
        match self {
            SiteKind::Direct(function) | SiteKind::Tail(function) => Some(function),
            SiteKind::Indirect | SiteKind::IndirectTail => None,
        }
    }
}

/// A call site in a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Site {
    /// The site's address; no function has two sites at the same address.
    pub id: SiteId,
    /// The site's kind.
    pub kind: SiteKind,
    /// The reason why the site cannot be probed, if so. The time of its calls counts as the caller's own; if this may
    /// change an answer, the answer has a doubt.
    pub refused: Option<Refusal>,
}

/// The reason why a place in the code is not probed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Refusal {
    /// The kernel would have to single-step the instruction there, which costs 20 µs or more.
    SingleStep,
    /// A probe there may corrupt the program.
    Unsafe,
    /// The kernel refused the probe, with this error number.
    Kernel {
        /// The number, positive.
        errno: i32,
    },
    /// The place is called so often, its probes would take a large part of the time.
    Dear,
    /// A save has a call there, and the function has none.
    Gone,
}

/// The reason why a function has no measurable call sites.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum NoSites {
    /// The function calls no function.
    Leaf,
    /// The function's code cannot be decoded.
    NotDecodable,
    /// The end of the function's code is not known.
    NoBounds,
    /// The function, or all its call sites, cannot be probed.
    Refused(Refusal),
}

/// A number that grows with each [`crate::Measurement`]. A call belongs to the epoch in force when it *began*: all
/// probes of this measurement were in place by then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Epoch(pub u32);

/// Latencies from first to last, both included, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LatencyRange {
    /// The lowest latency of the peak, ns.
    pub from_ns: u64,
    /// The highest latency of the peak, ns.
    pub to_ns: u64,
}

impl LatencyRange {
    /// Whether a latency lies in the range.
    pub const fn contains(self, latency_ns: u64) -> bool {
        self.from_ns <= latency_ns && latency_ns <= self.to_ns
    }
}

/// The time that a measured call's probes add, in ns (Traeger 2008, sections 3.5 and 8.2).
///
/// The machine takes it off before it compares; an answer that depends on it has a doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct ProbeCost {
    /// The part between the call's two stamps, which counts as the callee's time, ns.
    pub inside_ns: u64,
    /// The part before the first and behind the second stamp, which counts as the caller's time, ns.
    pub outside_ns: u64,
}

/// A thread's call to f₀, with the times of the measured calls inside it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallRecord {
    /// The epoch in which the call began.
    pub epoch: Epoch,
    /// The call's latency with the time of all probes inside it, ns.
    pub latency_ns: u64,
    /// The called nodes, each once, in any order. [`NodeId::F0`] is among them if it has any [`OwnTime`]; its latencies
    /// are not read.
    pub nodes: Vec<NodeRecord>,
    /// Whether times are missing: there was no room for all the call's nodes or nesting. Such a call has no vote.
    pub overflowed: bool,
}

/// A node's calls within one call to f₀.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRecord {
    /// The node.
    pub node: NodeId,
    /// The longest call's latency, ns.
    pub max_ns: u64,
    /// The latencies of all calls together, ns.
    pub sum_ns: u64,
    /// The number of calls, at least 1.
    pub count: u64,
    /// The time in which the node was the innermost open node and did not run.
    pub own: OwnTime,
    /// The time that the node's probes add to a call; `None`: as much as f₀'s probes.
    pub cost: Option<ProbeCost>,
}

/// Time in which a node was the innermost open node, and its thread did not run the node's code. Sums over all the
/// node's calls within one call to f₀.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OwnTime {
    /// The thread was blocked, ns.
    pub blocked_ns: u64,
    /// Another thread had the CPU, ns.
    pub preempted_ns: u64,
    /// The hypervisor had the CPU, ns.
    pub stolen_ns: u64,
    /// Interrupts ran in place of the thread, by number.
    pub interrupts: Vec<InterruptTime>,
}

/// The time that an interrupt took from a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterruptTime {
    /// The interrupt's number (vector or irq: the driver decides, and names it).
    pub number: u32,
    /// The sum of the handlers' time, ns.
    pub ns: u64,
}

/// A change in f₀'s distribution during the drill-down (Traeger 2008, chapter 5).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Drift {
    /// The earth mover's distance from the distribution in which the peak was chosen to a later one, percent.
    pub earth_mover: f64,
}

/// An event for the machine.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The latencies of f₀ since counting began, without probes inside it.
    ///
    /// Before a peak is chosen, the event may come any number of times. With `start_ops` and `start_peak` the machine
    /// chooses the peak when the histogram holds enough calls. After resuming, the search goes on with the first
    /// histogram with enough calls: the machine compares it with the saved histogram, and notes a difference as drift.
    Histogram(Box<Histogram>),
    /// Go on with a save at once, without comparing distributions.
    Resume,
    /// The user chose a peak, given by its latencies.
    Peak(LatencyRange),
    /// A function's call sites, the answer to [`crate::Effect::FindSites`].
    Sites {
        /// The function.
        function: FunctionId,
        /// The sites, or the reason why there are none. An empty list stands for [`NoSites::Leaf`].
        sites: Result<Vec<Site>, NoSites>,
    },
    /// An indirect call site called a function not known there.
    ///
    /// A target already known, or with a caller no longer examined, is no error and changes nothing.
    Target {
        /// The caller's node.
        parent: NodeId,
        /// The call site.
        site: SiteId,
        /// The called function.
        callee: FunctionId,
    },
    /// A node in the last [`crate::Measurement`] cannot be measured. The time of its calls counts as its caller's.
    Refused {
        /// The node.
        node: NodeId,
        /// The reason.
        refusal: Refusal,
    },
    /// A call to f₀ ended.
    Call(CallRecord),
    /// Call records were lost.
    Lost {
        /// The number of calls.
        calls: u64,
    },
    /// f₀'s distribution changed.
    Drift(Drift),
    /// The probes of these nodes are gone, the answer to [`crate::Effect::Remove`].
    Removed {
        /// The nodes.
        nodes: Vec<NodeId>,
    },
    /// Decide now: in manual mode the only way to a decision.
    Decide,
    /// No more calls will be handed in.
    Stop(crate::StopReason),
}
