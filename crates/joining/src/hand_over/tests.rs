//! The paths of requests that threads hand over to each other.

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

const A: ThreadIndex = ThreadIndex(0);
const B: ThreadIndex = ThreadIndex(1);

/// The turns from 0 to 100 for these stints, each as its thread, wait since, beginning and end.
fn found(stints: &[(ThreadIndex, u64, u64)]) -> Vec<(ThreadIndex, u64, u64, u64)> {
    let at = Stamp::from_ns;
    let stints: Vec<RequestStint> = stints
        .iter()
        .map(|&(thread, from, to)| RequestStint { from: at(from), to: at(to), thread })
        .collect();
    let turns = turns(&stints, at(0), at(100));
    turns.iter().map(|turn| (turn.thread, turn.waits_since.ns(), turn.from.ns(), turn.to.ns())).collect()
}

#[test]
fn the_longest_holder_has_the_turn_when_two_threads_have_a_request_at_once() {
    assert_eq!(found(&[(A, 0, 100), (B, 50, 100)]), [(A, 0, 0, 100)]);
    assert_eq!(found(&[(A, 20, 60), (B, 10, 60), (A, 80, 100)]), [(B, 0, 0, 60), (A, 60, 60, 100)]);
}

#[test]
fn a_thread_that_turns_to_something_else_and_back_has_one_turn() {
    assert_eq!(found(&[(A, 10, 20), (A, 40, 50), (B, 60, 100)]), [(A, 0, 0, 50), (B, 50, 60, 100)]);
}

#[test]
fn behind_its_last_stint_a_thread_still_has_the_request() {
    assert_eq!(found(&[(A, 0, 30), (B, 40, 90)]), [(A, 0, 0, 30), (B, 30, 40, 100)]);
    assert_eq!(found(&[]), []);
    // A stint before all of the time says nothing.
    assert_eq!(found(&[(B, 0, 0), (A, 40, 100)]), [(A, 0, 0, 100)]);
}

#[test]
fn the_turns_of_many_stints_are_those_that_a_look_at_all_of_them_finds_at_each_step() {
    /// The threads with the turns, and their beginnings, the last first, by looking at all stints at each step.
    fn slowly(stints: &[RequestStint]) -> Vec<(ThreadIndex, Stamp<Reference>)> {
        let (mut found, mut at): (Vec<(ThreadIndex, _)>, _) = (Vec::new(), Stamp::from_ns(100));
        while at > Stamp::MIN {
            let begun = || stints.iter().filter(|stint| stint.from < at);
            let covering = begun().filter(|one| one.to >= at).min_by_key(|one| (one.from, one.thread));
            let before = begun().max_by_key(|one| (one.to, Reverse(one.thread)));
            match (covering, before, found.last_mut()) {
                (Some(stint), _, Some(next)) if *next == (stint.thread, at) => next.1 = stint.from,
                (Some(stint), ..) => found.push((stint.thread, stint.from)),
                (None, Some(stint), None) => found.push((stint.thread, stint.to)),
                (None, Some(stint), Some(next)) if next.0 == stint.thread => next.1 = stint.to,
                (None, Some(_), Some(_)) => {}
                (None, None, Some(next)) => next.1 = Stamp::MIN,
                (None, None, None) => {}
            }
            at = covering.map(|one| one.from).or(before.map(|one| one.to)).unwrap_or(Stamp::MIN);
        }
        found
    }
    let mut seed = 1_u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for _ in 0..2_000 {
        let stints: Vec<RequestStint> = (0..1 + random(12))
            .map(|_| {
                let from = random(110);
                let thread = ThreadIndex(random(3) as u32);
                RequestStint { from: Stamp::from_ns(from), to: Stamp::from_ns(from + 1 + random(30)), thread }
            })
            .collect();
        let turns = turns(&stints, Stamp::from_ns(0), Stamp::from_ns(100));
        let found: Vec<_> = turns.iter().rev().map(|turn| (turn.thread, turn.from)).collect();
        assert_eq!(found, slowly(&stints), "{stints:?}");
        let mut at = 0;
        for turn in &turns {
            assert_eq!(turn.waits_since.ns(), at, "they tile it: {turns:?} of {stints:?}");
            assert!(turn.waits_since <= turn.from && turn.from <= turn.to);
            at = turn.to.ns();
        }
        assert!(turns.is_empty() || at == 100, "{turns:?} of {stints:?}");
    }
}

#[test]
fn parts_tile_only_where_each_begins_at_the_end_of_the_one_before() {
    let part = |from, to| Had::Thread { thread: A, from: Stamp::from_ns(from), to: Stamp::from_ns(to) };
    let tiles = |had: &[Had]| tiles(had, Stamp::from_ns(10), Stamp::from_ns(30));
    assert!(tiles(&[part(10, 20), part(20, 30)]));
    assert!(!tiles(&[]) && !tiles(&[part(10, 20)]) && !tiles(&[part(11, 30)]));
    assert!(!tiles(&[part(10, 10), part(10, 30)]));
    assert!(!tiles(&[part(10, 20), part(21, 30)]) && !tiles(&[part(10, 25), part(25, 20), part(20, 30)]));
}

/// A pool: `reader` begins with the requests, `one` and `two` wait for work until they are woken.
const POOL: &str = "
    host web3 realtime=1000000
    thread reader tid=10
    thread one tid=11 tgid=10
    thread two tid=12 tgid=10
    0 c0 idle started
    0 c0 idle switch reader
    0 c1 idle switch one
    0 c2 idle switch two
    10 c1 one context none
    10 c1 one switch idle blocked call=202:0x1000
    10 c2 two context none
    10 c2 two switch idle blocked call=202:0x1000
    100 c0 reader context a/a
    100 c0 reader waking reader
    EVENTS
    1000 c0 idle stopped
";

/// The path of `a/a` from 100 to 800 in such a pool; each other request lasts as long.
fn in_pool(events: &str, more: &str) -> Option<String> {
    let spans =
        format!("service s\na/a 1000090..1000800\nb/b 1000090..1000950\nc/c 1000090..1000950\n{more}");
    path(&made(&POOL.replace("EVENTS", events), &spans), "a/a")
}

#[test]
fn a_thread_that_was_woken_for_a_request_did_not_keep_it_waiting_before() {
    for (what, events, expected) in [
        (
            "the waker",
            "
            180 c0 reader context a/a
            180 c0 reader waking reader
            190 c0 reader context b/b
            300 c0 reader context b/b
            300 c0 reader waking one
            310 c1 idle switch one
            400 c1 one context a/a
            400 c1 one waking one
            900 c1 one context a/a
            900 c1 one switch idle blocked call=202:0x1000
            900 c0 reader context b/b
            900 c0 reader switch idle blocked",
            "180 reader running; 300 reader running; 310 one runnable; 800 one running; ",
        ),
        (
            "the waker slept",
            "
            180 c0 reader context a/a
            180 c0 reader waking reader
            190 c0 reader context none
            190 c0 reader switch idle blocked call=202:0x2000
            250 c3 idle waking reader
            250 c0 idle switch reader
            260 c0 reader context b/b
            300 c0 reader context b/b
            300 c0 reader waking one
            310 c1 idle switch one
            400 c1 one context a/a
            400 c1 one waking one
            900 c1 one context a/a
            900 c1 one switch idle blocked call=202:0x1000
            900 c0 reader context b/b
            900 c0 reader switch idle blocked",
            "190 reader running; 300 one unknown; 310 one runnable; 800 one running; ",
        ),
        (
            "the first woken",
            "
            180 c0 reader context a/a
            180 c0 reader waking one
            190 c0 reader context none
            190 c0 reader waking reader
            290 c0 reader context b/b
            290 c0 reader waking reader
            300 c0 reader context b/b
            300 c0 reader waking two
            310 c2 idle switch two
            400 c2 two context a/a
            400 c2 two waking two
            500 c1 idle switch one
            510 c1 one context b/b
            900 c2 two context a/a
            900 c2 two switch idle blocked call=202:0x1000
            900 c1 one context b/b
            900 c1 one switch idle blocked call=202:0x1000
            900 c0 reader context b/b
            900 c0 reader switch idle blocked",
            "190 reader running; 300 one runnable; 310 two runnable; 800 two running; ",
        ),
    ] {
        assert_eq!(in_pool(events, "").as_deref(), Some(expected), "{what}");
    }
}

#[test]
fn a_call_under_way_was_waited_for_whatever_the_next_thread_did() {
    let events = "
        180 c0 reader context a/a
        180 c0 reader waking reader
        190 c0 reader context b/b
        300 c0 reader context b/b
        300 c0 reader waking one
        310 c1 idle switch one
        400 c1 one context a/a
        400 c1 one waking one
        900 c1 one context a/a
        900 c1 one switch idle blocked call=202:0x1000
        900 c0 reader context b/b
        900 c0 reader switch idle blocked";
    for (call, expected) in [
        (
            "a/1 < a 1000170..1000250 client",
            "180 reader running; 250 one network; 300 reader running; 310 one runnable; 800 one running; ",
        ),
        (
            "a/1 < a 1000170..1000350 client",
            "180 reader running; 300 reader running; 310 one runnable; 800 one running; ",
        ),
        (
            "a/1 < a 1000170..1000450 client",
            "180 reader running; 300 reader running; 310 one runnable; 800 one running; ",
        ),
    ] {
        assert_eq!(in_pool(events, call).as_deref(), Some(expected), "{call}");
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

/// `caller` calls at 100 and waits for `worker`, which works for `e/e` before it takes the call up; `reader` gets the call first.
const CALLED: &str = "
    host web3 realtime=1000000
    thread caller tid=10
    thread reader tid=20 blocked
    thread worker tid=21 tgid=20
    0 c0 idle started
    0 c0 idle switch caller
    0 c1 idle switch worker
    10 c1 worker context FIRST
    10 c1 worker BEGINS
    50 c0 caller context a/a
    50 c0 caller waking caller
    100 c0 caller context a/a
    100 c0 caller waking reader
    105 c0 caller context a/a
    105 c0 caller switch idle blocked
    160 c2 idle switch reader
    165 c2 reader context READ
    165 c2 reader waking reader
    230 c2 reader context READ
    230 c2 reader WAKES
    240 c2 reader context none
    240 c2 reader switch idle blocked
    MEANWHILE
    400 c1 worker context FIRST
    400 c1 worker waking worker
    405 c1 worker context HAD
    405 c1 worker waking worker
    600 c1 worker context HAD
    600 c1 worker waking caller
    605 c0 idle switch caller
    610 c1 worker context none
    610 c1 worker switch idle blocked
    700 c0 caller context a/a
    700 c0 caller switch idle blocked
    1000 c0 idle stopped
";

/// The path for `a/a`, whose thread waits for a called service.
fn callers_path(changes: &[(&str, &str)], spans: &str) -> String {
    let usual = [
        ("FIRST", "e/e"),
        ("BEGINS", "waking worker"),
        ("READ", "a/b"),
        ("WAKES", "waking reader"),
        ("MEANWHILE", ""),
        ("HAD", "a/b"),
    ];
    let all = changes.iter().chain(&usual);
    let host = all.fold(CALLED.to_owned(), |host, (word, text)| host.replace(word, text));
    let made = made(&host, &format!("service web\na/a 1000040..1000700\nservice s\n{spans}"));
    let (joined, request) = (made.joined(), made.request("a/a"));
    let (from, to) = joined.times(request);
    let window = Window { thread: made.thread("caller"), from, to };
    let path =
        active_with(&made.recorded.graph, window, Timeouts::AsTheyAre, &InServices { joined: &joined });
    assert!(path.tiles_window());
    let mut text = String::new();
    for segment in &path.segments {
        let thread = segment.thread.map_or("-".into(), |thread| made.name(thread));
        let _ = write!(text, "{} {thread} {}; ", segment.to.ns(), segment.kind.name());
    }
    text
}

#[test]
fn a_called_service_has_the_path_of_the_threads_that_had_the_call() {
    const CALL: &str = "a/b < a 1000160..1000610 server";
    const OTHER: &str = "e/e 1000005..1000402";
    let idle = [
        ("FIRST", "none"),
        ("BEGINS", "switch idle blocked"),
        ("WAKES", "waking worker"),
        ("MEANWHILE", "300 c1 idle switch worker"),
    ];
    let woken_late = [
        ("FIRST", "e/e"),
        ("BEGINS", "waking worker"),
        (
            "MEANWHILE",
            "250 c1 worker context none\n250 c1 worker switch idle blocked\n270 c1 idle switch worker",
        ),
    ];
    for (what, changes, spans, expected) in [
        (
            "busy",
            &[][..],
            format!("{CALL}\n{OTHER}"),
            "105 caller running; 240 worker running; 402 worker queue; 600 worker running; 605 caller runnable; 700 caller running; ",
        ),
        (
            "what it did before is not known",
            &[("FIRST", "unknown")],
            CALL.into(),
            "105 caller running; 160 reader runnable; 240 reader running; 405 worker running; 600 worker running; 605 caller runnable; 700 caller running; ",
        ),
        (
            "idle",
            &idle,
            CALL.into(),
            "105 caller running; 160 reader runnable; 240 reader running; 300 worker runnable; 400 worker running; 600 worker running; 605 caller runnable; 700 caller running; ",
        ),
        (
            "idle between",
            &woken_late,
            format!("{CALL}\n{OTHER}"),
            "105 caller running; 160 reader runnable; 240 reader running; 250 worker running; 270 worker runnable; 402 worker queue; 600 worker running; 605 caller runnable; 700 caller running; ",
        ),
        (
            "by the span's thread",
            &[("READ", "none")],
            format!("{CALL} tid=20\n{OTHER}"),
            "105 caller running; 161 worker running; 402 worker queue; 600 worker running; 605 caller runnable; 700 caller running; ",
        ),
        (
            "another request",
            &[],
            format!("b/b 1000160..1000610 server\n{OTHER}"),
            "105 caller running; 600 worker running; 605 caller runnable; 700 caller running; ",
        ),
        (
            "another had it last",
            &[("HAD", "e/e")],
            format!("{CALL}\ne/e 1000005..1000650"),
            "105 caller running; 600 worker running; 605 caller runnable; 700 caller running; ",
        ),
        (
            "a call by another",
            &[],
            format!(
                "c/c 1000000..1000700\na/c < d 1000160..1000610\na/b < c 1000160..1000610 server\n{OTHER}"
            ),
            "105 caller running; 600 worker running; 605 caller runnable; 700 caller running; ",
        ),
    ] {
        assert_eq!(callers_path(changes, &spans), expected, "{what}");
    }
}
