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
    let other = by_b(303).replace(
        "300 c0 idle/net_rx waking",
        "300 c0 idle/net_rx in syn seq=1 len=9\n300 c0 idle/net_rx waking",
    );
    undecided(&idle, &other, 303, "two connections' data came at once");
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

/// The loop ticks each 10 ms, four times before `a`; its first wait behind `a`'s turn, and each wait behind a tick, has this time-out.
fn ticking(then: [u32; 3]) -> String {
    let begin = begin(10, then[0]);
    let (head, rest) = begin.split_once("10 c0 loop").expect("a wait");
    let rest = rest.split_once("20 c0").expect("its data").1;
    let mut lines = format!("{head}10 c0 loop {}\n", wait(10));
    // The trace begins anew in front of the ticks.
    for tick in 1..=4 {
        let at = 10 + 101 * tick - tick;
        lines += &format!("{}{} c0 loop {}\n", timer(at), at + 1, wait(10));
    }
    let moved = |text: &str| {
        let line = |line: &str| {
            let (at, rest) = line.trim().split_once(' ').expect("words");
            format!("{} {rest}\n", at.parse::<u64>().expect("a time") + 420)
        };
        text.lines().filter(|line| !line.trim().is_empty()).map(line).collect::<String>()
    };
    lines
        + &moved(&format!("20 c0{rest}"))
        + &format!("{}{} c0 loop {}\n", timer(510), 511, wait(then[1]))
        + &format!("{}{} c0 loop {}\n", timer(611), 612, wait(then[2]))
}

/// `a` is answered behind `b`'s data at 700; the loop accepted `b`'s connection at 695.
fn behind_ticks(then: [u32; 3], accepts: bool) -> String {
    let mut lines = ticking(then);
    if accepts {
        lines += &format!(
            "695 c0 idle/net_rx in syn seq=1 len=0\n695 c0 idle/net_rx waking loop\n695 c0 idle switch loop\n696 c0 loop {}\n",
            wait(2)
        );
    }
    let b = for_b(700, 701, 1);
    lines += b.split("701 c0").next().expect("lines");
    lines += &(answer(703) + &end(705));
    let spans =
        "service shop\na/a 44500000..70400000 server peer=40001\nb/b 70100000..71200000 server peer=40002\n";
    short(&path(&made(&scaled(100_000, &lines), spans), "a/a").expect("a loop"))
}

#[test]
fn ticks_as_before_the_request_are_not_its_turns() {
    let made = "460 loop running of a/a; 700 loop network ? below 1 of b/b; 704 loop running; ";
    for accepts in [false, true] {
        assert_eq!(behind_ticks([5, 10, 10], accepts), made, "{accepts}");
        // Another timer is due before the next tick, or none is.
        for then in [[5, 6, 10], [5, 10, 14], [5, 20, 10], [5, WITHOUT, 10]] {
            let told = behind_ticks(then, accepts);
            assert!(is_undecided(&told), "{then:?} {accepts}: {told}");
        }
    }
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
    let disturbed = hosts.replace("10 c0 loop", "9 c0 loop/net_rx in ask_c seq=1 len=9\n10 c0 loop");
    let disturbed = disturbed.replace(
        "flow call",
        "flow ask_c 127.0.0.1:40003 > 127.0.0.1:8080\nflow say_c 127.0.0.1:8080 > 127.0.0.1:40003\nflow call",
    );
    let disturbed = disturbed.replace("314 c0", "312 c0 loop out say_c seq=1 len=9\n314 c0");
    undecided(&disturbed, "another request's data came in `b`'s turn");
}
