//! A path as data: what every shell (text, JSON, Perfetto) shows.

use wakepath_clock::{Reference, Stamp};
use wakepath_event::{BlockRequest, Call, Context, FlowId};
use wakepath_wait_graph::{Graph, ThreadIndex};

use crate::Problem;

/// A stretch of one thread's time, to be explained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Whose time.
    pub thread: ThreadIndex,
    /// Its first nanosecond.
    pub from: Stamp<Reference>,
    /// One past its last nanosecond.
    pub to: Stamp<Reference>,
}

/// How a path was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// Each wait is replaced by what its waker did meanwhile (G15 Algorithm 5).
    Active,
    /// The same, but time-outs after which a thread goes back to the same wait count as that wait
    /// ([`Rule::JoinedTimeouts`]).
    Joined,
    /// The longest path back from the window's end, waits that a thread ended taken as zero (G15 §4.3.1).
    Exact,
}

/// The whole answer. Segments are in order and tile the window: no gap, no overlap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    /// What was asked.
    pub window: Window,
    /// How it was made.
    pub algorithm: Algorithm,
    /// The tiles.
    pub segments: Vec<Segment>,
    /// The waits that segments explain, in the order in which they were met; a wait's parent comes before it.
    pub waits: Vec<Wait>,
    /// What was doubtful on the way.
    pub problems: Vec<Problem>,
}

impl Path {
    /// Whether the segments tile the window: none is empty, each begins where the one before ends, the first at the
    /// window's beginning and the last at its end.
    pub fn tiles_window(&self) -> bool {
        let mut at = self.window.from;
        self.segments.iter().all(|segment| {
            let follows = segment.from == at && segment.from < segment.to;
            at = segment.to;
            follows
        }) && at == self.window.to
    }
}

/// An index into [`Path::waits`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WaitId(pub u32);

/// A tile of the window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Its first nanosecond.
    pub from: Stamp<Reference>,
    /// One past its last.
    pub to: Stamp<Reference>,
    /// What the time went to.
    pub kind: SegmentKind,
    /// Whose time it is, running or waiting; `None` in flight between hosts.
    pub thread: Option<ThreadIndex>,
    /// The innermost wait that this explains; `None` for the window's own thread.
    pub parent: Option<WaitId>,
    /// How many waits it stands under.
    pub depth: u32,
    /// The link that led here.
    pub via: Via,
    /// The system call that the thread was blocked in, for waits.
    pub call: Option<Call>,
    /// Who or what is responsible beyond the thread itself.
    pub cause: Cause,
    /// How well it is known.
    pub basis: Basis,
}

/// A wait that was explained by what others did meanwhile, clipped to what it explains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// Its first nanosecond on the path.
    pub from: Stamp<Reference>,
    /// When it was ended.
    pub to: Stamp<Reference>,
    /// Who waited.
    pub thread: ThreadIndex,
    /// The wait that this one is part of explaining.
    pub parent: Option<WaitId>,
    /// How many waits it stands under.
    pub depth: u32,
    /// The system call that it was blocked in.
    pub call: Option<Call>,
    /// Who ended it; `None` when it did not end or nobody saw it end.
    pub ended_by: Option<ThreadIndex>,
    /// The link by which it was ended.
    pub via: Via,
    /// The lock waited for and its owner when the wait began, where that is known.
    pub lock: Option<LockCause>,
    /// How well it is known.
    pub basis: Basis,
}

/// What a segment's time went to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SegmentKind {
    /// On a CPU.
    Running,
    /// Waiting for a CPU.
    Runnable,
    /// Kept off the CPU by a cgroup's limit.
    Throttled,
    /// On a CPU that an interrupt borrowed.
    Interrupted,
    /// On a CPU, or about to be, that the hypervisor did not let run.
    Stolen,
    /// Blocked until a time came.
    Timer,
    /// Blocked on a disk.
    BlockDevice,
    /// Blocked on the network, or in flight.
    Network,
    /// Blocked on a lock whose holder's doings are not known.
    Lock,
    /// Blocked on a person.
    UserInput,
    /// Blocked on another device or an interrupt that is none of the above.
    OtherDevice,
    /// Nobody saw.
    Unknown,
}

impl SegmentKind {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Running,
        Self::Runnable,
        Self::Throttled,
        Self::Interrupted,
        Self::Stolen,
        Self::Timer,
        Self::BlockDevice,
        Self::Network,
        Self::Lock,
        Self::UserInput,
        Self::OtherDevice,
        Self::Unknown,
    ];

    /// As documents and questions spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Runnable => "runnable",
            Self::Throttled => "throttled",
            Self::Interrupted => "interrupted",
            Self::Stolen => "stolen",
            Self::Timer => "timer",
            Self::BlockDevice => "block_device",
            Self::Network => "network",
            Self::Lock => "lock",
            Self::UserInput => "user_input",
            Self::OtherDevice => "other_device",
            Self::Unknown => "unknown",
        }
    }
}

/// The link that led to a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Via {
    /// None: the window's own thread.
    Window,
    /// A thread woke the one above.
    Wakeup,
    /// A packet.
    Packet,
    /// A birth.
    Fork,
    /// A wake-up by the thread that released a lock.
    Lock,
    /// A device's interrupt.
    Device,
    /// A timer.
    Timer,
    /// A cgroup's limit.
    Throttle,
}

/// Who or what is responsible for a segment, beyond the thread whose time it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// The thread itself.
    None,
    /// For `Runnable`: who had the CPU.
    Competitor(ThreadIndex),
    /// For `Runnable`: the CPU was idle, or on its way out of idleness.
    IdleCpu,
    /// A timer's expiry ended the wait.
    Timer {
        /// In which interrupt.
        context: Context,
    },
    /// A disk request.
    Block {
        /// The request, where it was seen; apart, since few segments have one and it is large.
        request: Option<Box<BlockRequest>>,
        /// Whether the request was waiting in the queue (else: in the device).
        queued: bool,
    },
    /// A packet from a peer.
    Network {
        /// The flow that the packet travelled by, where it was seen.
        flow: Option<FlowId>,
    },
    /// Some interrupt.
    Interrupt {
        /// Its context.
        context: Context,
        /// Its device interrupt number, where it has one.
        irq: Option<u16>,
    },
    /// A lock.
    Lock(LockCause),
    /// Still waiting when the window closed.
    StillWaiting,
    /// The wait began before the recording did.
    BeforeRecording,
    /// A blocked wait with no waking.
    NoWakeupSeen,
    /// A recorder lost records here.
    Lost,
    /// The kernel did not report a switch here.
    Unrecorded,
    /// The thread was not alive.
    NotAlive,
}

impl Cause {
    /// The cause of time that is unknown since something is missing between `from` and `to`.
    pub(crate) fn missing(graph: &Graph, from: Stamp<Reference>, to: Stamp<Reference>) -> Self {
        if graph.losses().touch_reported(from, to) { Self::Lost } else { Self::Unrecorded }
    }
}

/// A lock and its owner when the wait for it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockCause {
    /// Its address: in the kernel, or in the waiter's process.
    pub address: u64,
    /// Whether it is a kernel lock (else a futex).
    pub kernel: bool,
    /// Its owner, where it is known.
    pub owner: Option<ThreadIndex>,
}

/// How well a figure is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Basis {
    /// Timed at its ends.
    Measured,
    /// From samples.
    Sampled,
    /// By a rule.
    Inferred(Rule),
    /// More than one explanation fits.
    Ambiguous,
}

/// The rules by which segments are inferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rule {
    /// Time that interrupts took is known in sum per stay on the CPU, not in place.
    InterruptsInSum,
    /// The disk request that ended a wait is the last that completed in that interrupt.
    LastCompletion,
    /// The packet that ended a wait is the last received in that context.
    LastPacket,
    /// Consecutive time-outs of the same wait are one wait.
    JoinedTimeouts,
    /// The wake-up came before its own switch-out.
    WakingBeforeSwitch,
    /// A kernel worker was there for anyone until it took up the work.
    TakenUp,
    /// How long a hypervisor kept a CPU is found when the CPU looks; it is taken to have been right before.
    StolenBefore,
}
