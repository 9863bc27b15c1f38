//! Lines with hostile names, and lines with two readings.

use wakepath_event::{BlockedState, SwitchOut};

use super::super::head::Line;
use super::*;

/// The fields of a line of thread 7, or that there are none.
fn fields(event: &str) -> Option<String> {
    let line = format!("            bash-7   [001] d..2.  1259.668028: {event}");
    let Line::Event(head) = Line::read(line.as_bytes(), false) else { panic!("no head: {line}") };
    let (kind, call) = Kind::from_line(&head)?;
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
        // The name `a:7 [0] S ==> b`, or the name `a` and a longer text behind it, too long for a name.
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
        ("sched_switch: prev_comm=a prev_pid=7 prev_prio=1 prev_state=S ==> next_comm=b next_pid=8", None),
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
        ("sched_waking: comm=a pid=9 b pid=8 prio=120 target_cpu=003", Some("wakes 8 \"a pid=9 b\" cpu3")),
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
        ("task_rename: oldcomm=bash newcomm=x oom_score_adj=0", Some("Rename { tid: Tid(7), comm: \"x\" }")),
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

#[test]
fn what_text_does_not_say_is_not_read() {
    check(&[
        // The addresses of packets' buffers are hidden.
        ("net_dev_queue: dev=lo skbaddr=00000000a1b2 len=66", None),
        ("netif_receive_skb: dev=lo skbaddr=00000000a1b2 len=52", None),
        // No call has a negative number.
        (
            "sys_enter: NR -202 (7f48, 89, 0, 0, 0, 0)",
            Some("Call { number: None, arg0: Some(32584), futex: None }"),
        ),
        (
            "sys_enter: NR 202 (7f48, 89, 0, 0, 0, 0)",
            Some("Call { number: Some(202), arg0: Some(32584), futex: Some(137) }"),
        ),
        // No device has such a number.
        ("block_rq_issue: 4096,16 WS 4096 () 2157368 + 8 [bash]", None),
        ("block_rq_issue: 8,1048576 WS 4096 () 2157368 + 8 [bash]", None),
    ]);
}

/// perf numbers threads in the namespace of its reader.
#[test]
fn a_thread_that_leaves_is_the_current_one_except_in_perfs_text() {
    let switch = |head: &str, prev: u32| {
        let line = format!("{head} 1.000100: sched:sched_switch: a:{prev} [120] S ==> b:8 [120]");
        let line = if head.contains('-') { line.replace("sched:", "") } else { line };
        let Line::Event(head) = Line::read(line.as_bytes(), false) else { panic!("no head: {line}") };
        let (kind, call) = Kind::from_line(&head).expect("a switch");
        read(kind, call, &head).is_some()
    };
    for (prev, dashed) in [(7, true), (70, false)] {
        assert!(switch("a 7 [000]", prev));
        assert_eq!(switch("a-7 [000]", prev), dashed);
    }
}
