//! A tracepoint's text, as a tracepoint.
//!
//! The text between two fields is fixed, and each name is at most 15 bytes long. Where that leaves two readings, there is
//! no reading.

use wakepath_event::{Call, Comm, Cpu, Tid};

use super::head::{Form, Head};
use super::scan::{Scan, is_comm, split_once_only};
use crate::kind::{Kind, Source};
use crate::normalise::ReportedStates;
use crate::tracepoint::{Request, Tracepoint};

/// A line's contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fields<'a> {
    pub what: What<'a>,
    /// The name of the thread that a switch switches out, or of the woken thread.
    pub comm: Option<Comm>,
    /// The CPU to which a wake-up sends its thread.
    pub target_cpu: Option<Cpu>,
    /// The letters of the state have two meanings.
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

/// The letters of the states, as any kernel prints them, with numbers of our own.
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
/// The states themselves: a thread has one of them.
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

/// A state's single letter, as trace-cmd prints it. It prints W for the idle state of kernels since 4.14, whose bit no other
/// state has there. x is a dead thread of an older kernel, or a parked one of a newer.
fn state_of_trace_cmd(letter: u8) -> Option<(i64, bool)> {
    match letter {
        b'W' => Some((0x80, false)),
        b'x' => Some((OTHER, true)),
        _ => state(&[letter]),
    }
}

impl Kind {
    /// The kind of a line, and for a system call's own tracepoint its name.
    pub(super) fn of_line<'a>(head: &Head<'a>) -> Option<(Self, Option<&'a str>)> {
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
            // ftrace's own form of the calls' tracepoints.
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

/// Reads the text of a tracepoint; `None` if it is not readable, or has two readings.
pub(super) fn read<'a>(kind: Kind, call: Option<&str>, head: &Head<'a>) -> Option<Fields<'a>> {
    let mut text = Scan(head.text);
    Some(match kind {
        Kind::Switch => return switch(head),
        Kind::Waking | Kind::Wakeup | Kind::WakeupNew => return wakeup(kind, head),
        Kind::NewTask => {
            // pid=7 comm=a clone_flags=1200000 oom_score_adj=0
            text.take(b"pid=")?;
            let tid = tid(text.number()?)?;
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
                    let parent = tid(rest.number()?)?;
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
                    let tid = tid(text.number()?)?;
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
            let prev = tid(rest.number()?)?;
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
            let prev = tid(rest.number()?)?;
            rest.take(b" [")?;
            number(rest)?;
            rest.take(b"] ")?;
            let &[letter, ref behind @ ..] = rest.0 else { return None };
            rest.0 = behind;
            rest.take(b" ==> ")?;
            Some((prev, state_of_trace_cmd(letter)?))
        };
        // A name may hold the rest of this form, though not the number of another thread that runs here.
        // perf's own numbers are those of its namespace.
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
            // No call has a negative number; a program may ask for one.
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

fn tid(number: u64) -> Option<Tid> {
    u32::try_from(number).ok().filter(|&tid| tid < Tid::LIMIT).map(Tid)
}

/// Takes a number from the begin, perhaps a negative one.
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
    tid(u64::try_from(last_field(text, key)?).ok()?)
}

/// Takes `:7 [120]` from the end.
fn tid_with_priority(text: &mut Scan<'_>) -> Option<Tid> {
    text.take_last(b"]")?;
    text.last_number()?;
    text.take_last(b" [")?;
    last_tid(text, b":")
}

#[cfg(test)]
mod tests {
    use wakepath_event::{BlockedState, SwitchOut};

    use super::super::head::Line;
    use super::*;

    /// The fields of a line of thread 7, or that there are none.
    fn fields(event: &str) -> Option<String> {
        let line = format!("            bash-7   [001] d..2.  1259.668028: {event}");
        let Line::Event(head) = Line::read(line.as_bytes(), false) else { panic!("no head: {line}") };
        let (kind, call) = Kind::of_line(&head)?;
        let Fields { what, comm, target_cpu, doubtful } = read(kind, call, &head)?;
        let name = |comm: Option<Comm>| comm.map_or(String::new(), |comm| format!(" {comm:?}"));
        let cpu = target_cpu.map_or(String::new(), |cpu| format!(" cpu{}", cpu.0));
        let doubt = if doubtful { " in doubt" } else { "" };
        let what = match what {
            What::NewTask(tid, in_process) => format!("{tid} is new: {in_process}"),
            What::Tracepoint(Tracepoint::Switch { prev, prev_state, next, next_comm }) => {
                format!(
                    "{prev}{} {:?} to {next}{}{doubt}",
                    name(comm),
                    states().switch_out(prev_state),
                    name(next_comm)
                )
            }
            What::Tracepoint(Tracepoint::Exec { tid, old, path }) => {
                format!("{tid:?} was {old:?}: {}", String::from_utf8_lossy(path))
            }
            What::Tracepoint(Tracepoint::BlockIssue(it) | Tracepoint::BlockComplete(it)) => {
                format!("{:#x} sector {} bytes {} operation {}", it.device, it.sector, it.bytes, it.operation)
            }
            What::Tracepoint(Tracepoint::Waking { target } | Tracepoint::Wakeup { target }) => {
                format!("wakes {target}{}{cpu}", name(comm))
            }
            What::Tracepoint(other) => format!("{other:?}"),
        };
        Some(what)
    }

    fn check(cases: &[(&str, Option<&str>)]) {
        for &(line, expected) in cases {
            assert_eq!(fields(line).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn a_switch_has_its_numbers_whatever_the_names_look_like() {
        let kernel = |prev: &str, next: &str| {
            format!(
                "sched_switch: prev_comm={prev} prev_pid=7 prev_prio=120 prev_state=S ==> next_comm={next} next_pid=8 next_prio=-1"
            )
        };
        let trace_cmd =
            |prev: &str, next: &str| format!("sched_switch:         {prev}:7 [120] S ==> {next}:8 [120]");
        for name in
            ["b", "", "a prev_pid=9 b", "S ==> next_comm", "x next_pid=3", "x:9 [1]", "==> x_y: a", "a=b:c"]
        {
            for line in [kernel(name, "b"), kernel("b", name), trace_cmd(name, "b"), trace_cmd("b", name)] {
                let read = fields(&line).unwrap_or_else(|| panic!("{line}"));
                assert!(
                    read.starts_with("7 ") && read.contains("Blocked(Interruptible) to 8 "),
                    "{line}: {read}"
                );
                assert!(read.contains(&format!("{name:?}")), "{line}: {read}");
            }
        }
    }

    #[test]
    fn a_switch_with_two_readings_is_not_guessed() {
        check(&[
            // The name `a:7 [0] S ==> b`, or the name `a` and a longer one behind it, which is too long for a name.
            (
                "sched_switch: a:7 [0] S ==> b:7 [120] S ==> c:8 [120]",
                Some("7 \"a:7 [0] S ==> b\" Blocked(Interruptible) to 8 \"c\""),
            ),
            // The name `:7 [0] D ==> ` or none, and `:7 [1] S ==> c` or `c`.
            ("sched_switch: :7 [0] D ==> :7 [1] S ==> :8 [1]", None),
            // Another thread's number is not this thread's.
            (
                "sched_switch: :9 [0] D ==> :7 [1] S ==> :8 [1]",
                Some("7 \":9 [0] D ==> \" Blocked(Interruptible) to 8 \"\""),
            ),
            (
                "sched_switch: prev_comm=a name too long! prev_pid=7 prev_prio=1 prev_state=S ==> next_comm=b next_pid=8 next_prio=1",
                None,
            ),
            (
                "sched_switch: prev_comm=a prev_pid=7 prev_prio=1 prev_state=S ==> next_comm=b next_pid=8",
                None,
            ),
            (
                "sched_switch: prev_comm=a prev_pid=7 prev_prio=1 prev_state=? ==> next_comm=b next_pid=8 next_prio=1",
                None,
            ),
            (
                "sched_switch: prev_comm=a prev_pid=7 prev_prio=1 prev_state=0x1 next_comm=b next_pid=8 next_prio=1",
                None,
            ),
            (
                "sched_switch: prev_comm=a prev_pid=99999999 prev_prio=1 prev_state=S ==> next_comm=b next_pid=8 next_prio=1",
                None,
            ),
        ]);
    }

    #[test]
    fn a_wake_up_has_its_thread_and_its_cpu_whatever_the_name_looks_like() {
        check(&[
            (
                "sched_waking: comm=a pid=9 prio=1 pid=8 prio=120 target_cpu=003",
                Some("wakes 8 \"a pid=9 prio=1\" cpu3"),
            ),
            ("sched_waking: comm=a pid=9 prio=12345 pid=8 prio=120 target_cpu=003", None),
            (
                "sched_waking: comm=a pid=9 b pid=8 prio=120 target_cpu=003",
                Some("wakes 8 \"a pid=9 b\" cpu3"),
            ),
            ("sched_waking: comm= pid=8 prio=-1 target_cpu=000", Some("wakes 8 \"\" cpu0")),
            ("sched_wakeup: comm=a pid=8 prio=120 success=1 target_cpu=001", Some("wakes 8 \"a\" cpu1")),
            ("sched_wakeup:         a:9 [1]:8 [120] CPU:001", Some("wakes 8 \"a:9 [1]\" cpu1")),
            ("sched_wakeup:         python3:8 [120] success=1 CPU:001", Some("wakes 8 \"python3\" cpu1")),
            ("sched_wakeup:         python3:8 [120]<CPU:001>", Some("wakes 8 \"python3\" cpu1")),
            ("sched_waking: comm=a pid=8 prio=120 target_cpu=", None),
        ]);
    }

    #[test]
    fn states_are_the_letters_that_the_kernel_prints() {
        let blocked = SwitchOut::Blocked;
        for (letters, meaning) in [
            ("R", SwitchOut::Runnable),
            ("R+", SwitchOut::Runnable),
            ("S+", SwitchOut::Runnable),
            ("S", blocked(BlockedState::Interruptible)),
            ("D", blocked(BlockedState::Uninterruptible)),
            ("D|K", blocked(BlockedState::Uninterruptible)),
            ("D|W", blocked(BlockedState::Uninterruptible)),
            ("D|N", blocked(BlockedState::Idle)),
            ("T", blocked(BlockedState::Stopped)),
            ("t", blocked(BlockedState::Traced)),
            ("P", blocked(BlockedState::Parked)),
            ("I", blocked(BlockedState::Idle)),
            ("X", SwitchOut::Dead),
            ("Z", SwitchOut::Dead),
            ("x", SwitchOut::Dead),
            ("0x4000", blocked(BlockedState::Other(OTHER as u32))),
        ] {
            let (number, doubtful) = state(letters.as_bytes()).unwrap_or_else(|| panic!("{letters}"));
            assert_eq!((states().switch_out(number), doubtful), (meaning, false), "{letters}");
        }
        // Linux 4.14 printed the parked state's index, 7, as these.
        assert_eq!(state(b"S|D|T").map(|(_, doubtful)| doubtful), Some(true));
        for letters in ["", "+", "Q", "SD", "S|", "0x", "r"] {
            assert_eq!(state(letters.as_bytes()), None, "{letters}");
        }
        let of_trace_cmd =
            |letter| state_of_trace_cmd(letter).map(|(number, doubt)| (states().switch_out(number), doubt));
        assert_eq!(of_trace_cmd(b'W'), Some((blocked(BlockedState::Idle), false)));
        assert_eq!(of_trace_cmd(b'x'), Some((blocked(BlockedState::Other(OTHER as u32)), true)));
        assert_eq!(of_trace_cmd(b'D'), Some((blocked(BlockedState::Uninterruptible), false)));
    }

    #[test]
    fn births_programs_exits_and_names_have_the_right_threads() {
        check(&[
            ("task_newtask: pid=25700 comm=a clone_flags=34 clone_flags=1200000 oom_score_adj=0", None),
            (
                "task_newtask: pid=25700 comm=clone_flags=3 clone_flags=1210000 oom_score_adj=-5",
                Some("25700 is new: true"),
            ),
            (
                "task_newtask: pid=25700 comm=bash clone_flags=0x1200000 oom_score_adj=0",
                Some("25700 is new: false"),
            ),
            (
                "sched_process_fork: comm=child_comm=x pid=7 child_comm=a pid=9 b child_pid=8",
                Some(
                    "Fork { parent: Tid(7), child: Tid(8), child_tgid: None, child_ns_tid: None, comm: \"a pid=9 b\" }",
                ),
            ),
            (
                "sched_process_exec: filename=/tmp/a pid=9 old_pid=9 pid=8 old_pid=7",
                Some("Some(Tid(8)) was Some(Tid(7)): /tmp/a pid=9 old_pid=9"),
            ),
            ("sched_process_exit: comm=a pid=9 pid=7 prio=120 group_dead=true", Some("Exit { tid: Tid(7) }")),
            ("sched_process_exit: comm=bash pid=7 prio=120", Some("Exit { tid: Tid(7) }")),
            (
                "task_rename: pid=8 oldcomm=bash newcomm=a b=c oom_score_adj=0",
                Some("Rename { tid: Tid(8), comm: \"a b=c\" }"),
            ),
            (
                "task_rename: oldcomm=bash newcomm=x oom_score_adj=0",
                Some("Rename { tid: Tid(7), comm: \"x\" }"),
            ),
            // The names `a newcomm=b` and `c`, or `a` and `b newcomm=c`.
            ("task_rename: pid=8 oldcomm=a newcomm=b newcomm=c oom_score_adj=0", None),
        ]);
    }

    #[test]
    fn interrupts_requests_and_calls_have_their_numbers() {
        let call = |number: u32, arg0: u64, futex| {
            format!("{:?}", Tracepoint::Call { number: Some(number), arg0: Some(arg0), futex })
        };
        for (line, expected) in [
            ("irq_handler_exit: irq=36 ret=handled", "Leave(Device(36, None))"),
            ("softirq_entry: vec=1 [action=TIMER]", "Enter(Softirq(1))"),
            ("hrtimer_expire_entry: hrtimer=0000000043fc44dc function=x now=1", "Enter(Hrtimer)"),
            ("local_timer_exit: vector=236", "Leave(Vector(LocalTimer))"),
            (
                "block_rq_issue: 254,0 RM 4096 () 2157368 + 8 0x2,0,4 [a] 9 + 9 [b]",
                "0xfe00000 sector 2157368 bytes 4096 operation 0",
            ),
            ("block_rq_complete: 8,16 FWFS () 64 + 8 [0]", "0x800010 sector 64 bytes 4096 operation 1"),
            ("block_rq_complete: 8,16 WS () 64 + 8 be,0,4 [-5]", "0x800010 sector 64 bytes 4096 operation 1"),
            ("sys_exit: NR 202 = -11", "CallEnd"),
            ("sys_read -> 0x340", "CallEnd"),
        ] {
            assert_eq!(fields(line).as_deref(), Some(expected), "{line}");
        }
        for (line, expected) in [
            ("sys_enter: NR 202 (7f48f3aea0a8, 189, 2, 0, 0, 0)", call(202, 0x7f48_f3ae_a0a8, Some(0x189))),
            ("sys_read(fd: 3, buf: 0x7ffd2ba1e818, count: 0x340)", call(0, 3, None)),
            ("sys_futex(uaddr: 0x7fa8, op: 0x89, val: 1)", call(202, 0x7fa8, Some(0x89))),
        ] {
            assert_eq!(fields(line), Some(expected), "{line}");
        }
        // No name is empty of meaning, but an interrupt has none without its number.
        check(&[("irq_handler_entry: irq= name=disk", None), ("softirq_entry: vec=999 [action=X]", None)]);
    }
}
