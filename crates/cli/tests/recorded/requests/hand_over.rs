//! Requests that a called service hands over from thread to thread, on drawn recordings: the thread, and the other request, behind each part
//! of the caller's wait.

use std::fs;

use serde_json::{Value, json};
use wakepath_harness::made::{Made, made};

/// The recording's clock in realtime, ns.
const REALTIME: u64 = 1_795_229_921_310_000_000;

/// `front` calls a service at 95 and waits from 100 on. The call wakes `reads`, which gets its CPU at 300 and has the request until 340. `works`
/// picks it up, and answers at 620. `BEFORE` is the activity of `works` until 350.
const CALLED: &str = "
thread front tid=10
thread reads tid=11 tgid=10
thread works tid=12 tgid=10
thread noise tid=13 tgid=13
thread other tid=14 tgid=13
0 c0 idle started
0 c0 idle switch front
0 c1 idle switch reads
0 c2 idle switch works
10 c1 reads context none
10 c1 reads switch noise blocked call=7:0
60 c0 front context a/a
60 c0 front switch idle runnable
70 c0 idle switch front
95 c0 front waking reads
100 c0 front switch idle blocked call=45:0
BEFORE
360 c2 works context a/d
360 c2 works switch idle blocked call=35:0
600 c2 idle/timer waking works
600 c2 idle switch works
620 c2 works waking front
625 c2 works context none
625 c2 works switch idle blocked call=202:0
630 c0 idle switch front
700 c0 front context none
700 c0 front switch idle blocked call=35:0
";

/// `reads` gets its CPU and hands the request over. `READS` is its context read there; `WAKES` wakes `works`.
const READ: &str = "
300 c1 noise switch reads runnable
330 c1 reads context READS
WAKES
340 c1 reads context none
340 c1 reads switch idle blocked call=7:0
";

/// `works` finishes another request before the call is read, and waits for work.
const IDLE: &str = "
40 c2 works context b/b
40 c2 works switch idle blocked call=35:0
200 c2 idle/timer waking works
200 c2 idle switch works
210 c2 works context none
210 c2 works switch idle blocked call=202:0
READ
350 c2 idle switch works
";

/// `works` is busy with another request since before the call, until it picks up this request.
const BUSY: &str = "
40 c2 works context b/b
40 c2 works switch idle blocked call=35:0
READ
350 c2 idle/timer waking works
350 c2 idle switch works
";

/// `works` waits for work until 250, and then is busy with another request until it picks up this request.
const BUSY_LATER: &str = "
40 c2 works context none
40 c2 works switch idle blocked call=202:0
250 c2 idle/timer waking works
250 c2 idle switch works
255 c2 works context b/b
255 c2 works switch idle blocked call=35:0
READ
350 c2 idle/timer waking works
350 c2 idle switch works
";

/// `works` is woken for another request at 90, and gets its CPU at 250.
const WOKEN: &str = "
40 c2 works context none
40 c2 works switch other blocked call=202:0
90 c1 noise waking works
250 c2 other switch works runnable
255 c2 works context b/b
255 c2 works switch idle blocked call=35:0
READ
350 c2 idle/timer waking works
350 c2 idle switch works
";

fn span(ids: (char, char), parent: &str, name: &str, (from, to): (u64, u64), tid: Option<u32>) -> Value {
    let tid = tid.map(|tid| json!([{"key": "wakepath.tid", "value": {"intValue": tid.to_string()}}]));
    json!({
        "traceId": ids.0.to_string().repeat(32),
        "spanId": ids.1.to_string().repeat(16),
        "parentSpanId": parent,
        "name": name,
        "kind": 2,
        "startTimeUnixNano": (REALTIME + from).to_string(),
        "endTimeUnixNano": (REALTIME + to).to_string(),
        "attributes": tid.unwrap_or(json!([])),
    })
}

/// A recording and its service's spans.
fn drawn(drawing: &str, spans: &[Value]) -> Made {
    let made = made(drawing, &[]);
    let service = json!([{"key": "service.name", "value": {"stringValue": "shop"}}]);
    let document =
        json!({"resourceSpans": [{"resource": {"attributes": service}, "scopeSpans": [{"spans": spans}]}]});
    fs::write(made.folder().join("spans.json"), document.to_string()).expect("a file");
    made
}

/// The pieces of the request of `front`, with its request to the service, and another request. `tid` is the thread named by the service's span.
fn pieces(before: &str, reads: &str, wakes: &str, tid: Option<u32>) -> Vec<String> {
    pieces_with(before, reads, wakes, tid, |drawing| drawing)
}

/// The same, for a drawing changed by `changed`.
fn pieces_with(
    before: &str,
    reads: &str,
    wakes: &str,
    tid: Option<u32>,
    changed: impl FnOnce(String) -> String,
) -> Vec<String> {
    let read = READ.replace("READS", reads).replace("WAKES", wakes);
    let drawing = changed(CALLED.replace("BEFORE", &before.replace("READ", read.trim())));
    let spans = [
        span(('a', 'a'), "", "GET /front", (50, 650), None),
        span(('a', 'd'), &"a".repeat(16), "GET /works", (310, 624), tid),
        span(('b', 'b'), "", "PUT /other", (20, 345), None),
    ];
    pieces_of(&drawn(&drawing, &spans))
}

/// The pieces of the request a: each with its end, kind and thread, its rule, and the request that blocks there.
fn pieces_of(made: &Made) -> Vec<String> {
    let (code, out, err) =
        made.run(["requests", "wakepath.rec", "spans.json", "--request", "aaaa/aaaa", "--json"].to_vec());
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let document: Value = serde_json::from_str(&out).expect("JSON");
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let mut at = document["window"]["from_ns"].clone();
    let mut pieces: Vec<String> = Vec::new();
    for piece in document["pieces"].as_array().expect("a list") {
        assert_eq!(piece["from_ns"], at, "the pieces tile the window");
        at = piece["to_ns"].clone();
        let segment = &document["segments"][piece["segment"].as_u64().expect("a place") as usize];
        let blocks = piece["waits_for"].as_array().and_then(|all| all.last());
        let blocks = blocks.map_or("-".to_owned(), |one| text(&one["trace_id"])[..1].to_owned());
        let [kind, comm, rule] = ["kind", "comm", "rule"].map(|key| text(&segment[key]));
        let words = format!("{kind} {comm} {rule} {blocks}");
        if pieces.last().is_some_and(|last| last.split_once(' ').is_some_and(|(_, last)| last == words)) {
            pieces.pop();
        }
        pieces.push(format!("{at} {words}"));
    }
    assert_eq!(at, document["window"]["to_ns"]);
    pieces
}

const WAKES: &str = "332 c1 reads waking works";

/// The front's own time before its wait.
const OWN: [&str; 3] = ["60 running front - -", "70 runnable front - -", "100 running front - -"];

/// `reads` stands for the time until it leaves the request; `works` has no CPU until 350.
const BY_READER: [&str; 3] = [
    "300 runnable reads handed_over -",
    "340 running reads handed_over -",
    "350 runnable works handed_over -",
];

/// The front's own time after its wait.
const END: [&str; 2] = ["630 runnable front - -", "650 running front - -"];

#[test]
fn a_reader_without_a_cpu_stands_for_its_time_and_not_what_the_worker_did_for_others() {
    let found = pieces(IDLE, "a/d", WAKES, Some(11));
    assert_eq!(found[..3], OWN);
    assert_eq!(found[3..6], BY_READER);
    assert!(found.iter().all(|piece| piece.ends_with('-')), "{found:?}");
}

#[test]
fn a_reader_whose_context_was_not_read_is_known_by_the_thread_of_the_span() {
    let found = pieces(IDLE, "none", WAKES, Some(11));
    // Nothing shows when it left the request: at the latest when it woke `works`.
    let by_reader = BY_READER.map(|piece| piece.replace("340", "332"));
    assert_eq!(found[3..6], by_reader);
    // Without the span's thread, the worker's own time stands.
    let found = pieces(IDLE, "none", WAKES, None);
    assert!(found.contains(&"200 timer works - b".to_owned()), "{found:?}");
}

#[test]
fn a_worker_that_is_busy_since_before_the_call_until_it_takes_the_request_up_keeps_it_waiting() {
    let found = pieces(BUSY, "a/d", "", Some(11));
    assert_eq!(found[3..5], ["340 timer works handed_over b", "350 queue works handed_over b"]);
    assert!(found[5..].iter().all(|piece| piece.ends_with('-')), "{found:?}");
}

#[test]
fn a_worker_that_becomes_busy_before_the_request_is_handed_over_keeps_it_waiting_from_there_on() {
    let found = pieces(BUSY_LATER, "a/d", "", Some(11));
    assert_eq!(
        found[3..7],
        [
            "250 runnable reads handed_over -",
            "255 running works handed_over b",
            "340 timer works handed_over b",
            "350 queue works handed_over b"
        ]
    );
}

/// `works` waits for a lock held by `holder`, and works for no request, until it picks up this request.
const LOCKED: &str = "
40 c2 works context none
40 c2 works switch holder blocked call=202:0x2000 op=128 value=2 claim=holder
READ
345 c2 holder waking works
350 c2 holder switch works blocked call=35:0
355 c2 works context none
";

/// The context of `works` cannot be read until it picks up this request.
const UNREADABLE: &str = "
40 c2 works context unknown
40 c2 works switch idle blocked call=35:0
READ
350 c2 idle/timer waking works
350 c2 idle switch works
";

/// `works` waits for work until an interrupt wakes it after `reads` has left the request, while `other` runs.
const WOKEN_BY_TIMER: &str = "
40 c2 works context none
40 c2 works switch other blocked call=202:0
READ
346 c2 other/timer waking works
350 c2 other switch works runnable
";

#[test]
fn a_thread_that_runs_as_an_interrupt_wakes_an_idle_worker_did_not_hand_the_request_over() {
    let found = pieces(WOKEN_BY_TIMER, "a/d", "", Some(11));
    assert_eq!(found[5..7], ["346 unknown front - -", "350 runnable works handed_over -"], "{found:?}");
}

#[test]
fn a_worker_that_waits_for_a_lock_is_not_idle() {
    let found = pieces_with(LOCKED, "a/d", "", Some(11), |drawing| {
        drawing.replace("thread noise", "thread holder tid=15 tgid=10\nthread noise")
    });
    // An earlier hand-over would not have let it pick up the request earlier.
    assert_eq!(found[3], "345 running holder handed_over -", "{found:?}");
}

#[test]
fn a_worker_whose_context_cannot_be_read_is_not_busy_with_another_request() {
    let found = pieces(UNREADABLE, "a/d", WAKES, Some(11));
    assert_eq!(
        found[3..],
        [
            &BY_READER[..],
            &["360 running works handed_over -", "600 timer works - -", "620 running works - -"],
            &END
        ]
        .concat(),
        "{found:?}"
    );
}

#[test]
fn a_worker_that_turns_to_another_request_before_it_answers_has_answered_the_call() {
    let turned = pieces_with(BUSY, "a/d", "", Some(11), |drawing| {
        drawing.replace("620 c2 works waking front", "610 c2 works context b/b\n620 c2 works waking front")
    });
    assert_eq!(
        turned[3..5],
        ["340 timer works handed_over b", "350 queue works handed_over b"],
        "{turned:?}"
    );
}

#[test]
fn a_thread_that_has_the_request_beside_the_one_that_answers_does_not_stand_for_it() {
    // `other` has the request too, from before `works` picks it up until after the answer.
    let other = "340 c1 reads switch other blocked call=7:0\n345 c1 other context a/d\n\
                 346 c1 other switch idle blocked call=35:0";
    let ends = "640 c1 idle/timer waking other\n640 c1 idle switch other\n641 c1 other context none\n\
                642 c1 other switch idle blocked call=35:0\n700 c0 front context none";
    let found = pieces_with(BUSY, "a/d", "", Some(11), |drawing| {
        drawing.replace(READS_END, other).replace("700 c0 front context none", ends)
    });
    assert_eq!(
        found[3..],
        [
            &["350 timer works - b", "360 running works - -", "600 timer works - -", "620 running works - -"],
            &END[..]
        ]
        .concat(),
        "{found:?}"
    );
}

/// `reads` leaves its CPU.
const READS_END: &str = "340 c1 reads switch idle blocked call=7:0";

#[test]
fn a_worker_that_was_busy_since_before_two_others_had_the_request_keeps_it_waiting_once() {
    // `reads` hands the request to `other`, which hands it to `works`.
    let other = "340 c1 reads switch other blocked call=7:0\n342 c1 other context a/d\n346 c1 other context none\n\
                 347 c1 other switch idle blocked call=7:0";
    let found = pieces_with(BUSY, "a/d", "", Some(11), |drawing| drawing.replace(READS_END, other));
    assert_eq!(found[3..5], ["346 timer works handed_over b", "350 queue works handed_over b"], "{found:?}");
}

/// One service: `reads` begins the request, and at 200 hands it to `works`, which is busy with another request from before its beginning until
/// 300.
const POOL: &str = "
thread reads tid=11
thread works tid=12 tgid=11
0 c0 idle started
0 c0 idle switch reads
0 c1 idle switch works
20 c1 works context b/b
100 c0 reads context a/a
200 c0 reads context none
210 c0 reads switch idle blocked call=7:0
300 c1 works context a/a
500 c1 works context none
510 c1 works switch idle blocked call=202:0
600 c0 idle stopped
";

#[test]
fn before_it_hands_its_own_request_over_a_thread_stands_for_it_though_the_next_one_is_busy() {
    let spans = [
        span(('a', 'a'), "", "GET /reads", (90, 500), None),
        span(('b', 'b'), "", "PUT /other", (20, 300), None),
    ];
    assert_eq!(
        pieces_of(&drawn(POOL, &spans)),
        ["200 running reads - -", "300 queue works handed_over b", "500 running works - -"]
    );
}

#[test]
fn a_worker_that_was_woken_for_another_request_keeps_it_waiting_from_where_it_runs() {
    let found = pieces(WOKEN, "a/d", "", Some(11));
    assert_eq!(found[3], "250 runnable reads handed_over -", "{found:?}");
    assert!(found.contains(&"340 timer works handed_over b".to_owned()), "{found:?}");
}

/// `owner` has a lock for which `first` and then `front` wait, and wakes `first`, which gets no CPU before `taker` takes the free lock. `taker`
/// sleeps until 210 and has the lock until 500.
const OUT_OF_TURN: &str = "
thread front tid=10
thread owner tid=11 tgid=10
thread first tid=12 tgid=10
thread taker tid=13 tgid=10
0 c0 idle started
0 c0 idle switch front
0 c1 idle switch taker
0 c2 idle switch first
10 c1 taker context none
20 c1 taker switch owner blocked call=35:0
30 c2 first context none
50 c2 first switch idle blocked call=202:0x1000 op=128 value=2 claim=owner
60 c0 front context a/a
100 c0 front switch idle blocked call=202:0x1000 op=128 value=2 claim=owner
200 c1 owner waking first
205 c1 owner switch idle blocked call=35:0
210 c0 idle/timer waking taker
210 c0 idle switch taker
260 c2 idle switch first
290 c2 first switch idle blocked call=202:0x1000 op=128 value=2 claim=taker
495 c0 taker context b/b
500 c0 taker waking front
510 c2 idle switch front
700 c0 taker context none
700 c0 taker switch idle blocked call=35:0
700 c2 front context none
700 c2 front switch idle blocked call=35:0
";

/// The pieces of the request of `front` if `taker` picks up its request at `taken`.
fn out_of_turn(taken: u64) -> Vec<String> {
    out_of_turn_in(OUT_OF_TURN, (taken, 600))
}

fn out_of_turn_in(drawing: &str, other: (u64, u64)) -> Vec<String> {
    let spans = [
        span(('a', 'a'), "", "GET /front", (50, 650), None),
        span(('b', 'b'), "", "PUT /other", other, None),
        span(('c', 'c'), "", "PUT /third", (515, 635), None),
    ];
    pieces_of(&drawn(drawing, &spans))
}

#[test]
fn a_lock_that_was_taken_out_of_turn_is_had_by_its_taker_from_where_it_took_its_request_up() {
    let rest = ["510 runnable front - -", "650 running front - -"];
    let owned = ["100 running front - -", "200 running owner lock_turns -"];
    // While `taker` sleeps, `first` keeps the others waiting. From then until `first` finds the lock taken, at 290, the owner is not
    // certain.
    let taken = [
        "210 runnable first lock_turns -",
        "240 runnable first - -",
        "290 running taker - b",
        "500 running taker lock_turns b",
    ];
    assert_eq!(out_of_turn(240), [&owned[..], &taken, &rest].concat());
    // Its request begins later: the lock is not taken for this request.
    let before = [
        "210 runnable first lock_turns -",
        "260 runnable first - -",
        "290 running first - -",
        "295 running taker lock_turns -",
        "500 running taker lock_turns b",
    ];
    assert_eq!(out_of_turn(295), [&owned[..], &before, &rest].concat());
    // Between, it works for a third request, and turns back: this changes nothing.
    let again = "520 c0 taker context c/c\n640 c0 taker context b/b\n700 c0 taker context none";
    let again = OUT_OF_TURN.replace("700 c0 taker context none", again);
    assert_eq!(out_of_turn_in(&again, (240, 690)), [&owned[..], &taken, &rest].concat());
}

/// `reads` works for the request `a` and wakes `first` for it, which gets no CPU until 700. Then `reads` sleeps, reads the request `b`, and wakes
/// `second` for it: `second` takes `a`, the first request in the queue, at 420. `FIRST` wakes `first`.
const OVERTAKEN: &str = "
thread reads tid=11
thread first tid=12 tgid=11
thread second tid=13 tgid=11
thread noise tid=14
0 c0 idle started
0 c0 idle switch reads
0 c1 idle switch first
0 c2 idle switch second
20 c0 reads context none
30 c1 first context none
40 c1 first switch noise blocked call=202:0
50 c2 second context none
60 c2 second switch idle blocked call=202:0
90 c0 reads context a/a
FIRST
200 c0 reads context none
210 c0 reads switch idle blocked call=7:0
300 c0 idle/timer waking reads
300 c0 idle switch reads
390 c0 reads context b/b
400 c0 reads waking second
410 c0 reads context none
415 c0 reads switch idle blocked call=7:0
420 c2 idle switch second
430 c2 second context a/a
440 c2 second switch idle blocked call=35:0
640 c2 idle/timer waking second
640 c2 idle switch second
650 c2 second context none
660 c2 second switch idle blocked call=202:0
700 c1 noise switch first runnable
710 c1 first context b/b
720 c1 first switch idle blocked call=35:0
800 c1 idle/timer waking first
800 c1 idle switch first
810 c1 first context none
820 c1 first switch idle blocked call=202:0
900 c0 idle stopped
";

/// The pieces of the request a until `second` has picked it up, in a drawing changed by `changed`.
fn overtaken(first: &str, changed: impl FnOnce(String) -> String) -> Vec<String> {
    let spans = [
        span(('a', 'a'), "", "GET /first", (85, 650), None),
        span(('b', 'b'), "", "PUT /second", (305, 810), None),
    ];
    let mut pieces = pieces_of(&drawn(&changed(OVERTAKEN.replace("FIRST", first)), &spans));
    assert_eq!(pieces.split_off(pieces.len() - 2), ["640 timer second - -", "650 running second - -"]);
    pieces
}

const WAKES_FIRST: &str = "150 c0 reads waking first";

/// `second` runs and picks up the request.
const TAKEN: [&str; 2] = ["420 runnable second - -", "440 running second - -"];

#[test]
fn a_worker_that_was_woken_for_the_request_and_has_no_cpu_keeps_it_though_the_wake_up_for_another_one_overtakes_it()
 {
    let found = overtaken(WAKES_FIRST, |drawing| drawing);
    assert_eq!(found, [&["200 running reads - -", "400 runnable first - -"], &TAKEN[..]].concat());
}

#[test]
fn where_no_worker_was_woken_for_a_request_nothing_shows_what_kept_it_until_another_one_came() {
    let expected = [&["200 running reads - -", "400 unknown second - -"], &TAKEN[..]].concat();
    assert_eq!(overtaken("", |drawing| drawing), expected);
    // The worker was woken before `reads` had the request.
    assert_eq!(
        overtaken("", |drawing| drawing.replace("\n90 c0", "\n80 c0 reads waking first\n90 c0")),
        expected
    );
    // The worker was woken after `reads` had left the request.
    let later = |drawing: String| drawing.replace("\n210 c0", "\n205 c0 reads waking first\n210 c0");
    assert_eq!(overtaken("", later), expected);
    // The woken worker works for another request, and did not wait for work.
    let busy = |drawing: String| drawing.replace("30 c1 first context none", "30 c1 first context c/c");
    assert_eq!(overtaken(WAKES_FIRST, busy), expected);
    // The worker woken for the request waits for work again.
    let idle = "250 c1 noise switch first runnable\n255 c1 first context none\n\
                260 c1 first switch noise blocked call=202:0\n300 c0 idle/timer";
    let again = |drawing: String| {
        let drawing = drawing.replacen("300 c0 idle/timer", idle, 1);
        drawing.replace("700 c1 noise switch", "690 c1 noise waking first\n700 c1 noise switch")
    };
    assert_eq!(overtaken(WAKES_FIRST, again), expected);
}

#[test]
fn a_reader_that_does_not_sleep_until_it_wakes_a_worker_keeps_the_request_with_what_it_does_for_another_one()
{
    let found = overtaken("", |drawing| {
        let asleep = "210 c0 reads switch idle blocked call=7:0\n300 c0 idle/timer waking reads\n\
                      300 c0 idle switch reads\n390 c0 reads context b/b\n";
        assert!(drawing.contains(asleep));
        drawing.replace(asleep, "210 c0 reads context b/b\n390 c0 reads context b/b\n")
    });
    assert!(found.contains(&"400 running reads - b".to_owned()), "{found:?}");
}
