//! Requests' threads by connection and time.

use super::*;
use crate::JoinedBy;
use crate::testing::{Made, at, made, scaled};

/// A server with two threads and a connection for each: `one` answers data from 500 µs at 6,100 µs, `two` answers data from 800 µs at 5,100
/// µs. Times in units of 100 µs.
const SERVER: &str = "
    host web3 realtime=0
    flow ask_a 127.0.0.1:40001 > 127.0.0.1:8080
    flow say_a 127.0.0.1:8080 > 127.0.0.1:40001
    flow ask_b 127.0.0.1:40002 > 127.0.0.1:8080
    flow say_b 127.0.0.1:8080 > 127.0.0.1:40002
    thread one tid=10
    thread two tid=11 tgid=10
    0 c0 idle started
    0 c0 idle switch one
    0 c1 idle switch two
    5 c0 one/net_rx in ask_a seq=1 len=9
    8 c1 two/net_rx in ask_b seq=1 len=9
    51 c1 two out say_b seq=1 len=9
    61 c0 one out say_a seq=1 len=9
    70 c0 one switch idle blocked call=35:0
    70 c1 two switch idle blocked call=35:0
    70 c0 idle stopped
";

/// Each request's thread by its connection; `-` where not known.
fn threads(made: &Made) -> String {
    let joined = made.joined();
    let requests = (0..).map(RequestIndex).zip(&made.traced.requests.requests);
    let texts = requests.map(|(request, _)| {
        let thread = joined.connections.thread(request);
        assert_eq!(thread.is_some(), joined.joined_by(request) == JoinedBy::Connection);
        format!("{}:{}", made.root(request), thread.map_or("-".into(), |thread| made.name(thread)))
    });
    texts.collect::<Vec<_>>().join(" ")
}

#[test]
fn the_thread_that_answers_next_to_the_end_of_a_servers_span_has_its_request() {
    for (spans, expected) in [
        ("a/a 600000..6000000 server\nb/b 900000..5000000 server", "a/a:one b/b:two"),
        // Two kinds of spans that answer no call, and a span whose thread is known.
        ("a/a 600000..6000000 client", "a/a:-"),
        ("a/a 600000..6000000", "a/a:-"),
        ("a/a 600000..6000000 server tid=11", "a/a:-"),
        ("a/a 600000..600000 server", "a/a:-"),
        ("a/a 5000000..5000000 server\nb/b 600000..6000000 server", "b/b:one a/a:-"),
        // The question of `two` came behind its beginning, which leaves `one`.
        ("a/a 700000..5600000 server", "a/a:one"),
        // Both began before, and both answers are as far from the end, to 20 µs.
        ("a/a 900000..5600000 server", "a/a:-"),
        ("a/a 900000..5590000 server", "a/a:-"),
        // 331 µs, and 669 µs: nearly twice as far, and 20 µs.
        ("a/a 900000..5431000 server", "a/a:-"),
        ("a/a 900000..5420000 server", "a/a:two"),
        // The client's port is a connection's, and none's.
        ("a/a 900000..5600000 server peer=40001", "a/a:one"),
        ("a/a 900000..5600000 server peer=40002", "a/a:two"),
        ("a/a 900000..5431000 server peer=40001", "a/a:one"),
        ("a/a 900000..5600000 server peer=40003", "a/a:-"),
        ("a/a 900000..5420000 server peer=40003", "a/a:two"),
        // The data on its connection came behind its beginning.
        ("a/a 700000..5600000 server peer=40002", "a/a:one"),
        // It ended long before the answer.
        ("a/a 600000..1000000 server", "a/a:-"),
        // It is shorter than the time to the only answer.
        ("a/a 5000000..5001000 server", "a/a:-"),
        // Two spans lie beside an exchange: the nearer span has it, and neither does where both are equally near.
        ("a/a 600000..6000000 server\nc/c 700000..5700000 server", "a/a:one c/c:-"),
        ("a/a 600000..6000000 server\nc/c 700000..6000000 server", "a/a:- c/c:-"),
    ] {
        let made = made(&scaled(100_000, SERVER), &format!("service shop\n{spans}"));
        assert_eq!(threads(&made), expected, "{spans}");
    }
}

#[test]
fn a_go_programs_request_has_no_thread_by_its_connection() {
    for (language, expected) in [("python", "a/a:one"), ("go", "a/a:-"), ("klingon", "a/a:one")] {
        let spans = format!("service shop language={language}\na/a 600000..6000000 server");
        assert_eq!(threads(&made(&scaled(100_000, SERVER), &spans)), expected, "{language}");
    }
}

#[test]
fn javascripts_span_may_begin_a_millisecond_before_its_data_came() {
    // The data of `one` come at 1,500 µs.
    let later = SERVER.replace("5 c0 one/net_rx", "15 c0 one/net_rx");
    for (from, python, node) in
        [(1_500_000, "one", "one"), (1_499_998, "two", "one"), (500_000, "-", "one"), (499_999, "-", "two")]
    {
        let found = ["python", "nodejs"].map(|language| {
            let spans = format!("service shop language={language}\na/a {from}..6000000 server peer=40001");
            threads(&made(&scaled(100_000, &later), &spans))
        });
        assert_eq!(found, [python, node].map(|thread| format!("a/a:{thread}")), "{from}");
    }
}

#[test]
fn a_request_belongs_to_a_thread_of_its_host_and_its_process() {
    let other = SERVER.replace("web3 realtime=0", "db1 realtime=100000000000");
    let both = format!("{SERVER}{other}");
    let span = "a/a 600000..6000000 server";
    let there = "a/a 100000600000..100006000000 server";
    for (service, span, hosts, expected) in [
        ("pid=10", span, SERVER, "one"),
        ("pid=77", span, SERVER, "-"),
        ("host=db7", span, SERVER, "-"),
        ("host=web3", span, &*both, "one"),
        ("host=db1", there, &*both, "one"),
        ("host=db1", span, &*both, "-"),
    ] {
        let made = made(&scaled(100_000, hosts), &format!("service shop {service}\n{span}"));
        assert_eq!(threads(&made), format!("a/a:{expected}"), "{service} {span}");
        if let (true, Some(thread)) = (hosts == both, made.joined().connections.thread(RequestIndex(0))) {
            let host = made.recorded.graph.thread(thread).tid().host();
            assert_eq!(host.0, u16::from(service == "host=db1"), "{service}");
        }
    }
}

#[test]
fn only_a_port_at_which_others_call_answers() {
    let client = SERVER.replace(":40001", ":80").replace(":8080", ":40009");
    // Its handshake shows the caller, whatever the ports are.
    let syn = client.replace(
        "5 c0 one/net_rx in ask_a",
        "4 c0 one/net_rx in ask_a seq=1 len=0 flags=2\n5 c0 one/net_rx in ask_a",
    );
    for (hosts, expected) in [(&*client, "a/a:-"), (&*syn, "a/a:one")] {
        let made = made(&scaled(100_000, hosts), "service shop\na/a 600000..6000000 server");
        assert_eq!(threads(&made), expected, "{hosts}");
    }
}

fn fit(gap_ns: u64, thread: u32) -> Fit {
    Fit { place: 0, gap_ns, before_ns: 0, thread: ThreadIndex(thread) }
}

#[test]
fn the_nearest_answer_is_clear_where_each_other_thread_answered_twice_as_far_and_20_us() {
    let same = |one: &Fit, other: &Fit| one.thread == other.thread;
    for (gaps, expected) in [
        (&[][..], None),
        (&[(500, 1)], Some(500)),
        (&[(0, 1), (19_999, 2)], None),
        (&[(0, 1), (20_000, 2)], Some(0)),
        (&[(1_000, 1), (21_999, 2)], None),
        (&[(1_000, 1), (22_000, 2)], Some(1_000)),
        (&[(100_000, 1), (219_999, 2)], None),
        (&[(100_000, 1), (220_000, 2)], Some(100_000)),
        // Another answer from the same thread leads to the same result.
        (&[(0, 1), (10, 1), (20_000, 2)], Some(0)),
        (&[(0, 1), (10, 1), (19_999, 2)], None),
        (&[(u64::MAX, 1), (u64::MAX, 2)], Some(u64::MAX)),
    ] {
        let fits: Vec<_> = gaps.iter().map(|&(gap, thread)| fit(gap, thread)).collect();
        assert_eq!(clear(&fits, same).map(|fit| fit.gap_ns), expected, "{gaps:?}");
    }
    assert!(clear(&[fit(0, 1), fit(10, 1)], |_, _| false).is_none(), "two takers of one answer");
}

#[test]
fn a_thread_worked_for_a_request_while_it_had_no_other_one() {
    for (asked, expected) in [
        (&[(1, 10, 20)][..], &[(1, 10, 20, 0)][..]),
        (&[(1, 10, 20), (1, 20, 30)], &[(1, 10, 20, 0), (1, 20, 30, 1)]),
        (&[(1, 10, 20), (2, 15, 30)], &[(1, 10, 20, 0), (2, 15, 30, 1)]),
        // Both from 15 to 20.
        (&[(1, 10, 20), (1, 15, 30)], &[(1, 10, 15, 0), (1, 20, 30, 1)]),
        // A request within another: behind it, nothing shows whether the outer request goes on.
        (&[(1, 10, 40), (1, 20, 30)], &[(1, 10, 20, 0)]),
        (&[(1, 10, 40), (1, 20, 30), (1, 50, 60)], &[(1, 10, 20, 0), (1, 50, 60, 2)]),
        (&[(1, 10, 20), (1, 10, 20)], &[]),
    ] {
        let found = asked.iter().zip(0..).map(|(&(thread, from, to), number)| {
            let (root, request) = (SpanIndex(number), RequestIndex(number));
            (ThreadIndex(thread), Asked { request, root, from: at(from), to: at(to), peer: None })
        });
        let stints = alone(found.collect());
        let stints: Vec<_> =
            stints.iter().map(|one| (one.thread.0, one.from.ns(), one.to.ns(), one.span.0)).collect();
        assert_eq!(stints, expected, "{asked:?}");
    }
}

#[test]
fn an_exchange_fits_that_was_asked_before_the_span_and_answered_within_it_or_little_later() {
    let flow =
        made(&scaled(100_000, SERVER), "").recorded.graph.exchanges().next().expect("an exchange").flow;
    let exchange = |asked, answered, thread| Exchange {
        flow,
        opened: None,
        asked: at(asked),
        answered: at(answered),
        thread: ThreadIndex(thread),
    };
    let ms = 1_000_000;
    let asked = Asked {
        request: RequestIndex(0),
        root: SpanIndex(0),
        from: at(10 * ms),
        to: at(12 * ms),
        peer: None,
    };
    for (one, expected) in [
        (exchange(9 * ms, 12 * ms, 1), Some((0, ms))),
        (exchange(9 * ms, 11 * ms, 1), Some((ms, ms))),
        // It is as late as the span is long.
        (exchange(9 * ms, 14 * ms, 1), Some((2 * ms, ms))),
        (exchange(9 * ms, 14 * ms + 1, 1), None),
        // Answered before it began, or asked after its beginning, but for the time unit.
        (exchange(9 * ms, 10 * ms, 1), None),
        (exchange(9 * ms, 10 * ms + 1, 1), Some((2 * ms - 1, ms))),
        (exchange(10 * ms + 1_000, 12 * ms, 1), Some((0, 0))),
        (exchange(10 * ms + 1_001, 12 * ms, 1), None),
        // Not a thread of the process.
        (exchange(9 * ms, 12 * ms, 7), None),
    ] {
        let fits = fits(&[one], &asked, 1_000, &mut |one| one.thread != ThreadIndex(7));
        let found = fits.first().map(|fit| (fit.gap_ns, fit.before_ns));
        assert_eq!(found, expected, "{one:?}");
    }
    let short = Asked { to: at(10 * ms + 1), ..asked };
    for (answered, expected) in [(11 * ms + 1, true), (11 * ms + 2, false)] {
        let fits = fits(&[exchange(9 * ms, answered, 1)], &short, 1, &mut |_| true);
        assert_eq!(!fits.is_empty(), expected, "an answer is a millisecond late, or more: {answered}");
    }
    // The nearest first, and 64 on each side of the end.
    let many: Vec<_> = (0..200).map(|nth| exchange(9 * ms, 11 * ms + nth * 10_000, 1)).collect();
    let fits = fits(&many, &asked, 1, &mut |_| true);
    assert_eq!((fits.len(), fits[0].gap_ns, fits[0].place), (128, 0, 100));
    assert_eq!(fits.iter().map(|fit| fit.place).min(), Some(37));
    assert!(fits.windows(2).all(|pair| pair[0].gap_ns <= pair[1].gap_ns));
}

#[test]
fn the_port_of_a_service_is_that_whose_exchanges_lie_nearest_to_its_requests() {
    let near = scaled(100_000, SERVER);
    // The process answers at another port too, a millisecond off.
    let far = "flow ask_f 127.0.0.1:40003 > 127.0.0.1:80\nflow say_f 127.0.0.1:80 > 127.0.0.1:40003\nthread front tid=20";
    let hosts = scaled(100_000,
        &SERVER
            .replace("thread one", &format!("{far}\nthread one"))
            .replace("5 c0 one/net_rx", "4 c0 one/net_rx in ask_f seq=1 len=9\n5 c0 one/net_rx")
            .replace("70 c0 one switch idle", "66 c0 one switch front blocked call=35:0\n68 c0 front out say_f seq=1 len=9\n70 c0 front switch idle"),
    );
    for (hosts, spans, expected) in [
        (&near, "a/a 600000..6000000 server", "a/a:one"),
        (&hosts, "a/a 600000..6000000 server", "a/a:one"),
        (&hosts, "a/a 410000..6790000 server", "a/a:front"),
    ] {
        let made = made(hosts, &format!("service shop\n{spans}"));
        assert_eq!(threads(&made), expected, "{spans}");
    }
}

#[test]
fn the_nearest_port_has_the_least_sum_of_the_times_before_and_behind_its_requests() {
    let flow =
        made(&scaled(100_000, SERVER), "").recorded.graph.exchanges().next().expect("an exchange").flow;
    let exchange = |asked, answered| Exchange {
        flow,
        opened: None,
        asked: at(asked),
        answered: at(answered),
        thread: ThreadIndex(1),
    };
    let request = |from, to| Asked {
        request: RequestIndex(0),
        root: SpanIndex(0),
        from: at(from),
        to: at(to),
        peer: None,
    };
    let all = [request(10_000, 20_000)];
    for (ports, expected) in [
        // 10 behind and 1,000 before are further than 200 and 100.
        (&[(9_000, 20_010), (9_900, 20_200)][..], Some(1)),
        (&[(9_900, 20_200), (9_000, 20_010)], Some(0)),
        (&[(9_990, 20_000), (9_900, 20_000)], Some(0)),
        // The distance is the request's length, and a nanosecond less.
        (&[(5_000, 25_000)], None),
        (&[(5_000, 24_999)], Some(0)),
        (&[(5_000, 25_000), (5_001, 25_000)], Some(1)),
        // Asked behind its beginning.
        (&[(15_000, 20_000), (9_000, 21_000)], Some(1)),
        (&[], None),
    ] {
        let exchanges: Vec<_> =
            ports.iter().map(|&(asked, answered)| vec![exchange(asked, answered)]).collect();
        let found = nearest(exchanges.iter(), &all, 1, &mut |_| true);
        let found = found.map(|found| exchanges.iter().position(|one| one[0].asked == found[0].asked));
        assert_eq!(found, expected.map(Some), "{ports:?}");
    }
}
