//! The events that a driver hands to the machine, and the numbers by which both name functions, calls and nodes.

use serde::{Deserialize, Serialize};
use wakepath_distribution::Histogram;

/// A function, by the number that the driver gave it. The machine compares these numbers and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FunctionId(pub u32);

/// A node of the function tree: a call in the context of its path (Traeger 2008, section 3.1).
///
/// Numbers are given in the order in which nodes become known, and never again to another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The root of the tree: the calls of f₀.
    pub const F0: NodeId = NodeId(0);
}

/// A call instruction, by its address.
///
/// The driver chooses the addresses. A save can be resumed in another process only if they are those of the file that
/// the function is in, not of a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SiteId {
    /// The address of the call instruction (or of the jump, for a tail call).
    pub address: u64,
}

/// How a call site calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SiteKind {
    /// A call of one function.
    Direct(FunctionId),
    /// A call through a register or memory; its targets become known while the program runs ([`Event::Target`]).
    Indirect,
    /// A jump to another function in place of a call and a return: the caller's own call ends when the callee
    /// returns, and so does the callee's.
    Tail(FunctionId),
    /// A tail call through a register or memory.
    IndirectTail,
}

impl SiteKind {
    /// The function that is called, if the instruction names it.
    pub const fn callee(self) -> Option<FunctionId> {
        match self {
            SiteKind::Direct(function) | SiteKind::Tail(function) => Some(function),
            SiteKind::Indirect | SiteKind::IndirectTail => None,
        }
    }
}

/// A call site of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Site {
    /// Its address; no function has two sites at one address.
    pub id: SiteId,
    /// How it calls.
    pub kind: SiteKind,
    /// The reason for which it cannot be probed, if it cannot. The time of its calls counts as the caller's own, and
    /// an answer that this may change says so.
    pub refused: Option<Refusal>,
}

/// The reason for which a place in the code is not probed.
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
    /// It is called so often that its probes would take a large part of the time.
    Dear,
    /// A save has a call there, and the function has none.
    Gone,
}

/// The reason for which a function has no call sites that could be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum NoSites {
    /// It calls no function.
    Leaf,
    /// Its code cannot be decoded.
    NotDecodable,
    /// It is not known where its code ends.
    NoBounds,
    /// It, or all of its call sites, cannot be probed.
    Refused(Refusal),
}

/// A number that grows with each [`crate::Measurement`]. A call belongs to the epoch that was in force when it
/// *began*: all probes of that measurement were in place by then.
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

/// The time that the probes of one measured call add, in ns (Traeger 2008, sections 3.5 and 8.2).
///
/// The machine takes it off before it compares; where an answer depends on it, the answer says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct ProbeCost {
    /// The part between the two stamps of the call, which counts as the callee's time, ns.
    pub inside_ns: u64,
    /// The part before the first and behind the second stamp, which counts as the caller's time, ns.
    pub outside_ns: u64,
}

/// One call of f₀ by one thread, with the times of the measured calls inside it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallRecord {
    /// The epoch in which the call began.
    pub epoch: Epoch,
    /// Its latency, ns, with the time of all probes inside it.
    pub latency_ns: u64,
    /// The nodes that were called, each once, in any order. [`NodeId::F0`] is among them if any of its own time is
    /// known to have gone to something; its latencies are not read.
    pub nodes: Vec<NodeRecord>,
    /// Whether times are missing: the call had more nodes, or more nesting, than there was room for. Such a call
    /// has no vote.
    pub overflowed: bool,
}

/// The calls of one node within one call of f₀.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRecord {
    /// The node.
    pub node: NodeId,
    /// The latency of its longest call, ns.
    pub max_ns: u64,
    /// The latencies of all its calls together, ns.
    pub sum_ns: u64,
    /// The number of its calls, at least 1.
    pub count: u64,
    /// The time in which it was the innermost open node and did not run.
    pub own: OwnTime,
    /// The time that its probes add to a call; `None`: as much as those of f₀.
    pub cost: Option<ProbeCost>,
}

/// Time in which a node was the innermost open one, and its thread did not run its code. Sums over all calls of the
/// node within one call of f₀.
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

/// The time that one interrupt took from a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterruptTime {
    /// The number of the interrupt (vector or irq: the driver decides, and names it).
    pub number: u32,
    /// The sum of its handlers' time, ns.
    pub ns: u64,
}

/// A change of f₀'s distribution while the drill-down went on (Traeger 2008, chapter 5).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Drift {
    /// The earth mover's distance between the distribution in which the peak was chosen and a later one, percent.
    pub earth_mover: f64,
}

/// An event for the machine.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The latencies of f₀ since counting began, without probes inside it.
    ///
    /// Before a peak is chosen, it may come any number of times. With `start_ops` and `start_peak` the machine
    /// chooses the peak when the histogram holds enough calls. After resuming, the search goes on with the first one
    /// that holds enough calls: it is compared with the saved one, and a difference is noted as drift.
    Histogram(Box<Histogram>),
    /// Go on with a save at once, without comparing distributions.
    Resume,
    /// The user chose a peak, given by its latencies.
    Peak(LatencyRange),
    /// The call sites of a function, the answer to [`crate::Effect::FindSites`].
    Sites {
        /// The function.
        function: FunctionId,
        /// Its sites, or the reason for which there are none. No sites are taken for [`NoSites::Leaf`].
        sites: Result<Vec<Site>, NoSites>,
    },
    /// An indirect call site called a function that was not known there.
    ///
    /// A target that is known already, or whose caller is no longer examined, is no error and changes nothing.
    Target {
        /// The node of the caller.
        parent: NodeId,
        /// The call site.
        site: SiteId,
        /// The function that it called.
        callee: FunctionId,
    },
    /// A node of the last [`crate::Measurement`] cannot be measured. The time of its calls counts as its caller's.
    Refused {
        /// The node.
        node: NodeId,
        /// The reason.
        refusal: Refusal,
    },
    /// A call of f₀ ended.
    Call(CallRecord),
    /// Records of calls were lost.
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
