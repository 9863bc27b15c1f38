//! The keys by which time is added up. Each is typed: no key is a text, so that no view's wording decides what
//! belongs together.

use wakepath_critical_path::{Responsible, SegmentKind, SignalCause};
use wakepath_event::{Call, Comm, HostIndex};
use wakepath_loaded::{CallName, Endpoint, Object, UnitLimit};
use wakepath_wait_graph::{ThreadIndex, TimerPurpose};

/// All threads of one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadName {
    /// The name; empty where it is not known.
    pub comm: Comm,
    /// They belong to the kernel.
    pub kernel: bool,
    /// Their host, where it is another one than the reference.
    pub host: Option<HostIndex>,
}

/// A thread, or all threads of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ThreadKey {
    /// This thread.
    One(ThreadIndex),
    /// All threads of this name.
    Named(ThreadName),
}

/// The activity of a thread, by kind and blamed cause.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Activity {
    /// Running, or what it waited for.
    pub kind: SegmentKind,
    /// The cause that is responsible.
    pub blamed: Blamed,
}

impl Activity {
    /// A kind of time of which no more is said.
    pub const fn plain(kind: SegmentKind) -> Self {
        Self { kind, blamed: Blamed::Cause(Responsible::Itself) }
    }
}

/// A [`Responsible`] by name, where it has one that others share.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Blamed {
    /// The cause in the path's form: a flow is unknown, and a lock has no owner.
    Cause(Responsible),
    /// Threads of this name had the CPU.
    Threads(ThreadName),
    /// A cgroup's CPU limit.
    CpuLimit(UnitLimit),
    /// Kernel threads of this name did what was waited for.
    KernelThread(Comm),
    /// The sender of a packet.
    Sender(Endpoint),
}

/// The key of a row of the first screen, or of a cause of the time of calls: the blamed cause.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RowKey {
    /// The thread that made the call, by running: calls are made by threads of many names. A row of the first screen
    /// has the thread's name instead.
    Caller,
    /// Own threads of this name ran.
    Running(Comm),
    /// Interrupts took the CPU from own threads.
    Interrupts,
    /// The hypervisor took it.
    Hypervisor,
    /// Own threads waited for a CPU.
    Cpu,
    /// A CPU limit held own threads.
    CpuLimit(Option<UnitLimit>),
    /// A disk, by major << 20 | minor.
    Disk(Option<u32>),
    /// A timer for which own threads slept, or which ended a wait in an unknown call.
    Timer,
    /// The end of a time-out: what own threads waited for did not come.
    TimedOut(Expected),
    /// A descriptor that a timer made ready: a timer itself, or something that timed out.
    TimerReady(Option<Object>),
    /// A timer: the end of a time-out, or one of the things that were waited for.
    TimeOutOrTimer,
    /// Room in a connection, by its other end, which had closed its window; whether a time-out ended that.
    Window(Option<Object>, bool),
    /// A packet that a timer sent: the end that sent it; for a SYN the end that did not answer, for a probe of a window the
    /// end that had closed it.
    SentByTimer(Option<Endpoint>, TimerPurpose),
    /// The network: the other end, where it is known.
    Network(Option<Endpoint>),
    /// A lock; what its owner did is not known.
    Lock,
    /// A person.
    UserInput,
    /// A queue of a runtime's scheduler or of a pool.
    Queue,
    /// Some other device or interrupt.
    Device(Responsible),
    /// Another process; several of one name, on one host, are one row.
    Process(Comm, Option<HostIndex>),
    /// In the time of a call: a thread of the caller's own process or its descendants that ended the caller's wait, by
    /// its name, and how.
    Thread(Comm, EndedBy),
    /// A kernel thread, where no disk was behind it.
    KernelThread(Comm),
    /// Waits that this signal cut short.
    Signal(SignalCause),
    /// Time in which a signal had stopped the thread, until this.
    Stopped(Responsible),
    /// Waits that were not over when the window closed.
    StillWaiting,
    /// The reason why it is not known.
    Unknown(Responsible),
}

impl RowKey {
    /// Whether it says what own threads did: where that was not the window's own thread, that one waited for them. Other
    /// keys say what the window's own thread waited for, itself or through others.
    pub const fn is_of_doers(&self) -> bool {
        matches!(
            self,
            Self::Running(_)
                | Self::Interrupts
                | Self::Cpu
                | Self::CpuLimit(_)
                | Self::Timer
                | Self::TimedOut(_)
                | Self::Stopped(_)
        )
    }

    /// Whether the time is that of threads that the waiting thread waited for; its parts say what they did.
    pub const fn is_of_others(&self) -> bool {
        matches!(self, Self::Process(..) | Self::Thread(..))
    }
}

/// The thing that did not come in a wait that timed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Expected {
    /// An answer to the request for a connection.
    Answer,
    /// Room to send.
    Room,
    /// Anything on a descriptor, or on any of a set.
    Input,
    /// Something else: a lock, a condition, a signal.
    Event,
}

impl Expected {
    /// The thing that a system call waits for.
    pub fn by(call: &CallName) -> Self {
        const CONNECT: u32 = 42;
        match call.number {
            CONNECT => Self::Answer,
            number if Call::SENDS.contains(&number) => Self::Room,
            _ if call.is_for_descriptors() => Self::Input,
            _ => Self::Event,
        }
    }
}

/// The way in which a thread ended another one's wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EndedBy {
    /// It released a lock, whose owner it was.
    Release,
    /// It sent a packet.
    Packet,
    /// It woke the thread.
    WakeUp,
}

/// A part of a row's time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PartKey {
    /// The threads did this.
    Activity(Activity),
    /// Kernel threads did something for them.
    KernelThreads,
    /// The threads were blocked in this call.
    Call(CallName),
}

/// The end of the chain of waits of a row, without the objects of the calls: there
/// may be thousands of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndKey {
    /// The activity of the thread there; `None` where the row's key has it.
    pub activity: Option<Activity>,
    /// The number of the system call that it was in.
    pub call: Option<u32>,
    /// The name of the thread there, where it is not of those that the row's key names.
    pub thread: Option<Comm>,
}

impl EndKey {
    /// Whether a thread runs there: samples show where.
    pub fn runs(&self) -> bool {
        self.activity.as_ref().is_some_and(|activity| *activity == Activity::plain(SegmentKind::Running))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_shows_what_did_not_come() {
        let by = |number| Expected::by(&CallName { number, object: None });
        // read, poll, epoll_wait, recvfrom, accept
        assert!([0, 7, 232, 45, 43].into_iter().all(|number| by(number) == Expected::Input));
        assert_eq!(by(42), Expected::Answer, "connect");
        assert!(Call::SENDS.into_iter().all(|number| by(number) == Expected::Room));
        // futex, semtimedop, a call without a name
        assert!([202, 220, 9_999].into_iter().all(|number| by(number) == Expected::Event));
    }
}
