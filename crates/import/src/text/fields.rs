//! A tracepoint's text, as a tracepoint.
//!
//! The text between two fields is fixed, and each name is at most 15 bytes long. Where that leaves two readings, there is
//! no reading.

use wakepath_event::{Call, Comm, Cpu, Tid};

use super::head::{Form, Head};
use super::scan::{Scan, is_comm, split_once_only};
use crate::kind::{Kind, Source, tid};
use crate::normalise::ReportedStates;
use crate::tracepoint::{Request, Tracepoint};

/// A line's contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fields<'a> {
    pub what: What<'a>,
    /// The previous thread's name in a switch, or the woken thread's.
    pub comm: Option<Comm>,
    /// The CPU to which a wake-up sends its thread.
    pub target_cpu: Option<Cpu>,
    /// The state's letters have two meanings.
    pub doubtful: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum What<'a> {
    Tracepoint(Tracepoint<'a>),
    /// A new thread, and whether it belongs to its maker's process.
    NewTask(Tid, bool),
}

impl<'a> From<Tracepoint<'a>> for Fields<'a> {
    fn from(what: Tracepoint<'a>) -> Self {
        Self { what: What::Tracepoint(what), comm: None, target_cpu: None, doubtful: false }
    }
}

/// The states' letters, as any kernel prints them, with our own numbers.
const LETTERS: [(i64, char); 13] = [
    (0x1, 'S'),
    (0x2, 'D'),
    (0x4, 'T'),
    (0x8, 't'),
    (0x10, 'X'),
    (0x20, 'Z'),
    (0x40, 'P'),
    (0x80, 'I'),
    (0x100, 'K'),
    (0x200, 'W'),
    (0x400, 'N'),
    (0x800, 'x'),
    (0x1000, 'n'),
];
/// Another state.
const OTHER: i64 = 0x2000;
const PREEMPTED: i64 = 0x4000;
/// The states themselves: a thread has a single state.
const STATES: i64 = 0xff;

/// The meaning of the numbers for states.
pub(super) fn states() -> ReportedStates {
    ReportedStates::from_flags(&LETTERS, PREEMPTED)
}

/// `R`, `S`, `D|K`, `R+`: as the kernel prints it. Returns also whether it is in doubt: Linux 4.14 printed the index of some
/// states as if its bits were states.
fn state(text: &[u8]) -> Option<(i64, bool)> {
    let (text, preempted) = match text.strip_suffix(b"+") {
        Some(text) => (text, PREEMPTED),
        None => (text, 0),
    };
    if text == b"R" {
        return Some((preempted, false));
    }
    let mut all = 0;
    for flag in text.split(|&byte| byte == b'|') {
        all |= match flag {
            &[letter] => LETTERS.iter().find(|(_, known)| *known == char::from(letter))?.0,
            [b'0', b'x', digits @ ..] if !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit) => {
                OTHER
            }
            _ => return None,
        };
    }
    Some((all | preempted, (all & STATES).count_ones() > 1))
}

/// A state's single letter, as trace-cmd prints it. W is the idle state since Linux 4.14: no
/// other state has its bit there. x is a dead thread in older kernels, and a parked thread in newer kernels.
fn state_of_trace_cmd(letter: u8) -> Option<(i64, bool)> {
    match letter {
        b'W' => Some((0x80, false)),
        b'x' => Some((OTHER, true)),
        _ => state(&[letter]),
    }
}

impl Kind {
    /// The line's kind, and for a system call's own tracepoint its name.
    pub(super) fn from_line<'a>(head: &Head<'a>) -> Option<(Self, Option<&'a str>)> {
        let name = std::str::from_utf8(head.name).ok()?;
        let (system, name) = match name.split_once(':') {
            Some((system, name)) => (Some(system), name),
            None => (None, name),
        };
        let is = |wanted: &str| system.is_none_or(|system| system == wanted);
        let call = match name {
            "sys_enter" if is("raw_syscalls") => return Some((Self::CallEntry(None), None)),
            "sys_exit" if is("raw_syscalls") => return Some((Self::CallExit, None)),
            "task_newtask" if is("task") => return Some((Self::NewTask, None)),
            // ftrace's own form for calls.
            _ if system.is_none() && head.text.starts_with(b"(") => {
                name.strip_prefix("sys_").map(|call| (Self::CallEntry(None), call))
            }
            _ if system.is_none() && head.text.starts_with(b"-> ") => {
                name.strip_prefix("sys_").map(|call| (Self::CallExit, call))
            }
            _ if is("syscalls") => {
                let entry = name.strip_prefix("sys_enter_").map(|call| (Self::CallEntry(None), call));
                entry.or_else(|| name.strip_prefix("sys_exit_").map(|call| (Self::CallExit, call)))
            }
            _ => None,
        };
        if let Some((kind, call)) = call {
            return Some((kind, Some(call)));
        }
        if is("irq_vectors") && head.text.starts_with(b"vector=") {
            return Self::from_irq_vector(name).map(|kind| (kind, None));
        }
        let kind = Self::from_tracepoint(system, name)?;
        // The addresses of packets' buffers are hidden in text.
        (!matches!(kind, Self::PacketOut | Self::PacketIn)).then_some((kind, None))
    }
}

/// Reads a tracepoint's text; `None` if it is not readable, or has two readings.
pub(super) fn read<'a>(kind: Kind, call: Option<&str>, head: &Head<'a>) -> Option<Fields<'a>> {
    let mut text = Scan(head.text);
    Some(match kind {
        Kind::Switch => return switch(head),
        Kind::Waking | Kind::Wakeup | Kind::WakeupNew => return wakeup(kind, head),
        Kind::NewTask => {
            // pid=7 comm=a clone_flags=1200000 oom_score_adj=0
            text.take(b"pid=")?;
            let tid = tid(text.number())?;
            text.take(b" comm=")?;
            text.last_number()?;
            text.take_last(b" oom_score_adj=")?;
            let digits = text.take_last_while(|byte| byte.is_ascii_hexdigit());
            let flags = Scan(digits).hex()?;
            let _ = text.take_last(b"0x");
            text.take_last(b" clone_flags=")?;
            const CLONE_THREAD: u64 = 0x1_0000;
            let what = What::NewTask(tid, flags & CLONE_THREAD != 0);
            is_comm(text.0).then_some(Fields { what, ..Tracepoint::CallEnd.into() })?
        }
        Kind::Fork => {
            // comm=a pid=7 child_comm=a child_pid=8
            text.take(b"comm=")?;
            let child = last_tid(&mut text, b" child_pid=")?;
            let (_, parent, comm) = split_once_only(
                text.0,
                |rest| {
                    rest.take(b" pid=")?;
                    let parent = tid(rest.number())?;
                    rest.take(b" child_comm=")?;
                    Some(parent)
                },
                |parent, _, comm| is_comm(parent) && is_comm(comm),
            )?;
            let comm = Comm::new(comm);
            Tracepoint::Fork { parent, child, child_tgid: None, child_ns_tid: None, comm }.into()
        }
        Kind::Exec => {
            // filename=/bin/ls pid=7 old_pid=7
            text.take(b"filename=")?;
            let old = last_tid(&mut text, b" old_pid=")?;
            let tid = last_tid(&mut text, b" pid=")?;
            Tracepoint::Exec { tid: Some(tid), old: Some(old), path: text.0 }.into()
        }
        Kind::Exit => {
            // comm=a pid=7 prio=120 group_dead=true
            text.take(b"comm=")?;
            let _ = text.take_last(b" group_dead=true").or_else(|| text.take_last(b" group_dead=false"));
            last_field(&mut text, b" prio=")?;
            let tid = last_tid(&mut text, b" pid=")?;
            is_comm(text.0).then_some(Tracepoint::Exit { tid }.into())?
        }
        Kind::Rename => {
            // pid=7 oldcomm=a newcomm=b oom_score_adj=0
            let tid = match text.take(b"pid=") {
                Some(()) => {
                    let tid = tid(text.number())?;
                    text.take(b" ")?;
                    tid
                }
                None => head.current?,
            };
            text.take(b"oldcomm=")?;
            last_field(&mut text, b" oom_score_adj=")?;
            let fits = |old: &[u8], _: &(), new: &[u8]| is_comm(old) && is_comm(new);
            let (_, (), new) = split_once_only(text.0, |rest| rest.take(b" newcomm="), fits)?;
            Tracepoint::Rename { tid, comm: Comm::new(new) }.into()
        }
        Kind::Enter(Source::Device) => {
            // irq=36 name=virtio1-req.0
            text.take(b"irq=")?;
            let irq = text.number()?;
            text.take(b" name=")?;
            kind.read(i64::try_from(irq).ok(), || text.0)?.into()
        }
        Kind::Leave(Source::Device) => {
            text.take(b"irq=")?;
            let irq = text.number()?;
            text.take(b" ret=")?;
            kind.read(i64::try_from(irq).ok(), || &[])?.into()
        }
        Kind::Enter(Source::Softirq) | Kind::Leave(Source::Softirq) => {
            // vec=1 [action=TIMER]
            text.take(b"vec=")?;
            kind.read(i64::try_from(text.number()?).ok(), || &[])?.into()
        }
        Kind::Enter(Source::Hrtimer) | Kind::Leave(Source::Hrtimer) => {
            text.take(b"hrtimer=")?;
            kind.read(None, || &[])?.into()
        }
        Kind::Enter(Source::Vector(_)) | Kind::Leave(Source::Vector(_)) | Kind::CallExit => {
            kind.read(None, || &[])?.into()
        }
        Kind::BlockIssue => Tracepoint::BlockIssue(request(text, true)?).into(),
        Kind::BlockComplete => Tracepoint::BlockComplete(request(text, false)?).into(),
        Kind::CallEntry(_) => call_entry(call, text)?.into(),
        _ => return None,
    })
}

/// `prev_comm=a prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=b next_pid=8 next_prio=120`, or as trace-cmd prints
/// it: `a:7 [120] S ==> b:8 [120]`.
fn switch<'a>(head: &Head<'a>) -> Option<Fields<'a>> {
    let mut text = Scan(head.text);
    let by_kernel = text.take(b"prev_comm=").and_then(|()| {
        last_field(&mut text, b" next_prio=")?;
        let next = last_tid(&mut text, b" next_pid=")?;
        let infix = |rest: &mut Scan<'a>| {
            rest.take(b" prev_pid=")?;
            let prev = tid(rest.number())?;
            rest.take(b" prev_prio=")?;
            number(rest)?;
            rest.take(b" prev_state=")?;
            let state = state(rest.take_while(|byte| byte != b' '))?;
            rest.take(b" ==> next_comm=")?;
            Some((prev, state))
        };
        Some((split_once_only(text.0, infix, |prev, _, next| is_comm(prev) && is_comm(next))?, next))
    });
    let ((prev_comm, (prev, (prev_state, doubtful)), next_comm), next) = by_kernel.or_else(|| {
        let mut text = Scan(head.text);
        let next = tid_with_priority(&mut text)?;
        let infix = |rest: &mut Scan<'a>| {
            rest.take(b":")?;
            let prev = tid(rest.number())?;
            rest.take(b" [")?;
            number(rest)?;
            rest.take(b"] ")?;
            let &[letter, ref behind @ ..] = rest.0 else { return None };
            rest.0 = behind;
            rest.take(b" ==> ")?;
            Some((prev, state_of_trace_cmd(letter)?))
        };
        // A name may look like the rest of this form; the current thread's number decides.
        // perf numbers threads in its own namespace.
        let is_current =
            |prev: Tid| head.form == Form::Perf || head.current.is_none_or(|current| current == prev);
        let fits =
            |prev: &[u8], of: &(Tid, _), next: &[u8]| is_comm(prev) && is_comm(next) && is_current(of.0);
        Some((split_once_only(text.0, infix, fits)?, next))
    })?;
    let next_comm = Some(Comm::new(next_comm));
    Some(Fields {
        comm: Some(Comm::new(prev_comm)),
        doubtful,
        ..Tracepoint::Switch { prev, prev_state, next, next_comm }.into()
    })
}

/// `comm=a pid=7 prio=120 target_cpu=001`, or as trace-cmd prints it: `a:7 [120] CPU:001`. Older kernels have `success=1`
/// in front of the CPU.
fn wakeup<'a>(kind: Kind, head: &Head<'a>) -> Option<Fields<'a>> {
    let mut text = Scan(head.text);
    let by_kernel = text.take(b"comm=").and_then(|()| {
        let cpu = last_field(&mut text, b" target_cpu=")?;
        let _ = text.take_last(b" success=1").or_else(|| text.take_last(b" success=0"));
        last_field(&mut text, b" prio=")?;
        Some((last_tid(&mut text, b" pid=")?, cpu, text.0))
    });
    let (target, cpu, comm) = by_kernel.or_else(|| {
        let mut text = Scan(head.text);
        let closed = text.take_last(b">").is_some();
        let cpu = last_field(&mut text, if closed { b"<CPU:" } else { b" CPU:" })?;
        let _ = text.take_last(b" ");
        let _ = text.take_last(b" success=1").or_else(|| text.take_last(b" success=0"));
        Some((tid_with_priority(&mut text)?, cpu, text.0))
    })?;
    if !is_comm(comm) {
        return None;
    }
    Some(Fields {
        comm: Some(Comm::new(comm)),
        target_cpu: u32::try_from(cpu).ok().map(Cpu::numbered),
        ..kind.read(Some(i64::from(target.0)), || &[])?.into()
    })
}

/// `8,16 WS 4096 () 2157368 + 8 [bash]`: in front of the name, no field is a program's choice.
fn request(mut text: Scan<'_>, with_bytes: bool) -> Option<Request> {
    let major = u32::try_from(text.number()?).ok().filter(|&major| major < 1 << 12)?;
    text.take(b",")?;
    let minor = u32::try_from(text.number()?).ok().filter(|&minor| minor < 1 << 20)?;
    text.take(b" ")?;
    let rwbs = text.take_while(|byte| byte.is_ascii_alphabetic());
    text.take(b" ")?;
    let mut bytes = None;
    if with_bytes {
        bytes = Some(u32::try_from(text.number()?).ok()?);
        text.take(b" ")?;
    }
    text.take(b"(")?;
    text.take_while(|byte| byte != b')');
    text.take(b") ")?;
    let sector = text.number()?;
    text.take(b" + ")?;
    let sectors = u32::try_from(text.number()?).ok()?;
    text.take(b" ")?;
    Some(Request {
        device: major << 20 | minor,
        sector,
        bytes: bytes.unwrap_or_else(|| sectors.saturating_mul(512)),
        operation: Request::operation_of(rwbs),
    })
}

/// `NR 202 (7f48f3aea0a8, 189, 2, 0, 0, 0)`; the calls' own: `(uaddr: 0x7f48f3aea0a8, op: 0x89, …)`, without brackets in
/// perf and trace-cmd.
fn call_entry(call: Option<&str>, mut text: Scan<'_>) -> Option<Tracepoint<'static>> {
    let (number, arg0, second) = match call {
        None => {
            text.take(b"NR ")?;
            // No call has a negative number; a program may ask for it.
            let is_none = text.take(b"-").is_some();
            let number = text.number()?;
            text.take(b" (")?;
            let arg0 = text.hex()?;
            text.take(b", ")?;
            let number = u32::try_from(number).ok().filter(|_| !is_none);
            (number, Some(arg0), Some(text.hex()?))
        }
        Some(name) => {
            let _ = text.take(b"(");
            let mut argument = || {
                text.take_while(|byte| byte != b':' && byte != b',');
                text.take(b": ")?;
                let value = text.hex()?;
                let _ = text.take(b", ");
                Some(value)
            };
            let arg0 = argument();
            (Call::number(name), arg0, arg0.and_then(|_| argument()))
        }
    };
    let futex = second.filter(|_| number == Some(Call::FUTEX)).map(|operation| operation as u32);
    Some(Tracepoint::Call { number, arg0, futex })
}

/// Takes a number from the begin, perhaps negative.
fn number(text: &mut Scan<'_>) -> Option<()> {
    let _ = text.take(b"-");
    text.number().map(|_| ())
}

/// Takes ` key=7` from the end.
fn last_field(text: &mut Scan<'_>, key: &[u8]) -> Option<i64> {
    let number = text.last_number()?;
    text.take_last(key)?;
    Some(number)
}

fn last_tid(text: &mut Scan<'_>, key: &[u8]) -> Option<Tid> {
    tid(last_field(text, key))
}

/// Takes `:7 [120]` from the end.
fn tid_with_priority(text: &mut Scan<'_>) -> Option<Tid> {
    text.take_last(b"]")?;
    text.last_number()?;
    text.take_last(b" [")?;
    last_tid(text, b":")
}

#[cfg(test)]
mod tests;
