//! The output of a timeline: thread states, occupants of CPUs, and the evidence for wake-ups.

use wakepath_clock::{Reference, Stamp};
use wakepath_event::{
    BlockRequest, BlockedState, Call, CgroupId, Comm, Context, Cpu, FlowId, LostRecords, Signal,
    SignalEffect, ThreadIdentity, Tid,
};

/// A thread as a dense number, in the order of first appearance. Tids are reused; these are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadIndex(pub u32);

/// The occupant of a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Occupant {
    /// A thread.
    Thread(ThreadIndex),
    /// The idle thread.
    Idle,
    /// Not known.
    #[default]
    Unknown,
}

impl Occupant {
    /// The thread; `None` if idle or unknown.
    pub const fn thread(self) -> Option<ThreadIndex> {
        match self {
            Self::Thread(thread) => Some(thread),
            Self::Idle | Self::Unknown => None,
        }
    }
}

/// The state of a thread for a stretch of time; `W` stands for the details of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State<W> {
    /// On a CPU.
    Running {
        /// The CPU.
        cpu: Cpu,
        /// The time in it that interrupts took, ns; its place is not known.
        interrupts_ns: u32,
    },
    /// Waiting for a CPU.
    Runnable {
        /// The CPU in whose queue it was: where it left, or where it next ran; [`Cpu::UNKNOWN`] if neither is known.
        cpu: Cpu,
        /// The way in which it left that queue.
        left: QueueExit,
    },
    /// Kept off the CPU by a cgroup's limit.
    Throttled {
        /// The CPU from which it was taken.
        cpu: Cpu,
    },
    /// Blocked. Zero nanoseconds long if the wake-up came before the switch-out.
    Blocked(W),
    /// Not known.
    Unknown(UnknownReason),
}

/// The way in which a runnable thread left a CPU's queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueExit {
    /// It ran there, or its state is not known from then on.
    Stayed,
    /// It was moved to another CPU's queue, where the next state begins.
    Moved,
    /// It ran on this other CPU: it was moved, at a time that is not recorded.
    MovedUnseen(Cpu),
}

/// The reason why a state is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownReason {
    /// No record of the thread has come yet.
    NotSeenYet,
    /// The record of a switch is missing.
    Lost,
}

/// A blocked wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wait {
    /// The kernel's state of the waiting thread; `None` if its switch-out was lost.
    pub state: Option<BlockedState>,
    /// The system call it was blocked in.
    pub call: Option<Call>,
    /// The lock that it waited for.
    pub lock: Option<ContendedLock>,
    /// The end of the wait.
    pub end: Waker,
    /// Not a wait: the fork of the thread was still under way.
    pub newborn: bool,
    /// It began before the first record of the thread.
    pub began_before: bool,
    /// Since its wait before, the thread has sent a packet or woken a thread of a program.
    pub acted: bool,
    /// A wake-up before its switch-out came as well. Where records are lost, that one may have ended it: the thread then
    /// ran, and `end` is the end of a later wait.
    pub woken_before: bool,
    /// The signal that cut it short: whoever woke the thread did so to send it, and answered nothing.
    pub cut: Option<Cut>,
}

/// The signal that cut a wait short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// The number of the signal; 0 if the process ended by no signal.
    pub signal: u32,
    /// The effect of the signal on the thread.
    pub effect: SignalEffect,
}

/// The lock that a thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContendedLock {
    /// Its address: in the kernel, or in the waiter's process.
    pub address: u64,
    /// A lock of the kernel; otherwise a futex.
    pub kernel: bool,
    /// Its owner when the wait began.
    pub owner: Option<ThreadIndex>,
    /// The owner is proved: by the kernel, or because it ended the wait itself. Otherwise it is a claim
    /// that stands in the waiter's own memory.
    pub proved: bool,
}

/// The end of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Waker {
    /// A wake-up.
    Woken(WakeUp),
    /// It ended without a record of its wake-up.
    Unseen,
    /// It had not ended when the recording ended, or at the last record of the thread.
    #[default]
    Open,
}

/// A wake-up that ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WakeUp {
    /// Its time; before the wait's first nanosecond if the wake-up came before the switch-out.
    pub at: Stamp<Reference>,
    /// The thread that was current on the CPU of the wake-up: the waker in [`Context::Task`],
    /// otherwise the thread that the interrupt interrupted.
    pub current: Occupant,
    /// The context of the wake-up.
    pub context: Context,
    /// The number of the device interrupt.
    pub irq: u16,
    /// Further evidence in that context.
    pub evidence: EvidenceIndex,
    /// The hypervisor did not let the CPU of that interrupt run right before.
    pub late: Option<Late>,
}

/// Stolen time right before an interrupt that woke a thread: the interrupt may have been due since its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Late {
    /// Its first nanosecond.
    pub from: Stamp<Reference>,
    /// The beginning of the interrupt.
    pub to: Stamp<Reference>,
    /// The CPU was idle. A hypervisor takes no time from an idle CPU unless an interrupt is due there.
    pub idle: bool,
}

/// A number that a [`Sink`] gave to an [`Evidence`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EvidenceIndex(pub u32);

impl EvidenceIndex {
    /// No evidence.
    pub const NONE: Self = Self(u32::MAX);
}

/// The cause of a wake-up by an interrupt: a record of the same interrupt before the wake-up.
///
/// An instance of an interrupt on a CPU ends with the first record there with another context or another
/// current thread, and with a switch; a softirq continues after a hard interrupt that interrupts it.
/// Two instances may follow each other without any record between them, so evidence is used for 10 ms
/// at most: a softirq starts no new round after 2 ms, and one round of packets may take 2 jiffies, 8 ms
/// at 250 Hz. A packet of the very socket that the wake-up names is used at any age, because a
/// hypervisor can take the CPU away in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// A packet arrived.
    Packet(Received),
    /// A disk request completed.
    Block(Completion),
    /// Records of this instance were lost before the wake-up; the evidence may be among them.
    Doubtful,
}

/// An arrived packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Its flow.
    pub flow: FlowId,
    /// Its sending, if that was on a recorded host and has a record.
    pub sent: Option<Sent>,
    /// It is the only possible packet: the wake-up names its socket, or no other packet arrived.
    /// Otherwise it is the last of several.
    pub alone: bool,
    /// The wake-up names its socket.
    pub named: bool,
    /// Its own record may be among the lost ones of that context.
    pub doubtful: bool,
}

/// The sending of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// Its time.
    pub at: Stamp<Reference>,
    /// Its sender.
    pub by: Sender,
}

/// The sender of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// A thread. For a packet that answers or forwards another one in receive context: the sender of
    /// that one.
    Thread(ThreadIndex),
    /// A timer: a delayed acknowledgement, a retransmission.
    Timer(PacketTimer),
    /// An interrupt other than a timer.
    Interrupt(Context),
    /// Not recorded; the packet was sent at [`Sent::at`] or before.
    Unseen,
}

/// A timer that sent a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketTimer {
    /// The flow of the packet that it sent: that of the packet it explains, or the other direction.
    pub flow: FlowId,
    /// The purpose of the packet.
    pub purpose: TimerPurpose,
    /// The first sending of the same, by which thread, where it is known; for an acknowledgement, that of the first byte that
    /// it acknowledges.
    pub first: Option<(Stamp<Reference>, Option<ThreadIndex>)>,
}

/// The purpose of a packet that a timer sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TimerPurpose {
    /// The SYN again.
    Syn {
        /// The number of times that it was sent again.
        repeats: u32,
    },
    /// Data, or the answer to a SYN, that was sent before.
    Data,
    /// An acknowledgement of new bytes, which had been delayed.
    Acknowledgement,
    /// A probe of the receive window that the other end had closed.
    WindowProbe,
    /// Another one, such as a probe whether the other end is there, or a packet that is not of TCP.
    Other,
}

/// A disk request that completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// The request, with stamps on the host's own clock.
    pub request: BlockRequest,
    /// The time of its completion.
    pub at: Stamp<Reference>,
    /// The time at which it was made, by the kernel's statistics or by its issue.
    pub start: Option<Stamp<Reference>>,
    /// The time at which it went to the device.
    pub issued: Option<Stamp<Reference>>,
    /// The thread that issued it. It ran at `start` or later.
    pub submitter: Option<ThreadIndex>,
    /// No other request completed in that instance. Otherwise it is the last of several.
    pub alone: bool,
}

/// A stretch of time in which records of a CPU were lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    /// The CPU.
    pub cpu: Cpu,
    /// The earliest possible time of a lost record.
    pub from: Stamp<Reference>,
    /// The latest possible time.
    pub to: Stamp<Reference>,
    /// The number of lost records; 0 if it is not known.
    pub count: u64,
    /// The records among which they were.
    pub records: LostRecords,
    /// The recording reports it. Otherwise it follows from switches that do not fit together.
    pub reported: bool,
}

/// Receives the output of a [`Timeline`](crate::Timeline).
///
/// The stamps of calls about one thread, or about one CPU, never go back.
pub trait Sink {
    /// A thread appears: the first call about it.
    fn thread(&mut self, thread: ThreadIndex, tid: Tid, at: Stamp<Reference>);
    /// The identity of the thread.
    fn identity(&mut self, thread: ThreadIndex, at: Stamp<Reference>, identity: &ThreadIdentity);
    /// The fork of the thread is recorded.
    fn born(&mut self, thread: ThreadIndex, at: Stamp<Reference>, forker: Occupant);
    /// Its name from `at` on.
    fn named(&mut self, thread: ThreadIndex, at: Stamp<Reference>, comm: Comm);
    /// It executes another program.
    fn exec(&mut self, thread: ThreadIndex, at: Stamp<Reference>, path: &[u8]);
    /// Its tid from `at` on: it executed a program and was not the leader of its process.
    fn renumbered(&mut self, thread: ThreadIndex, at: Stamp<Reference>, tid: Tid);
    /// The thread `by` took over its process and its tid by an exec; this one is dead, or about to be.
    fn succeeded(&mut self, thread: ThreadIndex, by: ThreadIndex);
    /// Its cgroups from `at` on.
    fn moved(&mut self, thread: ThreadIndex, at: Stamp<Reference>, cgroup: CgroupId, cpu_cgroup: CgroupId);
    /// It begins to exit; it may run a little longer.
    fn exited(&mut self, thread: ThreadIndex, at: Stamp<Reference>);
    /// It was in one state from `from` to `to`. The state intervals of a thread are in order and without gaps.
    fn state_interval(
        &mut self,
        thread: ThreadIndex,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
        state: State<&Wait>,
    );
    /// It took a signal, which was sent at that time while that thread was current.
    fn signal(
        &mut self,
        thread: ThreadIndex,
        at: Stamp<Reference>,
        signal: &Signal,
        sent: Option<(Stamp<Reference>, Occupant)>,
    );
    /// The thread got a contended kernel lock.
    fn acquired(&mut self, thread: ThreadIndex, at: Stamp<Reference>, lock: u64);
    /// The occupant of the CPU from `at` on.
    fn occupant(&mut self, cpu: Cpu, at: Stamp<Reference>, occupant: Occupant);
    /// The hypervisor did not let the CPU run from `from` to `to`. Stretches of a CPU are in order and do not overlap.
    fn stolen(&mut self, cpu: Cpu, from: Stamp<Reference>, to: Stamp<Reference>);
    /// Evidence that a later wake-up may refer to.
    fn evidence(&mut self, evidence: Evidence) -> EvidenceIndex;
    /// Records were lost.
    fn loss(&mut self, loss: Loss);
}
