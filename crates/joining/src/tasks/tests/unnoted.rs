//! Event loops whose turns nobody notes: their requests are known by their connections.

use super::*;

/// `loop` takes `a`'s data up at 20, and waits from 40 on. Times in units of 100 us.
const BEGIN: &str = "
    host web3 realtime=0
    flow ask_a 127.0.0.1:40001 > 127.0.0.1:8080
    flow say_a 127.0.0.1:8080 > 127.0.0.1:40001
    flow ask_b 127.0.0.1:40002 > 127.0.0.1:8080
    flow say_b 127.0.0.1:8080 > 127.0.0.1:40002
    thread loop tid=10
    thread peer tid=11 tgid=10
    0 c0 idle started
    0 c0 idle switch loop
    0 c1 idle switch peer
    10 c0 loop switch idle blocked call=232:0x3
    20 c0 idle/net_rx in ask_a seq=1 len=9
    20 c0 idle/net_rx waking loop
    20 c0 idle switch loop
    40 c0 loop switch idle blocked call=232:0x3
";
/// A timer ends the last wait, and the loop answers `a`.
const BY_TIMER: &str = "
    300 c0 idle/timer waking loop
    300 c0 idle switch loop
    305 c0 loop out say_a seq=1 len=9
";
const END: &str = "
    320 c0 loop switch idle blocked call=232:0x3
    330 c0 idle stopped
";
const SPAN: &str = "a/a 2500000..31000000 server\n";

/// The path of `a/a` with these lines between the loop's first wait and the end.
fn told(lines: &str, spans: &str) -> Option<String> {
    let hosts = scaled(100_000, &format!("{BEGIN}{lines}{END}"));
    let path = path(&made(&hosts, &format!("service shop\n{SPAN}{spans}")), "a/a");
    path.map(|path| short(&path))
}

/// `b`'s data come at `from`, end the loop's wait, and are answered at `answered`; the loop waits again from `to` on.
fn other(from: u64, answered: u64, to: u64) -> String {
    format!(
        "{from} c0 idle/net_rx in ask_b seq=1 len=9
        {from} c0 idle/net_rx descriptor loop 6
        {from} c0 idle/net_rx waking loop
        {from} c0 idle switch loop
        {answered} c0 loop out say_b seq=1 len=9
        {to} c0 loop switch idle blocked call=232:0x3\n"
    )
}

#[test]
fn the_wait_before_the_answer_is_for_its_timer_if_no_other_request_was_open() {
    let timer = "40 loop running of a/a; 300 loop timer next of a/a; 310 loop running of a/a; ";
    assert_eq!(told(BY_TIMER, "").as_deref(), Some(timer));
    // A short request in between, and a tick, explain nothing.
    assert_eq!(told(&(other(100, 102, 105) + BY_TIMER), "").as_deref(), Some(timer));
    let tick = "
        100 c0 idle/timer waking loop
        100 c0 idle switch loop
        101 c0 loop switch idle blocked call=232:0x3\n";
    assert_eq!(told(&format!("{tick}{BY_TIMER}"), "").as_deref(), Some(timer));
}

#[test]
fn a_request_that_is_open_as_the_wait_ends_may_have_made_this_one_ready() {
    // `b` is answered behind `a`, or before it in the same run.
    for answered in [307, 303] {
        let open = "
            100 c0 idle/net_rx in ask_b seq=1 len=9
            100 c0 idle/net_rx waking loop
            100 c0 idle switch loop
            105 c0 loop switch idle blocked call=232:0x3
            300 c0 idle/timer waking loop
            300 c0 idle switch loop\n";
        let [first, second] = if answered > 305 { ["a", "b"] } else { ["b", "a"] };
        let at = [305.min(answered), 305.max(answered)];
        let answers = format!(
            "{} c0 loop out say_{first} seq=1 len=9\n{} c0 loop out say_{second} seq=1 len=9\n",
            at[0], at[1]
        );
        let until = if answered > 305 { 300 } else { 303 };
        assert_eq!(
            told(&format!("{open}{answers}"), "").unwrap(),
            format!("40 loop running of a/a; {until} loop unknown ? of a/a; 310 loop running of a/a; ")
        );
    }
}

#[test]
fn before_a_long_run_of_the_loop_a_turn_may_have_been_held_up() {
    // 1.3 ms, and 1.4 ms: a twentieth of the wait is 1.3 ms.
    let timer = "40 loop running of a/a; 300 loop timer next of a/a; 310 loop running of a/a; ";
    assert_eq!(told(&(other(100, 112, 113) + BY_TIMER), "").as_deref(), Some(timer));
    assert_eq!(
        told(&(other(100, 113, 114) + BY_TIMER), "").unwrap(),
        "40 loop running of a/a; 114 loop unknown ? of a/a; 300 loop timer next of a/a; 310 loop running of a/a; "
    );
}

#[test]
fn what_became_ready_for_no_other_request_may_have_been_a_turn() {
    // Nobody's data: the answer to a call, perhaps. The other request's data came in another wait, and more than a millisecond behind it.
    let ready = other(100, 102, 105).replace("100 c0 idle/net_rx in ask_b seq=1 len=9", "");
    let ready = ready.replace("102 c0 loop out say_b seq=1 len=9", "");
    for lines in [ready.clone(), other(60, 62, 65) + &ready, ready.clone() + &other(130, 132, 135)] {
        assert_eq!(
            told(&(lines.clone() + BY_TIMER), "").unwrap(),
            "40 loop running of a/a; 105 loop unknown ? of a/a; 300 loop timer next of a/a; 310 loop running of a/a; ",
            "{lines}"
        );
    }
}

#[test]
fn a_timer_in_the_loops_set_is_a_descriptor() {
    let ready = BY_TIMER.replace(
        "300 c0 idle/timer waking loop",
        "300 c0 idle/timer descriptor loop 5\n300 c0 idle/timer waking loop",
    );
    assert!(told(&ready, "").unwrap().contains("300 loop timer ready of a/a"), "{:?}", told(&ready, ""));
}

#[test]
fn two_answers_at_about_its_end_leave_it_undecided() {
    // It ends at 304: `b` is answered at 303, and `a` at 305.
    let lines = BY_TIMER.replace(
        "305 c0",
        "301 c0 loop/net_rx in ask_b seq=1 len=9\n303 c0 loop out say_b seq=1 len=9\n305 c0",
    );
    let hosts = scaled(100_000, &format!("{BEGIN}{lines}{END}"));
    let spans = "service shop\na/a 2500000..30400000 server\n";
    let path = path(&made(&hosts, spans), "a/a").expect("a loop");
    assert_eq!(short(&path), "40 loop running of a/a; 303 loop unknown ? of a/a; 304 loop running of a/a; ");
}

#[test]
fn an_answer_to_another_request_right_before_its_own_leaves_it_undecided() {
    // `b` came and went behind the wait.
    let lines = BY_TIMER.replace(
        "305 c0",
        "301 c0 loop/net_rx in ask_b seq=1 len=9\n303 c0 loop out say_b seq=1 len=9\n305 c0",
    );
    assert_eq!(
        told(&lines, "").unwrap(),
        "40 loop running of a/a; 303 loop unknown ? of a/a; 310 loop running of a/a; "
    );
}

/// `peer` ends the last wait.
fn by_peer() -> String {
    BY_TIMER
        .replace("300 c0 idle/timer waking loop", "300 c1 peer descriptor loop 7\n300 c1 peer waking loop")
}

#[test]
fn a_thread_that_ends_the_last_wait_explains_it() {
    let peer = "40 loop running of a/a; 300 peer running next below 1; 310 loop running of a/a; ";
    assert_eq!(told(&by_peer(), "").as_deref(), Some(peer));
    // It shows by itself when it began, whatever the loop did meanwhile.
    assert_eq!(told(&(other(100, 150, 155) + &by_peer()), "").as_deref(), Some(peer));
}

#[test]
fn the_answer_comes_right_behind_the_wait_that_made_it_ready() {
    // The loop ran for 1.3 ms, or for 1.4 ms before.
    for (answered, is_decided) in [(313, true), (314, false)] {
        let late = BY_TIMER.replace("305", &answered.to_string());
        let span = SPAN.replace("31000000", &format!("{answered}00000"));
        let hosts = scaled(100_000, &format!("{BEGIN}{late}{END}"));
        let path = path(&made(&hosts, &format!("service shop\n{span}")), "a/a").expect("a loop");
        assert_eq!(!path.contains("unknown"), is_decided, "{answered}: {path}");
    }
}

#[test]
fn without_a_wait_the_loop_may_have_worked_for_whom_it_answered_before() {
    // It never waits between the two answers.
    let lines = "
        100 c0 idle/net_rx in ask_b seq=1 len=9
        100 c0 idle/net_rx waking loop
        100 c0 idle switch loop
        200 c0 loop out say_b seq=1 len=9
        305 c0 loop out say_a seq=1 len=9\n";
    let begin = BEGIN.replace("40 c0 loop switch idle blocked call=232:0x3\n", "");
    let lines =
        lines.replace("100 c0 idle/net_rx waking loop\n", "").replace("100 c0 idle switch loop\n", "");
    let lines = lines.replace("100 c0 idle/net_rx", "100 c0 loop/net_rx");
    let lines = lines.replace(
        "200 c0",
        "120 c0 loop out say_b seq=1 len=9\n150 c0 loop/net_rx in ask_b seq=10 len=9\n200 c0",
    );
    let hosts = scaled(100_000, &format!("{begin}{lines}{END}"));
    let path = path(&made(&hosts, &format!("service shop\n{SPAN}")), "a/a").expect("a loop");
    assert_eq!(short(&path), "200 loop unknown ? of a/a; 310 loop running of a/a; ");
}

#[test]
fn a_thread_that_waits_otherwise_before_its_request_is_no_loop() {
    // It waits in a futex until the request comes, and in a set within the request: for a call's answer.
    let waits = "
        2 c0 loop switch idle blocked call=232:0x3
        5 c0 idle/timer waking loop
        5 c0 idle switch loop
        10 c0 loop switch idle blocked call=202:0x1000";
    let begin = BEGIN.replace("10 c0 loop switch idle blocked call=232:0x3", waits);
    let hosts = scaled(100_000, &format!("{begin}{BY_TIMER}{END}"));
    assert_eq!(path(&made(&hosts, &format!("service shop\n{SPAN}")), "a/a"), None);
}

#[test]
fn an_undecided_wait_within_a_clients_span_is_for_the_call() {
    let open = other(100, 307, 320).replace("320 c0 loop switch idle blocked call=232:0x3\n", "");
    let lines = open.replace("307 c0", "110 c0 loop switch idle blocked call=232:0x3\n300 c0 idle/timer waking loop\n300 c0 idle switch loop\n305 c0 loop out say_a seq=1 len=9\n307 c0");
    let spans = "a/c < a 15000000..29000000 client\nservice far\na/d < c 16000000..28000000 server tid=11\n";
    assert_eq!(
        told(&lines, spans).unwrap(),
        "40 loop running of a/a; 150 loop unknown ? of a/a; 160 peer network ? below 1 of a/d; 280 peer running called below 1 of a/d; \
         290 peer network ? below 1 of a/d; 300 loop unknown ? of a/a; 310 loop running of a/a; "
    );
}

#[test]
fn a_connection_that_the_loop_opened_itself_is_no_open_request() {
    // Data came on it within the first run, and the loop sends again behind its answer.
    let flows = "
    flow call 127.0.0.1:50000 > 127.0.0.1:5432
    flow back 127.0.0.1:5432 > 127.0.0.1:50000
    thread loop";
    let begin = BEGIN.replacen("\n    thread loop", flows, 1);
    let begin =
        begin.replace("40 c0 loop switch", "35 c0 loop/net_rx in back seq=1 len=9\n40 c0 loop switch");
    let hosts = scaled(100_000, &format!("{begin}{BY_TIMER}308 c0 loop out call seq=1 len=9{END}"));
    let path = path(&made(&hosts, &format!("service shop\n{SPAN}")), "a/a").expect("a loop");
    assert!(short(&path).contains("300 loop timer next of a/a"), "{}", short(&path));
}
