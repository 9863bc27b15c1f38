//! Hand-made halves of a truth, and a path, in ms: a client works 10, waits 110 and is done; the server runs 40, sleeps
//! 50, and the rest is in flight.

use super::*;
use crate::made;

const MS: i64 = 1_000_000;

fn half(comm: &str, tid: u32, parts: &[(&str, i64)]) -> Value {
    let parts: Vec<_> = parts.iter().map(|&(kind, ms)| ((tid, comm), kind, None, ms * MS)).collect();
    made::truth(&[(tid, comm)], 0, &parts)
}

fn halves() -> (Value, Value) {
    // The same tid on both hosts, as happens; and the server was there before and after.
    let mut client = half("rpc", 7, &[("running", 10), ("network", 110)]);
    let mut server =
        half("rpc-server", 7, &[("network", 300), ("beside", 5), ("running", 45), ("timer", 50)]);
    // The client ran on for 7 ms after it asked; the server began 2 ms after the client asked.
    let wait = |from: i64, to: i64, cpu: i64| json!({"call": "recvfrom", "from_ns": from * MS, "to_ns": to * MS, "cpu_ns": cpu * MS, "delayed_ns": 0});
    client["waits"] = json!([wait(3, 120, 7)]);
    server["waits"] = json!([wait(0, 5, 0), wait(118, 500, 0)]);
    (client, server)
}

/// Clocks that agree.
fn notes() -> [ClockNotes; 2] {
    [two_clocks::tests::notes(|at| at, 0.0), two_clocks::tests::notes(|at| at, 0.0)]
}

/// A path drawn as HOST KIND LENGTH, in ms; a flight has `to` or `back` in place of the kind.
fn path(drawing: &str) -> Value {
    let (mut at, mut segments) = (0, Vec::new());
    for piece in drawing.split(", ") {
        let words: Vec<&str> = piece.split(' ').collect();
        let ns = words[2].parse::<i64>().unwrap() * MS;
        let (host, comm, kind) = match words[0] {
            "client" => (json!("boot-1"), json!("rpc"), words[1]),
            "server" => (json!("boot-2"), json!("rpc-server"), words[1]),
            _ => (json!(null), json!(null), "network"),
        };
        let tid = if host.is_null() { json!(null) } else { json!(7) };
        let cause = (words[0] == "flight").then(|| {
            let (mut from, mut to) = ("10.77.0.2:40000", "10.77.0.1:7117");
            if words[1] == "back" {
                (from, to) = (to, from);
            }
            json!({"type": "packet", "comm": null, "from": from, "to": to})
        });
        segments.push(json!({"from_ns": at, "to_ns": at + ns, "kind": kind, "host": host, "tid": tid,
                             "comm": comm, "call": null, "cause": cause}));
        at += ns;
    }
    let mut path = made::path((7, "rpc"), &segments);
    path["hosts"] = json!([{"host": "boot-1", "name": "client"}, {"host": "boot-2", "name": "server"}]);
    path["window"]["host"] = json!("boot-1");
    path
}

fn verdict(drawing: &str) -> (PathVerdict, Findings) {
    verdict_of(halves(), drawing)
}

fn verdict_of((client, server): (Value, Value), drawing: &str) -> (PathVerdict, Findings) {
    let (mut findings, limits) = (Findings::default(), Limits::with_error(LIMIT));
    let verdict = compare_halves([&client, &server], &notes(), &path(drawing), limits, &mut findings);
    (verdict.unwrap(), findings)
}

const RIGHT: &str = "client running 10, flight to 12, server running 20, server timer 50, server running 20, \
                     flight back 8";

#[test]
fn what_the_client_waited_less_what_the_server_did_was_in_flight() {
    let (verdict, _) = verdict(RIGHT);
    assert_eq!((verdict.error, &verdict.violations, &verdict.void), (0.0, &vec![], &vec![]));
    let flight = verdict.parts.iter().find(|part| part.who == "in flight").unwrap();
    assert_eq!((flight.truth_ns, flight.path_ns), (20 * MS, 20 * MS));
}

#[test]
fn time_that_is_charged_to_the_wrong_host_is_an_error_though_tids_are_alike() {
    for (drawing, error) in [
        (
            "client running 10, flight to 12, server running 10, client running 10, server timer 50, \
          server running 20, flight back 8",
            10.0 / 120.0,
        ),
        ("client running 10, flight to 32, server timer 50, server running 20, flight back 8", 20.0 / 120.0),
        ("client running 10, client network 110", 110.0 / 120.0),
    ] {
        let (verdict, _) = verdict(drawing);
        assert!((verdict.error - error).abs() < 1e-9, "{drawing}: {}", verdict.error);
        assert!(verdict.violations.iter().any(|text| text.starts_with("contributors differ")), "{drawing}");
    }
}

#[test]
fn a_wait_for_a_packet_without_a_sender_is_wrong_unless_it_is_not_worth_naming() {
    for (drawing, right) in
        [("client running 995, client network 5", true), ("client running 994, client network 6", false)]
    {
        let mut findings = Findings::default();
        senders(&path(drawing), 1000 * MS, &mut findings);
        assert_eq!(findings.violations.is_empty(), right, "{drawing}: {:?}", findings.facts);
    }
    assert_eq!(verdict(RIGHT).1.violations.len(), 1, "it asks only once");
}

#[test]
fn each_request_flies_there_and_back() {
    let many = |request: &str| vec![request; MIN_REQUESTS].join(", ");
    let whole = "client running 1, flight to 1, server timer 1, flight back 1";
    let lame = "client running 1, server timer 1, flight back 1";
    for (drawing, right) in [
        (many(whole), true),
        (many(lame), false),
        (many("client running 1, flight to 1, server timer 1"), false),
        (many("client running 1, server timer 1, flight back 1"), false),
        (format!("{}, {lame}", many(whole)), true),
        (whole.to_owned(), false),
        (many("client running 1, flight to 1, client timer 1, flight back 1"), false),
    ] {
        let mut findings = Findings::default();
        crossings(&path(&drawing), "boot-2", &mut findings);
        assert_eq!(findings.violations.is_empty(), right, "{drawing:.80}: {:?}", findings.facts);
    }
}

#[test]
fn a_path_of_one_host_or_of_the_servers_window_is_refused() {
    let mut one = path(RIGHT);
    one["hosts"].as_array_mut().unwrap().pop();
    assert!(other_host(&one).is_err());
    let mut servers = path(RIGHT);
    servers["window"]["host"] = json!("boot-2");
    assert!(other_host(&servers).is_err());
    assert_eq!(other_host(&path(RIGHT)).unwrap(), "boot-2");
}

#[test]
fn a_server_with_a_wrong_truth_cannot_be_judged() {
    let (client, mut server) = halves();
    server["clocks"]["running_ns"] = json!(10 * MS);
    let (verdict, _) = verdict_of((client, server), RIGHT);
    assert_eq!(verdict.void.len(), 1, "{:?}", verdict.void);
}
