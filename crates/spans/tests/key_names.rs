//! Key names in OTLP's JSON: today's, those before OTLP 0.15, and protobuf's own.

use wakepath_spans::{Kind, ReadError, Reader, SpanId, Spans, TraceId, read};

const DOCUMENT: &str = r#"{"resourceSpans": [{
    "resource": {"attributes": [
        {"key": "service.name", "value": {"stringValue": "shop"}}, {"key": "process.pid", "value": {"intValue": "34"}}]},
    "scopeSpans": [{"spans": [{
        "traceId": "07070707070707070707070707070707", "spanId": "0101010101010101", "parentSpanId": "0202020202020202",
        "name": "GET /cart", "kind": 2, "startTimeUnixNano": "1795229921310000001", "endTimeUnixNano": "1795229921310000901",
        "attributes": [{"key": "wakepath.tid", "value": {"intValue": 17}}], "status": {"code": 2}}]}]}]}"#;

fn spans(file: &str) -> Spans {
    read(&file.to_owned().into()).unwrap_or_else(|error| panic!("{file}: {error}")).0
}

#[test]
fn each_key_may_have_the_name_of_protobuf() {
    let whole = spans(DOCUMENT);
    let (span, service) = (&whole.spans[0], &whole.services[0]);
    assert_eq!((span.trace, span.id, span.parent), (TraceId([7; 16]), SpanId([1; 8]), Some(SpanId([2; 8]))));
    assert_eq!((span.from.ns(), span.to.ns()), (1_795_229_921_310_000_001, 1_795_229_921_310_000_901));
    assert_eq!((span.kind, span.failed, span.tid), (Kind::Server, true, Some(17)));
    assert_eq!((&*service.name, service.pid), ("shop", Some(34)));
    let names = [
        ("resourceSpans", "resource_spans"),
        ("scopeSpans", "scope_spans"),
        ("scopeSpans", "instrumentationLibrarySpans"),
        ("scopeSpans", "instrumentation_library_spans"),
        ("traceId", "trace_id"),
        ("spanId", "span_id"),
        ("parentSpanId", "parent_span_id"),
        ("startTimeUnixNano", "start_time_unix_nano"),
        ("endTimeUnixNano", "end_time_unix_nano"),
        ("stringValue", "string_value"),
        ("intValue", "int_value"),
    ];
    let quoted = |name: &str| format!("\"{name}\"");
    for (name, other) in names {
        let file = DOCUMENT.replace(&quoted(name), &quoted(other));
        assert_ne!(file, DOCUMENT, "{name}");
        assert_eq!(spans(&file), whole, "{other}");
    }
}

#[test]
fn spans_under_the_old_and_the_new_name_of_their_list_are_added() {
    let old = DOCUMENT.replace(r#""0101010101010101""#, r#""0303030303030303""#);
    let list = &old[old.find(r#""scopeSpans""#).expect("a list")..old.len() - 3];
    let old = list.replace("scopeSpans", "instrumentationLibrarySpans");
    for file in [
        DOCUMENT.replace("]}]}]}", &format!("]}}], {old}}}]}}")),
        DOCUMENT.replace(r#""scopeSpans""#, &format!(r#"{old}, "scopeSpans""#)),
    ] {
        let ids: Vec<_> = spans(&file).spans.iter().map(|span| span.id.0[7]).collect();
        assert_eq!(ids, [1, 3], "{file}");
    }
}

#[test]
fn spans_are_found_under_each_pair_of_keys_at_the_top_within_a_trace_and_in_a_cut_document() {
    let whole = spans(DOCUMENT);
    for list in ["resourceSpans", "resource_spans", "batches"] {
        for scopes in
            ["scopeSpans", "scope_spans", "instrumentationLibrarySpans", "instrumentation_library_spans"]
        {
            let file = DOCUMENT.replace("resourceSpans", list).replace("scopeSpans", scopes);
            let within = [format!("{{\"trace\": {file}}}"), format!("{{\"result\": {file}}}")];
            // Cut off behind its span.
            let cut = &file[..file.rfind(']').expect("a list") - 4];
            let mut reader = Reader::default();
            assert!(
                matches!(reader.take_file(&cut.to_owned().into()), Err(ReadError::Damaged { .. })),
                "{cut}"
            );
            assert_eq!(reader.finish().0, whole, "{cut}");
            for file in [file.clone(), format!("{{\"metrics\": {{}}, {}", &file[1..])].iter().chain(&within) {
                assert_eq!(spans(file), whole, "{file}");
            }
        }
    }
}

#[test]
fn other_signals_between_spans_are_passed_over_under_each_name_and_alone_are_no_spans() {
    let whole = spans(DOCUMENT);
    for name in [
        "resourceMetrics",
        "resource_metrics",
        "resourceLogs",
        "resource_logs",
        "resourceProfiles",
        "resource_profiles",
    ] {
        let other = format!("{{\"{name}\": [{{}}]}}");
        assert_eq!(spans(&format!("{other}\n{DOCUMENT}\n{other}")), whole, "{name}");
        assert_eq!(read(&other.into()).map(|_| ()), Err(ReadError::Unknown), "{name}");
    }
}
