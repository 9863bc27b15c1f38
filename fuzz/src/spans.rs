//! Spans from distributed tracing, from files in each format to their requests.
//!
//! Input: a byte that chooses whether the rest is a file, or an OTLP message in protobuf.

use wakepath_clock::Stamp;
use wakepath_spans::{
    ReadError, Reader, RequestIndex, Span, SpanId, Stint, TraceId, Turn, Turns, TurnsOfSpan, Work, requests,
    span_path,
};

/// The largest number of requests whose path is walked: each may be as deep as the input is long.
const MAX_PATHS: usize = 64;

/// Puts bytes through the span reader, and through all users of its result.
///
/// # Panics
/// When a law is broken.
pub fn check(input: &[u8]) {
    let Some((kind, bytes)) = input.split_first() else { return };
    let mut reader = Reader::default();
    let read = match kind % 2 {
        0 => reader.take_file(&bytes.to_vec().into()),
        _ => reader.take_protobuf(bytes.to_vec().into()),
    };
    if let Err(ReadError::Damaged { at, .. }) = read {
        assert!(at <= bytes.len(), "a place in the file");
    }
    let (spans, dropped) = reader.finish();
    // Each span takes some input bytes, if they are not compressed.
    let is_packed =
        bytes.windows(4).any(|four| four == [0x28, 0xb5, 0x2f, 0xfd]) || bytes.starts_with(&[0x1f, 0x8b]);
    assert!(
        is_packed || spans.spans.len() as u64 + dropped.missing() + dropped.repeated <= bytes.len() as u64
    );
    assert!(spans.spans.is_sorted_by_key(|span| span.from), "by time");
    let requests = requests(&spans);
    let of_requests: usize = requests.requests.iter().map(|request| request.spans.len()).sum();
    assert_eq!(of_requests, spans.spans.len(), "each span is of one request");
    let every = TraceId([0; 16])..=TraceId([0xff; 16]);
    let by_id = requests.spans_in_traces(&spans, &every);
    assert_eq!(by_id.len(), spans.spans.len());
    let id = |span| (spans.span(span).trace, spans.span(span).id);
    assert!(by_id.is_sorted_by_key(|span| id(*span)), "by identity");
    // Two services may have given the same identity.
    let of_service = |span| (id(span), spans.span(span).service.0);
    let mut identities: Vec<_> = by_id.iter().map(|span| of_service(*span)).collect();
    identities.sort_unstable();
    assert!(identities.is_sorted_by(|a, b| a < b), "each identity once of a service");
    for (index, span) in spans.iter() {
        assert!(span.to >= span.from && span.parent != Some(span.id));
        let of_span = requests.request(requests.containing(index));
        assert!(of_requests > 1000 || of_span.spans.contains(&index));
    }
    for (place, request) in requests.requests.iter().enumerate().take(MAX_PATHS) {
        let root = spans.span(request.root);
        assert_eq!(requests.containing(request.root), RequestIndex(place as u32));
        assert!(requests.is_part(RequestIndex(place as u32), RequestIndex(place as u32)));
        let text = root.trace.to_string();
        assert_eq!(TraceId::from_hex(&text), Some(root.trace), "an identity is read as it is written");
        let beginning = TraceId::beginning_with(&text[..7]).expect("digits");
        assert!(requests.spans_in_traces(&spans, &beginning).contains(&request.root));
        assert_eq!(SpanId::from_hex(&root.id.to_string()), Some(root.id));
        let mut at = root.from;
        for segment in span_path(&spans, &requests, request.root) {
            assert!(segment.from == at && segment.from < segment.to, "a path has no gap and no overlap");
            at = segment.to;
        }
        assert_eq!(at, root.to, "a path is the whole request");
    }
    work(&spans);
    turns(&spans);
}

/// The noted facts about each thread are consecutive pieces, and each piece with a span's turn is among the span's turns.
fn turns(spans: &wakepath_spans::Spans) {
    let of_spans = spans.iter().filter_map(|(span, Span { from, to, tid, turns, .. })| {
        let noted = turns.as_ref().map(|noted| noted.on(|stamp| stamp));
        Some(TurnsOfSpan { thread: (*tid)?, from: *from, to: *to, span, noted })
    });
    let turns = Turns::new(of_spans);
    for (_, span) in spans.iter().take(MAX_PATHS) {
        let Some(tid) = span.tid else { continue };
        let (mut at, end) = (span.from, Stamp::from_ns(span.to.ns().saturating_add(1)));
        for (from, to, turn) in turns.between(&tid, span.from, end) {
            assert!(from == at && from < to);
            assert_eq!(turns.at(&tid, from), turn);
            if let Some(Turn::Of(of)) = turn {
                let of = spans.span(of);
                let noted = of.turns.iter().flat_map(|noted| &noted.turns);
                assert!(of.tid == Some(tid) && noted.into_iter().any(|turn| turn.0 <= from && to <= turn.1));
            }
            at = to;
        }
        assert_eq!(at, end);
    }
}

/// Each thread's active spans are consecutive pieces, and each piece lies within its span.
fn work(spans: &wakepath_spans::Spans) {
    let stints = spans.iter().filter_map(|(index, span)| {
        Some(Stint { thread: span.tid?, from: span.from, to: span.to, span: index })
    });
    let work = Work::new(stints);
    for (_, span) in spans.iter().take(MAX_PATHS) {
        let Some(tid) = span.tid else { continue };
        let (mut at, end) = (span.from, Stamp::from_ns(span.to.ns().saturating_add(1)));
        for (from, to, active) in work.between(&tid, span.from, end) {
            assert!(from == at && from < to);
            assert_eq!(work.at(&tid, from), active);
            if let Some(active) = active.map(|active| spans.span(active)) {
                assert!(active.from <= from && to <= active.to && active.tid == Some(tid));
            }
            at = to;
        }
        assert_eq!(at, end.max(span.from));
    }
}

/// First inputs: a file in each format, and a message.
pub fn seeds() -> Vec<Vec<u8>> {
    let json = |spans: &str| {
        format!(
            r#"{{"resourceSpans":[{{"resource":{{"attributes":[{{"key":"service.name","value":{{"stringValue":"shop"}}}},
            {{"key":"process.pid","value":{{"intValue":"7"}}}}]}},"scopeSpans":[{{"spans":[{spans}]}}]}}]}}"#
        )
    };
    let span = |id: u8, parent: &str, from: u64, to: u64, kind: u8| {
        format!(
            r#"{{"traceId":"{}","spanId":"{}","parentSpanId":"{parent}","name":"GET /","kind":{kind},"startTimeUnixNano":"{from}",
            "endTimeUnixNano":"{to}","status":{{"code":2}},"attributes":[{{"key":"wakepath.tid","value":{{"intValue":"12"}}}}]}}"#,
            "ab".repeat(16),
            format!("{id:02x}").repeat(8),
        )
    };
    let [root, part, late] = [
        span(1, "", 100, 900, 2),
        span(2, &"01".repeat(8), 200, 700, 3),
        span(3, &"02".repeat(8), 300, 950, 2),
    ];
    let circle = span(4, &"04".repeat(8), 5, 9, 1);
    let of_each_other = [span(5, &"06".repeat(8), 5, 9, 1), span(6, &"05".repeat(8), 6, 8, 1)].join(",");
    let jaeger = r#"{"data":[{"traceID":"ab","spans":[{"traceID":"ab","spanID":"2","operationName":"SQL","startTime":1000,"duration":7,
        "references":[{"refType":"CHILD_OF","traceID":"ab","spanID":"1"}],"tags":[{"key":"span.kind","value":"client"},
        {"key":"error","value":true},{"key":"wakepath.tid","value":17}],"processID":"p1"}],
        "processes":{"p1":{"serviceName":"mysql","tags":[{"key":"hostname","value":"db1"}]}}}]}"#;
    let within = |tag: u8, part: &[u8]| [&[tag, part.len() as u8], part].concat();
    let message = |id: u8| {
        let mut span = [within(0x0a, &[7; 16]), within(0x12, &[id; 8]), within(0x2a, b"cart")].concat();
        for (tag, ns) in [(0x39, 100_u64), (0x41, 900)] {
            span.push(tag);
            span.extend(ns.to_le_bytes());
        }
        span.extend(within(0x4a, &[within(0x0a, b"wakepath.tid"), within(0x12, &[0x18, 12])].concat()));
        let service =
            within(0x0a, &[within(0x0a, b"service.name"), within(0x12, &within(0x0a, b"shop"))].concat());
        within(0x0a, &[within(0x0a, &service), within(0x12, &within(0x12, &span))].concat())
    };
    let framed = |message: &[u8]| [&(message.len() as u32).to_be_bytes()[..], message].concat();
    let file = |bytes: &[u8]| [&[0], bytes].concat();
    let cut = framed(&message(9));
    vec![
        file(json(&root).as_bytes()),
        file(json(&[root.clone(), part.clone(), late.clone()].join(",")).as_bytes()),
        file(json(&[root.clone(), root.clone(), circle].join(",")).as_bytes()),
        file(json(&of_each_other).as_bytes()),
        file((json(&part) + "\n" + &json(&late)).as_bytes()),
        file(json(&root).replace("12", "0").as_bytes()),
        file(jaeger.as_bytes()),
        file(br#"{"data":[{"spans":[{}]}]}"#),
        file(json(&root).replace("resourceSpans", "batches").as_bytes()),
        file(
            br#"[[{"traceId":"ab","id":"1","kind":"SERVER","name":"get","timestamp":5,"duration":4,"localEndpoint":{"serviceName":"a"},"tags":{"error":""}}]]"#,
        ),
        file(&framed(&message(1))),
        file(&[framed(&message(1)), framed(&message(2))].concat()),
        file(&cut[..cut.len() - 3]),
        [&[1][..], &message(3)].concat(),
        [&[1][..], &message(4), &message(5)].concat(),
        [&[1][..], &message(4)[..30]].concat(),
    ]
}
