//! The normalised events: the common language between any recorder and any analysis. This crate holds data
//! only; it reads no format and draws no conclusion.
//!
//! An [`Event`] happened at a stamp, on a CPU, in a [`Context`], while a thread was current. Numbers are the
//! kernel's own: thread ids in the initial pid namespace, nanoseconds, bytes.

mod call;
mod call_names;
mod call_names_32;
mod context;
mod cost;
mod damage;
mod failed_call;
mod identity;
mod loss;
mod net;
mod signal;
mod source;
mod stack;
mod state;
mod thread_context;
mod user_mark;

pub use call::{Call, LockWord, Timeout, WaitEnd};
pub use context::{Context, Softirq};
pub use cost::{CostKind, KernelCost};
pub use damage::{Damage, DamageKind};
pub use failed_call::{Attempt, AttemptObject, FailedCall, MAX_OBJECT_BYTES, Spin};
pub use identity::{CgroupId, Comm, Cpu, HostIndex, ThreadIdentity, Tid};
pub use loss::LostRecords;
pub use net::{Address, Direction, Flow, FlowId, Packet};
pub use signal::{SentEffect, Signal, SignalAction, SignalEffect, SignalSent};
pub use source::{ClockId, Description, EventSource, Format, HostIdentity, RecordingFormat};
pub use stack::{Stack, StackCounts, StackId, UnwindCounts};
pub use state::{BlockedState, SwitchOut};
pub use thread_context::{MAX_ATTRIBUTE_BYTES, ThreadAttribute, ThreadContext};
pub use user_mark::{MAX_MARK_FIELDS, MAX_MARK_TEXT, UserMark};

use wakepath_clock::{Local, Stamp};

/// An event seen by a tracer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The stamp, on the recording host's monotonic clock.
    pub at: Stamp<Local>,
    /// The CPU.
    pub cpu: Cpu,
    /// The CPU's context.
    pub context: Context,
    /// The thread current on the CPU, in interrupts too; [`Tid::IDLE`] for the idle thread.
    pub current: Tid,
    /// The event's kind, with its data.
    pub kind: EventKind,
}

/// An event's kind, with its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventKind {
    /// [`Event::current`] left the CPU and `next` took it.
    Switch {
        /// The thread that runs from now on.
        next: Tid,
        /// The reason for which the current thread left.
        out: SwitchOut,
        /// Interrupt time since the current thread was switched in, ns.
        interrupts_ns: u32,
        /// The system call in which the thread blocks, if the tracer saw it.
        call: Option<Call>,
    },
    /// `target` is being made runnable, from this context.
    Waking {
        /// The woken thread.
        target: Tid,
        /// The device interrupt number, if `context` is a device's.
        irq: u16,
        /// The thread was just forked: it was never blocked.
        newborn: bool,
        /// The socket that this softirq has made ready, by its incoming flow, if the tracer saw it.
        socket: Option<FlowId>,
    },
    /// Directly before the wake-up of a thread in a [`Call::EPOLLS`] call, at the same time: the descriptor that had become ready last.
    Ready {
        /// The woken thread.
        target: Tid,
        /// The descriptor; `None` if none was ready.
        fd: Option<u32>,
    },
    /// A runnable thread was moved from one CPU's queue to another's.
    Migrate {
        /// The thread.
        target: Tid,
        /// The CPU of its previous queue.
        from: Cpu,
        /// The CPU of its present queue.
        to: Cpu,
    },
    /// Directly before a switch-out, a wake-up or a packet of [`Event::current`], at the same time: the thread's context, if it differs from the
    /// previous context.
    ThreadContext(ThreadContext),
    /// Behind [`Event::current`]'s context, if it is a span, at the same time or a little later: an attribute of the span. For the same key, the
    /// later attribute counts.
    ThreadAttribute(ThreadAttribute),
    /// Directly before a switch-out by [`Event::current`] in a call with a time-out, at the same time: its last failed call since a time-out ended
    /// a wait. From a recorder not asked for failed calls, only a refused file lock.
    FailedCall(Box<FailedCall>),
    /// [`Event::current`] made calls, and they failed in quick succession.
    Spin(Spin),
    /// [`Event::current`] runs here, though no switch to it may have been recorded.
    Current,
    /// A thread as found by the snapshot at the recording's start.
    Thread {
        /// The identity.
        identity: ThreadIdentity,
        /// The blocked state; `None`: the thread was running or runnable.
        blocked: Option<BlockedState>,
        /// The system call in which the thread was blocked.
        call: Option<Call>,
    },
    /// [`Event::current`] forked a thread.
    Fork {
        /// The newborn.
        child: ThreadIdentity,
    },
    /// [`Event::current`] executes another program.
    Exec {
        /// The calling thread's previous tid; differs from the current tid if the thread was not the leader.
        old: Tid,
        /// The new name.
        comm: Comm,
        /// The program's path, as given, possibly cut.
        path: Box<[u8]>,
    },
    /// [`Event::current`] ends.
    Exit,
    /// A thread changed its name.
    Rename {
        /// The thread.
        tid: Tid,
        /// The new name.
        comm: Comm,
    },
    /// A thread, or its whole process, moved to other cgroups.
    Move {
        /// The thread.
        tid: Tid,
        /// The process.
        tgid: Tid,
        /// All threads of the process moved.
        whole: bool,
        /// The new cgroup in the v2 hierarchy.
        cgroup: CgroupId,
        /// The new cgroup in the hierarchy with the CPU controller.
        cpu_cgroup: CgroupId,
    },
    /// [`Event::current`], which does not run, was blocked in this call when the recording began. Behind all
    /// [`EventKind::Thread`].
    Blocked(Call),
    /// This cgroup's CPU limit, in the hierarchy with the CPU controller, hands out time again.
    Refill(CgroupId),
    /// The hypervisor's stolen time, ns, on this CPU since the last look.
    Stolen(u64),
    /// A packet passed the host's edge.
    Packet(Packet),
    /// Received data is ready on the socket of this incoming flow.
    SocketReady(FlowId),
    /// Defines a flow to which packets refer.
    Flow(FlowId, Flow),
    /// A request went to a block device.
    BlockIssue(BlockRequest),
    /// A block device finished a request.
    BlockComplete(BlockRequest),
    /// A cgroup's I/O limit lets go of a disk request that it held back.
    BlockRelease(HeldRequest),
    /// [`Event::current`] has reclaimed memory, for a cgroup's memory limit.
    Reclaim(Reclaim),
    /// [`Event::current`] begins to wait for a kernel lock.
    LockBegin(KernelLock),
    /// [`Event::current`] stopped waiting for the lock.
    LockEnd(KernelLock),
    /// [`Event::current`] was running here.
    Sample(Stack),
    /// A stack to which [`EventKind::StackOf`] refers by its id. It may come before or after.
    Stack(Stack),
    /// Likewise, with an id that was given before the frames were known, and is no hash of them.
    StackLater(StackId, Stack),
    /// The stack of [`Event::current`]'s switch-out or wake-up just before, at the same stamp and on the same
    /// CPU.
    StackOf(StackId),
    /// The origins of stacks so far.
    StackCounts(StackCounts),
    /// The cost of a kind of the recorder's work in the kernel. The last record of each kind counts.
    KernelCost(KernelCost),
    /// The unwinding work so far.
    UnwindCounts(UnwindCounts),
    /// A descriptor's meaning.
    File(FileName),
    /// A descriptor belongs to a polled set.
    SetMember(SetMember),
    /// A selected function's call ended, or was open when the recording ended. The event's stamp is its end.
    Function(FunctionCall),
    /// [`Event::current`] took a signal that cut a system call short, or that no handler took.
    Signal(Signal),
    /// [`Event::current`] sent another process a signal that asks it to end, or needed memory for which the kernel kills it.
    SignalSent(SignalSent),
    /// A step of a goroutine.
    Goroutine(GoroutineStep),
    /// Records were lost on this event's CPU.
    Loss {
        /// The earliest time at which a record may have been lost; the event's stamp is the latest.
        from: Stamp<Local>,
        /// The number of lost records; 0 if not known.
        count: u64,
        /// The kind of the lost records.
        records: LostRecords,
    },
    /// From here on this event's CPU has no records, up to the end of the [`EventKind::Loss`] that follows: a tracer did
    /// not record it, or its first records are gone. A thread that is woken meanwhile may run there unseen.
    Unrecorded,
    /// The host's clocks, read together.
    Clocks(Clocks),
    /// A number's name.
    Name(NameSpace, u64, Box<[u8]>),
    /// A process has a file mapped as code.
    Mapping(Mapping),
    /// A fact about the session itself.
    Mark(Mark),
    /// A program's own mark. [`Event::cpu`] is the CPU in whose buffer it stands; the mark names its thread, not [`Event::current`].
    UserMark(Box<UserMark>),
    /// Programs' own marks were lost: on this event's CPU, or on any if the CPU is unknown.
    UserMarksLost {
        /// The earliest time at which a mark may have been lost; the event's stamp is the latest.
        from: Stamp<Local>,
        /// The number of lost marks; 0 if not known.
        count: u64,
    },
}

/// A request to a block device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockRequest {
    /// The id, which links issue and completion.
    pub id: u64,
    /// The device: major << 20 | minor.
    pub device: u32,
    /// The first 512-byte sector.
    pub sector: u64,
    /// The size, bytes.
    pub bytes: u32,
    /// The kernel's operation: 0 read, 1 write, 2 flush, 3 discard.
    pub operation: u8,
    /// The request's time; `None` if the kernel keeps no statistics.
    pub start: Option<Stamp<Local>>,
    /// The time at which the request went to the device.
    pub issued: Option<Stamp<Local>>,
}

impl BlockRequest {
    /// Whether the request reads: an I/O limit has sizes of its own for reads.
    pub const fn is_read(&self) -> bool {
        self.operation == 0
    }
}

/// A disk request that a cgroup's I/O limit held back. The device's queue may merge it with others, or split it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldRequest {
    /// The request's cgroup, in the hierarchy with the I/O controller. The limit is its own or an outer cgroup's.
    pub cgroup: CgroupId,
    /// The device: major << 20 | minor.
    pub device: u32,
    /// The first 512-byte sector.
    pub sector: u64,
    /// The size, bytes.
    pub bytes: u32,
    /// The kernel's operation: 0 read, 1 write, 2 flush, 3 discard.
    pub operation: u8,
}

/// A reclaim of memory for a cgroup's memory limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reclaim {
    /// Its beginning; the event's stamp is its end.
    pub from: Stamp<Local>,
    /// The limit, if it was found.
    pub limit: Option<MemoryLimit>,
    /// The number of reclaimed pages.
    pub pages: u32,
}

/// A cgroup's memory limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemoryLimit {
    /// The cgroup, in the hierarchy with the memory controller.
    pub cgroup: CgroupId,
    /// The limit, bytes.
    pub bytes: u64,
    /// It is `memory.high`, beyond which the cgroup is slowed down (else: its maximum).
    pub is_high: bool,
}

/// A contended kernel lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelLock {
    /// The lock's address.
    pub address: u64,
    /// The kernel's `LCB_F_*` flags.
    pub flags: u32,
    /// The owner at the wait's beginning, if it could be read.
    pub owner: Option<Tid>,
}

/// The file or socket behind a process's descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileName {
    /// The process.
    pub tgid: Tid,
    /// The descriptor.
    pub fd: u32,
    /// The file type bits of the inode's mode (`S_IFMT`).
    pub mode: u32,
    /// The inode number.
    pub inode: u64,
    /// The outgoing flow, for a socket.
    pub flow: Option<FlowId>,
    /// The last component of the path.
    pub name: Box<[u8]>,
}

/// A descriptor in a polled set; at most 16 per set are recorded.
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

/// A goroutine's step, in the thread [`Event::current`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GoroutineStep {
    /// The process.
    pub tgid: Tid,
    /// The probed program's number: half of the key in [`NameSpace::GoWait`].
    pub program: u16,
    /// The goroutine's number in its process; 0 if it could not be read.
    pub goroutine: u64,
    /// For a step by which the goroutine leaves its thread: the address of the function in which it began; otherwise, and if it could not be read, 0.
    pub began_in: u64,
    /// The step.
    pub step: GoStep,
}

/// The steps of goroutines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GoStep {
    /// The goroutine waits from here on, for this reason: the other half of the key in [`NameSpace::GoWait`].
    Parks(u8),
    /// The goroutine may run again. This goroutine made it ready; 0 if none did, or if it could not be read.
    Ready(u64),
    /// The thread runs the goroutine from here on. At the first run, the goroutine that started it; otherwise, and if it could not be read, 0.
    Runs(u64),
    /// The thread ran the goroutine, which goes back into a queue.
    Yields,
    /// The thread ran the goroutine, which ended.
    Ends,
    /// A span with these ids (trace id, span id) begins in the goroutine.
    BeginsSpan([u8; 16], [u8; 8]),
}

/// A function call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FunctionCall {
    /// The selected function's number: the key of its name, [`NameSpace::Target`].
    pub target: u32,
    /// The calling thread.
    pub thread: Tid,
    /// The call's beginning.
    pub from: Stamp<Local>,
    /// The call's end.
    pub end: CallEnd,
}

/// The kind of a call's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CallEnd {
    /// The call returned.
    Returned,
    /// The call never returned: an exception, `longjmp` or the end of its thread unwound it, at some time up
    /// to the event's stamp.
    Unwound,
    /// The call had not ended when the recording did.
    Open,
    /// A goroutine's call, which returned in its thread, and had begun in another. No thread's time is the call's.
    Moved,
    /// A goroutine's call, which returned in the thread in which it began. While the goroutine waits, the thread runs others: a wait of the thread
    /// may not be the call's.
    Stayed,
}

/// A host's clocks, read together, and the stolen time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clocks {
    /// `CLOCK_BOOTTIME`, ns. Ahead of monotonic by the time spent suspended.
    pub boottime_ns: u64,
    /// `CLOCK_REALTIME`, ns since 1970.
    pub realtime_ns: u64,
    /// Steal time on all CPUs since boot, ns.
    pub steal_ns: u64,
}

/// The meaning of an [`EventKind::Name`]'s key.
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
    /// Key: cgroup id in the hierarchy with the CPU controller. Name: `quota_us period_us`.
    CpuLimit = 5,
    /// Key: tgid. Name: the command line's first word, for processes that lived at the start.
    Program = 6,
    /// Key: cgroup id in the hierarchy with the CPU controller. Name: its path there.
    CpuCgroup = 7,
    /// Key: a selected function's number. Name: the function as selected.
    Target = 8,
    /// Key: Go program number << 8 | number of a reason for which its goroutines wait. Name: the reason.
    GoWait = 9,
    /// Key: tgid. Name: the service published by the process; empty if it no longer publishes any.
    Service = 10,
    /// Key: tgid. Name: the service instance published by the process; empty if it no longer publishes any.
    ServiceInstance = 11,
    /// Key: tgid << 8 | key of a [`ThreadAttribute`]. Name: the attribute's name.
    ThreadAttribute = 12,
    /// Key: tgid. Name: the script that the process's interpreter runs, at most 32 bytes, from its exec or fork on;
    /// empty if it runs none any more.
    Script = 13,
    /// Key: tid of a thread blocked at the start. Name: `call`, its call's number and first argument; then the processes able
    /// to end its wait, a line for each awaited thing: `writers`, `readers`, `peer`, `listener` or `holder`, with the
    /// processes' numbers behind it; `unsearched` if there were too many descriptors.
    FarEnd = 14,
    /// Key: cgroup id in the hierarchy with the I/O controller. Name: its path there; only of cgroups whose requests a
    /// limit held back.
    IoCgroup = 15,
    /// Key: cgroup id in the hierarchy with the I/O controller. Name: the I/O limits that its requests meet, innermost first,
    /// a line each: `vda wbps=1000000 /shop`, the device, the limits and the cgroup that has them.
    IoLimit = 16,
    /// Key: cgroup id in the hierarchy with the memory controller. Name: its path there; only of cgroups whose memory limit was
    /// reached.
    MemoryCgroup = 17,
    /// Key: cgroup id in the hierarchy with the memory controller. Name: the pages since its creation that were read again
    /// after they had been dropped, a number.
    Refaults = 18,
    /// Key: tid, or 0. Name: how the scheduler treated the thread when it was looked at: `nice 19 policy 0 priority 0`,
    /// the policy by the kernel's number; then `autogroup 10` if CPU time is shared by sessions first, and
    /// `cpus 0-1,3` if it may run on these alone, with `by affinity` or `by cpuset /shop` where that is known. Ordinary
    /// threads have none. Key 0, with an empty name: all threads were looked at until here.
    Scheduling = 19,
    /// Key: a flow's id, within the host. Name: the processes with its receiving socket at the record's time: `connected 912`,
    /// `listening waiting=2 room=1 dropped=3 912` for a connection that none has accepted, with the listening socket's queue,
    /// or `bound 912` for a socket without connections.
    Receiver = 20,
    /// Key: tgid. Name: the words with which its program was started, each with a NUL behind it, at most 4096 bytes, from
    /// its exec on; only where the user asked for them.
    Arguments = 21,
}

impl NameSpace {
    /// All name spaces, by number.
    pub const ALL: [Self; 21] = [
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
        Self::Script,
        Self::FarEnd,
        Self::IoCgroup,
        Self::IoLimit,
        Self::MemoryCgroup,
        Self::Refaults,
        Self::Scheduling,
        Self::Receiver,
        Self::Arguments,
    ];

    /// The process in a key; `None` if the name space has no processes, or if no process can have the number.
    pub fn process(self, key: u64) -> Option<Tid> {
        let tgid = match self {
            Self::Program
            | Self::Service
            | Self::ServiceInstance
            | Self::Script
            | Self::Scheduling
            | Self::Arguments => key,
            Self::ThreadAttribute => key >> 8,
            _ => return None,
        };
        u32::try_from(tgid).ok().map(Tid)
    }
}

/// A process's mapped code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// The process.
    pub tgid: Tid,
    /// The first address.
    pub from: u64,
    /// The address after the last.
    pub to: u64,
    /// The place of `from` in the file, bytes.
    pub offset: u64,
    /// The ELF build id, or empty.
    pub build_id: Box<[u8]>,
    /// The file's path.
    pub path: Box<[u8]>,
}

/// A fact about the session itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mark {
    /// All sources are attached from here on.
    Started,
    /// Recording stopped here.
    Stopped,
    /// The session's command, and its process.
    Command {
        /// The first process.
        tgid: Tid,
        /// The words, separated by NUL.
        words: Box<[u8]>,
    },
    /// A process for which the recording was made (`-p`).
    Target(Tid),
    /// A thread of the recorder itself.
    Observer(Tid),
    /// The command ended with this wait status.
    Ended(u32),
    /// From here on, calls of the selected function with this number are not recorded: its probes took too much.
    Unprobed(u32),
}
