//! Requests that go from one host to another: each host's spans by its own clock, threads with equal numbers, an unrecorded
//! host.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use opentelemetry_proto::tonic::trace::v1::TracesData;
use prost::Message as _;
use serde_json::{Value, json};
use wakepath_harness::live::{list, number};
use wakepath_harness::made::{Made, made, made_at};

/// The number of rounds, one every millisecond: a client asks, and a server on another host answers.
const ROUNDS: u64 = 200;
/// A packet's travel time, the server's work for a request, and its earlier work for another request, ns.
const FLIGHT: u64 = 20_000;
const COMPUTES: u64 = 300_000;
const BUSY: u64 = 150_000;
/// The round of the request in question.
const ROUND: u64 = 100;

/// Realtime on the client's host at its 0, ns. The server's host has another realtime, and a monotonic clock that began
/// earlier and is faster.
const REALTIME: u64 = 1_795_229_921_310_000_000;
const AHEAD: u64 = 3_000_000_000;

const WEB3: &str = "67e2237c-99e6-488f-b6e0-82e34227d61c";
const DB1: (&str, &str) = ("db1", "a3ad3a3e-2b69-4bd7-a8a0-f1a8a4b8a4e5");

/// The server's clock: five hours ahead, and 50 ppm faster.
const fn servers(at: u64) -> u64 {
    at + at / 20_000 + 18_000_000_000_000
}

/// Realtime on the server's host, which is read once and then runs like this host's clock.
const fn servers_wall(at: u64) -> u64 {
    REALTIME + AHEAD + servers(at) - servers(0)
}

/// A small time that differs between packets.
const fn jitter(round: u64) -> u64 {
    round * 7919 % 9_000
}

/// The time at which a request is sent.
const fn sent(round: u64) -> u64 {
    1_000_000 * round + 500_000
}

/// The times of its arrival, of the server's turn to it, of its answer, and of the answer's arrival.
const fn times(round: u64) -> [u64; 4] {
    let arrived = sent(round) + FLIGHT + jitter(round);
    let begun = arrived + BUSY;
    let answered = begun + COMPUTES;
    [arrived, begun, answered, answered + FLIGHT + jitter(round + 50)]
}

/// Each host's recording. The server works for another request when the client's request arrives. `context` is a line about the
/// server's thread as it stops.
fn rpc(context: &str) -> (String, String) {
    let flows = "flow request 10.0.0.1:40000 > 10.0.0.2:80\nflow reply 10.0.0.2:80 > 10.0.0.1:40000\n";
    let mut client = format!("thread client tid=10\n{flows}0 c0 idle started\n0 c0 idle switch client\n");
    let began = servers(0);
    let mut server = format!(
        "thread server tid=10 blocked=interruptible call=0:3\n{flows}{began} c0 idle started\n{began} c0 idle \
         switch idle\n"
    );
    for round in 0..ROUNDS {
        let (seq, [arrived, _, answered, back]) = (1 + 32 * round, times(round));
        let _ = writeln!(client, "{} c0 client out request seq={seq} len=32", sent(round));
        let _ = writeln!(client, "{} c0 client switch idle blocked call=0:5", sent(round) + 2_000);
        let _ = writeln!(server, "{} c0 idle/hrtimer waking server", servers(sent(round) - 100_000));
        let _ = writeln!(server, "{} c0 idle switch server", servers(sent(round) - 100_000));
        let _ = writeln!(server, "{} c0 server/net_rx in request seq={seq} len=32", servers(arrived));
        let _ = writeln!(server, "{} c0 server out reply seq={seq} len=32", servers(answered));
        let stops = servers(answered + 2_000);
        if !context.is_empty() && round == ROUND {
            let _ = writeln!(server, "{stops} c0 server context {context}");
        }
        let _ = writeln!(server, "{stops} c0 server switch idle blocked call=0:3");
        let _ = writeln!(client, "{back} c0 idle/net_rx in reply seq={seq} len=32");
        let _ = writeln!(client, "{} c0 idle/net_rx waking client", back + 1_000);
        let _ = writeln!(client, "{} c0 idle switch client", back + 3_000);
    }
    let _ = writeln!(client, "{} c0 client switch idle blocked call=35:0", 1_000_000 * ROUNDS);
    (client, server)
}

/// A span: the digits for its trace, for its own id and for its parent's, its name, its realtimes, its thread.
fn span(ids: [char; 3], name: &str, (from, to): (u64, u64), tid: Option<u32>) -> Value {
    let mut span = json!({
        "traceId": ids[0].to_string().repeat(32),
        "spanId": ids[1].to_string().repeat(16),
        "name": name,
        "kind": 2,
        "startTimeUnixNano": from.to_string(),
        "endTimeUnixNano": to.to_string(),
    });
    if ids[2] != '-' {
        span["parentSpanId"] = ids[2].to_string().repeat(16).into();
    }
    if let Some(tid) = tid {
        span["attributes"] = json!([{"key": "wakepath.tid", "value": {"intValue": tid.to_string()}}]);
    }
    span
}

/// A service's spans on a host.
fn resource_spans(service: &str, host: &str, spans: &[Value]) -> Value {
    let attributes = json!([
        {"key": "service.name", "value": {"stringValue": service}},
        {"key": "host.name", "value": {"stringValue": host}},
    ]);
    json!({"resource": {"attributes": attributes}, "scopeSpans": [{"spans": spans}]})
}

struct Hosts {
    client: Made,
    other: Made,
}

/// The time of the client's request, on its host's clock.
fn asked() -> (u64, u64) {
    (sent(ROUND) - 1_000, times(ROUND)[3] + 5_000)
}

/// Both hosts' spans: the client's request, the server's part, and the earlier request at the server. `host` is the server's
/// host name in its spans, `tid` the thread that they name.
fn spans(host: &str, tid: Option<u32>) -> Vec<Value> {
    let (from, to) = asked();
    let [_, begun, answered, _] = times(ROUND);
    let wall = |at| servers_wall(at);
    vec![
        resource_spans(
            "web",
            "web3",
            &[span(['a', 'a', '-'], "GET /cart", (REALTIME + from, REALTIME + to), Some(10))],
        ),
        resource_spans(
            "db",
            host,
            &[
                span(['a', 'b', 'a'], "query", (wall(begun), wall(answered)), tid),
                span(['c', 'c', '-'], "report", (wall(sent(ROUND) - 90_000), wall(begun)), tid),
            ],
        ),
    ]
}

fn hosts(spans: &[Value], (client, server): (String, String)) -> Hosts {
    let hosts = Hosts { client: made(&client, &[]), other: made_at(DB1, REALTIME + AHEAD, &server, &[]) };
    let file = hosts.client.folder().join("spans.json");
    fs::write(file, json!({"resourceSpans": spans}).to_string()).expect("a file");
    hosts
}

impl Hosts {
    fn run(&self, arguments: &[&str]) -> String {
        let other = self.other.recording();
        let other = other.to_str().expect("text");
        let words = [&["requests", "wakepath.rec", other, "spans.json"], arguments].concat();
        let (code, out, err) = self.client.run(words);
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
        out
    }

    fn document(&self, id: &str) -> Value {
        serde_json::from_str(&self.run(&["--request", id, "--json"])).expect("JSON")
    }
}

/// A path's time by its threads' request, and by these threads: `b db1:10`.
fn by_request(document: &Value) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    let mut at = document["request"]["from_ns"].as_i64().expect("a time");
    for piece in list(&document["pieces"]) {
        let [from, to] = ["from_ns", "to_ns"].map(|key| piece[key].as_i64().expect("a time"));
        assert_eq!(from, at, "they tile it");
        at = to;
        let segment = &document["segments"][piece["segment"].as_u64().expect("a place") as usize];
        let host = match segment["host"].as_str() {
            Some(WEB3) => "web3",
            Some(host) if host == DB1.1 => "db1",
            _ => "flight",
        };
        let request = piece["span_id"].as_str().map_or("-", |id| &id[..1]);
        *sums.entry(format!("{request} {host} {}", segment["tid"])).or_default() += (to - from) as u64;
    }
    assert_eq!(Some(at), document["request"]["to_ns"].as_i64());
    sums
}

#[track_caller]
fn check_crossing(document: &Value, join: &str) {
    assert_eq!(
        (&document["request"]["host"], &document["request"]["join"]),
        (&json!(WEB3), &json!("thread"))
    );
    let sums = by_request(document);
    let near = |key: &str, expected: u64| {
        let ns = sums.get(key).copied().unwrap_or(0);
        // The clocks' error, within which the spans' ends lie.
        let error = number(&document["clock"]["error_ns"]);
        assert!(error > 0 && error < 30_000, "{error}");
        assert!(ns.abs_diff(expected) <= 2 * error, "{key}: {ns} and not {expected} of {sums:?}");
    };
    // The server's own part of the request, and the other request, for which it works until then.
    near("b db1 10", COMPUTES);
    near("c db1 10", times(ROUND)[1] - sent(ROUND) - 2_000);
    let blocked: Vec<_> =
        list(&document["blocked_by"]).iter().map(|one| one["operation"].as_str().expect("a name")).collect();
    assert_eq!(blocked, ["report"]);
    let joins = list(&document["pieces"])
        .iter()
        .filter(|piece| piece["span_id"].as_str().is_some_and(|id| !id.starts_with('a')));
    assert!(joins.clone().count() > 0 && joins.clone().all(|piece| piece["join"] == join), "{joins:?}");
}

#[test]
fn a_request_crosses_to_the_thread_of_another_host_and_is_blocked_by_a_request_there() {
    let hosts = hosts(&spans("db1", Some(10)), rpc(""));
    let document = hosts.document("aaaa");
    check_crossing(&document, "thread");
    // The server's spans are on the first host's clock, in spite of their own.
    let error = number(&document["clock"]["error_ns"]);
    let query = hosts.document("aaaa/bbbb");
    assert_eq!((&query["request"]["host"], &query["window"]["host"]), (&json!(DB1.1), &json!(DB1.1)));
    let [_, begun, answered, _] = times(ROUND);
    for (key, expected) in [("from_ns", begun), ("to_ns", answered)] {
        let ns = number(&query["request"][key]);
        assert!(ns.abs_diff(expected) <= error, "{key}: {ns} and not {expected}");
    }
    let out = hosts.run(&["--request", "aaaa/bbbb"]);
    assert!(out.contains(" --host db1 --tid 10 --from "), "the next step names the host: {out}");
    let all: Value = serde_json::from_str(&hosts.run(&["--json"])).expect("JSON");
    let hosts_of: Vec<_> =
        list(&all["requests"]).iter().map(|one| one["host"].as_str().expect("a host")).collect();
    assert_eq!(hosts_of.iter().filter(|host| **host == WEB3).count(), 1);
    assert_eq!(hosts_of.len(), 3);
}

/// Puts spans into a recording, as its receiver would.
fn receive(made: &Made, spans: &[Value]) {
    let message: TracesData = serde_json::from_value(json!({"resourceSpans": spans})).expect("OTLP");
    let message = message.encode_to_vec();
    let frame = [&(message.len() as u32).to_be_bytes()[..], &message].concat();
    fs::write(made.recording().join("spans"), frame).expect("a file");
}

#[test]
fn spans_without_the_name_of_a_host_are_of_that_whose_recording_received_them() {
    let mut all = spans("db1", Some(10));
    // Both hosts have a service with the same name: they are two, also if a request's part is no answer to a call.
    for spans in &mut all {
        spans["resource"]["attributes"] = json!([{"key": "service.name", "value": {"stringValue": "shop"}}]);
        for span in spans["scopeSpans"][0]["spans"].as_array_mut().expect("a list") {
            span["kind"] = 1.into();
        }
    }
    let hosts = hosts(&[], rpc(""));
    receive(&hosts.client, &all[..1]);
    receive(&hosts.other, &all[1..]);
    check_crossing(&hosts.document("aaaa"), "thread");
    let query = hosts.document("aaaa/bbbb");
    assert_eq!((&query["request"]["host"], &query["request"]["operation"]), (&json!(DB1.1), &json!("query")));
}

#[test]
fn a_host_may_be_named_with_its_domain_or_in_capitals() {
    for name in ["db1.example.com", "DB1", "db1.local"] {
        check_crossing(&hosts(&spans(name, Some(10)), rpc("")).document("aaaa"), "thread");
    }
}

#[test]
fn spans_of_a_host_that_was_not_recorded_are_on_no_thread_of_another_one() {
    let hosts = hosts(&spans("db7", Some(10)), rpc(""));
    let document = hosts.document("aaaa");
    assert_eq!(document["blocked_by"], json!([]));
    let sums = by_request(&document);
    assert!(sums.keys().all(|key| !key.starts_with('b') && !key.starts_with('c')), "{sums:?}");
    assert!(sums.contains_key("- db1 10"), "the path itself goes there: {sums:?}");
    let query = hosts.document("aaaa/bbbb");
    assert_eq!((&query["request"]["host"], &query["no_path"]), (&Value::Null, &json!("other_host")));
    assert_eq!(query["spans"][0]["host"], Value::Null);
    assert_eq!(
        query["states"],
        json!([{"state": "unknown", "total_ns": COMPUTES + COMPUTES / 20_000, "measured_ns": 0}])
    );
    let out = hosts.run(&["--request", "aaaa/bbbb"]);
    assert!(out.contains("  inferred, its host not recorded\n"), "{out}");
    assert!(out.contains("its spans name a host that was not recorded, or a container"), "{out}");
    assert!(
        out.ends_with("\nnext: record db7 too, and give both recordings: docs/requests.md says how\n"),
        "{out}"
    );
    let (code, out, _) =
        hosts.client.run(["requests", "wakepath.rec", "spans.json", "--request", "aaaa/bbbb"]);
    assert_eq!(code, 0);
    assert!(
        out.contains("its spans name a host that was not recorded"),
        "nor with one recording alone: {out}"
    );
}

#[test]
fn the_context_of_a_thread_says_its_host_better_than_a_name_and_a_number_do() {
    // The server's thread names its own part of the request from the span's beginning; the host name is a container's.
    let hosts = hosts(&spans("3f2a9c1b04de", None), rpc("a/b"));
    let query = hosts.document("aaaa/bbbb");
    assert_eq!((&query["request"]["host"], &query["request"]["join"]), (&json!(DB1.1), &json!("context")));
    assert_eq!((&query["window"]["host"], &query["window"]["tid"]), (&json!(DB1.1), &json!(10)));
    let [_, begun, answered, _] = times(ROUND);
    let error = number(&query["clock"]["error_ns"]);
    let [from, to] = ["from_ns", "to_ns"].map(|key| number(&query["request"][key]));
    assert!(from.abs_diff(begun) <= error && to.abs_diff(answered) <= error, "by the clock of its host");
}

#[test]
fn two_services_that_share_a_span_id_are_each_on_its_own_host() {
    let (client, server) = rpc("");
    let stops = format!("{} c0 client switch idle blocked call=0:5", sent(ROUND) + 2_000);
    let said = format!("{} c0 client context a/a\n{stops}", sent(ROUND) + 2_000);
    let client = client.replace(&stops, &said);
    let mut all = spans("db1", Some(10));
    let shared = &mut all[1]["scopeSpans"][0]["spans"][0];
    shared["spanId"] = "a".repeat(16).into();
    shared.as_object_mut().expect("a span").remove("parentSpanId");
    let hosts = hosts(&all, (client, server));
    let document: Value = serde_json::from_str(&hosts.run(&["--json"])).expect("JSON");
    for request in list(&document["requests"]) {
        let expected = if request["service"] == "web" { WEB3 } else { DB1.1 };
        assert_eq!(request["host"], expected, "{request}");
    }
}

#[test]
fn a_clock_that_was_set_on_another_host_is_a_problem() {
    let (client, mut server) = rpc("");
    let (from, to) = (servers(0), servers(1_000_000 * ROUNDS));
    server += &format!("{to} c0 idle clocks {}\n", servers_wall(1_000_000 * ROUNDS) + 3_600_000_000_000);
    let first = format!("{from} c0 idle switch idle\n");
    let server = server.replace(&first, &format!("{first}{from} c0 idle clocks {}\n", servers_wall(0)));
    let hosts = hosts(&spans("db1", Some(10)), (client, server));
    let (_, alone, err) = hosts.other.run(["path", "wakepath.rec", "--tid", "10", "--json"]);
    assert!(alone.contains("clock_set"), "alone: {alone} {err}");
    let other = hosts.other.recording();
    let other = other.to_str().expect("text");
    let words = ["path", "wakepath.rec", other, "--host", "db1", "--tid", "10", "--json"];
    let (_, both, err) = hosts.client.run(words);
    assert!(both.contains("clock_set"), "of both: {} {err}", &both[..both.len().min(3000)]);
}

#[test]
fn the_recorders_own_threads_of_another_host_are_not_shown() {
    let (client, server) = rpc("");
    let observer = wakepath_event::EventKind::Mark(wakepath_event::Mark::Observer(wakepath_event::Tid(10)));
    let client = made(&client, &[]);
    let other = made_at(DB1, REALTIME + AHEAD, &server, &[observer]);
    let (_, alone, err) = other.run(["path", "wakepath.rec"]);
    assert!(!alone.contains("server"), "alone: {alone} {err}");
    let path = other.recording();
    let (_, both, err) = client.run(["path", "wakepath.rec", path.to_str().expect("text"), "--host", "db1"]);
    assert!(!both.contains("server"), "of both: {both} {err}");
}

#[test]
fn a_goroutine_of_another_host_with_the_same_ids_has_not_the_request() {
    let (client, server) = rpc("");
    let sends = format!("{} c0 client out", sent(ROUND));
    let client = client.replace(&sends, &format!("{} c0 client go 7 begins a/a\n{sends}", sent(ROUND) - 900));
    let answers = format!("{} c0 server out", servers(times(ROUND)[2]));
    // Its process has the same number there.
    let forged = format!("{} c0 server go 5 begins a/a\n{answers}", servers(times(ROUND)[2] - 900));
    let forged = server.replace(&answers, &forged);
    for server in [server, forged] {
        let hosts = hosts(&spans("db1", None), (client.clone(), server));
        let document = hosts.document("aaaa");
        assert_eq!(document["request"]["join"], "goroutine", "{document}");
        assert_eq!(document["goroutine"]["number"], 7);
        assert_eq!(document["window"]["host"], WEB3);
    }
}
