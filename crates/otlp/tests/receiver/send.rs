//! Spans for a backend: each document arrives, and a refusal is an error with its reason.

use wakepath_otlp::{ForwardUrl, send};

use crate::backend::Backend;

const ACCEPTED: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";

fn url(address: std::net::SocketAddr) -> ForwardUrl {
    format!("http://{address}").parse().expect("a URL")
}

#[test]
fn every_document_arrives_in_order_as_json() {
    let backend = Backend::start(ACCEPTED);
    assert_eq!(send(&url(backend.address), [b"{1}".to_vec(), b"{2}".to_vec()]), Ok(()));
    for document in ["{1}", "{2}"] {
        let came = backend.requests.recv().expect("a request");
        let came = String::from_utf8_lossy(&came).into_owned();
        let head = came.to_ascii_lowercase();
        assert!(head.starts_with("post /v1/traces http/1.1\r\n"), "{came}");
        assert!(head.contains("content-type: application/json\r\n") && came.ends_with(document), "{came}");
    }
}

#[test]
fn a_refusing_answer_is_an_error_with_its_reason_and_the_last_request() {
    macro_rules! answer {
        ($status:literal, $body:literal) => {
            concat!("HTTP/1.1 ", $status, "\r\nconnection: close\r\n\r\n", $body)
        };
    }
    let refused = |count| Err(format!("it refuses {count} of the spans: too old"));
    for (answer, sent) in [
        (answer!("200 OK", "{}"), Ok(())),
        (answer!("200 OK", "thanks"), Ok(())),
        (answer!("200 OK", r#"{"partialSuccess": {"errorMessage": "a remark"}}"#), Ok(())),
        (answer!("200 OK", r#"{"partialSuccess": {"rejectedSpans": "0"}}"#), Ok(())),
        (
            answer!("200 OK", r#"{"partialSuccess": {"rejectedSpans": 1, "errorMessage": "too old"}}"#),
            refused(1),
        ),
        (
            answer!("200 OK", r#"{"partialSuccess": {"rejectedSpans": "2", "errorMessage": "too old"}}"#),
            refused(2),
        ),
        (
            answer!("403 Forbidden", " no such tenant\n"),
            Err("it answers 403 Forbidden: no such tenant".to_owned()),
        ),
    ] {
        let backend = Backend::start(answer);
        assert_eq!(send(&url(backend.address), [b"{1}".to_vec(), b"{2}".to_vec()]), sent, "{answer}");
        let requests = if sent.is_ok() { 2 } else { 1 };
        let came =
            std::iter::from_fn(|| backend.requests.recv_timeout(std::time::Duration::from_millis(200)).ok());
        assert_eq!(came.count(), requests, "{answer}");
    }
}

#[test]
fn a_backend_without_a_listener_is_an_error() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let error = send(&url(free.expect("a port")), [b"{}".to_vec()]).expect_err("nobody listens");
    assert!(!error.is_empty());
}
