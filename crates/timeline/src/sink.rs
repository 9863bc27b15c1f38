use wakepath_clock::{Reference, Stamp};
use wakepath_event::{
    BlockRequest, BlockedState, Call, CgroupId, Comm, Context, Cpu, FlowId, ThreadIdentity, Tid,
};

/// A thread: (host, tid, start) made into a dense number, in the order of first appearance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadIndex(pub u32);

/// Who has a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Occupant {
    /// A thread.
    Thread(ThreadIndex),
    /// Nobody: the idle thread.
    Idle,
    /// Nobody knows.
    Unknown,
}

impl Occupant {
    /// The thread, where it is one.
    pub const fn thread(self) -> Option<ThreadIndex> {
        match self {
            Self::Thread(thread) => Some(thread),
            Self::Idle | Self::Unknown => None,
        }
    }
}

/// What a thread was doing for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State<'a> {
    /// On a CPU.
    Running {
        /// Which.
        cpu: Cpu,
        /// How much of it interrupts took, ns; where within it is not known.
        interrupts_ns: u32,
    },
    /// Waiting for a CPU.
    Runnable {
        /// The CPU on which it next ran ([`Cpu::UNKNOWN`] when it did not).
        cpu: Cpu,
    },
    /// Kept off the CPU by a cgroup's limit.
    Throttled {
        /// The CPU from which it was taken.
        cpu: Cpu,
    },
    /// Blocked. Zero nanoseconds long when the waking came before the switch-out.
    Blocked(&'a Wait),
    /// Nobody knows.
    Unknown(UnknownReason),
}

/// Why a state is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownReason {
    /// Nothing has been seen of the thread yet.
    NotSeenYet,
    /// A switch is missing.
    Lost,
}

/// A blocked wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// How it waited; `None` when its switch-out was lost.
    pub state: Option<BlockedState>,
    /// The system call it was blocked in.
    pub call: Option<Call>,
    /// The lock it waited for.
    pub lock: Option<ContendedLock>,
    /// What ended it.
    pub end: Waker,
    /// It was not a wait: the thread was being made by the one that forked it.
    pub newborn: bool,
    /// It began before the first that was seen of the thread.
    pub began_before: bool,
}

/// The lock that a thread waits for, where that can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContendedLock {
    /// Its address: in the kernel, or in the waiter's process.
    pub address: u64,
    /// It is the kernel's (else a futex).
    pub kernel: bool,
    /// Its owner when the wait began.
    pub owner: Option<ThreadIndex>,
    /// The owner is proved: the kernel says so, or it ended the wait itself. Otherwise it is a
    /// claim, made by a word in the waiter's own memory.
    pub proved: bool,
}

/// What ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waker {
    /// A waking.
    Woken {
        /// When. Before the wait's first nanosecond when the waking came before the switch-out.
        at: Stamp<Reference>,
        /// The thread current on the CPU of the waking: the waker in [`Context::Task`], else whom
        /// the interrupt interrupted.
        current: Occupant,
        /// In which context.
        context: Context,
        /// The number of the device interrupt.
        irq: u16,
        /// What else was seen in that context.
        evidence: EvidenceIndex,
    },
    /// It is over, and nobody saw what ended it.
    Unseen,
    /// It was not over when the recording ended, or when the thread was last seen.
    Open,
}

/// A number that a [`Sink`] gave to an [`Evidence`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EvidenceIndex(pub u32);

impl EvidenceIndex {
    /// No evidence.
    pub const NONE: Self = Self(u32::MAX);
}

/// What was seen in the interrupt that made a waking, before it.
///
/// An instance of an interrupt on a CPU ends with the first record there that shows another
/// context or another current thread, and with a switch; one of a softirq goes on behind a hard
/// interrupt that comes amid it. Since two instances may follow each other without any record
/// between, evidence is used for 10 ms at most: a softirq starts no new round
/// after 2 ms, and one round of packets may take 2 jiffies, 8 ms at 250 a second. But a packet of the
/// very socket that a waking names is used however old it is: a hypervisor can take the CPU away between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// Data arrived by a packet.
    Packet(Received),
    /// A disk request completed.
    Block(Completion),
    /// Records of this instance were lost on its CPU before the waking: what is missing here may
    /// have been there.
    Doubtful,
}

/// An arrived packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Its flow.
    pub flow: FlowId,
    /// Its sending, where that was on this host and seen.
    pub sent: Option<Sent>,
    /// It is the only one that can have been meant: its socket was named, or no other arrived.
    /// Otherwise it is the last that arrived.
    pub alone: bool,
    /// Its own record may be among those that were lost in that context.
    pub doubtful: bool,
}

/// The sending of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// When.
    pub at: Stamp<Reference>,
    /// By whom.
    pub by: Sender,
}

/// Who sent a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// A thread, in its own time. For packets that answer or forward a packet in receive context:
    /// the sender of that one, then.
    Thread(ThreadIndex),
    /// A timer: a delayed acknowledgement, a retransmission.
    Timer(Context),
    /// An interrupt that is no timer.
    Interrupt(Context),
    /// Nobody saw: it was sent when [`Sent::at`] says, or before.
    Unseen,
}

/// A disk request that completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// The request, its stamps on the host's own clock.
    pub request: BlockRequest,
    /// When it completed.
    pub at: Stamp<Reference>,
    /// When it was made, by the kernel's statistics or by its issue.
    pub start: Option<Stamp<Reference>>,
    /// When it went to the device.
    pub issued: Option<Stamp<Reference>>,
    /// The thread that issued it. It ran at `start`, or later.
    pub submitter: Option<ThreadIndex>,
    /// No other completed in that instance. Otherwise it is the last that did.
    pub alone: bool,
}

/// A stretch of time in which a CPU's records were lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    /// Which CPU.
    pub cpu: Cpu,
    /// The earliest time at which one may have been lost.
    pub from: Stamp<Reference>,
    /// The latest.
    pub to: Stamp<Reference>,
    /// How many; 0 when only the fact is known.
    pub count: u64,
    /// The recording says so. Otherwise it follows from switches that do not fit together.
    pub reported: bool,
}

/// Takes what a [`Timeline`](crate::Timeline) makes of the events.
///
/// Stamps of calls about one thread, or about one CPU, never go back.
pub trait Sink {
    /// A thread appears. The first call about it.
    fn thread(&mut self, thread: ThreadIndex, tid: Tid, at: Stamp<Reference>);
    /// Who the thread is.
    fn identity(&mut self, thread: ThreadIndex, at: Stamp<Reference>, identity: &ThreadIdentity);
    /// It was born here.
    fn born(&mut self, thread: ThreadIndex, at: Stamp<Reference>, forker: Occupant);
    /// It is called so from here on.
    fn named(&mut self, thread: ThreadIndex, at: Stamp<Reference>, comm: Comm);
    /// It goes on as another program.
    fn exec(&mut self, thread: ThreadIndex, at: Stamp<Reference>, path: &[u8]);
    /// It has another tid from here on: it executed a program and was not its process's leader.
    fn renumbered(&mut self, thread: ThreadIndex, at: Stamp<Reference>, tid: Tid);
    /// Its process goes on as `by`, which executed a program and has its tid; it is dead, or about to be.
    fn succeeded(&mut self, thread: ThreadIndex, by: ThreadIndex);
    /// It is in other cgroups from here on.
    fn moved(&mut self, thread: ThreadIndex, at: Stamp<Reference>, cgroup: CgroupId, cpu_cgroup: CgroupId);
    /// It began to exit; it may run for a little longer.
    fn exited(&mut self, thread: ThreadIndex, at: Stamp<Reference>);
    /// It was in a state from here to there. State intervals of a thread are gapless and in order.
    fn state_interval(
        &mut self,
        thread: ThreadIndex,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
        state: State<'_>,
    );
    /// It took part in a wait that is one in name only, or left a lock: it has this kernel lock now.
    fn acquired(&mut self, thread: ThreadIndex, at: Stamp<Reference>, lock: u64);
    /// Who has the CPU from here on.
    fn occupant(&mut self, cpu: Cpu, at: Stamp<Reference>, occupant: Occupant);
    /// The hypervisor did not let the CPU run from here to there. Calls about one CPU are in order and do not overlap.
    fn stolen(&mut self, cpu: Cpu, from: Stamp<Reference>, to: Stamp<Reference>);
    /// Something that a waking may refer to.
    fn evidence(&mut self, evidence: Evidence) -> EvidenceIndex;
    /// Records were lost.
    fn loss(&mut self, loss: Loss);
}
