//! Each thread's span at any time, and the source of this knowledge.

use super::*;
use crate::testing::{Made, at, made};

/// `a` runs from 0 to 900 and wakes `b` at 500, which runs to 800; then both wait.
const HOST: &str = "
    host web3 realtime=1000000
    thread a tid=10
    thread b tid=11 tgid=10 blocked
    0 c0 idle started
    0 c0 idle switch a
    500 c0 a waking b
    500 c1 idle switch b
    800 c1 b switch idle blocked
    900 c0 a switch idle blocked
    1000 c0 idle stopped
";

/// A thread's work from 0 to 1000: each piece's end, its span, the source, and `!` if the context was read.
fn work(made: &Made, thread: &str) -> String {
    let (joined, mut until, mut text) = (made.joined(), at(0), String::new());
    for piece in joined.work_of(made.thread(thread), at(0), at(1000)) {
        assert_eq!(piece.from, until, "they tile it");
        let moment = joined.works_for(made.thread(thread), piece.from);
        assert!(moment == piece.works_for || piece.measured, "at {:?}: {moment:?} and {piece:?}", piece.from);
        until = piece.to;
        let works_for = match piece.works_for {
            WorksFor::Span(span) => made.ids(span).to_owned(),
            WorksFor::Missing(trace, sampled) => {
                format!("{:x}?{}", trace.0[0] >> 4, if sampled { "" } else { "-" })
            }
            WorksFor::None => "none".into(),
            WorksFor::Unplaced => "unplaced".into(),
            WorksFor::Unknown => "?".into(),
        };
        let measured = if piece.measured { "!" } else { "" };
        text += &format!("{} {works_for} {}{measured}; ", until.ns(), piece.by.name());
    }
    assert_eq!(until, at(1000), "they tile it");
    text
}

#[test]
fn a_thread_works_for_the_innermost_span_that_names_it() {
    for (spans, expected) in [
        ("", "1000 ? none; "),
        ("a/a 1000100..1000700 tid=10", "100 ? none; 700 a/a thread; 1000 ? none; "),
        (
            "a/a 1000100..1000700 tid=10\na/b < a 1000200..1000300 tid=10",
            "100 ? none; 200 a/a thread; 300 a/b thread; 700 a/a thread; 1000 ? none; ",
        ),
        // Another thread, and an unrecorded thread.
        ("a/a 1000100..1000700 tid=11", "1000 ? none; "),
        ("a/a 1000100..1000700 tid=12", "1000 ? none; "),
        ("a/a 1000100..1000700", "1000 ? none; "),
        // Until it queues the work for another thread; a note at the end adds nothing.
        ("a/a 1000100..1000700 tid=10 queued=1000300", "100 ? none; 300 a/a thread; 1000 ? none; "),
        ("a/a 1000100..1000700 tid=10 queued=1000100", "100 ? none; 700 a/a thread; 1000 ? none; "),
        ("a/a 1000100..1000700 tid=10 queued=1000700", "100 ? none; 700 a/a thread; 1000 ? none; "),
        // An event loop's turns: between them the thread works for none of its spans.
        (
            "a/a 1000100..1000700 tid=10 turns=1000100..1000200,1000500..1000700",
            "100 ? none; 200 a/a thread; 500 none thread; 700 a/a thread; 1000 ? none; ",
        ),
        // Turns of two spans overlap: one is wrong.
        (
            "a/a 1000100..1000700 tid=10 turns=1000100..1000300\nb/b 1000100..1000700 tid=10 turns=1000200..1000400",
            "100 ? none; 200 a/a thread; 300 unplaced none; 400 b/b thread; 700 none thread; 1000 ? none; ",
        ),
        // Another span without turns is open: beside the inner span's turns, the thread works for it or for none.
        (
            "b/b 1000100..1000700 tid=10\na/a 1000200..1000600 tid=10 turns=1000200..1000300",
            "100 ? none; 200 b/b thread; 300 a/a thread; 600 unplaced none; 700 b/b thread; 1000 ? none; ",
        ),
        (
            "a/a 1000100..1000700 tid=10 turns=1000100..1000150\nb/b 1000200..1000600 tid=10",
            "100 ? none; 150 a/a thread; 200 none thread; 600 b/b thread; 700 none thread; 1000 ? none; ",
        ),
    ] {
        let made = made(HOST, &format!("service s\n{spans}"));
        assert_eq!(work(&made, "a"), expected, "{spans}");
    }
}

#[test]
fn the_turns_of_a_span_are_those_of_each_of_its_threads() {
    let spans = "a/a 1000100..1000900 tid=10 turns=10@1000100..1000200,11@1000500..1000700";
    let made = made(HOST, &format!("service s\n{spans}"));
    assert_eq!(work(&made, "a"), "100 ? none; 200 a/a thread; 900 none thread; 1000 ? none; ");
    assert!(work(&made, "b").contains("700 a/a thread; "), "{}", work(&made, "b"));
}

#[test]
fn the_context_of_a_thread_is_better_than_a_span_that_names_it() {
    let said = HOST.replace(
        "900 c0 a switch",
        "400 c0 a context b/b\n500 c0 a waking b\n900 c0 a context b/b\n900 c0 a switch",
    );
    let said = said.replacen("500 c0 a waking b\n", "", 1);
    let made = made(
        &said,
        "service s\na/a 1000100..1000300 tid=10\nb/b 1000350..1000950\na/c 1000920..1000940 tid=10",
    );
    let found = work(&made, "a");
    assert!(found.contains("b/b context"), "{found}");
    assert!(found.starts_with("100 ? none; 300 a/a thread; "), "{found}");
}

#[test]
fn work_that_is_known_by_connection_alone_is_said_to_be() {
    let server = "
        host web3 realtime=0
        flow ask 127.0.0.1:40001 > 127.0.0.1:8080
        flow say 127.0.0.1:8080 > 127.0.0.1:40001
        thread a tid=10
        0 c0 idle started
        0 c0 idle switch a
        150 c0 a/net_rx in ask seq=1 len=9
        610 c0 a out say seq=1 len=9
        900 c0 a switch idle blocked
        1000 c0 idle stopped
    ";
    for (spans, expected) in [
        ("a/a 200..600 server", "200 ? none; 600 a/a connection; 1000 ? none; "),
        // A span naming the thread is better.
        (
            "a/a 200..600 server\nb/b 300..400 tid=10",
            "200 ? none; 300 a/a connection; 400 b/b thread; 600 a/a connection; 1000 ? none; ",
        ),
    ] {
        let made = made(server, &format!("service s\n{spans}"));
        assert_eq!(work(&made, "a"), expected, "{spans}");
        let (joined, request) = (made.joined(), made.request("a/a"));
        assert_eq!(joined.joined_by(request), JoinedBy::Connection);
    }
}

#[test]
fn the_realtime_of_a_moment_of_a_request_lies_within_its_span() {
    let made = made(HOST, "service s\na/a 1000100..1000700 tid=10");
    let (joined, request) = (made.joined(), made.request("a/a"));
    assert_eq!(joined.times(request), (at(100), at(700)));
    let wall = |ns| joined.wall(request, at(ns)).ns();
    assert_eq!(
        [0, 100, 101, 400, 700, 900].map(wall),
        [1_000_100, 1_000_100, 1_000_101, 1_000_400, 1_000_700, 1_000_700]
    );
}

#[test]
fn the_realtime_of_a_requests_ends_is_that_of_its_span_also_where_the_clock_cannot_give_it() {
    // The recording's clock begins with the machine; and it is slower than the realtime clock.
    let host = HOST.replace("1000 c0 idle stopped", "990 c0 idle clocks 1000997\n1000 c0 idle stopped");
    for (from, to) in
        [(999_200, 1_000_300), (1_000_003, 1_000_400), (1_000_111, 1_000_777), (999_200, 999_900)]
    {
        let made = made(&host, &format!("service s\na/a {from}..{to}"));
        let (joined, request) = (made.joined(), made.request("a/a"));
        let (begin, end) = joined.times(request);
        assert_eq!(joined.wall(request, begin).ns(), from, "{from}..{to}");
        if begin < end {
            assert_eq!(joined.wall(request, end).ns(), to, "{from}..{to}");
        }
    }
}

#[test]
fn between_two_readings_a_threads_work_is_known_by_its_context_by_its_spans_or_not_at_all() {
    let said = |first: &str, last: &str| {
        HOST.replace(
            "500 c0 a waking b",
            &format!(
                "150 c0 a context {first}\n150 c0 a waking a\n500 c0 a context {last}\n500 c0 a waking b"
            ),
        )
        .replace("900 c0 a switch", &format!("900 c0 a context {last}\n900 c0 a switch"))
    };
    for (first, last, spans, expected) in [
        (
            "none",
            "none",
            "a/a 1000200..1000300 tid=10",
            "150 ? none; 200 none context; 300 a/a thread; 900 none context; 1000 none context!; ",
        ),
        (
            "none",
            "b/b",
            "b/b 1000400..1000950",
            "150 ? none; 400 none context; 900 b/b context; 1000 b/b context!; ",
        ),
        // Both are open all the time: the thread turned from the first to the second at any moment.
        (
            "a/a",
            "b/b",
            "a/a 1000050..1000950\nb/b 1000060..1000960",
            "150 ? none; 500 unplaced none; 900 b/b context; 1000 b/b context!; ",
        ),
        ("7/7", "7/7", "", "150 ? none; 900 7? context; 1000 7? context!; "),
    ] {
        let made = made(&said(first, last), &format!("service s\n{spans}"));
        assert_eq!(work(&made, "a"), expected, "{first} {last}");
    }
}
