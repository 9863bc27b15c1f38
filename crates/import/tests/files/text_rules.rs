//! How a text's lines become events, rule by rule.

use wakepath_event::{DamageKind, EventSource};

use crate::lines::lines_with;
use crate::text_trace::{FTRACE, PERF, TRACE_CMD, opened, read};

/// Thread 7's line on CPU 0, at this stamp in us.
fn line(us: u64, text: &str) -> String {
    format!("            here-7       [000] d..3.     {}.{:06}: {text}\n", us / 1_000_000, us % 1_000_000)
}

#[test]
fn an_empty_line_ends_a_stack_of_perf() {
    let switch = "8 [001] 1.000201: sched:sched_switch: prev_comm=x prev_pid=8 prev_prio=1 prev_state=S ==> \
                  next_comm=y next_pid=9 next_prio=1\n";
    let inside = format!("{PERF}\tffffffff82200809 {switch}");
    let behind = format!("{PERF}\n\tx {switch}");
    let switches = |text: &str| lines_with(&read(text).0, " to ").len();
    assert_eq!((switches(&inside), switches(&behind)), (4, 5));
    // A frame behind it belongs to no event.
    let frame = format!("{PERF}\n          7f0000 main+0x1 (/bin/x)\n");
    let count = frame.lines().count() as u64;
    assert!(read(&frame).1.contains(&DamageKind::LinesUnreadable { count: 1, first: count }));
}

#[test]
fn the_extent_reaches_from_the_earliest_stamp_to_the_latest_wherever_they_stand() {
    let text = format!("{FTRACE}{}", line(1_000_050, "sched_waking: comm=a pid=9 prio=1 target_cpu=000"));
    let file = opened(text.as_bytes()).expect("a text");
    let extent = file.description().extent.map(|(from, to)| (from.ns(), to.ns()));
    assert_eq!(extent, Some((1_000_050_000, 1_000_200_000)));
}

#[test]
fn stamps_that_go_back_are_the_times_since_the_last_line_only_where_many_do() {
    let waking = |us: u64| line(us, "sched_waking: comm=a pid=9 prio=1 target_cpu=000");
    // Few lines in all, and few among many.
    let few: String = (0..16).map(|n| waking(1_000_300 - n)).collect();
    let many: String =
        (0..90).map(|n| waking(1_001_000 + 10 * n - if n % 5 == 4 { 15 } else { 0 })).collect();
    for text in [few, many] {
        assert!(opened(format!("{FTRACE}{text}").as_bytes()).is_ok());
    }
    let most: String = (0..40).map(|n| waking(1_001_000 - 10 * (n % 2) + n)).collect();
    assert!(opened(format!("{FTRACE}{most}").as_bytes()).is_err());
}

#[test]
fn a_refusal_names_a_bounded_number_of_tracepoints() {
    let text: String = (0..600).map(|n| line(1_000_000 + n, &format!("event_{n}: x"))).collect();
    let error = opened(text.as_bytes()).map(|_| ()).expect_err("no switches").to_string();
    assert!(error.len() < 8000, "{} bytes", error.len());
}

#[test]
fn states_with_two_meanings_are_in_doubt() {
    for text in [FTRACE.replace("prev_state=D", "prev_state=D|Z"), TRACE_CMD.replace("] D ==>", "] x ==>")] {
        assert!(read(&text).1.contains(&DamageKind::StatesUndescribed), "{text}");
    }
    for text in [FTRACE, TRACE_CMD, PERF] {
        assert!(!read(text).1.contains(&DamageKind::StatesUndescribed), "{text}");
    }
}

#[test]
fn late_lines_without_a_later_line_of_their_cpu_are_a_loss_up_to_the_end() {
    let waking = |us: u64, cpu: u32| {
        line(us, "sched_waking: comm=a pid=9 prio=1 target_cpu=000").replace("[000]", &format!("[{cpu:03}]"))
    };
    let mut text = FTRACE.to_owned();
    (0..70_000).for_each(|n| text += &waking(2_000_000 + n, 0));
    text += &waking(2_000_001, 1);
    let losses = lines_with(&read(&text).0, "lost");
    assert_eq!(losses, ["2069999000 cpu1 0 lost 1 since 2000001000"]);
}

#[test]
fn only_the_wake_ups_that_are_used_prove_a_cpu() {
    let wakeup = line(1_000_106, "sched_wakeup: comm=there pid=8 prio=120 target_cpu=005");
    let text = format!("{FTRACE}{wakeup}");
    assert!(!format!("{:?}", read(&text).1).contains("CpusUnrecorded"), "{:?}", read(&text).1);
    // Without sched_waking it is used.
    let text = text.replace("sched_waking", "sched_nothing");
    assert!(format!("{:?}", read(&text).1).contains("CpusUnrecorded"), "{:?}", read(&text).1);
}

#[test]
fn a_number_that_is_anothers_has_its_name() {
    let born = line(1_000_300, "sched_wakeup_new: comm=new pid=8 prio=120 target_cpu=000");
    let names = lines_with(&read(&format!("{FTRACE}{born}")).0, "names 8");
    assert_eq!(names.len(), 3, "{names:?}");
    assert_eq!(names[2], "1000300000 cpu0 7 names 8 \"new\"");
}

#[test]
fn a_name_that_is_cut_or_unknown_is_not_emitted() {
    let unknown =
        line(1_000_300, "sched_waking: comm=a pid=9 prio=1 target_cpu=000").replace("here-7", "<...>-77");
    assert_eq!(lines_with(&read(&format!("{FTRACE}{unknown}")).0, "names 77").len(), 0);
    let known = unknown.replace("<...>-77", "long-77");
    assert_eq!(lines_with(&read(&format!("{FTRACE}{known}")).0, "names 77").len(), 1);
    // The column of a latency trace has eight letters.
    let latency = "eightlet-77      0d..3. 1.000300: sched_waking: comm=a pid=9 prio=1 target_cpu=000\n";
    let read = read(&format!("{FTRACE}{latency}")).0;
    assert_eq!((lines_with(&read, "wakes 9").len(), lines_with(&read, "names 77").len()), (1, 0));
}

/// Text hides packets' addresses, and so their lines are skipped, not misunderstood.
#[test]
fn lines_that_are_not_used_are_not_counted_as_unreadable() {
    let queue = line(1_000_300, "net_dev_queue: dev=lo skbaddr=00000000a1b2 len=66");
    assert_eq!(read(&format!("{FTRACE}{queue}")).1, [DamageKind::RoundedStamps]);
}
