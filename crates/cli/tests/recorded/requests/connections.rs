//! Requests without a named thread: found by the connections on which they came, on drawn recordings.

use std::fs;

use serde_json::{Value, json};
use wakepath_harness::made::{Made, made};

/// The recording's clock in realtime, ns.
const REALTIME: u64 = 1_795_229_921_310_000_000;

/// The unit of the drawings' times, ns.
const UNIT: u64 = 100_000;

/// `one` gets the request of span `a`, and waits for a lock held by `two`, which works for span `b`.
const LOCK: &str = "
flow ask_a 127.0.0.1:40001 > 127.0.0.1:8080
flow say_a 127.0.0.1:8080 > 127.0.0.1:40001
flow ask_b 127.0.0.1:40002 > 127.0.0.1:8080
flow say_b 127.0.0.1:8080 > 127.0.0.1:40002
thread one tid=10
thread two tid=11 tgid=10
0 c0 idle started
0 c0 idle switch one
0 c1 idle switch two
5 c0 one/net_rx in ask_a seq=1 len=9
8 c1 two/net_rx in ask_b seq=1 len=9
20 c0 one switch idle blocked call=202:0x1000 op=128 value=2 claim=two
48 c1 two waking one
49 c0 idle switch one
51 c1 two out say_b seq=1 len=9
61 c0 one out say_a seq=1 len=9
70 c0 one switch idle blocked call=35:0
70 c1 two switch idle blocked call=35:0
";

const SPANS: [Spanned; 2] = [Spanned('a', 2, 6, 60), Spanned('b', 2, 9, 50)];

/// A span's letter, its kind (2: a server's), its beginning and its end.
#[derive(Clone, Copy)]
struct Spanned(char, u8, u64, u64);

fn drawn(drawing: &str, spans: &[Spanned], pid: Option<u32>) -> Made {
    let line = |line: &str| {
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        first.parse::<u64>().map_or(line.to_owned(), |units| format!("{} {rest}", units * UNIT))
    };
    let scaled: Vec<String> = drawing.lines().map(line).collect();
    let made = made(&scaled.join("\n"), &[]);
    let span = |&Spanned(id, kind, from, to): &Spanned| {
        json!({
            "traceId": id.to_string().repeat(32),
            "spanId": id.to_string().repeat(16),
            "name": format!("GET /{id}"),
            "kind": kind,
            "startTimeUnixNano": (REALTIME + from * UNIT).to_string(),
            "endTimeUnixNano": (REALTIME + to * UNIT).to_string(),
        })
    };
    let spans: Vec<Value> = spans.iter().map(span).collect();
    let mut service = vec![json!({"key": "service.name", "value": {"stringValue": "shop"}})];
    service.extend(pid.map(|pid| json!({"key": "process.pid", "value": {"intValue": pid.to_string()}})));
    let document =
        json!({"resourceSpans": [{"resource": {"attributes": service}, "scopeSpans": [{"spans": spans}]}]});
    fs::write(made.folder().join("spans.json"), document.to_string()).expect("a file");
    made
}

fn run(made: &Made, arguments: &[&str]) -> String {
    let (code, out, err) = made.run([&["requests", "wakepath.rec", "spans.json"], arguments].concat());
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    out
}

fn request(made: &Made, id: &str) -> Value {
    serde_json::from_str(&run(made, &["--request", id, "--json"])).expect("JSON")
}

/// Each request's thread, in the order of the spans; `-` if unknown.
fn threads(drawing: &str, spans: &[Spanned], pid: Option<u32>) -> String {
    let made = drawn(drawing, spans, pid);
    let thread = |&Spanned(id, ..): &Spanned| {
        let document = request(&made, &id.to_string().repeat(4));
        match document["request"]["join"].as_str() {
            Some("connection") => document["window"]["tid"].to_string(),
            other => {
                assert_eq!(other, Some("none"));
                String::from("-")
            }
        }
    };
    spans.iter().map(thread).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_request_belongs_to_the_thread_that_answers_on_its_connection() {
    let made = drawn(LOCK, &SPANS, None);
    let document = request(&made, "aaaa");
    assert_eq!(
        (&document["request"]["join"], &document["window"]["tid"]),
        (&json!("connection"), &json!(10))
    );
    // From 20 to 48 it waits for the other thread.
    let blocked = &document["blocked_by"];
    assert_eq!(blocked.as_array().map(Vec::len), Some(1), "{document}");
    assert_eq!((&blocked[0]["operation"], &blocked[0]["total_ns"]), (&json!("GET /b"), &json!(28 * UNIT)));
    let pieces = document["pieces"].as_array().expect("a list");
    assert!(pieces.iter().all(|piece| piece["basis"] == "inferred"), "{pieces:?}");
    let out = run(&made, &["--request", "aaaa"]);
    assert!(out.starts_with("shop GET /a was blocked by shop GET /b, request bbbbbbbbbbbbbbbb"), "{out}");
    assert!(out.contains("Its thread is approximate"), "{out}");
    assert_eq!(threads(LOCK, &SPANS, None), "10 11");
}

#[test]
fn a_request_waits_for_the_one_whose_thread_waits_for_the_kernel() {
    // While holding the lock, the other thread waits for a thread that works for no request.
    let written = LOCK.replace("thread two", "thread writer tid=20\nthread two").replace(
        "48 c1 two waking one",
        "22 c1 two switch writer blocked call=74:3
46 c1 writer waking two
47 c1 writer switch two blocked
48 c1 two waking one",
    );
    let document = request(&drawn(&written, &SPANS, None), "aaaa");
    let blocked = &document["blocked_by"];
    assert_eq!((&blocked[0]["operation"], &blocked[0]["total_ns"]), (&json!("GET /b"), &json!(28 * UNIT)));
}

#[test]
fn where_two_threads_answer_about_equally_near_neither_is_taken() {
    // Both questions came before both spans, and both answers are equally far from the end.
    let both = [Spanned('a', 2, 9, 56)];
    assert_eq!(threads(LOCK, &both, None), "-");
    // Either answer will do if the same thread sent both.
    assert_eq!(threads(&LOCK.replace("c0 one out", "c1 two out"), &both, None), "11");
    // The other answer's question came after the span began.
    assert_eq!(threads(LOCK, &[Spanned('b', 2, 7, 56)], None), "10");
    // Two spans lie beside one exchange, and one of them is nearer.
    assert_eq!(threads(LOCK, &[Spanned('a', 2, 6, 60), Spanned('c', 2, 7, 57)], None), "10 -");
    assert_eq!(threads(LOCK, &[Spanned('a', 2, 6, 60), Spanned('c', 2, 7, 60)], None), "- -");
}

#[test]
fn only_a_servers_span_is_looked_for_and_only_where_others_call() {
    assert_eq!(threads(LOCK, &[Spanned('a', 3, 6, 60)], None), "-", "a client's span");
    // The thread itself asked, and the next question is no answer.
    let own = LOCK.replace(":40001", ":80").replace(":8080", ":40009");
    assert_eq!(threads(&own, &[Spanned('a', 2, 6, 60)], None), "-");
    // The handshake shows the caller, whatever the ports.
    let ask = "5 c0 one/net_rx in ask_a seq=1 len=9";
    let syn = format!("4 c0 one/net_rx in ask_a seq=1 len=0 flags=2\n{ask}");
    assert_eq!(threads(&own.replace(ask, &syn), &[Spanned('a', 2, 6, 60)], None), "10");
    // An answer long before or after the span's end belongs to another span.
    assert_eq!(threads(LOCK, &[Spanned('a', 2, 6, 7)], None), "-");
    assert_eq!(threads(LOCK, &[Spanned('a', 2, 62, 65)], None), "-");
    let beside = |other: Spanned| threads(LOCK, &[SPANS[1], other], None);
    assert_eq!(beside(Spanned('c', 2, 6, 20)), "11 -", "answered long behind its end");
    assert_eq!(beside(Spanned('c', 2, 62, 65)), "11 -", "answered before it began");
    // A process outside the service.
    assert_eq!(threads(LOCK, &SPANS, Some(10)), "10 11");
    assert_eq!(threads(LOCK, &SPANS, Some(4711)), "- -");
}

/// `front` forwards at once the answers that `one` gives on another port.
#[test]
fn a_service_has_the_port_whose_exchanges_fit_its_spans_best() {
    let proxied = LOCK.replace("thread one", "thread front tid=9\nthread one")
        + "71 c0 idle switch front
72 c0 front out say_a seq=10 len=1
";
    let proxied = proxied.replace(
        "thread front",
        "flow ask_f 127.0.0.1:40003 > 127.0.0.1:80\nflow say_f 127.0.0.1:80 > 127.0.0.1:40003\nthread front",
    );
    let asks = proxied.replace("5 c0 one/net_rx", "3 c0 one/net_rx in ask_f seq=1 len=9\n5 c0 one/net_rx");
    let says = asks.replace("72 c0 front out say_a seq=10", "72 c0 front out say_f seq=1");
    assert_eq!(threads(&says, &[Spanned('a', 2, 6, 60)], None), "10");
    assert_eq!(threads(&says, &[Spanned('a', 2, 4, 70)], None), "9");
}

#[test]
fn the_processes_of_a_service_may_answer_at_several_ports() {
    let two_ports = LOCK.replace("40002 > 127.0.0.1:8080", "40002 > 127.0.0.1:9090");
    let two_ports = two_ports.replace("127.0.0.1:8080 > 127.0.0.1:40002", "127.0.0.1:9090 > 127.0.0.1:40002");
    assert_eq!(threads(&two_ports, &SPANS, None), "10 11");
    assert_eq!(threads(&two_ports.replace("tid=11 tgid=10", "tid=11 tgid=11"), &SPANS, None), "10 -");
}

#[test]
fn for_which_of_several_requests_at_once_a_thread_works_is_not_known() {
    // One thread answers both.
    let looped = LOCK.replace("c0 one out", "c1 two out");
    let made = drawn(&looped, &SPANS, None);
    let document = request(&made, "aaaa");
    assert_eq!(document["window"]["tid"], 11);
    let text = |value: &Value| value.as_str().map_or(String::from("-"), str::to_owned);
    let pieces = document["pieces"].as_array().expect("a list");
    let pieces: Vec<String> = pieces
        .iter()
        .map(|piece| format!("{} {}", piece["to_ns"].as_u64().unwrap_or(0) / UNIT, text(&piece["trace_id"])))
        .map(|piece| piece[..piece.len().min(4)].to_owned())
        .collect();
    assert_eq!(pieces, ["9 aa", "60 -"]);
    assert_eq!(document["blocked_by"], json!([]));
}
