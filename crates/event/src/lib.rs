//! The normalised events: the common language between whatever recorded a machine and whatever
//! explains it. This crate holds data only; it reads no format and draws no conclusion.
//!
//! An [`Event`] happened at a stamp, on a CPU, in a [`Context`], while a thread was current.
//! Numbers are the kernel's own: thread ids of the initial pid namespace, nanoseconds, bytes.

mod call;
mod call_names;
mod context;
mod cost;
mod identity;
mod loss;
mod net;
mod signal;
mod source;
mod stack;
mod state;
mod thread_context;

pub use call::{Call, LockWord, WaitEnd};
pub use context::{Context, Softirq};
pub use cost::{CostKind, KernelCost};
pub use identity::{CgroupId, Comm, Cpu, HostIndex, ThreadIdentity, Tid};
pub use loss::LostRecords;
pub use net::{Address, Direction, Flow, FlowId, Packet};
pub use signal::{Signal, SignalAction, SignalEffect};
pub use source::{ClockId, Description, EventSource, Format, HostIdentity, RecordingFormat};
pub use stack::{Stack, StackCounts, StackId, UnwindCounts};
pub use state::{BlockedState, SwitchOut};
pub use thread_context::{MAX_ATTRIBUTE_BYTES, ThreadAttribute, ThreadContext};

use wakepath_clock::{Local, Stamp};

/// One thing that a tracer saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// When, on the recording host's monotonic clock.
    pub at: Stamp<Local>,
    /// On which CPU.
    pub cpu: Cpu,
    /// The context of that CPU.
    pub context: Context,
    /// The thread current on that CPU, in interrupts too; [`Tid::IDLE`] for the idle thread.
    pub current: Tid,
    /// The kind of the event, with its data.
    pub kind: EventKind,
}

/// The kind of an event, with its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventKind {
    /// [`Event::current`] left the CPU and `next` took it.
    Switch {
        /// The thread that runs from now on.
        next: Tid,
        /// Why the current thread left.
        out: SwitchOut,
        /// Time that interrupts took from the current thread since it was switched in, ns.
        interrupts_ns: u32,
        /// The system call that a blocking thread is in, where the tracer saw it.
        call: Option<Call>,
    },
    /// `target` is being made runnable, from this context.
    Waking {
        /// The thread that is woken.
        target: Tid,
        /// The device interrupt we are in, where `context` says device.
        irq: u16,
        /// The thread was just born: it was never blocked.
        newborn: bool,
        /// The socket that this softirq has made ready, by its incoming flow, where the tracer saw it.
        socket: Option<FlowId>,
    },
    /// Directly before the wake-up of a thread in a call of [`Call::EPOLLS`], at the same time: the descriptor that had
    /// become ready last.
    Ready {
        /// The thread that is woken.
        target: Tid,
        /// The descriptor; `None` if none was ready.
        fd: Option<u32>,
    },
    /// A runnable thread was moved from one CPU's queue to another's.
    Migrate {
        /// The thread.
        target: Tid,
        /// The CPU in whose queue it was.
        from: Cpu,
        /// The CPU in whose queue it is now.
        to: Cpu,
    },
    /// Directly before a switch-out, a wake-up or a packet of [`Event::current`], at the same time: the context that the
    /// thread has, where it is another one than before.
    ThreadContext(ThreadContext),
    /// Behind the context of [`Event::current`], where that is a span, at the same time or a little later: an attribute of it. The later
    /// one of two with one key counts.
    ThreadAttribute(ThreadAttribute),
    /// [`Event::current`] runs here, though no switch to it may have been recorded.
    Current,
    /// A thread as the snapshot at the start of the recording found it.
    Thread {
        /// Its identity.
        identity: ThreadIdentity,
        /// `None`: it was running or runnable.
        blocked: Option<BlockedState>,
        /// The system call it was blocked in.
        call: Option<Call>,
    },
    /// [`Event::current`] forked a thread.
    Fork {
        /// The newborn.
        child: ThreadIdentity,
    },
    /// [`Event::current`] executes another program.
    Exec {
        /// The tid that the calling thread had; differs from the current one when it was not the leader.
        old: Tid,
        /// Its new name.
        comm: Comm,
        /// The program's path, as given, possibly cut.
        path: Box<[u8]>,
    },
    /// [`Event::current`] ends.
    Exit,
    /// A thread changed its name.
    Rename {
        /// Which thread.
        tid: Tid,
        /// Its new name.
        comm: Comm,
    },
    /// A thread, or its whole process, moved to other cgroups.
    Move {
        /// The thread.
        tid: Tid,
        /// Its process.
        tgid: Tid,
        /// All threads of the process moved.
        whole: bool,
        /// Its cgroup in the v2 hierarchy now.
        cgroup: CgroupId,
        /// Its cgroup in the hierarchy that has the CPU controller now.
        cpu_cgroup: CgroupId,
    },
    /// [`Event::current`], which does not run, was blocked in this call when the recording began. Behind
    /// all [`EventKind::Thread`].
    Blocked(Call),
    /// The CPU limit of this cgroup, in the hierarchy that has the CPU controller, hands out time again.
    Refill(CgroupId),
    /// The hypervisor let this CPU wait for so long, ns, since it was looked at before.
    Stolen(u64),
    /// A packet passed the edge of the host.
    Packet(Packet),
    /// Received data is ready on the socket of this incoming flow.
    SocketReady(FlowId),
    /// Defines a flow that packets refer to.
    Flow(FlowId, Flow),
    /// A request went to a block device.
    BlockIssue(BlockRequest),
    /// A block device finished a request.
    BlockComplete(BlockRequest),
    /// [`Event::current`] begins to wait for a kernel lock.
    LockBegin(KernelLock),
    /// It stopped waiting for that lock.
    LockEnd(KernelLock),
    /// [`Event::current`] was running here.
    Sample(Stack),
    /// A stack that [`EventKind::StackOf`] refers to by its id. It may come before or after.
    Stack(Stack),
    /// The same with an id that was given before the frames were known, and is no hash of them.
    StackLater(StackId, Stack),
    /// Where the switch-out or the waking came from that [`Event::current`] did just before, at the same
    /// stamp and on the same CPU.
    StackOf(StackId),
    /// How the stacks came about so far.
    StackCounts(StackCounts),
    /// The cost of a kind of the recorder's work in the kernel. The last one of its kind counts.
    KernelCost(KernelCost),
    /// How stacks were unwound so far.
    UnwindCounts(UnwindCounts),
    /// A descriptor's meaning.
    File(FileName),
    /// A descriptor belongs to a set that a thread polls.
    SetMember(SetMember),
    /// A call of a function that was asked for ended, or was open when the recording did. The event's
    /// stamp is its end.
    Function(FunctionCall),
    /// [`Event::current`] took a signal that cut a system call short, or that no handler took.
    Signal(Signal),
    /// A step of a goroutine.
    Goroutine(GoroutineStep),
    /// Records were lost on this event's CPU.
    Loss {
        /// The earliest time at which one may have been lost; the event's stamp is the latest.
        from: Stamp<Local>,
        /// How many; 0 when only the fact is known.
        count: u64,
        /// The records among which they were.
        records: LostRecords,
    },
    /// The host's clocks, read together.
    Clocks(Clocks),
    /// A number's name.
    Name(NameSpace, u64, Box<[u8]>),
    /// A process has a file mapped as code.
    Mapping(Mapping),
    /// Something about the session itself.
    Mark(Mark),
}

/// A request to a block device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockRequest {
    /// Identifies it between issue and completion.
    pub id: u64,
    /// Major << 20 | minor.
    pub device: u32,
    /// First 512-byte sector.
    pub sector: u64,
    /// Bytes.
    pub bytes: u32,
    /// The kernel's operation: 0 read, 1 write, 2 flush, 3 discard.
    pub operation: u8,
    /// When the request was made; `None` where the kernel keeps no statistics.
    pub start: Option<Stamp<Local>>,
    /// When it went to the device.
    pub issued: Option<Stamp<Local>>,
}

/// A kernel lock that was contended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelLock {
    /// Its address.
    pub address: u64,
    /// The kernel's `LCB_F_*` flags.
    pub flags: u32,
    /// The owner when the wait began, where it could be read.
    pub owner: Option<Tid>,
}

/// The file or socket that a descriptor of a process refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileName {
    /// The process.
    pub tgid: Tid,
    /// The descriptor.
    pub fd: u32,
    /// The file type bits of the inode's mode (`S_IFMT`).
    pub mode: u32,
    /// The inode's number.
    pub inode: u64,
    /// A socket's outgoing flow.
    pub flow: Option<FlowId>,
    /// The last component of its path.
    pub name: Box<[u8]>,
}

/// A descriptor of a set that a thread polls; of a set at most 16 are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetMember {
    /// The set's id: [`Call::set`].
    pub set: u64,
    /// The process.
    pub tgid: Tid,
    /// The descriptor.
    pub fd: u32,
    /// The number of descriptors in the set; for `select` 17 stands for any number above 16.
    pub total: u32,
}

/// A step of a goroutine, in the thread that is [`Event::current`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GoroutineStep {
    /// The process.
    pub tgid: Tid,
    /// Which of the programs that were probed: half of the key of [`NameSpace::GoWait`].
    pub program: u16,
    /// Its number in its process; 0 where it could not be read.
    pub goroutine: u64,
    /// The address of the function in which it began, of a step by which it leaves its thread; elsewhere, and where it could not be
    /// read, 0.
    pub began_in: u64,
    /// The step.
    pub step: GoStep,
}

/// The steps of goroutines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GoStep {
    /// It waits from here on, for this reason: the other half of the key of [`NameSpace::GoWait`].
    Parks(u8),
    /// It may run again: this goroutine made it ready; 0 where none did, or it could not be read.
    Ready(u64),
    /// The thread runs it from here on. Where it runs for the first time, the goroutine that started it; else, and where that could
    /// not be read, 0.
    Runs(u64),
    /// The thread ran it. It goes back into a queue.
    Yields,
    /// The thread ran it. It ended.
    Ends,
    /// A span with these ids (of the trace, of the span) begins in it.
    BeginsSpan([u8; 16], [u8; 8]),
}

/// A call of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FunctionCall {
    /// Which of the functions that were asked for: the key of its name, [`NameSpace::Target`].
    pub target: u32,
    /// The thread that made the call.
    pub thread: Tid,
    /// When it began.
    pub from: Stamp<Local>,
    /// How it ended.
    pub end: CallEnd,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CallEnd {
    /// It returned.
    Returned,
    /// It never returned: an exception, `longjmp` or the end of its thread unwound it, at some time up to the
    /// stamp of the event.
    Unwound,
    /// It had not ended when the recording did.
    Open,
    /// It returned, in its thread, and had begun in another: a goroutine's. No thread's time is that of the call.
    Moved,
    /// A goroutine's too, which returned in the thread that it began in. While the goroutine waits, that thread runs others:
    /// a wait of the thread may be none of the call.
    Stayed,
}

/// The clocks of a host, read together, and what the hypervisor took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clocks {
    /// `CLOCK_BOOTTIME`, ns. Ahead of monotonic by the time spent suspended.
    pub boottime_ns: u64,
    /// `CLOCK_REALTIME`, ns since 1970.
    pub realtime_ns: u64,
    /// Steal time of all CPUs since boot, ns.
    pub steal_ns: u64,
}

/// The meaning of the key of an [`EventKind::Name`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum NameSpace {
    /// Key: cgroup id in the v2 hierarchy. Name: its path there.
    Cgroup = 1,
    /// Key: interrupt number. Name: its handlers.
    Interrupt = 2,
    /// Key: major << 20 | minor. Name: as in `/dev`.
    BlockDevice = 3,
    /// Key: interface index. Name: the interface.
    Interface = 4,
    /// Key: cgroup id in the hierarchy that has the CPU controller. Name: `quota_us period_us`.
    CpuLimit = 5,
    /// Key: tgid. Name: the command line's first word, for processes that lived at the start.
    Program = 6,
    /// Key: cgroup id in the hierarchy that has the CPU controller. Name: its path there.
    CpuCgroup = 7,
    /// Key: the number of a function that was asked for. Name: as it was asked for.
    Target = 8,
    /// Key: number of a Go program << 8 | number of a reason for which its goroutines wait. Name: the reason.
    GoWait = 9,
    /// Key: tgid. Name: the service that the process says it is; empty where it says none any more.
    Service = 10,
    /// Key: tgid. Name: the instance of its service that the process says it is; empty where it says none any more.
    ServiceInstance = 11,
    /// Key: tgid << 8 | key of a [`ThreadAttribute`]. Name: the name of the attribute.
    ThreadAttribute = 12,
}

impl NameSpace {
    /// All name spaces, by number.
    pub const ALL: [Self; 12] = [
        Self::Cgroup,
        Self::Interrupt,
        Self::BlockDevice,
        Self::Interface,
        Self::CpuLimit,
        Self::Program,
        Self::CpuCgroup,
        Self::Target,
        Self::GoWait,
        Self::Service,
        Self::ServiceInstance,
        Self::ThreadAttribute,
    ];

    /// The process that a key of this space is of; `None` if it is of none, or of no number that a process can have.
    pub fn process(self, key: u64) -> Option<Tid> {
        let tgid = match self {
            Self::Program | Self::Service | Self::ServiceInstance => key,
            Self::ThreadAttribute => key >> 8,
            _ => return None,
        };
        u32::try_from(tgid).ok().map(Tid)
    }

    /// Whether its keys are of processes.
    pub const fn is_of_processes(self) -> bool {
        matches!(self, Self::Program | Self::Service | Self::ServiceInstance | Self::ThreadAttribute)
    }
}

/// Code that a process has mapped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// The process.
    pub tgid: Tid,
    /// First address.
    pub from: u64,
    /// One past the last address.
    pub to: u64,
    /// Where `from` lies in the file, bytes.
    pub offset: u64,
    /// The ELF build id, or empty.
    pub build_id: Box<[u8]>,
    /// The file's path.
    pub path: Box<[u8]>,
}

/// Something about the session itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mark {
    /// All sources are attached from here on.
    Started,
    /// Recording stopped here.
    Stopped,
    /// The command that the session runs, and its process.
    Command {
        /// Its first process.
        tgid: Tid,
        /// Its words, separated by NUL.
        words: Box<[u8]>,
    },
    /// A process that the session asks about (`-p`).
    Target(Tid),
    /// A thread of the recorder itself.
    Observer(Tid),
    /// The command ended with this wait status.
    Ended(u32),
}
