//! Requests are forwarded unchanged, and the client gets the backend's answer.

use std::sync::mpsc;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message as _;
use tonic::Code;
use wakepath_harness::spans::{GZIP, JSON, PROTOBUF, export, gzip, post, request, span};
use wakepath_otlp::{Forwarded, Options, Receiver, ReceiverError};

use crate::backend::{Backend, GrpcAnswer, GrpcBackend};
use crate::made::Served;

fn to(address: std::net::SocketAddr) -> Options {
    let url = format!("http://{address}").parse().expect("a URL");
    Options { forward: Some(url), ..Options::default() }
}

#[test]
fn a_request_over_http_arrives_as_it_was_sent_and_its_answer_comes_back() {
    let backend = Backend::start(
        "HTTP/1.1 418 Teapot\r\ncontent-length: 5\r\nx-of: backend\r\nconnection: close, x-hop\r\nx-hop: 1\r\n\r\nshort",
    );
    let served = Served::with(to(backend.address));
    let body = gzip(&request("shop", vec![span(1, "a")]).encode_to_vec());
    let headers = [PROTOBUF, GZIP, ("authorization", "Bearer t0ken"), ("x-tenant", "7")];
    let answer = post(served.address, "/v1/traces?x=1", &headers, &body);
    assert_eq!((answer.status, &answer.body[..]), (418, &b"short"[..]));
    assert!(answer.head.contains("x-of: backend\r\n") && !answer.head.contains("x-hop"), "{}", answer.head);

    let came = backend.requests.recv().expect("a request");
    let end = came.len() - body.len();
    assert_eq!(came[end..], body, "compressed as it was");
    let head = String::from_utf8_lossy(&came[..end]).to_ascii_lowercase();
    let length = body.len();
    for line in [
        "post /v1/traces?x=1 http/1.1",
        "content-type: application/x-protobuf",
        "content-encoding: gzip",
        "authorization: bearer t0ken",
        "x-tenant: 7",
        &format!("host: {}", backend.address),
        &format!("content-length: {length}"),
    ] {
        assert_eq!(head.lines().filter(|it| *it == line).count(), 1, "{line} in {head}");
    }
    assert!(!head.contains("connection: close"), "{head}");
    let (spans, received) = served.stop();
    assert_eq!(spans, [span(1, "a")]);
    let url = format!("http://{}", backend.address);
    let forwarded = Forwarded { url, answered: 1, refused: 1, failed: 0, why_failed: None };
    assert_eq!(received.forwarded, Some(forwarded));
}

#[test]
fn metrics_logs_and_messages_that_are_not_kept_are_sent_on_as_well() {
    let backend = Backend::start("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok");
    let served = Served::with(to(backend.address));
    for (path, headers, body) in [
        ("/v1/metrics", &[PROTOBUF][..], &b"metrics"[..]),
        ("/v1/logs", &[JSON], b"{\"resourceLogs\":[]}"),
        ("/v1/traces", &[PROTOBUF], b"garbage"),
        ("/v1/traces", &[PROTOBUF, ("content-encoding", "zstd")], b"of another kind"),
    ] {
        let answer = post(served.address, path, headers, body);
        assert_eq!((answer.status, &answer.body[..]), (200, &b"ok"[..]), "{path}");
        assert!(backend.requests.recv().expect("a request").ends_with(body));
    }
    let (_, received) = served.stop();
    assert_eq!((received.malformed, received.dropped), (2, 0));
}

#[test]
fn a_request_by_grpc_arrives_and_its_answer_comes_back_with_its_trailers() {
    let backend = Served::start();
    let served = Served::with(to(backend.address));
    for compress in [false, true] {
        let answer = export(served.address, compress, request("shop", vec![span(1, "a")]));
        assert_eq!(answer.expect("an answer"), ExportTraceServiceResponse::default());
    }
    // The backend's remark, in a message.
    let answer = export(served.address, false, request("shop", vec![span(0, "zeros")])).expect("an answer");
    assert_eq!(answer.partial_success.expect("a remark").rejected_spans, 1);
    let (spans, received) = served.stop();
    assert_eq!(spans, vec![span(1, "a"); 2]);
    let forwarded = received.forwarded.expect("it was asked for");
    assert_eq!((forwarded.answered, forwarded.refused, forwarded.failed), (3, 0, 0));
    let (spans, received) = backend.stop();
    assert_eq!((spans, received.invalid), (vec![span(1, "a"); 2], 1));
}

#[test]
fn an_error_of_the_backend_by_grpc_is_the_clients() {
    let (let_go, gate) = mpsc::channel::<()>();
    let backend = Served::with_sink(Box::new(move |_| {
        let _ = gate.recv();
        Ok(())
    }));
    // Dropped before the receiver, which waits for its sink.
    let let_go = let_go;
    let served = Served::with(to(backend.address));
    let large = || request("shop", vec![span(1, &"x".repeat(3 << 20))]);
    let error = (0..8).find_map(|_| export(served.address, false, large()).err()).expect("no room there");
    assert_eq!(error.code(), Code::ResourceExhausted, "{error:?}");
    let (_, received) = served.stop();
    let forwarded = received.forwarded.expect("it was asked for");
    assert_eq!((forwarded.refused, forwarded.failed), (1, 0));
    drop(let_go);
}

#[test]
fn an_answer_by_grpc_comes_back_as_it_is_and_counts_as_an_error_by_its_status() {
    const TYPE: (&str, &str) = ("content-type", "application/grpc");
    // An empty message without compression.
    const EMPTY: &[u8] = &[0; 5];
    for (what, status, headers, message, trailers, code, says) in [
        ("a success", 200, &[TYPE][..], EMPTY, Some(&[("grpc-status", "0")][..]), Code::Ok, ""),
        (
            "an error in the trailers",
            200,
            &[TYPE],
            EMPTY,
            Some(&[("grpc-status", "8"), ("grpc-message", "caf%C3%A9 is full: 100%25")]),
            Code::ResourceExhausted,
            "caf\u{e9} is full: 100%",
        ),
        (
            "an error in the trailers without a message",
            200,
            &[TYPE],
            b"",
            Some(&[("grpc-status", "13")]),
            Code::Internal,
            "",
        ),
        (
            "an error in the headers",
            200,
            &[TYPE, ("grpc-status", "16"), ("grpc-message", "no%20token")],
            b"",
            None,
            Code::Unauthenticated,
            "no token",
        ),
        ("a proxy's error", 503, &[("content-type", "text/html")], b"", None, Code::Unavailable, ""),
        ("no status", 200, &[TYPE], EMPTY, None, Code::Unknown, ""),
    ] {
        let backend = GrpcBackend::start(GrpcAnswer { status, headers, message, trailers });
        let served = Served::with(to(backend.address));
        let answer = export(served.address, false, request("shop", vec![span(1, "a")]));
        match answer {
            Ok(_) => assert_eq!(code, Code::Ok, "{what}"),
            Err(error) => {
                assert_eq!(error.code(), code, "{what}: {error:?}");
                assert!(error.message().contains(says), "{what}: {error:?}");
            }
        }
        let forwarded = served.stop().1.forwarded.expect("it was asked for");
        let is_error = code != Code::Ok;
        assert_eq!((forwarded.answered, forwarded.refused), (1, u64::from(is_error)), "{what}");
        assert_eq!((forwarded.failed, forwarded.why_failed), (0, None), "{what}");
    }
}

#[test]
fn without_a_backend_clients_send_again_and_the_spans_are_kept() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let served = Served::with(to(gone));
    let error = export(served.address, false, request("shop", vec![span(1, "a")])).expect_err("no backend");
    assert_eq!(error.code(), Code::Unavailable, "{error:?}");
    let body = request("shop", vec![span(2, "b")]).encode_to_vec();
    let answer = post(served.address, "/v1/traces", &[PROTOBUF], &body);
    assert_eq!(answer.status, 503);
    assert!(answer.head.contains("retry-after: 1\r\n"), "{}", answer.head);
    let (spans, received) = served.stop();
    assert_eq!(spans, [span(1, "a"), span(2, "b")]);
    let forwarded = received.forwarded.expect("it was asked for");
    assert_eq!((forwarded.answered, forwarded.failed), (0, 2));
    assert!(forwarded.why_failed.expect("a reason").contains("refused"));
}

#[test]
fn an_address_in_use_and_a_circle_are_named() {
    let served = Served::start();
    let options = Options { listen: served.address.to_string().parse().expect("it"), ..Options::default() };
    let error = Receiver::open(options).expect_err("in use");
    assert!(matches!(error, ReceiverError::InUse { address } if address == served.address), "{error}");
    drop(served.stop());
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("it");
    let options = Options { listen: port.to_string().parse().expect("it"), ..to(port) };
    let error = Receiver::open(options).expect_err("a circle");
    assert!(matches!(error, ReceiverError::ToItself { .. }), "{error}");
}
