//! Recordings from several hosts, with different clocks, read together.

use std::ffi::OsString;
use std::fmt::Write;

use serde_json::Value;
use wakepath_event::{EventKind, NameSpace};
use wakepath_harness::live::{adds_up, length, list, number};
use wakepath_harness::made::{Made, made, made_on};

/// The number of rounds, one every millisecond: a client asks, and a server on another host answers.
const ROUNDS: u64 = 200;
/// A packet's least travel time, and the server's computing time, ns.
const FLIGHT: u64 = 20_000;
const COMPUTES: u64 = 300_000;

/// The server's clock: five hours ahead, and 50 ppm faster.
const fn servers(at: u64) -> u64 {
    at + at / 20_000 + 18_000_000_000_000
}

/// A small time that differs between packets.
const fn jitter(round: u64) -> u64 {
    round * 7919 % 9_000
}

/// The changes to packets in flight.
#[derive(Clone, Copy, PartialEq)]
enum Wire {
    /// Packets arrive as sent.
    Same,
    /// Requests leave in two segments and arrive in one; answers leave in one and arrive in two.
    Offload,
}

/// Each host's recording.
fn rpc(wire: Wire) -> (String, String) {
    let flows = "flow request 10.0.0.1:40000 > 10.0.0.2:80\nflow reply 10.0.0.2:80 > 10.0.0.1:40000\n";
    let mut client = format!("thread client tid=10\n{flows}0 c0 idle started\n0 c0 idle switch client\n");
    let began = servers(0);
    let mut server = format!(
        "thread server tid=10 blocked=interruptible call=0:3\n{flows}{began} c0 idle started\n{began} c0 idle \
         switch idle\n"
    );
    for round in 0..ROUNDS {
        let (sent, seq) = (1_000_000 * round + 500_000, 1 + 32 * round);
        let offload = wire == Wire::Offload;
        if offload {
            let _ = writeln!(client, "{} c0 client out request seq={seq} len=20", sent - 400);
            let _ = writeln!(client, "{sent} c0 client out request seq={} len=12", seq + 20);
        } else {
            let _ = writeln!(client, "{sent} c0 client out request seq={seq} len=32");
        }
        let _ = writeln!(client, "{} c0 client switch idle blocked call=0:5", sent + 2_000);
        let arrived = sent + FLIGHT + jitter(round);
        let _ = writeln!(server, "{} c0 idle/net_rx in request seq={seq} len=32", servers(arrived));
        let _ = writeln!(server, "{} c0 idle/net_rx waking server", servers(arrived + 1_000));
        let _ = writeln!(server, "{} c0 idle switch server", servers(arrived + 3_000));
        let answered = arrived + 3_000 + COMPUTES;
        let _ = writeln!(server, "{} c0 server out reply seq={seq} len=32", servers(answered));
        let _ = writeln!(server, "{} c0 server switch idle blocked call=0:3", servers(answered + 2_000));
        let back = answered + FLIGHT + jitter(round + 50);
        if offload {
            let _ = writeln!(client, "{} c0 idle/net_rx in reply seq={seq} len=20", back - 300);
            let _ = writeln!(client, "{back} c0 idle/net_rx in reply seq={} len=12", seq + 20);
        } else {
            let _ = writeln!(client, "{back} c0 idle/net_rx in reply seq={seq} len=32");
        }
        let _ = writeln!(client, "{} c0 idle/net_rx waking client", back + 1_000);
        let _ = writeln!(client, "{} c0 idle switch client", back + 3_000);
        let _ = writeln!(client, "{} c0 client called 0 from={}", back + 5_000, sent - 1_000);
    }
    let _ = writeln!(client, "{} c0 client switch idle blocked call=35:0", 1_000_000 * ROUNDS);
    (client, server)
}

/// The recordings from the client's host and from another.
struct Hosts {
    client: Made,
    other: Made,
}

fn hosts(wire: Wire) -> Hosts {
    let (client, server) = rpc(wire);
    let ask = EventKind::Name(NameSpace::Target, 0, b"./client:ask".as_slice().into());
    let other = made_on(("db1", "a3ad3a3e-2b69-4bd7-a8a0-f1a8a4b8a4e5"), &server, &[]);
    Hosts { client: made(&client, &[ask]), other }
}

impl Hosts {
    /// A command line about both recordings.
    fn about_both(&self, arguments: &[&str]) -> Vec<OsString> {
        let recordings = [OsString::from("wakepath.rec"), self.other.recording().into()];
        arguments.iter().map(OsString::from).chain(recordings).collect()
    }

    fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        self.client.run(self.about_both(arguments))
    }

    #[track_caller]
    fn document(&self, arguments: &[&str]) -> Value {
        self.client.document(self.about_both(arguments))
    }
}

#[test]
fn a_path_goes_to_the_other_host_and_back() {
    check_path(Wire::Same);
}

#[test]
fn calls_show_their_waits_for_the_other_host() {
    let hosts = hosts(Wire::Same);
    let asked = ["path", "--call", "--slowest", "50", "--json"];
    let answer = hosts.document(&asked);
    let calls = list(&answer["calls"]);
    assert_eq!(calls.len(), 50);
    for call in calls {
        assert_eq!(call["first"]["what"], "waiting for server (10) on db1", "{call}");
        // The whole wait: both packets' travel, and the server's computing time.
        let ns = number(&call["first"]["ns"]);
        assert!(ns.abs_diff(COMPUTES + 2 * FLIGHT) < 25_000, "{call}");
    }
    // Nearly all the server's computing lies within the calls, whatever the clocks' error.
    let parts = list(&answer["causes"][0]["parts"]);
    let running = parts.iter().find(|part| part["kind"] == "running").expect("the server ran");
    let ns = running["asked_ns"].as_f64().expect("a number");
    assert!((ns - COMPUTES as f64).abs() < 50_000.0, "{parts:?}");

    let (code, _, said) = hosts.run(&[&asked[..], &["--host", "db1"]].concat());
    assert_eq!(code, 2);
    assert!(said.contains("the host of the first recording"), "{said}");
}

#[test]
fn a_path_follows_bytes_that_were_merged_or_split_on_their_way() {
    check_path(Wire::Offload);
}

#[track_caller]
fn check_path(wire: Wire) {
    let hosts = hosts(wire);
    let path = hosts.document(&["path", "--tid", "10", "--json"]);

    assert_eq!(path["hosts"][0]["name"], "web3");
    assert_eq!(path["hosts"][1]["name"], "db1");
    let error = number(&path["clock"]["error_ns"]);
    assert!(error > 0 && error < 50_000, "{error} ns");

    adds_up(&path);
    let segments = list(&path["segments"]);
    let time = |kind: &str, host: &Value| {
        let its = segments.iter().filter(|segment| segment["kind"] == kind && segment["host"] == *host);
        its.map(length).sum::<i64>() as u64
    };
    let [here, there] = [0, 1].map(|host| path["hosts"][host]["host"].clone());
    let rounds = ROUNDS;
    // The boundaries of each round are off by the error at most, at both ends.
    let computed = time("running", &there);
    let expected = COMPUTES * rounds;
    assert!(
        computed.abs_diff(expected) <= 2 * error * rounds,
        "the server ran for {computed} of {expected} ns"
    );
    let flew = time("network", &Value::Null);
    let expected: u64 = (0..rounds).map(|n| 2 * FLIGHT + jitter(n) + jitter(n + 50) + 1_000).sum();
    assert!(flew.abs_diff(expected) <= 2 * error * rounds, "in flight for {flew} of {expected} ns");
    assert!(time("running", &here) > 0 && time("unknown", &there) == 0);
    let far = segments.iter().find(|segment| segment["host"] == there).expect("time there");
    assert_eq!((&far["comm"], &far["tid"]), (&"server".into(), &10.into()));
    let its = number(&far["error_ns"]);
    assert!(its > 0 && its <= error, "{its} of {error} ns");

    let worst = segments.iter().filter_map(|segment| segment["error_ns"].as_u64()).max();
    assert_eq!(worst, Some(error), "that of the path is its worst segment's");
    // The client runs up to its first request.
    let alone = hosts.document(&["path", "--tid", "10", "--to", "0.0004", "--json"]);
    assert_eq!(alone["clock"]["error_ns"], 0, "a path that stays has no other clock");

    let (code, out, err) = hosts.run(&["path", "--tid", "10"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("waiting for server (10) on db1"), "{out}");
}

/// The second host's recording ends a tenth of a second before the first host's, with a thread on a CPU and another
/// behind it.
#[test]
fn the_time_after_a_hosts_recording_is_unknown() {
    let (mut client, mut server) = rpc(Wire::Same);
    let (end, later) = (1_000_000 * ROUNDS, 1_000_000 * ROUNDS + 100_000_000);
    let _ = writeln!(server, "{} c0 idle/timer waking server", servers(end - 2_000));
    let _ = writeln!(server, "{} c0 idle switch server", servers(end - 1_000));
    let _ = writeln!(server, "thread late tid=11 blocked=interruptible call=0:3");
    let _ = writeln!(server, "{} c0 server/timer waking late", servers(end));
    let _ = writeln!(client, "{later} c0 idle/timer waking client\n{later} c0 idle switch client");
    let client = made(&client, &[]);
    let server = made_on(("db1", "a3ad3a3e-2b69-4bd7-a8a0-f1a8a4b8a4e5"), &server, &[]);
    let other = server.recording();
    let other = other.to_str().expect("UTF-8");
    let ns = |value: &Value| value.as_u64().expect("ns");
    for (tid, kind, before) in [("10", "running", 250..70_000_000), ("11", "runnable", 0..1_000)] {
        for to in ["0.2", "0.3"] {
            let asked = ["path", "--host", "db1", "--tid", tid, "--to", to, "--json", "wakepath.rec", other];
            let path: Value = serde_json::from_str(&client.run(asked).1).expect("a document");
            let segments = path["segments"].as_array().expect("segments");
            let time = |kind: &str| {
                let its = segments.iter().filter(|one| one["depth"] == 0 && one["kind"] == kind);
                its.map(|one| ns(&one["to_ns"]) - ns(&one["from_ns"])).sum::<u64>()
            };
            assert!(before.contains(&time(kind)), "{tid} to {to}: {kind} {} ns", time(kind));
            let unknown = time("unknown");
            let last = segments.last().expect("a segment");
            if to == "0.3" {
                assert!(unknown.abs_diff(100_000_000) < 100_000, "{tid}: {unknown} ns unknown");
                assert_eq!(last["cause"]["type"], "after_recording", "{last}");
            } else {
                assert!(unknown < 100_000, "{tid}: {unknown} ns unknown");
            }
        }
    }
    let whole = client.run(["path", "--host", "db1", "--json", "wakepath.rec", other]).1;
    let whole: Value = serde_json::from_str(&whole).expect("a document");
    for thread in whole["threads"].as_array().expect("threads") {
        assert!(ns(&thread["running_ns"]) + ns(&thread["runnable_ns"]) < 70_000_000, "{thread}");
    }
    let problems = whole["problems"].as_array().expect("problems");
    assert!(problems.iter().any(|problem| problem["code"] == "partly_recorded"), "{problems:#?}");
}

#[test]
fn threads_of_any_host_can_be_asked_about() {
    let hosts = hosts(Wire::Same);
    let subject = |arguments: &[&str]| {
        let window = hosts.document(&[&["path", "--json"], arguments].concat())["window"].clone();
        (window["comm"].as_str().expect("a name").to_owned(), window["tid"].as_u64().expect("an id"))
    };
    let boot = hosts.document(&["path", "--tid", "10", "--json"])["hosts"][1]["host"].clone();
    let boot = boot.as_str().expect("a boot id");
    for host in ["db1", boot] {
        for by in [["--tid", "10"], ["--pid", "10"], ["--comm", "server"]] {
            let found = subject(&[&["--host", host], &by[..]].concat());
            assert_eq!(found, ("server".into(), 10), "{host} {by:?}");
        }
    }
    assert_eq!(subject(&["--host", "web3", "--tid", "10"]), ("client".into(), 10));
    assert_eq!(subject(&["--tid", "10"]), ("client".into(), 10), "a number is the first one's");

    let whole = hosts.document(&["path", "--json", "--host", "db1"]);
    assert_eq!((&whole["scope"]["by"], &whole["scope"]["host"]), (&"host".into(), &boot.into()));
    let names: Vec<_> = list(&whole["threads"]).iter().map(|one| &one["comm"]).collect();
    assert_eq!(names, ["server"]);
    let (_, out, _) = hosts.run(&["path", "--host", "db1"]);
    assert!(out.starts_with("db1,") && out.contains("--host db1 --tid 10"), "{out}");

    for (arguments, says) in [
        (&["path", "--host", "db1", "--comm", "client"][..], "no thread named `client`"),
        (&["path", "--host", "db9"], "no host `db9` among web3, db1"),
    ] {
        let (code, _, err) = hosts.run(arguments);
        assert_eq!(code, 2);
        assert!(err.contains(says), "{err}");
    }
}

#[test]
fn sync_shows_the_offset_of_two_clocks_and_its_error() {
    let hosts = hosts(Wire::Same);
    let sync = hosts.document(&["sync", "--json"]);
    let pair = &sync["pairs"][0];
    assert_eq!((&pair["matched"], &pair["inversions"]), (&(2 * ROUNDS).into(), &0.into()));
    assert_eq!((&pair["quality"], &pair["ambiguous"]), (&"exact".into(), &0.into()));
    let error = number(&pair["error_ns"]);
    assert!(error < 50_000, "{error} ns");

    let (code, out, _) = hosts.run(&["sync"]);
    assert_eq!(code, 0);
    assert!(
        out.contains("2 of 2 hosts") && out.contains("400 packets matched, 200 there and 200 back"),
        "{out}"
    );
}

#[test]
fn a_host_without_packets_in_common_is_reported_and_its_clock_is_not_guessed() {
    let alone =
        "thread other tid=10\n0 c0 idle started\n0 c0 idle switch other\n900 c0 other switch idle blocked\n";
    let other = made_on(("db2", "0e5a5b5e-0000-4bd7-a8a0-f1a8a4b8a4e5"), alone, &[]);
    let hosts = Hosts { other, ..hosts(Wire::Same) };
    for (arguments, says) in [
        (&["path", "--tid", "10"][..], "is left out: no packet links its host"),
        (&["sync"], "no packet links it"),
    ] {
        let (code, out, _) = hosts.run(arguments);
        assert_eq!(code, 0);
        assert!(out.contains(says), "{out}");
    }
}

#[test]
fn two_recordings_of_one_host_are_refused_by_name() {
    let (code, _, err) = hosts(Wire::Same).client.run(["path", "wakepath.rec", "./wakepath.rec"]);
    assert_eq!(code, 3);
    assert!(err.contains("are of one host, web3: give one recording of each host"), "{err}");
}
