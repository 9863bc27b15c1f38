//! The goroutines in which spans began.

use crate::JoinedBy;
use crate::testing::made;

/// Two processes, the second forked by the first. Each began a span with the same ids in a goroutine; and the same
/// numbers occur on another host.
const HOSTS: &str = "
    host web3 realtime=1000000
    thread a tid=10
    thread b tid=11 parent=10
    0 c0 idle started
    0 c0 idle switch a
    0 c1 idle switch b
    50 c0 a go 7 runs
    60 c1 b go 9 runs
    100 c0 a go 7 begins a/a
    100 c1 b go 9 begins b/b
    110 c0 a go 7 begins c/c
    110 c1 b go 9 begins c/c
    800 c0 a switch idle blocked
    800 c1 b switch idle blocked
    1000 c0 idle stopped
    host db1 realtime=9000000
    thread d tid=10
    0 c0 idle started
    0 c0 idle switch d
    50 c0 d go 5 runs
    105 c0 d go 5 begins a/a
    800 c0 d switch idle blocked
    1000 c0 idle stopped
";

#[test]
fn a_span_began_in_the_goroutine_of_its_host_and_of_the_process_that_its_service_names() {
    for (service, span, expected) in [
        // The other host's goroutine began a span with the same ids.
        ("host=web3", "a/a 1000100..1000700", Some(7)),
        ("host=db1", "a/a 9000100..9000700", Some(5)),
        ("host=web3", "b/b 1000100..1000700", Some(9)),
        ("host=web3", "d/d 1000100..1000700", None),
        // Two processes gave the same ids: the process number decides, if the service has it.
        ("host=web3", "c/c 1000110..1000700", None),
        ("host=web3 pid=11", "c/c 1000110..1000700", Some(9)),
        // The other process was forked by this process, and might send under its number too.
        ("host=web3 pid=10", "c/c 1000110..1000700", Some(7)),
        ("host=web3 pid=77", "c/c 1000110..1000700", None),
        // A span ruled out by the number, where another process of the service was seen.
        ("host=web3 pid=11", "a/a 1000100..1000700\nc/c 1000110..1000700", None),
    ] {
        let made = made(HOSTS, &format!("service s {service}\n{span}"));
        let joined = made.joined();
        let ids = span.split(' ').next().expect("ids");
        let request = made.request(ids);
        let goroutine = joined.goroutines.by_request(&made.traced, request);
        let number = goroutine.map(|goroutine| joined.goroutines.all.get(goroutine).number);
        assert_eq!(number, expected, "{service} {span}");
        assert_eq!(goroutine.is_some(), joined.joined_by(request) == JoinedBy::Goroutine);
    }
}
