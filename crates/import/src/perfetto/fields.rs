//! An event's fields, as a tracepoint.

use wakepath_event::{Call, Comm, Context, Tid};

use super::wire::{Fields, Value};
use crate::kind::{Kind, Source, tid};
use crate::tracepoint::{Level, Request, Tracepoint};

/// The events that are read: the field in `FtraceEvent`, the kernel's name and the kind.
const EVENTS: [(u32, &str, Kind); 21] = [
    (4, "sched_switch", Kind::Switch),
    (17, "sched_wakeup", Kind::Wakeup),
    (20, "sched_waking", Kind::Waking),
    (24, "softirq_entry", Kind::Enter(Source::Softirq)),
    (25, "softirq_exit", Kind::Leave(Source::Softirq)),
    (36, "irq_handler_entry", Kind::Enter(Source::Device)),
    (37, "irq_handler_exit", Kind::Leave(Source::Device)),
    (45, "block_rq_issue", Kind::BlockIssue),
    (114, "sched_wakeup_new", Kind::WakeupNew),
    (125, "block_rq_complete", Kind::BlockComplete),
    (235, "task_newtask", Kind::NewTask),
    (236, "task_rename", Kind::Rename),
    (237, "sched_process_exec", Kind::Exec),
    (238, "sched_process_exit", Kind::Exit),
    (239, "sched_process_fork", Kind::Fork),
    (329, "sys_enter", Kind::CallEntry(None)),
    (330, "sys_exit", Kind::CallExit),
    (553, "hrtimer_expire_entry", Kind::Enter(Source::Hrtimer)),
    (554, "hrtimer_expire_exit", Kind::Leave(Source::Hrtimer)),
    (559, "local_timer_entry", Kind::Enter(Source::Vector(Context::LocalTimer))),
    (560, "local_timer_exit", Kind::Leave(Source::Vector(Context::LocalTimer))),
];

/// A message's field with this number, the last if there are several.
pub(super) fn field(message: &[u8], number: u32) -> Option<Value<'_>> {
    Fields::new(message).filter(|(field, _)| *field == number).last().map(|(_, value)| value)
}

/// An event's stamp, ns.
pub(super) fn stamp(event: &[u8]) -> Option<u64> {
    field(event, 1).map(Value::number)
}

/// An event's kind and its own fields; `None` for an event that is not read.
pub(super) fn kind(event: &[u8]) -> Option<(Kind, &[u8])> {
    Fields::new(event).find_map(|(field, value)| {
        let known = EVENTS.binary_search_by_key(&field, |row| row.0).ok()?;
        Some((EVENTS[known].2, value.bytes()))
    })
}

/// These kinds' names in the kernel.
pub(super) fn names(kinds: &[Kind]) -> impl Iterator<Item = &'static str> {
    EVENTS.iter().filter(|row| kinds.contains(&row.2)).map(|row| row.1)
}

/// An event in its long form.
#[derive(Debug)]
pub(super) struct Read<'a> {
    pub kind: Kind,
    pub what: What<'a>,
    pub current: Option<Tid>,
    pub level: Option<Level>,
    /// The name for a wake-up's target or a switch's previous thread.
    pub comm: Option<Comm>,
    pub target_cpu: Option<u32>,
}

/// An event's tracepoint, or a new thread that its fork follows.
#[derive(Debug)]
pub(super) enum What<'a> {
    Tracepoint(Tracepoint<'a>),
    /// The new thread, and whether it belongs to its maker's process.
    NewTask(Tid, bool),
}

/// Reads an event; `None` if its fields make no sense. `x86`: numbers of calls are x86-64's.
pub(super) fn read(event: &[u8], x86: bool) -> Option<Read<'_>> {
    let (kind, own) = kind(event)?;
    let number = |field_number| field(own, field_number).map(|value| value.number() as i64);
    let text = |field_number| field(own, field_number).map_or(&[][..], Value::bytes);
    let comm = |field_number| field(own, field_number).map(|value| Comm::new(value.bytes()));
    let (mut named, mut target_cpu) = (None, None);
    let tracepoint = match kind {
        Kind::Switch => {
            named = comm(1);
            Tracepoint::Switch {
                prev: tid(number(2))?,
                prev_state: number(4)?,
                next: tid(number(6))?,
                next_comm: comm(5),
            }
        }
        Kind::Waking | Kind::Wakeup | Kind::WakeupNew => {
            named = comm(1);
            target_cpu = number(5).and_then(|cpu| u32::try_from(cpu).ok());
            kind.read(number(2), || &[])?
        }
        Kind::Fork => Tracepoint::Fork {
            parent: tid(number(2))?,
            child: tid(number(4))?,
            child_tgid: None,
            child_ns_tid: None,
            comm: comm(3).unwrap_or_default(),
        },
        Kind::NewTask => {
            const CLONE_THREAD: i64 = 0x1_0000;
            let what = What::NewTask(tid(number(1))?, number(3)? & CLONE_THREAD != 0);
            return Some(Read { kind, what, current: None, level: None, comm: None, target_cpu: None });
        }
        Kind::Exec => Tracepoint::Exec { tid: tid(number(2)), old: tid(number(3)), path: text(1) },
        Kind::Exit => kind.read(number(2), || &[])?,
        Kind::Rename => Tracepoint::Rename { tid: tid(number(1))?, comm: comm(3)? },
        Kind::BlockIssue => Tracepoint::BlockIssue(request(own, Some(4))?),
        Kind::BlockComplete => Tracepoint::BlockComplete(request(own, None)?),
        Kind::CallEntry(_) => {
            let call = number(1).and_then(|number| u32::try_from(number).ok()).filter(|_| x86);
            let mut arguments = Vec::new();
            for (_, value) in Fields::new(own).filter(|(field, _)| *field == 2).take(6) {
                super::wire::numbers(value, &mut arguments);
            }
            let futex =
                arguments.get(1).filter(|_| call == Some(Call::FUTEX)).map(|&operation| operation as u32);
            Tracepoint::Call { number: call, arg0: arguments.first().copied(), futex }
        }
        _ => kind.read(number(1), || text(2))?,
    };
    let current = tid(field(event, 2).map(|value| value.number() as i64));
    let level = field(event, 5).map(|value| Level::from_flags(value.number() as i64));
    Some(Read { kind, what: What::Tracepoint(tracepoint), current, level, comm: named, target_cpu })
}

/// A request to a block device; `bytes`: the field with its size, if the event has it.
fn request(own: &[u8], bytes: Option<u32>) -> Option<Request> {
    let number = |number| field(own, number).map(Value::number);
    // User space's form: the minor number's low byte, the major number, the minor number's rest.
    let device = number(1)?;
    let (major, minor) = (device >> 8 & 0xfff, device & 0xff | device >> 12 & 0xf_ff00);
    let operation = field(own, 5).map_or(0, |letters| Request::operation_of(letters.bytes()));
    let size = number(3)?.saturating_mul(512);
    // Requests without sectors, such as a flush, have their own size.
    let size = bytes.and_then(number).filter(|&bytes| bytes > 0).unwrap_or(size);
    Some(Request {
        device: (major << 20 | minor) as u32,
        sector: number(2)?,
        bytes: u32::try_from(size).unwrap_or(u32::MAX),
        operation,
    })
}
