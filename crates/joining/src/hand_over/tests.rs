//! The paths of requests that threads hand over to each other.

mod called;
mod pool;
mod turns;

use std::fmt::Write as _;

use wakepath_critical_path::{Algorithm, Timeouts, active_with};

use super::*;
use crate::testing::{Made, at, made};

/// The path's parts for a handed-over request: each part's end, thread, and kind; `None` if a single thread has it.
fn path(made: &Made, asked: &str) -> Option<String> {
    let (joined, request) = (made.joined(), made.request(asked));
    let (from, to) = joined.times(request);
    let of_thread = |window, hand_overs: &dyn HandOvers| {
        active_with(&made.recorded.graph, window, Timeouts::AsTheyAre, hand_overs)
    };
    let path = path_handed_over(&joined, request, (from, to), Algorithm::Active, of_thread)?;
    assert!(path.tiles_window());
    let mut text = String::new();
    for segment in &path.segments {
        let thread = segment.thread.map_or("-".into(), |thread| made.name(thread));
        let _ = write!(text, "{} {thread} {}; ", segment.to.ns(), segment.kind.name());
    }
    Some(text)
}

/// `reader` hands `a/a` over at 200, while `worker` works for `c/c` until 500; then `worker` picks `a/a` up.
const BUSY: &str = "
    host web3 realtime=1000000
    thread reader tid=10 blocked
    thread worker tid=11 tgid=10
    0 c1 idle started
    0 c1 idle switch worker
    50 c1 worker context c/c
    50 c1 worker waking reader
    50 c0 idle switch reader
    100 c0 reader context a/a
    200 c0 reader context a/a
    200 c0 reader waking worker
    201 c0 reader context none
    201 c0 reader switch idle blocked
    500 c1 worker context c/c
    501 c1 worker context a/a
    800 c1 worker context a/a
    800 c1 worker switch idle blocked
    900 c0 idle stopped
";

const SPANS: &str = "service s
    a/a 1000100..1000800
    c/c 1000020..1000500";

#[test]
fn a_request_that_was_handed_over_to_a_busy_thread_was_in_its_queue() {
    // The request waits in the queue while the worker works for another request.
    let found = path(&made(BUSY, SPANS), "a/a");
    assert_eq!(found.as_deref(), Some("201 reader running; 500 worker queue; 800 worker running; "));
}

#[test]
fn a_request_that_one_thread_has_has_no_path_of_several() {
    let spans = "service s\nc/c 1000020..1000500\na/a 1000510..1000800";
    assert_eq!(path(&made(BUSY, spans), "a/a"), None);
    assert_eq!(path(&made(BUSY, SPANS), "c/c"), None);
}

/// Two threads that hand a request to each other `count` times, 100 ns each.
fn handed_over(count: u64) -> Made {
    let end = 100 * (count + 1);
    let mut host = String::from(
        "host web3 realtime=1000000\nthread even tid=10\nthread odd tid=11 tgid=10 blocked\n0 c0 idle started\n0 c0 idle switch even\n",
    );
    for nth in 0..count {
        let (from, to) = (100 * nth, 100 * (nth + 1));
        let (own, other) = if nth.is_multiple_of(2) { ("even", "odd") } else { ("odd", "even") };
        let _ = writeln!(host, "{} c0 {own} context a/a", from + 10);
        let _ = writeln!(host, "{} c0 {own} context a/a\n{} c0 {own} waking {other}", to - 10, to - 10);
        let _ =
            writeln!(host, "{} c0 {own} context none\n{} c0 {own} switch {other} blocked", to - 5, to - 5);
    }
    let last = if count.is_multiple_of(2) { "even" } else { "odd" };
    let _ = writeln!(
        host,
        "{end} c0 {last} context none\n{end} c0 {last} switch idle blocked\n{end} c0 idle stopped"
    );
    made(&host, &format!("service s\na/a 1000010..{}", 1_000_000 + 100 * count - 10))
}

#[test]
fn a_request_of_any_number_of_stints_has_the_path_of_its_threads() {
    for count in [2, 700, 3_000] {
        let made = handed_over(count);
        let stints = made.joined().contexts.stints(made.request("a/a")).len();
        assert!(stints as u64 >= count, "{stints}");
        let path =
            path(&made, "a/a").unwrap_or_else(|| panic!("{count} hand-overs are a path of two threads"));
        for name in ["even", "odd"] {
            let parts =
                path.split("; ").filter(|part| part.ends_with(&format!("{name} running"))).count() as u64;
            assert!(parts >= count / 2, "{parts} of {count} for {name}");
        }
    }
}

#[test]
fn the_last_call_that_was_under_way_and_the_first_note_of_a_queue_are_looked_up() {
    let made = made(
        BUSY,
        "service s
        a/a 1000100..1000800
        a/1 < a 1000150..1000300 client
        a/2 < a 1000190..1000400 client
        a/3 < a 1000250..1000450 client
        a/4 < a 1000120..1000420
        a/5 < a 1000130..1000140 queued=1000139
        a/6 < a 1000130..1000180 queued=1000170",
    );
    let joined = made.joined();
    let walk = Walk { joined: &joined, request: made.request("a/a"), calls: OnceCell::new() };
    for (from, to, expected) in [
        (200, 500, Some(400)),
        (200, 400, Some(400)),
        (200, 399, Some(300)),
        (250, 500, Some(450)),
        (190, 500, Some(400)),
        (189, 500, Some(300)),
        (300, 350, None),
        (400, 500, Some(450)),
        (450, 500, None),
        (100, 500, None),
    ] {
        assert_eq!(walk.answered(at(from), at(to)).map(Stamp::ns), expected, "{from} {to}");
    }
    for (from, taken, expected) in [(138, 500, false), (139, 500, true), (300, 500, true), (300, 300, false)]
    {
        assert_eq!(walk.queued(at(from), at(taken)), expected, "{from} {taken}");
    }
}

#[test]
fn a_hand_over_between_threads_without_contexts_is_known_by_the_programs_own_notes() {
    let host = "
        host web3 realtime=1000000
        thread reader tid=10
        thread worker tid=11 tgid=10
        0 c0 idle started
        0 c0 idle switch reader
        0 c1 idle switch worker
        900 c0 reader switch idle blocked
        900 c1 worker switch idle blocked
        1000 c0 idle stopped";
    for (spans, expected) in [
        (
            "a/a 1000100..1000800 tid=10 queued=1000300\na/b < a 1000500..1000800 tid=11",
            "300 reader running; 500 worker running; 800 worker running; ",
        ),
        // Turns that are noted are hand-overs too.
        (
            "a/a 1000100..1000800 tid=10 turns=10@1000100..1000300,11@1000500..1000800",
            "300 reader running; 500 worker running; 800 worker running; ",
        ),
        // Without such a note the thread may wait for a part in another thread.
        ("a/a 1000100..1000800 tid=10\na/b < a 1000500..1000800 tid=11", "one thread"),
        // The other thread works for another request.
        ("a/a 1000100..1000800 tid=10 queued=1000300\nb/b 1000500..1000800 tid=11", "one thread"),
    ] {
        let found = path(&made(host, &format!("service s\n{spans}")), "a/a");
        assert_eq!(found.as_deref().unwrap_or("one thread"), expected, "{spans}");
    }
}

#[test]
fn a_queue_is_measured_where_its_beginning_was_noted_and_the_next_threads_other_work_was_read() {
    // The worker sleeps for `c/c` from 300 on, and runs again from 450 on.
    let host = BUSY.replace(
        "500 c1 worker context c/c",
        "300 c1 worker context c/c\n300 c1 worker switch idle blocked\n450 c3 idle waking worker\n450 c1 idle switch worker\n500 c1 worker context c/c",
    );
    for (queued, expected) in [
        ("queued=1000201", ["201..300 inferred", "300..450 measured", "450..500 inferred"]),
        // The note lies behind the hand-over, and says nothing about the time before.
        ("queued=1000202", ["201..300 inferred", "300..450 inferred", "450..500 inferred"]),
        ("", ["201..300 inferred", "300..450 inferred", "450..500 inferred"]),
    ] {
        let made = made(&host, &format!("service s\na/a 1000100..1000800 {queued}\nc/c 1000020..1000500"));
        let joined = made.joined();
        let walk = Walk { joined: &joined, request: made.request("a/a"), calls: OnceCell::new() };
        let turn = Turn { thread: made.thread("worker"), waits_since: at(201), from: at(500), to: at(800) };
        let mut had = Vec::new();
        walk.hand_over(None, &turn, &mut had);
        let parts = had.iter().map(|part| match part {
            Had::NoThread { from, to, kind: SegmentKind::Queue, basis, .. } => {
                let basis = match basis {
                    Basis::Measured => "measured",
                    Basis::Inferred(Rule::HandedOver) => "inferred",
                    other => panic!("{other:?}"),
                };
                format!("{}..{} {basis}", from.ns(), to.ns())
            }
            other => panic!("{other:?}"),
        });
        assert_eq!(parts.collect::<Vec<_>>(), expected, "{queued}");
    }
}

#[test]
fn a_wait_for_a_request_that_threads_handed_over_more_than_a_thousand_times_has_no_parts() {
    for (count, is_followed) in [(1_024, true), (1_025, false)] {
        let made = handed_over(count);
        let (joined, request) = (made.joined(), made.request("a/a"));
        assert_eq!(joined.contexts.stints(request).len() as u64, count);
        let (from, to) = joined.times(request);
        assert!(had(&joined, request, Of::Itself, from, to).is_some(), "{count}");
        assert_eq!(had(&joined, request, Of::Caller, from, to).is_some(), is_followed, "{count}");
    }
}
