//! Requests handed over between a called service's threads.

use super::*;

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
    400 c1 worker context THEN
    400 c1 worker waking worker
    405 c1 worker context HAD
    405 c1 worker waking worker
    LATER
    600 c1 worker context ENDS
    600 c1 worker waking caller
    605 c0 idle switch caller
    610 c1 worker context none
    610 c1 worker switch idle blocked
    700 c0 caller context a/a
    700 c0 caller switch idle blocked
    1000 c0 idle stopped
";

const CALL: &str = "a/b < a 1000160..1000610 server";
const OTHER: &str = "e/e 1000005..1000402";

/// The worker hands the call back at 450, and wakes the caller for something else.
const HANDED_BACK: [(&str, &str); 2] = [
    (
        "LATER",
        "450 c1 worker context none\n450 c1 worker waking reader\n455 c2 idle switch reader\n460 c2 reader context a/b\n460 c2 reader waking reader\n650 c2 reader context a/b\n650 c2 reader switch idle blocked",
    ),
    ("ENDS", "none"),
];

/// The recording with these changes, and these spans of the called service.
fn called(changes: &[(&str, &str)], spans: &str) -> Made {
    let derived = [("THEN", "FIRST"), ("ENDS", "HAD")];
    let usual = [
        ("FIRST", "e/e"),
        ("BEGINS", "waking worker"),
        ("READ", "a/b"),
        ("WAKES", "waking reader"),
        ("MEANWHILE", ""),
        ("LATER", ""),
        ("HAD", "a/b"),
    ];
    let all = changes.iter().chain(&derived).chain(changes).chain(&usual);
    let host = all.fold(CALLED.to_owned(), |host, (word, text)| host.replace(word, text));
    made(&host, &format!("service web\na/a 1000040..1000700\nservice s\n{spans}"))
}

/// The path for `a/a`, whose thread waits for a called service.
fn callers_path(changes: &[(&str, &str)], spans: &str) -> String {
    let made = called(changes, spans);
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
            "250 c1 worker context none\n250 c1 worker switch idle blocked\n265 c3 idle waking worker\n270 c1 idle switch worker",
        ),
    ];
    let woken_early = [
        ("THEN", "e/e"),
        ("FIRST", "none"),
        ("BEGINS", "switch idle blocked"),
        (
            "MEANWHILE",
            "140 c3 idle waking worker\n150 c1 idle switch worker\n200 c1 worker context e/e\n200 c1 worker waking worker",
        ),
    ];
    let woken_then = [
        ("THEN", "e/e"),
        ("FIRST", "none"),
        ("BEGINS", "switch idle blocked"),
        (
            "MEANWHILE",
            "235 c3 idle waking worker\n240 c1 idle switch worker\n250 c1 worker context e/e\n250 c1 worker waking worker",
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
            "the reader waited for work before",
            &[
                ("FIRST", "unknown"),
                (
                    "50 c0 caller context",
                    "15 c3 idle waking reader\n20 c2 idle switch reader\n30 c2 reader context none\n30 c2 reader switch idle blocked\n50 c0 caller context",
                ),
            ],
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
            "105 caller running; 160 reader runnable; 240 reader running; 265 caller unknown; 270 worker runnable; 402 worker queue; 600 worker running; 605 caller runnable; 700 caller running; ",
        ),
        // A thread woken for work is not busy before it runs.
        (
            "busy since it was woken",
            &woken_early,
            format!("{CALL}\n{OTHER}"),
            "105 caller running; 150 reader runnable; 240 worker running; 402 worker queue; 600 worker running; 605 caller runnable; 700 caller running; ",
        ),
        (
            "busy without a CPU",
            &[(
                "BEGINS",
                "waking worker\n90 c1 worker context e/e\n90 c1 worker switch idle runnable\n200 c1 idle switch worker",
            )],
            format!("{CALL}\n{OTHER}"),
            "105 caller running; 200 worker runnable; 240 worker running; 402 worker queue; 600 worker running; 605 caller runnable; 700 caller running; ",
        ),
        (
            "busy since the hand-over",
            &woken_then,
            format!("{CALL}\n{OTHER}"),
            "105 caller running; 160 reader runnable; 240 reader running; 402 worker queue; 600 worker running; 605 caller runnable; 700 caller running; ",
        ),
        (
            "it turned from one request to another at an unknown time",
            &[("THEN", "f/f")],
            format!("{CALL}\ne/e 1000005..1001000\nf/f 1000005..1000402"),
            "105 caller running; 160 reader runnable; 240 reader running; 400 worker running; 402 worker queue; 600 worker running; 605 caller runnable; 700 caller running; ",
        ),
        // The worker answers its last call.
        (
            "two calls",
            &[("READ", "a/d"), ("FIRST", "a/b"), ("HAD", "a/d")],
            String::from("a/b < a 1000005..1000402 server\na/d < a 1000160..1000610 server"),
            "105 caller running; 240 worker running; 402 worker queue; 600 worker running; 605 caller runnable; 700 caller running; ",
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
            &HANDED_BACK,
            format!("{CALL}\n{OTHER}"),
            "105 caller running; 600 worker running; 605 caller runnable; 700 caller running; ",
        ),
        (
            "the answering thread never had it",
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

#[test]
fn a_thread_does_its_work_since_the_beginning_of_the_stint_around_that_moment() {
    let made = called(&HANDED_BACK, &format!("{CALL}\n{OTHER}"));
    let joined = made.joined();
    let since = |thread, ns| InServices { joined: &joined }.since(made.thread(thread), at(ns)).map(Stamp::ns);
    for (thread, ns, expected) in [
        ("reader", 165, Some(165)),
        ("reader", 239, Some(165)),
        ("reader", 240, None),
        ("reader", 454, None),
        ("reader", 455, Some(455)),
        ("reader", 500, Some(455)),
        ("worker", 9, None),
        ("worker", 300, Some(10)),
        ("worker", 402, Some(402)),
        ("worker", 449, Some(402)),
        ("worker", 500, None),
        ("caller", 300, Some(50)),
    ] {
        assert_eq!(since(thread, ns), expected, "{thread} {ns}");
    }
}

#[test]
fn a_call_begins_in_the_thread_of_its_span_for_a_moment_if_no_context_shows_that_thread() {
    for (read, call, expected) in [
        ("none", "a/b < a 1000160..1000610 server tid=20", Some(("reader", 160, 161))),
        ("none", CALL, None),
        ("none", "a/b < a 1000160..1000610 server tid=99", None),
        // Its context shows for how long it had the call.
        ("a/b", "a/b < a 1000160..1000610 server tid=20", None),
    ] {
        let made = called(&[("READ", read)], call);
        let begun = begun_in(&made.joined(), made.request("a/b"));
        let expected = expected.map(|(thread, from, to)| RequestStint {
            from: at(from),
            to: at(to),
            thread: made.thread(thread),
        });
        assert_eq!(begun, expected, "{read} {call}");
    }
}

/// `first` reads the call until 200 and hands it over to `second`, which works for `e/e` until 300 and hands it over to `third` at 350. `third`
/// works for `f/f` from RUNS on.
#[test]
fn a_thread_that_was_busy_since_before_an_earlier_pick_up_keeps_the_call_waiting_since_then() {
    const HOST: &str = "
        host web3 realtime=1000000
        thread first tid=10
        thread second tid=11 tgid=10
        thread third tid=12 tgid=10 blocked
        0 c0 idle started
        0 c0 idle switch first
        0 c1 idle switch second
        100 c0 first context a/b
        100 c0 first waking first
        200 c0 first context a/b
        200 c0 first waking third
        201 c0 first context none
        201 c0 first switch idle blocked
        20 c1 second context e/e
        20 c1 second waking second
        300 c1 second context a/b
        300 c1 second waking second
        350 c1 second context a/b
        350 c1 second waking second
        351 c1 second context none
        351 c1 second switch idle blocked
        30 c2 idle switch third
        40 c2 third context none
        40 c2 third switch idle blocked
        270 c3 idle waking third
        RUNS c2 idle switch third
        299 c2 third context f/f
        299 c2 third waking third
        400 c2 third context f/f
        400 c2 third waking third
        410 c2 third context a/b
        410 c2 third waking third
        600 c2 third context a/b
        600 c2 third waking third
        610 c2 third context none
        610 c2 third switch idle blocked
        1000 c0 idle stopped";
    let spans = "service s
        a/b 1000090..1000700 server
        e/e 1000010..1000295
        f/f 1000010..1000405";
    let parts = |runs: u64, of| {
        let made = made(&HOST.replace("RUNS", &runs.to_string()), spans);
        let had = had(&made.joined(), made.request("a/b"), of, at(90), at(600)).expect("three threads");
        let texts = had.iter().map(|part| match part {
            Had::Thread { thread, to, .. } => format!("{} {}", to.ns(), made.name(*thread)),
            Had::NoThread { next, to, kind, .. } => {
                format!("{} {} of {}", to.ns(), kind.name(), made.name(*next))
            }
        });
        texts.collect::<Vec<_>>().join(", ")
    };
    // Until 201 `first` has the call, from 295 on `second`, from 405 on `third`.
    assert_eq!(
        parts(280, Of::Itself),
        "201 first, 295 queue of second, 351 second, 405 queue of third, 600 third"
    );
    let behind = "351 third, 405 queue of third, 600 third";
    for (runs, before) in [
        // `second` had not taken the call up by then.
        (280, "201 first, 280 queue of second"),
        (295, "201 first, 295 queue of second"),
        // It had, and was busy since before the hand-over.
        (296, "201 second, 295 queue of second, 296 second"),
    ] {
        assert_eq!(parts(runs, Of::Caller), format!("{before}, {behind}"), "{runs}");
    }
}
