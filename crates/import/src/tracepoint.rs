//! Kernel tracepoints from any tracer: plain data without interpretation.

use std::net::IpAddr;

use wakepath_clock::{Local, Stamp};
use wakepath_event::{Comm, Context, Cpu, Flow, Stack, StackId, Tid};

/// A tracepoint hit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its stamp.
    pub at: Stamp<Local>,
    /// Its CPU.
    pub cpu: Cpu,
    /// The CPU's current thread, if the tracer notes it with each event.
    pub current: Option<Tid>,
    /// The kind of context, if the tracer notes it with each event.
    pub level: Option<Level>,
    /// The tracepoint.
    pub what: Tracepoint<'a>,
}

/// The kind of context, from the head of ftrace's and perf's tracepoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// The current thread's own work.
    Task,
    /// A softirq.
    Softirq,
    /// A hard interrupt, or a non-maskable interrupt.
    Hard,
}

impl Level {
    /// The level in a tracepoint's `common_flags`.
    pub(crate) const fn from_flags(flags: i64) -> Self {
        const HARD_OR_UNMASKABLE: i64 = 0x08 | 0x40;
        const SOFTIRQ: i64 = 0x10;
        match flags {
            flags if flags & HARD_OR_UNMASKABLE != 0 => Self::Hard,
            flags if flags & SOFTIRQ != 0 => Self::Softirq,
            _ => Self::Task,
        }
    }
}

/// A record's time and place.
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
    /// `sched_wakeup`, `sched_ttwu`: perhaps on the sleeper's CPU, in the reschedule interrupt.
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
    /// The interrupt ends.
    Leave(Interrupt<'a>),
    Packet(PacketHeader<'a>),
    /// A packet identified only by its socket's number, unique on this host.
    SocketPacket {
        socket: u64,
        out: bool,
        seq: u32,
        ack: u32,
        flags: u16,
    },
    /// A socket receives data of this flow.
    Received(Flow),
    /// The same, for a packet recorded as [`Tracepoint::SocketPacket`].
    SocketReceived {
        socket: u64,
    },
    BlockIssue(Request),
    BlockComplete(Request),
    /// A thread from before the trace.
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
    /// A system call begins. `number`: its x86-64 number; `futex`: a futex call's operation.
    Call {
        number: Option<u32>,
        arg0: Option<u64>,
        futex: Option<u32>,
    },
    /// The call ends.
    CallEnd,
    /// The current thread was running here.
    Sample(Stack),
    /// The stack of the wake-up just before.
    StackOf(StackId),
    /// The tracer lost records on this CPU since `from`; `count` is 0 if unknown.
    Lost {
        from: Stamp<Local>,
        count: u64,
    },
}

/// An interrupt, which takes CPU time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interrupt<'a> {
    /// A device's, by number, with its handler's name if recorded.
    Device(u16, Option<&'a [u8]>),
    /// A softirq, by its vector.
    Softirq(u8),
    /// An expiring high-resolution timer.
    Hrtimer,
    /// One of the CPU's own vectors.
    Vector(Context),
}

/// A packet's headers at the host's edge.
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
    /// 0 if the protocol has no ports.
    pub source_port: u16,
    pub target_port: u16,
    /// TCP sequence number, or another protocol's IP id.
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

impl Request {
    /// The operation in `rwbs`, the letters of the kernel's block tracepoints.
    pub(crate) const fn operation_of(rwbs: &[u8]) -> u8 {
        match rwbs {
            // A flush may stand in front of its write.
            [b'F'] | [b'F', b'F' | b'N', ..] => 2,
            [b'F', b'W', ..] | [b'W', ..] => 1,
            [b'F', b'D', ..] | [b'D', ..] => 3,
            _ => 0,
        }
    }
}
