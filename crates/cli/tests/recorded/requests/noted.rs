//! Requests handed over from thread to thread without context readings, on drawn recordings: by the threads in which spans began, by the
//! time at which the work was queued, and by turns noted in all threads.

use std::fs;

use serde_json::{Value, json};
use wakepath_harness::made::{Made, made};

/// The recording's clock in realtime, ns.
const REALTIME: u64 = 1_795_229_921_310_000_000;

/// `reads` has the request until 90 and wakes `works`, which runs from 120 on and picks it up at 130.
const POOL: &str = "
thread reads tid=10
thread works tid=11 tgid=10
thread other tid=12 tgid=12
0 c0 idle started
0 c0 idle switch reads
0 c1 idle switch works
40 c1 works switch other blocked call=202:0
100 c0 reads waking works
120 c1 other switch works runnable
140 c0 reads switch idle blocked call=35:0
400 c1 works switch idle blocked call=35:0
500 c1 idle/timer waking works
500 c1 idle switch works
700 c1 works switch idle blocked call=202:0
";

/// `works` is busy with another request until 120.
const BUSY: &str = "
thread reads tid=10
thread works tid=11 tgid=10
0 c0 idle started
0 c0 idle switch reads
0 c1 idle switch works
140 c0 reads switch idle blocked call=35:0
400 c1 works switch idle blocked call=35:0
500 c1 idle/timer waking works
500 c1 idle switch works
700 c1 works switch idle blocked call=202:0
";

struct Span {
    ids: (char, char),
    parent: char,
    times: (u64, u64),
    tid: u32,
    queued: Option<u64>,
    /// The threads' turns, each from and to.
    turns: &'static [(u32, &'static [(u64, u64)])],
}

fn span(one: &Span) -> Value {
    let mut attributes = vec![json!({"key": "wakepath.tid", "value": {"intValue": one.tid.to_string()}})];
    if let Some(queued) = one.queued {
        let value = (REALTIME + queued).to_string();
        attributes.push(json!({"key": "wakepath.queued_ns", "value": {"intValue": value}}));
    }
    if !one.turns.is_empty() {
        let mut text = (REALTIME + one.times.0).to_string();
        for (tid, turns) in one.turns {
            text += &format!(" @{tid}");
            let mut at = one.times.0;
            for &(from, to) in *turns {
                text += &format!(" {} {}", from - at, to - from);
                at = to;
            }
        }
        attributes.push(json!({"key": "wakepath.turns", "value": {"stringValue": text + "."}}));
    }
    json!({
        "traceId": one.ids.0.to_string().repeat(32),
        "spanId": one.ids.1.to_string().repeat(16),
        "parentSpanId": if one.parent == '-' { String::new() } else { one.parent.to_string().repeat(16) },
        "name": one.ids.1.to_string(),
        "kind": if one.parent == '-' { 2 } else { 1 },
        "startTimeUnixNano": (REALTIME + one.times.0).to_string(),
        "endTimeUnixNano": (REALTIME + one.times.1).to_string(),
        "attributes": attributes,
    })
}

fn drawn(drawing: &str, spans: &[Span]) -> Made {
    let made = made(drawing, &[]);
    let spans: Vec<_> = spans.iter().map(span).collect();
    let service = json!([{"key": "service.name", "value": {"stringValue": "shop"}}]);
    let document =
        json!({"resourceSpans": [{"resource": {"attributes": service}, "scopeSpans": [{"spans": spans}]}]});
    fs::write(made.folder().join("spans.json"), document.to_string()).expect("a file");
    made
}

/// The pieces of the request `a`, which begins in thread 10.
fn pieces(drawing: &str, spans: &[Span]) -> Vec<String> {
    pieces_from(10, drawing, spans)
}

/// The pieces of the request `a`, which begins in this thread: each with its end, thread and kind, the thread's trace, and how the trace is known.
fn pieces_from(first: u32, drawing: &str, spans: &[Span]) -> Vec<String> {
    let made = drawn(drawing, spans);
    let (code, out, err) =
        made.run(["requests", "wakepath.rec", "spans.json", "--request", "aaaa/aaaa", "--json"].to_vec());
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let document: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(document["window"]["tid"], first);
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let mut at = document["window"]["from_ns"].clone();
    let mut pieces: Vec<(String, String)> = Vec::new();
    for piece in document["pieces"].as_array().expect("a list") {
        assert_eq!(piece["from_ns"], at, "the pieces tile the window");
        at = piece["to_ns"].clone();
        let segment = &document["segments"][piece["segment"].as_u64().expect("a place") as usize];
        let (tid, kind, trace) = (&segment["tid"], text(&segment["kind"]), text(&piece["trace_id"]));
        let said = format!("{tid} {kind} {} {}", &trace[..1], text(&piece["join"]));
        pieces.pop_if(|last| last.1 == said);
        pieces.push((at.to_string(), said));
    }
    assert_eq!(at, document["window"]["to_ns"], "the pieces tile the window");
    pieces.into_iter().map(|(to, said)| format!("{to} {said}")).collect()
}

const A: Span =
    Span { ids: ('a', 'a'), parent: '-', times: (50, 600), tid: 10, queued: Some(90), turns: &[] };
const PART: Span =
    Span { ids: ('a', 'd'), parent: 'a', times: (150, 580), tid: 11, queued: None, turns: &[] };

#[test]
fn the_thread_in_which_a_part_began_goes_on_with_a_request_that_was_queued() {
    let expected = [
        "90 10 running a thread",
        // Its work then, and the other thread's before the part begins, is not known.
        "100 10 running - none",
        "120 11 runnable - none",
        "150 11 running - none",
        "400 11 running a thread",
        "500 11 timer a thread",
        "580 11 running a thread",
        "600 11 running - none",
    ];
    assert_eq!(pieces(POOL, &[A, PART]), expected);
}

#[test]
fn a_request_that_no_other_thread_is_seen_to_go_on_with_keeps_the_path_of_its_own_one() {
    let pieces = pieces(POOL, &[A]);
    assert!(pieces.iter().all(|piece| piece.contains(" 10 ")), "{pieces:?}");
    // An unqueued request stays with its thread, whatever others do for it.
    let whole = Span { queued: None, ..A };
    let pieces = self::pieces(POOL, &[whole, PART]);
    assert_eq!(pieces, ["140 10 running a thread", "600 10 unknown - none"]);
}

#[test]
fn turns_in_all_threads_show_who_had_a_request_and_when_it_was_taken_up() {
    let a = Span { queued: None, turns: &[(10, &[(50, 90)]), (11, &[(130, 150), (580, 600)])], ..A };
    let part = Span { turns: &[(11, &[(150, 580)])], ..PART };
    let expected = [
        "90 10 running a thread",
        // Both work for none of the open spans.
        "100 10 running - thread",
        "120 11 runnable - thread",
        "130 11 running - thread",
        "400 11 running a thread",
        "500 11 timer a thread",
        "600 11 running a thread",
    ];
    assert_eq!(pieces(POOL, &[a, part]), expected);
}

#[test]
fn between_the_turns_in_all_threads_the_thread_in_which_a_span_began_works_for_none() {
    let a = Span { queued: None, turns: &[(11, &[(130, 600)])], ..A };
    // So the request has the other thread's path.
    let expected = ["100 10 running - thread", "120 11 runnable - thread", "130 11 running - thread"];
    assert_eq!(pieces_from(11, POOL, &[a])[..3], expected);
}

#[test]
fn a_thread_that_was_busy_with_another_request_keeps_one_waiting_that_was_queued() {
    let a = Span { turns: &[(10, &[(50, 90)]), (11, &[(130, 600)])], ..A };
    let other = Span {
        ids: ('b', 'b'),
        parent: '-',
        times: (10, 125),
        tid: 11,
        queued: None,
        turns: &[(11, &[(10, 120)])],
    };
    let expected = [
        "90 10 running a thread",
        "120 11 queue b thread",
        "130 11 running - thread",
        "400 11 running a thread",
        "500 11 timer a thread",
        "600 11 running a thread",
    ];
    assert_eq!(pieces(BUSY, &[a, other]), expected);
}

#[test]
fn a_request_begins_in_the_thread_that_had_its_first_turn_and_not_in_the_one_with_the_lowest_number() {
    // The other thread's turn lies within the first turn: nothing was handed over.
    let a = Span { queued: None, turns: &[(11, &[(130, 600)]), (10, &[(550, 580)])], ..A };
    let expected = ["100 10 running - thread", "120 11 runnable - thread", "130 11 running - thread"];
    assert_eq!(pieces_from(11, POOL, &[a])[..3], expected);
}

#[test]
fn a_request_that_nothing_says_was_handed_over_stays_with_its_thread_where_that_one_turns_to_another() {
    let whole = Span { queued: None, ..A };
    let other = Span { ids: ('b', 'b'), parent: '-', times: (100, 590), tid: 10, queued: None, turns: &[] };
    let pieces = pieces(POOL, &[whole, PART, other]);
    assert!(pieces.iter().all(|piece| piece.contains(" 10 ")), "{pieces:?}");
}

#[test]
fn a_thread_that_says_that_it_works_for_nothing_has_no_request_by_a_span_that_names_it() {
    let [first, last] = ["40 c1 works switch", "700 c1 works switch"];
    let [read, read_last] = [(first, "40 c1 works context none"), (last, "700 c1 works context none")]
        .map(|(line, reading)| format!("{reading}\n{line}"));
    let said = POOL.replace(first, &read).replace(last, &read_last);
    let pieces = pieces(&said, &[A, PART]);
    assert!(pieces.iter().all(|piece| piece.contains(" 10 ")), "{pieces:?}");
}
