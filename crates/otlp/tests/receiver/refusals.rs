//! Requests that are not accepted: each gets the answer by which its client does the right thing.

use std::sync::mpsc;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message as _;
use tonic::Code;
use tonic_types::StatusExt as _;
use wakepath_harness::spans::{GZIP, JSON, PROTOBUF, export, gzip, post, raw, request, span};

use crate::made::Served;

#[test]
fn a_wrong_request_is_answered_with_what_is_wrong() {
    let served = Served::start();
    let at = served.address;
    for (path, headers, body, status, says) in [
        ("/v1/trace", &[PROTOBUF][..], &b""[..], 404, "POST /v1/traces"),
        ("/v1/traces", &[("content-type", "text/plain")], b"", 415, "application/json"),
        ("/v1/traces", &[], b"", 415, "application/x-protobuf"),
        ("/v1/traces", &[PROTOBUF], b"garbage", 400, "not readable"),
        ("/v1/traces", &[JSON], b"{\"resourceSpans\":", 400, "not readable: EOF"),
        ("/v1/traces", &[PROTOBUF, GZIP], b"plain", 400, "not gzip"),
        ("/v1/traces", &[PROTOBUF, ("content-encoding", "zstd")], b"", 400, "only gzip"),
    ] {
        let answer = post(at, path, headers, body);
        let message = match headers.first() {
            Some(&JSON) => {
                let json: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
                json["message"].as_str().expect("a text").to_owned()
            }
            _ => tonic_types::Status::decode(&answer.body[..]).expect("a status").message,
        };
        assert_eq!(answer.status, status, "{path} {headers:?}: {message}");
        assert!(message.contains(says), "{message}");
    }
    let answer = raw(at, b"GET /v1/traces HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assert_eq!(answer.status, 405);
    assert!(answer.head.contains("allow: post\r\n"), "{}", answer.head);
    let (spans, received) = served.stop();
    assert_eq!((spans.len(), received.malformed), (0, 4), "those with a path and a type of OTLP");
}

#[test]
fn spans_without_ids_are_rejected_and_the_others_kept() {
    let served = Served::start();
    let sent = || request("shop", vec![span(0, "zeros"), span(1, "good")]);
    let answers = [
        export(served.address, false, sent()).expect("an answer"),
        ExportTraceServiceResponse::decode(
            &post(served.address, "/v1/traces", &[PROTOBUF], &sent().encode_to_vec()).body[..],
        )
        .expect("an answer"),
    ];
    for answer in answers {
        let partly = answer.partial_success.expect("a remark");
        assert_eq!(partly.rejected_spans, 1);
        assert!(partly.error_message.contains("trace id"), "{}", partly.error_message);
    }
    let zeros = serde_json::json!({"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "no id"}]}]}]});
    let answer = post(served.address, "/v1/traces", &[JSON], zeros.to_string().as_bytes());
    let answer: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
    assert_eq!(answer["partialSuccess"]["rejectedSpans"], "1");
    let (spans, received) = served.stop();
    assert_eq!((spans, received.invalid), (vec![span(1, "good"); 2], 3));
}

/// A batch with about 1 MiB.
fn batch() -> Vec<u8> {
    request("shop", (0..1000).map(|_| span(1, &"x".repeat(1000))).collect()).encode_to_vec()
}

#[test]
fn a_full_queue_asks_to_send_again_and_loses_nothing() {
    let (let_go, gate) = mpsc::channel::<()>();
    let served = Served::with_sink(Box::new(move |_| {
        let _ = gate.recv();
        Ok(())
    }));
    // Dropped before the receiver, which waits for its sink.
    let let_go = let_go;
    let body = batch();
    let answers: Vec<_> = (0..20).map(|_| post(served.address, "/v1/traces", &[PROTOBUF], &body)).collect();
    let accepted = answers.iter().filter(|answer| answer.status == 200).count();
    assert!((10..=16).contains(&accepted), "16 MiB at most: {accepted}");
    let refused = answers.iter().find(|answer| answer.status != 200).expect("no room");
    assert!(refused.status == 429 && refused.head.contains("retry-after: 1\r\n"), "{}", refused.head);

    let large = request("shop", vec![span(2, &"y".repeat(3 << 20))]);
    let refused = export(served.address, false, large).expect_err("no room");
    assert_eq!(refused.code(), Code::ResourceExhausted);
    let retry = refused.get_details_retry_info().expect("when to send it again");
    assert_eq!(retry.retry_delay.map(|delay| delay.as_secs()), Some(1));

    drop(let_go);
    let (_, received) = served.stop();
    assert_eq!((received.spans, received.busy), (1000 * accepted as u64, 21 - accepted as u64));
}

#[test]
fn spans_that_cannot_be_written_any_more_are_rejected_for_good() {
    let served = Served::with_sink(Box::new(|_| Err("the disk is full".to_owned())));
    let body = request("shop", vec![span(1, "a")]).encode_to_vec();
    let mut rejected = None;
    for _ in 0..500 {
        let answer = post(served.address, "/v1/traces", &[PROTOBUF], &body);
        assert_eq!(answer.status, 200, "to send it again would not help");
        rejected = ExportTraceServiceResponse::decode(&answer.body[..]).expect("an answer").partial_success;
        if rejected.is_some() {
            break;
        }
    }
    let rejected = rejected.expect("the first could not be written");
    assert_eq!((rejected.rejected_spans, rejected.error_message.as_str()), (1, "the disk is full"));
    for (spans, rejected) in [(vec![], 0), (vec![span(1, "a")], 1), (vec![span(0, "no id"), span(1, "a")], 2)]
    {
        let answer = post(served.address, "/v1/traces", &[PROTOBUF], &request("shop", spans).encode_to_vec());
        let partly = ExportTraceServiceResponse::decode(&answer.body[..]).expect("an answer").partial_success;
        assert_eq!(partly.map_or(0, |partly| partly.rejected_spans), rejected);
        assert_eq!(answer.body.is_empty(), rejected == 0, "nothing is said where nothing is rejected");
    }
    let (_, received) = served.stop();
    assert_eq!((received.spans, received.why_unwritten.as_deref()), (0, Some("the disk is full")));
    assert!(received.unwritten >= 2);
}

#[test]
fn large_messages_and_bombs_are_refused_by_every_protocol() {
    const LARGEST: usize = 4 << 20;
    let served = Served::start();
    let at = served.address;
    // A span's name is most of the message.
    let of = |bytes: usize| {
        let empty = request("shop", vec![span(1, "")]).encoded_len();
        let mut name = bytes - empty;
        loop {
            let message = request("shop", vec![span(1, &"x".repeat(name))]);
            match message.encoded_len() {
                length if length > bytes => name -= length - bytes,
                _ => return message,
            }
        }
    };
    let (largest, larger) = (of(LARGEST), of(LARGEST + 1));
    assert_eq!((largest.encoded_len(), larger.encoded_len()), (LARGEST, LARGEST + 1));
    let [largest_bytes, larger_bytes] = [&largest, &larger].map(|message| message.encode_to_vec());
    assert_eq!(post(at, "/v1/traces", &[PROTOBUF], &largest_bytes).status, 200);
    assert_eq!(post(at, "/v1/traces", &[PROTOBUF, GZIP], &gzip(&largest_bytes)).status, 200);
    export(at, false, largest.clone()).expect("accepted");
    export(at, true, largest).expect("accepted");

    assert_eq!(post(at, "/v1/traces", &[PROTOBUF], &larger_bytes).status, 413);
    assert_eq!(post(at, "/v1/traces", &[PROTOBUF, GZIP], &gzip(&larger_bytes)).status, 413);
    let bomb = gzip(&vec![b' '; 64 << 20]);
    assert!(bomb.len() < LARGEST);
    assert_eq!(post(at, "/v1/traces", &[JSON, GZIP], &bomb).status, 413);
    for compress in [false, true] {
        let error = export(at, compress, larger.clone()).expect_err("too large");
        assert_eq!(error.code(), Code::ResourceExhausted, "{error:?}");
        assert!(error.get_details_retry_info().is_none(), "to send it again would not help");
    }
    // Without a length, a client may send for ever.
    let chunk = format!("{:x}\r\n{}\r\n", 1 << 20, "x".repeat(1 << 20));
    let head = "POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-protobuf\r\ntransfer-encoding: chunked\r\n\r\n";
    assert_eq!(raw(at, format!("{head}{}", chunk.repeat(5)).as_bytes()).status, 413);
    let (spans, received) = served.stop();
    assert_eq!((spans.len(), received.spans), (4, 4));
    assert_eq!(received.too_large + received.malformed, 6);
}
