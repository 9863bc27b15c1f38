//! Services' processes, and the data that threads and processes publish.

use wakepath_event::{EventKind, NameSpace, ThreadAttribute, ThreadContext};
use wakepath_loaded::testing::{event, read, thread};

use super::*;
use crate::testing::{Made, at, made};

/// A server with two workers, forked by it, in a container, and another process.
const HOST: &str = "
    host web3 realtime=1000000
    thread server tid=70 parent=40
    thread worker tid=71 parent=70
    thread helper tid=75 tgid=71 parent=70
    thread other tid=80 parent=40
    0 c0 idle started
    900 c0 idle stopped
";

#[test]
fn the_line_of_a_process_is_its_number_and_those_above_it() {
    let made = made(HOST, "");
    let line = |name: &str| line(&made.recorded, made.thread(name), at(100));
    assert_eq!(line("helper"), [71, 70, 40]);
    assert_eq!(line("server"), [70, 40]);
    assert_eq!(line("other"), [80, 40]);
    // The kernel's first process has none above it.
    let first = crate::testing::made("host w realtime=0\nthread init tid=1 parent=0\n0 c0 idle started", "");
    assert_eq!(super::line(&first.recorded, first.thread("init"), at(0)), [1]);
    let circle =
        crate::testing::made("host w realtime=0\nthread a tid=8 parent=9\nthread b tid=9 parent=8", "");
    let found = super::line(&circle.recorded, circle.thread("a"), at(0));
    assert_eq!((found.len(), &found[..3]), (64, &[8, 9, 8][..]));
}

/// The thread named by a span.
fn named(made: &Made, asked: &str) -> String {
    let joined = made.joined();
    let thread = joined.places.thread(&made.recorded, &made.traced, made.span(asked));
    thread.map_or("-".into(), |thread| made.name(thread))
}

#[test]
fn the_thread_that_a_span_names_is_one_of_its_host_and_its_process() {
    let both = format!("{HOST}{}", HOST.replace("web3", "db1").replace("thread ", "thread d"));
    for (hosts, service, tid, expected) in [
        (HOST, "", 71, "worker"),
        (HOST, "", 99, "-"),
        (HOST, "pid=71", 75, "helper"),
        // The server may have forked it; another process did not.
        (HOST, "pid=70", 75, "helper"),
        (HOST, "pid=80", 75, "-"),
        (HOST, "pid=71", 70, "-"),
        // A container's first process.
        (HOST, "pid=1", 75, "-"),
        (HOST, "host=db7", 71, "-"),
        (&both, "host=web3", 71, "worker"),
        (&both, "host=db1", 71, "dworker"),
    ] {
        let made = made(hosts, &format!("service s {service}\na/a 1000100..1000200 tid={tid}"));
        assert_eq!(named(&made, "a/a"), expected, "{service} {tid}");
    }
    let reused = "
        host web3 realtime=1000000
        thread first tid=10
        0 c0 idle started
        0 c0 idle switch first
        300 c0 first exit
        310 c0 first switch idle dead
        500 c1 idle fork second tid=10
        900 c0 idle stopped
    ";
    for (time, expected) in
        [("1000100..1000200", "first"), ("1000600..1000700", "second"), ("1000290..1000600", "second")]
    {
        let made = made(reused, &format!("service s\na/a {time} tid=10"));
        assert_eq!(named(&made, "a/a"), expected, "{time}");
    }
}

#[test]
fn a_thread_number_is_that_of_the_programs_own_pid_namespace() {
    // Two containers, each with a program as process 1, which has a worker; and `clock`, with a number that a container has too.
    let host = "
        host web3 realtime=1000000
        thread init tid=1 parent=0
        thread shim tid=50 parent=1
        thread one tid=100 parent=50 ns=1/1
        thread reader tid=101 tgid=100 ns=9/1
        thread worker tid=120 parent=100 ns=20/20
        thread pooled tid=121 tgid=120 ns=21/20
        thread two tid=200 parent=1 ns=1/1
        thread writer tid=201 tgid=200 ns=12/1
        thread second tid=202 tgid=200 ns=9/1
        thread clock tid=21 parent=1
        thread odd tid=300 parent=1 ns=120/120
        thread gone tid=401 tgid=200 ns=31/1
        thread kept tid=402 tgid=200 ns=31/1
        0 c0 idle started
        10 c0 idle switch gone
        20 c0 gone exit
        30 c0 gone switch idle dead
        900 c0 idle stopped
    ";
    for (service, tid, expected) in [
        ("pid=1", 12, "writer"),
        // Both containers have it.
        ("pid=1", 9, "-"),
        ("pid=1", 77, "-"),
        // A worker forked by the container's first program, which set tracing up, or which did so itself.
        ("pid=1", 21, "pooled"),
        ("pid=20", 21, "pooled"),
        ("pid=20", 12, "-"),
        // No process above a container is one in it.
        ("pid=50", 9, "-"),
        // The number's last bearer had ended.
        ("pid=1", 31, "kept"),
        // Outside, the program has its own number, whatever a container has.
        ("pid=120", 120, "worker"),
        ("pid=120", 121, "pooled"),
        ("pid=21", 21, "clock"),
        // Without a process, a number that two threads have is no thread's.
        ("", 21, "-"),
        ("", 12, "writer"),
        ("", 121, "pooled"),
    ] {
        let made = made(host, &format!("service s {service}\na/a 1000100..1000200 tid={tid}"));
        assert_eq!(named(&made, "a/a"), expected, "{service} {tid}");
    }
}

#[test]
fn a_thread_in_a_known_process_is_found_by_the_processs_own_numbers() {
    let host = "
        host web3 realtime=1000000
        thread one tid=100 ns=1/1
        thread reader tid=101 tgid=100 ns=9/1
        thread writer tid=109 tgid=100 ns=101/1
        thread two tid=200 ns=1/1
        thread second tid=202 tgid=200 ns=9/1
        thread plain tid=9
        thread helper tid=12 tgid=9
        0 c0 idle started
        10 c0 idle switch helper
        20 c0 helper exit
        30 c0 helper switch idle dead
        900 c0 idle stopped
    ";
    let made = made(host, "service s\na/a 1000100..1000200 tid=1");
    let joined = made.joined();
    let found = |process: &str, tid: u32, from: u64| {
        let process = made.recorded.graph.thread(made.thread(process)).tgid().expect("a process");
        let thread = joined.places.in_process(&made.recorded, process, tid, (at(from), at(from + 50)));
        thread.map_or("-".into(), |thread| made.name(thread))
    };
    assert_eq!(
        [found("one", 9, 100), found("two", 9, 100), found("plain", 9, 100)],
        ["reader", "second", "plain"]
    );
    // `reader` has this number outside alone.
    assert_eq!(
        [found("one", 101, 100), found("two", 101, 100), found("one", 109, 100)],
        ["writer", "-", "-"]
    );
    assert_eq!([found("plain", 12, 25), found("plain", 12, 100)], ["helper", "-"]);
}

#[test]
fn the_processes_of_a_service_are_those_that_said_its_spans_and_fit_its_number() {
    let made = |pid: &str| made(HOST, &format!("service s {pid}\na/a 1000100..1000200"));
    for (pid, expected) in [
        ("pid=70", [true, true, false]),
        ("pid=71", [false, true, false]),
        ("pid=80", [false, false, true]),
        // A number from another namespace, and none.
        ("pid=7", [true, true, true]),
        ("", [true, true, true]),
    ] {
        let made = made(pid);
        let by_id = ById::new(&made.traced.spans);
        let span = made.traced.spans.span(made.span("a/a"));
        let said =
            ["server", "worker", "other"].map(|name| (made.thread(name), at(100), span.trace, span.id));
        let processes = Processes::new(&made.recorded, &made.traced.spans, &by_id, said.into_iter());
        let may_be = [70, 71, 80].map(|pid| processes.may_be(Some(Tid(pid)), span.service));
        assert_eq!(may_be, expected, "{pid}");
        assert!(processes.may_be(None, span.service), "a thread whose process is not known");
    }
}

#[test]
fn a_process_says_its_service_and_a_thread_its_attributes_of_which_some_are_cut() {
    let long = "x".repeat(60);
    let text = format!(
        "host web3 realtime=1000000
        thread a tid=10
        0 c0 idle started
        0 c0 idle switch a
        100 c0 a context a/a
        100 c0 a attribute 1 GET
        100 c0 a attribute 2 {long}
        100 c0 a attribute 3 unnamed
        200 c0 a switch idle blocked
        900 c0 idle stopped"
    );
    let mut made = made(&text, "");
    let names = [
        (NameSpace::Service, 10, "shop"),
        (NameSpace::ServiceInstance, 10, "i-1"),
        (NameSpace::ThreadAttribute, 10 << 8 | 1, "http.method"),
        (NameSpace::ThreadAttribute, 10 << 8 | 2, "http.route"),
    ];
    for (space, key, name) in names {
        made.recorded.survey.observe(&event(0, 0, 0, EventKind::Name(space, key, name.as_bytes().into())));
    }
    let thread = made.thread("a");
    let said = service(&made.recorded, thread, at(100)).expect("a service");
    assert_eq!((said.name, said.instance), ("shop".into(), Some("i-1".into())));
    let attributes = |trace| attributes(&made.recorded, thread, TraceId([trace; 16]), at(150));
    let found: Vec<_> =
        attributes(0xaa).into_iter().map(|one| (one.name, one.value.bytes().len(), one.is_cut)).collect();
    let cut = wakepath_event::MAX_ATTRIBUTE_BYTES;
    assert_eq!(found, [("http.method".into(), 3, false), ("http.route".into(), cut.min(60), cut < 60)]);
    assert!(attributes(0xbb).is_empty(), "of another trace");
}

/// A value with `length` bytes in its thread's memory, recorded as `value`.
fn attribute(key: u8, length: u8, value: &str) -> EventKind {
    EventKind::ThreadAttribute(ThreadAttribute { key, length, value: value.as_bytes().into() })
}

fn name(key: u64, name: &str) -> EventKind {
    EventKind::Name(NameSpace::ThreadAttribute, 10 << 8 | key, name.as_bytes().into())
}

#[test]
fn the_attributes_of_a_thread_are_those_of_its_reading_and_a_value_that_is_longer_is_cut() {
    let context =
        |id| EventKind::ThreadContext(ThreadContext::Span { trace: [id; 16], span: [id; 8], flags: 1 });
    let of_thread = |at, kind| event(at, 0, 11, kind);
    let recorded = read(&[
        event(0, 0, 0, thread(10, 10, 1, "shop")),
        event(0, 0, 0, thread(11, 10, 1, "worker")),
        event(5, 0, 0, name(0, "http.route")),
        event(5, 0, 0, name(1, "http.request.method")),
        event(5, 0, 0, name(2, "db.system")),
        of_thread(100, context(1)),
        of_thread(100, attribute(0, 6, "/cart")),
        of_thread(100, attribute(1, 3, "GET")),
        of_thread(100, attribute(9, 3, "abc")),
        of_thread(200, context(2)),
        of_thread(200, attribute(2, 200, "")),
        of_thread(200, attribute(1, 0, "")),
        // The names from another program in the process.
        event(300, 0, 0, name(0, "rpc.method")),
        of_thread(300, context(1)),
        of_thread(300, attribute(0, 5, "/late")),
    ]);
    let worker = recorded.with_tid(Tid(11))[0];
    let of = |trace: u8, at: u64| {
        let all = attributes(&recorded, worker, TraceId([trace; 16]), Stamp::from_ns(at));
        let text = |name: &Name| String::from_utf8_lossy(name.bytes()).into_owned();
        let told = |one: SaidAttribute| {
            format!("{} {}{}", text(&one.name), text(&one.value), if one.is_cut { "…" } else { "" })
        };
        all.into_iter().map(told).collect::<Vec<_>>()
    };
    // Without a name a value's meaning is not known.
    let first = ["http.route /cart…", "http.request.method GET"];
    assert_eq!([of(1, 100), of(1, 199)], [first, first]);
    let second = ["http.request.method ", "db.system …"];
    assert_eq!([of(2, 200), of(2, 299), of(2, 150)], [second, second, second]);
    assert_eq!(of(1, 300), ["rpc.method /late"]);
    assert_eq!(of(3, 150), [""; 0]);
}
