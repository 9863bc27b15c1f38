//! Many spans: the time and memory to list requests and to find one grow with their number, and no faster.
//!
//! `WAKEPATH_SPANS=1000000 cargo test --release -p wakepath-cli --test recorded many -- --nocapture` prints the seconds
//! and MB for a million.

use std::fs;
use std::process::{Child, Stdio};

use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value::Value};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, TracesData};
use prost::Message;
use wakepath_harness::made::{Made, made};

const REALTIME: u64 = 1_795_229_921_310_000_000;
const TRACE: &str = "
thread cart tid=10
0 c0 idle started
0 c0 idle switch cart
800 c0 cart switch idle blocked call=35:0
";

/// The trace for a tenth of all spans, which are one long chain.
const CHAIN: [u8; 16] = [0xee; 16];

/// A span in a trace of ten, or in the chain.
fn span(number: u64) -> Span {
    let id = |number: u64| (number + 1).to_be_bytes().to_vec();
    let in_chain = number.is_multiple_of(10);
    let (trace, parent) = match number {
        0 => (CHAIN.to_vec(), None),
        _ if in_chain => (CHAIN.to_vec(), Some(number - 10)),
        // Nine spans, the first around the others.
        _ => {
            let first = number - number % 10 + 1;
            (u128::from(first).to_be_bytes().to_vec(), (number != first).then_some(first))
        }
    };
    let begin = if in_chain { REALTIME } else { REALTIME + number };
    Span {
        trace_id: trace,
        span_id: id(number),
        parent_span_id: parent.map_or(Vec::new(), id),
        name: format!("GET /{}", number % 7),
        kind: if in_chain { 2 } else { 1 },
        start_time_unix_nano: begin,
        end_time_unix_nano: begin + 500 + number % 90,
        attributes: vec![attribute("wakepath.tid", Value::IntValue(10))],
        ..Span::default()
    }
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

/// Writes a file with this number of spans.
fn write(made: &Made, spans: u64) -> String {
    let name = format!("{spans}.spans");
    let mut file = Vec::new();
    for from in (0..spans).step_by(1000) {
        let attributes = vec![attribute("service.name", Value::StringValue("shop".to_owned()))];
        let message = TracesData {
            resource_spans: vec![ResourceSpans {
                resource: Some(Resource { attributes, ..Resource::default() }),
                scope_spans: vec![ScopeSpans {
                    spans: (from..spans.min(from + 1000)).map(span).collect(),
                    ..ScopeSpans::default()
                }],
                ..ResourceSpans::default()
            }],
        };
        let message = message.encode_to_vec();
        file.extend((message.len() as u32).to_be_bytes());
        file.extend(message);
    }
    fs::write(made.folder().join(&name), file).expect("a file");
    name
}

/// The CPU time of a successful child, seconds, and its largest memory, MB.
fn use_of(mut child: Child) -> (f64, f64) {
    let mut status = 0;
    // SAFETY: a structure of numbers may be all zero.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to valid memory of the right types, and the child was not waited for.
    let waited = unsafe { libc::wait4(child.id() as i32, &mut status, 0, &mut usage) };
    assert!(waited == child.id() as i32 && status == 0, "{waited}: {status}, {child:?}");
    drop(child.stdout.take());
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    (seconds(usage.ru_utime) + seconds(usage.ru_stime), usage.ru_maxrss as f64 * 1024.0 / 1e6)
}

#[test]
fn requests_of_many_spans_are_listed_and_found_in_linear_time() {
    let made = made(TRACE, &[]);
    let many = std::env::var("WAKEPATH_SPANS").ok().and_then(|spans| spans.parse().ok()).unwrap_or(80_000);
    let few = many / 8;
    let files = [few, many].map(|spans| write(&made, spans));
    let chain = "ee".repeat(16);
    let questions: [&[&str]; 4] =
        [&[], &["--json"], &["--request", &chain], &["--request", &chain, "--json"]];
    for question in questions {
        let [(few_seconds, few_mb), (many_seconds, many_mb)] = files.each_ref().map(|file| {
            let arguments = ["requests", "wakepath.rec", file].into_iter().chain(question.iter().copied());
            use_of(made.wakepath(arguments).stdout(Stdio::null()).spawn().expect("a child"))
        });
        println!(
            "requests of {many} spans {question:?}: {many_seconds:.2} s, {many_mb:.0} MB; of {few}: {few_seconds:.2} s, {few_mb:.0} MB"
        );
        // Eight times the spans: quadratic time would be 64 times as much.
        assert!(many_seconds < 20.0 * few_seconds.max(0.05), "{question:?}");
        assert!(many_mb < 12.0 * few_mb, "{question:?}");
    }
}
