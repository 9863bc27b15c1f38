//! Recordings of several hosts, whose clocks disagree, read as one.

use std::fmt::Write;

use serde_json::Value;
use wakepath_event::{EventKind, NameSpace};
use wakepath_harness::made::{Made, made, made_on};

/// The number of rounds, one every millisecond: a client asks, and a server on another host answers.
const ROUNDS: u64 = 200;
/// The least time of a packet on its way, and the time that the server computes, ns.
const FLIGHT: u64 = 20_000;
const COMPUTES: u64 = 300_000;

/// The server's clock: five hours ahead, and 50 ppm faster.
const fn servers(at: u64) -> u64 {
    at + at / 20_000 + 18_000_000_000_000
}

/// A small time that differs from packet to packet.
const fn jitter(round: u64) -> u64 {
    round * 7919 % 9_000
}

/// The changes to packets on their way.
#[derive(Clone, Copy, PartialEq)]
enum Wire {
    /// They arrive as they were sent.
    Same,
    /// Requests leave in two segments and arrive as one; answers leave as one and arrive in two.
    Offload,
}

/// The recording of each host.
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

fn hosts(wire: Wire) -> (Made, Made) {
    let (client, server) = rpc(wire);
    let ask = EventKind::Name(NameSpace::Target, 0, b"./client:ask".as_slice().into());
    (made(&client, &[ask]), made_on(("db1", "a3ad3a3e-2b69-4bd7-a8a0-f1a8a4b8a4e5"), &server, &[]))
}

#[track_caller]
fn document(made: &Made, arguments: &[&str]) -> Value {
    let (code, out, err) = made.run(arguments);
    assert_eq!((code, err.as_str()), (0, ""), "{arguments:?}: {out}");
    serde_json::from_str(&out).expect("a document")
}

#[test]
fn a_path_goes_to_the_other_host_and_back() {
    check_path(Wire::Same);
}

#[test]
fn calls_show_their_waits_for_the_other_host() {
    let (client, server) = hosts(Wire::Same);
    let other = server.recording();
    let other = other.to_str().expect("UTF-8");
    let asked = ["path", "--call", "--slowest", "50", "--json", "wakepath.rec", other];
    let answer = document(&client, &asked);
    let calls = answer["calls"].as_array().expect("calls");
    assert_eq!(calls.len(), 50);
    for call in calls {
        assert_eq!(call["first"]["what"], "waiting for server (10) on db1", "{call}");
        // Nearly all of what the server computes lies within the call, whatever the clocks' error.
        let ns = call["first"]["ns"].as_u64().expect("a number");
        assert!(ns.abs_diff(COMPUTES) < 50_000, "{call}");
    }

    let mut of_server = asked.to_vec();
    of_server.extend(["--host", "db1"]);
    let (code, _, said) = client.run(&of_server);
    assert_eq!(code, 2);
    assert!(said.contains("the host of the first recording"), "{said}");
}

#[test]
fn a_path_follows_bytes_that_were_merged_or_split_on_their_way() {
    check_path(Wire::Offload);
}

#[track_caller]
fn check_path(wire: Wire) {
    let (client, server) = hosts(wire);
    let other = server.recording();
    let other = other.to_str().expect("UTF-8");
    let path = document(&client, &["path", "--tid", "10", "--json", "wakepath.rec", other]);

    assert_eq!(path["hosts"][0]["name"], "web3");
    assert_eq!(path["hosts"][1]["name"], "db1");
    let error = path["clock"]["error_ns"].as_u64().expect("a bound");
    assert!(error > 0 && error < 50_000, "{error} ns");

    let segments = path["segments"].as_array().expect("segments");
    let of =
        |segment: &Value| segment["to_ns"].as_i64().expect("ns") - segment["from_ns"].as_i64().expect("ns");
    let whole = &path["window"];
    assert_eq!(segments.iter().map(of).sum::<i64>(), of(whole), "the parts add up");
    let time = |kind: &str, host: &Value| {
        let its = segments.iter().filter(|segment| segment["kind"] == kind && segment["host"] == *host);
        its.map(of).sum::<i64>() as u64
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
    let its = far["error_ns"].as_u64().expect("a bound");
    assert!(its > 0 && its <= error, "{its} of {error} ns");

    let worst = segments.iter().filter_map(|segment| segment["error_ns"].as_u64()).max();
    assert_eq!(worst, Some(error), "that of the path is its worst segment's");
    // The client runs up to its first request.
    let alone = ["path", "--tid", "10", "--to", "0.0004", "--json", "wakepath.rec", other];
    assert_eq!(document(&client, &alone)["clock"]["error_ns"], 0, "a path that stays has no other clock");

    let (code, out, err) = client.run(["path", "--tid", "10", "wakepath.rec", other]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("waiting for server (10) on db1"), "{out}");
}

#[test]
fn threads_of_any_host_can_be_asked_about() {
    let (client, server) = hosts(Wire::Same);
    let other = server.recording();
    let other = other.to_str().expect("UTF-8");
    let subject = |arguments: &[&str]| {
        let all = [&["path", "--json", "wakepath.rec", other], arguments].concat();
        let window = document(&client, &all)["window"].clone();
        (window["comm"].as_str().expect("a name").to_owned(), window["tid"].as_u64().expect("an id"))
    };
    let boot =
        document(&client, &["path", "--tid", "10", "--json", "wakepath.rec", other])["hosts"][1]["host"]
            .clone();
    let boot = boot.as_str().expect("a boot id");
    for host in ["db1", boot] {
        assert_eq!(subject(&["--host", host, "--tid", "10"]), ("server".into(), 10), "{host}");
        assert_eq!(subject(&["--host", host, "--pid", "10"]), ("server".into(), 10), "{host}");
        assert_eq!(subject(&["--host", host, "--comm", "server"]), ("server".into(), 10), "{host}");
    }
    assert_eq!(subject(&["--host", "web3", "--tid", "10"]), ("client".into(), 10));
    assert_eq!(subject(&["--tid", "10"]), ("client".into(), 10), "a number is the first one's");

    let whole = document(&client, &["path", "--json", "--host", "db1", "wakepath.rec", other]);
    assert_eq!((&whole["scope"]["by"], &whole["scope"]["host"]), (&"host".into(), &boot.into()));
    let names: Vec<_> =
        whole["threads"].as_array().expect("threads").iter().map(|one| &one["comm"]).collect();
    assert_eq!(names, ["server"]);
    let (_, out, _) = client.run(["path", "--host", "db1", "wakepath.rec", other]);
    assert!(out.starts_with("db1,") && out.contains("--host db1 --tid 10"), "{out}");

    let (code, _, err) = client.run(["path", "--host", "db1", "--comm", "client", "wakepath.rec", other]);
    assert_eq!(code, 2);
    assert!(err.contains("no thread named `client`"), "{err}");
    let (code, _, err) = client.run(["path", "--host", "db9", "wakepath.rec", other]);
    assert_eq!(code, 2);
    assert!(err.contains("no host `db9` among web3, db1"), "{err}");
}

#[test]
fn sync_shows_the_offset_of_two_clocks_and_its_error() {
    let (client, server) = hosts(Wire::Same);
    let other = server.recording();
    let other = other.to_str().expect("UTF-8");
    let sync = document(&client, &["sync", "--json", "wakepath.rec", other]);
    let pair = &sync["pairs"][0];
    assert_eq!((&pair["matched"], &pair["inversions"]), (&(2 * ROUNDS).into(), &0.into()));
    assert_eq!((&pair["quality"], &pair["ambiguous"]), (&"exact".into(), &0.into()));
    let error = pair["error_ns"].as_u64().expect("a bound");
    assert!(error < 50_000, "{error} ns");

    let (code, out, _) = client.run(["sync", "wakepath.rec", other]);
    assert_eq!(code, 0);
    assert!(
        out.contains("2 of 2 hosts") && out.contains("400 packets matched, 200 there and 200 back"),
        "{out}"
    );
}

#[test]
fn a_host_without_packets_in_common_is_reported_and_its_clock_is_not_guessed() {
    let (client, _) = hosts(Wire::Same);
    let alone =
        "thread other tid=10\n0 c0 idle started\n0 c0 idle switch other\n900 c0 other switch idle blocked\n";
    let other = made_on(("db2", "0e5a5b5e-0000-4bd7-a8a0-f1a8a4b8a4e5"), alone, &[]);
    let other = other.recording();
    let other = other.to_str().expect("UTF-8");
    let (code, out, _) = client.run(["path", "--tid", "10", "wakepath.rec", other]);
    assert_eq!(code, 0);
    assert!(out.contains("is left out: no packet links its host"), "{out}");
    let (code, out, _) = client.run(["sync", "wakepath.rec", other]);
    assert_eq!(code, 0);
    assert!(out.contains("no packet links it"), "{out}");
}

#[test]
fn two_recordings_of_one_host_are_refused_by_name() {
    let (client, _) = hosts(Wire::Same);
    let (code, _, err) = client.run(["path", "wakepath.rec", "./wakepath.rec"]);
    assert_eq!(code, 3);
    assert!(err.contains("are of one host, web3: give one recording of each host"), "{err}");
}
