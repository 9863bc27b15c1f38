//! Requests' answers: where each lies on the recording's clock, and its worker or the reason for its lack.

mod by_cause;
mod called;
mod collections;
mod groups;
mod parts;

use wakepath_clock::Stamp;
use wakepath_critical_path::Algorithm;
use wakepath_event::HostIndex;
use wakepath_spans::RequestIndex;

use super::one::worker;
use super::*;
use wakepath_joining::testing::{Made, made};

/// Two hosts, recorded from 0 to 1000: `a`, `b`, `c` and `g` run on the first, `d` on the second. `c` says that it works for `c/c`, and
/// `g` begins `e/e` in a goroutine.
const HOSTS: &str = "
    host web3 realtime=1000000
    thread a tid=10
    thread b tid=11
    thread c tid=12
    thread g tid=13
    0 c0 idle started
    0 c0 idle switch a
    0 c1 idle switch b
    0 c2 idle switch c
    0 c3 idle switch g
    60 c3 g go 7 runs
    100 c2 c context c/c
    100 c2 c switch idle runnable
    110 c2 idle switch c
    110 c3 g go 7 begins e/e
    890 c2 c context c/c
    890 c2 c switch idle blocked
    890 c3 g switch idle blocked
    900 c0 a switch idle blocked
    900 c1 b switch idle blocked
    1000 c0 idle stopped
    host db1 realtime=9000000
    thread d tid=10
    0 c0 idle started
    0 c0 idle switch d
    900 c0 d switch idle blocked
    1000 c0 idle stopped
";

/// A request's worker, or the reason for its lack and the next step.
fn worker_of(hosts: &str, spans: &str, asked: &str) -> String {
    let made = made(hosts, spans);
    let (joined, which) = (made.joined(), made.request(asked));
    let answer = request(&joined, which, Algorithm::default());
    assert_eq!(worker(&joined, which).err(), answer.path.as_ref().err().copied(), "{spans}");
    match &answer.path {
        Ok(path) => {
            assert!(path.answer.path.tiles_window(), "{spans}");
            let window = path.answer.path.window;
            let times = (window.from.into(), window.to.into());
            assert_eq!((answer.from, answer.to), times, "{spans}");
            let goroutine = path.goroutine.as_ref().map(|one| format!(" goroutine {}", one.number));
            format!("{}{}", made.name(window.thread), goroutine.unwrap_or_default())
        }
        Err(why) => {
            let next = match answer.next {
                Next::Part(part) => format!("part {}", made.root(part)),
                next => format!("{next:?}"),
            };
            format!("{why:?}, {next}")
        }
    }
}

#[test]
fn a_request_without_a_path_has_the_first_reason_and_the_next_step_that_fits() {
    for (spans, expected) in [
        ("service s host=web3\na/a 1000100..1000900 tid=10", "a"),
        // All of the recorded time, and 1 ns more at either end.
        ("service s host=web3\na/a 1000000..1001000 tid=10", "a"),
        ("service s host=web3\na/a 1000100..1001001 tid=10", "Outside, Times"),
        ("service s host=web3\na/a 999999..1000900 tid=10", "Outside, Times"),
        ("service s host=web3\na/a 1000100..1000100 tid=10", "Empty, RecordAll"),
        ("service s host=mail7\na/a 1000100..1000900 tid=10", "OtherHost, RecordHost"),
        ("service s host=mail7\na/a 1000100..1009900 tid=10", "OtherHost, RecordHost"),
        ("service s host=web3\na/a 1000100..1000900", "NoThread, Thread"),
        ("service s host=web3 pid=11 language=go\na/a 1000100..1000900", "NoGoroutines, RecordGoroutines"),
        ("service s host=web3 language=go\na/a 1000100..1000900 tid=10", "a"),
        ("service s host=web3 language=go\ne/e 1000110..1000890", "g goroutine 7"),
        ("service s host=web3\na/a 1000100..1000900 tid=99", "NotRecorded(99), RecordAll"),
        // The process may be asked instead, if the first host has it.
        ("service s host=web3 pid=11\na/a 1000100..1000900", "NoThread, Process(11)"),
        ("service s host=web3 pid=11\na/a 1000100..1000900 tid=99", "NotRecorded(99), Process(11)"),
        ("service s host=web3 pid=99\na/a 1000100..1000900", "NoThread, Thread"),
        ("service s host=web3 pid=99\na/a 1000100..1000900 tid=98", "NotRecorded(98), RecordAll"),
        ("service s host=db1 pid=11\na/a 9000100..9000900", "NoThread, Thread"),
        ("service s host=db1 pid=10\na/a 9000100..9000900", "NoThread, Thread"),
        ("service s host=db1\na/a 9000100..9000900 tid=10", "d"),
        // A thread with this number is on the other host alone.
        ("service s host=db1\na/a 9000100..9000900 tid=11", "NotRecorded(11), RecordAll"),
        // The context and the goroutine say more than no thread number.
        ("service s host=web3\nc/c 1000100..1000890", "c"),
        ("service s host=web3\ne/e 1000110..1000890", "g goroutine 7"),
        ("service s host=web3\ne/e 1000110..1001890", "Outside, Times"),
    ] {
        let asked = spans.lines().nth(1).and_then(|line| line.split(' ').next()).expect("ids");
        assert_eq!(worker_of(HOSTS, spans, asked), expected, "{spans}");
    }
}

#[test]
fn a_request_without_a_path_leads_to_the_part_with_most_of_its_time_if_that_parts_thread_is_known() {
    for (part, expected) in [
        ("a/b < a 1000110..1000890 server tid=11", "part a/b"),
        ("a/b < a 1000110..1000890 server tid=99", "Thread"),
        ("a/b < a 1000110..1000890 server", "Thread"),
        // Its own work is the largest part.
        ("a/b < a 1000110..1000300 server tid=11", "Thread"),
    ] {
        let spans = format!("service s host=web3\na/a 1000100..1000900\nservice t host=web3\n{part}");
        assert_eq!(worker_of(HOSTS, &spans, "a/a"), format!("NoThread, {expected}"), "{part}");
    }
    // A span of the same service is no part.
    let own = "service s host=web3\na/a 1000100..1000900\na/b < a 1000110..1000890 tid=11";
    assert_eq!(worker_of(HOSTS, own, "a/a"), "NoThread, Thread");
    // The part's thread is known by its context, or by its connection.
    let by_context =
        "service s host=web3\nc/a 1000050..1000950\nservice t host=web3\nc/c < a 1000100..1000900 server";
    assert_eq!(worker_of(HOSTS, by_context, "c/a"), "NoThread, part c/c");
    let server = "
        host web3 realtime=0
        flow ask 127.0.0.1:40001 > 127.0.0.1:8080
        flow say 127.0.0.1:8080 > 127.0.0.1:40001
        thread one tid=10
        0 c0 idle started
        0 c0 idle switch one
        500000 c0 one/net_rx in ask seq=1 len=9
        6100000 c0 one out say seq=1 len=9
        7000000 c0 one switch idle blocked call=35:0
        8000000 c0 idle stopped";
    let by_connection = "service s\na/a 400000..6500000\nservice t\na/b < a 600000..6000000 server";
    assert_eq!(worker_of(server, by_connection, "a/a"), "NoThread, part a/b");
    assert_eq!(worker_of(server, by_connection, "a/b"), "one");
}

#[test]
fn a_list_of_requests_has_their_hosts_their_times_and_the_ways_to_know_their_threads() {
    let spans = "service s host=web3
        a/a 1000100..1000900 tid=10
        b/b 1000200..1000900
        c/c 1000100..1000890
        e/e 1000110..1000890
        service t host=db1
        d/d 9000300..9000950 tid=10
        service u host=mail7
        f/f 1000400..1000500 tid=10";
    let made = made(HOSTS, spans);
    let query = RequestsQuery::default();
    let answer = requests(&made.recorded, &made.traced, &query).expect("requests");
    let row = |request: &RequestIndex| {
        let (from, to) = answer.times(*request);
        let host = answer.host(*request).map_or("-".into(), |HostIndex(host)| host.to_string());
        let by = answer.joined_by(*request).name();
        format!("{} {}..{} {host} {by}", made.root(*request), from.stamp().ns(), to.stamp().ns())
    };
    let rows: Vec<_> = answer.requests.iter().map(row).collect();
    assert_eq!(
        rows,
        [
            "a/a 100..900 0 thread",
            "c/c 100..890 0 context",
            "e/e 110..890 0 goroutine",
            "b/b 200..900 0 none",
            "d/d 300..950 1 thread",
            "f/f 400..500 - thread"
        ]
    );
}

#[test]
fn requests_are_outside_if_the_recording_has_no_moment_of_them() {
    // Recorded from 100 to 1000.
    let hosts = "
        host web3
        thread a tid=10
        100 c0 idle clocks 1000100
        100 c0 idle started
        100 c0 idle switch a
        900 c0 a switch idle blocked
        1000 c0 idle stopped";
    for (times, is_out) in [
        ("1000020..1000099", true),
        ("1000020..1000100", false),
        ("1000020..1002000", false),
        ("1000200..1000300", false),
        ("1001000..1002000", false),
        ("1001001..1002000", true),
    ] {
        let made = made(hosts, &format!("service s\na/a {times} tid=10"));
        assert_eq!((made.recorded.from().ns(), made.recorded.to().ns()), (100, 1000));
        let answer = requests(&made.recorded, &made.traced, &RequestsQuery::default()).expect("one");
        assert_eq!(answer.outside, u64::from(is_out), "{times}");
        let one = request(&made.joined(), made.request("a/a"), Algorithm::default());
        assert_eq!(one.is_outside, is_out, "{times}");
    }
}

#[test]
fn requests_without_a_recorded_moment_are_ranked_last() {
    let hosts = "
        host web3
        100 c0 idle clocks 1000100
        100 c0 idle started
        1000 c0 idle stopped";
    let spans = "service s
        a/a 1000000..1000090
        b/b 1000200..1000260
        c/c 1001100..1001180
        d/d 1000300..1000370";
    let made = made(hosts, spans);
    let answer = requests(&made.recorded, &made.traced, &RequestsQuery::default()).expect("requests");
    let ranked: Vec<_> = answer.requests.iter().map(|request| made.root(*request)).collect();
    assert_eq!((ranked, answer.outside), (vec!["d/d", "b/b", "a/a", "c/c"], 2));
}

#[test]
fn spans_from_before_the_recordings_clock_have_their_own_lengths_there() {
    // The clock's 0 is 1000000 on the realtime clock.
    let hosts = "
        host web3 realtime=1000000
        thread a tid=10
        0 c0 idle started
        0 c0 idle switch a
        900 c0 a switch idle blocked
        1000 c0 idle stopped";
    for (times, expected) in [
        ("999200..999900", "-800..-100: a/a 700"),
        ("999200..1000000", "-800..0: a/a 800"),
        ("999200..1000300", "-800..300: a/a 1100"),
        ("1000000..1000300", "0..300: a/a 300"),
        ("1000001..1000300", "1..300: a/a 299"),
        // Each part before the clock began keeps its length.
        ("999200..999900\na/b < a 999300..999500", "-800..-100: a/a 100, a/b 200, a/a 400"),
        ("999200..1000300\na/b < a 999300..999500", "-800..300: a/a 100, a/b 200, a/a 800"),
        ("999200..1000300\na/b < a 999300..1000100", "-800..300: a/a 100, a/b 800, a/a 200"),
        ("1000100..1000300\na/b < a 1000200..1000250", "100..300: a/a 100, a/b 50, a/a 50"),
    ] {
        let made = made(hosts, &format!("service s\na/a {times}"));
        let answer = request(&made.joined(), made.request("a/a"), Algorithm::default());
        let since = |time: SpanTime| time.since_origin(Stamp::from_ns(0));
        let mut until = answer.from;
        let parts = answer.by_span.iter().map(|part| {
            assert_eq!(part.from, until, "{times}: the parts tile it");
            until = part.to;
            format!("{} {}", made.ids(part.span), part.to.since(part.from))
        });
        let parts: Vec<_> = parts.collect();
        assert_eq!(until, answer.to, "{times}: the parts tile it");
        let found = format!("{}..{}: {}", since(answer.from), since(answer.to), parts.join(", "));
        assert_eq!(found, expected, "{times}");
        let own: u64 = answer.own.iter().map(|own| own.total_ns).sum();
        assert_eq!(own, answer.to.since(answer.from), "{times}: the operations' own times add up to it");
    }
}

#[test]
fn a_span_of_a_slow_clock_that_begins_with_the_recordings_clock_begins_at_its_0() {
    // 400 ns on the realtime clock are 1000 ns on the recording's.
    let hosts = "
        host web3 realtime=1000000
        thread a tid=10
        0 c0 idle started
        0 c0 idle switch a
        900 c0 a switch idle blocked
        1000 c0 idle clocks 1000400
        1000 c0 idle stopped";
    for (times, expected) in
        [("1000000..1000200", (0, 500)), ("1000004..1000200", (10, 500)), ("999900..1000200", (0, 500))]
    {
        let made = made(hosts, &format!("service s\na/a {times}"));
        let answer = request(&made.joined(), made.request("a/a"), Algorithm::default());
        let since = |time: SpanTime| time.since_origin(Stamp::from_ns(0));
        assert_eq!((since(answer.from), since(answer.to)), expected, "{times}");
    }
}

#[test]
fn a_part_on_another_host_has_the_clock_there() {
    for (ahead, expected) in [
        (0, "a/a 150, a/b on 1 100, a/a 550"),
        (50, "a/a 150, a/b on 1 50, a/a 600"),
        // By this clock the part was over before it was called.
        (150, "a/a 150, a/a 650"),
    ] {
        let hosts = HOSTS.replace("realtime=9000000", &format!("realtime={}", 1_000_000 + ahead));
        let spans = "service s host=web3\na/a 1000100..1000900\nservice t host=db1\na/b < a 1000250..1000350";
        let made = made(&hosts, spans);
        let answer = request(&made.joined(), made.request("a/a"), Algorithm::default());
        let mut until = answer.from;
        let parts = answer.by_span.iter().map(|part| {
            assert_eq!(part.from, until, "{ahead}: the parts tile it");
            until = part.to;
            let host = part.host.filter(|host| host.0 > 0).map(|host| format!(" on {}", host.0));
            format!("{}{} {}", made.ids(part.span), host.unwrap_or_default(), part.to.since(part.from))
        });
        let parts: Vec<_> = parts.collect();
        assert_eq!(parts.join(", "), expected, "{ahead}");
        assert_eq!(until, answer.to, "{ahead}: the parts tile it");
    }
}
