//! The spans in threads' contexts: their requests, and their processes' clocks.

use crate::JoinedBy;
use crate::testing::{Made, at, made};

/// `a` publishes `a/a`, hands it over to `b` by a wake-up at 400, and turns to `c/c`; `b` works for `a/a` until 800.
const HOST: &str = "
    host web3 realtime=1000000
    thread a tid=10
    thread b tid=11 tgid=10 blocked
    0 c0 idle started
    0 c0 idle switch a
    100 c0 a context a/a
    100 c0 a waking b
    100 c1 idle switch b
    110 c1 b context none
    110 c1 b switch idle blocked
    400 c0 a context a/a
    400 c0 a waking b
    400 c1 idle switch b
    410 c1 b context a/b
    410 c1 b waking a
    450 c0 a context c/c
    450 c0 a waking b
    600 c0 a context c/c
    600 c0 a switch idle blocked
    800 c1 b context a/b
    800 c1 b switch idle blocked
    1000 c0 idle stopped
";

const SPANS: &str = "service s
    a/a 1000050..1000900
    a/b < a 1000350..1000850
    c/c 1000420..1000700
    d/d 1000420..1000700";

fn stints(made: &Made, asked: &str) -> Vec<(String, u64, u64)> {
    let joined = made.joined();
    let stints = joined.contexts.stints(made.request(asked)).iter();
    stints.map(|stint| (made.name(stint.thread), stint.from.ns(), stint.to.ns())).collect()
}

#[test]
fn a_request_has_the_times_in_which_threads_say_that_they_work_for_any_of_its_spans() {
    let made = made(HOST, SPANS);
    let named = |name: &str, from, to| (name.to_owned(), from, to);
    assert_eq!(stints(&made, "a/a"), [named("a", 100, 420), named("b", 400, 1000)]);
    assert_eq!(stints(&made, "c/c"), [named("a", 420, 1000)]);
    assert_eq!(stints(&made, "d/d"), []);
}

#[test]
fn a_request_begins_in_the_thread_that_worked_for_its_root_first_else_for_any_of_its_spans() {
    let joined = |spans: &str, asked: &str| {
        let made = made(HOST, spans);
        let thread = made.joined().contexts.thread(made.request(asked));
        thread.map(|thread| made.name(thread))
    };
    assert_eq!(joined(SPANS, "a/a").as_deref(), Some("a"));
    assert_eq!(joined(SPANS, "c/c").as_deref(), Some("a"));
    assert_eq!(joined(SPANS, "d/d"), None);
    // No thread published the root: the first thread with another of its spans has it.
    let other_root = SPANS.replace("a/a 1000050", "a/e 1000050").replace("< a 1000350", "< e 1000350");
    assert_eq!(joined(&other_root, "a/b").as_deref(), Some("b"));
    // `b` works for the root, later than `a` for a part.
    let later = SPANS.replace("a/a 1000050..1000900", "a/b 1000050..1000900").replace("a/b < a", "a/a < b");
    assert_eq!(joined(&later, "a/b").as_deref(), Some("b"));
}

#[test]
fn wake_ups_by_a_thread_are_those_from_then_to_then() {
    let made = made(HOST, SPANS);
    let joined = made.joined();
    let wakings = |thread, from, to| {
        let wakings = joined.contexts.wakings(made.thread(thread), at(from), at(to)).iter();
        wakings.map(|(waking, _)| (waking.at.ns(), made.name(waking.woken))).collect::<Vec<_>>()
    };
    let named = |at, name: &str| (at, name.to_owned());
    assert_eq!(wakings("a", 0, 1000), [named(100, "b"), named(400, "b")]);
    assert_eq!(wakings("a", 100, 400), [named(100, "b")]);
    assert_eq!(wakings("a", 101, 401), [named(400, "b")]);
    assert_eq!(wakings("a", 500, 100), []);
    assert_eq!(wakings("b", 0, 1000), [], "`a` was awake");
}

#[test]
fn each_way_to_know_a_thread_has_its_word() {
    use JoinedBy::{Connection, Context, Goroutine, None, Thread};
    let names = [Context, Goroutine, Thread, Connection, None].map(JoinedBy::name);
    assert_eq!(names, ["context", "goroutine", "thread", "connection", "none"]);
}

#[test]
fn without_contexts_nothing_is_known_of_them() {
    let made = made(&HOST.replace(" context ", " rename a x#"), SPANS);
    let joined = made.joined();
    assert!(joined.contexts.clocks.is_empty() && joined.contexts.work.threads().next().is_none());
}

#[test]
fn a_thread_says_the_span_of_its_own_process_where_two_services_gave_the_same_ids() {
    let hosts = "
        host web3 realtime=1000000
        thread a tid=10
        thread b tid=20
        0 c0 idle started
        0 c0 idle switch a
        0 c1 idle switch b
        100 c0 a context a/a
        100 c0 a switch idle blocked
        300 c1 b context a/a
        300 c1 b switch idle blocked
        900 c0 idle stopped";
    for (web, db, of_a, of_b) in [
        ("pid=10", "pid=20", "web", "db"),
        ("pid=20", "pid=10", "db", "web"),
        // Nothing rules a service out.
        ("", "", "web", "web"),
        // A number of another namespace.
        ("pid=1", "pid=20", "web", "web"),
    ] {
        let spans = format!("service web {web}\na/a 1000050..1000800\nservice db {db}\na/a 1000050..1000800");
        let made = made(hosts, &spans);
        let joined = made.joined();
        let service = |thread, ns| match joined.works_for(made.thread(thread), at(ns)) {
            wakepath_spans::WorksFor::Span(span) => made.traced.spans.service(span).name.to_string(),
            other => format!("{other:?}"),
        };
        assert_eq!((service("a", 200), service("b", 400)), (of_a.into(), of_b.into()), "{web} and {db}");
        let clocks: Vec<_> =
            joined.contexts.clocks.iter().map(|clock| (clock.process.0, clock.service.0)).collect();
        let number = |service: &str| u32::from(service == "db");
        assert_eq!(clocks, [(10, number(of_a)), (20, number(of_b))], "{web} and {db}");
    }
}
