//! The path as data, which every view (text, JSON, Perfetto) shows.

use wakepath_clock::{Reference, Stamp};
use wakepath_event::{BlockRequest, Call, CgroupId, Comm, Context, FlowId, SignalEffect, Softirq};
use wakepath_wait_graph::{ContendedLock, Cut, Graph, Occupant, ThreadIndex, TimerPurpose, WakeUp};

use crate::Problem;

/// A thread and a time range to explain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Window {
    /// The thread.
    pub thread: ThreadIndex,
    /// The first nanosecond.
    pub from: Stamp<Reference>,
    /// The nanosecond after the last (exclusive).
    pub to: Stamp<Reference>,
}

impl Window {
    /// The length, ns.
    pub const fn length(&self) -> u64 {
        self.to.since(self.from)
    }
}

/// The algorithm that made a path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// Each wait is replaced by the activity of its waker in that time (G15 Algorithm 5).
    Active,
    /// Like `Active`, but time-outs are joined to the wait to which the thread then returns, if records prove the return ([`Rule::JoinedTimeouts`]).
    #[default]
    Joined,
    /// Like `Joined`, also without proof where the waits look like slices of a single wait.
    JoinedInSlices,
    /// Like `Joined`, also without proof: the waits only look alike.
    JoinedIfAlike,
    /// The longest path back from the window's end; waits ended by threads count as zero (G15 §4.3.1).
    Exact,
}

/// The path of a window. Its segments are in order and tile the window: no gap, no overlap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    /// The window.
    pub window: Window,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The tiles, in time order.
    pub segments: Vec<Segment>,
    /// The waits explained by segments; a wait's parent comes before it.
    pub waits: Vec<Wait>,
    /// The waits ended early and explained by the end of a later wait.
    pub joined: JoinedSum,
    /// The waits for which a later wait's end might be the explanation.
    pub unjoined: Unjoined,
    /// Remarks on the path's certainty.
    pub problems: Vec<Problem>,
}

/// The number and total time of joined waits on a path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JoinedSum {
    /// The number of waits.
    pub waits: u64,
    /// Their total time, ns.
    pub ns: u64,
    /// The number of waits among them ended by tickers.
    pub by_threads: u64,
}

impl JoinedSum {
    /// Adds a wait with this length.
    pub(crate) const fn add(&mut self, ns: u64, by_thread: bool) {
        self.waits += 1;
        self.ns += ns;
        self.by_threads += by_thread as u64;
    }

    /// The sum with another sum.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self {
            waits: self.waits + other.waits,
            ns: self.ns + other.ns,
            by_threads: self.by_threads + other.by_threads,
        }
    }
}

/// The waits joined by another choice about time-outs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unjoined {
    /// Joined by [`Timeouts::JoinedInSlices`](crate::Timeouts::JoinedInSlices).
    pub in_slices: JoinedSum,
    /// Joined by [`Timeouts::JoinedIfAlike`](crate::Timeouts::JoinedIfAlike), the former included.
    pub alike: JoinedSum,
}

impl Unjoined {
    /// Adds a wait with this length.
    pub(crate) const fn add(&mut self, ns: u64, by_thread: bool, in_slices: bool) {
        self.alike.add(ns, by_thread);
        if in_slices {
            self.in_slices.add(ns, by_thread);
        }
    }
}

impl Path {
    /// The segments, in order.
    pub fn segments(&self) -> impl ExactSizeIterator<Item = &Segment> {
        self.segments.iter()
    }

    /// A segment, by its place.
    pub fn segment(&self, place: usize) -> Option<&Segment> {
        self.segments.get(place)
    }

    /// The waits; a wait's parent comes before it.
    pub fn waits(&self) -> impl ExactSizeIterator<Item = (WaitId, &Wait)> {
        self.waits.iter().enumerate().map(|(place, wait)| (WaitId(place as u32), wait))
    }

    /// A wait.
    pub fn wait(&self, id: WaitId) -> Option<&Wait> {
        self.waits.get(id.0 as usize)
    }

    /// Whether the segments tile the window: none is empty, each begins at the end of the segment before, the first at the window's beginning, and
    /// the last ends at the window's end.
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
    /// The first nanosecond.
    pub from: Stamp<Reference>,
    /// The nanosecond after the last.
    pub to: Stamp<Reference>,
    /// The kind of time.
    pub kind: SegmentKind,
    /// The thread that ran or waited; `None` for a packet in flight.
    pub thread: Option<ThreadIndex>,
    /// The innermost wait explained by this segment; `None` for the window's own thread.
    pub parent: Option<WaitId>,
    /// The number of waits above the segment.
    pub depth: u32,
    /// The link that led here.
    pub via: Via,
    /// The system call in which the thread was blocked, for waits.
    pub call: Option<Call>,
    /// The cause beyond the thread itself.
    pub cause: Cause,
    /// The certainty.
    pub basis: Basis,
    /// An earlier segment, under another wait above, has the beginning of the thread's wait.
    pub goes_on: bool,
}

impl Segment {
    /// The stretches with a single name of the thread each, in order: the name, and the stretch. A program's start changes the
    /// name without a task switch.
    pub fn names(&self, graph: &Graph) -> impl Iterator<Item = (Comm, Stamp<Reference>, Stamp<Reference>)> {
        let named = self.thread.map(|thread| graph.thread(thread).names_within(self.from, self.to));
        let nameless = named.is_none().then_some((Comm::default(), self.from, self.to));
        named.into_iter().flatten().chain(nameless)
    }
}

/// A wait explained by another thread's activity, clipped to the window and the waits above.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// The first nanosecond on the path.
    pub from: Stamp<Reference>,
    /// The end.
    pub to: Stamp<Reference>,
    /// The waiting thread.
    pub thread: ThreadIndex,
    /// The wait that this wait explains in part.
    pub parent: Option<WaitId>,
    /// The number of waits above this wait.
    pub depth: u32,
    /// The system call in which the thread was blocked.
    pub call: Option<Call>,
    /// The thread that ended the wait; `None` for a wait that did not end, or whose wake-up has no record.
    pub ended_by: Option<ThreadIndex>,
    /// The link between the wait's end and its cause.
    pub via: Via,
    /// The awaited lock and its owner at the wait's beginning, if known.
    pub lock: Option<LockCause>,
    /// The certainty.
    pub basis: Basis,
    /// The wait ended early, by a time-out or alike. A later wait, which is the same for the path, explains it.
    pub timed_out: bool,
    /// An earlier wait on the path, under another wait above, has the beginning of this wait.
    pub goes_on: bool,
}

/// The kind of a segment's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SegmentKind {
    /// On a CPU.
    Running,
    /// Waiting for a CPU.
    Runnable,
    /// Kept off the CPU by a cgroup's limit.
    Throttled,
    /// On a CPU, in interrupts.
    Interrupted,
    /// On a CPU, or about to be, while the hypervisor did not let that CPU run.
    Stolen,
    /// Blocked until a time came.
    Timer,
    /// Blocked on a disk.
    BlockDevice,
    /// Blocked on the network, or in flight.
    Network,
    /// Blocked on a lock; the owner's activity is not known.
    Lock,
    /// Blocked on input from a user.
    UserInput,
    /// Ready, and in a queue: a runtime scheduler's or a pool's.
    Queue,
    /// Stopped by a signal.
    Stopped,
    /// Blocked on another device, or on an interrupt of another kind.
    OtherDevice,
    /// Not known.
    Unknown,
}

impl SegmentKind {
    /// All kinds.
    pub const ALL: [Self; 14] = [
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
        Self::Queue,
        Self::Stopped,
        Self::OtherDevice,
        Self::Unknown,
    ];

    /// The kind's word in documents and options.
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
            Self::Queue => "queue",
            Self::Stopped => "stopped",
            Self::OtherDevice => "other_device",
            Self::Unknown => "unknown",
        }
    }
}

/// The link that led to a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Via {
    /// No link: the window's own thread.
    Window,
    /// A thread woke the one above.
    Wakeup,
    /// A packet.
    Packet,
    /// A fork.
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

/// The cause of a segment beyond its own thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// The thread itself.
    None,
    /// For `Runnable`: the thread that had the CPU.
    Competitor(ThreadIndex),
    /// For `Runnable`: the CPU was idle, or leaving idleness.
    IdleCpu,
    /// A timer's expiry ended the wait.
    Timer {
        /// The context of the timer's interrupt.
        context: Context,
    },
    /// A disk request.
    Block {
        /// The request, if recorded; boxed, since few segments have a request and it is large.
        request: Option<Box<BlockRequest>>,
        /// Whether the request was waiting in the queue (else: in the device).
        queued: bool,
    },
    /// A cgroup's I/O limit held a disk request back.
    HeldBack {
        /// The request.
        request: Box<BlockRequest>,
        /// The request's cgroup, in the hierarchy with the I/O controller.
        cgroup: CgroupId,
    },
    /// A packet from a peer.
    Network {
        /// The packet's flow, if recorded.
        flow: Option<FlowId>,
    },
    /// A packet sent by a timer: the awaited event came only then.
    SentByTimer {
        /// The packet's flow.
        flow: FlowId,
        /// The packet's purpose.
        purpose: TimerPurpose,
    },
    /// Another interrupt.
    Interrupt {
        /// The interrupt's context.
        context: Context,
        /// The device interrupt number, if there is one.
        irq: Option<u16>,
    },
    /// A lock.
    Lock(LockCause),
    /// A signal cut the wait short: the awaited event did not come.
    Signal(SignalCause),
    /// The wait had not ended at the recording's end.
    StillWaiting,
    /// The wait began before the recording did.
    BeforeRecording,
    /// The recording on the thread's host had ended.
    AfterRecording,
    /// The wait has no wake-up.
    NoWakeupSeen,
    /// A recorder lost records here.
    Lost,
    /// The kernel did not report a switch here.
    Unrecorded,
    /// A step of the goroutine was not recorded here, although no record was lost.
    StepUnrecorded,
    /// An event loop waited for several things at once, and nothing shows for which this work waited.
    LoopEvent,
    /// The thread was not alive.
    NotAlive,
}

impl Cause {
    /// The cause of unknown time for lack of records between `from` and `to`.
    pub(crate) fn missing(graph: &Graph, from: Stamp<Reference>, to: Stamp<Reference>) -> Self {
        if graph.losses().touch_reported(from, to) { Self::Lost } else { Self::Unrecorded }
    }

    /// The cause of unknown time after a thread's last known time.
    pub(crate) fn after_last(graph: &Graph, thread: ThreadIndex) -> Self {
        if graph.has_died(thread) { Self::NotAlive } else { Self::AfterRecording }
    }
}

/// A signal that cut a wait short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SignalCause {
    /// The signal number; 0 for the end of the process without a signal.
    pub number: u32,
    /// The effect on the thread.
    pub effect: SignalEffect,
    /// The sender.
    pub sender: SignalSender,
}

/// A signal's sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SignalSender {
    /// A thread. A kernel thread sends the signals that a terminal asks for.
    Thread(ThreadIndex),
    /// A timer.
    Timer,
    /// Not known.
    Unknown,
}

impl SignalCause {
    /// The signal that lets a stopped thread go on: `SIGCONT`, unless the signal is known to kill. Nothing else wakes a stopped thread.
    pub(crate) fn for_continuation(cut: Option<Cut>, woken: &WakeUp) -> Self {
        const SIGCONT: u32 = 18;
        let killed = cut.filter(|cut| cut.effect == SignalEffect::Kills);
        Self::new(killed.unwrap_or(Cut { signal: SIGCONT, effect: SignalEffect::GoesOn }), woken)
    }

    /// The signal that cut short the wait ended by this wake-up.
    pub(crate) fn new(cut: Cut, woken: &WakeUp) -> Self {
        let sender = match (woken.context, woken.current) {
            (Context::Task, Occupant::Thread(thread)) => SignalSender::Thread(thread),
            (
                Context::LocalTimer
                | Context::UnrecordedTimer
                | Context::Softirq(Softirq::Timer | Softirq::Hrtimer),
                _,
            ) => SignalSender::Timer,
            _ => SignalSender::Unknown,
        };
        Self { number: cut.signal, effect: cut.effect, sender }
    }
}

/// A lock and its owner at the wait's beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockCause {
    /// The address: in the kernel, or in the waiter's process.
    pub address: u64,
    /// Whether the lock is a kernel lock (else a futex).
    pub kernel: bool,
    /// The owner, if known.
    pub owner: Option<ThreadIndex>,
}

impl From<ContendedLock> for LockCause {
    fn from(ContendedLock { address, kernel, owner, .. }: ContendedLock) -> Self {
        Self { address, kernel, owner }
    }
}

/// The certainty of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Basis {
    /// Timed at both ends.
    Measured,
    /// Estimated from samples.
    Sampled,
    /// Found by a rule.
    Inferred(Rule),
    /// More than one explanation fits.
    Ambiguous,
}

impl Basis {
    /// `Measured`, or `Ambiguous` if `doubtful`.
    pub(crate) const fn measured_unless(doubtful: bool) -> Self {
        if doubtful { Self::Ambiguous } else { Self::Measured }
    }
}

/// The rules by which segments are inferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rule {
    /// Interrupt time is known as a sum per running interval, without its place in the interval.
    InterruptsInSum,
    /// The disk request that ended a wait is the last completion in that interrupt.
    LastCompletion,
    /// A disk request that an I/O limit held back was submitted before the wait for it.
    HeldRequest,
    /// The packet that ended a wait is the last packet received in that context.
    LastPacket,
    /// Consecutive time-outs of the same wait for a lock are a single wait, ended by the lock's owner.
    JoinedTimeouts,
    /// A thread of the same process ended the last slice of a wait, and it or the threads that had handed over to it ran through the slices
    /// before: the slices are a single wait for it.
    RanMeanwhile,
    /// A timer's signal, or a thread of the same process, cut the wait short, and the signal handler let the thread go back to the same call.
    ResumedAfterSignal,
    /// A periodic timer in the thread's event loop ended the wait; the thread did nothing for others, and went back to the same set.
    PeriodicTick,
    /// The descriptor that ended a wait for any of a set is the last to have become ready.
    ReadyDescriptor,
    /// The wake-up came before the thread's own switch-out.
    WakingBeforeSwitch,
    /// The thread left a CPU and went on on another; its move between the two queues is not recorded: it waited in the queue that it left, except
    /// while that queue's CPU was idle.
    QueueThatItLeft,
    /// A kernel worker's time before the work pick-up has nothing to do with the wait.
    TakenUp,
    /// A thread stands for the request until it handed the request over; from then until the next thread's pick-up, the request was in a queue.
    HandedOver,
    /// The program noted what made its task's next turn ready: this explains the time since the turn before.
    NotedReady,
    /// An event loop turned to the task right behind a wait: the wait's end made the task ready, and explains the time since its turn before.
    NextTurn,
    /// The event loop asked, in the request's own turn, the thread or connection that ended the loop's wait before the request's next turn: this
    /// explains the time between.
    AskedInTurn,
    /// Another request's data or timer alone ended the event loop's wait before the answer: its turn made this request ready.
    ReadyInTurn,
    /// A wait within a client's span is a wait for the called service's request.
    CalledRequest,
    /// Threads had the lock in turn, and a thread took it out of turn: each thread stands for the time until it released the lock.
    LockTurns,
    /// The wake-up came in an unrecorded hard interrupt; device interrupts were recorded.
    UnrecordedTimer,
    /// Not all interrupts were recorded; the call in which the thread slept ends by its timer.
    SleepingCall,
    /// Not all interrupts were recorded; the call in which the thread waited has no time-out.
    CallWithoutTimeout,
    /// The data came with an acknowledgement sent by a timer. Something else may have held the data back.
    DelayedAcknowledgement,
    /// The receiver's window was closed when a timer sent it a packet without data: a window probe.
    WindowProbe,
    /// Stolen time is found as a sum when the CPU looks; it counts as the time right before.
    StolenBefore,
    /// The interrupt was due on an idle CPU, which the hypervisor did not let run.
    LateInterrupt,
    /// The hypervisor did not let the interrupt's CPU run before the interrupt, which may have been due at
    /// any time since.
    PerhapsLate,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::tiles::Position;

    #[test]
    fn a_path_tiles_its_window_without_a_gap_an_overlap_or_an_empty_segment() {
        let at = Stamp::from_ns;
        let window = Window { thread: ThreadIndex(0), from: at(10), to: at(30) };
        assert_eq!(window.length(), 20);
        let tiles = |segments: &[(u64, u64)]| {
            let segment = |&(from, to): &(u64, u64)| {
                Position::of(&window).segment(
                    at(from),
                    at(to),
                    SegmentKind::Running,
                    Cause::None,
                    Basis::Measured,
                )
            };
            let segments = segments.iter().map(segment).collect();
            let (waits, problems) = (Vec::new(), Vec::new());
            let (algorithm, joined, unjoined) =
                (Algorithm::Active, JoinedSum::default(), Unjoined::default());
            Path { window, algorithm, segments, waits, joined, unjoined, problems }.tiles_window()
        };
        assert!(tiles(&[(10, 30)]));
        assert!(tiles(&[(10, 20), (20, 30)]));
        for wrong in [
            &[][..],
            &[(10, 29)],
            &[(11, 30)],
            &[(10, 31)],
            &[(10, 20), (21, 30)],
            &[(10, 20), (19, 30)],
            &[(10, 20), (20, 20), (20, 30)],
            &[(10, 35), (35, 30)],
        ] {
            assert!(!tiles(wrong), "{wrong:?}");
        }
    }

    #[test]
    fn each_kind_has_a_word_of_its_own() {
        let words: BTreeSet<_> = SegmentKind::ALL.into_iter().map(SegmentKind::name).collect();
        assert_eq!(words.len(), SegmentKind::ALL.len());
        let fits = |word: &&str| word.len() > 3 && word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        assert!(words.iter().all(fits), "{words:?}");
    }
}
