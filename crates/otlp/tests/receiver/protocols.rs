//! Each protocol, with and without compression, on one port.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message as _;
use std::sync::mpsc;
use std::time::Duration;

use wakepath_harness::spans::{GZIP, JSON, PROTOBUF, export, gzip, post, request, span};
use wakepath_otlp::{Form, NoMessage, Options, Receiver, keep, keep_body};

use crate::made::Served;

const AS_JSON: &str = r#"{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"json"}}]},
    "scopeSpans":[{"spans":[{"traceId":"05050505050505050505050505050505","spanId":"0505050505050505","name":"e",
    "startTimeUnixNano":"1795229921310000000","endTimeUnixNano":1795229921310000009}]}]}]}"#;

#[test]
fn spans_of_every_protocol_arrive_once_and_are_counted_by_service() {
    let served = Served::start();
    let at = served.address;
    for (compress, id, name) in [(false, 1, "a"), (true, 2, "b")] {
        let answer = export(at, compress, request("grpc", vec![span(id, name)])).expect("an answer");
        assert_eq!(answer, ExportTraceServiceResponse::default());
    }
    let protobuf = |id, name| request("http", vec![span(id, name)]).encode_to_vec();
    for (headers, body, expected) in [
        (&[PROTOBUF][..], protobuf(3, "c"), &b""[..]),
        (&[PROTOBUF, GZIP], gzip(&protobuf(4, "d")), b""),
        (&[JSON], AS_JSON.as_bytes().to_vec(), b"{}"),
        (
            &[("content-type", "application/json; charset=utf-8"), GZIP],
            gzip(AS_JSON.replace("05", "06").replace("\"e\"", "\"f\"").as_bytes()),
            b"{}",
        ),
    ] {
        let answer = post(at, "/v1/traces", headers, &body);
        assert_eq!((answer.status, &answer.body[..]), (200, expected), "{}", answer.head);
        let sent = headers[0].1.split(';').next().expect("a type");
        assert!(answer.head.contains(&format!("content-type: {sent}\r\n")), "{}", answer.head);
    }
    let (spans, received) = served.stop();
    let expected: Vec<_> =
        (1..).zip(["a", "b", "c", "d", "e", "f"]).map(|(id, name)| span(id, name)).collect();
    assert_eq!(spans, expected);
    assert_eq!((received.spans, received.services), (6, 3));
    let refused = received.malformed + received.too_large + received.busy + received.slow + received.invalid;
    assert_eq!((refused, received.unwritten, received.forwarded), (0, 0, None));
}

#[test]
fn metrics_and_logs_are_accepted_and_dropped_so_that_clients_do_not_complain() {
    let served = Served::start();
    for path in ["/v1/metrics", "/v1/logs", "/v1development/profiles"] {
        assert_eq!(post(served.address, path, &[PROTOBUF], b"anything").status, 200);
        assert_eq!(post(served.address, path, &[JSON], b"{}").body, b"{}");
    }
    let (spans, received) = served.stop();
    assert_eq!((spans.len(), received.dropped, received.malformed), (0, 6, 0));
}

#[test]
fn a_connection_serves_many_requests() {
    let served = Served::start();
    let body = request("shop", vec![span(1, "a")]).encode_to_vec();
    let head = format!(
        "POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-protobuf\r\ncontent-length: {}\r\n",
        body.len()
    );
    let one = |close| [format!("{head}{close}\r\n").as_bytes(), &body].concat();
    let bytes = [one(""), one(""), one("connection: close\r\n")].concat();
    let answer = wakepath_harness::spans::raw(served.address, &bytes);
    assert_eq!(answer.status, 200);
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 2, "{text}");
    assert_eq!(served.stop().1.spans, 3);
}

#[test]
fn a_body_has_the_same_spans_in_every_form_and_none_in_another() {
    let message = request("json", vec![span(5, "e")]).encode_to_vec();
    let kept = keep(&message, &[]).expect("a message");
    assert_eq!((kept.spans, &kept.services[..]), (1, &["json".to_owned()][..]));
    let json = AS_JSON.as_bytes();
    for (body, form) in [
        (message.clone(), Form { gzip: false, json: false }),
        (gzip(&message), Form { gzip: true, json: false }),
        (json.to_vec(), Form { gzip: false, json: true }),
        (gzip(json), Form { gzip: true, json: true }),
    ] {
        assert_eq!(keep_body(&body, form, &[]).as_ref(), Ok(&kept), "{form:?}");
        let other = Form { gzip: !form.gzip, ..form };
        assert!(matches!(keep_body(&body, other, &[]), Err(NoMessage::Malformed(_))), "{form:?}");
    }
}

#[test]
fn programs_on_this_host_reach_a_receiver_by_its_endpoint() {
    for (listen, host) in [("0", "127.0.0.1"), ("0.0.0.0:0", "127.0.0.1")] {
        let options = Options { listen: listen.parse().expect("an address"), ..Options::default() };
        let receiver = Receiver::open(options).expect("a free port");
        let port = receiver.addresses()[0].port();
        assert_eq!(receiver.endpoint(), format!("http://{host}:{port}"));
    }
}

#[test]
fn a_dropped_receiver_writes_its_accepted_spans_first() {
    let (written, messages) = mpsc::channel();
    let served = Served::with_sink(Box::new(move |message| {
        std::thread::sleep(Duration::from_millis(300));
        written.send(message.len()).map_err(|error| error.to_string())
    }));
    let body = request("shop", vec![span(1, "a")]).encode_to_vec();
    assert_eq!(post(served.address, "/v1/traces", &[PROTOBUF], &body).status, 200);
    drop(served);
    assert!(messages.try_recv().is_ok());
}
