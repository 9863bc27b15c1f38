//! Jaeger: it shows a request's explaining spans below the slow span, and its query service's JSON is read.

use std::fs;
use std::net::SocketAddr;

use serde_json::{Value, json};
use wakepath_harness::live::{list, number};
use wakepath_harness::made::{Made, made};
use wakepath_harness::spans::{JSON, post, raw};

use super::{Backend, own_address, program};

/// `cart` waits for a mutex held by `pay`, which waited for it while `stock` held it. All steps are whole µs, as in Jaeger.
const LOCKS: &str = "
thread cart tid=10
thread stock tid=11 tgid=10
thread pay tid=12 tgid=10
0 c0 idle started
0 c0 idle switch pay
0 c1 idle switch stock
50000 c0 pay switch cart blocked call=202:0x1000 op=128 value=2 claim=stock
100000 c0 cart switch idle blocked call=202:0x1000 op=128 value=2 claim=stock
350000 c1 stock waking pay
360000 c1 stock switch pay blocked call=35:0
500000 c1 pay waking cart
510000 c0 idle switch cart
650000 c0 cart switch idle blocked call=35:0
800000 c1 pay switch idle blocked call=35:0
";

/// The recording's clock in realtime, ns.
const REALTIME: u64 = 1_795_229_921_310_000_000;

/// A span in the service `shop`: the digit for its ids, its name, its time in µs, its thread.
fn span(id: char, name: &str, (from, to): (u64, u64), tid: u32) -> Value {
    json!({
        "traceId": id.to_string().repeat(32),
        "spanId": id.to_string().repeat(16),
        "name": name,
        "kind": 2,
        "startTimeUnixNano": (REALTIME + from * 1000).to_string(),
        "endTimeUnixNano": (REALTIME + to * 1000).to_string(),
        "attributes": [{"key": "wakepath.tid", "value": {"intValue": tid.to_string()}}],
    })
}

/// The service's spans, as it sends them.
fn spans() -> Value {
    let service = json!([
        {"key": "service.name", "value": {"stringValue": "shop"}},
        {"key": "service.instance.id", "value": {"stringValue": "i-7"}},
        {"key": "host.name", "value": {"stringValue": "web3"}},
        {"key": "process.pid", "value": {"intValue": "10"}},
    ]);
    let mut part = span('e', "SELECT", (520, 600), 10);
    part["parentSpanId"] = "a".repeat(16).into();
    part["traceId"] = "a".repeat(32).into();
    part["kind"] = 3.into();
    let mut failed = span('c', "POST /pay", (0, 520), 12);
    failed["status"] = json!({"code": 2});
    // A number beyond JavaScript's range.
    let queued =
        json!({"key": "wakepath.queued_ns", "value": {"intValue": (REALTIME + 580_000).to_string()}});
    let mut handed_over = span('d', "POST /job", (540, 790), 12);
    handed_over["attributes"].as_array_mut().expect("a list").push(queued);
    let stock = span('b', "PUT /stock", (0, 360), 11);
    let spans = [span('a', "GET /cart", (50, 650), 10), part, stock, failed, handed_over];
    json!({"resourceSpans": [{"resource": {"attributes": service}, "scopeSpans": [{"spans": spans}]}]})
}

/// Jaeger with all data in memory.
fn start(program: &std::path::Path, made: &Made) -> Backend {
    let address = own_address(1);
    let configuration = format!(
        "extensions:
  jaeger_storage: {{backends: {{some: {{memory: {{max_traces: 1000}}}}}}}}
  jaeger_query:
    storage: {{traces: some}}
    http: {{endpoint: '{address}:16686'}}
    grpc: {{endpoint: '{address}:16685'}}
receivers: {{otlp: {{protocols: {{grpc: {{endpoint: '{address}:4317'}}, http: {{endpoint: '{address}:4318'}}}}}}}}
exporters: {{jaeger_storage_exporter: {{trace_storage: some}}}}
service:
  extensions: [jaeger_storage, jaeger_query]
  pipelines: {{traces: {{receivers: [otlp], exporters: [jaeger_storage_exporter]}}}}
  telemetry: {{metrics: {{level: none}}}}
"
    );
    Backend::start(program, made.folder(), &configuration, address, &[4318, 16686])
}

/// An answer from the query service.
fn asked(at: SocketAddr, path: &str) -> String {
    // In this HTTP version an answer is not cut into chunks.
    let answer = raw(at, format!("GET {path} HTTP/1.0\r\nhost: {at}\r\n\r\n").as_bytes());
    let body = String::from_utf8(answer.body).expect("UTF-8");
    assert_eq!(answer.status, 200, "{path}: {body}");
    body
}

/// The tag's value in a Jaeger span.
fn tag<'a>(span: &'a Value, key: &str) -> Option<&'a Value> {
    list(&span["tags"]).iter().find(|tag| tag["key"] == key).map(|tag| &tag["value"])
}

/// A Jaeger span's references of this type, as span ids.
fn references<'a>(span: &'a Value, kind: &str) -> Vec<&'a str> {
    let of_kind = list(&span["references"]).iter().filter(|reference| reference["refType"] == kind);
    of_kind.filter_map(|reference| reference["spanID"].as_str()).collect()
}

#[test]
fn jaeger_shows_why_a_span_was_slow_below_it_and_its_own_json_is_read() {
    let Some(jaeger) = program("jaeger", "Jaeger shows why a span was slow") else { return };
    let made = made(LOCKS, &[]);
    fs::write(made.folder().join("spans.json"), spans().to_string()).expect("a file");
    let jaeger = start(&jaeger, &made);
    let [otlp, query] = [4318, 16686].map(|port| jaeger.at(port));
    assert_eq!(post(otlp, "/v1/traces", &[JSON], spans().to_string().as_bytes()).status, 200);
    let url = format!("http://{otlp}");
    let export = ["requests", "wakepath.rec", "spans.json", "--slowest", "9", "--export-otlp", &url];
    let (code, _, err) = made.run(export);
    assert_eq!((code, err.as_str()), (0, ""), "{}", jaeger.said());

    let trace: Value =
        serde_json::from_str(&asked(query, &format!("/api/traces/{}", "a".repeat(32)))).expect("JSON");
    let trace = &trace["data"][0];
    let service = |span: &Value| {
        trace["processes"][span["processID"].as_str().expect("a process")]["serviceName"].clone()
    };
    let (ours, of_shop): (Vec<_>, Vec<_>) =
        list(&trace["spans"]).iter().partition(|span| service(span) == "wakepath");
    let names: Vec<_> = of_shop.iter().map(|span| span["operationName"].as_str().expect("a name")).collect();
    assert!(names.len() == 2 && names.contains(&"GET /cart") && names.contains(&"SELECT"), "{trace}");
    let (slow, b, c) = ("a".repeat(16), "b".repeat(16), "c".repeat(16));
    let (whole, parts): (Vec<&Value>, Vec<&Value>) =
        ours.into_iter().partition(|span| references(span, "CHILD_OF") == [slow.as_str()]);
    let [whole] = whole[..] else { panic!("one span below the slow one: {trace}") };
    assert_eq!(whole["operationName"], "why it took its time");
    assert_eq!((number(&whole["startTime"]), number(&whole["duration"])), (REALTIME / 1000 + 50, 600));
    let cause = "shop GET /cart was blocked by shop PUT /stock, request bbbbbbbbbbbbbbbb, for 250 µs of 600 µs (42%, inferred)";
    assert_eq!(tag(whole, "wakepath.cause"), Some(&json!(cause)), "{whole}");
    // Jaeger shows a link as a reference to a span that this span follows from.
    assert_eq!(references(whole, "FOLLOWS_FROM"), [b.as_str(), c.as_str()], "{whole}");
    assert_eq!(whole["warnings"], Value::Null, "{whole}");
    let id = whole["spanID"].as_str().expect("an id");
    assert!(parts.iter().all(|part| references(part, "CHILD_OF") == [id]), "{trace}");
    let mut parts: Vec<_> = parts
        .iter()
        .map(|part| {
            let from = number(&part["startTime"]) - REALTIME / 1000;
            let name = part["operationName"].as_str().expect("a name");
            (from, from + number(&part["duration"]), name, references(part, "FOLLOWS_FROM"))
        })
        .collect();
    parts.sort();
    let expected = [
        (50, 100, "running", vec![]),
        (100, 350, "blocked by shop PUT /stock", vec![b.as_str()]),
        (350, 360, "blocked by shop POST /pay", vec![c.as_str()]),
        (360, 500, "blocked by shop POST /pay", vec![c.as_str()]),
        (500, 510, "waiting for a CPU", vec![]),
        (510, 650, "running", vec![]),
    ];
    assert_eq!(parts, expected);

    // All traces in this hour, with their explaining spans. The newer query has one trace, and times in ns.
    let from = REALTIME / 1000;
    let hour = format!("start={from}&end={}", from + 3_600_000_000);
    let file = asked(query, &format!("/api/traces?service=shop&limit=20&{hour}"));
    let traces = ["a", "b", "c", "d"].map(|id| asked(query, &format!("/api/v3/traces/{}", id.repeat(32))));
    for (name, text) in [("jaeger.json", &file), ("v3.json", &traces.join("\n"))] {
        fs::write(made.folder().join(name), text).expect("a file");
    }
    for more in [&["--json"][..], &["--slowest", "9", "--json"], &["--slowest", "9"], &[]] {
        let of = |file: &str| {
            let (code, out, err) = made.run([&["requests", "wakepath.rec", file], more].concat());
            assert_eq!((code, err.as_str()), (0, ""), "{out}");
            out.replace(file, "FILE")
        };
        assert_eq!(of("jaeger.json"), of("spans.json"), "{more:?}: {file}");
        assert_eq!(of("v3.json"), of("spans.json"), "{more:?}: {traces:?}");
    }
}
