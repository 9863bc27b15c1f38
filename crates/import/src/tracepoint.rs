//! Tracepoints of the kernel as any tracer records them: plain data without interpretation.

use std::net::IpAddr;

use wakepath_clock::{Local, Stamp};
use wakepath_event::{Comm, Context, Cpu, Flow, Stack, StackId, Tid};

/// One hit of a tracepoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its stamp.
    pub at: Stamp<Local>,
    /// Its CPU.
    pub cpu: Cpu,
    /// The thread that was current there, where the tracer notes it with each event.
    pub current: Option<Tid>,
    /// Whether it came in an interrupt, where the tracer notes it with each event.
    pub level: Option<Level>,
    /// The tracepoint.
    pub what: Tracepoint<'a>,
}

/// The kind of context that the head of each of ftrace's and perf's tracepoints notes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// The current thread's own work.
    Task,
    /// A softirq.
    Softirq,
    /// A hard interrupt, or one that cannot be masked.
    Hard,
}

/// The time and the place of a record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin {
    pub at: Stamp<Local>,
    pub cpu: Cpu,
    pub current: Option<Tid>,
    pub level: Option<Level>,
}

/// A tracepoint and its fields.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the kernel's")]
pub enum Tracepoint<'a> {
    /// `prev_state` as the tracepoint reports it: see [`crate::normalise::ReportedStates`].
    Switch {
        prev: Tid,
        prev_state: i64,
        next: Tid,
        next_comm: Option<Comm>,
    },
    /// `sched_waking`: in the waker's context.
    Waking {
        target: Tid,
    },
    /// `sched_wakeup`, `sched_ttwu`: perhaps on the sleeper's CPU, in the interrupt that asks it to schedule.
    Wakeup {
        target: Tid,
    },
    WakeupNew {
        target: Tid,
    },
    Fork {
        parent: Tid,
        child: Tid,
        child_tgid: Option<Tid>,
        child_ns_tid: Option<Tid>,
        comm: Comm,
    },
    /// `tid`: from here on; `old`: the caller's number before.
    Exec {
        tid: Option<Tid>,
        old: Option<Tid>,
        path: &'a [u8],
    },
    Exit {
        tid: Tid,
    },
    Rename {
        tid: Tid,
        comm: Comm,
    },
    /// An interrupt begins.
    Enter(Interrupt<'a>),
    /// It ends.
    Leave(Interrupt<'a>),
    Packet(PacketHeader<'a>),
    /// A packet of which only the socket is known, by a number that is its own on this host.
    SocketPacket {
        socket: u64,
        out: bool,
        seq: u32,
        ack: u32,
        flags: u16,
    },
    /// A socket is given what it received of this flow.
    Received(Flow),
    /// The same, of a socket's packet that was recorded as [`Tracepoint::SocketPacket`].
    SocketReceived {
        socket: u64,
    },
    BlockIssue(Request),
    BlockComplete(Request),
    /// A thread that was there when tracing began.
    Thread {
        tid: Tid,
        tgid: Tid,
        parent: Tid,
        ns_tid: Option<Tid>,
        comm: Comm,
        kernel: bool,
        blocked: bool,
    },
    InterruptName {
        irq: u16,
        name: &'a [u8],
    },
    BlockDeviceName {
        device: u32,
        name: &'a [u8],
    },
    /// A system call begins. `number`: its x86-64 one; `futex`: the operation of such a call.
    Call {
        number: Option<u32>,
        arg0: Option<u64>,
        futex: Option<u32>,
    },
    /// It ends.
    CallEnd,
    /// The current thread was running here.
    Sample(Stack),
    /// The stack of the waking just before.
    StackOf(StackId),
    /// The tracer lost records of this CPU since `from`; `count` is 0 where their number is not known.
    Lost {
        from: Stamp<Local>,
        count: u64,
    },
}

/// An interrupt, which takes time of a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interrupt<'a> {
    /// A device's, by its number, with its handler's name where that is recorded.
    Device(u16, Option<&'a [u8]>),
    /// A softirq, by its vector.
    Softirq(u8),
    /// A high-resolution timer that expires.
    Hrtimer,
    /// One of the CPU's own vectors.
    Vector(Context),
}

/// The headers of a packet at the edge of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct PacketHeader<'a> {
    /// It leaves.
    pub out: bool,
    /// The interface's name.
    pub interface: &'a [u8],
    pub source: IpAddr,
    pub target: IpAddr,
    /// The IP protocol.
    pub protocol: u8,
    /// 0 where the protocol has none.
    pub source_port: u16,
    pub target_port: u16,
    /// TCP sequence number, or the IP id of others.
    pub seq: u32,
    pub ack: u32,
    /// Payload, bytes.
    pub len: u32,
    pub tcp_flags: u16,
}

/// A request to a block device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Request {
    /// Major << 20 | minor.
    pub device: u32,
    pub sector: u64,
    pub bytes: u32,
    /// The kernel's operation: 0 read, 1 write, 2 flush, 3 discard.
    pub operation: u8,
}
