//! Requests whose spans begin in goroutines, on drawn recordings: the right goroutine, even if two processes gave the same ids.

use std::fs;

use serde_json::{Value, json};
use wakepath_harness::made::{Made, made};

/// The recording's clock in realtime, ns.
const REALTIME: u64 = 1_795_229_921_310_000_000;

/// Goroutine 5 in `copy`, the first, and goroutine 7 in `cart` begin a span with the same ids.
const TWINS: &str = "
thread cart tid=10 parent=2
thread copy tid=20 parent=PARENT
0 c0 idle started
0 c0 idle switch cart
0 c1 idle switch copy
10 c1 copy go 5 runs
20 c1 copy go 5 begins a/a
30 c0 cart go 7 runs
40 c0 cart go 7 begins a/a
600 c1 copy go 5 ends
650 c0 cart go 7 ends
700 c0 cart switch idle blocked call=35:0
700 c1 copy switch idle blocked call=35:0
";

fn span(id: char) -> Value {
    json!({
        "traceId": id.to_string().repeat(32),
        "spanId": id.to_string().repeat(16),
        "name": "GET /cart",
        "kind": 2,
        "startTimeUnixNano": (REALTIME + 50).to_string(),
        "endTimeUnixNano": (REALTIME + 550).to_string(),
    })
}

/// A recording with services' spans, each with its process number.
fn drawn(drawing: &str, services: &[(&str, Option<u32>, &[Value])]) -> Made {
    let made = made(drawing, &[]);
    let of_service = |(name, pid, spans): &(&str, Option<u32>, &[Value])| {
        let mut attributes = vec![json!({"key": "service.name", "value": {"stringValue": name}})];
        attributes.extend(pid.map(|pid| json!({"key": "process.pid", "value": {"intValue": pid}})));
        json!({"resource": {"attributes": attributes}, "scopeSpans": [{"spans": spans}]})
    };
    let resources: Vec<_> = services.iter().map(of_service).collect();
    fs::write(made.folder().join("spans.json"), json!({"resourceSpans": resources}).to_string())
        .expect("a file");
    made
}

/// The way in which a service's request is joined, its goroutine, and its path's thread.
fn joined(made: &Made, service: &str) -> (String, Value, Value) {
    let words = ["requests", "wakepath.rec", "spans.json", "--service", service, "--slowest", "1", "--json"];
    let (code, out, err) = made.run(words);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let document: Value = serde_json::from_str(&out).expect("JSON");
    let join = document["request"]["join"].as_str().expect("a word").to_owned();
    let segment = &document["segments"][0];
    (join, document["goroutine"]["number"].clone(), segment["pid"].clone())
}

fn goroutine(number: u32, pid: u32) -> (String, Value, Value) {
    (String::from("goroutine"), json!(number), json!(pid))
}

fn nobody() -> (String, Value, Value) {
    (String::from("none"), Value::Null, Value::Null)
}

#[test]
fn a_process_in_which_a_span_of_another_ones_ids_begins_has_not_the_other_ones_request() {
    let drawing = TWINS.replace("PARENT", "2");
    let of = |pid| joined(&drawn(&drawing, &[("shop", pid, &[span('a')])]), "shop");
    assert_eq!(of(Some(10)), goroutine(7, 10));
    assert_eq!(of(Some(20)), goroutine(5, 20));
    // The goroutine stays unknown, also with a number from another PID namespace, which fits no process.
    assert_eq!(of(None), nobody());
    assert_eq!(of(Some(7)), nobody());
    // No other process gave these ids.
    let alone = drawing.replace("20 c1 copy go 5 begins a/a\n", "");
    for pid in [None, Some(7), Some(10)] {
        let made = drawn(&alone, &[("shop", pid, &[span('a')])]);
        assert_eq!(joined(&made, "shop"), goroutine(7, 10), "{pid:?}");
    }
}

#[test]
fn equal_ids_of_two_services_are_two_requests_each_with_its_own_goroutine() {
    let spans = [span('a')];
    let made =
        drawn(&TWINS.replace("PARENT", "2"), &[("shop", Some(10), &spans), ("bank", Some(20), &spans)]);
    assert_eq!(joined(&made, "shop"), goroutine(7, 10));
    assert_eq!(joined(&made, "bank"), goroutine(5, 20));
}

#[test]
fn a_copied_fork_has_the_spans_that_its_parent_has_not() {
    let drawing = TWINS
        .replace("PARENT", "10")
        .replace("600 c1 copy go 5 ends", "60 c1 copy go 5 begins b/b\n600 c1 copy go 5 ends");
    let of = |id| joined(&drawn(&drawing, &[("shop", Some(10), &[span(id)])]), "shop");
    assert_eq!(of('a'), goroutine(7, 10), "the process that the service names");
    assert_eq!(of('b'), goroutine(5, 20), "the one that descends from it");
    // A process that does not descend from it, while the service's process is there.
    let forged = drawing.replace("parent=10", "parent=2");
    let made = drawn(&forged, &[("shop", Some(10), &[span('a'), span('b')])]);
    let words = ["requests", "wakepath.rec", "spans.json", "--request", "bbbb", "--json"];
    let document: Value = serde_json::from_str(&made.run(words).1).expect("JSON");
    assert_eq!(document["request"]["join"], "none");
}

#[test]
fn spans_that_were_not_searched_for_goroutines_that_went_on_with_a_request_are_counted() {
    let drawing = TWINS.replace("PARENT", "2");
    let answer = |spans: u64, is_queued: bool| {
        let mut root = span('a');
        if is_queued {
            let queued = json!({"intValue": (REALTIME + 300).to_string()});
            root["attributes"] = json!([{"key": "wakepath.queued_ns", "value": queued}]);
        }
        let part = |id: u64| {
            let mut part = span('a');
            part["spanId"] = format!("{id:016x}").into();
            part["parentSpanId"] = root["spanId"].clone();
            part["kind"] = json!(1);
            part
        };
        let mut all: Vec<Value> = (1..spans).map(part).collect();
        all.push(root);
        let made = drawn(&drawing, &[("shop", Some(10), &all)]);
        let words = ["requests", "wakepath.rec", "spans.json", "--slowest", "1"];
        let (_, text, _) = made.run(words);
        let (_, out, _) = made.run([&words[..], &["--json"]].concat());
        let document: Value = serde_json::from_str(&out).expect("JSON");
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        (document["goroutine"]["spans_left_out"].clone(), text)
    };
    for (spans, is_queued, left_out, words) in [
        (1024, true, 0, ""),
        (1025, true, 1, "1 span of it was not searched for goroutines that went on with it"),
        (1031, true, 7, "7 spans of it were not searched for goroutines that went on with it"),
        (1031, false, 0, ""),
    ] {
        let (found, text) = answer(spans, is_queued);
        assert_eq!(found, left_out, "{spans}: {text}");
        assert!(text.contains(words) && text.contains("searched") != words.is_empty(), "{spans}: {text}");
    }
}
