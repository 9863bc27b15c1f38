//! Spans in JSON, in the forms that writers give them: an odd value costs its own meaning, at most its span, and a
//! document with other values in place of its lists is refused, with the position.

use wakepath_spans::{Dropped, Kind, ReadError, Reader, Span, SpanId, Spans, TraceId, read};

const WHOLE: &str = r#""traceId": "07070707070707070707070707070707", "spanId": "0101010101010101", "name": "a", "kind": 2,
    "startTimeUnixNano": "1795229921310000001", "endTimeUnixNano": "1795229921310000901""#;

/// An OTLP document with these spans, each as its text.
fn otlp(spans: &[&str]) -> String {
    format!(r#"{{"resourceSpans": [{{"scopeSpans": [{{"spans": [{}]}}]}}]}}"#, spans.join(", "))
}

/// The span of an OTLP document with these fields in place of the fields in [`WHOLE`]; `None` if it was dropped.
#[track_caller]
fn one(fields: &str) -> (Option<Span>, Dropped) {
    let keys: Vec<_> = fields.split('"').filter(|key| WHOLE.contains(&format!("\"{key}\":"))).collect();
    let kept =
        WHOLE.split(',').filter(|field| !keys.iter().any(|key| field.contains(&format!("\"{key}\":"))));
    let span = format!("{{{}, {fields}}}", kept.collect::<Vec<_>>().join(","));
    let (spans, dropped) = read(&otlp(&[&span]).into()).unwrap_or_else(|error| panic!("{span}: {error}"));
    (spans.spans.into_iter().next(), dropped)
}

/// Attributes, or tags, without a meaning here. JavaScript cuts a text within a character; no writer has the last of
/// these.
const ODD: &[&str] = &[
    r#"{"key": "kafka.partition", "value": {"intValue": -1}}"#,
    r#"{"key": "kafka.partition", "value": -1}"#,
    r#"{"key": "a", "value": null}"#,
    r#"{"key": "a"}"#,
    r#"{"key": "a", "value": {}}"#,
    r#"{"key": "a", "value": {"intValue": null, "stringValue": null}}"#,
    r#"{"key": "a", "value": {"intValue": -9223372036854775808}}"#,
    r#"{"key": "a", "value": {"intValue": 123456789012345678901234567890}}"#,
    r#"{"key": "a", "value": {"doubleValue": 1.5e-9}}"#,
    r#"{"key": "a", "value": {"doubleValue": 1e999}}"#,
    r#"{"key": "a", "value": {"doubleValue": "NaN"}}"#,
    r#"{"key": "a", "value": {"stringValue": "\ud83d"}}"#,
    r#"{"key": "a\ud83d", "value": {"stringValue": "\ude00\""}}"#,
    r#"{"key": "a", "value": {"stringValue": 7}}"#,
    r#"{"key": "a", "value": {"bytesValue": "3q2+7w=="}}"#,
    r#"{"key": "a", "value": {"kvlistValue": {"values": [{"key": "b", "value": {"arrayValue": {"values": [{}, null]}}}]}}}"#,
    r#"{"key": "a", "value": {"newValue": [[[{"b": [null, -1]}]]]}}"#,
    r#"{"key": null, "value": {"intValue": 1}}"#,
    r#"{"key": 7, "value": {"intValue": 1}}"#,
    r#"{"value": {"stringValue": "a"}, "key": "a"}"#,
    r#"{"key": "a", "key": "b", "value": {"intValue": 1}}"#,
    "null",
    "7",
    r#""a""#,
    r#"["a", {"intValue": 1}]"#,
];

#[test]
fn an_attribute_in_any_form_costs_neither_its_file_nor_its_span_nor_its_neighbours() {
    let deep = format!(r#"{{"key": "a", "value": {}{}}}"#, "[".repeat(1000), "]".repeat(1000));
    let jaeger = |tag: &str| {
        format!(
            r#"{{"data": [{{"spans": [{{"traceID": "07", "spanID": "01", "startTime": 5, "duration": 4, "processID": "p1", "logs": null,
            "warnings": null, "tags": [{tag}, {{"key": "wakepath.tid", "type": "int64", "value": 9}}, {tag}]}}]}}],
            "errors": null, "total": 0}}"#
        )
    };
    for odd in ODD.iter().copied().chain([&*deep]) {
        let tid = r#"{"key": "wakepath.tid", "value": {"intValue": 9}}"#;
        let (span, dropped) = one(&format!(r#""attributes": [{odd}, {tid}, {odd}]"#));
        assert_eq!((span.map(|span| span.tid), dropped), (Some(Some(9)), Dropped::default()), "{odd}");
        let (spans, dropped) = read(&jaeger(odd).into()).unwrap_or_else(|error| panic!("{odd}: {error}"));
        assert_eq!((spans.spans[0].tid, dropped), (Some(9), Dropped::default()), "{odd}");
        // The same with a service's attributes.
        let file = otlp(&[&format!("{{{WHOLE}}}")]).replace(
            r#"{"scopeSpans""#,
            &format!(
                r#"{{"resource": {{"attributes": [{odd}, {{"key": "service.name", "value": {{"stringValue": "shop"}}}}, {odd}]}}, "scopeSpans""#
            ),
        );
        let (spans, _) = read(&file.into()).unwrap_or_else(|error| panic!("{odd}: {error}"));
        assert_eq!(&*spans.services[0].name, "shop", "{odd}");
    }
}

#[test]
fn an_identity_is_hex_or_base64_and_a_parent_that_is_none_is_none() {
    let ids = |fields: &str| one(fields).0.map(|span| (span.trace, span.id, span.parent));
    let (trace, id, parent) = (TraceId([7; 16]), SpanId([1; 8]), SpanId([0xfb; 8]));
    for fields in [
        r#""parentSpanId": "fbfbfbfbfbfbfbfb""#,
        r#""parentSpanId": "FBFBFBFBFBFBFBFB""#,
        r#""parentSpanId": "+/v7+/v7+/s=""#,
        r#""parentSpanId": "+/v7+/v7+/s""#,
        r#""parentSpanId": "-_v7-_v7-_s=""#,
        r#""parentSpanId": "-_v7-_v7-_s""#,
        r#""traceId": "BwcHBwcHBwcHBwcHBwcHBw", "spanId": "AQEBAQEBAQE", "parentSpanId": "-_v7-_v7-_s""#,
        r#""parent_span_id": "fbfbfbfbfbfbfbfb""#,
        r#""traceId": "BwcHBwcHBwcHBwcHBwcHBw==", "spanId": "AQEBAQEBAQE=", "parentSpanId": "+/v7+/v7+/s=""#,
    ] {
        assert_eq!(ids(fields), Some((trace, id, Some(parent))), "{fields}");
    }
    // Digits are hex even if base64 would have the right length: Jaeger writes no leading zeros.
    let short = one(r#""traceId": "123456789012345678901A", "spanId": "12345678900""#).0.expect("a span");
    assert_eq!(
        (Some(short.trace), Some(short.id)),
        (TraceId::from_hex("0000000000123456789012345678901a"), SpanId::from_hex("0000012345678900"),)
    );
    for none in [
        "null",
        r#""""#,
        r#""0000000000000000""#,
        r#""AAAAAAAAAAA=""#,
        "7",
        "{}",
        r#""no digits""#,
        r#""AQEBAQEB""#,
        r#""+_v7+/v7+/s=""#,
        r#""+/v7+/v7+/s==""#,
    ] {
        assert_eq!(ids(&format!(r#""parentSpanId": {none}"#)), Some((trace, id, None)), "{none}");
    }
}

#[test]
fn a_number_is_read_as_a_number_and_as_text_with_or_without_a_decimal_point() {
    let nanosecond = 1_795_229_921_310_000_001;
    for (number, expected) in [
        ("1795229921310000001", nanosecond),
        (r#""1795229921310000001""#, nanosecond),
        ("1795229921310000128.0", nanosecond + 127),
        ("1.795229921310000128e18", nanosecond + 127),
        (r#""1.795229921310000128e18""#, nanosecond + 127),
        ("9.5e1", 95),
        ("18446744073709551615", u64::MAX),
    ] {
        let (span, _) =
            one(&format!(r#""startTimeUnixNano": {number}, "endTimeUnixNano": 18446744073709551615"#));
        assert_eq!(span.map(|span| span.from.ns()), Some(expected), "{number}");
    }
    for (number, tid) in [
        ("17", Some(17)),
        (r#""17""#, Some(17)),
        ("17.0", Some(17)),
        ("4294967295", Some(u32::MAX)),
        ("4294967296", None),
        ("0", None),
        ("-1", None),
        (r#""-1""#, None),
        ("1.5", None),
        ("true", None),
        ("null", None),
        (r#""""#, None),
        (r#""a""#, None),
    ] {
        let (span, _) =
            one(&format!(r#""attributes": [{{"key": "wakepath.tid", "value": {{"intValue": {number}}}}}]"#));
        assert_eq!(span.map(|span| span.tid), Some(tid), "{number}");
    }
    let queued = |number: &str| {
        let attribute = format!(r#"{{"key": "wakepath.queued_ns", "value": {{"intValue": {number}}}}}"#);
        one(&format!(r#""attributes": [{attribute}]"#)).0.expect("a span").queued.map(|queued| queued.ns())
    };
    assert_eq!(["\"5\"", "5", "-5", "null"].map(queued), [Some(5), Some(5), None, None]);
    // 2^64 as a float, and the next larger float.
    let largest = ["18446744073709551616.0", "1.8446744073709556e19", "1e300"].map(queued);
    assert_eq!(largest, [Some(u64::MAX), None, None]);
}

#[test]
fn a_kind_or_a_status_that_is_not_known_is_none() {
    for (kind, expected) in [
        ("2", Kind::Server),
        ("2.0", Kind::Server),
        (r#""2""#, Kind::Server),
        (r#""SPAN_KIND_CONSUMER""#, Kind::Consumer),
        (r#""producer""#, Kind::Producer),
        (r#""Client""#, Kind::Client),
        (r#""SPAN_KIND_INTERNAL""#, Kind::Internal),
        (r#""SPAN_KIND_NEW""#, Kind::Unspecified),
        ("0", Kind::Unspecified),
        ("6", Kind::Unspecified),
        ("-1", Kind::Unspecified),
        ("4294967298", Kind::Unspecified),
        ("null", Kind::Unspecified),
        ("[2]", Kind::Unspecified),
    ] {
        assert_eq!(one(&format!(r#""kind": {kind}"#)).0.map(|span| span.kind), Some(expected), "{kind}");
    }
    for (status, failed) in [
        (r#"{"code": 2}"#, true),
        (r#"{"code": "2"}"#, true),
        (r#"{"code": "STATUS_CODE_ERROR", "message": null}"#, true),
        (r#"{"code": "STATUS_CODE_OK"}"#, false),
        (r#"{"code": "STATUS_CODE_NEW"}"#, false),
        (r#"{"code": 3}"#, false),
        (r#"{"code": -2}"#, false),
        (r#"{"code": null}"#, false),
        (r#"{"message": "no"}"#, false),
        ("{}", false),
        ("null", false),
        ("2", false),
    ] {
        assert_eq!(
            one(&format!(r#""status": {status}"#)).0.map(|span| span.failed),
            Some(failed),
            "{status}"
        );
    }
}

#[test]
fn a_name_is_read_with_its_escapes_and_without_the_half_of_a_character() {
    for (name, expected) in [
        (r#""GET \/cart \u00e9\n\"""#, "GET /cart é\n\""),
        (r#""\ud83d\ude00""#, "😀"),
        (r#""cut \ud83d""#, "cut \u{fffd}\u{fffd}\u{fffd}"),
        ("null", ""),
        ("7", ""),
    ] {
        let (spans, _) = read(
            &otlp(&[&format!("{{{}, \"name\": {name}}}", WHOLE.replace(r#" "name": "a","#, ""))]).into(),
        )
        .expect("spans");
        assert_eq!(&*spans.operations[0].name, expected, "{name}");
    }
    // A Collector passes on bytes that are no UTF-8; all positions behind them stay.
    for (bytes, expected) in [(&[0xff][..], "a?b"), (&[0xe2, 0x82], "a??b"), (&[0xff, 0xe2, 0x82], "a???b")] {
        let name = format!("\"a{}b\"", "#".repeat(bytes.len()));
        let mut file = otlp(&[&format!("{{{WHOLE}}}").replace("\"a\"", &name)]).into_bytes();
        let hash = file.iter().position(|byte| *byte == b'#').expect("it is there");
        file[hash..hash + bytes.len()].copy_from_slice(bytes);
        let whole = file.len();
        file.extend(b"[");
        let mut reader = Reader::default();
        let error = reader.take_file(&file.into()).expect_err("it is cut");
        assert!(matches!(error, ReadError::Damaged { at, .. } if at == whole), "{error}");
        assert_eq!(&*reader.finish().0.operations[0].name, expected);
    }
}

#[test]
fn a_span_that_makes_no_sense_is_left_out_and_counted_and_its_neighbours_are_read() {
    let (without_id, without_length) = (
        Dropped { without_id: 1, ..Dropped::default() },
        Dropped { without_length: 1, ..Dropped::default() },
    );
    let last = format!("{{{WHOLE}}}");
    let other = WHOLE.replace("0101010101010101", "02");
    let with = |from: &str, to: &str| format!("{{{}}}", other.replace(from, to));
    let from = r#""1795229921310000001""#;
    let to = r#""1795229921310000901""#;
    for (odd, expected) in [
        ("null".to_owned(), without_id),
        ("7".to_owned(), without_id),
        (r#""a""#.to_owned(), without_id),
        ("[]".to_owned(), without_id),
        (r#"["07", "02", "", "a", 2, 5, 9, [], {}]"#.to_owned(), without_id),
        ("{}".to_owned(), without_id),
        (with(r#""02""#, "null"), without_id),
        (with(r#""02""#, "2"), without_id),
        (with(r#""02""#, r#""no digits""#), without_id),
        (with(r#""02""#, r#""AQEBAQEBAQEB""#), without_id),
        (with(r#""07070707070707070707070707070707""#, r#""AQEBAQEBAQE=""#), without_id),
        (with(r#""kind": 2"#, r#""kind": 2, "kind": 3"#), without_id),
        (with(r#""kind": 2"#, r#""attributes": {"a": 1}"#), without_id),
        (with(from, "-1"), without_length),
        (with(from, "null"), without_length),
        (with(from, "1.5"), without_length),
        (with(from, "1e300"), without_length),
        (with(from, r#""2026-11-27T19:42:00Z""#), without_length),
        (with(to, "null"), without_length),
        (with(to, "-1"), without_length),
    ] {
        let (spans, dropped) =
            read(&otlp(&[&odd, &last]).into()).unwrap_or_else(|error| panic!("{odd}: {error}"));
        assert_eq!((spans.spans.len(), dropped), (1, expected), "{odd}");
        assert_eq!(spans.spans[0].id, SpanId([1; 8]), "{odd}");
    }
}

#[test]
fn a_document_may_have_null_for_a_list_the_names_of_protobuf_or_another_signal() {
    let spans = |file: &str| read(&file.to_owned().into()).map(|(Spans { spans, .. }, _)| spans.len());
    let one = otlp(&[&format!("{{{WHOLE}}}")]);
    for (file, expected) in [
        (one.clone(), 1),
        (one.replace("resourceSpans", "resource_spans").replace("scopeSpans", "scope_spans"), 1),
        (one.replace("scopeSpans", "instrumentationLibrarySpans"), 1),
        (one.replace(r#"{"scopeSpans""#, r#"{"resource": null, "schemaUrl": null, "scopeSpans""#), 1),
        (one.replace(r#"{"scopeSpans""#, r#"{"resource": {"attributes": null}, "scopeSpans""#), 1),
        (one.replace(r#""kind": 2"#, r#""kind": 2, "attributes": null, "events": null, "links": null"#), 1),
        (r#"{"resourceSpans": null}"#.to_owned(), 0),
        (r#"{"resourceSpans": []}"#.to_owned(), 0),
        (r#"{"resourceSpans": [{"scopeSpans": null}]}"#.to_owned(), 0),
        (r#"{"resourceSpans": [{"scopeSpans": [{"spans": null}]}]}"#.to_owned(), 0),
        (
            format!(
                "{{\"resourceMetrics\": [{{}}]}}\n{one}\n{{\"resourceLogs\": []}}\n{{\"resourceProfiles\": 7}}"
            ),
            1,
        ),
        (format!(r#"{{"result": {one}}}"#), 1),
        (r#"{"data": [], "errors": null}"#.to_owned(), 0),
        (r#"{"data": [{"spans": null, "processes": null}]}"#.to_owned(), 0),
    ] {
        assert_eq!(spans(&file), Ok(expected), "{file}");
    }
    for file in [
        r#"{"resourceMetrics": []}"#,
        r#"{"result": {}}"#,
        r#"{"result": null}"#,
        r#"{"data": null, "errors": [{"code": 404, "msg": "trace not found"}]}"#,
    ] {
        assert_eq!(spans(file), Err(ReadError::Unknown), "{file}");
    }
}

#[test]
fn a_document_without_its_lists_is_refused_with_its_place_and_the_spans_before_it_are_kept() {
    let one = otlp(&[&format!("{{{WHOLE}}}")]);
    for document in [
        r#"{"resourceSpans": {}}"#,
        r#"{"resourceSpans": "a"}"#,
        r#"{"resourceSpans": [null]}"#,
        r#"{"resourceSpans": [{"resource": 7}]}"#,
        r#"{"resourceSpans": [{"resource": {"attributes": {"service.name": "shop"}}}]}"#,
        r#"{"resourceSpans": [{"scopeSpans": {}}]}"#,
        r#"{"resourceSpans": [{"scopeSpans": [{"spans": {}}]}]}"#,
        r#"{"resourceSpans": [], "resourceSpans": []}"#,
        r#"{"data": [7]}"#,
        r#"{"data": [{"spans": 7}]}"#,
        r#"{"data": [{"processes": []}]}"#,
        r#"{"a": NaN}"#,
        "{}",
        "[]",
        r#"{"other": 1}"#,
    ] {
        let mut reader = Reader::default();
        let error = reader.take_file(&format!("{one}\n{document}").into()).expect_err(document);
        assert!(matches!(error, ReadError::Damaged { at, .. } if at >= one.len()), "{document}: {error}");
        assert_eq!(reader.finish().0.spans.len(), 1, "{document}");
    }
}

#[test]
fn jaegers_spans_are_read_with_null_for_what_is_not_there_and_numbers_in_any_form() {
    let jaeger = |fields: &str, processes: &str| {
        let file = format!(
            r#"{{"data": [{{"traceID": "07", "spans": [{{"traceID": "07", "spanID": "01", {fields}}}], "processes": {processes}}}]}}"#
        );
        read(&file.clone().into()).unwrap_or_else(|error| panic!("{file}: {error}"))
    };
    let times = r#""startTime": 5, "duration": 4"#;
    for (fields, expected) in [
        (times, Some((5000, 9000))),
        (r#""startTime": "5", "duration": "4""#, Some((5000, 9000))),
        (r#""startTime": 5.0, "duration": 4e0"#, Some((5000, 9000))),
        (r#""startTime": 5"#, Some((5000, 5000))),
        (r#""startTime": 5, "duration": null"#, Some((5000, 5000))),
        (r#""startTime": 18446744073709551615, "duration": 4"#, Some((u64::MAX, u64::MAX))),
        (r#""startTime": 5, "duration": 18446744073709551615"#, Some((5000, u64::MAX))),
        (r#""startTime": 5, "duration": -1"#, None),
        (r#""startTime": 5, "duration": "long""#, None),
        (r#""startTime": null, "duration": 4"#, None),
        (r#""startTime": -5, "duration": 4"#, None),
    ] {
        let (spans, dropped) = jaeger(fields, "{}");
        let found = spans.spans.first().map(|span| (span.from.ns(), span.to.ns()));
        assert_eq!((found, dropped.without_length), (expected, u64::from(expected.is_none())), "{fields}");
    }
    let child_of = |id: &str| format!(r#"{{"refType": "CHILD_OF", "traceID": "07", "spanID": {id}}}"#);
    for (references, expected) in [
        ("null".to_owned(), None),
        ("[]".to_owned(), None),
        (format!("[null, 7, {{}}, {}]", child_of(r#""02""#)), SpanId::from_hex("2")),
        (format!("[{}]", child_of("null")), None),
        (format!("[{}]", child_of(r#""02""#).replace(r#""07""#, r#""7""#)), SpanId::from_hex("2")),
        (format!("[{}, {}]", child_of(r#""02""#), child_of(r#""03""#)), SpanId::from_hex("2")),
        (format!("[{}]", child_of(r#""02""#).replace("CHILD_OF", "LINK")), None),
        (format!("[{}]", child_of(r#""02""#).replace(r#""CHILD_OF""#, "null")), None),
        (format!("[{}]", child_of("2")), None),
    ] {
        let (spans, _) = jaeger(&format!(r#"{times}, "references": {references}"#), "{}");
        assert_eq!(spans.spans[0].parent, expected, "{references}");
    }
    for (processes, expected) in [
        ("null", ""),
        ("{}", ""),
        (r#"{"p1": null}"#, ""),
        (r#"{"p1": {"serviceName": null, "tags": null}}"#, ""),
        (r#"{"p1": {"serviceName": "shop", "tags": [null, {"key": "pid", "value": -1}]}}"#, "shop"),
    ] {
        let (spans, _) = jaeger(&format!(r#"{times}, "processID": "p1""#), processes);
        assert_eq!((&*spans.services[0].name, spans.services[0].pid), (expected, None), "{processes}");
    }
    for (tags, kind, failed) in [
        (r#"[{"key": "error", "value": true}]"#, Kind::Internal, true),
        (r#"[{"key": "error", "value": true}, {"key": "error", "value": "timeout"}]"#, Kind::Internal, true),
        (
            r#"[{"key": "error", "value": false}, {"key": "span.kind", "value": "SERVER"}]"#,
            Kind::Server,
            false,
        ),
        (r#"[{"key": "span.kind", "value": "other"}]"#, Kind::Unspecified, false),
        (r#"[{"key": "span.kind", "value": null}]"#, Kind::Internal, false),
        ("null", Kind::Internal, false),
    ] {
        let (spans, _) = jaeger(&format!(r#"{times}, "tags": {tags}"#), "{}");
        assert_eq!((spans.spans[0].kind, spans.spans[0].failed), (kind, failed), "{tags}");
    }
}

#[test]
fn jaegers_tags_say_when_the_work_of_a_span_was_queued() {
    for (value, expected) in [("7", Some(7)), (r#""8""#, Some(8)), ("-7", None), ("null", None)] {
        let file = format!(
            r#"{{"data": [{{"spans": [{{"traceID": "07", "spanID": "01", "startTime": 5, "duration": 4,
            "tags": [{{"key": "wakepath.queued_ns", "value": {value}}}]}}]}}]}}"#
        );
        let (spans, _) = read(&file.into()).expect("spans");
        assert_eq!(spans.spans[0].queued.map(|queued| queued.ns()), expected, "{value}");
    }
}

#[test]
fn the_services_of_a_file_have_the_same_order_each_time_it_is_read() {
    let processes: Vec<_> = (0..50).map(|one| format!(r#""p{one}": {{"serviceName": "s{one}"}}"#)).collect();
    let spans: Vec<_> = (0..50)
        .map(|one| {
            format!(r#"{{"traceID": "07", "spanID": "1{one:02}", "startTime": 5, "duration": 4, "processID": "p{one}"}}"#)
        })
        .collect();
    let file = format!(
        r#"{{"data": [{{"spans": [{}], "processes": {{{}}}}}]}}"#,
        spans.join(", "),
        processes.join(", ")
    );
    let names = || {
        let (spans, _) = read(&file.clone().into()).expect("spans");
        spans.services.into_iter().map(|service| service.name).collect::<Vec<_>>()
    };
    assert_eq!(names(), names());
}
