//! A timeline's output: thread states, CPU occupants, and the evidence for wake-ups.

use wakepath_clock::{Reference, Stamp};
use wakepath_event::{
    BlockRequest, BlockedState, Call, CgroupId, Comm, Context, Cpu, FlowId, LostRecords, Signal,
    SignalEffect, ThreadIdentity, Tid, Timeout,
};

/// A thread as a dense number, in the order of first appearance. Tids are reused; these are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadIndex(pub u32);

/// A CPU's occupant.
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

/// A thread's state for a stretch of time; `W` stands for a wait's details.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State<W> {
    /// On a CPU.
    Running {
        /// The CPU.
        cpu: Cpu,
        /// The interrupt time in the stretch, ns; its place is not known.
        interrupts_ns: u32,
    },
    /// Waiting for a CPU.
    Runnable {
        /// The CPU in whose queue the thread was: the last CPU, or the next; [`Cpu::UNKNOWN`] if neither is known.
        cpu: Cpu,
        /// The exit from the queue.
        left: QueueExit,
    },
    /// Kept off the CPU by a cgroup's limit.
    Throttled {
        /// The CPU from which the thread was taken.
        cpu: Cpu,
    },
    /// Blocked. Zero nanoseconds long if the wake-up came before the switch-out.
    Blocked(W),
    /// Not known.
    Unknown(UnknownReason),
}

/// A runnable thread's exit from a CPU's queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueExit {
    /// The thread ran there, or its state is not known from then on.
    Stayed,
    /// The thread was moved to another CPU's queue, where the next state begins.
    Moved,
    /// The thread ran on this other CPU: it was moved, at an unrecorded time.
    MovedUnseen(Cpu),
}

/// The reason for an unknown state.
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
    /// The system call in which the thread was blocked.
    pub call: Option<Call>,
    /// The call's time-out, if it waits for a set's descriptors.
    pub timeout: Option<Timeout>,
    /// The awaited lock.
    pub lock: Option<ContendedLock>,
    /// The end of the wait.
    pub end: Waker,
    /// Not a wait: the thread's fork was still under way.
    pub newborn: bool,
    /// The wait began before the thread's first record.
    pub began_before: bool,
    /// Since its previous wait, the thread has sent a packet or woken a thread of a program.
    pub acted: bool,
    /// A second wake-up came before the switch-out. If records are lost, it may have ended the wait: the thread then ran, and `end` is the end of a
    /// later wait.
    pub woken_before: bool,
    /// The signal that cut the wait short: its sender woke the thread to deliver the signal, and answered
    /// nothing.
    pub cut: Option<Cut>,
}

impl Wait {
    /// Whether the switch-out at the wait's beginning has no record.
    pub const fn is_begin_hidden(&self) -> bool {
        self.state.is_none()
    }

    /// The thread that ended the wait by its own action; `None` where an interrupt did, or nothing is known.
    pub const fn woken_by(&self) -> Option<ThreadIndex> {
        match self.end {
            Waker::Woken(WakeUp { current: Occupant::Thread(by), context: Context::Task, .. }) => Some(by),
            _ => None,
        }
    }

    /// Whether the wait's wake-up came before its switch-out at `began`.
    pub fn is_woken_before(&self, began: Stamp<Reference>) -> bool {
        matches!(self.end, Waker::Woken(woken) if woken.at <= began)
    }
}

/// The signal that cut a wait short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// The signal number; 0 for the end of the process without a signal.
    pub signal: u32,
    /// The signal's effect on the thread.
    pub effect: SignalEffect,
}

/// The lock that a thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContendedLock {
    /// The address: in the kernel, or in the waiter's process.
    pub address: u64,
    /// A kernel lock; otherwise a futex.
    pub kernel: bool,
    /// The owner at the wait's beginning.
    pub owner: Option<ThreadIndex>,
    /// The owner is proved: by the kernel, or because it ended the wait itself. Otherwise it is a claim in
    /// the waiter's own memory.
    pub proved: bool,
}

/// The end of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Waker {
    /// A wake-up.
    Woken(WakeUp),
    /// The wait ended without a record of its wake-up.
    Unseen,
    /// The wait had not ended when the recording ended, or at the thread's last record.
    #[default]
    Open,
}

/// A wake-up that ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WakeUp {
    /// The time; before the wait's first nanosecond if the wake-up came before the switch-out.
    pub at: Stamp<Reference>,
    /// The current thread on the wake-up's CPU: the waker in [`Context::Task`], otherwise the interrupted
    /// thread.
    pub current: Occupant,
    /// The wake-up's context.
    pub context: Context,
    /// The device interrupt number.
    pub irq: u16,
    /// Further evidence in this context.
    pub evidence: EvidenceIndex,
    /// The hypervisor did not let the interrupt's CPU run right before.
    pub late: Option<Late>,
}

/// Stolen time right before an interrupt that woke a thread: the interrupt may have been due since its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Late {
    /// The first nanosecond.
    pub from: Stamp<Reference>,
    /// The interrupt's beginning.
    pub to: Stamp<Reference>,
    /// The CPU was idle. A hypervisor takes no time from an idle CPU unless an interrupt is due there.
    pub idle: bool,
}

/// The number by which a [`Sink`] knows an [`Evidence`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EvidenceIndex(pub u32);

impl EvidenceIndex {
    /// No evidence.
    pub const NONE: Self = Self(u32::MAX);
}

/// The cause of a wake-up by an interrupt: a record of the same interrupt before the wake-up.
///
/// An instance of an interrupt on a CPU ends with the first record there with another context or another
/// current thread, and with a switch; a softirq continues after a hard interrupt that interrupts it. Two
/// instances may follow each other without any record between them, so evidence is used for 10 ms at most: a
/// softirq starts no new round after 2 ms, and a round of packets may take 2 jiffies, 8 ms at 250 Hz. A
/// packet for the very socket named by the wake-up is used at any age, because a hypervisor can take the CPU
/// away in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// A packet arrived.
    Packet(Received),
    /// A disk request completed.
    Block(Completion),
    /// Records in this instance were lost before the wake-up; the evidence may be among them.
    Doubtful,
}

/// An arrived packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// The packet's flow.
    pub flow: FlowId,
    /// The packet's sending, if recorded on its host.
    pub sent: Option<Sent>,
    /// The only possible packet: the wake-up names its socket, or no other packet arrived. Otherwise it is
    /// the last of several.
    pub alone: bool,
    /// The wake-up names the packet's socket.
    pub named: bool,
    /// The right packet's record may be among the lost records of this context.
    pub doubtful: bool,
}

/// A packet's sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// The time.
    pub at: Stamp<Reference>,
    /// The sender.
    pub by: Sender,
}

/// A packet's sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// A thread. If the packet answers or forwards another packet in receive context: the sender of the other
    /// packet.
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
    /// The flow of the packet sent by the timer: the explained packet's flow, or the other direction.
    pub flow: FlowId,
    /// The packet's purpose.
    pub purpose: TimerPurpose,
    /// The first sending of the same packet, with its thread, if known; for an acknowledgement: the first sending of the first acknowledged byte.
    pub first: Option<(Stamp<Reference>, Option<ThreadIndex>)>,
}

impl Sent {
    /// The sending of data, if this acknowledgement let it go: `held` if the data's socket had held it back.
    pub(crate) fn lets_go(mut self, held: bool) -> Self {
        if let Sender::Timer(timer) = &mut self.by
            && held
            && timer.purpose == TimerPurpose::Acknowledgement
        {
            timer.purpose = TimerPurpose::Nagle;
        }
        self
    }
}

/// The purpose of a packet sent by a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TimerPurpose {
    /// A repeated SYN.
    Syn {
        /// The number of repeats.
        repeats: u32,
    },
    /// Repeated data, or a repeated answer to a SYN.
    Data,
    /// A delayed acknowledgement of new bytes.
    Acknowledgement,
    /// The same; its receiver held further data back until then (Nagle's algorithm).
    Nagle,
    /// A probe of the receive window closed by the other end.
    WindowProbe,
    /// Another purpose, such as a probe for the other end's presence, or a packet of another protocol than
    /// TCP.
    Other,
}

/// A completed disk request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// The request, with stamps on the host's own clock.
    pub request: BlockRequest,
    /// The completion's time.
    pub at: Stamp<Reference>,
    /// The time at which the request was made, by the kernel's statistics or by its issue.
    pub start: Option<Stamp<Reference>>,
    /// The time at which the request went to the device.
    pub issued: Option<Stamp<Reference>>,
    /// The thread that issued the request. It ran at `start` or later.
    pub submitter: Option<ThreadIndex>,
    /// The hold by a cgroup's I/O limit before `start`, if there was one.
    pub held: Option<HeldBack>,
    /// No other request completed in this instance. Otherwise it is the last of several.
    pub alone: bool,
}

/// A disk request's hold by a cgroup's I/O limit. Its beginning, the submission, has no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldBack {
    /// The release.
    pub until: Stamp<Reference>,
    /// The request's cgroup, in the hierarchy with the I/O controller.
    pub cgroup: CgroupId,
}

/// A time range in which a CPU's records were lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    /// The CPU.
    pub cpu: Cpu,
    /// The earliest possible time of a lost record.
    pub from: Stamp<Reference>,
    /// The latest possible time.
    pub to: Stamp<Reference>,
    /// The number of lost records; 0 if not known.
    pub count: u64,
    /// The kind of the lost records.
    pub records: LostRecords,
    /// The recording reports the loss. Otherwise it follows from switches that do not fit together.
    pub reported: bool,
}

/// Receives a [`Timeline`](crate::Timeline)'s output.
///
/// For each thread, and for each CPU, the stamps of calls never go back.
pub trait Sink {
    /// A thread appears: the first call about this thread.
    fn thread(&mut self, thread: ThreadIndex, tid: Tid, at: Stamp<Reference>);
    /// The thread's identity.
    fn identity(&mut self, thread: ThreadIndex, at: Stamp<Reference>, identity: &ThreadIdentity);
    /// The thread's fork is recorded.
    fn born(&mut self, thread: ThreadIndex, at: Stamp<Reference>, forker: Occupant);
    /// The thread's name from `at` on.
    fn named(&mut self, thread: ThreadIndex, at: Stamp<Reference>, comm: Comm);
    /// The thread executes another program.
    fn exec(&mut self, thread: ThreadIndex, at: Stamp<Reference>, path: &[u8]);
    /// The thread's tid from `at` on: it executed a program and was not its process's leader.
    fn renumbered(&mut self, thread: ThreadIndex, at: Stamp<Reference>, tid: Tid);
    /// The thread `by` took over this thread's process and tid by an exec; this thread is dead, or about to
    /// be.
    fn succeeded(&mut self, thread: ThreadIndex, by: ThreadIndex);
    /// The thread's cgroups from `at` on.
    fn moved(&mut self, thread: ThreadIndex, at: Stamp<Reference>, cgroup: CgroupId, cpu_cgroup: CgroupId);
    /// The thread begins to exit; it may run a little longer.
    fn exited(&mut self, thread: ThreadIndex, at: Stamp<Reference>);
    /// The thread was in a single state from `from` to `to`. A thread's state intervals are in order and
    /// without gaps.
    fn state_interval(
        &mut self,
        thread: ThreadIndex,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
        state: State<&Wait>,
    );
    /// The thread took a signal; `sent` has the sending time and the current thread then.
    fn signal(
        &mut self,
        thread: ThreadIndex,
        at: Stamp<Reference>,
        signal: &Signal,
        sent: Option<(Stamp<Reference>, Occupant)>,
    );
    /// The thread got a contended kernel lock.
    fn acquired(&mut self, thread: ThreadIndex, at: Stamp<Reference>, lock: u64);
    /// The CPU's occupant from `at` on.
    fn occupant(&mut self, cpu: Cpu, at: Stamp<Reference>, occupant: Occupant);
    /// The hypervisor did not let the CPU run from `from` to `to`. A CPU's stretches are in order and do not overlap.
    fn stolen(&mut self, cpu: Cpu, from: Stamp<Reference>, to: Stamp<Reference>);
    /// Evidence to which a later wake-up may refer.
    fn evidence(&mut self, evidence: Evidence) -> EvidenceIndex;
    /// Records were lost.
    fn loss(&mut self, loss: Loss);
}
