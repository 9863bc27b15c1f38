//! The times in which threads' contexts held.

use wakepath_event::{Cpu, Event, EventKind, LostRecords};
use wakepath_loaded::testing::read;
use wakepath_scenario::{STEP, draw};

use super::*;

/// Whether a context recorded in column 1 holds in column 8, if these records were lost between two columns.
fn holds_behind(losses: &[(LostRecords, u64, u64)]) -> bool {
    let mut events = draw("0 =========").events;
    for &(records, from, to) in losses {
        let kind = EventKind::Loss { from: Stamp::from_ns(from * STEP), count: 2, records };
        let (cpu, context, current) = (Cpu::UNKNOWN, Context::Task, Tid::IDLE);
        events.push(Event { at: Stamp::from_ns(to * STEP), cpu, context, current, kind });
    }
    events.sort_by_key(|event| event.at);
    let graph: Graph = events.iter().collect();
    is_certain(&graph, Stamp::from_ns(STEP), Stamp::from_ns(8 * STEP))
}

/// Thread 11 executes a program, and goes on as 10, whose former thread had its own span.
#[test]
fn the_context_of_a_thread_does_not_hold_behind_its_exec_under_another_number() {
    // A record may show the new number before the exec's own record does.
    for first_by_the_new_number in ["", "170 c1 leader waking other"] {
        let trace = wakepath_scenario::text::parse(&format!(
            "thread leader tid=10
             thread worker tid=11 tgid=10
             thread other tid=20 blocked
             0 c0 idle started
             0 c0 idle switch leader
             0 c1 idle switch worker
             50 c0 leader context b/b
             60 c0 leader exit
             61 c0 leader switch idle dead
             100 c1 worker context a/a
             100 c1 worker switch idle blocked call=35:0
             150 c1 idle switch worker
             {first_by_the_new_number}
             200 c1 leader exec other from=worker
            200 c3 idle fork new tid=11 tgid=20
            200 c3 new context c/c
            200 c3 new waking new
             300 c1 leader switch idle blocked call=35:0
             400 c1 idle switch leader
             500 c1 leader stopped",
        ));
        let recorded = read(&trace.expect("a trace").events);
        let worker = recorded.with_tid(Tid(11))[0];
        let readings: Vec<_> = readings(&recorded, worker).collect();
        let span = readings[0].1;
        assert!(matches!(span, Said::Span { .. }), "{readings:?}");
        let at = Stamp::from_ns;
        assert_eq!(readings, [(at(100), span), (at(200), Said::Unknown)], "{first_by_the_new_number}");
        let holds = holds(&recorded.graph, worker, &readings, &[]);
        let behind: Vec<_> = holds.iter().filter(|hold| hold.to > at(200)).map(|hold| hold.said).collect();
        assert!(!behind.is_empty() && behind.iter().all(|said| *said == Said::Unknown), "{holds:?}");
        assert!(holds.iter().any(|hold| hold.said == span && hold.to == at(150)), "{holds:?}");
    }
}

#[test]
fn a_context_holds_behind_losses_that_ended_before_and_those_of_sockets_and_disk_requests() {
    use LostRecords::{Any, DiskRequests, Sockets};
    for (losses, expected) in [
        (&[][..], true),
        // It would have been recorded at the next event.
        (&[(Any, 2, 3)], true),
        (&[(Any, 7, 9)], false),
        (&[(Sockets, 7, 9)], true),
        (&[(Any, 2, 3), (Sockets, 7, 9)], true),
        (&[(Any, 2, 3), (DiskRequests, 7, 9)], true),
        (&[(Any, 2, 3), (Any, 7, 9)], false),
    ] {
        assert_eq!(holds_behind(losses), expected, "{losses:?}");
    }
    assert!(!holds_behind(&[(Any, 7, 8)]), "the loss ends with the switch");
    let mut events = draw("0 =========").events;
    let kind = EventKind::Loss { from: Stamp::from_ns(STEP), count: 0, records: Any };
    let (cpu, context, current) = (Cpu::UNKNOWN, Context::Task, Tid::IDLE);
    events.push(Event { at: Stamp::from_ns(9 * STEP), cpu, context, current, kind });
    let graph: Graph = events.iter().collect();
    let at = |column| Stamp::from_ns(column * STEP);
    assert!(is_certain(&graph, at(4), at(4)), "a reading holds at its own moment");
    assert!(!is_certain(&graph, at(4), at(5)));
}

/// The times in which the thread with number 10 had a context: `FROM..TO` and the span's digits, `none` or `?`.
fn holds_of(trace: &str) -> String {
    let script = wakepath_scenario::text::parse(trace).unwrap_or_else(|error| panic!("{error}: {trace}"));
    let recorded = read(&script.events);
    let thread = *recorded.with_tid(Tid(10)).last().expect("the thread");
    let readings: Vec<_> = readings(&recorded, thread).collect();
    let wakings = wakings(&recorded.graph, &HashSet::from([thread]));
    let of_thread = wakings.get(&thread).map_or(&[][..], Vec::as_slice);
    let texts = holds(&recorded.graph, thread, &readings, of_thread).into_iter().map(|hold| {
        let said = match hold.said {
            Said::None => String::from("none"),
            Said::Unknown => String::from("?"),
            Said::Span { trace, span, .. } => format!("{:x}/{:x}", trace.0[0] >> 4, span.0[0] >> 4),
        };
        format!("{}..{} {said}", hold.from.ns(), hold.to.ns())
    });
    texts.collect::<Vec<_>>().join(", ")
}

/// `a` runs until 300, sleeps, has no CPU from 380 on, runs from 400 to 500, and sleeps; `b` sleeps, but for what `a` wakes it for.
const SLEEPER: &str = "
    thread a tid=10
    thread b tid=11 tgid=10 blocked
    0 c0 idle started
    0 c0 idle switch a
    FIRST
    300 c0 a context b/b
    300 c0 a switch idle blocked
    380 c2 idle waking a
    400 c0 idle switch a
    SECOND
    500 c0 a switch idle blocked
    LAST
    900 c0 idle stopped";

#[test]
fn a_context_holds_while_its_thread_has_no_cpu_and_for_a_moment_where_the_thread_wakes_another() {
    let asleep = "300..380 b/b, 380..400 b/b";
    let woken =
        |at| format!("{at} c0 a waking b\n{at} c1 idle switch b\n{} c1 b switch idle blocked", at + 1);
    let reading = |at, said: &str| format!("{at} c0 a context {said}\n{at} c0 a waking a");
    for (first, second, expected) in [
        // No record at the second switch: the context is the same.
        (String::new(), String::new(), format!("{asleep}, 500..900 b/b")),
        (reading(100, "a/a"), String::new(), format!("100..100 a/a, {asleep}, 500..900 b/b")),
        // A wake-up without a record says the same, and one before all records says nothing.
        (
            format!("{}\n{}\n{}", woken(50), reading(100, "a/a"), woken(200)),
            String::new(),
            format!("100..100 a/a, 200..200 a/a, {asleep}, 500..900 b/b"),
        ),
        // A wake-up at the moment of the switch adds nothing.
        (
            format!("{}\n300 c0 a waking b", reading(100, "a/a")),
            String::new(),
            format!("100..100 a/a, {asleep}, 500..900 b/b"),
        ),
        (String::new(), woken(450), format!("{asleep}, 450..450 b/b, 500..900 b/b")),
        (
            String::new(),
            format!("{}\n{}", woken(420), reading(450, "none")),
            format!("{asleep}, 420..420 b/b, 450..450 none, 500..900 none"),
        ),
        (String::new(), reading(450, "unknown"), format!("{asleep}, 450..450 ?, 500..900 ?")),
    ] {
        let trace = SLEEPER.replace("FIRST", &first).replace("SECOND", &second).replace("LAST", "");
        assert_eq!(holds_of(&trace), expected, "{first} {second}");
    }
}

#[test]
fn a_context_is_not_known_behind_a_loss_that_may_hide_another_one() {
    let lossy = |second: &str, last: &str| {
        holds_of(&SLEEPER.replace("FIRST", "").replace("SECOND", second).replace("LAST", last))
    };
    // A record lost in a damaged file does not come again.
    let damaged = "450 c9 idle loss from=440 count=0";
    assert!(lossy(damaged, "").ends_with(" ?"), "{}", lossy(damaged, ""));
    let of_sockets = "450 c9 idle loss from=440 count=0 records=sockets";
    assert_eq!(lossy(of_sockets, ""), lossy("", ""));
    let before_a_waking = format!("{damaged}\n460 c0 a waking b");
    assert!(!lossy(&before_a_waking, "").contains("460..460"), "{}", lossy(&before_a_waking, ""));
}

#[test]
fn the_last_reading_counts_where_the_recording_ends_with_it() {
    let trace = "
        thread a tid=10
        0 c0 idle started
        0 c0 idle switch a
        100 c0 a context a/a
        100 c0 a waking a
        LAST
        300 c0 a stopped";
    for (last, expected) in [
        ("", "100..100 a/a"),
        ("300 c0 a context b/b\n300 c0 a waking a", "100..100 a/a, 300..300 b/b"),
        ("200 c0 a context b/b\n200 c0 a waking a", "100..100 a/a, 200..200 b/b"),
    ] {
        assert_eq!(holds_of(&trace.replace("LAST", last)), expected, "{last}");
    }
}

#[test]
fn a_new_thread_works_for_nothing_until_it_runs_if_its_first_switch_was_read() {
    let trace = "
        thread a tid=9
        0 c0 idle started
        0 c0 idle switch a
        FORK
        200 c1 idle switch b
        300 c1 b READING
        300 c1 b switch idle blocked
        350 c0 a waking b
        400 c1 idle switch b
        500 c1 b context a/b
        500 c1 b switch idle blocked
        900 c0 a stopped";
    let later = "500..900 a/b";
    let read_first = format!("300..350 a/a, 350..400 a/a, {later}");
    for (fork, reading, expected) in [
        (
            "100 c0 a fork b tid=10 tgid=9\n100 c0 a waking b newborn",
            "context a/a",
            format!("100..200 none, {read_first}"),
        ),
        // It has its forker's variables.
        ("100 c0 a fork b tid=10\n100 c0 a waking b newborn", "context a/a", read_first.clone()),
        // It began before the recording.
        ("0 c0 a waking a", "context a/a", read_first),
        // Nothing was read at its first switch: its process was not known by then.
        ("100 c0 a fork b tid=10 tgid=9\n100 c0 a waking b newborn", "waking a", later.into()),
    ] {
        let known = if fork.contains("fork") { "" } else { "thread b tid=10 tgid=9 blocked\n" };
        let trace = format!("{known}{}", trace.replace("FORK", fork).replace("READING", reading));
        assert_eq!(holds_of(&trace), expected, "{fork} {reading}");
    }
}

#[test]
fn a_context_is_not_known_while_nothing_shows_where_its_thread_is() {
    // Its switch from the first CPU to the second is missing.
    let trace = "
        thread a tid=10
        0 c0 idle started
        0 c0 idle switch a
        100 c0 a context a/a
        100 c0 a waking a
        150 c0 a waking a
        200 c1 a context b/b
        200 c1 a waking a
        300 c1 a context b/b
        300 c1 a switch idle blocked
        400 c1 idle stopped";
    assert_eq!(holds_of(trace), "100..100 a/a, 150..200 ?, 300..400 b/b");
}
