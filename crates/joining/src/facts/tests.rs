//! The states in a request's time, and its disk accesses.

use wakepath_critical_path::SegmentKind;

use super::*;
use crate::testing::{Made, at, made};

/// `a` and `b` send requests to a disk.
const HOST: &str = "
    host web3 realtime=1000000
    thread a tid=10
    thread b tid=11 tgid=10
    0 c0 idle started
    0 c0 idle switch a
    0 c1 idle switch b
    100 c0 a issue 1 bytes=4096
    150 c1 b issue 2 bytes=512
    200 c2 idle complete 1 bytes=4096
    250 c2 idle complete 2 bytes=512
    300 c0 a issue 3 bytes=1024
    400 c0 a issue 4 bytes=2048
    450 c2 idle complete 4 bytes=2048
    900 c0 a switch idle blocked
    1000 c0 idle stopped
";

fn disk(made: &Made, asked: &str) -> Option<DiskAccesses> {
    made.joined().disk(made.request(asked))
}

#[test]
fn accesses_to_disks_are_those_of_the_threads_of_a_request_and_of_its_parts_in_its_time() {
    let sum = |count, open, bytes, total_ns| Some(DiskAccesses { count, open, bytes, total_ns });
    for (spans, expected) in [
        // The third access had not ended.
        ("a/a 1000050..1000800 tid=10", sum(3, 1, 4096 + 1024 + 2048, 150)),
        // A span takes accesses from its beginning on, and none at its end.
        ("a/a 1000100..1000300 tid=10", sum(1, 0, 4096, 100)),
        ("a/a 1000101..1000301 tid=10", sum(1, 1, 1024, 0)),
        // A part in another thread; an access by another request.
        ("a/a 1000050..1000300 tid=10\na/b < a 1000140..1000160 tid=11 server", sum(2, 0, 4096 + 512, 200)),
        ("a/a 1000050..1000300 tid=10\nc/c 1000140..1000160 tid=11", sum(1, 0, 4096, 100)),
        ("a/a 1000050..1000800", sum(0, 0, 0, 0)),
        // A part goes on behind the end, and its access there is not the request's.
        ("a/a 1000100..1000300 tid=11\na/b < a 1000290..1000350 tid=10 server", sum(1, 0, 512, 100)),
    ] {
        let made = made(HOST, &format!("service s\n{spans}"));
        assert_eq!(disk(&made, "a/a"), expected, "{spans}");
    }
}

#[test]
fn a_context_a_goroutine_and_a_connection_say_whose_access_to_a_disk_it_is() {
    let context =
        HOST.replace("100 c0 a issue", "90 c0 a context b/b\n90 c0 a waking b\n100 c0 a issue").replace(
            "900 c0 a switch",
            "480 c0 a context b/b\n480 c0 a waking b\n900 c0 a context none\n900 c0 a switch",
        );
    let goroutine =
        HOST.replace("100 c0 a issue", "60 c0 a go 7 runs\n90 c0 a go 7 begins b/b\n100 c0 a issue");
    let connection = HOST.replace(
        "thread a",
        "flow ask 127.0.0.1:40001 > 127.0.0.1:8080\nflow say 127.0.0.1:8080 > 127.0.0.1:40001\nthread a",
    );
    let connection = connection
        .replace("100 c0 a issue", "40 c0 a/net_rx in ask seq=1 len=9\n100 c0 a issue")
        .replace("900 c0 a switch", "500 c0 a out say seq=1 len=9\n900 c0 a switch");
    for (hosts, expected) in [(&context, 1..=3), (&goroutine, 1..=3), (&connection, 3..=3)] {
        let made = made(hosts, "service s\nb/b 1000090..1000500 server");
        let count = disk(&made, "b/b").expect("disks are shown").count;
        assert!(expected.contains(&count), "{count} of {hosts}");
    }
}

#[test]
fn a_recording_that_shows_no_disk_has_no_accesses_and_a_recorder_of_ours_shows_them() {
    let without: String = HOST
        .lines()
        .filter(|line| !line.contains("issue") && !line.contains("complete"))
        .map(|line| format!("{line}\n"))
        .collect();
    let none = Some(DiskAccesses::default());
    let other = without.replace("realtime=1000000", "realtime=1000000 tracer=lttng");
    let and_ours = format!("{other}{}", without.replace("web3", "db1"));
    for (hosts, expected) in [
        (without.clone(), none),
        (other, None),
        (and_ours, none),
        (
            HOST.replace("realtime=1000000", "realtime=1000000 tracer=lttng"),
            Some(DiskAccesses { count: 1, open: 0, bytes: 4096, total_ns: 100 }),
        ),
    ] {
        let made = made(&hosts, "service s\na/a 1000050..1000290 tid=10");
        assert_eq!(disk(&made, "a/a"), expected, "{hosts}");
    }
}

#[test]
fn the_states_of_a_requests_time_are_added_up_with_their_bases_the_largest_first() {
    let mut states = States::default();
    let running = RequestState::Kind(SegmentKind::Running);
    for (state, basis, ns) in [
        (running, Basis::Measured, 30),
        (RequestState::Blocked, Basis::Measured, 50),
        (running, Basis::Ambiguous, 10),
        (RequestState::Kind(SegmentKind::Timer), Basis::Measured, 40),
    ] {
        states.add(state, basis, ns);
    }
    let sums = states.finish();
    let found: Vec<_> = sums.iter().map(|sum| (sum.state.name(), sum.total_ns, sum.basis.measured)).collect();
    // Blocking by another request is inferred, however well the time itself is known.
    assert_eq!(found, [("blocked_by_request", 50, 0), ("running", 40, 30), ("timer", 40, 40)]);
    assert_eq!((sums[0].basis.inferred, sums[1].basis.ambiguous), (50, 10));
    assert_eq!(at(0), Stamp::MIN);
}
