//! Text of ftrace, trace-cmd and perf, as events.

use std::path::Path;

use wakepath_event::{ClockId, Damage, DamageKind, Event, EventKind, EventSource, RecordingFormat};
use wakepath_import::{OpenError, TextTrace};

use crate::lines::{events, lines, lines_with, survives};

pub fn opened(text: &[u8]) -> Result<TextTrace<&[u8]>, OpenError> {
    TextTrace::from_source(text, Path::new("a.txt"))
}

/// A text's events, and its damages.
pub fn read(text: &str) -> (Vec<Event>, Vec<DamageKind>) {
    let (events, damages) = events(&opened(text.as_bytes()).expect("a text"));
    (events, damages.into_iter().map(|damage| damage.kind).collect())
}

/// Thread 7 wakes 8 on the other CPU, and sleeps: in each program's form.
pub const FTRACE: &str = "\
# tracer: nop
#
# entries-in-buffer/entries-written: 5/5   #P:2
#
#                                _-----=> irqs-off/BH-disabled
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
#              | |         |   |||||     |         |
          <idle>-0       [000] d..2.     1.000100: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=here next_pid=7 next_prio=120
            here-7       [000] d..3.     1.000105: sched_waking: comm=there pid=8 prio=120 target_cpu=001
          <idle>-0       [001] d..2.     1.000110: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=there next_pid=8 next_prio=120
           there-8       [001] d..2.     1.000150: sched_switch: prev_comm=there prev_pid=8 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
            here-7       [000] d..2.     1.000200: sched_switch: prev_comm=here prev_pid=7 prev_prio=120 prev_state=D ==> next_comm=swapper/0 next_pid=0 next_prio=120
";
pub const TRACE_CMD: &str = "\
cpus=2
          <idle>-0     [000]     1.000100: sched_switch:         swapper/0:0 [120] R ==> here:7 [120]
            here-7     [000]     1.000105: sched_waking:         comm=there pid=8 prio=120 target_cpu=001
          <idle>-0     [001]     1.000110: sched_switch:         swapper/1:0 [120] R ==> there:8 [120]
           there-8     [001]     1.000150: sched_switch:         there:8 [120] S ==> swapper/1:0 [120]
            here-7     [000]     1.000200: sched_switch:         here:7 [120] D ==> swapper/0:0 [120]
";
pub const PERF: &str = "\
         swapper     0 [000]     1.000100:       sched:sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=here next_pid=7 next_prio=120
\tffffffff82200809 8 [001] 1.000101: sched:sched_switch: prev_comm=x prev_pid=8 prev_prio=1 prev_state=S ==> next_comm=y next_pid=9 next_prio=1
\t           2724a __libc_start_call_main+0x7a (/usr/lib/x86_64-linux-gnu/libc.so.6)

            here     7 [000]     1.000105:       sched:sched_waking: comm=there pid=8 prio=120 target_cpu=001
         swapper     0 [001]     1.000110:       sched:sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=there next_pid=8 next_prio=120
           there     8 [001]     1.000150:       sched:sched_switch: prev_comm=there prev_pid=8 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
            here     7 [000]     1.000200:       sched:sched_switch: prev_comm=here prev_pid=7 prev_prio=120 prev_state=D ==> next_comm=swapper/0 next_pid=0 next_prio=120
";

const EXPECTED: [&str; 7] = [
    "1000100000 cpu0 0 to 7 Runnable",
    "1000100000 cpu0 7 names 7 \"here\"",
    "1000105000 cpu0 7 names 8 \"there\"",
    "1000105000 cpu0 7 wakes 8",
    "1000110000 cpu1 0 to 8 Runnable",
    "1000150000 cpu1 8 to 0 Blocked(Interruptible)",
    "1000200000 cpu0 7 to 0 Blocked(Uninterruptible)",
];

/// The lines, without a name emitted twice.
fn event_lines(text: &str) -> Vec<String> {
    let mut lines = lines(&read(text).0);
    lines.retain(|line| line != "1000110000 cpu1 8 names 8 \"there\"");
    // Without the column for it, an unrecorded interrupt may have woken.
    lines
        .iter()
        .map(|line| if text.contains("d..") { line.clone() } else { line.replace(" interrupted", "") })
        .collect()
}

#[test]
fn the_same_moments_are_the_same_events_in_each_programs_text() {
    for (text, program) in
        [(FTRACE, "ftrace, as text"), (TRACE_CMD, "trace-cmd, as text"), (PERF, "perf script, as text")]
    {
        assert_eq!(event_lines(text), EXPECTED, "{program}");
        assert_eq!(read(text).1, [DamageKind::RoundedStamps], "{program}");
        // Mailers and editors leave it so.
        let trimmed: Vec<_> = text
            .lines()
            .map(|line| match line.starts_with('\t') {
                true => format!("{line}\r"),
                false => format!("{}\r", line.trim_start()),
            })
            .collect();
        assert_eq!(event_lines(&trimmed.join("\n")), EXPECTED, "{program}, trimmed");
        let file = opened(text.as_bytes()).expect("a text");
        assert_eq!(file.description().tracer.as_deref(), Some(program));
    }
}

#[test]
fn host_kernel_clock_and_date_are_not_made_up() {
    let file = opened(FTRACE.as_bytes()).expect("a text");
    let description = file.description();
    assert_eq!((description.host.name.as_str(), description.host.kernel_release.as_str()), ("", ""));
    assert_eq!((description.clock, description.realtime_offset_ns), (ClockId::Unknown, None));
    assert_eq!(
        description.extent.map(|(from, to)| (from.ns(), to.ns())),
        Some((1_000_100_000, 1_000_200_000))
    );
    // perf script --header prints them.
    let with_head = format!("# ========\n# hostname : web3\n# os release : 6.1.0-9\n# ========\n#\n{PERF}");
    let file = opened(with_head.as_bytes()).expect("a text");
    let host = &file.description().host;
    assert_eq!((host.name.as_str(), host.kernel_release.as_str()), ("web3", "6.1.0-9"));
}

#[test]
fn nanoseconds_are_kept_and_microseconds_are_said() {
    let exact = FTRACE.replace(": sched", "789: sched");
    let (events, damages) = read(&exact);
    assert_eq!((events.last().map(|event| event.at.ns()), damages), (Some(1_000_200_789), vec![]));
}

#[test]
fn lines_that_are_not_understood_are_counted_with_the_place_of_the_first() {
    let mut all: Vec<_> = FTRACE.lines().collect();
    all.insert(9, "20 prev_prio=120 prev_state=S ==> next_comm=a next_pid=9 next_prio=120");
    all.push(
        "            here-7       [000] d..2.     1.000200: sched_switch: prev_comm=here prev_pid=7 prev_p",
    );
    let (events, damages) = read(&all.join("\n"));
    assert_eq!(lines_with(&events, " to ").len(), 4);
    assert_eq!(damages, [DamageKind::LinesUnreadable { count: 2, first: 10 }, DamageKind::RoundedStamps]);
}

/// The losses in a text with these lines in front of CPU 1's second switch, or at its end.
fn losses(lines: &str, at_end: bool) -> Vec<String> {
    let at = if at_end { FTRACE.len() } else { FTRACE.find("           there-8").expect("a line") };
    lines_with(&read(&format!("{}{lines}\n{}", &FTRACE[..at], &FTRACE[at..])).0, "lost")
}

#[test]
fn lost_events_make_their_cpu_unknown_from_its_last_line_to_its_next() {
    let expected = |count: u64, to: u64| vec![format!("{to} cpu1 8 lost {count} since 1000110000")];
    for (lines, count) in [
        ("CPU:1 [LOST 123 EVENTS]", 123),
        ("CPU:1 [123 EVENTS DROPPED]", 123),
        ("CPU:1 [EVENTS DROPPED]", 0),
        ("##### CPU 1 buffer started ####", 0),
        ("CPU:1 [LOST 123 EVENTS]\nCPU:1 [LOST 7 EVENTS]", 130),
    ] {
        assert_eq!(losses(lines, false), expected(count, 1_000_150_000), "{lines}");
    }
    // The losses behind a CPU's last line reach to the end.
    let at_end = losses("CPU:1 [LOST 123 EVENTS]", true);
    assert_eq!(at_end, ["1000200000 cpu1 0 lost 123 since 1000150000"]);
    // No line of the CPU is in front: from the begin on.
    let begin = format!("CPU:1 [LOST 5 EVENTS]\n{TRACE_CMD}");
    assert_eq!(lines_with(&read(&begin).0, "lost").len(), 1);
    assert!(lines_with(&read(&begin).0, "lost")[0].ends_with("lost 5 since 1000100000"));
    let perf = PERF.replace(
        "           there     8 [001]     1.000150",
        "           there     8 [001]     1.000140: PERF_RECORD_LOST lost 9\n           there     8 [001]     1.000150",
    );
    assert_eq!(lines_with(&read(&perf).0, "lost"), ["1000140000 cpu1 8 lost 9 since 1000110000"]);
}

#[test]
fn a_cpu_without_a_line_is_unknown_once_a_thread_is_woken_there() {
    let one_cpu: String =
        FTRACE.lines().filter(|line| !line.contains("[001]")).map(|line| format!("{line}\n")).collect();
    let (events, damages) = read(&one_cpu);
    assert_eq!(damages.last(), Some(&DamageKind::CpusUnrecorded { cpus: vec![1], wakings: 1 }));
    assert!(events.iter().any(|event| event.kind == EventKind::Unrecorded && event.cpu.0 == 1));
    assert_eq!(lines_with(&events, "lost"), ["1000200000 cpu1 0 lost 0 since 1000100000"]);
    // Nobody was woken there: it may have been idle.
    let to_itself = one_cpu.replace("target_cpu=001", "target_cpu=000");
    assert_eq!(read(&to_itself).1, [DamageKind::RoundedStamps]);
}

/// Each CPU's file, behind each other.
#[test]
fn lines_that_go_back_in_time_are_sorted() {
    let of_cpu = |cpu: &str| {
        FTRACE.lines().filter(|line| line.contains(cpu)).map(|line| format!("{line}\n")).collect::<String>()
    };
    let text = format!("{}{}", of_cpu("[001]"), of_cpu("[000]"));
    assert_eq!(event_lines(&text), EXPECTED);
    assert_eq!(read(&text).1, [DamageKind::RoundedStamps]);
}

#[test]
fn lines_behind_too_many_later_ones_are_left_out_and_their_cpu_is_unknown() {
    let line = |at: u64, cpu: u64, next: u64| {
        format!(
            "x-7 [{cpu}] .....  {}.{:06}: sched_waking: comm=a pid={next} prio=1 target_cpu=000\n",
            at / 1_000_000,
            at % 1_000_000
        )
    };
    let mut text = FTRACE.to_owned();
    (0..70_000).for_each(|n| text += &line(2_000_000 + n, 0, 9));
    text += &line(2_000_001, 1, 9);
    text += &line(2_000_002, 1, 9);
    text += &line(3_000_000, 1, 9);
    let (events, damages) = read(&text);
    assert_eq!(damages, [DamageKind::RoundedStamps, DamageKind::LinesLate { count: 2, first: 70_013 }]);
    assert_eq!(lines_with(&events, "lost"), ["3000000000 cpu1 0 lost 2 since 2000001000"]);
}

#[test]
fn texts_that_cannot_be_explained_are_refused_with_the_reason() {
    let without_cpu = PERF.replace(" [000]", "").replace(" [001]", "");
    let deltas: String = (0..80).map(|n| {
        format!("{} [000]     0.0000{:02}: sched:sched_switch: prev_comm=a prev_pid=7 prev_prio=1 prev_state=S ==> next_comm=b next_pid=8 next_prio=1\n", "here 7", n * 37 % 100)
    }).collect();
    for (text, says) in [
        (without_cpu.as_str(), "a.txt names no CPUs"),
        (&deltas, "a.txt has stamps that go back and forth"),
        (
            &FTRACE.replace("sched_switch", "kmalloc"),
            "a.txt holds no switches of threads (it holds kmalloc, sched_waking)",
        ),
        ("# tracer: function\n", "a.txt holds no switches of threads (it holds no events)"),
    ] {
        let said = opened(text.as_bytes()).expect_err("refused").to_string();
        assert!(said.starts_with(says), "{said}");
    }
}

#[test]
fn a_trace_is_recognised_by_its_lines_and_other_text_is_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x");
    let is = |bytes: &[u8]| {
        std::fs::write(&path, bytes).expect("room");
        TextTrace::recognises(&path)
    };
    for text in [FTRACE, TRACE_CMD, PERF] {
        assert!(is(text.as_bytes()), "{text}");
        // From within a line on, like trace_pipe.
        assert!(is(&text.as_bytes()[text.find("sched_waking").expect("a line") + 20..]), "{text}");
    }
    for other in [
        "",
        "{\"resourceSpans\": []}",
        "[1, 2]\n[3]\n",
        "one-1 [2] 3\ntwo-2 [3] 4\n",
        // A single line, as in a text about traces.
        "here-7       [000] d..3.     1.000105: sched_waking: comm=there pid=8 prio=120 target_cpu=001\n",
        "2026-11-28 09:24:57.123456: sched_switch: no\n2026-11-28 09:24:57.123457: sched_switch: no\n",
        "# tracer\n",
        "[    1.000100] here-7: sched_switch\n[    1.000200] here-7: sched_switch\n",
    ] {
        assert!(!is(other.as_bytes()), "{other}");
    }
    assert!(!is(&[FTRACE.as_bytes(), &[0]].concat()), "no text has this byte");
    assert!(!TextTrace::recognises(folder.path()));
}

#[test]
fn threads_of_a_process_are_known_by_the_head_and_by_births() {
    let text = "\
  worker-8 (    7) [000] .....  1.000100: sched_waking: comm=a pid=9 prio=1 target_cpu=000
  worker-8 (    7) [000] .....  1.000101: sched_waking: comm=a pid=9 prio=1 target_cpu=000
  worker-8 (    7) [000] .....  1.000102: task_newtask: pid=20 comm=worker clone_flags=3d0f00 oom_score_adj=0
  worker-8 (    7) [000] .....  1.000103: sched_process_fork: comm=worker pid=8 child_comm=worker child_pid=20
  worker-8 (    7) [000] .....  1.000104: task_newtask: pid=21 comm=worker clone_flags=1200011 oom_score_adj=0
  worker-8 (    7) [000] .....  1.000105: sched_process_fork: comm=worker pid=8 child_comm=worker child_pid=21
  worker-8 (    7) [000] d....  1.000106: sched_switch: prev_comm=worker prev_pid=8 prev_prio=1 prev_state=S ==> next_comm=worker next_pid=20 next_prio=1
";
    let (events, _) = read(text);
    assert_eq!(
        lines_with(&events, " of "),
        [
            "1000100000 cpu0 8 is \"worker\" 8 of 7, child of 0",
            "1000103000 cpu0 8 bears \"worker\" 20 of 7",
            "1000105000 cpu0 8 bears \"worker\" 21 of 21",
        ]
    );
}

/// Some kernels report no switch to a thread, on some CPUs.
#[test]
fn a_thread_has_the_name_in_each_event_also_where_the_switch_to_it_is_missing() {
    let lines = event_lines(
        "here 7 [000] 1.000100: sched:sched_wakeup_new: comm=bash pid=8 prio=120 target_cpu=001
         sleep 8 [001] 1.000200: sched:sched_switch: prev_comm=sleep prev_pid=8 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
         here 7 [000] 1.000300: sched:sched_waking: comm=sleep pid=8 prio=120 target_cpu=001
         here 7 [000] 1.000400: sched:sched_waking: comm=last pid=8 prio=120 target_cpu=001
         here 7 [000] 1.000500: sched:sched_switch: prev_comm=here prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=last next_pid=8 next_prio=120
",
    );
    let names: Vec<_> = lines.iter().filter(|line| line.contains(" names 8 ")).collect();
    assert_eq!(
        names,
        [
            "1000100000 cpu0 7 names 8 \"bash\"",
            "1000200000 cpu1 8 names 8 \"sleep\"",
            "1000400000 cpu0 7 names 8 \"last\"",
            // The switch itself names the thread once more.
            "1000500000 cpu0 8 names 8 \"last\""
        ]
    );
}

#[test]
fn the_letters_of_the_head_say_that_an_interrupt_woke() {
    let (events, _) = read(&FTRACE.replace("d..3.", "d.h3."));
    assert_eq!(lines_with(&events, "interrupted wakes 8").len(), 1);
}

/// A line as long as memory would be a way to fill it; any other byte may be there, too.
#[test]
fn damaged_text_gives_events_by_time_or_an_error() {
    let source =
        [FTRACE, "CPU:1 [LOST 7 EVENTS]\n", TRACE_CMD, PERF, "##### CPU 0 buffer started ####\n"].concat();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: usize| {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (random >> 33) as usize % below
    };
    let mut events = 0;
    for _ in 0..2000 {
        let mut bytes = source.clone().into_bytes();
        for _ in 0..1 + next(4) {
            let at = next(bytes.len());
            match next(5) {
                0 => bytes[at] = next(256) as u8,
                1 => drop(bytes.drain(at..(at + next(60)).min(bytes.len()))),
                2 => bytes.insert(at, b"9-[]=:.\n\t |>"[next(12)]),
                3 => {
                    let part = bytes[at..(at + next(200)).min(bytes.len())].to_vec();
                    let to = next(bytes.len());
                    bytes.splice(to..to, part);
                }
                _ => bytes.truncate(at.max(1)),
            }
        }
        if let Ok((count, damages)) = survives(opened(&bytes)) {
            events += count;
            assert!(damages.iter().all(|damage: &Damage| damage.file == "a.txt"));
        }
    }
    assert!(events > 10_000, "{events}");
    let long = [FTRACE.as_bytes(), &vec![b'x'; 1 << 20]].concat();
    let (_, damages) = survives(opened(&long)).expect("a text");
    assert_eq!(damages[0].kind, DamageKind::LinesUnreadable { count: 1, first: 13 });
}
