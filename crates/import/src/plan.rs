//! The kernel's tracepoints as `perf` and `trace-cmd` record them, by name, and which of their fields are read.

use std::net::{IpAddr, SocketAddr};

use wakepath_event::{Call, Comm, Context, Flow, Tid};

use crate::formats::{Field, Format};
use crate::tracepoint::{Interrupt, Request, Tracepoint, VectorEdge};

/// The kind of a tracepoint that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Switch,
    Waking,
    Wakeup,
    WakeupNew,
    Fork,
    NewTask,
    Exec,
    Exit,
    Rename,
    IrqEntry,
    IrqExit,
    SoftirqEntry,
    SoftirqExit,
    HrtimerEntry,
    HrtimerExit,
    VectorEntry(Context),
    VectorExit(Context),
    PacketOut,
    PacketIn,
    Received,
    BlockIssue,
    BlockComplete,
    CallEntry,
    CallExit,
}

impl Kind {
    fn from_format(format: &Format) -> Option<Self> {
        Some(match (format.system.as_str(), format.name.as_str()) {
            ("sched", "sched_switch") => Self::Switch,
            ("sched", "sched_waking") => Self::Waking,
            ("sched", "sched_wakeup") => Self::Wakeup,
            ("sched", "sched_wakeup_new") => Self::WakeupNew,
            ("sched", "sched_process_fork") => Self::Fork,
            ("sched", "sched_process_exec") => Self::Exec,
            ("sched", "sched_process_exit") => Self::Exit,
            ("task", "task_newtask") => Self::NewTask,
            ("task", "task_rename") => Self::Rename,
            ("irq", "irq_handler_entry") => Self::IrqEntry,
            ("irq", "irq_handler_exit") => Self::IrqExit,
            ("irq", "softirq_entry") => Self::SoftirqEntry,
            ("irq", "softirq_exit") => Self::SoftirqExit,
            ("timer", "hrtimer_expire_entry") => Self::HrtimerEntry,
            ("timer", "hrtimer_expire_exit") => Self::HrtimerExit,
            ("net", "net_dev_queue") => Self::PacketOut,
            ("net", "netif_receive_skb") => Self::PacketIn,
            ("tcp", "tcp_probe") => Self::Received,
            ("block", "block_rq_issue") => Self::BlockIssue,
            ("block", "block_rq_complete") => Self::BlockComplete,
            ("raw_syscalls", "sys_enter") => Self::CallEntry,
            ("raw_syscalls", "sys_exit") => Self::CallExit,
            ("syscalls", name) if name.starts_with("sys_enter_") => Self::CallEntry,
            ("syscalls", name) if name.starts_with("sys_exit_") => Self::CallExit,
            ("irq_vectors", name) => match VectorEdge::parse(name)? {
                VectorEdge::Entry(context) => Self::VectorEntry(context),
                VectorEdge::Exit(context) => Self::VectorExit(context),
            },
            _ => return None,
        })
    }

    /// The required fields, and the optional ones.
    const fn fields(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            Self::Switch => (&["prev_pid", "prev_state", "next_pid"], &["next_comm", "prev_comm"]),
            Self::Waking | Self::Wakeup | Self::WakeupNew => (&["pid"], &["comm"]),
            Self::NewTask => (&["pid", "clone_flags"], &[]),
            Self::Exit => (&["pid"], &[]),
            Self::Fork => (&["parent_pid", "child_pid"], &["child_comm"]),
            Self::Exec => (&["pid", "filename"], &["old_pid"]),
            Self::Rename => (&["newcomm"], &["pid"]),
            Self::IrqEntry => (&["irq"], &["name"]),
            Self::IrqExit => (&["irq"], &[]),
            Self::SoftirqEntry | Self::SoftirqExit => (&["vec"], &[]),
            Self::PacketOut | Self::PacketIn => (&["skbaddr", "name"], &[]),
            Self::Received => (&["saddr", "daddr"], &["skbaddr"]),
            Self::BlockIssue | Self::BlockComplete => (&["dev", "sector", "nr_sector", "rwbs"], &["bytes"]),
            // The calls' own tracepoints have `__syscall_nr`, and the first argument behind it.
            Self::CallEntry => (&[], &["id", "args"]),
            Self::HrtimerEntry
            | Self::HrtimerExit
            | Self::VectorEntry(_)
            | Self::VectorExit(_)
            | Self::CallExit => (&[], &[]),
        }
    }
}

/// The way to read a tracepoint: the places of its fields.
#[derive(Debug)]
pub(crate) struct Plan {
    pub kind: Kind,
    /// In the order of [`Kind::fields`].
    fields: [Option<Field>; 5],
    /// The current thread.
    current: Option<Field>,
}

impl Plan {
    /// Plans the reading of a tracepoint; `None` where it is not used or lacks a required field.
    pub fn new(format: &Format) -> Option<Self> {
        let kind = Kind::from_format(format)?;
        let (needed, more) = kind.fields();
        let mut fields = [None; 5];
        for (place, name) in needed.iter().chain(more).enumerate() {
            fields[place] = format.field(name);
            if place < needed.len() && fields[place].is_none() {
                return None;
            }
        }
        if kind == Kind::CallEntry && fields[0].is_none() {
            fields = [format.field("__syscall_nr"), format.field_behind("__syscall_nr"), None, None, None];
        }
        Some(Self { kind, fields, current: format.field("common_pid") })
    }

    fn number(&self, place: usize, raw: &[u8]) -> Option<i64> {
        self.fields[place]?.number(raw)
    }

    fn tid(&self, place: usize, raw: &[u8]) -> Option<Tid> {
        self.number(place, raw).and_then(|tid| u32::try_from(tid).ok()).map(Tid)
    }

    fn text<'a>(&self, place: usize, raw: &'a [u8]) -> &'a [u8] {
        self.fields[place].map_or(&[], |field| field.text(raw))
    }

    /// The thread that was current, by the number that other fields of tracepoints use, too. perf's own records
    /// have a number of perf's pid namespace.
    pub fn current(&self, raw: &[u8]) -> Option<Tid> {
        self.current?.number(raw).and_then(|tid| u32::try_from(tid).ok()).map(Tid)
    }

    /// The name of a thread that may be noted nowhere else: the one that a switch switches out, or the one that
    /// is woken.
    pub fn comm(&self, raw: &[u8]) -> Option<Comm> {
        let field = match self.kind {
            Kind::Switch => self.fields[4],
            Kind::Waking | Kind::Wakeup | Kind::WakeupNew => self.fields[1],
            _ => None,
        };
        field.map(|field| Comm::new(field.text(raw)))
    }

    /// The thread that was just made, and whether it belongs to the process that made it.
    pub fn newborn(&self, raw: &[u8]) -> Option<(Tid, bool)> {
        const CLONE_THREAD: i64 = 0x1_0000;
        Some((self.tid(0, raw)?, self.number(1, raw)? & CLONE_THREAD != 0))
    }

    /// A packet's buffer, and its interface.
    pub fn packet<'a>(&self, raw: &'a [u8]) -> Option<(u64, &'a [u8])> {
        Some((self.number(0, raw)? as u64, self.text(1, raw)))
    }

    /// The buffer of what a socket received; kernels before 6.10 do not note it.
    pub fn received(&self, raw: &[u8]) -> Option<u64> {
        self.number(2, raw).map(|buffer| buffer as u64)
    }

    /// Reads the fields; `None` where they make no sense, or mean nothing by themselves.
    pub fn read<'a>(&self, raw: &'a [u8]) -> Option<Tracepoint<'a>> {
        let number = |place| self.number(place, raw);
        let tid = |place| self.tid(place, raw);
        Some(match self.kind {
            Kind::Switch => Tracepoint::Switch {
                prev: tid(0)?,
                prev_state: number(1)?,
                next: tid(2)?,
                next_comm: self.fields[3].map(|field| Comm::new(field.text(raw))),
            },
            Kind::Waking => Tracepoint::Waking { target: tid(0)? },
            Kind::Wakeup => Tracepoint::Wakeup { target: tid(0)? },
            Kind::WakeupNew => Tracepoint::WakeupNew { target: tid(0)? },
            Kind::Fork => Tracepoint::Fork {
                parent: tid(0)?,
                child: tid(1)?,
                child_tgid: None,
                child_ns_tid: None,
                comm: Comm::new(self.text(2, raw)),
            },
            Kind::Exec => Tracepoint::Exec { tid: tid(0), old: tid(2), path: self.text(1, raw) },
            Kind::Exit => Tracepoint::Exit { tid: tid(0)? },
            Kind::Rename => Tracepoint::Rename {
                tid: tid(1).or_else(|| self.current(raw))?,
                comm: Comm::new(self.text(0, raw)),
            },
            Kind::IrqEntry => Tracepoint::Enter(Interrupt::Device(irq(number(0))?, Some(self.text(1, raw)))),
            Kind::IrqExit => Tracepoint::Leave(Interrupt::Device(irq(number(0))?, None)),
            Kind::SoftirqEntry => Tracepoint::Enter(Interrupt::Softirq(u8::try_from(number(0)?).ok()?)),
            Kind::SoftirqExit => Tracepoint::Leave(Interrupt::Softirq(u8::try_from(number(0)?).ok()?)),
            Kind::HrtimerEntry => Tracepoint::Enter(Interrupt::Hrtimer),
            Kind::HrtimerExit => Tracepoint::Leave(Interrupt::Hrtimer),
            Kind::VectorEntry(context) => Tracepoint::Enter(Interrupt::Vector(context)),
            Kind::VectorExit(context) => Tracepoint::Leave(Interrupt::Vector(context)),
            Kind::NewTask | Kind::PacketOut | Kind::PacketIn => return None,
            Kind::Received => {
                // The address of the socket, and of its peer, which sent.
                let [own, peer] = [0, 1].map(|place| self.fields[place]?.bytes(raw).and_then(address));
                Tracepoint::Received(Flow { source: peer?, target: own?, protocol: 6 })
            }
            Kind::BlockIssue => Tracepoint::BlockIssue(self.request(raw)?),
            Kind::BlockComplete => Tracepoint::BlockComplete(self.request(raw)?),
            Kind::CallEntry => {
                let call = number(0).and_then(|number| u32::try_from(number).ok());
                // The operation stands behind the address; the calls' own tracepoints have it in another place.
                let second = || self.fields[1]?.bytes(raw)?.get(8..)?.first_chunk();
                let futex = second().filter(|_| call == Some(Call::FUTEX));
                Tracepoint::Call {
                    number: call,
                    arg0: number(1).map(|arg| arg as u64),
                    futex: futex.map(|&operation| u64::from_le_bytes(operation) as u32),
                }
            }
            Kind::CallExit => Tracepoint::CallEnd,
        })
    }

    fn request(&self, raw: &[u8]) -> Option<Request> {
        let number = |place| self.number(place, raw);
        let sectors = number(2)? as u32;
        // A flush may stand in front of the write behind it.
        let operation = match self.text(3, raw) {
            [b'F'] | [b'F', b'F' | b'N', ..] => 2,
            [b'F', b'W', ..] | [b'W', ..] => 1,
            [b'F', b'D', ..] | [b'D', ..] => 3,
            _ => 0,
        };
        Some(Request {
            device: number(0)? as u32,
            sector: number(1)? as u64,
            bytes: number(4).map_or(sectors.saturating_mul(512), |bytes| bytes as u32),
            operation,
        })
    }
}

/// A `sockaddr_in` or `sockaddr_in6`.
fn address(bytes: &[u8]) -> Option<SocketAddr> {
    let family = u16::from_le_bytes(*bytes.first_chunk()?);
    let port = u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?);
    let ip = match family {
        2 => IpAddr::from(*bytes.get(4..)?.first_chunk::<4>()?),
        10 => IpAddr::from(*bytes.get(8..)?.first_chunk::<16>()?),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

fn irq(number: Option<i64>) -> Option<u16> {
    number.and_then(|irq| u16::try_from(irq).ok())
}
