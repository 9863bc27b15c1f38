//! Tests of documents about requests.

use wakepath_engine::requests::{RequestsQuery, Traced};
use wakepath_engine::{Algorithm, requests as engine};
use wakepath_event::{Clocks, EventKind};

use super::*;
use crate::json::shape;
use crate::sample::trace_with;

const REALTIME: u64 = 1_795_229_921_310_000_000;

/// Two requests; the first waits for a lock held by the second's thread.
fn traced(with_threads: bool) -> Traced {
    traced_first(2, with_threads)
}

/// The first `count` of three requests.
fn traced_first(count: usize, with_threads: bool) -> Traced {
    let span = |id: char, name: &str, tid: u32| {
        let tid = if with_threads { tid } else { 0 };
        format!(
            r#"{{"traceId": "{0}{0}{0}{0}", "spanId": "{0}{0}", "name": "{name}",
            "startTimeUnixNano": "{REALTIME}", "endTimeUnixNano": "{1}",
            "attributes": [{{"key": "wakepath.tid", "value": {{"intValue": "{tid}"}}}}]}}"#,
            id.to_string().repeat(8),
            REALTIME + 500,
        )
    };
    let spans = [span('a', "GET /cart", 10), span('b', "POST /pay", 11), span('c', "POST /ship", 12)];
    let spans = spans[..count].join(",");
    let file = format!(r#"{{"resourceSpans": [{{"scopeSpans": [{{"spans": [{spans}]}}]}}]}}"#);
    let (spans, dropped) = engine::read_spans(&file.into()).expect("spans");
    Traced::new(spans, dropped)
}

#[test]
fn blocking_requests_lead_both_views_with_a_tenth_of_the_time_in_all() {
    let clocks = EventKind::Clocks(Clocks { boottime_ns: 0, realtime_ns: REALTIME, steal_ns: 0 });
    let traced = traced_first(3, true);
    // The first request waits for the second's thread, then for the third's, up to these times.
    for (second, third, leads) in [(149, 200, false), (150, 200, true), (130, 219, false), (130, 220, true)] {
        let recorded = trace_with(
            &format!(
                "
                thread cart tid=10
                thread pay tid=11 tgid=10
                thread ship tid=12 tgid=10
                0 c0 idle started
                0 c0 idle switch cart
                0 c1 idle switch pay
                0 c2 idle switch ship
                100 c0 cart switch idle blocked call=202:0x1000 op=128 value=2 claim=pay
                {second} c1 pay waking cart
                {second} c0 idle switch cart
                200 c0 cart switch idle blocked call=202:0x2000 op=128 value=2 claim=ship
                {third} c2 ship waking cart
                {third} c0 idle switch cart
                600 c0 cart switch idle blocked call=35:0
                600 c1 pay switch idle blocked call=35:0
                600 c2 ship switch idle blocked call=35:0
                "
            ),
            std::slice::from_ref(&clocks),
        );
        let joined = engine::join(&recorded, &traced).expect("a clock");
        let all = engine::requests(&recorded, &traced, &RequestsQuery::default()).expect("requests");
        let cart = all.requests.iter().copied().find(|&one| traced.root(one).tid == Some(10));
        let one = engine::request(&joined, cart.expect("a request"), Algorithm::default());
        let text =
            crate::text::request(&one, crate::text::Source::Read(""), "", crate::screen::Layout::PLAIN);
        assert_eq!(text.contains("GET /cart was blocked by"), leads, "{second} {third}: {text}");
        let mut out = Vec::new();
        request(&one, Named { recording: &[], with_spans: &[] }, &mut out).expect("a vector");
        let document: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
        assert_eq!(document["headline"]["code"] == "blocked_by_request", leads, "{second} {third}");
    }
}

#[test]
fn documents_of_requests_are_in_shape() {
    let words = [["a.rec", "spans.json"].map(str::to_owned)].concat();
    let named = Named { recording: &words[..1], with_spans: &words };
    let clocks = EventKind::Clocks(Clocks { boottime_ns: 0, realtime_ns: REALTIME, steal_ns: 0 });
    let recorded = trace_with(
        "
        thread cart tid=10
        thread pay tid=11 tgid=10
          0 c0 idle started
          0 c0 idle switch cart
          0 c1 idle switch pay
        100 c0 cart switch idle blocked call=202:0x1000 op=128 value=2 claim=pay
        300 c1 pay waking cart
        310 c0 idle switch cart
        600 c0 cart switch idle blocked call=35:0
        600 c1 pay switch idle blocked call=35:0
        ",
        &[clocks],
    );
    let traced_by_thread = traced(true);
    let all = engine::requests(&recorded, &traced_by_thread, &RequestsQuery::default()).expect("requests");
    let head = include_str!("../../../contract/path.txt");
    let head: String =
        head.lines().take_while(|line| !line.starts_with("window.")).fold(String::new(), |text, line| {
            if line.starts_with("schema:") { text } else { text + line + "\n" }
        });
    let of_all = head.clone() + include_str!("../../../contract/requests.txt");
    let document = shape::document(&of_all, |out| requests(&all, out));
    assert_eq!(document["requests"].as_array().map(Vec::len), Some(2));
    assert_eq!(document["operations"].as_array().map(Vec::len), Some(2));

    let schema = "schema: \"wakepath.requests/1\"\n";
    let beside = include_str!("../../../contract/request.txt");
    let joined = engine::join(&recorded, &traced_by_thread).expect("a clock");
    let one = engine::request(&joined, all.requests[0], Algorithm::default());
    let path = include_str!("../../../contract/path.txt");
    let path: String =
        path.lines().filter(|line| !line.starts_with("schema:")).map(|line| line.to_owned() + "\n").collect();
    let document = shape::document(&(schema.to_owned() + &path + beside), |out| request(&one, named, out));
    assert_eq!(document["blocked_by"].as_array().map(Vec::len), Some(1));
    let headline = &document["headline"];
    assert_eq!((&headline["code"], &headline["total_ns"]), (&"blocked_by_request".into(), &200.into()));
    assert_eq!((&headline["is_most"], &headline["basis"]), (&false.into(), &"inferred".into()));
    let text = headline["text"].as_str().expect("text");
    assert!(text.contains("was blocked by") && text.contains("POST /pay"), "{text}");
    let of =
        |list: &str| document[list].as_array().expect("a list").iter().map(|one| one["total_ns"].as_u64());
    assert_eq!(of("rows").sum::<Option<u64>>(), Some(500));
    let next = ["wakepath", "path", "a.rec", "--tid", "10", "--from", "0", "--to", "0.0000005", "--tree"];
    assert_eq!(document["next"], serde_json::json!(next));
    assert_eq!(document["question"]["by"], "request");
    let states: Vec<_> = document["states"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| {
            (one["state"].as_str().expect("text"), one["total_ns"].as_u64(), one["measured_ns"].as_u64())
        })
        .collect();
    let expected = [
        ("running", Some(290), Some(290)),
        ("blocked_by_request", Some(200), Some(0)),
        ("runnable", Some(10), Some(10)),
    ];
    assert_eq!(states, expected);
    assert_eq!(document["disk"]["count"], 0);
    assert_eq!(document["no_path"], serde_json::Value::Null);

    let query = engine::GroupQuery {
        requests: RequestsQuery { operation: Some("GET /cart".to_owned()), service: None },
        peak: Some(1),
        algorithm: Algorithm::default(),
    };
    let group = engine::request_group(&joined, &query, None).expect("an answer");
    let calls =
        include_str!("../../../contract/calls.txt").replace("wakepath.calls/1", "wakepath.requests/1");
    let of_group = calls + include_str!("../../../contract/request_group.txt");
    let document = shape::document(&of_group, |out| request_group(&group, named, out));
    assert_eq!(document["blocked_by"][0]["operation"], "POST /pay");
    let longest = "a".repeat(16);
    let next = ["wakepath", "requests", "a.rec", "spans.json", "--request", &longest];
    assert_eq!(document["next"], serde_json::json!(next));

    let mut by_cause = engine::requests_by_cause(&joined, &all.requests, 1, Algorithm::default(), |_| {});
    let shape_by_cause = include_str!("../../../contract/requests_by_cause.txt");
    let document =
        shape::document(&(head.clone() + shape_by_cause), |out| requests_by_cause(&by_cause, named, out));
    assert_eq!(document["next"], serde_json::json!(next));
    assert_eq!((&document["count"], &document["explained"]), (&2.into(), &1.into()));
    assert_eq!(document["groups"][0]["blocked_by"]["operation"], "POST /pay");
    assert_eq!(document["headline"]["total_ns"], 200);
    let of_shape = head.clone() + shape_by_cause;
    let mut group_with = |cause| {
        by_cause.groups[0].cause = cause;
        let document = shape::document(&of_shape, |out| requests_by_cause(&by_cause, named, out));
        let keys = ["code", "by", "outside", "basis", "blocked_by", "span"];
        serde_json::json!(keys.map(|key| document["groups"][0][key].clone()))
    };
    let no_spans = |sampled| engine::BlockerOf::WithoutSpans { service: None, sampled };
    for sampled in [false, true] {
        let missing = serde_json::json!({"service": null, "operation": null, "sampled": sampled});
        let expected = serde_json::json!(["blocked_by_request", "path", false, "inferred", missing, null]);
        assert_eq!(group_with(engine::RequestCause::Blocked(no_spans(sampled))), expected);
    }
    let operation = traced_by_thread.root(all.requests[0]).operation;
    for is_outside in [false, true] {
        let span = serde_json::json!({"service": "", "operation": "GET /cart"});
        let expected = serde_json::json!(["span", "spans", is_outside, "inferred", null, span]);
        assert_eq!(group_with(engine::RequestCause::Spans { operation, is_outside }), expected);
    }
    let expected = serde_json::json!(["empty_window", "spans", false, null, null, null]);
    assert_eq!(group_with(engine::RequestCause::Empty), expected);
    let alone = engine::requests_by_cause_alone(&traced_by_thread, &all.requests, 2);
    let is_alone = |line: &&str| !line.starts_with("span_clocks") && !line.starts_with("schema");
    let shape_alone: String =
        shape_by_cause.lines().filter(is_alone).map(|line| line.to_owned() + "\n").collect();
    let shape_alone = shape_alone + "schema: \"wakepath.requests_alone/1\"\n";
    let document = shape::document(&shape_alone, |out| requests_by_cause(&alone, named, out));
    assert_eq!(document["groups"].as_array().map(Vec::len), Some(2));

    let unknown = traced(false);
    let joined = engine::join(&recorded, &unknown).expect("a clock");
    let one = engine::request(&joined, all.requests[0], Algorithm::default());
    let document = shape::document(&(schema.to_owned() + &head + beside), |out| request(&one, named, out));
    assert_eq!(document["request"]["join"], "none");
    let headline = &document["headline"];
    assert_eq!((&headline["code"], &headline["total_ns"]), (&"span".into(), &500.into()));
    assert_eq!((&headline["share"], &headline["row"]), (&1.0.into(), &serde_json::Value::Null));
    assert_eq!((&document["rows"], &document["next"]), (&serde_json::json!([]), &serde_json::Value::Null));
    assert_eq!((&document["no_path"], &document["disk"]), (&"no_thread".into(), &serde_json::Value::Null));
    assert_eq!(
        (&document["states"][0]["state"], &document["states"][0]["total_ns"]),
        (&"unknown".into(), &500.into())
    );
    assert_eq!(document.get("window"), None);
}
