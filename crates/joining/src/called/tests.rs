//! The time for which a path waits for called requests.

use wakepath_critical_path::{Path, SegmentKind, Timeouts, Via, Window, active_by};

use crate::testing::{Made, made, scaled};

/// `caller` runs until 200, waits for `callee` (another process) until 800, for `mate` (its own process) until 900, and runs until 1000.
/// `callee` waits for `far` (a third process) between 300 and 600. Times are in units of 1 µs.
const HOSTS: &str = "host web3 realtime=1000000000
    thread caller tid=10
    thread mate tid=11 tgid=10
    thread callee tid=20
    thread far tid=30
    0 c0 idle started
    0 c0 idle switch caller
    0 c1 idle switch callee
    0 c2 idle switch far
    0 c3 idle switch mate
    200 c0 caller switch idle blocked call=45:3
    300 c1 callee switch idle blocked call=45:3
    600 c2 far waking callee
    600 c1 idle switch callee
    800 c1 callee waking caller
    800 c0 idle switch caller
    810 c0 caller switch idle blocked call=202:0x1000
    900 c3 mate waking caller
    900 c0 idle switch caller
    1000 c0 caller switch idle blocked
    1000 c1 callee switch idle blocked
    1000 c2 far switch idle blocked
    1000 c3 mate switch idle blocked
    1100 c0 idle stopped";

fn wall(at: u64) -> u64 {
    1_000_000_000 + at * 1000
}

/// A span from and to these times.
fn span(ids: &str, (from, to): (u64, u64), more: &str) -> String {
    format!("{ids} {}..{} {more}\n", wall(from), wall(to))
}

fn machine(spans: &str) -> Made {
    let own = span("a/a", (0, 1000), "server tid=10");
    made(&scaled(1000, HOSTS), &format!("service s pid=10\n{own}{spans}"))
}

/// The called requests on `a/a`'s path: each with its depth, caller and time in µs.
fn told(spans: &str) -> String {
    told_with(spans, |_| {})
}

/// The same on a changed path.
fn told_with(spans: &str, change: impl Fn(&mut Path)) -> String {
    let made = machine(spans);
    let (joined, request) = (made.joined(), made.request("a/a"));
    let (from, to) = joined.times(request);
    let window = Window { thread: made.thread("caller"), from, to };
    let mut path = active_by(&joined.recorded.graph, window, Timeouts::AsTheyAre);
    change(&mut path);
    let called = joined.called(request, &path).into_iter().map(|one| {
        let caller = made.root(one.caller);
        format!("{} by {caller} depth {} {}; ", made.root(one.request), one.depth, one.total_ns / 1000)
    });
    called.collect()
}

fn call(from: u64, to: u64) -> String {
    span("a/c < a", (from, to), "client tid=10")
}

fn server(ids: &str, times: (u64, u64), service: &str, more: &str) -> String {
    format!("service {service}\n{}", span(ids, times, &format!("server {more}")))
}

#[test]
fn the_time_in_a_called_request_counts_while_its_process_is_awaited() {
    let called = |times, more: &str| told(&(call(150, 850) + &server("a/d < c", times, "t", more)));
    assert_eq!(called((250, 780), "tid=20"), "a/d by a/a depth 0 530; ");
    // Only as long as the caller waits, and the called request goes on.
    assert_eq!(called((100, 1000), "tid=20"), "a/d by a/a depth 0 600; ");
    // A thread in its own process did not work for it.
    assert_eq!(called((250, 780), "tid=11"), "");
    // Without a client's span around it.
    let bare = server("a/d < a", (250, 780), "t", "tid=20");
    assert_eq!(told(&bare), "a/d by a/a depth 0 530; ");
    // The client's span is open for a part only.
    let part = call(150, 500) + &server("a/d < c", (250, 780), "t", "tid=20");
    assert_eq!(told(&part), "a/d by a/a depth 0 250; ");
}

#[test]
fn a_process_is_known_by_its_number_too() {
    let called = |service: &str| told(&(call(150, 850) + &server("a/d < c", (250, 780), service, "")));
    assert_eq!(called("t pid=20"), "a/d by a/a depth 0 530; ");
    assert_eq!(called("t pid=30"), "a/d by a/a depth 0 300; ", "the third process stands in the path too");
    assert_eq!(called("t pid=99"), "");
    // Nothing says the process, and no packet ended the wait.
    assert_eq!(called("t"), "");
}

#[test]
fn a_called_request_that_calls_on_stands_before_the_one_that_it_called() {
    let spans = call(150, 850)
        + &server("a/d < c", (250, 780), "t", "tid=20")
        + &span("a/e < d", (290, 620), "client tid=20")
        + &server("a/f < e", (310, 590), "u", "tid=30");
    assert_eq!(told(&spans), "a/d by a/a depth 0 530; a/f by a/d depth 1 280; ");
}

#[test]
fn the_longest_called_request_comes_first() {
    let spans = call(150, 850)
        + &server("a/d < c", (250, 400), "t", "tid=20")
        + &server("a/f < c", (400, 780), "t", "tid=20");
    assert_eq!(told(&spans), "a/f by a/a depth 0 380; a/d by a/a depth 0 150; ");
}

#[test]
fn a_service_that_calls_itself_counts_where_a_thread_works_for_the_called_request() {
    let called = |more: &str| {
        told(
            &(span("a/c < a", (805, 950), "client tid=10")
                + &span("a/d < c", (805, 950), &format!("server {more}"))),
        )
    };
    assert_eq!(called("tid=11"), "a/d by a/a depth 0 90; ");
    assert_eq!(called(""), "");
}

#[test]
fn the_network_counts_in_a_wait_that_a_packet_ended_and_in_the_requests_own_time() {
    // `mate`'s time, from 810 to 900, becomes a wait for the network.
    let spans = span("a/c < a", (805, 950), "client tid=10") + &server("a/d < c", (805, 950), "t", "tid=20");
    let told = |via, is_own: bool| {
        told_with(&spans, |path| {
            for segment in path.segments.iter_mut().filter(|segment| segment.from.ns() >= 810_000) {
                segment.kind = SegmentKind::Network;
                segment.parent = segment.parent.filter(|_| !is_own);
            }
            path.waits.iter_mut().for_each(|wait| wait.via = via);
        })
    };
    assert_eq!(told(Via::Packet, false), "a/d by a/a depth 0 140; ");
    assert_eq!(told(Via::Wakeup, true), "a/d by a/a depth 0 140; ");
    // Below another wait, the network may be anything's; its own time behind 900 stays.
    assert_eq!(told(Via::Wakeup, false), "a/d by a/a depth 0 50; ");
}

#[test]
fn a_process_number_is_its_hosts() {
    let far = "host db1 realtime=1000000000
        thread stranger tid=20
        0 c0 idle started
        0 c0 idle switch stranger
        1000 c0 stranger switch idle blocked
        1100 c0 idle stopped";
    let spans = |host: &str| {
        let own = span("a/a", (0, 1000), "server tid=10");
        let called = server("a/d < c", (250, 780), &format!("t pid=20 host={host}"), "");
        format!("service s pid=10 host=web3\n{own}{}{called}", call(150, 850))
    };
    for (host, expected) in [("web3", &[530_000][..]), ("db1", &[])] {
        let made = made(&scaled(1000, &format!("{HOSTS}\n{far}")), &spans(host));
        let (joined, request) = (made.joined(), made.request("a/a"));
        let (from, to) = joined.times(request);
        let window = Window { thread: made.thread("caller"), from, to };
        let path = active_by(&joined.recorded.graph, window, Timeouts::AsTheyAre);
        let called = joined.called(request, &path);
        assert_eq!(called.iter().map(|one| one.total_ns).collect::<Vec<_>>(), expected, "{host}");
    }
}
