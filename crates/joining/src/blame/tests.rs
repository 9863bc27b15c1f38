//! A path's requests: its threads' work, and the requests that blocked it.

use std::fmt::Write as _;

use wakepath_critical_path::{SegmentKind, Timeouts, Window, active_with};

use super::*;
use crate::hand_over::InServices;
use crate::testing::{Made, at, made};

/// `a` waits for `b`, which waits for `c`, which waits for the kernel's `w`.
const CHAIN: &str = "
    host web3 realtime=1000000
    thread a tid=10
    thread b tid=11 blocked
    thread c tid=12 blocked
    thread w tid=13 blocked kernel
    0 c0 idle started
    0 c0 idle switch a
    100 c0 a waking b
    100 c1 idle switch b
    110 c0 a switch idle blocked
    200 c1 b waking c
    200 c2 idle switch c
    210 c1 b switch idle blocked
    300 c2 c waking w
    300 c3 idle switch w
    310 c2 c switch idle blocked
    600 c3 w waking c
    600 c2 idle switch c
    610 c3 w switch idle blocked
    700 c2 c waking b
    700 c1 idle switch b
    710 c2 c switch idle blocked
    800 c1 b waking a
    800 c0 idle switch a
    810 c1 b switch idle blocked
    900 c0 a switch idle blocked
    1000 c0 idle stopped
";

/// The path of the thread named by a request's root span.
fn path(joined: &Joined<'_>, request: RequestIndex) -> Path {
    let Joined { recorded, traced, places, .. } = joined;
    let thread = places.thread(recorded, traced, traced.request(request).root).expect("a thread");
    let (from, to) = joined.times(request);
    active_with(&recorded.graph, Window { thread, from, to }, Timeouts::AsTheyAre, &InServices { joined })
}

/// A request path's pieces, each with its time, its thread's request and the requests it waited for; then the sums.
fn blamed(made: &Made, asked: &str) -> String {
    let (joined, request) = (made.joined(), made.request(asked));
    let blame = joined.blame(request, &path(&joined, request), false);
    let name = |blocker: &Blocker| match blocker {
        Blocker::Request(request) => made.root(*request).to_owned(),
        Blocker::Missing(trace, sampled) => {
            format!("{:x}?{}", trace.0[0] >> 4, if *sampled { "" } else { "-" })
        }
    };
    let names = |all: &[Blocker]| all.iter().map(name).collect::<Vec<_>>().join(">");
    let mut text = String::new();
    let (begin, end) = joined.times(request);
    let mut until = begin;
    for piece in &blame.pieces {
        assert_eq!(piece.from, until, "they tile it");
        until = piece.to;
        let own = piece.request.map_or("-", |request| made.root(request));
        let _ = write!(text, "{} {own} {}", piece.to.since(begin), piece.by.name());
        if !piece.waits_for.is_empty() {
            let _ = write!(text, " waits for {}", names(&piece.waits_for));
        }
        text.push_str("; ");
    }
    assert_eq!(until, end, "they tile it");
    for one in &blame.blocked_by {
        let _ = write!(text, "by {} {}", made.root(one.request), one.total_ns);
        for (through, ns) in &one.through {
            let _ = write!(text, " through {} {ns}", name(through));
        }
        text.push_str("; ");
    }
    for one in &blame.blocked_by_missing {
        let _ = write!(
            text,
            "by missing {:x} {}{}; ",
            one.trace.0[0] >> 4,
            one.total_ns,
            if one.sampled { "" } else { " unsampled" }
        );
    }
    let total: u64 = blame.states.iter().map(|state| state.total_ns).sum();
    assert_eq!(total, end.since(begin), "the states are all of its time");
    text
}

#[test]
fn a_request_waits_for_the_last_of_the_requests_whose_threads_wait_for_each_other() {
    let a = "service s\na/a 1000000..1000900 tid=10";
    for (others, expected) in [
        ("", "110 a/a thread; 900 a/a thread; "),
        // Two waits above the kernel's thread: the innermost thread works for nothing known.
        ("b/b 1000000..1000900 tid=11", "b"),
        ("c/c 1000000..1000900 tid=12", "c"),
        ("b/b 1000000..1000900 tid=11\nc/c 1000000..1000900 tid=12", "c through b"),
        // A part of the request itself is no blocker, nor is a request waiting for it.
        ("a/b < a 1000000..1000900 tid=11", ""),
        ("b/b 1000000..1000900 tid=11\na/c < a 1000000..1000900 tid=12 server", "own"),
        ("a/b < a 1000000..1000900 tid=11 server\nc/c 1000000..1000900 tid=12", "c"),
        // A request and its part are one request, whichever waits for the other.
        ("b/b 1000000..1000900 tid=11\nb/c < b 1000000..1000900 tid=12 server", "b"),
        ("b/c < b 1000000..1000900 tid=11 server\nb/b 1000000..1000900 tid=12", "part of b"),
    ] {
        let found = blamed(&made(CHAIN, &format!("{a}\n{others}")), "a/a");
        let blockers: Vec<_> = found.split("; ").filter(|part| part.starts_with("by ")).collect();
        let expected = match expected {
            "b" => vec!["by b/b 690"],
            "c" => vec!["by c/c 490"],
            "c through b" => vec!["by c/c 490 through b/b 490", "by b/b 200"],
            "part of b" => vec!["by b/c 690"],
            "own" => vec!["by b/b 200"],
            _ => vec![],
        };
        assert_eq!(blockers, expected, "{others}: {found}");
    }
}

#[test]
fn the_pieces_say_for_whom_each_thread_worked_and_for_whom_the_request_waited() {
    let spans = "service s
        a/a 1000000..1000900 tid=10
        b/b 1000000..1000900 tid=11
        c/c 1000000..1000900 tid=12";
    assert_eq!(
        blamed(&made(CHAIN, spans), "a/a"),
        "110 a/a thread; 210 b/b thread waits for b/b; 310 c/c thread waits for b/b>c/c; \
         600 - none waits for b/b>c/c; 700 c/c thread waits for b/b>c/c; 800 b/b thread waits for b/b; 900 a/a thread; \
         by c/c 490 through b/b 490; by b/b 200; "
    );
}

#[test]
fn a_request_whose_spans_did_not_come_blocks_by_its_trace() {
    let said = |context: &str| {
        let said = CHAIN.replace("210 c1 b switch", &format!("205 c1 b context {context}\n210 c1 b switch"));
        made(&said, "service s\na/a 1000000..1000900 tid=10")
    };
    let found = |context| {
        let found = blamed(&said(context), "a/a");
        found.split("; ").filter(|part| part.starts_with("by ")).collect::<Vec<_>>().join("; ")
    };
    for (context, expected) in [
        ("d/d", "by missing d 595"),
        ("d/d unsampled", "by missing d 595 unsampled"),
        // A missing part of the request.
        ("a/d", ""),
        ("none", ""),
    ] {
        assert!(found(context) == expected, "{context}: {}", found(context));
    }
}

#[test]
fn the_waits_above_a_segment_are_asked_from_the_inside_out_up_to_64() {
    let joined_to = made(CHAIN, "service s\na/a 1000000..1000900 tid=10");
    let joined = joined_to.joined();
    let path = path(&joined, joined_to.request("a/a"));
    let threads = |segment: &Segment| {
        let above = waits_above(&path, segment).map(|wait| joined_to.name(wait.1.thread));
        above.collect::<Vec<_>>().join(" ")
    };
    let found: Vec<_> = path.segments.iter().map(threads).collect();
    assert_eq!(found, ["", "a", "b a", "c b a", "b a", "a", ""]);
    // Each wait explains the wait before it.
    let (mut deep, count) = (path.clone(), 70);
    let one = path.waits[0].clone();
    deep.waits = (0..count)
        .map(|nth: u32| {
            let parent = nth.checked_sub(1).map(wakepath_critical_path::WaitId);
            Wait { parent, ..one.clone() }
        })
        .collect();
    let innermost =
        Segment { parent: Some(wakepath_critical_path::WaitId(count - 1)), ..path.segments[1].clone() };
    assert_eq!(waits_above(&deep, &innermost).count(), 64);
}

#[test]
fn nobody_is_blamed_for_a_time_of_which_nothing_is_known() {
    let made = made(CHAIN, "service s\na/a 1000000..1000900 tid=10\nb/b 1000000..1000900 tid=11");
    let joined = made.joined();
    let mut path = path(&joined, made.request("a/a"));
    path.segments.iter_mut().for_each(|segment| segment.kind = SegmentKind::Unknown);
    let work = |_: usize, segment: &Segment| Some(joined.work_of(segment.thread?, segment.from, segment.to));
    let of_wait = |_, _: &Wait, _| WorksFor::Unknown;
    let blame = blame(&made.traced, made.request("a/a"), &path, work, of_wait, |_, _, _| (None, Vec::new()));
    assert!(blame.pieces.iter().all(|piece| piece.request.is_none() && piece.waits_for.is_empty()));
    assert_eq!(blame.pieces.first().map(|piece| piece.from), Some(at(0)));
    assert!(blame.blocked_by.is_empty());
}

#[test]
fn work_of_the_next_thread_does_not_block_a_request_whose_call_is_under_way() {
    // `a` hands `a/a` over to `b` by 300; a call is under way from 150 to 400, and `b` works for `b/b` until 500.
    let host = "
        host web3 realtime=1000000
        thread a tid=10
        thread b tid=11 tgid=10
        0 c0 idle started
        0 c0 idle switch a
        0 c1 idle switch b
        50 c1 b context b/b
        50 c1 b waking b
        100 c0 a context a/a
        100 c0 a waking a
        200 c0 a context a/a
        200 c0 a waking a
        201 c0 a context none
        201 c0 a switch idle blocked
        500 c1 b context b/b
        500 c1 b waking b
        501 c1 b context a/a
        501 c1 b waking b
        800 c1 b context a/a
        800 c1 b switch idle blocked
        1000 c0 idle stopped";
    let spans = "service s\na/a 1000100..1000800\na/1 < a 1000150..1000400 client\nb/b 1000020..1000500";
    let made = made(host, spans);
    let (joined, request) = (made.joined(), made.request("a/a"));
    let of_thread = |window, hand_overs: &dyn wakepath_critical_path::HandOvers| {
        active_with(&made.recorded.graph, window, Timeouts::AsTheyAre, hand_overs)
    };
    let algorithm = wakepath_critical_path::Algorithm::Active;
    let path = crate::path_handed_over(&joined, request, joined.times(request), algorithm, of_thread);
    let path = path.expect("two threads");
    let blocked = |is_handed_over| {
        let blame = joined.blame(request, &path, is_handed_over);
        let own = blame.pieces.iter().filter(|piece| piece.request == Some(request));
        let own: u64 = own.map(|piece| piece.to.since(piece.from)).sum();
        (blame.blocked_by.iter().map(|one| one.total_ns).collect::<Vec<_>>(), own)
    };
    // The call takes 199 of the 299 ns in which no thread has the request.
    assert_eq!((blocked(true), blocked(false)), ((vec![100], 401), (vec![299], 401)));
}

#[test]
fn a_missing_span_is_a_part_of_the_request_of_its_trace_and_blocks_alone_by_another_trace() {
    // `b` works for `b/b` by its span, or by its context; `c` says a missing span.
    let blocked = |of_b: &str, of_c: &str, spans: &str| {
        let mut host = CHAIN.replace("210 c1 b switch", &format!("{of_b}210 c1 b switch"));
        host = host.replace("310 c2 c switch", &format!("305 c2 c context {of_c}\n310 c2 c switch"));
        let made = made(&host, &format!("service s\na/a 1000000..1000900 tid=10\n{spans}"));
        let found = blamed(&made, "a/a");
        found.split("; ").filter(|part| part.starts_with("by ")).collect::<Vec<_>>().join("; ")
    };
    let by_span = "b/b 1000000..1000900 tid=11";
    let by_context = "205 c1 b context 7/7\n";
    for (of_b, of_c, spans, expected) in [
        // `a` waits for 690 ns; `c` says it from 305 to 700, and `b` from 205 on.
        ("", "b/d", by_span, "by b/b 690"),
        ("", "d/d", by_span, "by b/b 295; by missing d 395"),
        (by_context, "7/8", "", "by missing 7 595"),
        (by_context, "8/8", "", "by missing 8 395; by missing 7 200"),
    ] {
        assert_eq!(blocked(of_b, of_c, spans), expected, "{of_b} {of_c}");
    }
}
