//! The tracepoints to read, from any tracer, and the decoding of those with a single number and perhaps a name.

use wakepath_event::{Context, Tid};

use crate::tracepoint::{Interrupt, Tracepoint};

/// The kind of a tracepoint to read.
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
    Enter(Source),
    Leave(Source),
    PacketOut,
    PacketIn,
    SocketOut,
    SocketIn,
    Received,
    BlockIssue,
    BlockComplete,
    Process,
    InterruptName,
    BlockDeviceName,
    /// A system call, by number if the tracepoint's name includes it.
    CallEntry(Option<u32>),
    CallExit,
    /// An unused tracepoint.
    Other,
}

/// An interrupt's source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Device,
    Softirq,
    Hrtimer,
    Vector(Context),
}

/// The tracepoints that all tracers name as the kernel does: system, name and kind.
const OF_KERNEL: [(&str, &str, Kind); 18] = [
    ("sched", "sched_switch", Kind::Switch),
    ("sched", "sched_waking", Kind::Waking),
    ("sched", "sched_wakeup", Kind::Wakeup),
    ("sched", "sched_wakeup_new", Kind::WakeupNew),
    ("sched", "sched_process_fork", Kind::Fork),
    ("sched", "sched_process_exec", Kind::Exec),
    ("sched", "sched_process_exit", Kind::Exit),
    ("task", "task_rename", Kind::Rename),
    ("irq", "irq_handler_entry", Kind::Enter(Source::Device)),
    ("irq", "irq_handler_exit", Kind::Leave(Source::Device)),
    ("irq", "softirq_entry", Kind::Enter(Source::Softirq)),
    ("irq", "softirq_exit", Kind::Leave(Source::Softirq)),
    ("timer", "hrtimer_expire_entry", Kind::Enter(Source::Hrtimer)),
    ("timer", "hrtimer_expire_exit", Kind::Leave(Source::Hrtimer)),
    ("net", "net_dev_queue", Kind::PacketOut),
    ("net", "netif_receive_skb", Kind::PacketIn),
    ("block", "block_rq_issue", Kind::BlockIssue),
    ("block", "block_rq_complete", Kind::BlockComplete),
];

impl Kind {
    /// The kind of the kernel's tracepoint with this name; a `system` `None` matches any.
    pub fn from_tracepoint(system: Option<&str>, name: &str) -> Option<Self> {
        let known = OF_KERNEL.iter().find(|row| row.1 == name && system.is_none_or(|system| row.0 == system));
        known.map(|&(.., kind)| kind)
    }

    /// The kind of a tracepoint in the kernel's `irq_vectors`: `local_timer_entry`.
    pub fn from_irq_vector(name: &str) -> Option<Self> {
        let source = |vector: &str| {
            Source::Vector(match vector {
                "local_timer" => Context::LocalTimer,
                "reschedule" => Context::Reschedule,
                "call_function" | "call_function_single" => Context::CallFunction,
                "irq_work" => Context::IrqWork,
                _ => Context::UnknownInterrupt,
            })
        };
        let entry = name.strip_suffix("_entry").map(|vector| Self::Enter(source(vector)));
        entry.or_else(|| name.strip_suffix("_exit").map(|vector| Self::Leave(source(vector))))
    }

    /// Whether it only notes the current thread's call, which the next such tracepoint on its CPU replaces.
    pub const fn replaces_earlier(self) -> bool {
        matches!(self, Self::CallEntry(_) | Self::CallExit)
    }

    /// Whether it is evidence for the meaning of thread states.
    pub const fn shows_states(self) -> bool {
        matches!(self, Self::Switch | Self::Waking | Self::Wakeup | Self::Fork | Self::Exit)
    }

    /// The tracepoint for a kind with a single number, and with a name at a device interrupt's entry; `None` for an
    /// invalid number, and for all other kinds.
    #[inline]
    pub fn read<'a>(self, first: Option<i64>, name: impl FnOnce() -> &'a [u8]) -> Option<Tracepoint<'a>> {
        let target = || tid(first);
        Some(match self {
            Self::Waking => Tracepoint::Waking { target: target()? },
            Self::Wakeup => Tracepoint::Wakeup { target: target()? },
            Self::WakeupNew => Tracepoint::WakeupNew { target: target()? },
            Self::Exit => Tracepoint::Exit { tid: target()? },
            Self::Enter(Source::Device) => {
                Tracepoint::Enter(Interrupt::Device(u16::try_from(first?).ok()?, Some(name())))
            }
            Self::Enter(source) => Tracepoint::Enter(source.interrupt(first)?),
            Self::Leave(source) => Tracepoint::Leave(source.interrupt(first)?),
            Self::CallExit => Tracepoint::CallEnd,
            _ => return None,
        })
    }
}

impl Source {
    /// The interrupt with this number, without its name.
    fn interrupt(self, number: Option<i64>) -> Option<Interrupt<'static>> {
        Some(match self {
            Self::Device => Interrupt::Device(u16::try_from(number?).ok()?, None),
            Self::Softirq => Interrupt::Softirq(u8::try_from(number?).ok()?),
            Self::Hrtimer => Interrupt::Hrtimer,
            Self::Vector(context) => Interrupt::Vector(context),
        })
    }
}

/// The thread with this number; `None` for a number that no kernel gives out.
pub(crate) fn tid(number: Option<impl TryInto<u32>>) -> Option<Tid> {
    number.and_then(|tid| tid.try_into().ok()).filter(|&tid| tid < Tid::LIMIT).map(Tid)
}
