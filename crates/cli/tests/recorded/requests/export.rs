//! Explained requests in other tools' formats: spans below the slow span, in a file and sent to a backend.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::common::v1::any_value::Value as Attribute;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, Span, TracesData};
use prost::Message;
use serde_json::{Value, json};
use wakepath_harness::made::{Made, made};
use wakepath_otlp::{Options, Receiver};

use super::{LOCKS, REALTIME};

/// A request in the service `shop`: the digit for its ids, its name, its time, its thread.
fn span(id: char, name: &str, times: (u64, u64), tid: u32) -> Value {
    super::span(id, None, name, times, Some(tid))
}

fn write_spans(made: &Made, spans: &[Value]) {
    let service = json!([
        {"key": "service.name", "value": {"stringValue": "shop"}},
        {"key": "service.instance.id", "value": {"stringValue": "i-7"}},
        {"key": "host.name", "value": {"stringValue": "web3"}},
        {"key": "process.pid", "value": {"intValue": "10"}},
    ]);
    let document =
        json!({"resourceSpans": [{"resource": {"attributes": service}, "scopeSpans": [{"spans": spans}]}]});
    fs::write(made.folder().join("spans.json"), document.to_string()).expect("a file");
}

/// Three requests; the first has a part in the same service, and the last failed.
fn locks() -> Made {
    let made = made(LOCKS, &[]);
    let mut part = span('e', "SELECT", (520, 600), 10);
    part["parentSpanId"] = "a".repeat(16).into();
    part["traceId"] = "a".repeat(32).into();
    part["kind"] = 3.into();
    let mut failed = span('c', "POST /pay", (0, 520), 12);
    failed["status"] = json!({"code": 2});
    write_spans(
        &made,
        &[span('a', "GET /cart", (50, 650), 10), part, span('b', "PUT /stock", (0, 360), 11), failed],
    );
    made
}

fn run(made: &Made, arguments: &[&str]) -> (i32, String, String) {
    made.run([&["requests", "wakepath.rec"], arguments].concat())
}

/// Exports requests to a file and reads it by OpenTelemetry's published types.
#[track_caller]
fn exported(made: &Made, arguments: &[&str]) -> Vec<TracesData> {
    let (code, _, err) = run(made, &[&["spans.json", "--export-otlp", "out.json"], arguments].concat());
    assert_eq!((code, err.as_str()), (0, ""));
    let file = fs::read_to_string(made.folder().join("out.json")).expect("a file");
    file.lines().map(|line| serde_json::from_str(line).expect("OTLP in JSON")).collect()
}

fn service(spans: &ResourceSpans) -> String {
    let attributes = spans.resource.iter().flat_map(|resource| &resource.attributes);
    let name = attributes.filter(|attribute| attribute.key == "service.name");
    name.filter_map(|attribute| match attribute.value.as_ref()?.value.as_ref()? {
        Attribute::StringValue(name) => Some(name.clone()),
        _ => None,
    })
    .collect()
}

/// A service's spans.
fn service_spans(documents: &[TracesData], name: &str) -> Vec<Span> {
    let all = documents.iter().flat_map(|document| &document.resource_spans);
    let of_service = all.filter(|spans| service(spans) == name);
    of_service.flat_map(|spans| &spans.scope_spans).flat_map(|scope| &scope.spans).cloned().collect()
}

/// A span's attributes as texts.
fn attributes(span: &Span) -> BTreeMap<String, String> {
    let text = |value: &Attribute| match value {
        Attribute::StringValue(text) => text.clone(),
        Attribute::IntValue(number) => number.to_string(),
        Attribute::DoubleValue(number) => format!("{number:.4}"),
        other => panic!("another kind of attribute: {other:?}"),
    };
    let value = |value: Option<_>| text(&Option::<Attribute>::expect(value, "a value"));
    let pair = span
        .attributes
        .iter()
        .map(|one| (one.key.clone(), value(one.value.as_ref().and_then(|value| value.value.clone()))));
    pair.collect()
}

/// The span over a whole request, and the spans for its parts: they tile it, and are below it.
#[track_caller]
fn explanation(spans: &[Span], request: char, (from, to): (u64, u64)) -> (Span, Vec<Span>) {
    let root = u8::from_str_radix(&request.to_string().repeat(2), 16).expect("a digit");
    let (whole, parts): (Vec<_>, Vec<_>) = spans
        .iter()
        .filter(|span| span.trace_id == [root; 16])
        .cloned()
        .partition(|span| span.parent_span_id == [root; 8]);
    let [whole] = whole.try_into().expect("one span over all of it");
    let mut at = REALTIME + from;
    assert_eq!((whole.start_time_unix_nano, whole.end_time_unix_nano), (at, REALTIME + to));
    for part in &parts {
        assert_eq!(part.parent_span_id, whole.span_id);
        assert_eq!(part.start_time_unix_nano, at, "{part:?}");
        at = part.end_time_unix_nano;
    }
    assert_eq!(at, REALTIME + to);
    for span in parts.iter().chain([&whole]) {
        let mark = attributes(span).remove("wakepath.explains");
        assert_eq!(mark, Some(request.to_string().repeat(16)), "{span:?}");
    }
    (whole, parts)
}

#[test]
fn a_request_has_its_path_as_spans_below_it_that_name_the_requests_which_blocked_it() {
    let made = locks();
    let documents = exported(&made, &["--request", "aaaa"]);
    let (whole, parts) = explanation(&service_spans(&documents, "wakepath"), 'a', (50, 650));
    let said = attributes(&whole);
    assert_eq!(
        said["wakepath.cause"],
        "shop GET /cart was blocked by shop PUT /stock, request bbbbbbbbbbbbbbbb, for 250 ns of 600 ns (42%, inferred)"
    );
    let figures =
        ["wakepath.join", "wakepath.blocked_by_request_ns", "wakepath.running_ns", "wakepath.blockers"];
    assert_eq!(figures.map(|key| said[key].as_str()), ["thread", "400", "190", "2"]);
    let links = |span: &Span| -> Vec<(u8, u8)> {
        span.links.iter().map(|link| (link.trace_id[15], link.span_id[7])).collect()
    };
    assert_eq!(links(&whole), [(0xbb, 0xbb), (0xcc, 0xcc)]);

    let mut text = String::new();
    for part in &parts {
        let said = attributes(part);
        let of = |key: &str| said.get(key).map_or("-", String::as_str);
        let _ = writeln!(
            text,
            "{}..{} {}; {} {} {} {} {} {:?}",
            part.start_time_unix_nano - REALTIME,
            part.end_time_unix_nano - REALTIME,
            part.name,
            of("wakepath.kind"),
            of("wakepath.thread"),
            of("wakepath.basis"),
            of("wakepath.share"),
            of("wakepath.merged"),
            links(part),
        );
    }
    expect_test::expect![[r#"
        50..100 running; running cart (10) measured 0.0833 - []
        100..350 blocked by shop PUT /stock; running stock (11) inferred 0.4167 - [(187, 187)]
        350..360 blocked by shop POST /pay; runnable pay (12) inferred 0.0167 - [(204, 204)]
        360..500 blocked by shop POST /pay; running pay (12) inferred 0.2333 - [(204, 204)]
        500..510 waiting for a CPU; runnable cart (10) measured 0.0167 - []
        510..650 running; running cart (10) measured 0.2333 3 []
    "#]]
    .assert_eq(&text);
}

#[test]
fn a_thread_that_goes_from_one_request_to_the_next_makes_two_parts() {
    let made = made(LOCKS, &[]);
    // The thread continues to run between the two: its segment is one, and each request has a separate piece of it.
    write_spans(
        &made,
        &[
            span('a', "GET /cart", (50, 650), 10),
            span('b', "PUT /stock", (0, 200), 11),
            span('d', "GET /stock", (200, 360), 11),
            span('c', "POST /pay", (0, 520), 12),
        ],
    );
    let documents = exported(&made, &["--request", "aaaa"]);
    let (_, parts) = explanation(&service_spans(&documents, "wakepath"), 'a', (50, 650));
    let of_stock: Vec<_> = parts
        .iter()
        .filter(|part| attributes(part).get("wakepath.thread").is_some_and(|name| name == "stock (11)"))
        .map(|part| {
            let [from, to] = [part.start_time_unix_nano, part.end_time_unix_nano].map(|at| at - REALTIME);
            let links: Vec<_> = part.links.iter().map(|link| link.span_id[7]).collect();
            (from, to, part.name.as_str(), links)
        })
        .collect();
    assert_eq!(
        of_stock,
        [
            (100, 200, "blocked by shop PUT /stock", vec![0xbb]),
            (200, 350, "blocked by shop GET /stock", vec![0xdd])
        ]
    );
}

#[test]
fn the_file_has_the_trace_and_the_slow_span_has_its_cause() {
    let made = locks();
    let documents = exported(&made, &["--request", "aaaa"]);
    assert_eq!(documents.len(), 1, "one trace");
    let mut shop = documents[0].resource_spans.iter().filter(|spans| service(spans) == "shop");
    let resource = shop.next().and_then(|spans| spans.resource.as_ref()).expect("a resource");
    let mut keys: Vec<_> = resource.attributes.iter().map(|attribute| attribute.key.as_str()).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["host.name", "process.pid", "service.instance.id", "service.name"]);
    let spans = service_spans(&documents, "shop");
    let mut names: Vec<_> = spans.iter().map(|span| (span.name.as_str(), attributes(span))).collect();
    names.sort_by_key(|(name, _)| *name);
    let [(cart, slow), (select, part)] = names.try_into().expect("the spans of the trace alone");
    assert_eq!((cart, select), ("GET /cart", "SELECT"));
    assert!(slow["wakepath.cause"].starts_with("shop GET /cart was blocked by shop PUT /stock"), "{slow:?}");
    assert_eq!(part.get("wakepath.cause"), None);
    assert_eq!(part["wakepath.tid"], "10");
}

#[test]
fn an_exported_file_is_read_again_as_the_spans_that_it_was_made_of() {
    let made = locks();
    exported(&made, &["--slowest", "9"]);
    for more in [&["--json"][..], &["--slowest", "9", "--json"], &["--slowest", "9"], &[]] {
        let of = |file: &str| {
            let (code, out, err) = run(&made, &[&[file], more].concat());
            assert_eq!((code, err.as_str()), (0, ""));
            out.replace(file, "FILE")
        };
        assert_eq!(of("out.json"), of("spans.json"), "{more:?}");
        // Beside the spans themselves, each appears once.
        let (_, out, _) = run(&made, &[&["spans.json", "out.json"], more].concat());
        assert_eq!(out.replace("spans.json out.json", "FILE"), of("spans.json"), "{more:?}");
    }
}

#[test]
fn a_second_export_is_the_same() {
    let made = locks();
    let first = exported(&made, &["--slowest", "9"]);
    assert_eq!(exported(&made, &["--slowest", "9"]), first);
    let ids = |documents: &[TracesData]| {
        let mut ids: Vec<_> = service_spans(documents, "wakepath")
            .into_iter()
            .map(|span| (span.trace_id, span.span_id))
            .collect();
        ids.sort();
        ids
    };
    let all = ids(&first);
    let mut different = all.clone();
    different.dedup();
    assert_eq!(all, different, "no id twice");
    // A request's ids do not depend on the other exported requests.
    let of_one = ids(&exported(&made, &["--request", "aaaa"]));
    assert!(of_one.len() > 2 && of_one.iter().all(|id| all.contains(id)));
}

#[test]
fn a_backend_gets_the_spans_that_explain_and_no_others() {
    let made = locks();
    let received = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&received);
    let options = Options { listen: "0".parse().expect("a port"), ..Options::default() };
    let receiver = Receiver::open(options).expect("a port");
    let url = receiver.endpoint();
    let take = move |message: &[u8]| {
        sink.lock().expect("no panic").push(TracesData::decode(message).expect("a message"));
        Ok(())
    };
    let running = receiver.start(Box::new(take)).expect("threads");
    let (code, _, err) = run(&made, &["spans.json", "--slowest", "2", "--export-otlp", &url]);
    assert_eq!((code, err.as_str()), (0, ""));
    running.stop();
    let sent = std::mem::take(&mut *received.lock().expect("no panic"));
    assert_eq!(service_spans(&sent, "shop"), []);
    let sent = service_spans(&sent, "wakepath");
    let of_file = service_spans(&exported(&made, &["--slowest", "2"]), "wakepath");
    let ids = |spans: &[Span]| -> Vec<_> { spans.iter().map(|span| span.span_id.clone()).collect() };
    assert_eq!(ids(&sent), ids(&of_file));
    explanation(&sent, 'a', (50, 650));
    explanation(&sent, 'c', (0, 520));
}

/// A backend that gives this answer once, and the request that it got.
fn backend(status: &str, body: &str) -> (String, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let thread = std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().expect("a connection");
        let (mut got, mut buffer) = (Vec::new(), [0; 4096]);
        loop {
            let text = String::from_utf8_lossy(&got).into_owned();
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let length = head.lines().find_map(|line| {
                    let (key, value) = line.split_once(": ")?;
                    key.eq_ignore_ascii_case("content-length").then(|| value.parse::<usize>())
                });
                if length.is_some_and(|length| length == Ok(body.len())) {
                    connection.write_all(answer.as_bytes()).expect("the program listens");
                    return text;
                }
            }
            let read = connection.read(&mut buffer).expect("the program sends");
            assert!(read > 0, "it ended early: {text}");
            got.extend(&buffer[..read]);
        }
    });
    (url, thread)
}

#[test]
fn a_backend_that_refuses_is_an_error_with_its_reason() {
    let made = locks();
    let export = |url: &str| {
        let (code, out, err) = run(&made, &["spans.json", "--request", "aaaa", "--export-otlp", url]);
        assert!(out.contains("was blocked by"), "the answer comes first: {out}");
        (code, err)
    };
    let (url, thread) = backend("200 OK", r#"{"partialSuccess": {}}"#);
    assert_eq!(export(&url), (0, String::new()));
    let got = thread.join().expect("a request").to_lowercase();
    assert!(got.starts_with("post /v1/traces http/1.1\r\n"), "{got}");
    assert!(got.contains("\r\ncontent-type: application/json\r\n"), "{got}");

    let (url, thread) = backend("503 Service Unavailable", "no room left");
    let said = format!("error: cannot send to {url}: it answers 503 Service Unavailable: no room left\n");
    assert_eq!(export(&url), (3, said));
    thread.join().expect("a request");

    let some = r#"{"partialSuccess": {"rejectedSpans": "3", "errorMessage": "too \u001b[31mold"}}"#;
    let (url, thread) = backend("200 OK", some);
    let said = format!("error: cannot send to {url}: it refuses 3 of the spans: too \\x1b[31mold\n");
    assert_eq!(export(&url), (3, said));
    thread.join().expect("a request");

    let closed = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let (code, err) = export(&format!("http://{closed}"));
    assert_eq!(code, 3);
    assert!(err.contains("onnection refused"), "{err}");
}

#[test]
fn a_perfetto_trace_has_the_requests_and_those_that_blocked_them() {
    let made = locks();
    let export = || {
        let arguments = ["spans.json", "--request", "aaaa", "--export-perfetto", "out.trace"];
        let (code, out, err) = run(&made, &arguments);
        assert_eq!((code, err.as_str()), (0, ""));
        assert!(out.contains("was blocked by"), "the answer is printed too: {out}");
        fs::read(made.folder().join("out.trace")).expect("a file")
    };
    let trace = export();
    let has = |text: &str| trace.windows(text.len()).any(|at| at == text.as_bytes());
    for text in [
        "request: shop GET /cart, 600 ns, span aaaaaaaaaaaaaaaa",
        "blocked by shop PUT /stock: stock (11): running",
        "requests that blocked others",
    ] {
        assert!(has(text), "{text}");
    }
    assert_eq!(export(), trace, "the same each time");
}

#[test]
fn an_export_needs_requests_and_a_place() {
    let made = locks();
    for (arguments, expected) in [
        (&["--export-otlp", "out.json"][..], "--export-otlp needs --request or --slowest"),
        (&["--export-perfetto", "out.json"], "--export-perfetto needs --request or --slowest"),
        (&["--slowest", "1", "--export-perfetto", "none/out.json"], "make the folder `none` first"),
        (&["--slowest", "1", "--export-otlp", "none/out.json"], "make the folder `none` first"),
        (&["--slowest", "1", "--export-otlp", "https://h"], "over http alone"),
        (&["--slowest", "1", "--export-otlp", "ftp://h"], "expected a URL such as"),
    ] {
        let (code, _, err) = run(&made, &[&["spans.json"], arguments].concat());
        assert!(code == 2 || code == 3, "{arguments:?}: {code}");
        assert!(err.contains(expected), "{arguments:?}: {err}");
    }
    assert!(!made.folder().join("out.json").exists());
}

/// A thread that sleeps repeatedly, once for much longer.
fn sleeps(rounds: u64) -> (String, u64) {
    let mut trace = String::from("thread cart tid=10\n0 c0 idle started\n0 c0 idle switch cart\n");
    let mut at = 100;
    for round in 0..rounds {
        let sleeps = if round == rounds / 2 { 900_000 } else { 20 + round % 7 };
        let _ = writeln!(trace, "{at} c0 cart switch idle blocked call=35:0");
        let _ = writeln!(trace, "{} c0 idle/hrtimer waking cart", at + sleeps);
        let _ = writeln!(trace, "{} c0 idle switch cart", at + sleeps);
        at += sleeps + 30;
    }
    let _ = writeln!(trace, "{} c0 cart switch idle blocked call=35:0", at + 100);
    (trace, at)
}

#[test]
fn a_path_of_many_segments_has_few_spans_and_its_long_ones_are_among_them() {
    let (trace, end) = sleeps(3_000);
    let made = made(&trace, &[]);
    write_spans(&made, &[span('a', "GET /cart", (0, end), 10)]);
    let documents = exported(&made, &["--slowest", "1"]);
    let (whole, parts) = explanation(&service_spans(&documents, "wakepath"), 'a', (0, end));
    assert!((100..=201).contains(&parts.len()), "{}", parts.len());
    let pieces: u64 = parts
        .iter()
        .map(|part| {
            attributes(part).get("wakepath.merged").map_or(1, |merged| merged.parse().expect("a number"))
        })
        .sum();
    assert_eq!(attributes(&whole)["wakepath.parts"], pieces.to_string());
    let length = |part: &&Span| part.end_time_unix_nano - part.start_time_unix_nano;
    let longest = parts.iter().max_by_key(length).expect("parts");
    assert_eq!((longest.name.as_str(), length(&longest)), ("waiting for a timer", 900_000));
    let mixed = parts.iter().find(|part| part.name == "shorter parts, put together").expect("short ones");
    let said = attributes(mixed);
    assert_eq!((said["wakepath.kind"].as_str(), said["wakepath.basis"].as_str()), ("mixed", "measured"));
    assert!(
        said["wakepath.cause"].contains("% running")
            && said["wakepath.cause"].contains("% waiting for a timer")
    );
}
