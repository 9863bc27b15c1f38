//! Requests in a pool's queue.

use super::*;

/// A pool: `reader` begins with the requests, `one` and `two` wait for work until they are woken.
const POOL: &str = "
    host web3 realtime=1000000
    thread reader tid=10
    thread one tid=11 tgid=10
    thread two tid=12 tgid=10
    0 c0 idle started
    0 c0 idle switch reader
    0 c1 idle switch one
    0 c2 idle switch two
    10 c1 one context none
    10 c1 one switch idle blocked call=202:0x1000
    10 c2 two context none
    10 c2 two switch idle blocked call=202:0x1000
    100 c0 reader context a/a
    100 c0 reader waking reader
    EVENTS
    1000 c0 idle stopped
";

/// The path of `a/a` from 100 to 800 in such a pool; each other request lasts as long.
fn in_pool(events: &str, more: &str) -> Option<String> {
    let spans =
        format!("service s\na/a 1000090..1000800\nb/b 1000090..1000950\nc/c 1000090..1000950\n{more}");
    path(&made(&POOL.replace("EVENTS", events), &spans), "a/a")
}

#[test]
fn a_thread_that_was_woken_for_a_request_did_not_keep_it_waiting_before() {
    for (what, events, expected) in [
        (
            "the waker",
            "
            180 c0 reader context a/a
            180 c0 reader waking reader
            190 c0 reader context b/b
            300 c0 reader context b/b
            300 c0 reader waking one
            310 c1 idle switch one
            400 c1 one context a/a
            400 c1 one waking one
            900 c1 one context a/a
            900 c1 one switch idle blocked call=202:0x1000
            900 c0 reader context b/b
            900 c0 reader switch idle blocked",
            "180 reader running; 300 reader running; 310 one runnable; 800 one running; ",
        ),
        (
            "the waker slept",
            "
            180 c0 reader context a/a
            180 c0 reader waking reader
            190 c0 reader context none
            190 c0 reader switch idle blocked call=202:0x2000
            250 c3 idle waking reader
            250 c0 idle switch reader
            260 c0 reader context b/b
            300 c0 reader context b/b
            300 c0 reader waking one
            310 c1 idle switch one
            400 c1 one context a/a
            400 c1 one waking one
            900 c1 one context a/a
            900 c1 one switch idle blocked call=202:0x1000
            900 c0 reader context b/b
            900 c0 reader switch idle blocked",
            "190 reader running; 300 one unknown; 310 one runnable; 800 one running; ",
        ),
        (
            "the first woken",
            "
            180 c0 reader context a/a
            180 c0 reader waking one
            190 c0 reader context none
            190 c0 reader waking reader
            290 c0 reader context b/b
            290 c0 reader waking reader
            300 c0 reader context b/b
            300 c0 reader waking two
            310 c2 idle switch two
            400 c2 two context a/a
            400 c2 two waking two
            500 c1 idle switch one
            510 c1 one context b/b
            900 c2 two context a/a
            900 c2 two switch idle blocked call=202:0x1000
            900 c1 one context b/b
            900 c1 one switch idle blocked call=202:0x1000
            900 c0 reader context b/b
            900 c0 reader switch idle blocked",
            "190 reader running; 300 one runnable; 310 two runnable; 800 two running; ",
        ),
    ] {
        assert_eq!(in_pool(events, "").as_deref(), Some(expected), "{what}");
    }
}

#[test]
fn a_call_under_way_was_waited_for_whatever_the_next_thread_did() {
    let events = "
        180 c0 reader context a/a
        180 c0 reader waking reader
        190 c0 reader context b/b
        300 c0 reader context b/b
        300 c0 reader waking one
        310 c1 idle switch one
        400 c1 one context a/a
        400 c1 one waking one
        900 c1 one context a/a
        900 c1 one switch idle blocked call=202:0x1000
        900 c0 reader context b/b
        900 c0 reader switch idle blocked";
    for (call, expected) in [
        (
            "a/1 < a 1000170..1000250 client",
            "180 reader running; 250 one network; 300 reader running; 310 one runnable; 800 one running; ",
        ),
        (
            "a/1 < a 1000170..1000350 client",
            "180 reader running; 300 reader running; 310 one runnable; 800 one running; ",
        ),
        (
            "a/1 < a 1000170..1000450 client",
            "180 reader running; 300 reader running; 310 one runnable; 800 one running; ",
        ),
    ] {
        assert_eq!(in_pool(events, call).as_deref(), Some(expected), "{call}");
    }
}

/// The thread that had `a/a` from 190 until `thread` was woken for it, as far as known.
fn kept_by(events: &str, thread: &str) -> String {
    let spans = "service s\na/a 1000090..1000800\nb/b 1000090..1000950";
    let made = made(&POOL.replace("EVENTS", events), spans);
    let joined = made.joined();
    let walk = Walk { joined: &joined, request: made.request("a/a"), calls: OnceCell::new() };
    let reader = made.thread("reader");
    let before = Turn { thread: reader, waits_since: at(90), from: at(90), to: at(190) };
    let idle = walk.idle(made.thread(thread), at(190), at(310)).expect("it waited for work");
    walk.kept_by(Some(&before), at(190), &idle).map_or("-".into(), |thread| made.name(thread))
}

#[test]
fn a_request_was_kept_by_the_thread_first_woken_for_it_else_by_the_waker_that_did_not_sleep_meanwhile() {
    let slept = "
        180 c0 reader context a/a
        180 c0 reader waking reader
        190 c0 reader context none
        190 c0 reader switch idle blocked call=202:0x2000
        250 c3 idle waking reader
        250 c0 idle switch reader";
    let first = "
        180 c0 reader context a/a
        180 c0 reader waking one
        190 c0 reader context b/b
        190 c0 reader waking reader";
    let wakes = |thread: &str, said: &str| {
        format!(
            "260 c0 reader context {said}\n260 c0 reader waking reader\n300 c0 reader context {said}\n300 c0 reader waking {thread}"
        )
    };
    let c1 = |events: &str| events.replace("one:", "c1 one");
    for (what, events, thread, expected) in [
        ("it works for no other request", format!("{slept}\n{}", wakes("one", "none")), "one", "reader"),
        ("it works for the request itself", format!("{slept}\n{}", wakes("one", "a/a")), "one", "reader"),
        ("it works for another request", format!("{slept}\n{}", wakes("one", "b/b")), "one", "-"),
        ("the other request has no spans here", format!("{slept}\n{}", wakes("one", "7/7")), "one", "-"),
        ("an interrupt woke it", format!("{slept}\n300 c3 idle/device waking one"), "one", "-"),
        ("nothing was current", format!("{slept}\n300 c3 idle waking one"), "one", "-"),
        ("another was woken first", format!("{first}\n{}", wakes("two", "b/b")), "two", "one"),
        // It ran, and waits for work again: it was not woken for this request, or left it.
        (
            "the first waits again",
            c1(&format!(
                "{first}\n200 c1 idle switch one\n210 one: context none\n210 one: switch idle blocked call=202:0x1000\n{}",
                wakes("two", "b/b")
            )),
            "two",
            "reader",
        ),
        // It did not wait for work as it was woken.
        (
            "the first slept for another request",
            c1(&format!(
                "120 c3 idle waking one\n120 c1 idle switch one\n130 one: context b/b\n130 one: switch idle blocked call=202:0x1000\n{first}\n{}",
                wakes("two", "b/b")
            )),
            "two",
            "reader",
        ),
        // The reader woke it while it worked for another request.
        (
            "the first was woken for another request",
            format!(
                "180 c0 reader context a/a\n180 c0 reader waking reader\n190 c0 reader context b/b\n190 c0 reader waking one\n{}",
                wakes("two", "b/b")
            ),
            "two",
            "reader",
        ),
    ] {
        let tail = "\n900 c0 reader context b/b\n900 c0 reader switch idle blocked";
        assert_eq!(kept_by(&format!("{events}{tail}"), thread), expected, "{what}");
    }
}

#[test]
fn a_thread_waits_for_work_if_it_works_for_nothing_and_waits_for_no_lock() {
    let host = "
        host web3 realtime=1000000
        thread a tid=10
        thread b tid=11 tgid=10
        0 c0 idle started
        0 c0 idle switch a
        0 c1 idle switch b
        100 c1 b context none
        100 c1 b switch idle blocked
        200 c0 a waking b
        210 c1 idle switch b
        300 c1 b context SAID
        300 c1 b switch idle SECOND
        400 c0 a waking b
        410 c1 idle switch b
        900 c1 b context none
        900 c1 b switch idle blocked
        950 c0 a stopped";
    let lock = "blocked call=202:0x1000 op=0 value=2 claim=a";
    for (said, second, from, to, expected) in [
        ("none", "blocked", 0, 800, Some((300, 400))),
        ("none", "blocked", 0, 300, Some((100, 200))),
        ("none", "blocked", 200, 300, None),
        ("none", "blocked", 400, 800, None),
        ("a/a", "blocked", 0, 800, Some((100, 200))),
        ("a/a", "blocked", 250, 800, None),
        ("unknown", "blocked", 250, 800, None),
        // It has no CPU.
        ("none", "runnable", 250, 800, None),
        // A lock whose owner is proved: it waits for its turn, and not for work.
        ("none", lock, 0, 800, Some((100, 200))),
    ] {
        let host = host.replace("SAID", said).replace("SECOND", second);
        let host = if second == "runnable" { host.replace("400 c0 a waking b\n", "") } else { host };
        let made = made(&host, "service s\na/a 1000100..1000800");
        let joined = made.joined();
        let walk = Walk { joined: &joined, request: made.request("a/a"), calls: OnceCell::new() };
        let idle = walk.idle(made.thread("b"), at(from), at(to));
        assert_eq!(idle.map(|one| (one.from.ns(), one.to.ns())), expected, "{said} {second} {from}..{to}");
    }
}

#[test]
fn the_work_of_a_thread_that_wakes_another_is_that_of_its_context_then_and_else_that_of_its_spans() {
    let host = "
        host web3 realtime=1000000
        thread a tid=10
        thread b tid=11 tgid=10 blocked
        0 c0 idle started
        0 c0 idle switch a
        100 c0 a context FIRST
        100 c0 a waking b
        110 c0 a context b/b
        110 c0 a waking a
        900 c0 a context b/b
        900 c0 a switch idle blocked
        1000 c0 idle stopped";
    for (first, spans, expected) in [
        ("a/a", "a/a 1000050..1000800\nb/b 1000050..1000950", "a/a"),
        ("none", "a/a 1000050..1000800\nb/b 1000050..1000950", "None"),
        ("7/7", "b/b 1000050..1000950", "Missing"),
        // The context could not be read: a span names the thread.
        ("unknown", "a/a 1000050..1000105 tid=10\nb/b 1000050..1000950", "a/a"),
        ("unknown", "b/b 1000050..1000950", "Unknown"),
    ] {
        let made = made(&host.replace("FIRST", first), &format!("service s\n{spans}"));
        let joined = made.joined();
        let walk = Walk { joined: &joined, request: made.request("b/b"), calls: OnceCell::new() };
        let found = match walk.worked_for(made.thread("a"), at(100)) {
            WorksFor::Span(span) => made.ids(span).to_owned(),
            WorksFor::Missing(..) => "Missing".into(),
            other => format!("{other:?}"),
        };
        assert_eq!(found, expected, "{first} {spans}");
    }
}
