//! The sentence on a request without a path, by its spans' shares.

use wakepath_engine::Algorithm;
use wakepath_engine::requests::{Traced, find_request, join, read_spans, request};

use super::*;
use crate::sample::requests::{REALTIME, recorded};

/// The sentence on a request of 1000 ns with spans of these names and lengths in a row; the rest is its own time.
fn sentence(parts: &[(&str, u64)]) -> String {
    let span = |id: usize, parent: &str, name: &str, from: u64, to: u64| {
        format!(
            r#"{{"traceId": "7777", "spanId": "{id}", "parentSpanId": "{parent}", "name": "{name}", "kind": 1,
            "startTimeUnixNano": {}, "endTimeUnixNano": {}}}"#,
            REALTIME + 2000 + from,
            REALTIME + 2000 + to
        )
    };
    let mut spans = vec![span(1, "", "GET", 0, 1000)];
    let mut at = 0;
    for (place, (name, length)) in parts.iter().enumerate() {
        spans.push(span(place + 2, "1", name, at, at + length));
        at += length;
    }
    let file = format!(r#"{{"resourceSpans": [{{"scopeSpans": [{{"spans": [{}]}}]}}]}}"#, spans.join(","));
    let (spans, dropped) = read_spans(&file.into()).expect("spans");
    let (recorded, traced) = (recorded(), Traced::new(spans, dropped));
    let joined = join(&recorded, &traced).expect("a clock");
    let answer = request(
        &joined,
        find_request(&traced, &format!("{:0>32}", "7777")).expect("one"),
        Algorithm::default(),
    );
    request_sentence(&answer).into_plain()
}

#[test]
fn a_span_of_more_than_half_is_most_of_a_request_and_a_smaller_one_is_its_largest_part() {
    for (parts, expected) in [
        (&[("A", 501), ("B", 499)][..], "mostly in (no service name) A (50%, inferred)"),
        (&[("A", 500), ("B", 499)], "the largest part: in (no service name) A (50%, inferred)"),
        (&[("A", 330), ("B", 340), ("C", 320)], "the largest part: in (no service name) B (34%, inferred)"),
        (&[("A", 100)], "mostly in (no service name) GET (90%, inferred)"),
        (&[], "mostly in (no service name) GET (100%, inferred)"),
    ] {
        let sentence = sentence(parts);
        let begin = "(no service name) GET took 1.00 µs";
        let rest = sentence.strip_prefix(begin).expect(begin).trim_start_matches([':', ',']).trim_start();
        assert_eq!(rest, expected, "{sentence}");
    }
}
