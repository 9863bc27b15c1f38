//! Paths over drawn threads. See `wakepath_scenario::draw` for the drawings; a path is drawn as
//! one character a column: the row of the thread that ran, else what the time went to.

use wakepath_clock::Stamp;
use wakepath_critical_path::{Cause, Path, SegmentKind, Window, active, exact};
use wakepath_event::{Event, EventKind, Tid};
use wakepath_scenario::{Drawing, STEP, draw};
use wakepath_wait_graph::{Graph, ThreadIndex};

fn window(graph: &Graph, drawing: &Drawing) -> Window {
    let (thread, _) = graph.with_tid(drawing.tids[0]).next().expect("row 0 is in the graph");
    Window { thread, from: Stamp::from_ns(0), to: Stamp::from_ns(drawing.end) }
}

/// A path as a line, a column a step. Asserts that the parts add up.
fn line(graph: &Graph, path: &Path) -> String {
    assert!(path.tiles_window(), "{path:#?}");
    let mut line = String::new();
    for segment in &path.segments {
        assert_eq!((segment.from.ns() % STEP, segment.to.ns() % STEP), (0, 0), "whole columns: {path:#?}");
        let thread = |thread: ThreadIndex| graph.thread(thread).tid().0 - 100;
        let mark = match (segment.kind, &segment.cause) {
            (SegmentKind::Running, _) => {
                char::from_digit(thread(segment.thread.expect("a running thread")), 10).expect("a digit")
            }
            (SegmentKind::Runnable, _) => 'r',
            (SegmentKind::Throttled, _) => 'x',
            (SegmentKind::Interrupted, _) => 'i',
            (SegmentKind::Stolen, _) => 's',
            (SegmentKind::Timer, _) => 't',
            (SegmentKind::BlockDevice, _) => 'b',
            (SegmentKind::Network, _) => 'n',
            (SegmentKind::Lock, _) => 'l',
            (SegmentKind::UserInput, _) => 'u',
            (SegmentKind::OtherDevice, _) => 'd',
            (SegmentKind::Unknown, Cause::NotAlive) => '_',
            (SegmentKind::Unknown, _) => '?',
        };
        line.extend(std::iter::repeat_n(mark, (segment.to.since(segment.from) / STEP) as usize));
    }
    line
}

/// The active path of row 0.
fn check(drawing: &str, expected: &str) {
    let drawing = draw(drawing);
    let graph: Graph = drawing.events.iter().collect();
    assert_eq!(line(&graph, &active(&graph, window(&graph, &drawing))), expected);
}

/// Both paths of row 0.
fn check_both(drawing: &str, expected_exact: &str, expected_active: &str) {
    let scene = draw(drawing);
    let graph: Graph = scene.events.iter().collect();
    assert_eq!(line(&graph, &exact(&graph, window(&graph, &scene))), expected_exact, "exact");
    check(drawing, expected_active);
}

/// The active path of row 0 after the first event that `lost` picks did not reach the recording,
/// and nobody noticed.
fn check_without(drawing: &str, lost: impl Fn(&Event) -> bool, expected: &str) {
    let mut drawing = draw(drawing);
    let index = drawing.events.iter().position(lost).expect("an event to lose");
    drawing.events.remove(index);
    let graph: Graph = drawing.events.iter().collect();
    assert_eq!(line(&graph, &active(&graph, window(&graph, &drawing))), expected);
}

mod basic_graphs {
    //! G15 figure 4.2 with both columns of table 4.1.
    use super::check_both;

    #[test]
    fn a_one_task_wakes_another_and_waits_for_it() {
        check_both(
            "0 ====...1==
             1 .0======..",
            "0011111100",
            "0000111100",
        );
    }

    #[test]
    fn b_the_same_twice() {
        check_both(
            "0 ====...1====...2==
             1 .0======..........
             2 .........0======..",
            "001111110022222200",
            "000011110000222200",
        );
    }

    #[test]
    fn c_several_started_at_once() {
        check_both(
            "0 ======..1=...2==
             1 .0=======.......
             2 ...0==========..",
            "0000222222222200",
            "0000001110222200",
        );
    }

    #[test]
    fn d_nested() {
        check_both(
            "0 ====.........1==
             1 .0====...2====..
             2 ...1======......",
            "0011222222111100",
            "0000112222111100",
        );
    }

    #[test]
    fn e_never_waited_for() {
        check_both(
            "0 ======
             1 .0====",
            "000000",
            "000000",
        );
    }

    #[test]
    fn f_a_lock_or_a_barrier() {
        check_both(
            "0 =====..1==
             1 ========..",
            "1111111100",
            "0000011100",
        );
    }
}

#[test]
fn a_waiter_of_a_waiter_reaches_the_bottom() {
    check(
        "0 =.....1=
         1 ==...2==
         2 ========",
        "01222210",
    );
}

#[test]
fn a_wakeup_nobody_saw_stays_unexplained() {
    check("0 ==....==", "00????00");
}

#[test]
fn each_interrupt_is_named() {
    for (context, kind) in [
        ('t', 't'),
        ('h', 't'),
        ('m', 't'),
        ('b', 'b'),
        ('n', 'n'),
        ('c', 'd'),
        ('d', 'd'),
        ('i', 'd'),
        ('w', 'd'),
        ('s', 'd'),
        ('u', 'd'),
    ] {
        check(&format!("0 ==..{context}=="), &format!("00{kind}{kind}{kind}00"));
    }
}

#[test]
fn an_interrupt_is_not_charged_to_whom_it_interrupted() {
    check(
        "0@0 ==..n=
         1@0 .0===r",
        "00nnn0",
    );
}

#[test]
fn who_has_the_cpu_is_why_a_runnable_thread_waits() {
    check(
        "0@0 ==rr===
         1@0 .0==...",
        "00rr000",
    );
}

#[test]
fn a_limit_is_not_the_neighbours_fault() {
    check(
        "0@0 ==xxx==
         1@0 .0==...",
        "00xxx00",
    );
}

#[test]
fn a_thread_that_was_born_within_the_wait_leads_to_who_forked_it() {
    check(
        "0 ==......1=
         1 ____2====.
         2 .0====....",
        "0022211110",
    );
}

#[test]
fn before_its_birth_a_thread_is_not_alive() {
    check(
        "0 __1====
         1 =======",
        "___0000",
    );
}

#[test]
fn after_its_death_a_thread_is_not_alive() {
    check(
        "0 ===___
         1 ======",
        "000___",
    );
}

#[test]
fn a_switch_that_was_lost_leaves_both_threads_unknown() {
    let switch_out = |tid: u32| {
        move |event: &Event| event.current == Tid(tid) && matches!(event.kind, EventKind::Switch { .. })
    };
    // The switch-out of 0 has no record: unknown from its last record until the next one proves its state.
    check_without("0 ===..t=", switch_out(100), "??????0");
}
