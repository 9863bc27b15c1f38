//! The OpenTelemetry Collector behind `record --otlp-forward`, and its file exporter's files.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link, SpanKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status, TracesData};
use prost::Message as _;
use serde_json::Value;
use wakepath_harness::live::{command, list, place, run, texts};
use wakepath_harness::spans::{GZIP, JSON, PROTOBUF, export, gzip, post};

use super::{Backend, own_address, program};

/// Makes this program the sender.
const SENDS: &str = "WAKEPATH_TEST_SENDS";
/// The number of its requests, each sent in another way.
const REQUESTS: u8 = 5;

fn any(value: Any) -> AnyValue {
    AnyValue { value: Some(value) }
}

fn attribute(key: &str, value: Any) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(any(value)), ..KeyValue::default() }
}

/// A value of each type.
fn all_types() -> Vec<KeyValue> {
    let some = || any(Any::StringValue("a\u{1b}[1mé".to_owned()));
    vec![
        attribute("db.statement", Any::StringValue("SELECT 'ü'".to_owned())),
        attribute("is", Any::BoolValue(true)),
        attribute("count", Any::IntValue(-(1 << 60))),
        attribute("share", Any::DoubleValue(0.1)),
        attribute("list", Any::ArrayValue(ArrayValue { values: vec![some(), any(Any::IntValue(0))] })),
        attribute(
            "map",
            Any::KvlistValue(KeyValueList { values: vec![attribute("in", Any::BoolValue(false))] }),
        ),
        attribute("bytes", Any::BytesValue(vec![0, 255, 7])),
    ]
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_nanos() as u64
}

/// Works for a request, asleep, in this thread, and returns it as spans with all OTLP fields.
fn work(id: u8) -> ExportTraceServiceRequest {
    let from = now();
    std::thread::sleep(Duration::from_millis(10));
    // SAFETY: `gettid` takes nothing and cannot fail.
    let (middle, tid) = (now(), unsafe { libc::gettid() });
    std::thread::sleep(Duration::from_millis(10 + u64::from(id)));
    let to = now();
    // Threads in other tests name simpler request ids in their contexts.
    let pid = std::process::id().to_be_bytes();
    let span_id = |place| [&pid[..], &[0xc0, 0x11, id, place]].concat();
    let of = |place: u8, name: &str, from, to| Span {
        trace_id: [span_id(9), span_id(9)].concat(),
        span_id: span_id(place),
        trace_state: "vendor=value,other=1".to_owned(),
        parent_span_id: if place > 0 { span_id(0) } else { Vec::new() },
        flags: 0x301,
        name: name.to_owned(),
        kind: if place > 0 { SpanKind::Client } else { SpanKind::Server } as i32,
        start_time_unix_nano: from,
        end_time_unix_nano: to,
        attributes: [all_types(), vec![attribute("wakepath.tid", Any::IntValue(tid.into()))]].concat(),
        dropped_attributes_count: 3,
        events: vec![Event {
            time_unix_nano: middle,
            name: "exception".to_owned(),
            attributes: all_types(),
            dropped_attributes_count: 1,
        }],
        dropped_events_count: 4,
        links: vec![Link {
            trace_id: vec![9; 16],
            span_id: vec![8; 8],
            trace_state: "a=b".to_owned(),
            attributes: all_types(),
            dropped_attributes_count: 2,
            flags: 1,
        }],
        dropped_links_count: 5,
        status: Some(Status { message: "it failed".to_owned(), code: StatusCode::Error as i32 }),
    };
    let spans = vec![of(0, &format!("GET /{id}"), from, to), of(1, "SELECT", middle, to)];
    let scope = InstrumentationScope {
        name: "library".to_owned(),
        version: "1.2".to_owned(),
        attributes: all_types(),
        dropped_attributes_count: 6,
    };
    let mut attributes = vec![attribute("service.name", Any::StringValue("shop".to_owned()))];
    attributes.push(attribute("process.pid", Any::IntValue(std::process::id().into())));
    attributes.extend(all_types());
    let of_scope = ScopeSpans {
        scope: Some(scope),
        spans,
        schema_url: "https://opentelemetry.io/schemas/1.26.0".to_owned(),
    };
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(Resource { attributes, dropped_attributes_count: 7, ..Resource::default() }),
            scope_spans: vec![of_scope],
            schema_url: "https://opentelemetry.io/schemas/1.25.0".to_owned(),
        }],
    }
}

/// A small program with tracing, not a test: the recorded command. It prints what it sends.
#[test]
fn the_program_that_sends() {
    if std::env::var_os(SENDS).is_none() {
        return;
    }
    let endpoint = std::env::var("OTEL_EXPORTER_OTLP_ENDPOINT").expect("where to send");
    let address: SocketAddr = endpoint.strip_prefix("http://").expect("a URL").parse().expect("an address");
    for id in 1..=REQUESTS {
        let request = work(id);
        let (bytes, text) = (request.encode_to_vec(), serde_json::to_string(&request).expect("JSON"));
        println!("sent {text}");
        let status = match id {
            1 | 2 => {
                export(address, id == 2, request).expect("an answer");
                200
            }
            3 => post(address, "/v1/traces", &[PROTOBUF], &bytes).status,
            4 => post(address, "/v1/traces", &[PROTOBUF, GZIP], &gzip(&bytes)).status,
            _ => post(address, "/v1/traces", &[JSON], text.as_bytes()).status,
        };
        assert_eq!(status, 200, "request {id}");
    }
}

/// The messages' spans, each with its resource and scope, in the order of their ids.
fn whole(messages: Vec<TracesData>) -> Vec<ResourceSpans> {
    let mut all = Vec::new();
    for of_resource in messages.into_iter().flat_map(|message| message.resource_spans) {
        for of_scope in of_resource.scope_spans.clone() {
            all.extend(of_scope.spans.clone().into_iter().map(|span| {
                let scope_spans = vec![ScopeSpans { spans: vec![span], ..of_scope.clone() }];
                ResourceSpans { scope_spans, ..of_resource.clone() }
            }));
        }
    }
    all.sort_by_key(|one| one.scope_spans[0].spans[0].span_id.clone());
    all
}

/// Reads a file of protobuf messages, each after its length.
fn messages(mut file: &[u8]) -> Vec<TracesData> {
    let mut messages = Vec::new();
    while let Some((length, rest)) = file.split_first_chunk::<4>() {
        let (message, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        messages.push(TracesData::decode(message).expect("spans"));
        file = rest;
    }
    messages
}

fn lines(text: &str) -> Vec<TracesData> {
    text.lines().map(|line| serde_json::from_str(line).expect("OTLP in JSON")).collect()
}

/// The answers by `wakepath requests` for these files: the operations, and why the slowest requests took their time.
fn answers(folder: &Path, files: &[&str]) -> [Vec<Value>; 2] {
    [&[][..], &["--slowest", "9"]].map(|more| {
        let (out, _) = run(folder, &[&["requests"], files, more, &["--json"]].concat(), 0);
        serde_json::Deserializer::from_str(&out).into_iter().map(|one| one.expect("JSON")).collect()
    })
}

#[test]
fn live_root_the_collector_gets_all_spans_unchanged_and_the_files_that_it_writes_are_read() {
    const SHOWS: &str = "the OpenTelemetry Collector gets what is sent on, and what it writes is read";
    let Some(collector) = program("collector", SHOWS) else { return };
    let Some(folder) = place(SHOWS) else { return };
    let address = own_address(0);
    let configuration = format!(
        "receivers: {{otlp: {{protocols: {{grpc: {{endpoint: '{address}:4317'}}, http: {{endpoint: '{address}:4318'}}}}}}}}
exporters:
  file/json: {{path: traces.json}}
  file/proto: {{path: traces.pb, format: proto}}
service:
  pipelines: {{traces: {{receivers: [otlp], exporters: [file/json, file/proto]}}}}
  telemetry: {{metrics: {{level: none}}}}
"
    );
    let collector = Backend::start(&collector, &folder, &configuration, address, &[4317, 4318]);
    let url = format!("http://{address}:4318");
    let mut record = command(&folder, &["record", "--otlp", "0", "--otlp-forward", &url, "--"]);
    record.arg(std::env::current_exe().expect("this program"));
    record.args(["--exact", "backends::collector::the_program_that_sends", "--nocapture"]);
    record.env(SENDS, "all").env_remove("OTEL_EXPORTER_OTLP_ENDPOINT");
    record.env_remove("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
    let (out, err) = texts(&record.output().expect("wakepath"));
    assert!(err.contains(&format!("note: {REQUESTS} requests sent on to {url}\n")), "{out}{err}");
    assert!(collector.stop().success());

    let sent: Vec<_> = out.lines().filter_map(|line| line.strip_prefix("sent ")).collect();
    let sent = whole(lines(&sent.join("\n")));
    assert_eq!(sent.len(), 2 * usize::from(REQUESTS), "{out}");
    let read = |file: &str| std::fs::read(folder.join(file)).expect("a file of the Collector");
    assert_eq!(whole(messages(&read("traces.pb"))), sent);
    assert_eq!(whole(lines(&String::from_utf8(read("traces.json")).expect("UTF-8"))), sent);

    // The recording without its own spans, beside the Collector's spans.
    let own = answers(&folder, &["wakepath.rec"]);
    let [operations, slowest] = &own;
    assert_eq!(list(&operations[0]["operations"]).len(), usize::from(REQUESTS), "{operations:#?}");
    assert_eq!(slowest.len(), usize::from(REQUESTS));
    for answer in slowest {
        assert_eq!(answer["request"]["join"], "thread", "{answer}");
        assert!(!list(&answer["segments"]).is_empty(), "{answer}");
    }
    std::fs::remove_file(folder.join("wakepath.rec/spans")).expect("the recording's own spans");
    for file in ["traces.json", "traces.pb"] {
        assert_eq!(answers(&folder, &["wakepath.rec", file]), own, "{file}");
    }
}
