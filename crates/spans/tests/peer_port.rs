//! The client's port in a server's span, in each format.

use bytes::Bytes;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value::Value};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, TracesData};
use prost::Message;
use wakepath_spans::{SpanIndex, read};

/// The port in the only span of a file.
fn port(file: impl Into<Bytes>) -> Option<u16> {
    let (spans, _) = read(&file.into()).expect("a span's file");
    spans.span(SpanIndex(0)).peer_port
}

/// OTLP in protobuf, with an attribute.
fn protobuf(kind: i32, key: &str, value: i64) -> Vec<u8> {
    let value = Some(AnyValue { value: Some(Value::IntValue(value)) });
    let span = Span {
        trace_id: vec![7; 16],
        span_id: vec![1; 8],
        kind,
        start_time_unix_nano: 5,
        end_time_unix_nano: 9,
        attributes: vec![KeyValue { key: key.to_owned(), value, ..KeyValue::default() }],
        ..Span::default()
    };
    let scope_spans = vec![ScopeSpans { spans: vec![span], ..ScopeSpans::default() }];
    let resource_spans = vec![ResourceSpans { scope_spans, ..ResourceSpans::default() }];
    let message = TracesData { resource_spans }.encode_to_vec();
    [&(message.len() as u32).to_be_bytes()[..], &message].concat()
}

fn json(kind: i32, key: &str, value: &str) -> String {
    format!(
        r#"{{"resourceSpans": [{{"scopeSpans": [{{"spans": [{{"traceId": "07", "spanId": "01", "kind": {kind},
        "startTimeUnixNano": 5, "endTimeUnixNano": 9,
        "attributes": [{{"key": "{key}", "value": {{"intValue": {value}}}}}]}}]}}]}}]}}"#
    )
}

const SERVER: i32 = 2;
const CLIENT: i32 = 3;

#[test]
fn a_servers_span_has_its_clients_port_by_each_name_of_the_conventions() {
    for key in ["network.peer.port", "net.sock.peer.port", "net.peer.port"] {
        assert_eq!(port(protobuf(SERVER, key, 40_001)), Some(40_001), "{key}");
        assert_eq!(port(json(SERVER, key, "40001")), Some(40_001), "{key}");
        assert_eq!(port(json(SERVER, key, "\"40001\"")), Some(40_001), "{key}");
        // A client's span has the server's.
        assert_eq!(port(protobuf(CLIENT, key, 40_001)), None, "{key}");
    }
    for key in ["client.port", "server.port", "net.host.port"] {
        assert_eq!((port(protobuf(SERVER, key, 7)), port(json(SERVER, key, "7"))), (None, None), "{key}");
    }
    // No port, as a proxy may write it.
    for value in [0, 65_536, -1] {
        assert_eq!(port(protobuf(SERVER, "net.peer.port", value)), None, "{value}");
    }
}

#[test]
fn jaegers_and_zipkins_spans_have_it_as_a_tag() {
    let jaeger = r#"{"data": [{"spans": [{"traceID": "ab", "spanID": "2", "operationName": "a", "startTime": 1, "duration": 7,
        "tags": [{"key": "span.kind", "value": "server"}, {"key": "net.peer.port", "type": "int64", "value": 40001}],
        "processID": "p1"}], "processes": {"p1": {"serviceName": "web"}}}]}"#;
    assert_eq!(port(jaeger), Some(40_001));
    let zipkin = r#"[{"traceId": "410a7dbc6d6cfeb6", "id": "1", "kind": "SERVER", "name": "get", "timestamp": 1000, "duration": 90,
        "localEndpoint": {"serviceName": "web"}, "tags": {"network.peer.port": "40001"}}]"#;
    assert_eq!(port(zipkin), Some(40_001));
}
