//! Deaths beside waits, in traces drawn as text. Times are in ms.

use wakepath_critical_path::{Timeouts, Window, active_by};
use wakepath_event::{EventKind, Mark};
use wakepath_loaded::testing::{event, read};

use super::*;
use crate::waits_of_window;

/// The parent gives its worker work, and waits for the answer; a killer kills the worker at 500.
const WORKER: &str = "
    thread parent tid=10
    thread worker tid=20 parent=10 blocked=interruptible call=0:5
    thread killer tid=99
    0 c0 idle started
    0 c0 idle switch parent
    10 c0 parent waking worker
    10 c1 idle switch worker
    20 c0 parent switch idle blocked=interruptible call=0:3
    30 c1 worker switch idle blocked=interruptible call=35:0
    499 c2 idle switch killer
    500 c2 killer waking worker
    501 c1 idle switch worker
    502 c1 worker signal 9 cut=35 sent=500 by=killer
    503 c1 worker exit
    504 c1 worker switch idle dead
    600 c2 killer switch idle blocked=interruptible call=0:9
    3000 c0 idle stopped
";

/// A trace in ms, as a recording.
pub(crate) fn in_ms(trace: &str, more: &[EventKind]) -> Recorded {
    let scaled = |word: &str| match word.strip_prefix("sent=") {
        Some(ms) => format!("sent={ms}000000"),
        None if word.bytes().all(|byte| byte.is_ascii_digit()) => format!("{word}000000"),
        None => word.to_owned(),
    };
    let line = |line: &str| {
        let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        for (place, word) in words.iter_mut().enumerate() {
            if place == 0 || word.starts_with("sent=") {
                *word = scaled(word);
            }
        }
        words.join(" ")
    };
    let trace: Vec<String> = trace.lines().map(line).collect();
    let mut events = wakepath_scenario::text::parse(&trace.join("\n")).expect("a trace").events;
    let more = more.iter().map(|kind| event(0, 0, 0, kind.clone()));
    events.splice(0..0, more);
    events.sort_by_key(|event| event.at);
    read(&events)
}

/// The window of the thread with this number.
pub(crate) fn window_of(recorded: &Recorded, tid: u32) -> Window {
    let thread = recorded.with_tid(Tid(tid))[0];
    let graph = recorded.graph();
    Window { thread, from: Stamp::from_ns(0), to: graph.thread(thread).last.min(graph.to()) }
}

/// The deaths of thread 10's window: `20 by 99: unanswered since 10`.
fn told(recorded: &Recorded) -> Vec<String> {
    let window = window_of(recorded, 10);
    let path = active_by(recorded.graph(), window, Timeouts::AsTheyAre);
    let waits = waits_of_window(recorded, &path);
    let waits = LastWaits { still_waiting: waits.still_waiting.as_ref(), killed: waits.killed.as_ref() };
    let ms = |ns: u64| ns / 1_000_000;
    let one = |it: &WindowDeath| {
        let by = match it.death.by {
            KilledBy::Thread(by) => format!("by {}", recorded.graph().thread(by).tid()),
            KilledBy::NoMemory(limit) => format!("no memory, limit {:?}", limit.map(|limit| limit.bytes)),
            other => format!("{other:?}"),
        };
        let part = match it.part {
            DeathPart::Awaited(wait) => match wait.by {
                AwaitedBy::Holds => String::from("holds"),
                AwaitedBy::Writes => String::from("writes"),
                AwaitedBy::WokeBefore(waits) => format!("woke {waits} times"),
                AwaitedBy::Unanswered(since) => format!("unanswered since {}", ms(since.ns())),
            },
            DeathPart::EndedWait(ns) => format!("ended a wait, {} on the path", ms(ns)),
            DeathPart::Own => String::from("own"),
        };
        format!("{} {by} at {}: {part}", it.death.process, ms(it.death.at.ns()))
    };
    window_deaths(recorded, &path, waits, &deaths(recorded)).iter().map(one).collect()
}

/// The same for a trace with these lines replaced; a line with an empty replacement goes.
fn changed(trace: &str, changes: &[(&str, &str)]) -> Vec<String> {
    let mut trace = trace.to_owned();
    for (from, to) in changes {
        assert!(trace.contains(from), "{from}");
        trace = trace.replacen(from, to, 1);
    }
    told(&in_ms(&trace, &[]))
}

/// Adds a line before the beginning, or before an event.
const START: &str = "0 c0 idle started";

#[test]
fn a_worker_with_work_that_was_killed_is_why_no_answer_came() {
    let named = ["20 by 99 at 500: unanswered since 10"];
    assert_eq!(changed(WORKER, &[]), named);
    // An idle sibling, and a process that is no child, owe nothing.
    let idle = format!("thread other tid=30 parent=10 blocked=interruptible call=0:5\n{START}");
    assert_eq!(changed(WORKER, &[(START, &idle)]), named);
    // The end of a process wakes those who wait for it.
    let watches = format!("thread watch tid=11 tgid=10 blocked=interruptible call=7:0x1000\n{START}");
    let end = "503 c1 worker exit\n503 c1 worker waking watch\n504 c2 killer switch watch runnable\n505 c2 watch switch killer blocked=interruptible call=7:0x1000";
    assert_eq!(changed(WORKER, &[(START, &watches), ("503 c1 worker exit", end)]), named);
    let stranger = format!("thread other tid=30 blocked=interruptible call=35:0\n{START}");
    assert_eq!(changed(WORKER, &[(START, &stranger)]), named);
}

#[test]
fn a_death_is_not_named_where_another_may_owe_the_answer_or_nothing_was_owed() {
    let with = |thread: &str| format!("{thread}\n{START}");
    for (what, from, to) in [
        (
            "a sibling works",
            START,
            with("thread other tid=30 parent=10 blocked=interruptible call=35:0").as_str(),
        ),
        (
            "a thread of the waiter's process works",
            START,
            &with("thread helper tid=11 tgid=10 blocked=interruptible call=35:0"),
        ),
        (
            "it had gone back to its wait for work",
            "30 c1 worker switch idle blocked=interruptible call=35:0",
            "30 c1 worker switch idle blocked=interruptible call=0:5",
        ),
        ("it was given no work", "10 c0 parent waking worker", "10 c2 idle/timer waking worker"),
        ("it ended itself", "502 c1 worker signal 9 cut=35 sent=500 by=killer", ""),
        (
            "another thread ended its process",
            "502 c1 worker signal 9 cut=35 sent=500 by=killer",
            "502 c1 worker signal 0 ends cut=35 sent=500 by=killer",
        ),
        ("the wait is a sleep", "call=0:3", "call=35:0"),
    ] {
        let told = changed(WORKER, &[(from, to)]);
        assert!(told.is_empty() || what == "the wait is a sleep", "{what}: {told:?}");
    }
}

#[test]
fn an_answer_ends_what_was_owed() {
    let answered = "
    30 c1 worker waking parent
    31 c0 idle switch parent
    40 c0 parent switch idle blocked=interruptible call=0:7
    41 c1 worker switch idle blocked=interruptible call=35:0";
    let work = "30 c1 worker switch idle blocked=interruptible call=35:0";
    assert_eq!(changed(WORKER, &[(work, answered)]), [""; 0]);
    // It answered on the descriptor for which the parent waits again, and was given work again.
    let again = answered.replace("call=0:7", "call=0:3").replace(
        "40 c0",
        "32 c1 worker switch idle blocked=interruptible call=0:5
    33 c0 parent waking worker
    34 c1 idle switch worker
    40 c0",
    );
    assert_eq!(changed(WORKER, &[(work, &again)]), ["20 by 99 at 500: woke 1 times"]);
    // Without work it owed nothing, although it had ended that wait before.
    let idle = answered.replace("call=0:7", "call=0:3");
    assert_eq!(changed(WORKER, &[(work, &idle)]), [""; 0]);
}

#[test]
fn a_process_that_only_gives_is_awaited_unless_others_give_too() {
    let gives = WORKER.replace("10 c0 parent waking worker", "10 c2 idle/timer waking worker").replace(
        "30 c1 worker switch idle blocked=interruptible call=35:0",
        "30 c1 worker waking parent
    31 c0 idle switch parent
    32 c0 parent switch idle blocked=interruptible call=0:3
    33 c1 worker switch idle blocked=interruptible call=35:0",
    );
    assert_eq!(changed(&gives, &[]), ["20 by 99 at 500: woke 1 times"]);
    assert_eq!(changed(&gives, &[("30 c1 worker waking", "30 c3 killer waking")]), [""; 0]);
}

#[test]
fn a_dead_owner_in_the_lock_s_memory_is_awaited_only_if_the_lock_is_shared_and_its_number_is_clear() {
    let lock = "20 c0 parent switch idle blocked=interruptible call=0:3";
    let waits = |at: u64, op: u64| {
        format!(
            "{at} c0 parent switch idle blocked=interruptible call=202:0x1000 op={op} value=2 claim=worker"
        )
    };
    let work = "10 c0 parent waking worker";
    let unasked = "10 c2 idle/timer waking worker";
    let held = ["20 by 99 at 500: holds"];
    assert_eq!(changed(WORKER, &[(work, unasked), (lock, &waits(20, 0))]), held);
    assert_eq!(changed(WORKER, &[(work, unasked), (lock, &waits(20, 128))]), [""; 0]);
    // The owner died before the wait.
    let later = [(work, unasked), (lock, ""), ("600 c2", &format!("550 {}\n600 c2", &waits(0, 0)[2..]))];
    assert_eq!(changed(WORKER, &later), held);
    // Its number is used again by then.
    let again = format!("540 c2 killer fork new tid=20\n550 {}\n600 c2", &waits(0, 0)[2..]);
    let claim = again.replace("claim=worker", "claim=new");
    assert_eq!(changed(WORKER, &[(work, unasked), (lock, ""), ("600 c2", &claim)]), [""; 0]);
}

#[test]
fn a_process_that_dies_together_with_the_waiter_or_by_the_recorder_is_not_awaited() {
    let interrupted = |signal: u32, by: &str| {
        format!(
            "2000 c2 {by} waking parent
    2001 c0 idle switch parent
    2002 c0 parent signal {signal} cut=0 sent=2000 by={by}
    2003 c0 parent exit
    2004 c0 parent switch idle dead
    3000 c0 idle stopped"
        )
    };
    let end = "3000 c0 idle stopped";
    // The waiter is given up later: that death was awaited.
    let later = interrupted(15, "killer");
    let named = "20 by 99 at 500: unanswered since 10";
    let found = changed(WORKER, &[(end, &later)]);
    assert_eq!(found.first().map(String::as_str), Some(named), "{found:?}");
    // The same signal at the same time.
    let together = WORKER.replace("500 ", "1999 ").replace("501 ", "2000 ").replace("sent=500", "sent=1999");
    let together = together.replace("signal 9", "signal 15").replace("502 ", "2001 ");
    let together = together.replace("503 ", "2002 ").replace("504 ", "2003 ").replace("499 ", "1998 ");
    let together = together.replace("600 c2", "2500 c2");
    let found = changed(&together, &[(end, &later)]);
    assert!(!found.iter().any(|death| death.contains("unanswered")), "{found:?}");
    // The killer is the recorder.
    let observer = [EventKind::Mark(Mark::Observer(Tid(99)))];
    assert_eq!(told(&in_ms(WORKER, &observer)), [""; 0]);
}

/// A parent waits for its child, which a killer kills at 500 while it runs.
const CHILD: &str = "
    thread parent tid=10
    thread child tid=20 parent=10
    thread killer tid=99
    0 c0 idle started
    0 c0 idle switch parent
    0 c1 idle switch child
    10 c0 parent switch idle blocked=interruptible call=61:20
    490 c2 idle switch killer
    502 c1 child signal 9 ends sent=500 by=killer
    503 c1 child exit
    504 c1 child waking parent
    505 c1 child switch idle dead
    505 c0 idle switch parent
    600 c0 parent exit
    601 c0 parent switch idle dead
    700 c2 killer switch idle dead
";

#[test]
fn a_death_that_ended_a_wait_on_the_path_is_named_if_the_wait_was_long() {
    assert_eq!(changed(CHILD, &[]), ["20 by 99 at 500: ended a wait, 494 on the path"]);
    // The child was not waited for until shortly before.
    let late = ("10 c0 parent switch", "490 c0 parent switch");
    assert_eq!(changed(CHILD, &[late]), [""; 0]);
    // The parent did not wait for the death: the child had answered.
    let answered =
        ("502 c1 child signal", "400 c1 child waking parent\n401 c0 idle switch parent\n502 c1 child signal");
    assert_eq!(
        changed(CHILD, &[answered, ("504 c1 child waking parent", ""), ("505 c0 idle switch parent", "")]),
        [""; 0]
    );
}

#[test]
fn a_helper_that_is_killed_when_its_work_is_done_made_nothing_long() {
    // It answers at 300. Then its parent kills it, and waits for its end.
    let wait = "10 c0 parent switch idle blocked=interruptible call=61:20";
    let again = "300 c1 child waking parent\n300 c0 idle switch parent\n";
    let answered = |from: u64| {
        let killed = format!("{again}{from} c0 parent switch idle blocked=interruptible call=61:20");
        (wait, wait.replace("61:20", "0:3") + "\n" + &killed)
    };
    for (from, expected) in
        [(495, None), (444, None), (443, Some("20 by 99 at 500: ended a wait, 61 on the path"))]
    {
        let (wait, answered) = answered(from);
        let found = changed(CHILD, &[(wait, &answered)]);
        assert_eq!(found.first().map(String::as_str), expected, "{from}: {found:?}");
    }
}

#[test]
fn a_kill_for_want_of_memory_names_the_kernel_and_the_limit_even_after_a_short_wait() {
    let oom = ("502 c1 child signal", "499 c1 child sends 9 child oom limit=20971520\n502 c1 child signal");
    assert_eq!(
        changed(CHILD, &[oom, ("10 c0 parent switch", "490 c0 parent switch")]),
        ["20 no memory, limit Some(20971520) at 499: ended a wait, 14 on the path"]
    );
    // Another victim's.
    let other = ("502 c1 child signal", "499 c1 child sends 9 parent oom\n502 c1 child signal");
    assert_eq!(changed(CHILD, &[other]), ["20 by 99 at 500: ended a wait, 494 on the path"]);
}

#[test]
fn the_killer_is_who_had_the_number_at_the_sending() {
    let by = |signal: &str| {
        let trace = CHILD.replace("signal 9 ends sent=500 by=killer", signal);
        let recorded = in_ms(&trace, &[]);
        deaths(&recorded).first().map(|death| death.by)
    };
    let killer = in_ms(CHILD, &[]).with_tid(Tid(99))[0];
    assert_eq!(by("signal 9 ends sent=500 by=killer"), Some(KilledBy::Thread(killer)));
    assert_eq!(by("signal 11 sent=500 by=child"), Some(KilledBy::Itself));
    assert_eq!(by("signal 9 ends"), Some(KilledBy::Unknown));
    assert_eq!(by("signal 10 handled"), None);
    // Another process has the number later.
    let later = "\n    701 c2 idle switch parent\n    702 c2 parent fork other tid=99\n    703 c2 parent switch idle dead";
    let trace = CHILD.replace(
        "600 c0 parent exit\n    601 c0 parent switch idle dead\n",
        "600 c0 parent switch idle runnable\n",
    ) + later;
    let recorded = in_ms(&trace, &[]);
    assert_eq!(recorded.with_tid(Tid(99)).len(), 2);
    assert_eq!(deaths(&recorded).first().map(|death| death.by), Some(KilledBy::Thread(killer)));
    // The number belonged to nobody then.
    assert_eq!(by("signal 9 ends sent=500 by=#77"), Some(KilledBy::Unknown));
}

#[test]
fn the_window_s_own_death_is_its_own() {
    let trace = CHILD
        .replace("600 c0 parent exit", "599 c0 parent signal 9 ends sent=598 by=killer\n600 c0 parent exit");
    assert_eq!(changed(&trace, &[]).last().map(String::as_str), Some("10 by 99 at 598: own"));
}
