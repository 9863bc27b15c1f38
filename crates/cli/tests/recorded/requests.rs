//! Requests in recordings and spans written by the tests: how long they took, which request blocked which, and span
//! files without spans.

mod attributes;
mod by_cause;
mod clocks;
mod connections;
mod contexts;
mod export;
mod goroutines;
mod hand_over;
mod hosts;
mod many;
mod noted;
mod peak;
mod undecided;

use std::fs;

use serde_json::{Value, json};
use wakepath_harness::made::{Made, made};

/// `cart` waits for a mutex held by `pay`, which waited for it while `stock` held it.
const LOCKS: &str = "
thread cart tid=10
thread stock tid=11 tgid=10
thread pay tid=12 tgid=10
0 c0 idle started
0 c0 idle switch pay
0 c1 idle switch stock
50 c0 pay switch cart blocked call=202:0x1000 op=128 value=2 claim=stock
100 c0 cart switch idle blocked call=202:0x1000 op=128 value=2 claim=stock
350 c1 stock waking pay
360 c1 stock switch pay blocked call=35:0
500 c1 pay waking cart
510 c0 idle switch cart
650 c0 cart switch idle blocked call=35:0
800 c1 pay switch idle blocked call=35:0
";

/// The recording's clock in realtime, ns.
const REALTIME: u64 = 1_795_229_921_310_000_000;

/// A span in the service `shop`: the digit for its ids, its parent's, its name, its time, its thread.
fn span(id: char, parent: Option<char>, name: &str, (from, to): (u64, u64), tid: Option<u32>) -> Value {
    let mut span = json!({
        "traceId": id.to_string().repeat(32),
        "spanId": id.to_string().repeat(16),
        "name": name,
        "kind": 2,
        "startTimeUnixNano": (REALTIME + from).to_string(),
        "endTimeUnixNano": (REALTIME + to).to_string(),
    });
    if let Some(parent) = parent {
        span["parentSpanId"] = parent.to_string().repeat(16).into();
        span["traceId"] = parent.to_string().repeat(32).into();
        span["kind"] = 3.into();
    }
    if let Some(tid) = tid {
        span["attributes"] = json!([{"key": "wakepath.tid", "value": {"intValue": tid.to_string()}}]);
    }
    span
}

fn write_spans(made: &Made, spans: &[Value]) {
    let service = json!([{"key": "service.name", "value": {"stringValue": "shop"}}]);
    let document =
        json!({"resourceSpans": [{"resource": {"attributes": service}, "scopeSpans": [{"spans": spans}]}]});
    fs::write(made.folder().join("spans.json"), document.to_string()).expect("a file");
}

fn locks() -> Made {
    let made = made(LOCKS, &[]);
    write_spans(
        &made,
        &[
            span('a', None, "GET /cart", (50, 650), Some(10)),
            span('b', None, "PUT /stock", (0, 360), Some(11)),
            span('c', None, "POST /pay", (0, 520), Some(12)),
            // Later, and for another request.
            span('d', None, "POST /pay", (530, 790), Some(12)),
        ],
    );
    made
}

fn run(made: &Made, arguments: &[&str]) -> (i32, String, String) {
    made.run([&["requests"], arguments].concat())
}

#[test]
fn a_request_is_blocked_by_those_whose_threads_had_its_locks() {
    let made = locks();
    let (code, out, err) = run(&made, &["wakepath.rec", "spans.json", "--request", "aaaa"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert_eq!(
        out.lines().next(),
        Some(
            "shop GET /cart was blocked by shop PUT /stock, request bbbbbbbbbbbbbbbb, for 250 ns of 600 ns (42%,"
        )
    );
    assert!(out.contains("\nshop GET /cart took 600 ns"), "{out}");
    assert!(
        out.contains(
            "\nin all: 66.7% blocked by other requests (inferred), 31.7% running, 1.7% waiting for a CPU\n"
        ),
        "{out}"
    );
    assert!(!out.contains("to disks"), "it made no access: {out}");
    assert!(out.contains(" 41.7%   250 ns  shop PUT /stock, request bbbbbbbbbbbbbbbb\n"), "{out}");
    assert!(out.contains(" 25.0%   150 ns  shop POST /pay, request cccccccccccccccc\n"), "{out}");
    assert!(
        out.contains("next: wakepath path wakepath.rec --tid 10 --from 0.00000005 --to 0.00000065 --tree\n"),
        "the thread in the time of the request: {out}"
    );
    // The offered command works.
    let (code, out, err) = made.run([
        "path",
        "wakepath.rec",
        "--tid",
        "10",
        "--from",
        "0.00000005",
        "--to",
        "0.00000065",
        "--tree",
    ]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
}

#[test]
fn a_thread_works_for_a_span_until_the_program_notes_that_it_queued_the_work() {
    // The thread of `stock` is awaited from 100 to 350. A span that begins when the work is picked up was queued before.
    for (ended, queued, blocked) in [(360, 200, 100), (360, 0, 250), (360, 360, 250), (200, 300, 100)] {
        let mut stock = span('b', None, "PUT /stock", (0, ended), Some(11));
        let queued = (REALTIME + queued).to_string();
        let noted = json!({"key": "wakepath.queued_ns", "value": {"intValue": queued}});
        stock["attributes"].as_array_mut().expect("a list").push(noted);
        let made = made(LOCKS, &[]);
        write_spans(&made, &[span('a', None, "GET /cart", (50, 650), Some(10)), stock]);
        let (code, out, _) = run(&made, &["wakepath.rec", "spans.json", "--request", "aaaa", "--json"]);
        assert_eq!(code, 0);
        let document: Value = serde_json::from_str(&out).expect("JSON");
        assert_eq!(document["blocked_by"][0]["total_ns"], blocked, "{queued}");
    }
}

#[test]
fn the_document_of_a_request_has_its_path_and_the_requests_of_each_piece_of_it() {
    let made = locks();
    let (code, out, _) = run(&made, &["wakepath.rec", "spans.json", "--slowest", "1", "--json"]);
    assert_eq!(code, 0);
    let document: Value = serde_json::from_str(&out).expect("JSON");
    let request = &document["request"];
    assert_eq!((&request["operation"], &request["join"]), (&json!("GET /cart"), &json!("thread")));
    assert_eq!((&request["from_ns"], &request["to_ns"]), (&json!(50), &json!(650)));
    let blocked: Vec<_> = document["blocked_by"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| (&one["operation"], &one["total_ns"]))
        .collect();
    assert_eq!(blocked, [(&json!("PUT /stock"), &json!(250)), (&json!("POST /pay"), &json!(150))]);
    let segments = document["segments"].as_array().expect("a list");
    assert!(segments.iter().all(|segment| segment["kind"] != "unknown"), "{segments:?}");
    // Pieces tile the path, and each lies within its segment.
    let mut at = 50;
    let mut by_request = std::collections::BTreeMap::<String, i64>::new();
    for piece in document["pieces"].as_array().expect("a list") {
        let [from, to] = ["from_ns", "to_ns"].map(|key| piece[key].as_i64().expect("a time"));
        let segment = &document["segments"][piece["segment"].as_u64().expect("a place") as usize];
        assert!(
            segment["from_ns"].as_i64() <= Some(from) && Some(to) <= segment["to_ns"].as_i64(),
            "{piece}"
        );
        assert_eq!(from, at);
        at = to;
        let trace = piece["trace_id"].as_str().map_or(String::from("none"), |trace| trace[..1].to_owned());
        *by_request.entry(trace).or_default() += to - from;
    }
    assert_eq!(at, 650);
    let expected = [("a", 200), ("b", 250), ("c", 150)];
    assert_eq!(by_request, expected.map(|(trace, ns)| (trace.to_owned(), ns)).into());
}

#[test]
fn no_request_is_blamed_where_it_is_not_known_what_its_thread_did() {
    // `pay` appears on the CPU of `stock`, whose switch-out was not recorded.
    let trace = LOCKS.replace("360 c1 stock switch pay blocked call=35:0\n", "");
    let made = made(&trace, &[]);
    write_spans(
        &made,
        &[
            span('a', None, "GET /cart", (50, 650), Some(10)),
            span('b', None, "PUT /stock", (0, 360), Some(11)),
            span('c', None, "POST /pay", (0, 520), Some(12)),
        ],
    );
    let (code, out, _) = run(&made, &["wakepath.rec", "spans.json", "--request", "aaaa", "--json"]);
    assert_eq!(code, 0);
    let document: Value = serde_json::from_str(&out).expect("JSON");
    let list = |key: &str| document[key].as_array().expect("a list").clone();
    let is_unknown = |piece: &Value| {
        let segment = &document["segments"][piece["segment"].as_u64().expect("a place") as usize];
        segment["kind"] == "unknown"
    };
    let (unknown, known): (Vec<_>, Vec<_>) = list("pieces").into_iter().partition(is_unknown);
    assert!(!unknown.is_empty() && unknown.iter().all(|piece| piece["trace_id"].is_null()), "{unknown:?}");
    let length =
        |piece: &Value| piece["to_ns"].as_i64().expect("a time") - piece["from_ns"].as_i64().expect("a time");
    let of_others: i64 = known
        .iter()
        .filter(|piece| piece["trace_id"].as_str().is_some_and(|trace| !trace.starts_with('a')))
        .map(length)
        .sum();
    let blocked: i64 = list("blocked_by").iter().map(|one| one["total_ns"].as_i64().expect("a time")).sum();
    assert_eq!(blocked, of_others);
    assert!(blocked < 400, "{blocked}");
}

#[test]
fn requests_are_listed_by_operation_and_the_longest_are_named() {
    let made = locks();
    let (code, out, err) = run(&made, &["wakepath.rec", "spans.json"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(
        out,
        "4 requests of 3 operations, from 4 spans of 1 service\n\
         2026-11-21 02:58:41.310000000 to 02:58:41.310000790 UTC on web3\n\n  \
         count      p50      p99      max  failed  operation, most time in all first\n      \
         2   260 ns   520 ns   520 ns       -  shop POST /pay\n      \
         1   600 ns   600 ns   600 ns       -  shop GET /cart\n      \
         1   360 ns   360 ns   360 ns       -  shop PUT /stock\n\n  \
         longest  request\n   \
         600 ns  aaaaaaaaaaaaaaaa  shop GET /cart\n   \
         520 ns  cccccccccccccccc  shop POST /pay\n   \
         360 ns  bbbbbbbbbbbbbbbb  shop PUT /stock\n   \
         260 ns  dddddddddddddddd  shop POST /pay\n\n\
         next: wakepath requests wakepath.rec spans.json --request aaaaaaaaaaaaaaaa\n"
    );
    let (_, out, _) = run(&made, &["wakepath.rec", "spans.json", "--operation", "POST /pay", "--json"]);
    let document: Value = serde_json::from_str(&out).expect("JSON");
    let operation = &document["operations"][0];
    let figures = ["count", "p50_ns", "p99_ns", "max_ns", "failed"].map(|key| operation[key].as_u64());
    assert_eq!(figures, [2, 260, 520, 520, 0].map(Some));
    assert_eq!(document["requests"].as_array().map(Vec::len), Some(2));
}

#[test]
fn without_a_thread_the_spans_that_the_end_waited_for_are_named_and_said_to_be_inferred() {
    let made = made(LOCKS, &[]);
    write_spans(
        &made,
        &[span('a', None, "GET /cart", (0, 600), None), span('b', Some('a'), "SELECT", (100, 500), None)],
    );
    let (code, out, err) = run(&made, &["wakepath.rec", "spans.json", "--slowest", "1"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.starts_with("shop GET /cart took 600 ns: mostly in shop SELECT (67%, inferred)\n"), "{out}");
    assert!(out.contains("\n 66.7%   400 ns  shop SELECT, 1 span  inferred\n"), "{out}");
    assert!(out.contains("\n 33.3%   200 ns  shop GET /cart, 1 span  inferred\n"), "{out}");
    assert!(out.contains("the thread that worked for it is not known"), "{out}");
    assert!(
        out.ends_with("\nnext: write the thread on each span, as wakepath.tid: docs/requests.md says how\n"),
        "{out}"
    );
}

/// `cart` reads from the disk for a request, and so does `stock` for its part; a kernel worker does so for all.
const DISKS: &str = "
thread cart tid=10
thread stock tid=11
thread kworker tid=3 kernel
0 c0 idle started
0 c0 idle switch cart
0 c1 idle switch stock
40 c0 cart issue 1 bytes=512
60 c0 cart complete 1
100 c0 cart issue 2 bytes=4096
110 c0 cart switch kworker blocked call=0:3
120 c0 kworker issue 3 bytes=65536
150 c0 idle complete 2
150 c0 idle waking cart
160 c0 kworker switch cart
200 c1 stock issue 4 bytes=8192
260 c1 stock complete 4
300 c0 cart issue 5 bytes=1024
400 c1 stock issue 6 bytes=512
450 c1 stock complete 6
500 c0 cart issue 7
550 c0 cart complete 7
650 c0 cart switch idle blocked call=35:0
";

#[test]
fn accesses_to_disks_are_those_of_the_threads_that_worked_for_a_request_or_its_parts() {
    let made = made(DISKS, &[]);
    let mut part = span('b', Some('a'), "PUT /stock", (190, 390), Some(11));
    part["kind"] = 2.into();
    write_spans(
        &made,
        &[
            span('a', None, "GET /cart", (50, 480), Some(10)),
            part,
            // Another request.
            span('c', None, "PUT /stock", (395, 460), Some(11)),
        ],
    );
    let disk = |id: &str| {
        let (code, out, err) = run(&made, &["wakepath.rec", "spans.json", "--request", id, "--json"]);
        assert_eq!((code, err.as_str()), (0, ""));
        let document: Value = serde_json::from_str(&out).expect("JSON");
        ["count", "open", "bytes", "total_ns"].map(|key| document["disk"][key].as_u64().expect("a number"))
    };
    // The requests 2, 4 and 5 in `DISKS`.
    assert_eq!(disk("aaaa"), [3, 1, 4096 + 8192 + 1024, 50 + 60]);
    assert_eq!(disk("aaaa/bbbb"), [1, 0, 8192, 60]);
    assert_eq!(disk("cccc"), [1, 0, 512, 50]);
    let (_, out, _) = run(&made, &["wakepath.rec", "spans.json", "--request", "aaaa"]);
    let expected = "\nits threads sent 3 requests of 13.0 KiB to disks, which took 110 ns; 1 had not ended\n";
    assert!(out.contains(expected), "{out}");
}

#[test]
fn a_request_without_a_path_says_why_and_what_helps_on() {
    let made = made(LOCKS, &[]);
    let part = |tid| {
        let mut part = span('b', Some('a'), "PUT /stock", (100, 500), tid);
        part["kind"] = 2.into();
        part
    };
    let check = |spans: &[Value], pid: Option<u32>, reason: &str, why: &str, next: &str| {
        write_spans(&made, spans);
        if let Some(pid) = pid {
            let path = made.folder().join("spans.json");
            let text = fs::read_to_string(&path).expect("the file");
            let with_pid = format!(
                r#""attributes":[{{"key":"process.pid","value":{{"intValue":"{pid}"}}}},{{"key":"service"#
            );
            fs::write(path, text.replacen(r#""attributes":[{"key":"service"#, &with_pid, 1)).expect("a file");
        }
        let arguments = ["wakepath.rec", "spans.json", "--request", "aaaa"];
        let (code, out, _) = run(&made, &arguments);
        assert_eq!(code, 0);
        assert!(out.contains(why), "{out}");
        assert!(out.ends_with(&format!("\nnext: {next}\n")), "{out}");
        let (_, document, _) = run(&made, &[&arguments[..], &["--json"]].concat());
        let document: Value = serde_json::from_str(&document).expect("JSON");
        assert_eq!(document["no_path"], reason, "{out}");
        let [from, to] = ["from_ns", "to_ns"].map(|key| document["request"][key].as_u64().expect("a time"));
        let unknown = json!([{"state": "unknown", "total_ns": to - from, "measured_ns": 0}]);
        assert_eq!(document["states"], unknown, "{out}");
    };
    let cart = |time, tid| span('a', None, "GET /cart", time, tid);
    check(
        &[cart((0, 600), None), part(Some(11))],
        None,
        "no_thread",
        "the thread that worked for it is not known",
        "wakepath requests wakepath.rec spans.json --request aaaaaaaaaaaaaaaa/bbbbbbbbbbbbbbbb",
    );
    let thread = "write the thread on each span, as wakepath.tid: docs/requests.md says how";
    check(&[cart((0, 600), None), part(None)], None, "no_thread", "is not known", thread);
    check(&[cart((0, 600), None), part(Some(99))], None, "no_thread", "is not known", thread);
    let process = "wakepath path wakepath.rec --pid 10 --from 0 --to 0.0000006";
    check(&[cart((0, 600), None)], Some(10), "no_thread", "is not known", process);
    check(&[cart((0, 600), None)], Some(77), "no_thread", "is not known", thread);
    check(
        &[cart((0, 600), Some(99))],
        None,
        "not_recorded",
        "the thread in which its span began, 99, is not in the recording",
        "sudo wakepath record --otlp -a",
    );
    let times = "wakepath info wakepath.rec";
    check(&[cart((0, 900), Some(10))], Some(10), "outside", "not all of its time was recorded", times);
    check(
        &[cart((100, 100), Some(10))],
        Some(10),
        "empty",
        "it has no length",
        &process.replace("--from 0 --to 0.0000006", "--from 0.0000001 --to 0.0000001"),
    );
}

#[test]
fn what_cannot_be_answered_says_why_and_what_to_do_next() {
    let made = locks();
    let check = |arguments: &[&str], expected_code: i32, expected: &[&str]| {
        let (code, out, err) = run(&made, arguments);
        assert_eq!((code, out.as_str()), (expected_code, ""), "{arguments:?}: {err}");
        let err = err.replace('\n', " ");
        expected.iter().for_each(|part| assert!(err.contains(part), "{arguments:?}: {err}"));
    };
    check(&["wakepath.rec"], 3, &["error: there are no spans", "hint: record with `wakepath record --otlp`"]);
    check(
        &["wakepath.rec", "spans.json", "--request", "abc"],
        2,
        &["`abc` is no id: write 4 to 32 hex digits"],
    );
    check(&["wakepath.rec", "spans.json", "--request", "ffff"], 2, &["no request has the id `ffff`"]);
    check(
        &["wakepath.rec", "spans.json", "--service", "shops"],
        2,
        &[
            "no request is to `shops`; there are `GET /cart` of `shop`, `POST /pay` of `shop`, `PUT /stock` of `shop`",
        ],
    );
    fs::write(made.folder().join("none.json"), "{\"spans\": 1}").expect("a file");
    check(&["wakepath.rec", "none.json"], 3, &["none.json: neither OTLP", "hint: give OTLP"]);
    fs::write(made.folder().join("cut.json"), "{\"resourceSpans\": [{").expect("a file");
    check(&["wakepath.rec", "cut.json"], 3, &["cut.json: cannot be read from byte 0 on"]);
    check(&["wakepath.rec", "missing.json"], 3, &["missing.json"]);
}

/// Spans of 2018 as Jaeger's query service prints them, with ids of 64 bits.
fn write_jaeger(made: &Made) {
    let span = |id: &str, parent: Option<&str>, name: &str, from: u64, length: u64| {
        let to_parent = |id| json!([{"refType": "CHILD_OF", "traceID": "10a7dbc6d6cfeb6", "spanID": id}]);
        json!({
            "traceID": "10a7dbc6d6cfeb6", "spanID": id, "operationName": name, "processID": "p1", "tags": null,
            "references": parent.map(to_parent), "startTime": 1_527_684_461_617_000_u64 + from, "duration": length,
        })
    };
    let spans = [
        span("10a7dbc6d6cfeb6", None, "say", 0, 1000),
        span("b", Some("10a7dbc6d6cfeb6"), "print", 100, 600),
    ];
    let document = json!({"data": [{"spans": spans, "processes": {"p1": {"serviceName": "hello"}}}]});
    fs::write(made.folder().join("jaeger.json"), document.to_string()).expect("a file");
}

#[test]
fn spans_alone_are_answered_without_a_recording_and_say_so() {
    let made = made(LOCKS, &[]);
    write_jaeger(&made);
    fs::rename(made.recording(), made.folder().join("other.rec")).expect("another name");
    let (code, out, err) = run(&made, &["jaeger.json"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(
        out,
        "1 request of 1 operation, from 2 spans of 1 service\n\
         2018-05-30 12:47:41.617000 to 12:47:41.618000 UTC\n\n  \
         count      p50      p99      max  failed  operation, most time in all first\n      \
         1  1.00 ms  1.00 ms  1.00 ms       -  hello say\n\n  \
         longest  request\n  \
         1.00 ms  010a7dbc6d6cfeb6  hello say\n\n\
         no recording was read: the times are those of spans alone, which do not say what the work waited for\n\
         next: wakepath requests jaeger.json --request 010a7dbc6d6cfeb6\n\
         to record: sudo wakepath record --otlp -a\n"
    );
    let explained = "hello say took 1.00 ms\n\
         2018-05-30 12:47:41.617000 to 12:47:41.618000 UTC; trace 0000000000000000010a7dbc6d6cfeb6, span\n\
         010a7dbc6d6cfeb6\n\n \
         share     time  the spans that its end waited for, by their own time\n \
         60.0%   600 µs  hello print, 1 span  inferred\n \
         40.0%   400 µs  hello say, 1 span  inferred\n\n\
         no recording was read: the times are those of spans alone, which do not say what the work waited for\n\
         to record: sudo wakepath record --otlp -a\n";
    for which in [["--slowest", "1"], ["--request", "10a7dbc6d6cfeb6"], ["--request", "010A7DBC6D6CFEB6"]] {
        let (code, out, err) = run(&made, &[&["jaeger.json"], &which[..]].concat());
        assert_eq!((code, out.as_str(), err.as_str()), (0, explained, ""), "{which:?}");
    }
    let (code, out, err) = run(&made, &["jaeger.json", "--json"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let document: Value = serde_json::from_str(&out).expect("JSON");
    let request = &document["requests"][0];
    assert_eq!((&request["span_id"], &request["total_ns"]), (&"010a7dbc6d6cfeb6".into(), &1_000_000.into()));
    assert_eq!(request["own_times"][0]["total_ns"], 600_000);
    for more in [&["--peak", "1"][..], &["--compare", "other.rec"]] {
        let (code, out, err) = run(&made, &[&["jaeger.json"], more].concat());
        assert_eq!((code, out.as_str()), (2, ""), "{more:?}");
        assert!(err.contains(&format!("{} needs a recording", more[0])), "{err}");
    }
}

#[test]
fn spans_outside_the_recording_keep_their_times_and_are_said_to_be_covered_by_none() {
    let made = made(LOCKS, &[]);
    write_jaeger(&made);
    let (code, out, err) = run(&made, &["wakepath.rec", "jaeger.json"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("\n2018-05-30 12:47:41.617000 to 12:47:41.618000 UTC\n"), "{out}");
    assert!(
        out.contains("\nwarning: no recording covers 1 request: the spans are from another time,"),
        "{out}"
    );
    let (_, out, _) = run(&made, &["wakepath.rec", "jaeger.json", "--request", "10a7dbc6d6cfeb6"]);
    assert!(out.starts_with("hello say took 1.00 ms: mostly in hello print (60%, inferred)\n"), "{out}");
    assert!(out.contains("\n2018-05-30 12:47:41.617000 to 12:47:41.618000 UTC; trace 0000"), "{out}");
    assert!(out.contains("\nno recording covers it, since its spans are from another time: "), "{out}");
    // A recorded request beside it.
    let both = locks();
    write_jaeger(&both);
    let (_, out, _) = run(&both, &["wakepath.rec", "jaeger.json", "spans.json"]);
    assert!(out.contains("\nwarning: no recording covers 1 request: "), "{out}");
    let (_, out, _) = run(&both, &["wakepath.rec", "spans.json"]);
    assert!(!out.contains("no recording covers"), "{out}");
}

#[test]
fn a_file_with_a_cut_last_line_is_answered_by_the_lines_before_it() {
    let made = locks();
    let path = made.folder().join("spans.json");
    let line = fs::read_to_string(&path).expect("the file");
    let whole = run(&made, &["wakepath.rec", "spans.json"]).1;
    fs::write(&path, format!("{line}\n{}", &line[..line.len() / 3])).expect("a file");
    let (code, out, err) = run(&made, &["wakepath.rec", "spans.json"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(out.lines().next(), whole.lines().next());
    assert!(out.contains("\nwarning: spans.json: cannot be read from byte "), "{out}");
    let (_, out, _) = run(&made, &["wakepath.rec", "spans.json", "--json"]);
    let document: Value = serde_json::from_str(&out).expect("JSON");
    let keys = ["spans_cut_off", "spans_damaged"].map(|key| &document[key]);
    assert_eq!(keys, [&json!([]), &json!(["spans.json"])]);
}

#[test]
fn spans_of_a_recording_that_are_cut_off_are_said_to_be() {
    let made = locks();
    // A span with an id, a name and a time, and after it the beginning of another message.
    let mut span = [&b"\x0a\x10"[..], &[7; 16], b"\x12\x08", &[8; 8], b"\x2a\x04cart"].concat();
    for (tag, ns) in [(0x39, REALTIME), (0x41, REALTIME + 600)] {
        span.push(tag);
        span.extend(ns.to_le_bytes());
    }
    let within = |tag: u8, part: &[u8]| [&[tag, part.len() as u8], part].concat();
    let message = within(0x0a, &within(0x12, &within(0x12, &span)));
    let file = [&(message.len() as u32).to_be_bytes(), &message[..], &[0, 0]].concat();
    let path = made.recording().join("spans");
    fs::write(&path, &file[..file.len() - 2]).expect("a file");
    let (code, whole, err) = run(&made, &["wakepath.rec"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(whole.contains("   600 ns  0707070707070707  (no service name) cart"), "{whole}");
    assert!(!whole.contains("cut off"), "{whole}");
    fs::write(&path, file).expect("a file");
    let (code, cut, _) = run(&made, &["wakepath.rec"]);
    assert_eq!(code, 0);
    assert!(cut.contains("warning: the spans in wakepath.rec are cut off: later ones are missing"), "{cut}");
}

#[test]
fn names_in_spans_drive_no_terminal() {
    let made = made(LOCKS, &[]);
    write_spans(&made, &[span('a', None, "GET \u{1b}[2J\u{9b}31m\n/x", (0, 600), Some(10))]);
    for arguments in [&["wakepath.rec", "spans.json"][..], &["wakepath.rec", "spans.json", "--slowest", "1"]]
    {
        let (code, out, err) = run(&made, arguments);
        assert_eq!((code, err.as_str()), (0, ""));
        assert!(!out.contains('\u{1b}') && !out.contains('\u{9b}'), "{out:?}");
        assert!(out.contains("GET \\x1b[2J"), "{out}");
    }
}
