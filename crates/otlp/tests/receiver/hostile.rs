//! Input from strangers: it costs its sender a connection, and other clients nothing.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use prost::Message as _;
use wakepath_harness::spans::{PROTOBUF, export, post, raw, read, request, span};
use wakepath_otlp::MAX_CONNECTIONS;

use crate::made::Served;

const HEAD: &str = "POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-protobuf\r\n";

/// The time until the receiver closes a connection on which these bytes were sent.
fn closed_after(served: &Served, bytes: &[u8]) -> Duration {
    let mut stream = TcpStream::connect(served.address).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time");
    stream.write_all(bytes).expect("room");
    let began = Instant::now();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    began.elapsed()
}

#[test]
fn half_open_and_slow_connections_end_and_others_are_served_meanwhile() {
    let served = Served::start();
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let body = format!("{HEAD}content-length: 100\r\n\r\nonly this");
    let cases: [&[u8]; 6] = [b"", b"P", HEAD.as_bytes(), body.as_bytes(), PREFACE, &PREFACE[..20]];
    std::thread::scope(|scope| {
        let closed: Vec<_> = cases.iter().map(|bytes| scope.spawn(|| closed_after(&served, bytes))).collect();
        export(served.address, false, request("shop", vec![span(1, "a")])).expect("an answer");
        for (bytes, closed) in cases.iter().zip(closed) {
            let after = closed.join().expect("no panic").as_secs_f64();
            assert!((9.0..15.0).contains(&after), "{} after {after} s", bytes.escape_ascii());
        }
    });
    let (_, received) = served.stop();
    assert_eq!((received.spans, received.slow), (1, 1), "the one whose head was whole");
}

#[test]
fn garbage_is_refused_or_closed_and_nothing_else_happens() {
    let served = Served::start();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut garbage = |length: usize| -> Vec<u8> {
        let mut next = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) as u8
        };
        (0..length).map(|_| next()).collect()
    };
    for round in 0..60 {
        let bytes = match round % 4 {
            0 => garbage(2000),
            1 => [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &garbage(2000)[..]].concat(),
            2 => {
                [format!("{HEAD}content-length: 500\r\nconnection: close\r\n\r\n").as_bytes(), &garbage(500)]
                    .concat()
            }
            _ => format!("{HEAD}x: {}\r\n\r\n", "y".repeat(200_000)).into_bytes(),
        };
        let mut stream = TcpStream::connect(served.address).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a time");
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let answer = read(&mut stream);
        assert!([0, 400, 431].contains(&answer.status), "round {round}: {}", answer.head);
    }
    export(served.address, true, request("shop", vec![span(1, "a")])).expect("an answer");
    let (spans, received) = served.stop();
    assert_eq!(spans, [span(1, "a")]);
    assert!(received.malformed > 0);
}

#[test]
fn connections_beyond_the_largest_number_are_closed_at_once() {
    let served = Served::start();
    let held: Vec<_> = (0..MAX_CONNECTIONS)
        .map(|_| {
            let mut stream = TcpStream::connect(served.address).expect("a connection");
            stream.write_all(b"P").expect("room");
            stream
        })
        .collect();
    // Accepted in their order.
    let mut one_more = TcpStream::connect(served.address).expect("the kernel's queue");
    one_more.set_read_timeout(Some(Duration::from_secs(5))).expect("a time");
    let closed = matches!(one_more.read(&mut [0]), Ok(0) | Err(_));
    assert!(closed);
    drop(held);
    let body = request("shop", vec![span(1, "a")]).encode_to_vec();
    let began = Instant::now();
    while post(served.address, "/v1/traces", &[PROTOBUF], &body).status != 200 {
        assert!(began.elapsed() < Duration::from_secs(5), "there is room again");
    }
    let (_, received) = served.stop();
    assert!(received.connections_refused >= 1 && received.spans == 1, "{received:?}");
}

#[test]
fn bodies_that_wait_for_their_end_take_a_bounded_part_of_memory() {
    let served = Served::start();
    // 60 bodies with nearly 4 MiB each, all but their last byte: 240 MiB.
    let length = 4 << 20;
    let head = format!("{HEAD}content-length: {length}\r\nconnection: close\r\n\r\n");
    let almost = [head.as_bytes(), &vec![0; length - 1]].concat();
    let answers: Vec<_> = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..60).map(|_| scope.spawn(|| raw(served.address, &almost).status)).collect();
        senders.into_iter().map(|sender| sender.join().expect("no panic")).collect()
    });
    let count = |status| answers.iter().filter(|&&it| it == status).count();
    // A sender that still sends when it is refused may lose the answer to the reset.
    assert!(count(408) <= 8 && count(408) + count(429) + count(0) == 60, "{answers:?}");
    let (_, received) = served.stop();
    assert_eq!((received.slow, received.busy), (count(408) as u64, 60 - count(408) as u64));
    assert!(received.slow >= 1);
}

#[test]
fn a_stop_waits_for_requests_that_have_begun_and_not_for_others() {
    let served = Served::start();
    let body = request("shop", vec![span(1, "a")]).encode_to_vec();
    let (first, last) = body.split_at(10);
    let mut begun = TcpStream::connect(served.address).expect("a connection");
    let head = format!("{HEAD}content-length: {}\r\n\r\n", body.len());
    begun.write_all(&[head.as_bytes(), first].concat()).expect("room");
    let mut silent = TcpStream::connect(served.address).expect("a connection");
    silent.write_all(b"PO").expect("room");
    std::thread::sleep(Duration::from_millis(200));
    let began = Instant::now();
    let (spans, _) = std::thread::scope(|scope| {
        let stopped = scope.spawn(|| served.stop());
        std::thread::sleep(Duration::from_millis(300));
        begun.write_all(last).expect("still open");
        assert_eq!(read(&mut begun).status, 200);
        stopped.join().expect("no panic")
    });
    assert_eq!(spans, [span(1, "a")]);
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
}
