//! Event loops whose turns nobody notes: when their timers are due, by the time-outs of their waits.

use super::*;

/// A wait in `epoll_wait` with this time-out, ms.
fn wait(ms: u32) -> String {
    format!("switch idle blocked call=232:{:#x}", u64::from(ms) << 32 | 3)
}

/// A wait without time-out.
const WITHOUT: u32 = 0x3fff_ffff;

/// `loop` takes `a`'s data up at 20, and waits from 40 on with this time-out, ms; before, it waited with another one. Times in units of 100 us.
fn begin(before: u32, then: u32) -> String {
    format!(
        "host web3 realtime=0
        flow ask_a 127.0.0.1:40001 > 127.0.0.1:8080
        flow say_a 127.0.0.1:8080 > 127.0.0.1:40001
        flow ask_b 127.0.0.1:40002 > 127.0.0.1:8080
        flow say_b 127.0.0.1:8080 > 127.0.0.1:40002
        flow call 127.0.0.1:50000 > 127.0.0.1:5432
        flow syn 127.0.0.1:40009 > 127.0.0.1:8080
        thread loop tid=10
        thread helper tid=12 tgid=10
        0 c0 idle started
        0 c0 idle switch loop
        0 c1 idle switch helper
        8 c1 helper switch idle blocked call=202:0x1000
        10 c0 loop {}
        20 c0 idle/net_rx in ask_a seq=1 len=9
        20 c0 idle/net_rx waking loop
        20 c0 idle switch loop
        40 c0 loop {}
",
        wait(before),
        wait(then)
    )
}

/// `b`'s data end the loop's wait; the loop runs for it until `to`, and waits with this time-out.
fn for_b(from: u64, to: u64, then: u32) -> String {
    format!(
        "{from} c0 idle/net_rx in ask_b seq=1 len=9
        {from} c0 idle/net_rx waking loop
        {from} c0 idle switch loop
        {to} c0 loop {}
",
        wait(then)
    )
}

/// A timer ends the loop's wait.
fn timer(at: u64) -> String {
    format!("{at} c0 idle/timer waking loop\n{at} c0 idle switch loop\n")
}

/// The loop answers `a`.
fn answer(at: u64) -> String {
    format!("{at} c0 loop out say_a seq=1 len=9\n")
}

/// It answers `b` later, and waits.
fn end(at: u64) -> String {
    let wait = wait(WITHOUT);
    format!("{at} c0 loop out say_b seq=1 len=9\n{} c0 loop {wait}\n{} c0 idle stopped\n", at + 5, at + 90)
}

/// The path of `a/a`, which ends with its answer.
fn told(begin: &str, lines: &str, to: u64) -> String {
    let spans = format!(
        "service shop\na/a 2500000..{}00000 server peer=40001\nb/b 30100000..{}00000 server peer=40002\n",
        to + 1,
        to + 9
    );
    short(&path(&made(&scaled(100_000, &format!("{begin}{lines}")), &spans), "a/a").expect("a loop"))
}

fn is_undecided(path: &str) -> bool {
    path.contains("loop unknown ?") && !path.contains("asked") && !path.contains("made")
}

#[test]
fn a_timer_set_in_its_own_turn_explains_the_time_until_it_was_due() {
    // Another request's data come meanwhile, and its turn leaves the timer as it is.
    let lines = for_b(100, 105, 24) + &timer(340) + &answer(342) + &end(345);
    let timer = "40 loop running of a/a; 340 loop timer asked of a/a; 343 loop running of a/a; ";
    for before in [WITHOUT, 5000] {
        assert_eq!(told(&begin(before, 30), &lines, 342), timer);
    }
    // The time-outs are not recorded, the timer stood there before, or another one is due earlier.
    let unknown = begin(WITHOUT, 30).replace("0x3fffffff00000003", "0x3");
    let (later, sooner) = (begin(33, 30), begin(28, 26));
    for (begin, why) in [(unknown, "unknown"), (later, "no new timer"), (sooner, "an earlier timer")] {
        let told = told(&begin, &lines, 342);
        assert!(is_undecided(&told), "{why}: {told}");
    }
    // The timer that stood there before was due in the same turn.
    let old = begin(1, 30).replace("10 c0", "9 c0");
    assert!(is_undecided(&told(&old, &lines, 342)));
}

#[test]
fn another_short_timer_may_be_due_at_about_the_same_time() {
    for (ms, is_known) in [(20, true), (19, false)] {
        let at = 40 + 10 * u64::from(ms);
        let lines = for_b(100, 105, ms - 6) + &timer(at) + &answer(at + 2) + &end(at + 5);
        let path = told(&begin(WITHOUT, ms), &lines, at + 2);
        assert_eq!(is_undecided(&path), !is_known, "{ms}: {path}");
    }
}

#[test]
fn a_timer_is_not_the_answers_reason_unless_it_was_due_in_the_answers_turn() {
    let begin = begin(WITHOUT, 30);
    let undecided = |lines: &str, to, why| {
        let told = told(&begin, lines, to);
        assert!(is_undecided(&told), "{why}: {told}");
    };
    // Another timer ended the last wait: the own one is due later, or was due before, in another turn.
    let other = for_b(100, 105, 10) + &timer(205) + &answer(207) + &end(210);
    undecided(&other, 207, "an earlier timer");
    let since = for_b(100, 105, 24)
        + &timer(340)
        + &format!("345 c0 loop {}\n", wait(10))
        + &timer(445)
        + &answer(447)
        + &end(450);
    undecided(&since, 447, "a later timer");
    let late = for_b(100, 105, 21) + &timer(341) + &answer(343) + &end(346);
    undecided(&late, 343, "an earlier timer ended it late");
    let early = for_b(100, 105, 24) + &timer(310) + &answer(312) + &end(315);
    undecided(&early, 312, "a timer of the kernel's ended it early");
    // It was let go: the loop's next timer is due later.
    let let_go = for_b(100, 105, 50) + &for_b(200, 205, 14) + &timer(345) + &answer(347) + &end(350);
    undecided(&let_go, 347, "let go");
    // A packet, not the time-out, ended the wait right behind the due time.
    let packet = for_b(100, 105, 24) + &for_b(341, 345, 24).replace("ask_b", "ask_c");
    let packet = packet.split("345 c0").next().expect("lines").to_owned() + &answer(343) + &end(345);
    let with_c = begin.replace("flow call", "flow ask_c 127.0.0.1:40003 > 127.0.0.1:8080\nflow call");
    let told = told(&with_c, &packet, 343);
    assert!(is_undecided(&told), "{told}");
}

/// `b`'s data come at 300, and the loop runs for it until it answers `a` at `to`.
fn beside_b(to: u64) -> String {
    let b = for_b(300, 301, 1);
    let data = b.split("301 c0").next().expect("lines");
    for_b(100, 105, 24).replace("ask_b", "syn").replace("seq=1 len=9", "seq=1 len=0")
        + data
        + &answer(to)
        + &end(to + 8)
}

#[test]
fn a_timer_due_while_the_loop_ran_for_another_request_explains_the_time_until_then() {
    let path = told(&begin(WITHOUT, 30), &beside_b(502), 502);
    assert_eq!(path, "40 loop running of a/a; 340 loop timer asked of a/a; 503 loop unknown ? of a/a; ");
    // Due before the loop's last wait ended, or behind the answer; let go meanwhile; the loop's own turn set none.
    for (begin, lines, why) in [
        (begin(WITHOUT, 25), beside_b(502), "due before"),
        (begin(WITHOUT, 60), beside_b(502), "due later"),
        (begin(WITHOUT, 30), beside_b(502).replace(&wait(24), &wait(40)), "let go"),
        (begin(33, 30), beside_b(502), "not its own"),
    ] {
        let told = told(&begin, &lines, 502);
        assert!(is_undecided(&told), "{why}: {told}");
    }
}

/// `a` is answered at `to`, behind the turn that `b`'s data began at 300; nothing else ended a wait, and no timer is due.
fn by_b(to: u64) -> String {
    let b = for_b(300, 301, 1);
    b.split("301 c0").next().expect("lines").to_owned() + &answer(to) + &end(to + 2)
}

const MADE: &str = "40 loop running of a/a; 300 loop network ? below 1 of b/b; 304 loop running; ";

#[test]
fn data_that_alone_ended_an_idle_loops_wait_made_the_answered_request_ready() {
    let idle = begin(WITHOUT, WITHOUT);
    assert_eq!(told(&idle, &by_b(303), 303), MADE);
    assert_eq!(told(&begin(WITHOUT, 100), &by_b(303), 303), MADE, "no timer is due");
    let undecided = |begin: &str, lines: &str, to, why| {
        let told = told(begin, lines, to);
        assert!(is_undecided(&told), "{why}: {told}");
    };
    undecided(&begin(29, 26), &by_b(303), 303, "a timer was due too");
    undecided(&idle.replace("0x3fffffff00000003", "0x3"), &by_b(303), 303, "no time-out is recorded");
    undecided(&idle, &by_b(320), 320, "the loop ran long behind the data");
    let asks = idle.replace("40 c0", "30 c0 loop out call seq=1 len=9\n40 c0");
    undecided(&asks, &by_b(303), 303, "the loop asked somebody, whose answer may have come");
    let helped = by_b(303).replace(
        "303 c0",
        "301 c1 idle switch helper\n302 c1 helper switch idle blocked call=202:0x1000\n303 c0",
    );
    undecided(&idle, &helped, 303, "another thread ran meanwhile");
    let two = by_b(303).replace("303 c0", "301 c0 loop/net_rx in ask_c seq=1 len=9\n303 c0")
        + "394 c0 idle stopped\n";
    let two = two.replace("310 c0 loop switch", "308 c0 loop out say_c seq=1 len=9\n310 c0 loop switch");
    let with_c = idle.replace(
        "flow call",
        "flow ask_c 127.0.0.1:40003 > 127.0.0.1:8080\nflow say_c 127.0.0.1:8080 > 127.0.0.1:40003\nflow call",
    );
    undecided(&with_c, &two.replace("395 c0 idle stopped\n", ""), 303, "a third request's data came behind");
    undecided(
        &idle,
        &by_b(303).replace("c0 idle/net_rx waking", "c0 idle/timer waking"),
        303,
        "a timer ended the wait",
    );
    let other = by_b(303).replace("300 c0 idle/net_rx in ask_b", "299 c1 idle/net_rx in ask_b");
    let other = other.replace(
        "300 c0 idle/net_rx waking",
        "300 c0 idle/net_rx in syn seq=1 len=9\n300 c0 idle/net_rx waking",
    );
    undecided(&idle, &other, 303, "another connection's data ended the wait");
    let other = by_b(303).replace(
        "300 c0 idle/net_rx waking",
        "300 c0 idle/net_rx in syn seq=1 len=9\n300 c0 idle/net_rx waking",
    );
    undecided(&idle, &other, 303, "two connections' data came at once");
    let before = by_b(303).replace(
        "300 c0 idle/net_rx in ask_b",
        "300 c0 idle/net_rx in syn seq=1 len=9\n300 c0 idle/net_rx in ask_b",
    );
    undecided(&idle, &before, 303, "two connections' data came at once, its own last");
}

#[test]
fn the_other_request_is_the_single_one_that_its_service_began_then() {
    let path = |spans: &str| {
        let hosts = format!("{}{}", begin(WITHOUT, WITHOUT), by_b(303));
        let spans = format!("service shop\na/a 2500000..30400000 server peer=40001\n{spans}");
        short(&path(&made(&scaled(100_000, &hosts), &spans), "a/a").expect("a loop"))
    };
    assert_eq!(path("b/b 30100000..31200000 server\n"), MADE, "its thread is not known");
    for (spans, why) in [
        ("", "it has no span"),
        ("b/b 29800000..31200000 server\n", "it began before its data came"),
        ("b/b 30400000..31200000 server\n", "it began behind the answer"),
        ("b/b 30100000..31200000\n", "it is no server's"),
        ("service web\nb/b 30100000..31200000 server\n", "it is another service's"),
        ("b/b 30100000..31200000 server tid=12\n", "it is another thread's"),
        ("b/b 30100000..31200000 server\nc/c 30100000..31300000 server\n", "there are two"),
    ] {
        let told = path(spans);
        assert!(is_undecided(&told), "{why}: {told}");
    }
    // JavaScript's whole milliseconds.
    let hosts = format!("{}{}", begin(WITHOUT, WITHOUT), by_b(303));
    let spans = "service shop language=nodejs\na/a 1500000..30400000 server peer=40001\nb/b 29100000..31000000 server\n";
    let told = short(&self::path(&made(&scaled(100_000, &hosts), spans), "a/a").expect("a loop"));
    assert_eq!(told, "20 loop network ? of a/a; ".to_owned() + MADE);
}

/// Timers of the loop before `a`, and the time-out of the wait behind each, ms: a tick each 10 ms.
const TICKS: [(u64, u32); 4] = [(110, 10), (210, 10), (310, 10), (410, 10)];

/// The loop's timers before `a`, whose data come at 440; its first wait behind `a`'s turn, and those behind the ticks at 510 and 611, have these
/// time-outs.
fn ticking(before: &[(u64, u32)], then: [u32; 3]) -> String {
    let begin = begin(10, then[0]);
    let (head, rest) = begin.split_once("20 c0").expect("its data");
    let mut lines = head.to_owned();
    for (at, ms) in before {
        lines += &format!("{}{} c0 loop {}\n", timer(*at), at + 1, wait(*ms));
    }
    for line in format!("20 c0{rest}").lines() {
        let (at, rest) = line.trim().split_once(' ').expect("words");
        lines += &format!("{} {rest}\n", at.parse::<u64>().expect("a time") + 420);
    }
    lines
        + &format!("{}{} c0 loop {}\n", timer(510), 511, wait(then[1]))
        + &format!("{}{} c0 loop {}\n", timer(611), 612, wait(then[2]))
}

/// `context` ends the loop's wait at this time, and it waits again.
fn accepts(at: u64, context: &str) -> String {
    format!("{at} c0 idle/{context} waking loop\n{at} c0 idle switch loop\n{} c0 loop {}\n", at + 1, wait(2))
}

/// `a` is answered behind `b`'s data at 700.
fn behind(lines: &str) -> String {
    let b = for_b(700, 701, 1);
    let lines = format!("{lines}{}{}{}", b.split("701 c0").next().expect("lines"), answer(703), end(705));
    let spans =
        "service shop\na/a 44500000..70400000 server peer=40001\nb/b 70100000..71200000 server peer=40002\n";
    short(&path(&made(&scaled(100_000, &lines), spans), "a/a").expect("a loop"))
}

const BEHIND_TICKS: &str = "460 loop running of a/a; 700 loop network ? below 1 of b/b; 704 loop running; ";

#[test]
fn ticks_as_before_the_request_are_not_its_turns() {
    let ticks = ticking(&TICKS, [5, 10, 10]);
    assert_eq!(behind(&ticks), BEHIND_TICKS);
    // Another timer is due before the next tick, or none is.
    for then in [[5, 6, 10], [5, 10, 14], [5, 20, 10], [5, WITHOUT, 10]] {
        let told = behind(&ticking(&TICKS, then));
        assert!(is_undecided(&told), "{then:?}: {told}");
    }
    let came =
        ticks.replace("510 c0 idle/timer", "510 c0 idle/net_rx in syn seq=1 len=9\n510 c0 idle/net_rx");
    assert!(is_undecided(&behind(&came)), "data, no tick, ended a wait");
}

#[test]
fn a_ticker_has_three_ticks_among_the_loops_last_timers() {
    let path = |before: &[(u64, u32)]| behind(&ticking(before, [5, 10, 10]));
    // Another timer was due between two ticks.
    assert_eq!(path(&[(110, 10), (210, 10), (310, 5), (360, 5), (410, 10)]), BEHIND_TICKS);
    let two = path(&[(110, 5), (160, 5), (210, 5), (260, 5), (310, 10), (410, 10)]);
    assert!(is_undecided(&two), "{two}");
    // Data ended its last waits.
    let mut busy = ticking(&TICKS, [5, 10, 10]);
    let data: String =
        (0..9).map(|nth| accepts(412 + 2 * nth, "net_rx").replace(&wait(2), &wait(5))).collect();
    busy = busy.replacen("440 c0", &format!("{data}440 c0"), 1);
    assert_eq!(behind(&busy), BEHIND_TICKS);
}

#[test]
fn a_connection_accepted_right_before_its_data_came_is_the_other_requests() {
    let ticks = ticking(&TICKS, [5, 10, 10]);
    assert_eq!(behind(&format!("{ticks}{}", accepts(695, "net_rx"))), BEHIND_TICKS);
    let shaken =
        accepts(695, "net_rx").replacen("695 c0", "695 c0 idle/net_rx in syn seq=1 len=0\n695 c0", 1);
    assert_eq!(behind(&format!("{ticks}{shaken}")), BEHIND_TICKS, "the handshake's last packet");
    let data = accepts(695, "net_rx").replacen("695 c0", "695 c0 idle/net_rx in syn seq=1 len=9\n695 c0", 1);
    let data = behind(&format!("{ticks}{}", data.replace("waking loop", "waking loop socket=syn")));
    assert!(is_undecided(&data), "another connection's data: {data}");
    for (at, context, why) in [(680, "timer", "a timer"), (640, "net_rx", "long before")] {
        let told = behind(&format!("{ticks}{}", accepts(at, context).replace(&wait(2), &wait(10))));
        assert!(is_undecided(&told), "{why}: {told}");
    }
    // Its data came as the loop accepted it.
    let idle = |from: u64, to: u64| {
        let lines = by_b(303)
            .replace("300 c0 idle/net_rx in ask_b seq=1 len=9\n", "")
            .replace("300 c0", &format!("{from} c0"));
        let lines = lines.replace("303 c0", "300 c0 loop/net_rx in ask_b seq=1 len=9\n303 c0");
        told(&begin(WITHOUT, WITHOUT), &lines.replace("303 c0 loop out", &format!("{to} c0 loop out")), to)
    };
    assert_eq!(idle(298, 303), MADE.replace("300 loop network ?", "298 loop network made"));
    let long = idle(260, 303);
    assert!(is_undecided(&long), "long before its data: {long}");
    let off = ticking(&TICKS, [5, 10, 14]);
    assert!(
        is_undecided(&behind(&format!("{off}{}", accepts(695, "net_rx")))),
        "the last wait before was no tick's"
    );
}

#[test]
fn a_timer_from_before_the_request_is_not_its_own() {
    let lines = timer(340) + &answer(342) + &end(345).replace("345 c0 loop out say_b seq=1 len=9\n", "");
    let own = "40 loop running of a/a; 340 loop timer next of a/a; 343 loop running of a/a; ";
    assert_eq!(told(&begin(WITHOUT, 30), &lines, 342), own);
    assert_eq!(told(&begin(WITHOUT, WITHOUT), &lines, 342), own, "a timer descriptor");
    assert_eq!(told(&begin(40, 30), &lines, 342), own, "another timer is due later");
    assert!(is_undecided(&told(&begin(33, 30), &lines, 342)));
}

/// `b`'s data come at 4, and in its turn the loop's next timer becomes due at 308; `a` is answered behind it.
fn by_timer(set: u32, then: u32) -> String {
    let head = begin(WITHOUT, then);
    let b = format!(
        "0 c0 idle switch loop
        1 c0 loop {}
        4 c0 idle/net_rx in ask_b seq=1 len=9
        4 c0 idle/net_rx waking loop
        4 c0 idle switch loop
",
        wait(WITHOUT)
    );
    let lines = head
        .replacen("0 c0 idle switch loop\n", &b, 1)
        .replace(&format!("10 c0 loop {}", wait(WITHOUT)), &format!("10 c0 loop {}", wait(set)));
    let lines: String = {
        let mut lines: Vec<&str> = lines.lines().map(str::trim).collect();
        lines.sort_by_key(|line| line.split(' ').next().and_then(|at| at.parse::<i64>().ok()).unwrap_or(-1));
        lines.join("\n") + "\n"
    };
    lines
        + &timer(308)
        + "309 c0 loop out say_b seq=1 len=9\n"
        + &answer(310)
        + &format!("314 c0 loop {}\n390 c0 idle stopped\n", wait(WITHOUT))
}

/// The path of `a/a`, with `b/b` before it.
fn timed(hosts: &str) -> String {
    let spans =
        "service shop\na/a 2500000..31100000 server peer=40001\nb/b 500000..31000000 server peer=40002\n";
    short(&path(&made(&scaled(100_000, hosts), spans), "a/a").expect("a loop"))
}

#[test]
fn another_requests_timer_that_alone_ended_an_idle_loops_wait_made_the_answered_request_ready() {
    let hosts = by_timer(30, 27);
    let made = "40 loop running of a/a; 308 loop timer made below 1 of b/b; 311 loop running; ";
    assert_eq!(timed(&hosts), made);
    let undecided = |hosts: &str, why| {
        let told = timed(hosts);
        assert!(is_undecided(&told), "{why}: {told}");
    };
    let before = hosts.replacen(&wait(WITHOUT), &wait(31), 1);
    undecided(&before, "the timer stood there before `b`");
    undecided(
        &hosts
            .replace("309 c0 loop out say_b seq=1 len=9\n", "")
            .replace("40 c0 loop", "39 c0 loop out say_b seq=1 len=9\n40 c0 loop"),
        "`b` was answered before",
    );
    undecided(&by_timer(20, 27), "`b`'s timer was another");
    undecided(&hosts.replace("308 c0 idle/timer", "308 c0 idle/net_rx"), "no timer ended the wait");
    let disturbed = hosts.replace("\n10 c0 loop", "\n9 c0 loop/net_rx in ask_c seq=1 len=9\n10 c0 loop");
    let disturbed = disturbed.replace(
        "flow call",
        "flow ask_c 127.0.0.1:40003 > 127.0.0.1:8080\nflow say_c 127.0.0.1:8080 > 127.0.0.1:40003\nflow call",
    );
    let disturbed = disturbed.replace("314 c0", "312 c0 loop out say_c seq=1 len=9\n314 c0");
    undecided(&disturbed, "another request's data came in `b`'s turn");
    // Its data came as the loop accepted its connection.
    let accepts = hosts
        .replace("4 c0 idle/net_rx in ask_b seq=1 len=9\n", "")
        .replace("\n10 c0 loop", "\n5 c0 loop/net_rx in ask_b seq=1 len=9\n10 c0 loop");
    assert_eq!(timed(&accepts), made);
    let running = hosts
        .replace(
            "4 c0 idle/net_rx in ask_b",
            "2 c0 idle/timer waking loop\n2 c0 idle switch loop\n3 c0 loop/net_rx in ask_b",
        )
        .replace(
            "4 c0 idle/net_rx waking loop",
            &format!("4 c0 loop {}\n5 c0 idle/timer waking loop", wait(WITHOUT)),
        )
        .replace("4 c0 idle switch", "5 c0 idle switch");
    undecided(&running, "`b`'s data came as the loop ran");
}

#[test]
fn a_timer_set_behind_its_own_questions_answer_explains_the_rest() {
    let begin = begin(WITHOUT, 100).replace("40 c0 loop", "30 c0 loop out call seq=1 len=9\n40 c0 loop");
    let begin = begin.replace("flow syn", "flow back 127.0.0.1:5432 > 127.0.0.1:50000\nflow syn");
    let lines =
        "60 c0 idle/net_rx in ask_b seq=1 len=9\n60 c0 idle/net_rx waking loop\n60 c0 idle switch loop\n"
            .to_owned()
            + &format!("65 c0 loop {}\n", wait(98))
            + "100 c0 idle/net_rx in back seq=1 len=9\n100 c0 idle/net_rx waking loop\n100 c0 idle switch loop\n"
            + &format!("105 c0 loop {}\n", wait(24))
            + &timer(345)
            + &answer(347)
            + &end(350);
    assert_eq!(
        told(&begin, &lines, 347),
        "40 loop running of a/a; 100 loop network ? of a/a; 105 loop running of a/a; 345 loop timer asked of a/a; 348 loop running of a/a; "
    );
}

#[test]
fn its_own_questions_answer_may_have_been_a_turn_before_its_timer() {
    // No other request is open, and no time-out is recorded.
    let begin = begin(1, 1).replace("flow syn", "flow back 127.0.0.1:5432 > 127.0.0.1:50000\nflow syn");
    let begin = begin.replace("0x100000003", "0x3");
    let lines =
        "100 c0 idle/net_rx in back seq=1 len=9\n100 c0 idle/net_rx waking loop\n100 c0 idle switch loop\n"
            .to_owned()
            + "105 c0 loop switch idle blocked call=232:0x3\n"
            + &timer(345)
            + &answer(347)
            + "350 c0 loop switch idle blocked call=232:0x3\n390 c0 idle stopped\n";
    assert_eq!(
        told(&begin, &lines, 347),
        "40 loop running of a/a; 105 loop unknown ? of a/a; 345 loop timer next of a/a; 348 loop running of a/a; "
    );
}
