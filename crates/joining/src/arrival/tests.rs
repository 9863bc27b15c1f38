//! The arrival of requests before their spans.

use crate::testing::{made, scaled};

/// A server with a thread, which answers data from 500 µs at 6,100 µs, and data from 700 µs at 8,000 µs. Times in units of 100 µs.
const SERVER: &str = "
    host web3 realtime=0
    flow ask_a 127.0.0.1:40001 > 127.0.0.1:8080
    flow say_a 127.0.0.1:8080 > 127.0.0.1:40001
    flow ask_b 127.0.0.1:40002 > 127.0.0.1:8080
    flow say_b 127.0.0.1:8080 > 127.0.0.1:40002
    thread one tid=10
    0 c0 idle started
    0 c0 idle switch one
    5 c0 one/net_rx in ask_a seq=1 len=9
    7 c0 one/net_rx in ask_b seq=1 len=9
    61 c0 one out say_a seq=1 len=9
    80 c0 one out say_b seq=1 len=9
    85 c0 one switch idle blocked call=35:0
    85 c0 idle stopped
";

/// The same with `a` answered at 32,500 µs, and `b` not at all.
const LONG: &str = "
    host web3 realtime=0
    flow ask_a 127.0.0.1:40001 > 127.0.0.1:8080
    flow say_a 127.0.0.1:8080 > 127.0.0.1:40001
    thread one tid=10
    0 c0 idle started
    0 c0 idle switch one
    5 c0 one/net_rx in ask_a seq=1 len=9
    325 c0 one out say_a seq=1 len=9
    400 c0 one switch idle blocked call=35:0
    400 c0 idle stopped
";

/// The arrival of `a/a` in µs, and the requests for which the thread worked, with µs.
fn arrival(spans: &str) -> Option<(u64, Vec<(String, u64)>)> {
    arrival_in(SERVER, spans)
}

fn arrival_in(host: &str, spans: &str) -> Option<(u64, Vec<(String, u64)>)> {
    let made = made(&scaled(100_000, host), &format!("service shop\n{spans}"));
    let found = made.joined().arrival(made.request("a/a"), made.thread("one"))?;
    let worked_for =
        found.worked_for.iter().map(|(request, ns)| (made.root(*request).to_owned(), ns / 1_000));
    Some((found.at.ns() / 1_000, worked_for.collect()))
}

#[test]
fn a_request_whose_data_came_before_its_thread_took_it_up_waited() {
    let busy = "b/b 1000000..4000000 server tid=10\nc/c 4000000..4100000 server tid=10\n";
    let span = "a/a 4100000..6000000 server tid=10";
    let worked_for = vec![("b/b".to_owned(), 3_000), ("c/c".to_owned(), 100)];
    assert_eq!(arrival(&format!("{busy}{span}")), Some((500, worked_for)));
    assert_eq!(arrival(span), Some((500, Vec::new())));
    // It answers no call.
    assert_eq!(arrival("a/a 4100000..6000000 tid=10"), None);
    // It began before its data came.
    assert_eq!(arrival("a/a 400000..6000000 server tid=10"), None);
}

#[test]
fn a_short_wait_is_not_reported() {
    for (from, waited) in [(1_500_000, true), (1_499_999, false)] {
        assert_eq!(arrival(&format!("a/a {from}..6000000 server tid=10")).is_some(), waited, "{from}");
    }
}

#[test]
fn an_answer_far_from_the_spans_end_or_two_about_as_near_show_no_arrival() {
    // 1 ms before the answer, or behind it; the other one is more than twice as far.
    for (to, fits) in [(5_100_000, true), (5_099_999, false), (6_726_000, true), (6_727_000, false)] {
        assert_eq!(arrival(&format!("a/a 4100000..{to} server tid=10")).is_some(), fits, "{to}");
    }
}

#[test]
fn a_short_wait_before_a_long_span_is_not_reported() {
    // From 500 µs on: 1.6 ms of 32 ms since the data came, and 1.5 ms.
    for (from, is_reported) in [(2_100_000, true), (2_000_000, false)] {
        let found = arrival_in(LONG, &format!("a/a {from}..32500000 server tid=10"));
        assert_eq!(found.is_some(), is_reported, "{from}");
    }
}

#[test]
fn a_long_spans_answer_may_be_a_twentieth_of_its_length_away() {
    // The answer comes at 32,500 µs; the span of 28 ms ends 1.4 ms before.
    for (to, fits) in [(31_100_000, true), (31_000_000, false)] {
        assert_eq!(arrival_in(LONG, &format!("a/a 3100000..{to} server tid=10")).is_some(), fits, "{to}");
    }
}

#[test]
fn javascripts_spans_may_be_a_millisecond_off() {
    let alone = SERVER.replace("80 c0 one out say_b seq=1 len=9", "");
    let found = |host: &str, language: &str, to: u64| {
        let spans = format!("service web language={language}\na/a 3100000..{to} server tid=10");
        let made = made(&scaled(100_000, host), &spans);
        made.joined().arrival(made.request("a/a"), made.thread("one")).is_some()
    };
    // The answer comes at 6,100 µs. Another at 8,000 µs may be nearer by the millisecond.
    for (host, to, python, node) in [
        (&alone[..], 5_100_000, true, true),
        (&alone, 5_000_000, false, true),
        (&alone, 4_100_000, false, true),
        (&alone, 4_000_000, false, false),
        (SERVER, 6_700_000, true, false),
        (SERVER, 6_100_000, true, false),
    ] {
        assert_eq!((found(host, "python", to), found(host, "nodejs", to)), (python, node), "{to}");
    }
}

#[test]
fn javascripts_span_may_begin_a_millisecond_before_its_data_came() {
    // They came at 500 µs, and at 1,500 µs.
    let later = LONG.replace("5 c0 one/net_rx", "15 c0 one/net_rx");
    for (host, from, python, node) in [
        (LONG, 500_000, true, true),
        (LONG, 499_999, false, true),
        (&*later, 500_000, false, true),
        (&later, 499_999, false, false),
    ] {
        let found = ["python", "nodejs"].map(|language| {
            let spans = format!("service web language={language}\na/a {from}..32000000 server tid=10");
            let made = made(&scaled(100_000, host), &spans);
            made.joined().arrived(made.request("a/a"), made.thread("one")).is_some()
        });
        assert_eq!(found, [python, node], "{from}");
    }
}

#[test]
fn a_clients_port_tells_two_answers_apart() {
    // Both answers are about as near to the end at 7,000 µs.
    let found = |host: &str, peer: &str| {
        let spans = format!("service web\na/a 3100000..7000000 server tid=10{peer}");
        let made = made(&scaled(100_000, host), &spans);
        made.joined().arrival(made.request("a/a"), made.thread("one")).map(|found| found.at.ns() / 1_000)
    };
    let peers = ["", " peer=40001", " peer=40002", " peer=9"].map(|peer| found(SERVER, peer));
    assert_eq!(peers, [None, Some(500), Some(700), None]);
    // Where no connection has it, the only answer counts.
    let alone = SERVER.replace("80 c0 one out say_b seq=1 len=9", "");
    assert_eq!(found(&alone, " peer=9"), Some(500));
}

#[test]
fn data_that_came_within_the_span_and_answers_before_it_are_other_requests() {
    // `b` came at 4,000 µs, and its answer lies nearer to the end of `a`; so does an answer before a short span.
    let later = SERVER
        .replace("7 c0 one/net_rx in ask_b", "40 c0 one/net_rx in ask_b")
        .replace("80 c0 one out", "60 c0 one out");
    assert_eq!(arrival_in(&later, "a/a 3000000..6000000 server tid=10").map(|found| found.0), Some(500));
    let before = SERVER.replace("80 c0 one out", "50 c0 one out");
    assert_eq!(arrival_in(&before, "a/a 5100000..5500000 server tid=10").map(|found| found.0), Some(500));
}

#[test]
fn an_exchange_that_another_thread_answered_is_not_this_requests() {
    let other = SERVER
        .replace(
            "0 c0 idle started",
            "thread two tid=11 tgid=10\n    0 c0 idle started\n    0 c1 idle switch two",
        )
        .replace("80 c0 one out say_b", "60 c1 two out say_b");
    assert_eq!(arrival_in(&other, "a/a 4100000..6000000 server tid=10").map(|found| found.0), Some(500));
}

#[test]
fn the_arrival_of_a_request_that_did_not_wait_is_known_too() {
    let arrived = |from: u64| {
        let spans = format!("service shop\na/a {from}..6000000 server tid=10");
        let made = made(&scaled(100_000, SERVER), &spans);
        let (joined, thread) = (made.joined(), made.thread("one"));
        let found = joined.arrived(made.request("a/a"), thread);
        found.map(|at| at.ns() / 1_000)
    };
    assert_eq!(arrived(500_000), Some(500));
    assert_eq!(arrived(4_100_000), Some(500));
    assert_eq!(arrived(499_999), None);
}

#[test]
fn the_nearest_answer_within_the_time_is_found() {
    let made = made(&scaled(100_000, SERVER), "service shop\na/a 4100000..6000000 server tid=10");
    let joined = made.joined();
    // Answers at 6,100 and 8,000 us.
    let near = |us: u64, within: u64| {
        let at = wakepath_clock::Stamp::from_ns(us * 1000);
        joined.exchanges().answer_near(made.thread("one"), at, within * 1000).map(|at| at.ns() / 1000)
    };
    assert_eq!([near(7_900, 2_000), near(6_200, 2_000)], [Some(8_000), Some(6_100)]);
    assert_eq!([near(7_900, 100), near(7_900, 99), near(8_100, 99)], [Some(8_000), None, None]);
}

/// A loop that waits until data come at 5,000 µs, or somewhat before.
const LOOP: &str = "
    host web3 realtime=0
    flow ask_a 127.0.0.1:40001 > 127.0.0.1:8080
    flow say_a 127.0.0.1:8080 > 127.0.0.1:40001
    flow ask_b 127.0.0.1:40002 > 127.0.0.1:8080
    flow say_b 127.0.0.1:8080 > 127.0.0.1:40002
    thread one tid=10
    0 c0 idle started
    0 c0 idle switch one
    5 c0 one/net_rx in ask_b seq=1 len=9
    10 c0 one switch idle blocked call=232:0x3
    AWAKE c0 idle/timer waking one
    AWAKE c0 idle switch one
    50 c0 one/net_rx in ask_a seq=1 len=9
    100 c0 one out say_a seq=1 len=9
    200 c0 one out say_b seq=1 len=9
    210 c0 one switch idle blocked call=232:0x3
    210 c0 idle stopped
";

#[test]
fn a_request_that_was_open_while_the_loop_was_idle_did_not_hold_up_another() {
    // `b/b` is open all along: by the connections alone, the thread works for it until `a/a` begins.
    let spans = "b/b 600000..20000000 server\na/a 8000000..10000000 server";
    let found = |awake: &str| arrival_in(&LOOP.replace("AWAKE", awake), spans);
    for awake in ["50", "21"] {
        assert_eq!(found(awake), Some((5_000, Vec::new())), "{awake}");
    }
    // It was awake for 3 ms: it worked, perhaps for `b/b`.
    assert_eq!(found("20"), Some((5_000, vec![("b/b".to_owned(), 3_000)])));
    // It noted its turn.
    let noted = spans.replace("20000000 server", "20000000 server tid=10 turns=5000000..7000000");
    let noted = noted.replace("10000000 server", "10000000 server tid=10 turns=8000000..10000000");
    let found_noted = arrival_in(&LOOP.replace("AWAKE", "50"), &noted);
    assert_eq!(found_noted, Some((5_000, vec![("b/b".to_owned(), 2_000)])));
    // `b/b` came as it awoke.
    let came = LOOP.replace("    5 c0 one/net_rx in ask_b seq=1 len=9\n", "");
    let came = came.replace("    50 c0", "    45 c0 one/net_rx in ask_b seq=1 len=9\n    50 c0");
    let spans = spans.replace("600000..", "4600000..");
    let found = arrival_in(&came.replace("AWAKE", "45"), &spans);
    assert_eq!(found, Some((5_000, vec![("b/b".to_owned(), 3_000)])));
}

/// A loop that takes `b` up at 2,000 µs, or waits once more before `a`, and answers both at about the same time.
const TOGETHER: &str = "
    host web3 realtime=0
    flow ask_a 127.0.0.1:40001 > 127.0.0.1:8080
    flow say_a 127.0.0.1:8080 > 127.0.0.1:40001
    flow ask_b 127.0.0.1:40002 > 127.0.0.1:8080
    flow say_b 127.0.0.1:8080 > 127.0.0.1:40002
    thread one tid=10
    0 c0 idle started
    0 c0 idle switch one
    1 c0 one switch idle blocked call=232:0x3
    20 c0 idle/net_rx in ask_b seq=1 len=9
    20 c0 idle/net_rx waking one
    20 c0 idle switch one
    30 c0 one switch idle blocked call=NUMBER:0x3
    50 c0 idle/net_rx in ask_a seq=1 len=9
    50 c0 idle/net_rx waking one
    50 c0 idle switch one
    60 c0 one switch idle blocked call=232:0x3
    99 c0 idle/timer waking one
    99 c0 idle switch one
    100 c0 one out say_a seq=1 len=9
    101 c0 one out say_b seq=1 len=9
    110 c0 one switch idle blocked call=232:0x3
    110 c0 idle stopped
";

#[test]
fn between_two_answers_at_once_the_data_since_the_loop_was_idle_decide() {
    let arrived = |host: &str, from: u64| {
        let spans = format!("service shop\na/a {from}..10050000 server");
        let made = made(&scaled(100_000, host), &spans);
        let found = made.joined().arrived(made.request("a/a"), made.thread("one"));
        found.map(|at| at.ns() / 1_000)
    };
    let together = TOGETHER.replace("NUMBER", "232");
    assert_eq!(arrived(&together, 5_100_000), Some(5_000));
    // Before this data the only other came.
    assert_eq!(arrived(&together, 2_100_000), Some(2_000));
    // Both came since the loop was idle, or none: `b`'s data may have waited for the turn.
    let at_once = together.replace("20 c0 idle/net_rx in ask_b", "49 c0 idle/net_rx in ask_b");
    assert_eq!(
        arrived(&at_once.replace("20 c0 idle/net_rx waking", "49 c0 idle/timer waking"), 5_100_000),
        None
    );
    // A third came with `a`, and its answer is far behind.
    let third = together
        .replace("50 c0 idle/net_rx in", "50 c0 idle/net_rx in ask_c seq=1 len=9\n    50 c0 idle/net_rx in");
    let third = third
        .replace("110 c0 one switch idle", "118 c0 one out say_c seq=1 len=9\n    130 c0 one switch idle");
    let third = third.replace("110 c0 idle", "130 c0 idle").replace(
        "40002 > 127.0.0.1:8080",
        "40002 > 127.0.0.1:8080
    flow ask_c 127.0.0.1:40003 > 127.0.0.1:8080
    flow say_c 127.0.0.1:8080 > 127.0.0.1:40003",
    );
    assert_eq!(arrived(&third, 5_100_000), Some(5_000));
    // It waited for a lock, not for its set.
    assert_eq!(arrived(&TOGETHER.replace("NUMBER", "202"), 5_100_000), None);
}
