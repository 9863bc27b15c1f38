//! Keys for adding up time. Keys are types, not texts, so that no view's wording decides what belongs together.

use wakepath_critical_path::{Responsible, SegmentKind, SignalCause};
use wakepath_event::{Call, Comm, HostIndex};
use wakepath_loaded::{CallName, Endpoint, IoLimit, Object, UnitLimit};
use wakepath_wait_graph::{ThreadIndex, TimerPurpose};

use crate::pauses::collects_garbage;

/// All threads with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadName {
    /// The name; empty if unknown.
    pub comm: Comm,
    /// Whether they are kernel threads.
    pub kernel: bool,
    /// Their host, if not the reference host.
    pub host: Option<HostIndex>,
}

/// A thread, or all threads with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ThreadKey {
    /// This thread.
    One(ThreadIndex),
    /// All threads with this name.
    Named(ThreadName),
}

/// A thread's activity, by kind and blamed cause.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Activity {
    /// Running, or the kind of wait.
    pub kind: SegmentKind,
    /// The responsible cause.
    pub blamed: Blamed,
}

impl Activity {
    /// A kind of time without details.
    pub const fn plain(kind: SegmentKind) -> Self {
        Self { kind, blamed: Blamed::Cause(Responsible::Itself) }
    }
}

/// A [`Responsible`] by a name that others may share.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Blamed {
    /// The cause as the path has it, but a flow is unknown, and a lock has no owner.
    Cause(Responsible),
    /// Threads with this name had the CPU.
    Threads(ThreadName),
    /// A cgroup's CPU limit.
    CpuLimit(UnitLimit),
    /// A cgroup's I/O limit.
    IoLimit(IoLimit),
    /// Kernel threads with this name did the awaited work.
    KernelThread(Comm),
    /// A packet's sender.
    Sender(Endpoint),
}

/// The key of a row on the first screen, or of a cause of calls' time: the blamed cause.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RowKey {
    /// The thread that made the call, by running: threads with many names make calls. A row on the first screen has
    /// the thread's name instead.
    Caller,
    /// Own threads with this name ran; in a path's rows, a pool's threads share the name without their number.
    Running(Comm),
    /// Interrupts took the CPU from own threads.
    Interrupts,
    /// The hypervisor took the CPU from own threads.
    Hypervisor,
    /// Own threads waited for a CPU.
    Cpu,
    /// A CPU limit held own threads.
    CpuLimit(Option<UnitLimit>),
    /// A disk, by major << 20 | minor.
    Disk(Option<u32>, DiskUse),
    /// An I/O limit held disk requests back.
    IoLimit(IoLimit),
    /// A timer for which own threads slept, or which ended a wait in an unknown call.
    Timer,
    /// A time-out ended the wait: the awaited event did not come.
    TimedOut(Expected),
    /// A descriptor that a timer made ready: a timer itself, or something that timed out.
    TimerReady(Option<Object>),
    /// A timer: either the end of a time-out, or a timer among the awaited things.
    TimeOutOrTimer,
    /// Room in a connection, by its other end, which had closed its window; whether a time-out ended the wait.
    Window(Option<Object>, bool),
    /// A packet sent by a timer, by its sender; a SYN, by the end that did not answer; a window probe, by the end
    /// that had closed its window.
    SentByTimer(Option<Endpoint>, TimerPurpose),
    /// The network, by the other end, if known.
    Network(Option<Endpoint>),
    /// A lock; its owner's activity is unknown.
    Lock,
    /// A user's input.
    UserInput,
    /// A queue in a runtime's scheduler or in a pool.
    Queue,
    /// Some other device or interrupt.
    Device(Responsible),
    /// Another process; processes with the same name and host share a row.
    Process(Comm, Option<HostIndex>),
    /// In a call's time: a thread in the caller's own process or its descendants that ended the caller's wait, by
    /// its name, and the way it did so.
    Thread(Comm, EndedBy),
    /// Own threads waited for garbage collections by a runtime's thread with other work too.
    Collection,
    /// A kernel thread without a disk behind it.
    KernelThread(Comm),
    /// Waits that this signal cut short.
    Signal(SignalCause),
    /// Time in which a signal had stopped the thread, until this cause.
    Stopped(Responsible),
    /// Waits still open when the window closed.
    StillWaiting,
    /// Unknown time, by its reason.
    Unknown(Responsible),
}

impl RowKey {
    /// Whether it is garbage collection: waits for it, or the running time of threads that only collect garbage.
    pub fn is_garbage_collection(&self) -> bool {
        match self {
            Self::Collection => true,
            Self::Running(name) => collects_garbage(*name),
            _ => false,
        }
    }

    /// Whether the key is an activity of own threads. If these are not the window's own thread, that thread waited
    /// for them. Other keys are things for which the window's own thread waited, itself or through others.
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

    /// Whether the time belongs to threads for which the waiting thread waited; its parts are their activities.
    pub const fn is_of_others(&self) -> bool {
        matches!(self, Self::Process(..) | Self::Thread(..) | Self::Collection)
    }

    /// Whether the other key has the same disk's other waits.
    pub fn is_disk_of(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Disk(disk, _), Self::Disk(of, _)) => disk == of && self != other,
            _ => false,
        }
    }

    /// Whether a timer ended the row's waits.
    pub const fn ends_by_timer(&self) -> bool {
        matches!(self, Self::Timer | Self::TimedOut(_) | Self::TimeOutOrTimer)
    }
}

/// The purpose behind a wait for a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DiskUse {
    /// Data had to be on the disk: `fsync` and the like.
    Flush,
    /// Anything else: a read, a write, a page fault.
    Transfer,
}

/// The missing event in a timed-out wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Expected {
    /// An answer to a connection request.
    Answer,
    /// Room to send.
    Room,
    /// Anything on a descriptor, or on a set.
    Input,
    /// Something else: a lock, a condition, a signal.
    Event,
}

impl Expected {
    /// The awaited event of a system call.
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

/// The way in which a thread ended another thread's wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EndedBy {
    /// It released a lock that it owned.
    Release,
    /// It sent a packet.
    Packet,
    /// It woke the thread.
    WakeUp,
}

/// A part of a row's time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PartKey {
    /// The threads' activity.
    Activity(Activity),
    /// Kernel threads worked for the threads.
    KernelThreads,
    /// The threads were blocked in this call.
    Call(CallName),
}

/// The end of a row's wait chain, without the calls' objects: there may be thousands.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndKey {
    /// The last thread's activity; `None` if the row's key has it.
    pub activity: Option<Activity>,
    /// The number of its system call.
    pub call: Option<u32>,
    /// Its name, unless the row's key has it.
    pub thread: Option<Comm>,
}

impl EndKey {
    /// Whether a thread runs at the end: samples show where.
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
        // The calls read, poll, epoll_wait, recvfrom and accept.
        assert!([0, 7, 232, 45, 43].into_iter().all(|number| by(number) == Expected::Input));
        assert_eq!(by(42), Expected::Answer, "connect");
        assert!(Call::SENDS.into_iter().all(|number| by(number) == Expected::Room));
        // The calls futex and semtimedop, and a call without a name.
        assert!([202, 220, 9_999].into_iter().all(|number| by(number) == Expected::Event));
    }
}
