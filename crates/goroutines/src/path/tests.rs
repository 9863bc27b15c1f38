//! Drawn goroutines' paths.

use wakepath_clock::Stamp;
use wakepath_critical_path::{Basis, Cause, ProblemKind, Segment, SegmentKind, Via, WaitId};
use wakepath_event::{GoStep, GoroutineStep, LostRecords, Tid};
use wakepath_wait_graph::Graph;

use crate::drawn::{drawn, drawn_over, drawn_with_lost, drawn_without, stamp};
use crate::{GoWait, GoWindow, GoroutineIndex, Goroutines, NoCalls, path};

#[track_caller]
fn check(drawing: &str, number: u64, expected: &str) {
    assert_eq!(drawn(drawing, &[]).line(number), expected, "{drawing}");
}

#[test]
fn a_lock_is_replaced_by_what_its_holder_did() {
    check(
        "0 ==lll1==
         1 ========",
        0,
        "00111100",
    );
}

#[test]
fn a_holder_that_sleeps_with_the_lock_leads_to_a_timer() {
    check(
        "0 ==llll1==
         1 =ssst====",
        0,
        "00ttt1100",
    );
}

#[test]
fn a_waiter_of_a_waiter_leads_to_the_first_holder() {
    check(
        "0 =lllllll1=
         1 =lll2=====
         2 ==========",
        0,
        "0222211110",
    );
}

#[test]
fn a_park_that_ends_before_the_window_of_the_one_above_is_clipped_to_it() {
    let drawn = drawn(
        "0 ===lll1==
         1 ==st=====",
        &[],
    );
    let path = drawn.path_of(0, 4, 8);
    assert_eq!(drawn.letters(&path.path, &path.goroutines), "1110");
    assert_eq!(path.path.waits[0].from, stamp(4));
}

#[test]
fn between_ready_and_run_a_goroutine_is_in_a_queue() {
    check(
        "0 ==cc1qq==
         1 =========",
        0,
        "00111qq00",
    );
}

#[test]
fn goroutines_take_turns_on_one_thread() {
    check(
        "0 ==qqq==c1==
         1@0 _q===qq==qq",
        0,
        "00qqq001100",
    );
}

#[test]
fn the_letters_of_what_no_goroutine_ended() {
    check("0 =sst=", 0, "0ttt0");
    check("0 =iip=", 0, "0nnn0");
    check("0 =cct=", 0, "0ttt0");
    check("0 =iit=", 0, "0ttt0");
    check("0 =oot=", 0, "0???0");
    check("0 =llt=", 0, "0???0");
}

#[test]
fn only_a_sleep_that_the_scheduler_ended_is_sure_to_be_a_timer() {
    for (park, kind, basis) in [
        ("sst", SegmentKind::Timer, Basis::Measured),
        ("cct", SegmentKind::Timer, Basis::Ambiguous),
        ("iit", SegmentKind::Timer, Basis::Ambiguous),
        ("iip", SegmentKind::Network, Basis::Ambiguous),
        ("oot", SegmentKind::Unknown, Basis::Ambiguous),
        ("ccp", SegmentKind::Unknown, Basis::Ambiguous),
    ] {
        let drawn = drawn(&format!("0 ={park}="), &[]);
        let segment = drawn.path_of(0, 0, 5).path.segments[1].clone();
        assert_eq!((segment.kind, segment.basis), (kind, basis), "{park}");
    }
}

#[test]
fn a_park_that_has_not_ended_still_waits() {
    let drawn = drawn("0 ==ll", &[]);
    let path = drawn.path_of(0, 0, 4).path;
    assert_eq!(path.segments[1].kind, SegmentKind::Lock);
    assert_eq!(path.segments[1].cause, Cause::StillWaiting);
}

#[test]
fn a_newborn_was_in_a_queue_while_its_parent_waited_for_it() {
    check(
        "0 ==oooo1==
         1<0 ____====_",
        0,
        "00qq11100",
    );
}

#[test]
fn before_a_newborn_was_started_its_parent_led_to_it() {
    check(
        "0 lllll1=
         1<2 ____===
         2 ==oo1q=",
        0,
        "22qq110",
    );
    check(
        "0 ========
         1<2 ____===
         2 ==oo1q=",
        1,
        "__qq1111",
    );
}

#[test]
fn a_parent_starts_a_newborn_while_it_runs_and_not_while_it_waits_or_is_in_a_queue() {
    // The newborn is in a queue from the end of its parent's last turn on, whatever the parent does then.
    for (parent, newborn) in [
        ("==qqqq==", "__qqqq11"),
        ("==sssstt", "__qqqq11"),
        ("==llllll", "__qqqq11"),
        ("==ssst==", "__qqqq11"),
        ("==qq==ss", "______11"),
        ("==qq=qqq", "_____q11"),
        ("======qq", "______11"),
    ] {
        let drawing = format!("0 {parent}\n1<0 ______==");
        check(&drawing, 1, newborn);
    }
}

#[test]
fn a_goroutine_that_is_first_seen_without_its_beginning_is_unknown_before() {
    check(
        "0 ==ooo1==
         1 ___===__",
        0,
        "00?11100",
    );
}

#[test]
fn locks_are_linked_as_locks_and_the_waits_of_threads_are_no_parks() {
    let drawn = drawn(
        "0 ==ll1====
         1 ======c0=",
        &[],
    );
    let path = drawn.path_of(0, 0, 9);
    assert_eq!(path.path.waits.len(), 1);
    assert_eq!(path.path.waits[0].via, Via::Lock);
    assert_eq!(path.parks, [Some((drawn.goroutine(0), 2))]);
    assert_eq!(path.path.segments[1].depth, 1);
    assert_eq!(path.path.segments[1].parent.map(|id| id.0), Some(0));
    let other = drawn.path_of(1, 0, 9);
    assert_eq!(other.path.waits[0].via, Via::Wakeup);
}

#[test]
fn a_thread_that_waits_while_it_runs_a_goroutine_leads_to_the_threads_and_goroutines_it_waits_for() {
    // Thread 0 waits for thread 1, which waits for thread 3, and runs no goroutine in columns 5 and 6.
    let drawn = drawn_over(
        "0 ==....1====
         1 ===.3======
         2 ===========
         3 ===========",
        "0 ===========
         1 =====qq====
         2 =llllllll0=
         3 ===========",
    );
    assert_eq!(drawn.line(0), "00133--0000");
    assert_eq!(drawn.line(2), "20133--0002");
    let path = drawn.path_of(2, 0, 11);
    let id = |parent: Option<WaitId>| parent.map(|WaitId(id)| id);
    let waits: Vec<_> = path.path.waits.iter().map(|wait| (id(wait.parent), wait.depth, wait.via)).collect();
    assert_eq!(waits, [(None, 0, Via::Lock), (Some(0), 1, Via::Wakeup), (Some(1), 2, Via::Wakeup)]);
    assert_eq!(path.parks, [Some((drawn.goroutine(2), 2)), None, None], "waits of threads are no parks");
    let segments: Vec<_> =
        path.path.segments.iter().map(|one| (id(one.parent), one.depth, one.via)).collect();
    assert_eq!(
        segments,
        [
            (None, 0, Via::Window),
            (Some(0), 1, Via::Lock),
            (Some(1), 2, Via::Wakeup),
            (Some(2), 3, Via::Wakeup),
            (Some(1), 2, Via::Wakeup),
            (Some(0), 1, Via::Lock),
            (None, 0, Via::Window),
        ]
    );
}

#[test]
fn a_wait_for_a_thread_that_ran_two_goroutines_shows_the_time_of_each() {
    let drawn = drawn_over(
        "0 ==....1==
         1 =========",
        "0 =========
         1 ====qqqqq
         2@1 ____=====",
    );
    assert_eq!(drawn.line(0), "001122200");
}

#[test]
fn records_lost_while_a_thread_ran_the_goroutine_are_a_problem_of_its_path() {
    // The goroutine runs in columns 0, 1 and 5 to 7.
    for (lost, from_to) in [(&[][..], None), (&[(3, 4)], None), (&[(6, 7)], Some((6, 7)))] {
        let drawn = drawn_with_lost("0 ==qqq===", LostRecords::Sockets, lost);
        let problems = drawn.path_of(0, 0, 8).path.problems;
        let found = problems.iter().map(|problem| {
            let ProblemKind::RecordsLost { of, records, places, .. } = problem.kind else {
                panic!("{problem:?}");
            };
            (of, records, places, problem.from, problem.to)
        });
        let expected = from_to.map(|(from, to)| (LostRecords::Sockets, 2, 1, stamp(from), stamp(to)));
        assert_eq!(found.collect::<Vec<_>>(), Vec::from_iter(expected), "lost: {lost:?}");
    }
}

#[test]
fn the_time_of_a_parent_that_led_to_a_newborn_is_linked_as_a_birth() {
    let drawn = drawn(
        "0 lllll1=
         1<2 ____===
         2 ==oo1q=",
        &[],
    );
    let path = drawn.path_of(0, 0, 7).path;
    let vias: Vec<_> = path.segments.iter().map(|one| one.via).collect();
    assert_eq!(vias, [Via::Fork, Via::Lock, Via::Lock, Via::Window], "{path:#?}");
}

#[test]
fn time_outs_that_threads_join_are_added_up_over_the_turns_of_a_goroutine() {
    let trace = wakepath_scenario::text::parse(
        "thread own tid=7
         thread other tid=8
         0 c0 idle switch own
         10 c0 own switch idle blocked call=7:0x1000
         20 c0 idle/timer waking own
         20 c0 idle switch own
         21 c0 own switch idle blocked call=7:0x1000
         30 c0 idle switch other
         31 c0 other waking own
         31 c0 other switch own
         40 c0 own switch idle blocked call=7:0x1000
         50 c0 idle/timer waking own
         50 c0 idle switch own
         51 c0 own switch idle blocked call=7:0x1000
         60 c0 idle switch other
         61 c0 other waking own
         61 c0 other switch own
         100 c0 own switch idle",
    );
    let graph: Graph = trace.expect("a trace").events.iter().collect();
    let step = |at, step| {
        let step = GoroutineStep { tgid: Tid(7), program: 0, goroutine: 1, began_in: 0, step };
        (Stamp::from_ns(at), Tid(7), step)
    };
    // The goroutine has two runs, so its thread has two paths.
    let steps = [step(0, GoStep::Runs(0)), step(35, GoStep::Yields), step(36, GoStep::Runs(0))];
    let thread = |tid, _| graph.with_tid(tid).next().map(|(index, _)| index);
    let goroutines = Goroutines::new(&graph, &steps, &[], thread);
    let window = GoWindow { goroutine: GoroutineIndex(0), from: Stamp::MIN, to: Stamp::from_ns(100) };
    let timeouts = wakepath_critical_path::Timeouts::JoinedIfAlike;
    let path = path(&graph, &goroutines, &[window], timeouts, &|_, _| GoWait::Other, &NoCalls)
        .expect("a window")
        .path;
    assert!(path.tiles_window());
    assert_eq!((path.joined.waits, path.joined.ns), (2, 20));
}

#[test]
fn goroutines_that_explain_each_other_stay_unknown() {
    // The records contradict each other: each goroutine made the other ready while parked itself.
    let drawn = drawn(
        "0 =ll1=
         1 =ll0=",
        &[],
    );
    let line = drawn.line(0);
    assert_eq!(line.len(), 5);
    assert!(line.contains('?'), "{line}");
}

#[test]
fn a_long_chain_of_parks_is_walked_to_its_end() {
    // Two goroutines that hand over to each other.
    let [first, second] = ["=====cc1", "=cc0===="].map(|turn| turn.repeat(2_000));
    let drawn = drawn(&format!("0 {first}=\n1 {second}="), &[]);
    assert_eq!(drawn.line(0), "00000111".repeat(2_000) + "0");
}

#[test]
fn a_window_outside_of_all_that_is_known_is_unknown_time() {
    let drawn = drawn("0 ===", &[]);
    let window = GoWindow { goroutine: drawn.goroutine(0), from: stamp(50), to: stamp(60) };
    let path_of = |windows: &[GoWindow]| {
        let timeouts = wakepath_critical_path::Timeouts::Joined;
        path(&drawn.graph, &drawn.goroutines, windows, timeouts, &|_, _| GoWait::Other, &NoCalls)
    };
    let path = path_of(&[window]).expect("a window");
    assert!(path.path.tiles_window());
    assert_eq!(path.path.segments[0].kind, SegmentKind::Unknown);
    let empty = GoWindow { from: stamp(2), to: stamp(1), ..window };
    assert!(path_of(&[empty]).expect("a window").path.segments.is_empty());
    assert!(path_of(&[]).is_none());
}

#[test]
fn work_that_is_handed_over_has_the_path_of_each_goroutine_over_its_window_and_the_park_before_it_by_its_end()
{
    // The second goroutine waits for work until the first makes it ready; then the first waits for a time.
    let drawn = drawn("0 ====ssst\n1 =cc0====", &[]);
    let [first, second] = [0, 1].map(|number| drawn.goroutine(number));
    let window = |goroutine, from, to| GoWindow { goroutine, from: stamp(from), to: stamp(to) };
    let of = |windows: &[GoWindow]| {
        let timeouts = wakepath_critical_path::Timeouts::Joined;
        let path =
            path(&drawn.graph, &drawn.goroutines, windows, timeouts, &|_, _| GoWait::Channel, &NoCalls);
        let path = path.expect("a window");
        assert!(path.path.tiles_window(), "{path:#?}");
        let of = |(one, goroutine): (&Segment, &Option<GoroutineIndex>)| {
            (one.from, one.to, *goroutine, one.parent.is_some())
        };
        path.path.segments.iter().zip(&path.goroutines).map(of).collect::<Vec<_>>()
    };
    let handed = of(&[window(first, 0, 1), window(second, 1, 8)]);
    let at = stamp;
    assert_eq!(
        handed,
        [
            (at(0), at(1), Some(first), false),
            (at(1), at(4), Some(first), true),
            (at(4), at(8), Some(second), false),
        ]
    );
}

#[test]
fn reasons_are_known_by_the_names_of_the_runtime() {
    for (name, kind) in [
        ("sleep", GoWait::Sleep),
        ("IO wait", GoWait::Descriptor),
        ("sync.Mutex.Lock", GoWait::Lock),
        ("sync.RWMutex.RLock", GoWait::Lock),
        ("chan receive", GoWait::Channel),
        ("select", GoWait::Channel),
        ("chan send", GoWait::Other),
        ("sync.WaitGroup.Wait", GoWait::Other),
        ("GC assist wait", GoWait::Other),
        ("", GoWait::Other),
    ] {
        assert_eq!(GoWait::of(name.as_bytes()), kind, "{name}");
    }
}

#[test]
fn goroutines_that_made_each_other_ready_at_one_time_explain_nothing_and_end_the_walk() {
    check(
        "0 ==ll1==
         1 ==ll0==",
        0,
        "00???00",
    );
    check(
        "0 ==lll1==
         1 ==lll2==
         2 =cccc0==",
        0,
        "00????00",
    );
}

#[test]
fn a_step_that_was_not_recorded_is_called_that_only_where_no_record_was_lost() {
    // It runs, yields at column 4, and runs again: nothing shows when it yielded.
    let drawing = "0 ====qq===";
    for (losses, expected) in [(&[][..], Cause::StepUnrecorded), (&[(4, 5)], Cause::Lost)] {
        let drawn = drawn_without(drawing, losses, |(_, step)| step.step != GoStep::Yields);
        let path = drawn.path_of(0, 0, 9).path;
        let unknown: Vec<_> = path
            .segments
            .iter()
            .filter(|one| one.kind == SegmentKind::Unknown)
            .map(|one| &one.cause)
            .collect();
        assert!(!unknown.is_empty() && unknown.iter().all(|cause| **cause == expected), "{path:#?}");
    }
}
