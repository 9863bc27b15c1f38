//! Paths over drawn threads. See `wakepath_scenario::draw` for the drawings; a path is drawn as a character
//! per column: the running thread's row, else the kind of time.

use wakepath_clock::Stamp;
use wakepath_critical_path::{Cause, Path, SegmentKind, Window, active, exact};
use wakepath_event::{Event, EventKind, Tid};
use wakepath_scenario::{Drawing, STEP, draw};
use wakepath_wait_graph::{Graph, ThreadIndex};

/// A drawing's graph, and its row 0 from beginning to end.
fn graph(drawing: &Drawing) -> (Graph, Window) {
    let graph: Graph = drawing.events.iter().collect();
    let (thread, _) = graph.with_tid(drawing.tids[0]).next().expect("row 0 is in the graph");
    (graph, Window { thread, from: Stamp::from_ns(0), to: Stamp::from_ns(drawing.end) })
}

/// A path as a line, a column per step. Asserts that the parts add up.
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
            (SegmentKind::Queue, _) => 'q',
            (SegmentKind::Stopped, _) => 'z',
            (SegmentKind::OtherDevice, _) => 'd',
            (SegmentKind::Unknown, Cause::NotAlive) => '_',
            (SegmentKind::Unknown, _) => '?',
        };
        line.extend(std::iter::repeat_n(mark, (segment.to.since(segment.from) / STEP) as usize));
    }
    line
}

/// The active path of row 0.
#[track_caller]
fn check(what: &str, drawing: &Drawing, expected: &str) {
    let (graph, window) = graph(drawing);
    assert_eq!(line(&graph, &active(&graph, window)), expected, "{what}");
}

/// G15 figure 4.2 with both columns of table 4.1.
#[test]
fn basic_graphs_have_the_paths_of_the_table() {
    for (what, drawing, expected_exact, expected_active) in [
        (
            "a: one task wakes another and waits for it",
            "0 ====...1==
             1 .0======..",
            "0011111100",
            "0000111100",
        ),
        (
            "b: the same twice",
            "0 ====...1====...2==
             1 .0======..........
             2 .........0======..",
            "001111110022222200",
            "000011110000222200",
        ),
        (
            "c: several started at once",
            "0 ======..1=...2==
             1 .0=======.......
             2 ...0==========..",
            "0000222222222200",
            "0000001110222200",
        ),
        (
            "d: nested",
            "0 ====.........1==
             1 .0====...2====..
             2 ...1======......",
            "0011222222111100",
            "0000112222111100",
        ),
        (
            "e: never waited for",
            "0 ======
             1 .0====",
            "000000",
            "000000",
        ),
        (
            "f: a lock or a barrier",
            "0 =====..1==
             1 ========..",
            "1111111100",
            "0000011100",
        ),
    ] {
        let drawing = draw(drawing);
        let (graph, window) = graph(&drawing);
        assert_eq!(line(&graph, &exact(&graph, window)), expected_exact, "{what}, exact");
        check(what, &drawing, expected_active);
    }
}

#[test]
fn the_active_path_has_what_led_to_the_end_of_each_wait() {
    for (what, drawing, expected) in [
        (
            "a waiter of a waiter reaches the bottom",
            "0 =.....1=
             1 ==...2==
             2 ========",
            "01222210",
        ),
        ("a wake-up without a record stays unexplained", "0 ==....==", "00????00"),
        (
            "an interrupt is not charged to the thread that it interrupts",
            "0@0 ==..n=
             1@0 .0===r",
            "00nnn0",
        ),
        (
            "a runnable thread waits for the thread that has the CPU",
            "0@0 ==rr===
             1@0 .0==...",
            "00rr000",
        ),
        (
            "a limit is not the neighbour's fault",
            "0@0 ==xxx==
             1@0 .0==...",
            "00xxx00",
        ),
        (
            "a thread that was born within the wait leads to the thread that forked it",
            "0 ==......1=
             1 ____2====.
             2 .0====....",
            "0022211110",
        ),
        (
            "before its birth a thread is not alive",
            "0 __1====
             1 =======",
            "___0000",
        ),
        (
            "after its death a thread is not alive",
            "0 ===___
             1 ======",
            "000___",
        ),
    ] {
        check(what, &draw(drawing), expected);
    }
}

#[test]
fn each_interrupt_is_named() {
    for (contexts, kind) in [("thm", 't'), ("b", 'b'), ("n", 'n'), ("cdiwsu", 'd')] {
        for context in contexts.chars() {
            let drawing = draw(&format!("0 ==..{context}=="));
            check(&format!("interrupt {context}"), &drawing, &format!("00{kind}{kind}{kind}00"));
        }
    }
}

#[test]
fn a_switch_that_was_lost_leaves_both_threads_unknown() {
    let mut drawing = draw("0 ===..t=");
    let is_switch_out =
        |event: &Event| event.current == Tid(100) && matches!(event.kind, EventKind::Switch { .. });
    let index = drawing.events.iter().position(is_switch_out).expect("a switch-out of 0");
    // Unknown from the thread's last record until the next record proves its state.
    drawing.events.remove(index);
    check("the switch-out of 0 has no record", &drawing, "??????0");
}
