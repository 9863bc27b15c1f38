//! Requests whose threads name their span, on drawn recordings: measured, inferred, and unknown times.

use std::fs;

use serde_json::{Value, json};
use wakepath_harness::made::{Made, made};

use super::{REALTIME, write_spans};

/// `cart` waits for a lock held by `stock`, which is preempted meanwhile. `CONTEXT` is the context of `stock` as it leaves
/// its CPU.
const LOCK: &str = "
thread cart tid=10
thread stock tid=11 tgid=10
thread pay tid=12 tgid=10
0 c0 idle started
0 c0 idle switch cart
0 c1 idle switch stock
60 c0 cart context a/a
60 c0 cart switch idle runnable
70 c0 idle switch cart
100 c0 cart switch idle blocked call=202:0x1000 op=128 value=2 claim=stock
300 c1 stock context CONTEXT
300 c1 stock switch pay runnable
400 c1 pay switch stock blocked call=35:0
500 c1 stock waking cart
510 c0 idle switch cart
600 c1 stock switch idle blocked call=35:0
700 c0 cart context none
700 c0 cart switch idle blocked call=35:0
";

fn span(id: char, name: &str, times: (u64, u64)) -> Value {
    super::span(id, None, name, times, None)
}

fn drawn(drawing: &str) -> Made {
    drawn_with(drawing, &[span('a', "GET /cart", (50, 650)), span('b', "PUT /stock", (0, 600))])
}

fn drawn_with(drawing: &str, spans: &[Value]) -> Made {
    let made = made(drawing, &[]);
    write_spans(&made, spans);
    made
}

fn run(made: &Made, arguments: &[&str]) -> String {
    let words = [&["requests", "wakepath.rec", "spans.json"], arguments].concat();
    let (code, out, err) = made.run(words);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    out
}

/// The pieces of the request of `cart`, each with its end, and the requests that blocked it.
fn answer(drawing: &str) -> (Vec<String>, Value) {
    pieces(&run(&drawn(drawing), &["--request", "aaaa", "--json"]))
}

fn pieces(out: &str) -> (Vec<String>, Value) {
    let document: Value = serde_json::from_str(out).expect("JSON");
    assert_eq!(document["request"]["join"], "context");
    assert_eq!(document["window"]["tid"], 10);
    let text = |value: &Value| value.as_str().map_or(String::from("-"), str::to_owned);
    let piece = |piece: &Value| {
        let trace = text(&piece["trace_id"]);
        format!("{} {} {}", piece["to_ns"], &trace[..1], text(&piece["basis"]))
    };
    let mut pieces: Vec<String> = Vec::new();
    for piece in document["pieces"].as_array().expect("a list").iter().map(piece) {
        let what = |piece: &str| piece.split_once(' ').map(|(_, what)| what.to_owned());
        if pieces.last().is_some_and(|last| what(last) == what(&piece)) {
            pieces.pop();
        }
        pieces.push(piece);
    }
    (pieces, document["blocked_by"].clone())
}

#[test]
fn a_request_is_blocked_by_the_one_that_the_thread_with_the_lock_says_it_works_for() {
    let (pieces, blocked_by) = answer(&LOCK.replace("CONTEXT", "b/b"));
    // Before a thread's first reading, its span is not known.
    let expected = [
        "60 - -",
        "70 a measured",
        "100 a inferred",
        "300 - -",
        "400 b measured",
        "500 b inferred",
        "510 a measured",
        "650 a inferred",
    ];
    assert_eq!(pieces, expected);
    assert_eq!(blocked_by.as_array().map(Vec::len), Some(1));
    let blocker = &blocked_by[0];
    assert_eq!(
        (&blocker["operation"], &blocker["total_ns"], &blocker["sampled"]),
        (&json!("PUT /stock"), &json!(200), &json!(true))
    );
    let out = run(&drawn(&LOCK.replace("CONTEXT", "b/b")), &["--request", "aaaa"]);
    assert!(
        out.starts_with("shop GET /cart was blocked by shop PUT /stock, request bbbbbbbbbbbbbbbb"),
        "{out}"
    );
    assert!(out.contains("Its thread says so itself"), "{out}");
}

#[test]
fn a_blocker_whose_spans_are_missing_is_named_by_its_trace() {
    for (context, sampled, why) in
        [("c/c unsampled", false, "not sampled"), ("c/c", true, "whose spans did not come")]
    {
        let drawing = LOCK.replace("CONTEXT", context);
        let (pieces, blocked_by) = answer(&drawing);
        assert_eq!(pieces[4..6], ["400 c measured", "500 c inferred"]);
        let blocker = &blocked_by[0];
        assert_eq!((&blocker["operation"], &blocker["span_id"]), (&Value::Null, &Value::Null));
        assert_eq!((&blocker["sampled"], &blocker["total_ns"]), (&json!(sampled), &json!(200)));
        let out = run(&drawn(&drawing), &["--request", "aaaa"]).replace('\n', " ");
        let said = format!("was blocked by request {}, {why},", "c".repeat(32));
        assert!(out.contains(&said), "{said}: {out}");
    }
}

#[test]
fn a_span_of_the_requests_own_trace_that_did_not_come_blocks_it_not() {
    let (pieces, blocked_by) = answer(&LOCK.replace("CONTEXT", "a/d"));
    assert_eq!(pieces[4..6], ["400 a measured", "500 a inferred"]);
    assert_eq!(blocked_by, json!([]));
}

#[test]
fn a_thread_without_a_span_blames_no_request_and_one_that_could_not_be_read_is_not_known() {
    let (pieces, blocked_by) = answer(&LOCK.replace("CONTEXT", "none"));
    assert_eq!(
        (&pieces[4..6], blocked_by),
        (&["400 - measured", "500 - inferred"].map(String::from)[..], json!([]))
    );
    let (pieces, blocked_by) = answer(&LOCK.replace("CONTEXT", "unknown"));
    assert_eq!((&pieces[3..4], blocked_by), (&["500 - -".to_owned()][..], json!([])));
}

/// `cart` waits for a new thread of its own, which waits for a CPU before it runs. `FIRST` is the new thread's first
/// reading.
const NEW: &str = "
thread cart tid=10
thread pay tid=12 tgid=10
0 c0 idle started
0 c0 idle switch cart
0 c1 idle switch pay
60 c0 cart context a/a
60 c0 cart switch idle runnable
70 c0 idle switch cart
80 c0 cart fork stock tid=11 tgid=10
80 c0 cart waking stock newborn
100 c0 cart switch idle blocked call=202:0x1000 op=128 value=2
300 c1 pay switch stock blocked call=35:0
FIRST
400 c1 stock switch idle runnable
420 c1 idle switch stock
500 c1 stock waking cart
510 c0 idle switch cart
600 c1 stock context b/b
600 c1 stock switch idle blocked call=35:0
700 c0 cart context none
700 c0 cart switch idle blocked call=35:0
";

#[test]
fn a_new_thread_works_for_nothing_before_it_runs_and_a_new_process_may_work_for_what_its_parent_did() {
    let answer = |first: &str, tgid: &str| {
        let drawing =
            NEW.replace("FIRST", first).replace("stock tid=11 tgid=10", &format!("stock tid=11 tgid={tgid}"));
        let made =
            drawn_with(&drawing, &[span('a', "GET /cart", (50, 650)), span('b', "PUT /stock", (320, 600))]);
        pieces(&run(&made, &["--request", "aaaa", "--json"])).0
    };
    let read = "400 c1 stock context b/b";
    assert_eq!(
        answer(read, "10")[3..],
        [
            "300 - measured",
            "320 - inferred",
            "400 b inferred",
            "420 b measured",
            "500 b inferred",
            "510 a measured",
            "650 a inferred"
        ]
    );
    // The new thread has its parent's memory.
    assert_eq!(answer(read, "11")[3..5], ["400 - -", "420 b measured"]);
    // The recorder did not know the thread by its first switch: its context until then was not read.
    assert_eq!(answer("", "10")[3], "500 - -");
}

#[test]
fn after_a_loss_in_the_file_an_earlier_context_holds_no_more() {
    let earlier = "20 c1 stock context b/b\n20 c1 stock switch pay runnable\n30 c1 pay switch stock blocked call=35:0\n";
    let kept = LOCK
        .replace("300 c1 stock context CONTEXT\n", "")
        .replace("60 c0 cart context", &format!("{earlier}60 c0 cart context"));
    let (pieces, blocked_by) = answer(&kept);
    assert!(pieces.contains(&"400 b measured".to_owned()), "{pieces:?}");
    assert_eq!(blocked_by[0]["total_ns"], 400);
    // A ring without room: the context would have been recorded again. A damaged file: nothing is known.
    for (count, measured) in [(1, true), (0, false)] {
        let lossy = kept.replace(
            "100 c0 cart switch",
            &format!("90 c1 stock loss from=80 count={count}\n100 c0 cart switch"),
        );
        let (pieces, _) = answer(&lossy);
        assert_eq!(pieces.contains(&"400 b measured".to_owned()), measured, "{count}: {pieces:?}");
    }
}

/// `copy` names the span for which `cart` works, and names it first.
const TWINS: &str = "
thread cart tid=10
thread copy tid=20
0 c0 idle started
0 c0 idle switch cart
0 c1 idle switch copy
40 c1 copy context a/a
40 c1 copy switch idle blocked call=35:0
60 c0 cart context a/a
60 c0 cart switch idle blocked call=35:0
700 c0 idle switch cart
800 c0 cart switch idle blocked call=35:0
";

/// A recording with services' spans, each with its process number.
fn recording_with_services(drawing: &str, services: &[(&str, Option<u32>, Value)]) -> Made {
    let made = made(drawing, &[]);
    let resources: Vec<_> = services
        .iter()
        .map(|(name, pid, span)| {
            let mut attributes = vec![json!({"key": "service.name", "value": {"stringValue": name}})];
            attributes.extend(pid.map(|pid| json!({"key": "process.pid", "value": {"intValue": pid}})));
            json!({"resource": {"attributes": attributes}, "scopeSpans": [{"spans": [span]}]})
        })
        .collect();
    fs::write(made.folder().join("spans.json"), json!({"resourceSpans": resources}).to_string())
        .expect("a file");
    made
}

#[test]
fn a_process_that_says_the_ids_of_another_ones_span_is_not_joined_where_the_service_names_its_process() {
    let tid = |pid| {
        let made = recording_with_services(TWINS, &[("shop", pid, span('a', "GET /cart", (50, 650)))]);
        let out = run(&made, &["--request", "aaaa", "--json"]);
        let document: Value = serde_json::from_str(&out).expect("JSON");
        assert_eq!(document["request"]["join"], "context");
        document["window"]["tid"].clone()
    };
    assert_eq!(tid(Some(10)), 10);
    assert_eq!(tid(Some(20)), 20);
    // Unknown, and a number from another PID namespace, which fits no process.
    assert_eq!(tid(None), 20);
    assert_eq!(tid(Some(7)), 20);
}

#[test]
fn equal_ids_of_two_services_are_two_requests_each_with_its_own_thread() {
    let [one, other] = ["GET /cart", "GET /copy"].map(|name| span('a', name, (50, 650)));
    let made = recording_with_services(TWINS, &[("shop", Some(10), one), ("bank", Some(20), other)]);
    for (service, tid) in [("shop", 10), ("bank", 20)] {
        let out = run(&made, &["--service", service, "--slowest", "1", "--json"]);
        let document: Value = serde_json::from_str(&out).expect("JSON");
        assert_eq!(
            (&document["request"]["service"], &document["window"]["tid"]),
            (&json!(service), &json!(tid))
        );
        assert_eq!(document["blocked_by"], json!([]));
    }
}

#[test]
fn a_number_of_a_thread_that_belongs_to_another_process_is_not_taken() {
    for (pid, is_joined) in [(None, true), (Some(20), true), (Some(10), false), (Some(1), false)] {
        let mut named = span('c', "GET /cart", (50, 650));
        named["attributes"] = json!([{"key": "wakepath.tid", "value": {"intValue": 20}}]);
        let made = recording_with_services(TWINS, &[("shop", pid, named)]);
        let out = run(&made, &["--request", "cccc", "--json"]);
        let document: Value = serde_json::from_str(&out).expect("JSON");
        let segments = document["segments"].as_array().map_or(0, Vec::len);
        assert_eq!(segments > 0, is_joined, "{pid:?}: {document}");
    }
}

#[test]
fn between_two_open_requests_a_thread_is_said_to_work_for_neither_and_not_for_none() {
    let turns = "100 c0 cart context b/b\n100 c0 cart switch";
    let (pieces, _) = answer(&LOCK.replace("CONTEXT", "b/b").replace("100 c0 cart switch", turns));
    // From 70 to 100 it turns from one span to the other: no basis is named.
    assert_eq!(pieces[..3], ["60 - -", "70 a measured", "300 - -"]);
}

#[test]
fn a_context_that_was_read_at_a_waking_counts_from_there_on() {
    let waking = LOCK
        .replace(
            "60 c0 cart context a/a",
            "30 c0 cart context b/b\n30 c0 cart waking stock\n60 c0 cart context a/a",
        )
        .replace("CONTEXT", "none");
    let out = run(&drawn(&waking), &["--request", "bbbb", "--json"]);
    let document: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(document["window"]["tid"], 10);
    let pieces = document["pieces"].as_array().expect("a list");
    let first: Vec<_> =
        pieces.iter().take(2).map(|one| (&one["to_ns"], &one["span_id"], &one["basis"])).collect();
    let other = "b".repeat(16);
    assert_eq!(
        first,
        // Until the next span begins.
        [(&json!(30), &Value::Null, &Value::Null), (&json!(50), &json!(other), &json!("inferred"))]
    );
}

#[test]
fn processes_whose_contexts_could_never_be_read_stand_in_the_summary_of_a_recording() {
    let second = "45 c1 copy context b/b\n60 c0 cart context";
    for (drawing, unread) in [
        (TWINS.replace("copy context a/a", "copy context unknown"), json!([{"pid": 20, "comm": "copy"}])),
        // Once its context was read.
        (
            TWINS.replace("copy context a/a", "copy context unknown").replace("60 c0 cart context", second),
            json!([]),
        ),
        // Another thread in its process was read.
        (
            TWINS.replace("copy context a/a", "copy context unknown").replace("tid=20", "tid=20 tgid=10"),
            json!([]),
        ),
        (TWINS.to_owned(), json!([])),
    ] {
        let made = made(&drawing, &[]);
        let (code, out, _) = made.run(vec!["info", "wakepath.rec", "--json"]);
        assert_eq!(code, 0, "{out}");
        let document: Value = serde_json::from_str(&out).expect("JSON");
        assert_eq!(document["unread_contexts"], unread, "{drawing}");
        let (_, out, _) = made.run(vec!["info", "wakepath.rec"]);
        let said = "could not be read of the threads of copy (20)";
        assert_eq!(out.contains(said), unread != json!([]), "{out}");
    }
}

/// `cart` reads the request and hands it over; `stock`, whose context is `BEFORE`, picks it up when another is done.
/// `EARLY` or `LATE` wakes `stock`.
const HAND_OVER: &str = "
thread cart tid=10
thread stock tid=11 tgid=10
0 c0 idle started
0 c0 idle switch cart
0 c1 idle switch stock
40 c1 stock context BEFORE
40 c1 stock switch idle blocked call=35:0
60 c0 cart context a/a
60 c0 cart switch idle runnable
70 c0 idle switch cart
EARLY
100 c0 cart context none
100 c0 cart switch idle blocked call=35:0
LATE
320 c1 stock context a/a
320 c1 stock switch idle blocked call=35:0
600 c1 idle/timer waking stock
600 c1 idle switch stock
680 c1 stock context none
680 c1 stock switch idle blocked call=35:0
700 c0 idle stopped
";

/// The segments of a handed-over request, each with its end, kind, thread and rule; and the time for which others blocked
/// the request.
fn handed_over(before: &str, early: &str, late: &str) -> (Vec<String>, Value) {
    let drawing = HAND_OVER.replace("BEFORE", before).replace("EARLY", early).replace("LATE", late);
    let (segments, blocked_by) = segments(&drawn(&drawing));
    let kinds = segments.iter().map(|(_, segment)| segment.clone()).collect();
    (kinds, blocked_by)
}

/// A request's segments, each with its basis.
fn segments(made: &Made) -> (Vec<(String, String)>, Value) {
    let out = run(made, &["--request", "aaaa", "--json"]);
    let document: Value = serde_json::from_str(&out).expect("JSON");
    let list = |key: &str| document[key].as_array().expect("a list").clone();
    let mut at = document["window"]["from_ns"].clone();
    let mut segments = Vec::new();
    for segment in list("segments") {
        assert_eq!(segment["from_ns"], at, "the segments tile the window");
        at = segment["to_ns"].clone();
        let text = |key: &str| segment[key].as_str().unwrap_or("-").to_owned();
        segments.push((text("basis"), format!("{at} {} {} {}", text("kind"), text("comm"), text("rule"))));
    }
    assert_eq!(at, document["window"]["to_ns"]);
    let blocked_by = list("blocked_by");
    let blocked_by = blocked_by.iter().map(|one| json!([one["operation"], one["total_ns"]])).collect();
    (segments, Value::Array(blocked_by))
}

#[test]
fn a_request_that_is_handed_over_is_in_the_queue_while_the_thread_that_takes_it_up_works_for_another_one() {
    let (segments, blocked_by) =
        handed_over("b/b", "", "300 c1 idle/timer waking stock\n300 c1 idle switch stock");
    let expected = [
        "60 running cart -",
        "70 runnable cart -",
        "100 running cart -",
        "300 queue stock handed_over",
        // The thread picks the request up at some time while it runs, at the latest here; the other request is open
        // too.
        "320 running stock -",
        "600 timer stock -",
        "650 running stock -",
    ];
    assert_eq!(segments, expected);
    assert_eq!(blocked_by, json!([["PUT /stock", 200]]));
}

#[test]
fn a_request_for_which_an_idle_thread_is_woken_is_in_no_queue() {
    let (segments, blocked_by) = handed_over("none", "95 c0 cart waking stock\n98 c1 idle switch stock", "");
    assert!(!segments.iter().any(|segment| segment.contains("queue")), "{segments:?}");
    assert_eq!(blocked_by, json!([]));
}

#[test]
fn a_context_that_was_not_recorded_at_a_waking_was_the_one_before() {
    let taken = |wakes: &str| {
        let early = "95 c0 cart waking stock\n98 c1 idle switch stock";
        let drawing = HAND_OVER.replace("BEFORE", "none").replace("EARLY", early).replace("LATE", wakes);
        let other = "10 c2 other switch idle blocked call=202:0\n40 c1 stock context";
        let drawing = drawing.replace("40 c1 stock context", other);
        let drawing = drawing
            .replace("0 c0 idle started", "thread other tid=12\n0 c0 idle started\n0 c2 idle switch other");
        pieces(&run(&drawn(&drawing), &["--request", "aaaa", "--json"])).0
    };
    let wakes = |context: &str| format!("200 c1 stock{context} waking other\n210 c2 idle switch other");
    let expected = ["100 a inferred", "200 - inferred", "320 a inferred", "600 a measured"];
    assert_eq!(taken(&wakes(""))[2..6], expected);
    // Without it, the thread may have picked up the request when it began to run, since the request was open from then
    // on.
    let unread = ["320 a inferred", "600 a measured"];
    assert_eq!(taken("")[2..4], unread);
    // An interrupt that wakes another thread while this thread runs reads no context.
    assert_eq!(taken(&wakes("/timer"))[2..4], unread);
    // The earlier context does not hold either if a record of the thread may be missing: in a damaged file, or in a ring without room at
    // the waking.
    for (to, count, is_read) in
        [(150, 0, false), (150, 1, true), (199, 1, true), (200, 1, false), (205, 1, false)]
    {
        let lossy = format!("{}\n{to} c0 idle loss from=145 count={count}", wakes(""));
        let found = taken(&lossy);
        let expected = if is_read { &expected[..] } else { &unread };
        assert_eq!(found[2..2 + expected.len()], *expected, "until {to}, {count}: {found:?}");
    }
}

#[test]
fn a_request_that_the_program_noted_as_queued_is_measured_to_be_in_the_queue_from_there_on() {
    let late = "300 c1 idle/timer waking stock\n300 c1 idle switch stock";
    let drawing = HAND_OVER.replace("BEFORE", "b/b").replace("EARLY", "").replace("LATE", late);
    // The thread that read the request has it until this time, and at most until 100. A later time shows nothing about the time before
    // it.
    for (queued, basis, rule, since) in [
        (Some(90), "measured", "-", 90),
        (Some(100), "measured", "-", 100),
        (Some(101), "inferred", "handed_over", 100),
        (Some(310), "inferred", "handed_over", 100),
        (None, "inferred", "handed_over", 100),
    ] {
        let mut request = span('a', "GET /cart", (50, 650));
        let value = queued.map(|queued: u64| json!({"intValue": (REALTIME + queued).to_string()}));
        request["attributes"] =
            value.map_or(json!([]), |value| json!([{"key": "wakepath.queued_ns", "value": value}]));
        let made = drawn_with(&drawing, &[request, span('b', "PUT /stock", (0, 600))]);
        let (segments, blocked_by) = segments(&made);
        let expected = (basis.to_owned(), format!("300 queue stock {rule}"));
        assert_eq!(segments[3], expected, "{queued:?}: {segments:?}");
        assert_eq!(segments[4].1, "320 running stock -", "{queued:?}");
        assert_eq!(segments[2].1, format!("{since} running cart -"), "{queued:?}");
        assert_eq!(blocked_by, json!([["PUT /stock", 300 - since]]), "{queued:?}");
    }
}

#[test]
fn a_request_is_in_no_queue_while_a_call_of_another_service_is_under_way() {
    let late = "300 c1 idle/timer waking stock\n300 c1 idle switch stock";
    let drawing = HAND_OVER.replace("BEFORE", "b/b").replace("EARLY", "").replace("LATE", late);
    // A call that begins after the first thread left the request was not under way there; a call without an answer by the
    // time the second thread has the request was not awaited.
    for ((from, to), until) in
        [((80, 250), 250), ((100, 250), 250), ((101, 250), 100), ((80, 100), 100), ((80, 330), 100)]
    {
        let mut call = span('c', "POST /pay", (from, to));
        call["traceId"] = json!("a".repeat(32));
        call["parentSpanId"] = json!("a".repeat(16));
        call["kind"] = json!(3);
        let spans = [span('a', "GET /cart", (50, 650)), span('b', "PUT /stock", (0, 600)), call];
        let (segments, blocked_by) = segments(&drawn_with(&drawing, &spans));
        let network = ("ambiguous".to_owned(), format!("{until} network stock -"));
        assert_eq!(segments.contains(&network), until > 100, "{from} to {to}: {segments:?}");
        assert_eq!(blocked_by, json!([["PUT /stock", 300 - until]]), "{from} to {to}");
    }
}

/// An event loop serves two requests. `FIRST` and `SECOND` are readings of its context, or empty.
const LOOP: &str = "
thread loop tid=10
0 c0 idle started
0 c0 idle switch loop
FIRST
60 c0 loop switch idle runnable
70 c0 idle switch loop
SECOND
550 c0 loop switch idle runnable
560 c0 idle switch loop
700 c0 loop switch idle blocked call=35:0
700 c0 idle stopped
";

#[test]
fn a_request_that_waits_behind_the_turn_of_another_one_in_an_event_loop_is_blocked_by_it() {
    let with = |id, name, (from, to), turns: &str| {
        let mut span = span(id, name, (from, to));
        let text = format!("{} {turns}.", REALTIME + from);
        span["attributes"] = json!([
            {"key": "wakepath.tid", "value": {"intValue": "10"}},
            {"key": "wakepath.turns", "value": {"stringValue": text}},
        ]);
        span
    };
    let judged = |read: [&str; 2], turns: &str| {
        let drawing = LOOP.replace("FIRST", read[0]).replace("SECOND", read[1]);
        let spans =
            [with('a', "GET /cart", (50, 650), "50 100 200 100"), with('b', "PUT /stock", (0, 600), turns)];
        let document: Value =
            serde_json::from_str(&run(&drawn_with(&drawing, &spans), &["--request", "aaaa", "--json"]))
                .expect("JSON");
        let text = |value: &Value| value.as_str().map_or(String::from("-"), str::to_owned);
        let mut pieces: Vec<(String, String)> = Vec::new();
        for piece in document["pieces"].as_array().expect("a list") {
            let trace = text(&piece["trace_id"]);
            let said = format!("{} {} {}", &trace[..1], text(&piece["join"]), text(&piece["basis"]));
            pieces.pop_if(|last| last.1 == said);
            pieces.push((piece["to_ns"].to_string(), said));
        }
        let blocked_by = document["blocked_by"].as_array().expect("a list").iter();
        let blocked_by: Vec<_> = blocked_by.map(|one| one["total_ns"].clone()).collect();
        let pieces: Vec<_> = pieces.into_iter().map(|(to, said)| format!("{to} {said}")).collect();
        (pieces, blocked_by)
    };
    let (pieces, blocked_by) = judged(["", ""], "200 200");
    let (own, other, none) = ("a thread inferred", "b thread inferred", "- thread inferred");
    let by_thread = [(100, none), (200, own), (400, other), (500, own), (650, none)];
    assert_eq!(pieces, by_thread.map(|(to, said)| format!("{to} {said}")));
    assert_eq!(blocked_by, [json!(200)]);
    // Where the context was read, the reading holds.
    let (pieces, blocked_by) = judged(["60 c0 loop context b/b", "550 c0 loop context a/a"], "200 200");
    let none = "- context inferred";
    let expected = [
        (60, "- thread inferred"),
        (70, "b context measured"),
        (100, none),
        (200, own),
        (400, other),
        (500, own),
        (550, none),
        (560, "a context measured"),
        (650, "- thread inferred"),
    ];
    assert_eq!(pieces, expected.map(|(to, said)| format!("{to} {said}")));
    assert_eq!(blocked_by, [json!(210)]);
    // Two requests claim the time from 150 to 200: none is blamed.
    let (pieces, blocked_by) = judged(["", ""], "150 250");
    assert_eq!(pieces[1..4], ["150 a thread inferred", "200 - none -", "400 b thread inferred"]);
    assert_eq!(blocked_by, [json!(200)]);
    // A turn beyond its span invalidates all turns of this span: beside the other span's turns the request is not known.
    let (pieces, blocked_by) = judged(["", ""], "200 2000000");
    let expected =
        ["100 - none -", "200 a thread inferred", "400 - none -", "500 a thread inferred", "600 - none -"];
    assert_eq!((&pieces[..5], blocked_by), (&expected.map(str::to_owned)[..], vec![]));
}
