//! Services' hosts and clocks: by threads' contexts, by names, by recordings.

use wakepath_clock::{Stamp, Wall};
use wakepath_event::HostIndex;

use super::*;
use crate::testing::{Made, at, made};

/// A thread with number 10 on each of three hosts, with different clocks and realtimes.
const HOSTS: &str = "
    host web3 realtime=1000000
    thread a tid=10
    0 c0 idle started
    5000 c0 idle stopped
    host db1 realtime=5000000 behind=100
    thread b tid=10
    0 c0 idle started
    5000 c0 idle stopped
    host db2 realtime=9000000 behind=200
    thread c tid=10
    0 c0 idle started
    5000 c0 idle stopped
";

/// The host of each service, by its number: `web@0`; `-` for a host without a recording.
fn hosts_of(made: &Made) -> String {
    let places = Places::new(&made.recorded, &made.traced).expect("a time of day");
    let services = made.traced.spans.services.iter().zip(&places.hosts);
    let texts = services.map(|(service, host)| match host {
        Some(host) => format!("{}@{}", service.name, host.0),
        None => format!("{}@-", service.name),
    });
    texts.collect::<Vec<_>>().join(" ")
}

/// [`HOSTS`], with lines behind each start.
fn saying(lines: [&str; 3]) -> String {
    let mut hosts = HOSTS.to_owned();
    for (place, line) in lines.into_iter().enumerate() {
        let starts = hosts.match_indices("started\n").nth(place).expect("a host").0 + "started\n".len();
        hosts.insert_str(starts, &format!("{line}\n"));
    }
    hosts
}

#[test]
fn a_service_is_on_the_host_of_its_name_else_on_that_whose_recording_received_its_spans() {
    let one_name = HOSTS.replace("host db2", "host db1");
    let nameless = HOSTS.replace("host db1", "host -");
    for (hosts, service, expected) in [
        // Nothing is said: the first host.
        (HOSTS, "", "0"),
        (HOSTS, "recording=0", "0"),
        (HOSTS, "recording=2", "2"),
        // A recording that was left out, since no packet links it.
        (HOSTS, "recording=3", "-"),
        (HOSTS, "host=web3", "0"),
        (HOSTS, "host=db2", "2"),
        (HOSTS, "host=DB1.example.com", "1"),
        // The name is better than the recording: a service may send its spans to another host.
        (HOSTS, "host=db1 recording=2", "1"),
        (HOSTS, "host=db7", "-"),
        (HOSTS, "host=db7 recording=1", "-"),
        // Two hosts with the same name: the recording decides, and nothing does without it.
        (&one_name, "host=db1 recording=1", "1"),
        (&one_name, "host=db1 recording=2", "2"),
        (&one_name, "host=db1 recording=0", "-"),
        (&one_name, "host=db1 recording=3", "-"),
        (&one_name, "host=db1", "-"),
        (&one_name, "host=web3", "0"),
        // A host whose recorder knows no name may be meant.
        (&nameless, "host=db7 recording=1", "1"),
        (&nameless, "host=db7 recording=0", "-"),
        (&nameless, "host=db7", "-"),
        (&nameless, "host=db2 recording=1", "2"),
    ] {
        let made = made(hosts, &format!("service s {service}\na/a 1000100..1000200"));
        assert_eq!(hosts_of(&made), format!("s@{expected}"), "{service} among {hosts}");
    }
}

#[test]
fn two_names_are_of_one_host_in_any_case_and_where_one_of_them_has_no_domain() {
    for (one, other, expected) in [
        ("db1", "db1", true),
        ("db1", "DB1", true),
        ("db1", "db1.example.com", true),
        ("db1.example.com", "DB1.Example.com", true),
        ("db1.example.com", "db1.example.org", false),
        ("db1.example.com", "db1.example", false),
        ("db1", "db10", false),
        ("db10.example.com", "db1", false),
        ("db1", "db2", false),
    ] {
        assert_eq!(same_host(one.as_bytes(), other.as_bytes()), expected, "{one} {other}");
        assert_eq!(same_host(other.as_bytes(), one.as_bytes()), expected, "{other} {one}");
    }
}

#[test]
fn the_thread_that_works_for_a_span_proves_the_host_of_its_service_better_than_a_name() {
    let on_third = saying(["", "", "150 c0 c context a/b"]);
    let begun_on_second = saying(["", "150 c0 b go 7 begins a/b", ""]);
    let on_both = saying(["150 c0 a context a/b", "", "150 c0 c context a/b"]);
    let of_other = saying(["", "", "150 c0 c context b/b"]);
    let none = saying(["", "150 c0 b context none", "150 c0 c context unknown"]);
    for (hosts, service, expected) in [
        (&on_third, "host=3f2a9c1b04de", "2"),
        (&on_third, "host=web3", "2"),
        (&on_third, "recording=1", "2"),
        (&begun_on_second, "host=3f2a9c1b04de", "1"),
        // Two processes with the same name are not on the same host.
        (&on_both, "host=db1", "1"),
        (&on_both, "host=3f2a9c1b04de", "-"),
        // Another trace.
        (&of_other, "host=db1", "1"),
        (&none, "host=web3", "0"),
    ] {
        let made = made(hosts, &format!("service s {service}\na/b 1000100..1000200"));
        assert_eq!(hosts_of(&made), format!("s@{expected}"), "{service} among {hosts}");
    }
}

#[test]
fn a_thread_proves_the_host_of_one_of_two_services_with_the_same_ids() {
    let on_first = saying(["150 c0 a context a/a", "", ""]);
    let on_second = saying(["", "150 c0 b context a/a", ""]);
    let on_both = saying(["150 c0 a context a/a", "150 c0 b context a/a", ""]);
    let begun = saying(["150 c0 a go 7 begins a/a", "150 c0 b go 7 begins a/a", ""]);
    let and_own = saying(["150 c0 a context a/a", "150 c0 b context a/a\n160 c0 b context a/c", ""]);
    let own_of_both = saying([
        "150 c0 a context a/b",
        "150 c0 b context a/a\n160 c0 b context a/c",
        "150 c0 c context a/a",
    ]);
    for (hosts, web, db, expected) in [
        // The names say where both are, and the thread belongs to the service there.
        (&on_first, "host=web3", "host=db1", "web@0 db@1"),
        (&on_second, "host=web3", "host=db1", "web@0 db@1"),
        // A container's name: the other service is known to be on another host.
        (&on_second, "host=web3", "host=3f2a", "web@0 db@1"),
        (&on_both, "host=web3", "host=3f2a", "web@0 db@1"),
        (&begun, "host=web3", "host=3f2a", "web@0 db@1"),
        (&on_second, "host=3f2a", "host=web3", "web@1 db@0"),
        // The thread belongs to the service on its host, and says nothing about the other.
        (&on_first, "host=web3", "host=3f2a", "web@0 db@-"),
        // Neither is known: it may be either.
        (&on_first, "host=77aa", "host=3f2a", "web@- db@-"),
        (&on_both, "host=77aa", "host=3f2a", "web@- db@-"),
        // If the spans name processes, the thread belongs to one of them.
        (&on_both, "host=77aa pid=10", "host=3f2a pid=11", "web@- db@-"),
        (&on_first, "host=77aa pid=10", "host=3f2a pid=11", "web@0 db@-"),
        (&on_first, "host=77aa pid=11", "host=3f2a pid=10", "web@- db@0"),
        (&on_first, "host=77aa", "host=3f2a pid=10", "web@- db@0"),
        // The numbers are from containers, and rule nothing out.
        (&on_second, "host=web3 pid=1", "host=3f2a pid=2", "web@0 db@1"),
        // Another span of the service shows its host.
        (&and_own, "host=77aa", "host=3f2a", "web@0 db@1"),
        // It was seen on two hosts, and the other service is known by its own span alone.
        (&own_of_both, "host=77aa", "host=3f2a", "web@0 db@1"),
    ] {
        let spans = format!(
            "service web {web}\na/a 1000100..1000200\na/b 1000100..1000200\nservice db {db}\na/a \
             5000100..5000200\na/c 5000100..5000200"
        );
        assert_eq!(hosts_of(&made(hosts, &spans)), expected, "{web} and {db} among {hosts}");
    }
}

#[test]
fn times_and_threads_of_a_span_are_those_of_its_host() {
    let made = made(
        HOSTS,
        "service web host=web3
         a/a 1000300..1000400 tid=10
         service db host=db1
         a/b 5000300..5000400 tid=10
         a/c 5000300..5000400
         service far host=db7
         a/d 1000300..1000400 tid=10",
    );
    let places = Places::new(&made.recorded, &made.traced).expect("a time of day");
    for (span, host, (from, to), tid) in [
        ("a/a", Some(0), (300, 400), Some(Tid(10))),
        ("a/b", Some(1), (400, 500), Some(Tid(10).on(HostIndex(1)))),
        ("a/c", Some(1), (400, 500), None),
        // By the first host's realtime, and on no thread.
        ("a/d", None, (300, 400), None),
    ] {
        let index = made.span(span);
        let wall = made.traced.spans.span(index).from;
        assert_eq!(places.host(&made.traced, index), host.map(HostIndex), "{span}");
        assert_eq!(places.times(&made.traced, index), (at(from), at(to)), "{span}");
        assert_eq!(places.stamp(&made.traced, index, wall), at(from), "{span}");
        assert_eq!(places.wall(&made.traced, index, at(from)), wall, "{span}");
        assert_eq!(places.wall_within(&made.traced, index, at(from)).0, wall, "{span}");
        assert!(places.wall_within(&made.traced, index, at(from)).1 > 0, "{span}");
        assert_eq!(places.tid(&made.traced, index), tid, "{span}");
    }
}

#[test]
fn a_host_whose_realtime_was_not_read_has_that_of_its_description_and_else_none() {
    // Realtime less the host's own clock, from the description of another tracer's recording.
    let described = HOSTS.replace("db1 realtime=5000000", "db1 offset=5000000");
    let unknown = HOSTS.replace("db1 realtime=5000000", "db1");
    for (hosts, host, from) in [(&*described, Some(1), 400), (&*unknown, None, 4_000_300)] {
        let made = made(hosts, "service db host=db1\na/b 5000300..5000400 tid=10");
        let places = Places::new(&made.recorded, &made.traced).expect("a time of day");
        let span = made.span("a/b");
        assert_eq!(places.host(&made.traced, span), host.map(HostIndex));
        assert_eq!(places.times(&made.traced, span).0, at(from));
        assert_eq!(places.tid(&made.traced, span).is_some(), host.is_some());
    }
    let first = HOSTS.replace("web3 realtime=1000000", "web3");
    let made = made(&first, "service db host=db1\na/b 5000300..5000400");
    assert_eq!(Places::new(&made.recorded, &made.traced), Err(NoTimeOfDay));
}

#[test]
fn the_clock_of_a_host_that_its_description_alone_says_runs_as_that_host_does() {
    let mut made = made(&HOSTS.replace("db1 realtime=5000000", "db1 offset=5000000"), "");
    // 1000 ppm faster than the first host's.
    let line = wakepath_clock::Line::through((0, 100), (1_001, 1_100)).expect("a line");
    made.recorded.clocks[1] = wakepath_clock::Transform::line(line, wakepath_clock::ErrorBound::Within(0));
    let clock = made.recorded.wall_clock_of(HostIndex(1)).expect("a clock");
    let wall = |ns| clock.wall(at(ns)).ns();
    assert_eq!([100, 1_100, 4_100].map(wall), [5_000_000, 5_001_001, 5_004_004]);
    assert_eq!(clock.stamp(Stamp::<Wall>::from_ns(5_001_001)), at(1_100));
}
