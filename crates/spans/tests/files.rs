//! Span files: OTLP in protobuf and in JSON, by the types that OpenTelemetry publishes, and Jaeger's JSON; damaged files,
//! and arbitrary bytes.

use bytes::Bytes;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value::Value};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status, TracesData};
use proptest::prelude::*;
use prost::Message;
use wakepath_spans::{Dropped, Kind, ReadError, Reader, SpanId, SpanIndex, Spans, TraceId, read};

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

/// A span with all fields that are read, and some that are not.
fn span(id: u8, name: &str) -> Span {
    Span {
        trace_id: vec![7; 16],
        span_id: vec![id; 8],
        parent_span_id: if id == 1 { Vec::new() } else { vec![1; 8] },
        name: name.to_owned(),
        kind: SpanKind::Server as i32,
        start_time_unix_nano: 1_795_229_921_310_000_001,
        end_time_unix_nano: 1_795_229_921_310_000_901 + u64::from(id),
        attributes: vec![
            attribute("http.route", Value::StringValue("/cart".to_owned())),
            attribute("wakepath.tid", Value::IntValue(4242)),
        ],
        status: Some(Status { code: StatusCode::Error as i32, ..Status::default() }),
        ..Span::default()
    }
}

fn document(spans: Vec<Span>) -> TracesData {
    let attributes = vec![
        attribute("service.name", Value::StringValue("shop".to_owned())),
        attribute("service.instance.id", Value::StringValue("i-1".to_owned())),
        attribute("process.pid", Value::IntValue(99)),
        attribute("host.name", Value::StringValue("web3".to_owned())),
    ];
    let resource = Some(Resource { attributes, ..Resource::default() });
    let scope_spans = vec![ScopeSpans { spans, ..ScopeSpans::default() }];
    TracesData { resource_spans: vec![ResourceSpans { resource, scope_spans, ..ResourceSpans::default() }] }
}

fn framed(documents: &[TracesData]) -> Vec<u8> {
    let mut file = Vec::new();
    for document in documents {
        let message = document.encode_to_vec();
        file.extend((message.len() as u32).to_be_bytes());
        file.extend(message);
    }
    file
}

#[test]
fn the_same_spans_are_read_from_protobuf_and_from_json() {
    let both = [document(vec![span(1, "GET /cart")]), document(vec![span(2, "SELECT")])];
    let (spans, dropped) = read(&framed(&both).into()).expect("frames");
    assert_eq!(dropped, Dropped::default());
    let service = spans.service(SpanIndex(0));
    assert_eq!((&*service.name, service.pid), ("shop", Some(99)));
    assert_eq!((service.instance.as_deref(), service.host.as_deref()), (Some("i-1"), Some("web3")));
    assert_eq!((spans.spans.len(), spans.services.len(), spans.resolution_ns), (2, 1, 1));
    // They begin together: the longer span comes first.
    let [second, first] = [0, 1].map(|place| spans.span(SpanIndex(place)));
    assert_eq!((first.id, second.id), (SpanId([1; 8]), SpanId([2; 8])));
    assert_eq!((first.parent, second.parent), (None, Some(SpanId([1; 8]))));
    assert_eq!((first.trace, first.kind), (TraceId([7; 16]), Kind::Server));
    assert_eq!((first.failed, first.tid), (true, Some(4242)));
    assert_eq!(first.from.ns(), 1_795_229_921_310_000_001);
    assert_eq!(first.to.ns(), 1_795_229_921_310_000_902);
    let operation = spans.operation(SpanIndex(1));
    assert_eq!((&*operation.service, &*operation.name), ("shop", "GET /cart"));

    let lines: String = both.iter().map(|one| serde_json::to_string(one).expect("JSON") + "\n").collect();
    let (of_json, dropped) = read(&lines.into()).expect("lines of JSON");
    assert_eq!((of_json, dropped), (spans, Dropped::default()));
}

#[test]
fn numbers_and_kinds_of_json_are_read_in_each_form_that_writers_use() {
    for (from, to) in [("\"5\"", "\"9\""), ("5", "9")] {
        for kind in ["2", "\"SPAN_KIND_SERVER\"", "\"server\""] {
            let file = format!(
                r#"{{"resourceSpans": [{{"scopeSpans": [{{"spans": [{{"traceId": "07", "spanId": "01",
                "kind": {kind}, "startTimeUnixNano": {from}, "endTimeUnixNano": {to},
                "status": {{"code": "STATUS_CODE_ERROR"}}}}]}}]}}]}}"#
            );
            let (spans, _) = read(&file.into()).expect("JSON");
            let span = spans.span(SpanIndex(0));
            assert_eq!((span.kind, span.from.ns(), span.to.ns(), span.failed), (Kind::Server, 5, 9, true));
        }
    }
}

#[test]
fn jaegers_spans_have_their_process_and_times_in_microseconds() {
    let file = r#"{"data": [{"traceID": "ab", "spans": [
        {"traceID": "ab", "spanID": "2", "operationName": "SQL SELECT", "startTime": 1000, "duration": 7,
         "references": [{"refType": "FOLLOWS_FROM", "traceID": "ab", "spanID": "9"},
                        {"refType": "CHILD_OF", "traceID": "cd", "spanID": "8"},
                        {"refType": "CHILD_OF", "traceID": "ab", "spanID": "1"}],
         "tags": [{"key": "span.kind", "type": "string", "value": "client"},
                  {"key": "error", "type": "bool", "value": true},
                  {"key": "wakepath.tid", "type": "int64", "value": 17}],
         "processID": "p1"},
        {"traceID": "ab", "spanID": "1", "operationName": "GET", "startTime": 999, "duration": 9, "processID": "p2"},
        {"traceID": "ab", "spanID": "3", "operationName": "?", "startTime": 999, "duration": 1, "processID": "p9",
         "tags": [{"key": "error", "value": "true"}, {"key": "wakepath.tid", "value": 0}]}],
        "processes": {"p1": {"serviceName": "mysql", "tags": [{"key": "hostname", "value": "db1"},
                                                                    {"key": "process.pid", "type": "int64", "value": 34}]},
                      "p2": {"serviceName": "web", "tags": [{"key": "pid", "value": "12"},
                                                            {"key": "service.instance.id", "value": "i-2"}]}}}]}"#;
    let (spans, dropped) = read(&Bytes::from_static(file.as_bytes())).expect("Jaeger's JSON");
    assert_eq!((dropped, spans.resolution_ns), (Dropped::default(), 1000));
    let by_name = |name: &str| {
        let found = spans.iter().find(|(index, _)| &*spans.operation(*index).name == name);
        found.expect("it is there")
    };
    let (index, select) = by_name("SQL SELECT");
    assert_eq!((select.from.ns(), select.to.ns()), (1_000_000, 1_007_000));
    assert_eq!((select.kind, select.failed, select.tid), (Kind::Client, true, Some(17)));
    assert_eq!(select.parent, SpanId::from_hex("1"));
    let service = spans.service(index);
    assert_eq!((&*service.name, service.host.as_deref(), service.pid), ("mysql", Some("db1"), Some(34)));
    let (index, get) = by_name("GET");
    assert_eq!((get.kind, get.failed, get.parent, get.tid), (Kind::Internal, false, None, None));
    assert_eq!((&*spans.service(index).name, spans.service(index).pid), ("web", Some(12)));
    assert_eq!(spans.service(index).instance.as_deref(), Some("i-2"));
    let (_, other) = by_name("?");
    assert_eq!((other.failed, other.tid), (true, None));
    assert_eq!(&*spans.service(by_name("?").0).name, "", "a process that is not there has no name");
}

#[test]
fn jaegers_newer_answers_are_otlp_below_a_result() {
    let one = serde_json::to_string(&document(vec![span(1, "a"), span(2, "b")])).expect("JSON");
    let file = format!("{{\"result\": {one}}}\n{{\"result\": {one}}}");
    let (spans, dropped) = read(&file.into()).expect("Jaeger's JSON");
    assert_eq!((spans.spans.len(), spans.resolution_ns), (2, 1));
    assert_eq!(dropped, Dropped { repeated: 2, ..Dropped::default() });
    for file in [r#"{"result": {}}"#, r#"{"error": {"httpCode": 404}}"#] {
        assert!(read(&Bytes::from_static(file.as_bytes())).is_err(), "{file}");
    }
}

#[test]
fn what_is_no_span_is_counted_by_its_reason() {
    let without_id = Span { span_id: vec![0; 8], ..span(3, "a") };
    let short_id = Span { trace_id: vec![1; 15], ..span(3, "a") };
    let never_begun = Span { start_time_unix_nano: 0, ..span(3, "a") };
    let backwards = Span { end_time_unix_nano: 1, ..span(4, "a") };
    let spans = vec![span(1, "a"), span(1, "a"), without_id, short_id, never_begun, backwards];
    let (spans, dropped) = read(&framed(&[document(spans)]).into()).expect("frames");
    assert_eq!(spans.spans.len(), 1);
    assert_eq!(dropped, Dropped { without_id: 2, without_length: 2, repeated: 1, ..Dropped::default() });
    assert_eq!(dropped.missing(), 4);
    let dropped = Dropped { without_id: 2, without_length: 3, repeated: 5, too_many: 7, explaining: 9 };
    assert_eq!(dropped.missing(), 12);
}

#[test]
fn spans_that_explain_requests_are_none_of_a_service_in_any_form() {
    let explains = || vec![attribute("wakepath.explains", Value::StringValue("0101010101010101".to_owned()))];
    let mut both = document(vec![span(1, "a")]);
    let mut other = document(vec![Span { attributes: explains(), ..span(2, "running") }]);
    other.resource_spans[0].resource = None;
    both.resource_spans.splice(0..0, other.resource_spans);
    let json = serde_json::to_string(&both).expect("JSON");
    let jaeger = r#"{"data": [{"spans": [
        {"traceID": "ab", "spanID": "2", "operationName": "running", "startTime": 999, "duration": 9, "processID": "p2",
         "tags": [{"key": "wakepath.explains", "type": "string", "value": "1"}]},
        {"traceID": "ab", "spanID": "1", "operationName": "a", "startTime": 999, "duration": 9, "processID": "p1"}],
        "processes": {"p1": {"serviceName": "shop"}, "p2": {"serviceName": "wakepath"}}}]}"#;
    for file in [Bytes::from(framed(&[both])), json.into(), jaeger.into()] {
        let (spans, dropped) = read(&file).expect("spans");
        assert_eq!(dropped, Dropped { explaining: 1, ..Dropped::default() });
        let services: Vec<_> = spans.services.iter().map(|service| &*service.name).collect();
        assert_eq!((spans.spans.len(), services), (1, vec!["shop"]));
        assert_eq!(&*spans.service(SpanIndex(0)).name, "shop");
    }
}

#[test]
fn a_span_may_have_no_length() {
    let at_once = Span { end_time_unix_nano: span(1, "a").start_time_unix_nano, ..span(1, "a") };
    let mut reader = Reader::default();
    reader.take_protobuf(document(vec![at_once, span(2, "b")]).encode_to_vec().into()).expect("a message");
    let (spans, dropped) = reader.finish();
    assert_eq!(dropped, Dropped::default());
    // If two begin together, the longer span comes first.
    let lengths: Vec<_> = spans.iter().map(|(_, span)| span.length_ns()).collect();
    assert_eq!(lengths, [902, 0]);
}

#[test]
fn a_kind_is_one_of_five_and_a_status_that_is_no_error_has_not_failed() {
    let kinds =
        [Kind::Internal, Kind::Server, Kind::Client, Kind::Producer, Kind::Consumer, Kind::Unspecified];
    for (number, kind) in (1..).zip(kinds) {
        let status = Some(Status { code: StatusCode::Ok as i32, ..Status::default() });
        let one = document(vec![Span { kind: number, status, ..span(1, "a") }]);
        let json = serde_json::to_string(&one).expect("JSON");
        for file in [Bytes::from(framed(&[one])), json.into()] {
            let (spans, _) = read(&file).expect("a file of spans");
            assert_eq!((spans.spans[0].kind, spans.spans[0].failed), (kind, false));
        }
    }
    // Thread number 0 counts as no thread.
    let attributes = vec![attribute("wakepath.tid", Value::IntValue(0))];
    let none = document(vec![Span { attributes, ..span(1, "a") }]);
    let (spans, _) = read(&serde_json::to_string(&none).expect("JSON").into()).expect("JSON");
    assert_eq!(spans.spans[0].tid, None);
}

#[test]
fn a_file_that_is_cut_keeps_the_spans_before_the_cut_and_says_where_it_is() {
    let whole = framed(&[document(vec![span(1, "a")]), document(vec![span(2, "b")])]);
    let first = framed(&[document(vec![span(1, "a")])]).len();
    for cut in first + 1..whole.len() {
        let mut reader = Reader::default();
        let error = reader.take_file(&Bytes::copy_from_slice(&whole[..cut])).expect_err("it is cut");
        assert!(matches!(error, ReadError::Damaged { at, .. } if at == first), "{cut}: {error}");
        assert_eq!(reader.finish().0.spans.len(), 1, "{cut}");
    }
    let json = serde_json::to_string(&document(vec![span(1, "a")])).expect("JSON");
    let mut reader = Reader::default();
    let error = reader.take_file(&(json + "\n{\"resourceSpans\": [").into()).expect_err("it is cut");
    assert!(matches!(error, ReadError::Damaged { at, .. } if at > 100), "{error}");
    assert_eq!(reader.finish().0.spans.len(), 1);
}

#[test]
fn other_files_are_none_of_spans() {
    for file in ["[]", "{}", "{\"a\": 1}", "hello", "\x7fELF\0\0\0\0\0\0"] {
        assert!(read(&Bytes::from_static(file.as_bytes())).is_err(), "{file}");
    }
    assert_eq!(read(&Bytes::new()).expect("nothing").0.spans, Spans::default().spans);
}

#[test]
fn services_of_one_name_are_two_where_two_recordings_received_their_spans() {
    let message = || Bytes::from(document(vec![span(1, "a")]).encode_to_vec());
    let received = |by: &[Option<u16>]| {
        let mut reader = Reader::default();
        for &recording in by {
            reader.received_by(recording);
            reader.take_protobuf(message()).expect("a message");
        }
        let (spans, dropped) = reader.finish();
        let recordings: Vec<_> = spans.services.iter().map(|service| service.recording).collect();
        (recordings, spans.spans.len(), dropped.repeated)
    };
    // Two hosts may have services with the same name and give the same identity. Within a recording, it is an exporter's
    // repetition.
    assert_eq!(received(&[Some(0), Some(1)]), (vec![Some(0), Some(1)], 2, 0));
    assert_eq!(received(&[Some(1), Some(1)]), (vec![Some(1)], 1, 1));
    assert_eq!(received(&[Some(1), None]), (vec![Some(1), None], 2, 0));
}

#[test]
fn a_name_is_cut_where_a_character_ends() {
    for (name, length) in [("é".repeat(1000), 1024), (format!("x{}", "é".repeat(1000)), 1023)] {
        let (spans, _) = read(&framed(&[document(vec![span(1, &name)])]).into()).expect("frames");
        assert_eq!(spans.operations[0].name.len(), length);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_bytes_are_spans_or_an_error(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        cut in 0..400_usize,
        at in 0..400_usize,
        value: u8,
    ) {
        let mut reader = Reader::default();
        let _ = reader.take_file(&bytes.clone().into());
        let _ = reader.take_protobuf(bytes.into());
        let mut file = framed(&[document(vec![span(1, "a"), span(2, "b")])]);
        file.truncate(cut);
        if let Some(byte) = file.get_mut(at) {
            *byte = value;
        }
        let _ = reader.take_file(&file.into());
        let (spans, _) = reader.finish();
        for (_, span) in spans.iter() {
            prop_assert!(span.to >= span.from && span.parent != Some(span.id));
        }
        wakepath_spans::requests(&spans);
    }
}

#[test]
fn turns_are_read_in_each_form_and_not_believed_where_they_are_no_text_or_lie_outside() {
    let [from, to] = [1_795_229_921_310_000_001_u64, 1_795_229_921_310_000_902];
    let noted = |value: Value| {
        let mut span = span(1, "GET /cart");
        span.attributes.push(attribute("wakepath.turns", value));
        let document = document(vec![span]);
        let [protobuf, json] =
            [framed(std::slice::from_ref(&document)), serde_json::to_vec(&document).expect("JSON")];
        let [one, other] =
            [protobuf, json].map(|file| read(&file.into()).expect("spans").0.spans[0].turns.clone());
        assert_eq!(one, other);
        let noted = one?;
        let turns = noted.turns.iter().map(|(from, to)| (from.ns(), to.ns()));
        Some((noted.since.ns(), turns.collect::<Vec<_>>()))
    };
    let text = |text: String| noted(Value::StringValue(text));
    let turns = vec![(from + 10, from + 15), (from + 16, from + 18)];
    assert_eq!(text(format!("{from} 10 5 1 2.")), Some((from, turns)));
    assert_eq!(text(format!("{from}.")), Some((from, vec![])));
    assert_eq!(text(format!("{from} 10 5 1 2")), None, "cut off");
    assert_eq!(text(format!("{} 10 5.", from - 1)), None, "before its span");
    assert_eq!(text(format!("{from} 0 {}.", to - from + 1_000_001)), None, "behind it");
    assert_eq!(noted(Value::IntValue(7)), None);
    let jaeger = r#"{"data": [{"spans": [{"traceID": "1f", "spanID": "2a", "operationName": "x", "startTime": 3000, "duration": 4,
        "tags": [{"key": "wakepath.turns", "value": "3000000 1 2."}, {"key": "wakepath.tid", "value": 7}]}]}]}"#;
    let spans = read(&Bytes::from_static(jaeger.as_bytes())).expect("spans").0;
    let noted = spans.spans[0].turns.as_ref().expect("turns");
    assert_eq!(
        noted.turns.iter().map(|(from, to)| (from.ns(), to.ns())).collect::<Vec<_>>(),
        [(3_000_001, 3_000_003)]
    );
}

#[test]
fn a_beginning_in_whole_milliseconds_is_that_of_the_turns() {
    const MS: u64 = 1_000_000;
    let times = |from: u64, since: u64| {
        let mut span = span(1, "GET /cart");
        span.start_time_unix_nano = from;
        span.end_time_unix_nano = from + 5 * MS + 7;
        span.attributes.push(attribute("wakepath.turns", Value::StringValue(format!("{since} 0 5."))));
        let (spans, _) = read(&framed(&[document(vec![span])]).into()).expect("spans");
        let span = &spans.spans[0];
        assert!(span.turns.is_some());
        (span.from.ns(), span.to.ns())
    };
    let from = 1_795_229_921_310 * MS;
    let moved = |late: u64| (from + late, from + late + 5 * MS + 7);
    assert_eq!(times(from, from + 1), moved(1));
    assert_eq!(times(from, from + MS * 3 / 2 - 1), moved(MS * 3 / 2 - 1));
    // Turns from later on alone are noted.
    assert_eq!(times(from, from + MS * 3 / 2), moved(0));
    // A finer clock.
    assert_eq!(times(from + 10, from + 20), moved(10));
    assert_eq!(times(from + MS / 2, from + MS), moved(MS / 2));
}
