//! A line's kind, and its head: the part in front of a tracepoint's own text.

use wakepath_event::Tid;

use super::scan::{MAX_COMM_BYTES, Scan, only};
use crate::kind;
use crate::tracepoint::Level;

/// A line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// A tracepoint's.
    Event(Head<'a>),
    /// A note about the trace, a comment, or nothing.
    Note,
    /// An address or a function in the event's stack.
    Frame,
    /// Before its next line, this CPU lost this number: 0 if not known.
    Lost {
        cpu: u32,
        count: u64,
    },
    /// Before its next line, this CPU's records are gone.
    Started {
        cpu: u32,
    },
    Unreadable,
}

/// A tracepoint line's head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head<'a> {
    /// The current thread's name: ftrace and trace-cmd print the last known name.
    pub comm: &'a [u8],
    pub current: Option<Tid>,
    pub process: Option<Tid>,
    pub cpu: Option<u32>,
    pub level: Option<Level>,
    /// ns.
    pub at: u64,
    /// The stamp has microseconds, not nanoseconds.
    pub rounded: bool,
    pub form: Form,
    /// The tracepoint's name, perhaps with its system: `sched:sched_switch`.
    pub name: &'a [u8],
    /// Its own text, behind its name.
    pub text: &'a [u8],
}

/// A head's form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// `COMM-PID`: ftrace's, and trace-cmd's.
    Dashed,
    /// The same, with the name's first eight bytes.
    Latency,
    /// `COMM PID`: perf's.
    Perf,
}

/// No kernel has more CPUs.
const MAX_CPUS: u64 = 8192;

impl<'a> Line<'a> {
    /// Reads a line; `in_stack`: an event by perf is in front, with no empty line between.
    pub fn read(line: &'a [u8], in_stack: bool) -> Self {
        let text = line.trim_ascii();
        if text.is_empty() {
            return Self::Note;
        }
        // perf prints a stack's functions, whose names a program chooses, behind a tab.
        if in_stack && line.starts_with(b"\t") {
            return Self::Frame;
        }
        if let Some(head) = Head::read(line.trim_ascii_start()) {
            return Self::Event(head);
        }
        Self::note(text).unwrap_or_else(|| match in_stack && is_frame(text) || text.starts_with(b"=> ") {
            true => Self::Frame,
            false => Self::Unreadable,
        })
    }

    fn note(text: &'a [u8]) -> Option<Self> {
        let mut line = Scan(text);
        let cpu = |number: u64| u32::try_from(number).ok().filter(|&cpu| u64::from(cpu) < MAX_CPUS);
        if line.take(b"##### CPU ").is_some() {
            let cpu = cpu(line.number()?)?;
            return (line.0 == b" buffer started ####").then_some(Self::Started { cpu });
        }
        if line.take(b"CPU:").is_some() {
            // ftrace: `[LOST 7 EVENTS]`; trace-cmd: `[7 EVENTS DROPPED]`.
            let cpu = cpu(line.number()?)?;
            line.take(b" [")?;
            let is_ftrace = line.take(b"LOST ").is_some();
            let count = line.number().unwrap_or(0);
            line.spaces();
            let end: &[u8] = if is_ftrace { b"EVENTS]" } else { b"EVENTS DROPPED]" };
            return (line.0 == end).then_some(Self::Lost { cpu, count });
        }
        let is_number_of = |front: &[u8], behind: &[u8]| {
            let number = text.strip_prefix(front).and_then(|rest| rest.strip_suffix(behind));
            number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
        };
        let is_note = text.starts_with(b"#")
            || is_number_of(b"cpus=", b"")
            || is_number_of(b"version = ", b"")
            || is_number_of(b"CPU ", b" is empty");
        is_note.then_some(Self::Note)
    }
}

/// `ffffffff82200809 _raw_spin_unlock_irqrestore+0x19 ([kernel.kallsyms])`.
fn is_frame(text: &[u8]) -> bool {
    let mut line = Scan(text);
    line.hex().is_some() && (line.0.is_empty() || line.spaces() > 0)
}

impl<'a> Head<'a> {
    /// Reads a line from its first visible byte on; `None` if it has no head, or two readings.
    pub fn read(line: &'a [u8]) -> Option<Self> {
        // A name is at most 15 bytes long, and too short for its own head.
        let ends = line.iter().take(MAX_COMM_BYTES + 2).enumerate();
        only(ends.filter_map(|(end, byte)| {
            let (comm, rest) = (&line[..end], &line[end..]);
            match byte {
                b'-' => Self::dashed(comm, Scan(&rest[1..])),
                // Spaces behind a name, and spaces in front of a number, look alike.
                b' ' if !comm.ends_with(b" ") => Self::perf(comm, Scan(rest)),
                _ => None,
            }
        }))
    }

    /// Whether perf made the record up, about the time before.
    pub fn is_made_up(&self) -> bool {
        self.name.starts_with(b"PERF_RECORD_") && self.lost().is_none()
    }

    /// How many records perf lost here.
    pub fn lost(&self) -> Option<u64> {
        let is_loss = self.name == b"PERF_RECORD_LOST" || self.name == b"PERF_RECORD_LOST_SAMPLES";
        let mut text = Scan(self.text);
        text.take(b"lost ").filter(|()| is_loss)?;
        text.number()
    }

    /// ` 1234  (  1230) [001] d..2.  1259.668028: NAME: TEXT`, from the number on.
    fn dashed(comm: &'a [u8], mut rest: Scan<'a>) -> Option<Self> {
        let current = rest.number()?;
        // perf's number for an ended thread.
        let is_minus_one = current == 1 && comm.ends_with(b" ");
        if rest.spaces() == 0 || is_minus_one {
            return None;
        }
        let mut process = None;
        if rest.take(b"(").is_some() {
            rest.spaces();
            if rest.take_while(|byte| byte == b'-').is_empty() {
                process = Some(rest.number()?);
            }
            rest.take(b")")?;
            rest.spaces();
        }
        let form = if rest.take(b"[").is_some() { Form::Dashed } else { Form::Latency };
        let cpu = rest.number()?;
        let mut level = None;
        if form == Form::Dashed {
            rest.take(b"]")?;
            rest.spaces();
            if !starts_with_time(rest) {
                level = Some(level_of(&mut rest)?);
            }
        } else {
            level = Some(level_of(&mut rest)?);
        }
        rest.spaces();
        let head = Self::new(comm, form, Some(current), process, Some(cpu))?;
        head.behind_cpu(rest, level)
    }

    /// `  1234 [001]  1259.668028:  1 SYSTEM:NAME: TEXT`, from the spaces on; the thread may stand behind its process
    /// (`1230/1234`), and the CPU may be missing.
    fn perf(comm: &'a [u8], mut rest: Scan<'a>) -> Option<Self> {
        rest.spaces();
        let number = |rest: &mut Scan<'a>| match rest.take(b"-") {
            // -1: an ended thread.
            Some(()) => rest.number().filter(|&number| number == 1).map(|_| None),
            None => rest.number().map(Some),
        };
        let mut current = number(&mut rest)?;
        let mut process = None;
        if rest.take(b"/").is_some() {
            (process, current) = (current, number(&mut rest)?);
        }
        if rest.spaces() == 0 {
            return None;
        }
        let mut cpu = None;
        if rest.take(b"[").is_some() {
            cpu = Some(rest.number()?);
            rest.take(b"]")?;
            rest.spaces();
        }
        Self::new(comm, Form::Perf, current, process, cpu)?.behind_cpu(rest, None)
    }

    fn new(
        comm: &'a [u8],
        form: Form,
        current: Option<u64>,
        process: Option<u64>,
        cpu: Option<u64>,
    ) -> Option<Self> {
        let tid = |number: Option<u64>| match number {
            None => Some(None),
            Some(_) => kind::tid(number).map(Some),
        };
        Some(Self {
            comm,
            current: tid(current)?,
            process: tid(process)?,
            cpu: match cpu {
                None => None,
                Some(cpu) => Some(u32::try_from(cpu).ok().filter(|&cpu| u64::from(cpu) < MAX_CPUS)?),
            },
            level: None,
            at: 0,
            rounded: false,
            form,
            name: &[],
            text: &[],
        })
    }

    fn behind_cpu(self, mut rest: Scan<'a>, level: Option<Level>) -> Option<Self> {
        let seconds = rest.number()?;
        rest.take(b".")?;
        let fraction = rest.take_while(|byte| byte.is_ascii_digit());
        let (unit, rounded) = match fraction.len() {
            6 => (1000, true),
            9 => (1, false),
            _ => return None,
        };
        rest.take(b":")?;
        if rest.spaces() == 0 && !rest.0.is_empty() {
            return None;
        }
        let at = seconds.checked_mul(1_000_000_000)?.checked_add(Scan(fraction).number()? * unit)?;
        let at = i64::try_from(at).is_ok().then_some(at)?;
        if self.form == Form::Perf && rest.0.first().is_some_and(u8::is_ascii_digit) {
            // The event's period.
            rest.number()?;
            rest.spaces();
        }
        // perf: `SYSTEM:NAME:`. ftrace: `NAME:`, and for some system calls `NAME(` or `NAME ->`.
        let is_perf = self.form == Form::Perf;
        let name = rest.take_while(|byte| match is_perf {
            true => byte.is_ascii_graphic(),
            false => byte.is_ascii_alphanumeric() || b"_.-+/".contains(&byte),
        });
        if !name.first().is_some_and(|&byte| byte.is_ascii_alphabetic() || byte == b'_') {
            return None;
        }
        // A tracepoint with a damaged name would pass as another, unread tracepoint.
        if !rest.0.first().is_none_or(|byte| if is_perf { *byte == b' ' } else { b":( ".contains(byte) }) {
            return None;
        }
        let (name, text) = match is_perf {
            true => (name.strip_suffix(b":").unwrap_or(name), rest.0),
            false => (name, rest.0.strip_prefix(b":").unwrap_or(rest.0)),
        };
        Some(Self { level, at, rounded, name, text: text.trim_ascii(), ..self })
    }
}

fn starts_with_time(mut rest: Scan<'_>) -> bool {
    rest.number().is_some()
        && rest.take(b".").is_some()
        && rest.take_while(|byte| byte.is_ascii_digit()).len() >= 6
}

/// Takes the column with the CPU's condition: interrupts, rescheduling, kind of context, preemption, migration. A short
/// column is an older kernel's.
fn level_of(rest: &mut Scan<'_>) -> Option<Level> {
    let column = rest.take_while(|byte| byte.is_ascii_graphic());
    let &[off, _, context, ..] = column else { return None };
    if !(4..=5).contains(&column.len()) || !b".dXbD".contains(&off) {
        return None;
    }
    match context {
        b'.' => Some(Level::Task),
        b's' => Some(Level::Softirq),
        // In capitals: on top of another interrupt. Z: not maskable.
        b'h' | b'H' | b'z' | b'Z' => Some(Level::Hard),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(line: &str) -> Option<String> {
        let Line::Event(head) = Line::read(line.as_bytes(), false) else { return None };
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let process = head.process.map_or(String::new(), |process| format!(" of {process}"));
        let cpu = head.cpu.map_or_else(|| "?".to_owned(), |cpu| cpu.to_string());
        let level = head.level.map_or(String::new(), |level| format!(" {level:?}"));
        let current = head.current.map_or_else(|| "?".to_owned(), |tid| tid.to_string());
        let (comm, name) = (text(head.comm), text(head.name));
        Some(format!(
            "{comm:?} {current}{process} cpu{cpu}{level} {} {name:?} {:?}",
            head.at,
            text(head.text)
        ))
    }

    /// Lines by Linux 6.18, trace-cmd 3.1.6 and perf 6.1, some cut.
    #[test]
    fn each_form_of_a_head_has_its_thread_its_cpu_and_its_stamp() {
        for (line, expected) in [
            (
                "            bash-25696   [001] d.h2.  1259.668028: sched_stat_runtime: comm=bash pid=25696",
                "\"bash\" 25696 cpu1 Hard 1259668028000 \"sched_stat_runtime\" \"comm=bash pid=25696\"",
            ),
            (
                "          <idle>-0       [001] ..s1.  1259.672030: softirq_entry: vec=1 [action=TIMER]",
                "\"<idle>\" 0 cpu1 Softirq 1259672030000 \"softirq_entry\" \"vec=1 [action=TIMER]\"",
            ),
            // Before 5.17: four letters.
            (
                "           <...>-123     [000] d..2  1259.668028123: sched_wakeup: x",
                "\"<...>\" 123 cpu0 Task 1259668028123 \"sched_wakeup\" \"x\"",
            ),
            (
                "            bash-25696   (-------) [001]   1259.668028: sched_waking: x",
                "\"bash\" 25696 cpu1 1259668028000 \"sched_waking\" \"x\"",
            ),
            (
                " worker-7-25697   (  25696) [001] .....  1259.668028: sched_waking: x",
                "\"worker-7\" 25697 of 25696 cpu1 Task 1259668028000 \"sched_waking\" \"x\"",
            ),
            (
                "           sleep-2029  [001]  1493.675968: sched_wakeup:         python3:1986 [120] CPU:001",
                "\"sleep\" 2029 cpu1 1493675968000 \"sched_wakeup\" \"python3:1986 [120] CPU:001\"",
            ),
            (
                "lto 8ymb-2027    0d..2.  1493.676031539: sched_switch:         x",
                "\"lto 8ymb\" 2027 cpu0 Task 1493676031539 \"sched_switch\" \"x\"",
            ),
            (
                "     migration/0    18 [000]  1462.810566:                 sched:sched_migrate_task: comm=perf pid=584",
                "\"migration/0\" 18 cpu0 1462810566000 \"sched:sched_migrate_task\" \"comm=perf pid=584\"",
            ),
            (
                "            perf   702/703   [000]  1467.558729001:          1 sched:sched_waking: x",
                "\"perf\" 703 of 702 cpu0 1467558729001 \"sched:sched_waking\" \"x\"",
            ),
            (
                "perf   702 [000]  1467.562972:     250000          cpu-clock: ",
                "\"perf\" 702 cpu0 1467562972000 \"cpu-clock\" \"\"",
            ),
            (
                "             :-1    -1 [000]  1467.562972: sched:sched_switch: x",
                "\":-1\" ? cpu0 1467562972000 \"sched:sched_switch\" \"x\"",
            ),
            (
                "sleep  7279  1627.567726: sched:sched_switch: x",
                "\"sleep\" 7279 cpu? 1627567726000 \"sched:sched_switch\" \"x\"",
            ),
            (
                "  python3-1986  [001] .....  1493.676043: sys_read(fd: 3, buf: 0x5605737b7b30, count: 0xc350)",
                "\"python3\" 1986 cpu1 Task 1493676043000 \"sys_read\" \"(fd: 3, buf: 0x5605737b7b30, count: 0xc350)\"",
            ),
            // Names that look like a head's parts.
            (
                "      ==> x_y: a-25700   [000] .....  1259.712102: sys_exit: NR 56 = 0",
                "\"==> x_y: a\" 25700 cpu0 Task 1259712102000 \"sys_exit\" \"NR 56 = 0\"",
            ),
            (
                "     a-1 [0] 1.0:-25700   [000] .....  1259.712102: sys_exit: NR 56 = 0",
                "\"a-1 [0] 1.0:\" 25700 cpu0 Task 1259712102000 \"sys_exit\" \"NR 56 = 0\"",
            ),
            (
                " x-9 [1] 2.000000 25700 [000]  1259.712102: raw_syscalls:sys_exit: NR 56 = 0",
                "\"x-9 [1] 2.000000\" 25700 cpu0 1259712102000 \"raw_syscalls:sys_exit\" \"NR 56 = 0\"",
            ),
        ] {
            assert_eq!(head(line).as_deref(), Some(expected), "{line}");
        }
    }

    #[test]
    fn a_line_without_a_whole_head_is_unreadable() {
        for line in [
            "0.668028: sched_stat_runtime: comm=bash pid=25696 runtime=3948489 [ns]",
            "bash-25696 [001] 1259.66802: sched_switch: x",
            "bash-25696 [9999] 1259.668028: sched_switch: x",
            "bash-99999999 [001] 1259.668028: sched_switch: x",
            "bash-25696 [001] what? 1259.668028: sched_switch: x",
            "bash-25696 [001] 99999999999.668028: sched_switch: x",
            // Beyond 63 bits of nanoseconds.
            "bash-25696 [001] 9999999999.668028: sched_switch: x",
            // A name ends with a colon, a bracket or a space.
            "bash-25696 [001] 1259.668028: sched_sw\u{fffd}tch: x",
            "bash 25696 [001] 1259.668028: sched:sched_sw\u{fffd}tch: x",
            "bash-25696 [001] d..2.. 1259.668028: sched_switch: x",
            "bash-25696 [001] d.. 1259.668028: sched_switch: x",
            "a name that is too long-25696 [001] 1259.668028: sched_switch: x",
            "bash-25696 [001] 1259.668028:",
            "bash-25696 [001] 1259.668028: 77",
            "{\"a\": 1}",
            "=> ",
            "CPU:1 [LOST EVENTS",
            "CPU:99999 [LOST 1 EVENTS]",
        ] {
            let line = Line::read(line.as_bytes(), false);
            assert!(line == Line::Unreadable || line == Line::Frame, "{line:?}");
        }
    }

    #[test]
    fn notes_of_the_programs_are_no_events() {
        for (line, expected) in [
            ("CPU:1 [LOST 123 EVENTS]", Line::Lost { cpu: 1, count: 123 }),
            ("CPU:0 [1654 EVENTS DROPPED]", Line::Lost { cpu: 0, count: 1654 }),
            ("CPU:0 [EVENTS DROPPED]", Line::Lost { cpu: 0, count: 0 }),
            ("##### CPU 2 buffer started ####", Line::Started { cpu: 2 }),
            ("# tracer: nop", Line::Note),
            ("cpus=2", Line::Note),
            ("version = 7", Line::Note),
            ("CPU 3 is empty", Line::Note),
            ("", Line::Note),
            (" => do_syscall_64", Line::Frame),
        ] {
            assert_eq!(Line::read(line.as_bytes(), false), expected, "{line}");
        }
    }

    /// A function's name is a program's choice, and could be a line.
    #[test]
    fn a_stack_of_perf_holds_no_events() {
        let frame = b"\tffffffff81000130 12 [001] 1.000000: sched:sched_switch: x";
        assert_eq!(Line::read(frame, true), Line::Frame);
        assert_eq!(Line::read(b"          7f0000 main+0x1 (/bin/x)", true), Line::Frame);
        assert_eq!(Line::read(b"          7f0000 main+0x1 (/bin/x)", false), Line::Unreadable);
    }
}
