//! Calls by goroutines.

use wakepath_goroutines::{Callee, Calls, GoroutineIndex};

use crate::testing::{Made, at, made};

/// `a`'s goroutines 6, 7 and 8 begin spans; 9 reads connections. Goroutine 5 in `b`, another process, begins the called request. `loop` is
/// an event loop, `worker` a thread.
const HOSTS: &str = "
    host web3 realtime=1000000
    thread a tid=10
    thread b tid=20
    thread worker tid=30
    thread loop tid=40
    0 c0 idle started
    0 c0 idle switch a
    0 c1 idle switch b
    0 c2 idle switch worker
    0 c3 idle switch loop
    50 c0 a go 7 runs
    100 c0 a go 7 begins a/a
    110 c0 a go 7 begins a/c
    115 c0 a go 7 parks 1
    116 c0 a go 8 runs
    117 c0 a go 8 begins b/b
    118 c0 a go 8 parks 1
    119 c0 a go 6 runs
    120 c0 a go 6 begins a/b
    121 c0 a go 6 parks 1
    122 c0 a go 9 runs
    150 c1 b go 5 runs
    160 c1 b go 5 begins a/d
    180 c3 loop switch idle blocked call=232:0x3
    200 c3 idle/timer waking loop
    200 c3 idle switch loop
    800 c0 a switch idle blocked
    800 c1 b switch idle blocked
    800 c2 worker switch idle blocked
    800 c3 loop switch idle blocked
    1000 c0 idle stopped
";

/// `a/a` calls from 110 to 700; `b/b` is another request in the same process.
const CALLER: &str = "service s pid=10
    a/a 1000100..1000750 server
    a/c < a 1000110..1000700 client
    a/b < a 1000120..1000700
    b/b 1000117..1000750 server
";

fn numbered(made: &Made, number: u64) -> GoroutineIndex {
    let joined = made.joined();
    let mut all = joined.goroutines.all.iter();
    all.find(|(_, one)| one.number == number).expect("a goroutine").0
}

/// The called request's worker and times, as goroutine 7 waits between these times.
fn called(called: &str, reader: Option<u64>, from: u64, to: u64) -> Option<String> {
    let made = made(HOSTS, &format!("{CALLER}{called}"));
    let joined = made.joined();
    let reader = reader.map(|number| numbered(&made, number));
    let call = joined.call(numbered(&made, 7), reader, at(from), at(to))?;
    let callee = match call.callee {
        Callee::Goroutine(index) => format!("goroutine {}", joined.goroutines.all.get(index).number),
        Callee::Thread(thread) => made.name(thread),
        Callee::Unknown => String::from("unknown"),
    };
    Some(format!("{callee} {}..{}", call.from.ns(), call.to.ns()))
}

const IN_GO: &str = "service t pid=20\na/d < c 1000160..1000600 server";

#[test]
fn a_goroutine_waits_for_the_request_that_its_clients_span_made() {
    let expected = Some(String::from("goroutine 5 160..600"));
    assert_eq!(called(IN_GO, None, 115, 650), expected);
    assert_eq!(called(IN_GO, Some(9), 110, 700), expected, "a reader that works for none");
    // Before the call, and after it.
    assert_eq!(called(IN_GO, Some(9), 109, 650), None);
    assert_eq!(called(IN_GO, Some(9), 115, 701), None);
    // No called request, or two.
    assert_eq!(called("", Some(9), 115, 650), None);
    assert_eq!(called(&format!("{IN_GO}\na/e < c 1000200..1000300 server"), Some(9), 115, 650), None);
}

#[test]
fn a_goroutine_that_works_for_another_request_has_not_read_the_answer() {
    assert_eq!(called(IN_GO, Some(8), 115, 650), None);
    assert!(called(IN_GO, Some(7), 115, 650).is_some());
    // The other request had ended.
    assert!(called(IN_GO, Some(8), 115, 115).is_some());
}

#[test]
fn another_goroutines_call_is_not_its_own() {
    let made = made(HOSTS, &format!("{CALLER}{IN_GO}"));
    assert!(made.joined().call(numbered(&made, 8), None, at(120), at(650)).is_none());
    assert!(made.joined().call(numbered(&made, 9), None, at(120), at(650)).is_none());
    // It works for the same request.
    assert!(made.joined().call(numbered(&made, 6), None, at(125), at(650)).is_none());
}

#[test]
fn a_called_request_has_its_thread_unless_this_is_an_event_loop() {
    let server = |more: &str| format!("service t\na/e < c 1000160..1000600 server {more}");
    let told = |more| called(&server(more), None, 115, 650);
    assert_eq!(told("tid=30"), Some(String::from("worker 160..600")));
    let turns = "tid=40 turns=1000160..1000180,1000200..1000600";
    assert_eq!(told(turns), Some(String::from("unknown 160..600")));
    assert_eq!(told(""), Some(String::from("unknown 160..600")));
}
