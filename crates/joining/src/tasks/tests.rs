//! Requests' paths in an event loop.

use std::fmt::Write as _;

use wakepath_critical_path::Window;

use super::*;
use crate::testing::{Made, made, scaled};

mod asked;
mod due;
mod jobs;
mod unnoted;

/// A request's path: each segment's end, thread, kind, basis, depth and request; `None` if its thread is no event loop.
fn path(made: &Made, asked: &str) -> Option<String> {
    let (joined, request) = (made.joined(), made.request(asked));
    let (from, to) = joined.times(request);
    let window = Window { thread: made.thread("loop"), from, to };
    let task = task_path(&joined, request, window, Timeouts::AsTheyAre)?;
    assert!(task.path.tiles_window());
    assert_eq!(task.path.segments.len(), task.of_segments.len());
    assert_eq!(task.path.waits.len(), task.of_waits.len());
    let mut text = String::new();
    for (place, segment) in task.path.segments.iter().enumerate() {
        let thread = segment.thread.map_or("-".into(), |thread| made.name(thread));
        let basis = match segment.basis {
            Basis::Measured => "",
            Basis::Inferred(Rule::NotedReady) => " noted",
            Basis::Inferred(Rule::NextTurn) => " next",
            Basis::Inferred(Rule::CalledRequest) => " called",
            Basis::Inferred(Rule::AskedInTurn) => " asked",
            Basis::Inferred(Rule::ReadyInTurn) => " made",
            Basis::Inferred(Rule::ReadyDescriptor) => " ready",
            Basis::Ambiguous => " ?",
            other => panic!("{other:?}"),
        };
        let of = task.work_of_segment(place, &joined);
        let of = of.map_or(String::new(), |worked| match worked.works_for {
            WorksFor::Span(span) => format!(" of {}", made.ids(span)),
            other => panic!("{other:?}"),
        });
        let depth = if segment.depth == 0 { String::new() } else { format!(" below {}", segment.depth) };
        let _ = write!(text, "{} {thread} {}{basis}{depth}{of}; ", segment.to.ns(), segment.kind.name());
    }
    Some(text)
}

/// A request's blockers, with their times.
fn blockers(made: &Made, asked: &str) -> String {
    let (joined, request) = (made.joined(), made.request(asked));
    let (from, to) = joined.times(request);
    let window = Window { thread: made.thread("loop"), from, to };
    let task = task_path(&joined, request, window, Timeouts::AsTheyAre).expect("a task");
    let blame = joined.blame_task(request, &task);
    let blocked = blame.blocked_by.iter();
    blocked.map(|one| format!("{} {}; ", made.root(one.request), one.total_ns)).collect()
}

/// `loop` runs until 200 ms, waits until a timer at 400 ms, works, waits until `peer` wakes it at 700 ms, and works until 1000 ms. Times are
/// in units of 100 us.
fn machine() -> String {
    scaled(
        100_000,
        "host web3 realtime=1000000000
        thread loop tid=10
        thread peer tid=11 tgid=10
        0 c0 idle started
        0 c0 idle switch loop
        0 c1 idle switch peer
        2000 c0 loop switch idle blocked call=232:0x3
        4000 c0 idle/timer waking loop
        4000 c0 idle switch loop
        5000 c0 loop switch idle blocked call=232:0x3
        7000 c1 peer waking loop
        7000 c0 idle switch loop
        10000 c0 loop switch idle blocked call=232:0x3
        10000 c1 peer switch idle blocked
        11000 c0 idle stopped",
    )
}

/// A time of `machine` in a span's text.
fn wall(at: u64) -> u64 {
    1_000_000_000 + at * 100_000
}

/// A line with a span: its name, its beginning and end, and its turns with their reasons.
fn span(name: &str, (from, to): (u64, u64), turns: &[(u64, u64, &str)]) -> String {
    let times: Vec<_> = turns.iter().map(|(from, to, _)| format!("{}..{}", wall(*from), wall(*to))).collect();
    let ready: Vec<_> = turns.iter().map(|(.., word)| (*word).to_owned()).collect();
    format!(
        "{name} {}..{} tid=10 turns={} ready={}\n",
        wall(from),
        wall(to),
        times.join(","),
        ready.join(",")
    )
}

fn with(spans: &[String]) -> Made {
    made(&machine(), &format!("service s\n{}", spans.concat()))
}

/// A text with times in ms and units of 100 us as `machine` has them.
fn short(text: &str) -> String {
    let words = text.split(' ').map(|word| match word.parse::<u64>() {
        Ok(ns) if ns >= 100_000 => (ns / 100_000).to_string(),
        _ => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

fn told(spans: &[String], asked: &str) -> String {
    short(&path(&with(spans), asked).expect("an event loop"))
}

/// `a/a` has a turn at the beginning, and a second one from 9000 on, for the reason `word`.
fn waiting(word: &str) -> String {
    span("a/a", (1000, 9500), &[(1000, 2000, "d0"), (9000, 9500, word)])
}

#[test]
fn a_timer_that_was_due_explains_the_wait_and_whatever_ran_behind_it_blocks() {
    // Due at 8000: 1000 units before the turn. `b/b` had the loop from 7500 to 8800.
    let other = span("b/b", (7100, 8900), &[(7500, 8800, "d0")]);
    let spans = [waiting("t100000000"), other];
    assert_eq!(
        told(&spans, "a/a"),
        "2000 loop running of a/a; 8000 loop timer noted of a/a; 9000 loop running; 9500 loop running of a/a; "
    );
    // Only what it did behind the due time blocks: from 8000 to 8800.
    assert_eq!(blockers(&with(&spans), "a/a"), "b/b 80000000; ");
}

#[test]
fn a_loop_that_still_waits_for_its_timer_as_it_is_due_waits_for_it() {
    // Due at 6500, within the wait up to 7000.
    let path = told(&[waiting("t250000000")], "a/a");
    assert!(
        path.starts_with("2000 loop running of a/a; 7000 loop timer noted of a/a; 9000 loop running; "),
        "{path}"
    );
}

#[test]
fn a_timer_due_while_the_loop_sleeps_for_another_request_waits_for_that_request() {
    // From 5000 to 7000 it does not wait for its set.
    let asleep = machine().replace(
        "500000000 c0 loop switch idle blocked call=232:0x3",
        "500000000 c0 loop switch idle blocked call=230:0",
    );
    let other = span("b/b", (4000, 8900), &[(4000, 8800, "d0")]);
    let made = made(&asleep, &format!("service s\n{}{other}", waiting("t300000000")));
    let path = short(&path(&made, "a/a").expect("an event loop"));
    assert!(path.starts_with("2000 loop running of a/a; 6000 loop timer noted of a/a; 7000 "), "{path}");
    assert_eq!(short(&blockers(&made, "a/a")), "b/b 2800; ".replace("2800", "280000000"));
}

#[test]
fn a_timer_due_before_the_last_turn_had_ended_was_no_wait() {
    let spans = [waiting("t900000000")];
    let path = told(&spans, "a/a");
    assert!(path.starts_with("2000 loop running of a/a; 4000 loop timer; "), "{path}");
}

#[test]
fn a_turn_that_another_request_scheduled_waits_for_this_requests_own_turns() {
    // `b/b` waits for a timer until 8200, and schedules the turn at 8500.
    let other = span("b/b", (1200, 8600), &[(1200, 1300, "d0"), (8200, 8600, "t0")]);
    let spans = [waiting("s50000000"), other];
    assert_eq!(
        told(&spans, "a/a"),
        "2000 loop running of a/a; 8200 loop timer noted below 1 of b/b; 8500 loop running noted below 1 of b/b; 9000 loop running; 9500 loop running of a/a; "
    );
    // All the wait, and the loop's work for it behind.
    assert_eq!(short(&blockers(&with(&spans), "a/a")), "b/b 6600; ".replace("6600", "660000000"));
}

#[test]
fn a_request_that_came_later_explains_nothing_before_it_came() {
    let other = span("b/b", (4500, 8600), &[(4500, 4600, "d0"), (8200, 8600, "t0")]);
    let spans = [waiting("s50000000"), other];
    assert!(
        told(&spans, "a/a").starts_with(
            "2000 loop running of a/a; 4500 loop unknown ? below 1 of b/b; 4600 loop running noted below 1 of b/b; 8200 loop timer noted below 1 of b/b; "
        ),
        "{}",
        told(&spans, "a/a")
    );
}

#[test]
fn until_another_request_came_this_one_waits_for_who_sent_it() {
    // `peer` ends the loop's wait at 7000, and `b/b` begins right behind.
    let begun = |from| [waiting("s100000000"), span("b/b", (from, 8600), &[(from, 8600, "d0")])];
    let path = told(&begun(7100), "a/a");
    let expected = "2000 loop running of a/a; 7000 peer running next below 2; 7100 loop running noted below 1; 8000 loop running noted below 1 of b/b; ";
    assert!(path.starts_with(expected), "{path}");
    assert_eq!(blockers(&with(&begun(7100)), "a/a"), "b/b 650000000; ");
    // The loop ran too long before it: nothing shows when it was taken up.
    let path = told(&begun(7300), "a/a");
    assert!(path.contains("7300 loop unknown ? below 1 of b/b"), "{path}");
    // Turns of `b/b` are missing: it may have worked before.
    let [own, other] = begun(7100);
    let cut = other.replace("turns=", &format!("since={} turns=", wall(7101)));
    let path = told(&[own, cut], "a/a");
    assert!(path.contains("7101 loop unknown ? below 1 of b/b"), "{path}");
}

#[test]
fn requests_that_make_each_other_ready_without_end_are_undecided() {
    // Each says the other scheduled it, later than it ran itself.
    let a = span("a/a", (1000, 9500), &[(1000, 1100, "-"), (9000, 9500, "s0")]);
    let b = span("b/b", (1000, 9500), &[(1000, 1100, "-"), (8500, 9000, "s0")]);
    let path = told(&[a, b], "a/a");
    assert!(path.contains("unknown ?") && !path.contains("below 3"), "{path}");
}

#[test]
fn a_turn_that_another_thread_scheduled_waits_for_this_thread() {
    // Thread 11 ran all along, and scheduled the turn at 8500.
    let spans = [waiting("w11:50000000")];
    assert_eq!(
        told(&spans, "a/a"),
        "2000 loop running of a/a; 8500 peer running noted below 1; 9000 loop running; 9500 loop running of a/a; "
    );
    // An unknown thread, or the loop's own.
    for word in ["w99:50000000", "w10:50000000"] {
        let path = told(&[waiting(word)], "a/a");
        assert!(path.starts_with("2000 loop running of a/a; 8500 loop unknown ? of a/a; 9000 "), "{path}");
    }
}

/// The same with a second turn from 7000 on, right behind the wait ended by `peer`.
fn woken(from: u64, word: &str) -> String {
    span("a/a", (1000, 9500), &[(1000, 2000, "d0"), (from, 9500, word)])
}

#[test]
fn the_last_wait_before_a_turn_explains_all_the_time_since_the_turn_before() {
    // The timer at 4000 ended the loop's wait, but not this request's.
    for word in ["d0", "-"] {
        assert_eq!(
            told(&[woken(7000, word)], "a/a"),
            "2000 loop running of a/a; 7000 peer running next below 1; 9500 loop running of a/a; ",
            "{word}"
        );
    }
    // The loop took the descriptor up at 7000, and came to this turn later, since it worked for another request.
    let other = span("b/b", (7100, 8900), &[(7100, 8900, "d0")]);
    assert_eq!(
        told(&[woken(9000, "d200000000"), other], "a/a"),
        "2000 loop running of a/a; 7000 peer running next below 1; 9000 loop running; 9500 loop running of a/a; "
    );
}

#[test]
fn a_time_out_of_the_loop_explains_no_turn() {
    // The timer ended the wait at 4000. It may be the loop's tick, unless a descriptor was ready: a timerfd.
    let line =
        |word| format!("service s\n{}", span("a/a", (1000, 5000), &[(1000, 2000, "d0"), (4000, 5000, word)]));
    for word in ["d0", "j0", "-"] {
        let path = short(&path(&made(&machine(), &line(word)), "a/a").expect("an event loop"));
        assert!(path.contains("4000 loop unknown ? of a/a"), "{word}: {path}");
    }
    let ready = machine().replace(
        "400000000 c0 idle/timer waking loop",
        "400000000 c0 idle/timer descriptor loop 5\n400000000 c0 idle/timer waking loop",
    );
    let path = short(&path(&made(&ready, &line("d0")), "a/a").expect("an event loop"));
    assert!(path.contains("4000 loop timer ready of a/a"), "{path}");
}

#[test]
fn a_thread_that_slept_before_it_woke_the_loop_is_no_time_out_of_the_loop() {
    let asleep = machine().replace(
        "700000000 c1 peer waking loop",
        "550000000 c1 peer switch idle blocked call=230:0\n690000000 c1 idle/timer waking peer\n690000000 c1 idle switch peer\n700000000 c1 peer waking loop",
    );
    let path =
        short(&path(&made(&asleep, &format!("service s\n{}", woken(7000, "d0"))), "a/a").expect("a loop"));
    assert!(path.contains("6900 peer timer next below 1; 7000 peer running next below 1"), "{path}");
}

#[test]
fn where_the_loop_did_something_else_between_its_wait_and_the_turn_nothing_is_decided() {
    // The wait (2000 to 7000) has a twentieth with 250.
    for (from, is_decided) in [(7250, true), (7251, false)] {
        let path = told(&[woken(from, "-")], "a/a");
        assert_eq!(path.contains("peer running next"), is_decided, "{from}: {path}");
        assert_eq!(path.contains(&format!("{from} loop unknown ? of a/a")), !is_decided, "{from}: {path}");
    }
    // For another request it did, however short.
    let other = span("b/b", (7000, 7001), &[(7000, 7001, "d0")]);
    let path = told(&[woken(7002, "-"), other], "a/a");
    assert!(path.contains("7002 loop unknown ? of a/a"), "{path}");
    // Two spans say that they had the loop at once.
    let others = ["b/b", "c/c"].map(|name| span(name, (6500, 7050), &[(7000, 7050, "d0")]));
    let path = told(&[&others[..], &[woken(7060, "-")]].concat(), "a/a");
    assert!(path.contains("7060 loop unknown ? of a/a"), "{path}");
    // It never waited: within a callback a span begins or ends, for at most 1 ms.
    for (from, is_decided) in [(1110, true), (1111, false)] {
        let turns = [(1000, 1100, "-"), (from, 2000, "-"), (7000, 9500, "-")];
        let path = told(&[span("a/a", (1000, 9500), &turns)], "a/a");
        assert_eq!(path.contains("unknown"), !is_decided, "{from}: {path}");
    }
}

#[test]
fn turns_that_were_dropped_are_undecided() {
    let line = format!(
        "a/a {}..{} tid=10 since={} turns={}..{} ready=d0\n",
        wall(1000),
        wall(9500),
        wall(6000),
        wall(7000),
        wall(9500)
    );
    assert_eq!(
        told(&[line], "a/a"),
        "6000 loop unknown ? of a/a; 7000 peer running next below 1; 9500 loop running of a/a; "
    );
}

#[test]
fn the_turns_of_all_spans_are_complete_from_the_last_dropped_turn_on() {
    let root = span("a/a", (1000, 9500), &[(1000, 2000, "d0"), (7000, 9500, "d0")]);
    let below = |since| {
        format!(
            "a/c < a {}..{} tid=10 since={} turns={}..{}\n",
            wall(1500),
            wall(9000),
            wall(since),
            wall(7000),
            wall(7100)
        )
    };
    assert!(told(&[root.clone(), below(1500)], "a/a").starts_with("2000 loop running of a/a; 7000 peer"));
    assert!(told(&[root, below(1800)], "a/a").starts_with("1800 loop unknown ? of a/a; 2000 loop running"));
}

#[test]
fn a_turn_within_its_threads_wait_begins_as_the_thread_runs() {
    // The program's clock is 1 ms behind: the turn begins within the wait up to 7000.
    for (from, is_decided) in [(6990, true), (6989, false)] {
        let path = told(&[woken(from, "d0")], "a/a");
        assert_eq!(path.contains("7000 peer running next below 1; 9500"), is_decided, "{from}: {path}");
    }
    // A turn that ends before the thread runs is wrong altogether.
    let turns = [(1000, 2000, "d0"), (6995, 6999, "d0"), (7000, 9500, "d0")];
    assert!(told(&[span("a/a", (1000, 9500), &turns)], "a/a").contains("6995 loop unknown ?"));
}

#[test]
fn a_request_without_a_gap_between_its_turns_has_its_threads_path() {
    let whole = span("a/a", (1000, 9500), &[(1000, 9500, "d0")]);
    assert_eq!(path(&with(&[whole]), "a/a"), None);
    // The end lies behind the last turn by the time in which an SDK ends a span.
    for (end, is_task) in [(9510, false), (9511, true)] {
        let late = span("a/a", (7500, end), &[(7500, 9500, "d0")]);
        assert_eq!(path(&with(&[late]), "a/a").is_some(), is_task, "{end}");
    }
    // A wait in a gap, however short.
    let cut = span("a/a", (1000, 9500), &[(1000, 4999, "d0"), (7001, 9500, "d0")]);
    assert!(path(&with(&[cut]), "a/a").is_some());
}

#[test]
fn without_turns_an_event_loop_beside_other_requests_is_undecided_where_it_waits() {
    let line = |name: &str, from, to| format!("{name} {}..{} tid=10\n", wall(from), wall(to));
    let alone = [line("a/a", 1000, 9500)];
    assert_eq!(path(&with(&alone), "a/a"), None);
    // Another one is open in the same thread, though it began before.
    for other in [line("b/b", 6000, 6500), line("b/b", 900, 1100)] {
        let both = [alone[0].clone(), other];
        assert_eq!(
            told(&both, "a/a"),
            "2000 loop running of a/a; 4000 loop unknown ? of a/a; 5000 loop running of a/a; 7000 loop unknown ? of a/a; 9500 loop running of a/a; "
        );
    }
    // Its own part is no other request.
    let part = format!("a/c < a {}..{} tid=10\n", wall(1500), wall(6500));
    assert_eq!(path(&with(&[alone[0].clone(), part]), "a/a"), None);
    // Without a wait in such a call it is a thread like others.
    let both = format!("service s\n{}{}", alone[0], line("b/b", 6000, 6500));
    assert_eq!(path(&made(&machine().replace("call=232:0x3", "call=7:0x3"), &both), "a/a"), None);
    assert!(path(&made(&machine(), &both), "a/a").is_some());
}

#[test]
fn an_event_loop_with_a_single_request_infers_that_the_end_of_each_wait_was_awaited() {
    let bases = |made: &Made| {
        let (joined, thread) = (made.joined(), made.thread("loop"));
        let in_loop = InLoop::new(&joined, made.request("a/a"), thread);
        let window = Window { thread, from: Stamp::from_ns(100_000_000), to: Stamp::from_ns(950_000_000) };
        let path = active_with(&made.recorded.graph, window, Timeouts::AsTheyAre, &in_loop);
        path.segments.iter().map(|segment| segment.basis).collect::<Vec<_>>()
    };
    let (measured, next) = (Basis::Measured, Basis::Inferred(Rule::NextTurn));
    let alone = format!("service s\na/a {}..{} tid=10\n", wall(1000), wall(9500));
    assert_eq!(bases(&made(&machine(), &alone)), [measured, next, measured, next, measured]);
    // Other waits, and a thread known to have worked for the request all along.
    assert_eq!(bases(&made(&machine().replace("call=232:0x3", "call=7:0x3"), &alone)), [measured; 5]);
    assert_eq!(bases(&with(&[span("a/a", (1000, 9500), &[(1000, 9500, "d0")])])), [measured; 5]);
}

#[test]
fn a_reason_is_counted_from_any_time_before_its_turn() {
    assert_eq!(later(Ready::Timer(50), 50), Ready::Timer(0));
    assert_eq!(later(Ready::Timer(49), 50), Ready::Timer(0), "due later: it waits for it");
    assert_eq!(later(Ready::Scheduled(60), 50), Ready::Scheduled(10));
    assert_eq!(later(Ready::Scheduled(49), 50), Ready::Unknown);
    assert_eq!(later(Ready::Thread(7, 60), 50), Ready::Thread(7, 10));
    assert_eq!(later(Ready::Thread(7, 49), 50), Ready::Unknown);
    assert_eq!(later(Ready::Descriptor(60), 50), Ready::Unknown);
}

/// `a/a` calls `a/d` in another service from 1500 to 9200, which `peer` has from `from` to `to`.
fn calling(from: u64, to: u64, more: &str) -> Vec<String> {
    let call = format!("a/c < a {}..{} client tid=10\n{more}", wall(1500), wall(9200));
    let called = format!("service t\na/d < c {}..{} server tid=11\n", wall(from), wall(to));
    vec![waiting("d0"), call, called]
}

#[test]
fn a_wait_within_a_clients_span_is_a_wait_for_the_called_request() {
    let expected = "2000 loop running of a/a; 3000 peer network ? below 1 of a/d; 8000 peer running called below 1 of a/d; 9000 peer network ? below 1 of a/d; 9500 loop running of a/a; ";
    assert_eq!(told(&calling(3000, 8000, ""), "a/a"), expected);
    // Its parts block nothing.
    assert_eq!(blockers(&with(&calling(3000, 8000, "")), "a/a"), "");
    // Two calls are open: the first to end counts, and no ended call.
    let others = format!(
        "a/e < a {}..{} client tid=10\na/1 < a {}..{} client tid=10\n",
        wall(1500),
        wall(9300),
        wall(1500),
        wall(8999)
    );
    assert_eq!(told(&calling(3000, 8000, &others), "a/a"), expected);
    // A part below the client's span is no called request.
    let part = format!("a/2 < c {}..{} tid=10\n", wall(1600), wall(9100));
    assert_eq!(told(&calling(3000, 8000, &part), "a/a"), expected);
    // Either of two called requests may have been awaited; and a call within another kind of span need not have been.
    let second = format!("a/3 < c {}..{} server tid=11\n", wall(3000), wall(4000));
    assert!(!told(&[&calling(3000, 8000, "")[..], &[second]].concat(), "a/a").contains("called"));
    let [own, call, called] = &calling(3000, 8000, "")[..] else { panic!("three lines") };
    let internal = call.replace(" client ", " ");
    assert!(!told(&[own.clone(), internal, called.clone()], "a/a").contains("called"));
    // The called request lies outside the wait, or no request was called.
    assert!(!told(&calling(9100, 9150, ""), "a/a").contains("a/d"));
    assert!(!told(&calling(3000, 8000, "")[..2], "a/a").contains("peer network"));
}

#[test]
fn behind_a_calls_answer_the_loop_had_other_work() {
    // The called service answers at `answered`, and its span ends at `ended`, in units of 100 us.
    let told_with = |began: u64, ended: u64, answered: u64| {
        let flows = "flow ask 127.0.0.1:40001 > 127.0.0.1:8080\nflow say 127.0.0.1:8080 > 127.0.0.1:40001\n";
        let threads = "thread peer tid=11 tgid=10\n";
        let machine = machine().replace(threads, &format!("{threads}{flows}"));
        let packets = [(2500, "peer/net_rx in ask"), (answered, "peer out say")];
        let mut lines: Vec<_> = machine.lines().map(str::to_owned).collect();
        lines.extend(packets.iter().map(|(at, what)| format!("{} c1 {what} seq=1 len=9", at * 100_000)));
        let at = |line: &String| line.trim().split(' ').next().and_then(|at| at.parse::<u64>().ok());
        lines.sort_by_key(|line| at(line).map_or((false, 0), |at| (true, at)));
        let other = span("b/b", (8050, 8700), &[(8060, 8650, "d0")]);
        let [own, call, called] = &calling(began, ended, "")[..] else { panic!("three lines") };
        let made = made(&lines.join("\n"), &format!("service s\n{own}{call}{other}{called}"));
        (short(&path(&made, "a/a").expect("a loop")), blockers(&made, "a/a"))
    };
    let told = |answered| told_with(3000, 8000, answered);
    let begin = "2000 loop running of a/a; 3000 peer network ? below 1 of a/d; ";
    let (path, by) = told(8030);
    assert_eq!(
        path,
        format!(
            "{begin}8000 peer running called below 1 of a/d; 8030 peer network ? below 1 of a/d; 9000 loop running; 9500 loop running of a/a; "
        )
    );
    assert_eq!(by, "b/b 59000000; ");
    // Sent before its span's end.
    let (path, _) = told(7800);
    assert_eq!(
        path,
        format!(
            "{begin}7800 peer running called below 1 of a/d; 9000 loop running; 9500 loop running of a/a; "
        )
    );
    // Too far from the span's end: a twentieth of its length is 250 units.
    for (at, is_known) in [(8250, true), (8251, false), (7750, true), (7749, false)] {
        let (path, _) = told(at);
        assert_eq!(!path.contains("9000 peer network"), is_known, "{at}: {path}");
    }
    // An answer behind the turn, and the answer to the call before.
    let (path, _) = told_with(3000, 8900, 9100);
    assert!(path.contains("8900 peer running called below 1 of a/d; 9000 peer network"), "{path}");
    let (path, _) = told_with(7800, 7806, 7799);
    assert!(path.contains("7806 peer running called below 1 of a/d; 9000 peer network"), "{path}");
}

#[test]
fn an_answer_from_another_host_is_on_its_way_until_the_loop_has_it() {
    let far = scaled(
        100_000,
        "host db1 realtime=1000000000
        thread far tid=11
        flow ask 10.0.0.1:40001 > 10.0.0.2:8080
        flow say 10.0.0.2:8080 > 10.0.0.1:40001
        0 c0 idle started
        0 c0 idle switch far
        2500 c0 far/net_rx in ask seq=1 len=9
        7900 c0 far out say seq=1 len=9
        11000 c0 far switch idle blocked call=35:0
        11000 c0 idle stopped",
    );
    let [own, call, called] = &calling(3000, 8000, "")[..] else { panic!("three lines") };
    let called = called.replace("service t", "service t host=db1");
    let made = made(&format!("{}\n{far}", machine()), &format!("service s host=web3\n{own}{call}{called}"));
    let path = short(&path(&made, "a/a").expect("a loop"));
    assert!(
        path.contains("8000 far running called below 1 of a/d; 9000 far network ? below 1 of a/d"),
        "{path}"
    );
}

#[test]
fn a_call_that_began_or_ended_within_the_wait_does_not_explain_it() {
    for (began, ended) in [(2001, 9200), (1500, 8999)] {
        let call = format!("a/c < a {}..{} client tid=10\n", wall(began), wall(ended));
        let called = format!("service t\na/d < c {}..{} server tid=11\n", wall(3000), wall(8000));
        assert!(!told(&[waiting("d0"), call, called], "a/a").contains("a/d"), "{began} {ended}");
    }
}

#[test]
fn a_turn_may_end_as_it_schedules_another() {
    let other = span("b/b", (1200, 8600), &[(1200, 1300, "d0"), (8200, 8500, "t0")]);
    let path = told(&[waiting("s50000000"), other], "a/a");
    assert!(path.contains("8500 loop running noted below 1 of b/b"), "{path}");
}

#[test]
fn other_work_of_the_loop_during_a_requests_wait_blocks_nothing() {
    // The loop turned to `b/b` as the wait began, and a thread ended the wait.
    let other = span("b/b", (1900, 2200), &[(2000, 2100, "d0")]);
    let spans = [woken(7000, "d0"), other];
    assert!(told(&spans, "a/a").contains("7000 peer running next below 1"), "{}", told(&spans, "a/a"));
    assert_eq!(blockers(&with(&spans), "a/a"), "");
}
