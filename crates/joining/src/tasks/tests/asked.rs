//! Event loops whose turns nobody notes, beside open requests: whom a request asked in its own turns.

use super::*;
use crate::JoinedBy;

/// `loop` takes `a`'s data up at 20, asks on `call` at 30, and waits from 40 on. `b` is open from 100 on. Times in units of 100 us.
const BEGIN: &str = "
    host web3 realtime=0
    flow ask_a 127.0.0.1:40001 > 127.0.0.1:8080
    flow say_a 127.0.0.1:8080 > 127.0.0.1:40001
    flow ask_b 127.0.0.1:40002 > 127.0.0.1:8080
    flow say_b 127.0.0.1:8080 > 127.0.0.1:40002
    flow call 127.0.0.1:50000 > 127.0.0.1:5432
    flow back 127.0.0.1:5432 > 127.0.0.1:50000
    flow call_2 127.0.0.1:50002 > 127.0.0.1:5432
    flow back_2 127.0.0.1:5432 > 127.0.0.1:50002
    thread loop tid=10
    thread peer tid=11 tgid=10
    thread helper tid=12 tgid=10
    0 c0 idle started
    0 c0 idle switch loop
    0 c1 idle switch peer
    5 c2 idle switch helper
    8 c2 helper switch idle blocked call=202:0x1000
    10 c0 loop switch idle blocked call=232:0x3
    20 c0 idle/net_rx in ask_a seq=1 len=9
    20 c0 idle/net_rx waking loop
    20 c0 idle switch loop
    30 c0 loop out call seq=1 len=9
    40 c0 loop switch idle blocked call=232:0x3
    100 c0 idle/net_rx in ask_b seq=1 len=9
    100 c0 idle/net_rx waking loop
    100 c0 idle switch loop
    105 c0 loop switch idle blocked call=232:0x3
";
/// `peer` answers on `back`, and the loop answers `a`.
const BACK: &str = "
    299 c1 peer out back seq=1 len=9
    300 c0 idle/net_rx in back seq=1 len=9
    300 c0 idle/net_rx waking loop
    300 c0 idle switch loop
    305 c0 loop out say_a seq=1 len=9
";
const END: &str = "
    307 c0 loop out say_b seq=1 len=9
    320 c0 loop switch idle blocked call=232:0x3
    330 c0 idle stopped
";
/// The path where the call explains the wait, and where nothing does.
const CALL: &str = "40 loop running of a/a; 299 peer running asked below 1; 300 - network asked below 1; 310 loop running of a/a; ";
const NOTHING: &str = "40 loop running of a/a; 300 loop unknown ? of a/a; 310 loop running of a/a; ";

/// The path of `a/a` with these lines behind the loop's first waits.
fn told(begin: &str, lines: &str) -> String {
    told_of(&format!("{begin}{lines}{END}"), "service shop\na/a 2500000..31000000 server\n")
}

fn told_of(hosts: &str, spans: &str) -> String {
    short(&path(&made(&scaled(100_000, hosts), spans), "a/a").expect("a loop"))
}

#[test]
fn a_question_in_its_own_turn_explains_the_wait_that_its_answer_ended() {
    assert_eq!(told(BEGIN, BACK), CALL);
}

#[test]
fn javascripts_span_may_begin_in_its_loops_wait_before() {
    // The wait for its data ends at 20. `b` is answered so late that its answer is not `a`'s.
    let end = END.replace("307", "345").replace("320", "350").replace("330", "360");
    for from in [1_500_000, 1_000_001] {
        let spans = format!("service shop language=nodejs\na/a {from}..31000000 server\n");
        let path = told_of(&format!("{BEGIN}{BACK}{end}"), &spans);
        assert_eq!(path, format!("20 loop network ? of a/a; {CALL}"), "{from}");
    }
}

#[test]
fn a_question_from_another_turn_or_on_another_connection_explains_nothing() {
    // In `b`'s turn; on a connection that another end opened; the answer to another question.
    let later = BEGIN.replace("30 c0 loop out call seq=1 len=9\n", "");
    let of_b = later.replace("105 c0", "103 c0 loop out call seq=1 len=9\n    105 c0");
    let client =
        BEGIN.replace("127.0.0.1:5432", "127.0.0.1:60000").replace("127.0.0.1:50000", "127.0.0.1:80");
    for (begin, why) in [(later, "no question"), (of_b, "in b's turn"), (client, "to a client")] {
        assert_eq!(told(&begin, BACK), NOTHING, "{why}");
    }
    let other = BACK.replace("back", "back_2");
    assert_eq!(told(BEGIN, &other), NOTHING);
    // Two packets came, and either may have ended the wait.
    let two = BACK.replace(
        "300 c0 idle/net_rx in back ",
        "300 c0 idle/net_rx in back_2 seq=1 len=9\n    300 c0 idle/net_rx in back ",
    );
    assert_eq!(told(BEGIN, &two), NOTHING);
}

#[test]
fn a_turn_in_which_another_requests_data_came_or_its_answer_went_out_is_nobodys() {
    let came = BEGIN.replace("30 c0", "27 c0 loop/net_rx in ask_b seq=1 len=9\n    30 c0");
    let came = came.replace("100 c0 idle/net_rx in ask_b seq=1 len=9\n", "");
    assert_eq!(told(&came, BACK), NOTHING);
    // An earlier request of `b` is answered in it.
    let answered =
        BEGIN.replace("10 c0 loop switch", "2 c0 loop/net_rx in ask_b seq=1 len=9\n    10 c0 loop switch");
    let answered = answered.replace("30 c0", "25 c0 loop out say_b seq=1 len=9\n    30 c0");
    assert_eq!(told(&answered, BACK), NOTHING);
}

#[test]
fn a_request_whose_data_waited_for_the_loop_has_no_turn_of_its_own() {
    // Its data came before the loop's last wait: the loop knew of it, and did something else.
    let begin =
        BEGIN.replace("10 c0 loop switch", "2 c0 loop/net_rx in ask_a seq=1 len=9\n    10 c0 loop switch");
    let begin = begin.replace("20 c0 idle/net_rx in ask_a seq=1 len=9", "");
    assert_eq!(told(&begin, BACK), NOTHING);
}

#[test]
fn only_what_made_the_answers_turn_ready_explains_the_time() {
    // Two questions at once: the later answer.
    let two = BEGIN.replace("30 c0", "29 c0 loop out call_2 seq=1 len=9\n    30 c0");
    let first = "
        200 c0 idle/net_rx in back_2 seq=1 len=9
        200 c0 idle/net_rx waking loop
        200 c0 idle switch loop
        210 c0 loop switch idle blocked call=232:0x3\n";
    assert_eq!(told(&two, &format!("{first}{BACK}")), CALL);
    // The second question comes behind the first answer.
    let asks = first.replace("210 c0", "205 c0 loop out call seq=1 len=9\n        210 c0");
    let later = two.replace("30 c0 loop out call seq=1 len=9\n", "");
    assert_eq!(
        told(&later, &format!("{asks}{BACK}")),
        "40 loop running of a/a; 200 loop network ? of a/a; 210 loop running of a/a; \
         299 peer running asked below 1; 300 - network asked below 1; 310 loop running of a/a; "
    );
    // The same connection asked anew.
    let anew = asks.replace("back_2", "back");
    assert_eq!(
        told(BEGIN, &format!("{anew}{BACK}")),
        "40 loop running of a/a; 200 loop network ? of a/a; 210 loop running of a/a; \
         299 peer running asked below 1; 300 - network asked below 1; 310 loop running of a/a; "
    );
    // Another request's answer goes out in that turn: it may be whose question it is.
    let disturbed = asks.replace("205 c0", "203 c0 loop out say_b seq=1 len=9\n205 c0");
    let again = "
        250 c0 idle/net_rx in ask_b seq=10 len=9
        250 c0 idle/net_rx waking loop
        250 c0 idle switch loop
        255 c0 loop switch idle blocked call=232:0x3\n";
    let path = told(&later, &format!("{disturbed}{again}{BACK}"));
    assert!(path.contains("unknown ?") && !path.contains("asked"), "{path}");
}

#[test]
fn a_last_wait_ended_by_somebody_else_is_undecided_though_the_question_was_answered() {
    let first = "
        200 c0 idle/net_rx in back seq=1 len=9
        200 c0 idle/net_rx waking loop
        200 c0 idle switch loop
        210 c0 loop switch idle blocked call=232:0x3\n";
    let timer = "
        300 c0 idle/timer waking loop
        300 c0 idle switch loop
        305 c0 loop out say_a seq=1 len=9\n";
    assert_eq!(told(BEGIN, &format!("{first}{timer}")), NOTHING);
}

/// `loop` wakes `helper` at 30, in place of a question; `helper` ends the last wait.
fn with_helper() -> (String, String) {
    let begin = BEGIN
        .replace("30 c0 loop out call seq=1 len=9", "30 c0 loop waking helper\n    30 c2 idle switch helper");
    let back = "
        300 c2 helper waking loop
        300 c0 idle switch loop
        305 c0 loop out say_a seq=1 len=9\n";
    (begin, back.to_owned())
}

#[test]
fn an_idle_thread_that_it_woke_explains_the_wait_that_the_thread_ended() {
    let (begin, back) = with_helper();
    let helper = "40 loop running of a/a; 300 helper running asked below 1; 310 loop running of a/a; ";
    assert_eq!(told(&begin, &back), helper);
    // Another thread ended it.
    assert_eq!(told(&begin, &back.replace("c2 helper", "c1 peer")), NOTHING);
    // Another thread woke it, or it was not idle as the turn began.
    let woken = begin.replace("30 c0 loop waking helper", "30 c1 peer waking helper");
    let busy = begin.replace("8 c2 helper switch", "25 c2 helper switch");
    for begin in [woken, busy] {
        assert_eq!(told(&begin, &back), NOTHING, "{begin}");
    }
    // Woken in `b`'s turn.
    let later = begin.replace("30 c0 loop waking helper\n    30 c2 idle switch helper", "");
    let later = later.replace("105 c0", "102 c0 loop waking helper\n102 c2 idle switch helper\n105 c0");
    assert_eq!(told(&later, &back), NOTHING);
    // It did its job, and then had another job.
    let again = "
        150 c2 helper switch idle blocked call=202:0x1000
        160 c0 idle/timer waking loop
        160 c0 idle switch loop
        170 c0 loop waking helper
        170 c2 idle switch helper
        180 c0 loop switch idle blocked call=232:0x3\n";
    assert_eq!(told(&begin, &format!("{again}{back}")), NOTHING);
    // In between it waited for something else that the loop let go.
    let lock = again.replace("call=202:0x1000", "call=202:0x5000");
    let path = told(&begin, &format!("{lock}{back}"));
    assert!(path.contains("helper running asked below 1") && !path.contains("unknown"), "{path}");
}

#[test]
fn a_thread_that_it_made_explains_the_wait_that_the_thread_ended() {
    let (begin, back) = with_helper();
    let begin = begin
        .replace("    thread helper tid=12 tgid=10\n", "")
        .replace("    5 c2 idle switch helper\n    8 c2 helper switch idle blocked call=202:0x1000\n", "");
    let begin = begin.replace(
        "30 c0 loop waking helper",
        "30 c0 loop fork helper tid=12 tgid=10\n    30 c0 loop waking helper",
    );
    let path = told(&begin, &back);
    assert!(path.contains("300 helper running asked below 1"), "{path}");
    // Another thread made it, or it was made before.
    let other = begin.replace("30 c0 loop fork helper", "30 c1 peer fork helper");
    let before = begin.replace(
        "30 c0 loop fork helper tid=12 tgid=10\n    30 c0 loop waking helper\n    30 c2",
        "8 c0 loop fork helper tid=12 tgid=10\n    8 c0 loop waking helper\n    8 c2",
    );
    for begin in [other, before] {
        assert_eq!(told(&begin, &back), NOTHING, "{begin}");
    }
}

#[test]
fn a_thread_that_ends_its_job_as_the_loop_runs_explains_the_time_until_then() {
    let (begin, _) = with_helper();
    // `peer` ends the last wait, for `b`; `helper` is idle from 302 on, and the loop answers `a` behind.
    let back = |from: u64, call: &str| {
        format!(
            "{from} c2 helper switch idle blocked call={call}
            300 c1 peer waking loop
            300 c0 idle switch loop
            305 c0 loop out say_a seq=1 len=9\n"
        )
    };
    let sorted = |text: String| {
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_by_key(|line| line.trim().split(' ').next().and_then(|at| at.parse::<u64>().ok()));
        lines.join("\n") + "\n"
    };
    let told = |begin: &str, back: String| told(begin, &sorted(back));
    let helper = "40 loop running of a/a; 302 helper running asked below 1; 310 loop running of a/a; ";
    assert_eq!(told(&begin, back(302, "202:0x1000")), helper);
    assert_eq!(told(&begin, back(302, "202:0x5000")), helper, "idle at another condition than before");
    for (back, why) in [
        (back(302, "230:0"), "it sleeps"),
        (back(99, "202:0x1000"), "it was done before the last wait began"),
        (back(307, "202:0x1000"), "it still ran"),
    ] {
        assert_eq!(told(&begin, back), NOTHING, "{why}");
    }
    // Two threads ended their jobs.
    let two = begin.replace(
        "thread helper tid=12 tgid=10",
        "thread helper tid=12 tgid=10\n    thread second tid=13 tgid=10",
    );
    let two = two.replace(
        "8 c2 helper",
        "5 c3 idle switch second\n    8 c3 second switch idle blocked call=202:0x1000\n    8 c2 helper",
    );
    let two =
        two.replace("30 c2 idle", "30 c0 loop waking second\n    30 c3 idle switch second\n    30 c2 idle");
    let both = back(302, "202:0x1000") + "303 c3 second switch idle blocked call=202:0x1000\n";
    assert_eq!(told(&two, both), NOTHING);
    assert_eq!(told(&two, back(302, "202:0x1000")), helper);
}

/// For whom `helper` works, as from, to and request, with these lines behind the loop's first waits.
fn helper_works(begin: &str, lines: &str) -> String {
    let hosts = scaled(100_000, &format!("{begin}{lines}{END}"));
    let made = made(&hosts, "service shop\na/a 2500000..31000000 server\nb/b 10100000..30800000 server\n");
    let joined = made.joined();
    let worked = joined.work_of(made.thread("helper"), Stamp::from_ns(0), Stamp::from_ns(33_000_000));
    let known = worked.iter().filter_map(|worked| match worked.works_for {
        WorksFor::Span(span) => {
            assert_eq!(worked.by, JoinedBy::Connection);
            assert_eq!(joined.works_for(made.thread("helper"), worked.from), WorksFor::Span(span));
            Some(format!("{}..{} {}; ", worked.from.ns(), worked.to.ns(), made.ids(span)))
        }
        _ => None,
    });
    known.map(|text| text.replace("00000..", "..").replace("00000 ", " ")).collect()
}

#[test]
fn a_thread_works_for_the_request_whose_turn_handed_it_work_until_it_is_idle_again() {
    let (begin, back) = with_helper();
    // Up to `a`'s answer; until it was idle at its condition; idle elsewhere as `a` was answered.
    assert_eq!(helper_works(&begin, &back), "30..305 a/a; ");
    let idle = |at: u64, call: &str| format!("{at} c2 helper switch idle blocked call={call}\n");
    assert_eq!(
        helper_works(&begin, &(idle(150, "202:0x1000") + &back.replace("c2 helper", "c1 peer"))),
        "30..150 a/a; "
    );
    assert_eq!(
        helper_works(&begin, &(idle(150, "202:0x5000") + &back.replace("c2 helper", "c1 peer"))),
        "30..150 a/a; "
    );
    // Woken again in a later turn.
    let again = "
        160 c0 idle/timer waking loop
        160 c0 idle switch loop
        170 c0 loop waking helper
        170 c2 idle switch helper
        180 c0 loop switch idle blocked call=232:0x3\n";
    assert_eq!(helper_works(&begin, &(idle(150, "202:0x1000") + again + &back)), "30..150 a/a; ");
    // The thread is no event loop: it waits in a futex for its requests.
    let no_loop = begin.replace(
        "10 c0 loop switch idle blocked call=232:0x3",
        "10 c0 loop switch idle blocked call=202:0x9000",
    );
    assert_eq!(helper_works(&no_loop, &back), "");
    // In a turn of nobody's.
    let disturbed =
        begin.replace("30 c0 loop waking", "27 c0 loop/net_rx in ask_b seq=1 len=9\n    30 c0 loop waking");
    let disturbed = disturbed.replace("100 c0 idle/net_rx in ask_b seq=1 len=9\n", "");
    assert_eq!(helper_works(&disturbed, &back), "");
    // Handed over in `b`'s own turn.
    let of_b = begin.replace("30 c0 loop waking helper\n    30 c2 idle switch helper", "");
    let of_b = of_b.replace("105 c0", "102 c0 loop waking helper\n    102 c2 idle switch helper\n    105 c0");
    assert_eq!(helper_works(&of_b, &back), "102..307 b/b; ");
}
