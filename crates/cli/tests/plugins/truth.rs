//! Programs that report the thread in which each of their spans began: the attribute `truth.tid`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::{Span, TracesData};
use prost::Message as _;
use wakepath_otlp::{Options, Receiver};

use crate::succeeds;

/// A program's stdout, and the spans that it sent to `OTEL_EXPORTER_OTLP_ENDPOINT`.
#[track_caller]
pub fn traced(program: &mut Command) -> (String, Vec<Span>) {
    let options = Options {
        listen: "0".parse().expect("a port"),
        attributes: vec!["*".to_owned()],
        ..Options::default()
    };
    let receiver = Receiver::open(options).expect("a free port");
    let address = receiver.addresses()[0];
    let spans = Arc::new(Mutex::new(Vec::new()));
    let received = Arc::clone(&spans);
    let sink = move |message: &[u8]| {
        let of_resources = TracesData::decode(message).expect("spans").resource_spans.into_iter();
        let new = of_resources.flat_map(|it| it.scope_spans).flat_map(|it| it.spans);
        received.lock().expect("no panic").extend(new);
        Ok(())
    };
    let running = receiver.start(Box::new(sink)).expect("threads");
    program.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{address}"));
    program.env("OTEL_METRICS_EXPORTER", "none").env("OTEL_LOGS_EXPORTER", "none");
    let out = succeeds(program);
    running.stop();
    let spans = std::mem::take(&mut *spans.lock().expect("no panic"));
    (out, spans)
}

/// The span's text in this attribute.
pub fn text<'a>(span: &'a Span, key: &str) -> Option<&'a str> {
    let attribute = span.attributes.iter().find(|attribute| attribute.key == key)?;
    match attribute.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text),
        _ => None,
    }
}

/// The span's number in this attribute.
pub fn number(span: &Span, key: &str) -> Option<i64> {
    let attribute = span.attributes.iter().find(|attribute| attribute.key == key)?;
    match attribute.value.as_ref()?.value.as_ref()? {
        Value::IntValue(number) => Some(*number),
        Value::DoubleValue(number) => Some(*number as i64),
        _ => None,
    }
}

/// The number after a word in a line.
#[track_caller]
pub fn said(line: &str, word: &str) -> usize {
    let mut words = line.split_whitespace().skip_while(|it| *it != word);
    words.nth(1).and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no {word}: {line}"))
}

/// Checks that all spans came, each with the thread in which it began, in at least `min_threads` threads.
#[track_caller]
pub fn all_carry_their_thread(spans: &[Span], expected: usize, min_threads: usize) {
    let mut wrong = BTreeMap::<String, usize>::new();
    let mut threads = BTreeSet::new();
    for span in spans {
        let (truth, ours) = (number(span, "truth.tid"), number(span, "wakepath.tid"));
        threads.insert(truth.expect("each span of the program says its thread"));
        if truth != ours {
            *wrong.entry(format!("{}: {ours:?}, not {truth:?}", span.name)).or_default() += 1;
        }
    }
    println!("{} spans of {} threads carry the thread in which they began", spans.len(), threads.len());
    assert!(wrong.is_empty(), "{wrong:?}");
    assert_eq!(spans.len(), expected, "all spans came");
    assert!(threads.len() >= min_threads, "{} threads", threads.len());
}
