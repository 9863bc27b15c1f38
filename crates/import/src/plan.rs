//! The kernel's tracepoints as `perf` and `trace-cmd` record them, by name, and their fields to read.

use std::net::{IpAddr, SocketAddr};

use wakepath_event::{Call, Comm, Cpu, Flow, Tid};

use crate::formats::{Field, Format};
use crate::kind::{Kind, Source, tid};
use crate::tracepoint::{Level, Request, Tracepoint};

impl Kind {
    /// The kind behind a tracepoint's names.
    pub fn from_names(system: &str, name: &str) -> Option<Self> {
        match (system, name) {
            ("task", "task_newtask") => Some(Self::NewTask),
            ("tcp", "tcp_probe") => Some(Self::Received),
            ("raw_syscalls", "sys_enter") => Some(Self::CallEntry(None)),
            ("raw_syscalls", "sys_exit") => Some(Self::CallExit),
            ("syscalls", name) if name.starts_with("sys_enter_") => Some(Self::CallEntry(None)),
            ("syscalls", name) if name.starts_with("sys_exit_") => Some(Self::CallExit),
            ("irq_vectors", name) => Self::from_irq_vector(name),
            (system, name) => Self::from_tracepoint(Some(system), name),
        }
    }

    /// The required fields, and the optional ones.
    const fn fields(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            Self::Switch => (&["prev_pid", "prev_state", "next_pid"], &["next_comm", "prev_comm"]),
            Self::Waking | Self::Wakeup | Self::WakeupNew => (&["pid"], &["comm", "target_cpu"]),
            Self::NewTask => (&["pid", "clone_flags"], &[]),
            Self::Exit => (&["pid"], &[]),
            Self::Fork => (&["parent_pid", "child_pid"], &["child_comm"]),
            Self::Exec => (&["pid", "filename"], &["old_pid"]),
            Self::Rename => (&["newcomm"], &["pid"]),
            Self::Enter(Source::Device) => (&["irq"], &["name"]),
            Self::Leave(Source::Device) => (&["irq"], &[]),
            Self::Enter(Source::Softirq) | Self::Leave(Source::Softirq) => (&["vec"], &[]),
            Self::PacketOut | Self::PacketIn => (&["skbaddr", "name"], &[]),
            Self::Received => (&["saddr", "daddr"], &["skbaddr"]),
            Self::BlockIssue | Self::BlockComplete => (&["dev", "sector", "nr_sector", "rwbs"], &["bytes"]),
            // The calls' own tracepoints have `__syscall_nr`, and the first argument behind it.
            Self::CallEntry(_) => (&[], &["id", "args"]),
            _ => (&[], &[]),
        }
    }
}

/// A tracepoint's decoding: the places of its fields.
#[derive(Debug)]
pub(crate) struct Plan {
    pub kind: Kind,
    /// In the order of [`Kind::fields`].
    fields: [Option<Field>; 5],
    /// The current thread.
    current: Option<Field>,
    /// `enum trace_flag_type`.
    flags: Option<Field>,
}

impl Plan {
    /// Plans a tracepoint's decoding; `None` if it is unused or lacks a required field.
    pub fn new(format: &Format) -> Option<Self> {
        let kind = Kind::from_names(&format.system, &format.name)?;
        let (needed, more) = kind.fields();
        let mut fields = [None; 5];
        for (place, name) in needed.iter().chain(more).enumerate() {
            fields[place] = format.field(name);
            if place < needed.len() && fields[place].is_none() {
                return None;
            }
        }
        if kind == Kind::CallEntry(None) && fields[0].is_none() {
            fields = [format.field("__syscall_nr"), format.field_behind("__syscall_nr"), None, None, None];
        }
        Some(Self { kind, fields, current: format.field("common_pid"), flags: format.field("common_flags") })
    }

    fn number(&self, place: usize, raw: &[u8]) -> Option<i64> {
        self.fields[place]?.number(raw)
    }

    fn tid(&self, place: usize, raw: &[u8]) -> Option<Tid> {
        tid(self.number(place, raw))
    }

    fn text<'a>(&self, place: usize, raw: &'a [u8]) -> &'a [u8] {
        self.fields[place].map_or(&[], |field| field.text(raw))
    }

    /// The current thread, in the same numbers as in other tracepoint fields. perf's own records use perf's pid
    /// namespace.
    pub fn current(&self, raw: &[u8]) -> Option<Tid> {
        tid(self.current?.number(raw))
    }

    /// Whether it came in an interrupt.
    pub fn level(&self, raw: &[u8]) -> Option<Level> {
        Some(Level::from_flags(self.flags?.number(raw)?))
    }

    /// The name of a thread that may have no other record: the thread that a switch switches out, or the woken
    /// thread.
    pub fn comm(&self, raw: &[u8]) -> Option<Comm> {
        let field = match self.kind {
            Kind::Switch => self.fields[4],
            Kind::Waking | Kind::Wakeup | Kind::WakeupNew => self.fields[1],
            _ => None,
        };
        field.map(|field| Comm::new(field.text(raw)))
    }

    /// The CPU to which a wake-up sends its thread, if it is recorded.
    pub fn target_cpu(&self, raw: &[u8]) -> Option<Cpu> {
        u32::try_from(self.number(2, raw)?).ok().map(Cpu::numbered)
    }

    /// The new thread, and whether it belongs to its maker's process.
    pub fn newborn(&self, raw: &[u8]) -> Option<(Tid, bool)> {
        const CLONE_THREAD: i64 = 0x1_0000;
        Some((self.tid(0, raw)?, self.number(1, raw)? & CLONE_THREAD != 0))
    }

    /// A packet's buffer, and its interface.
    pub fn packet<'a>(&self, raw: &'a [u8]) -> Option<(u64, &'a [u8])> {
        Some((self.number(0, raw)? as u64, self.text(1, raw)))
    }

    /// The buffer that a socket received; kernels before 6.10 do not note it.
    pub fn received(&self, raw: &[u8]) -> Option<u64> {
        self.number(2, raw).map(|buffer| buffer as u64)
    }

    /// Reads the fields; `None` if they make no sense, or have no meaning by themselves.
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
            Kind::Fork => Tracepoint::Fork {
                parent: tid(0)?,
                child: tid(1)?,
                child_tgid: None,
                child_ns_tid: None,
                comm: Comm::new(self.text(2, raw)),
            },
            Kind::Exec => Tracepoint::Exec { tid: tid(0), old: tid(2), path: self.text(1, raw) },
            Kind::Rename => Tracepoint::Rename {
                tid: tid(1).or_else(|| self.current(raw))?,
                comm: Comm::new(self.text(0, raw)),
            },
            Kind::Received => {
                // The addresses of the socket and of its peer, the sender.
                let [own, peer] = [0, 1].map(|place| self.fields[place]?.bytes(raw).and_then(address));
                Tracepoint::Received(Flow { source: peer?, target: own?, protocol: 6 })
            }
            Kind::BlockIssue => Tracepoint::BlockIssue(self.request(raw)?),
            Kind::BlockComplete => Tracepoint::BlockComplete(self.request(raw)?),
            Kind::CallEntry(_) => {
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
            kind => return kind.read(number(0), || self.text(1, raw)),
        })
    }

    fn request(&self, raw: &[u8]) -> Option<Request> {
        let number = |place| self.number(place, raw);
        let sectors = number(2)? as u32;
        Some(Request {
            device: number(0)? as u32,
            sector: number(1)? as u64,
            bytes: number(4).map_or(sectors.saturating_mul(512), |bytes| bytes as u32),
            operation: Request::operation_of(self.text(3, raw)),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The head of a `sched_waking` as the kernel describes it, with the flags that perf recorded at a timer
    /// interrupt's wake-up, and others.
    #[test]
    fn the_head_of_a_tracepoint_says_whether_it_came_in_an_interrupt() {
        let text = "name: sched_waking\nID: 375\nformat:\n\
            \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
            \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
            \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
            \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
            \tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n";
        let (_, format) = Format::parse("sched", text).expect("a format");
        let plan = Plan::new(&format).expect("a plan");
        for (flags, level) in [
            (0x00, Level::Task),
            (0x01, Level::Task),
            (0x05, Level::Task),
            (0x09, Level::Hard),
            (0x19, Level::Hard),
            (0x40, Level::Hard),
            (0x11, Level::Softirq),
            (0x80, Level::Task),
        ] {
            let mut raw = [0; 36];
            (raw[0], raw[1], raw[2], raw[3]) = (0x77, 1, flags, 3);
            assert_eq!(plan.level(&raw), Some(level), "{flags:#x}");
        }
    }
}
