//! Verdicts on made-up logs and answers.

use serde_json::{Value, json};

use super::*;
use crate::calls::CallsJudgement;
use crate::tries::Outcome;

const MS: u64 = 1_000_000;

/// A logged call in thread 7; it ran for `planted` if its cause is none or compute.
fn logged(from: u64, to: u64, cause: &str, planted: u64, runnable: u64) -> Value {
    let ran = if ["none", "compute"].contains(&cause) { planted } else { 0 };
    json!({"tid": 7, "from_ns": from, "to_ns": to, "cause": cause, "planted_ns": planted, "cpu_ns": ran,
           "runnable_ns": runnable})
}

fn log_of(calls: &[Value]) -> CallLog {
    let truth = json!({"schema": "wakepath.truth-of-calls/1", "left_out": {}, "calls": calls});
    CallLog::read(&truth).expect("a truth")
}

/// The beginnings and ends of calls: 10 ms each, a second apart.
fn times() -> impl Iterator<Item = (u64, u64)> {
    (0..).map(|i| i * 1000 * MS + 1000).map(|from| (from, from + 10 * MS))
}

/// The log of such calls: the cause, its thousandths of a call, and the neighbours' thousandths.
fn log(calls: &[(&str, u64, u64)]) -> CallLog {
    let calls = times().zip(calls).map(|((from, to), &(cause, planted, runnable))| {
        logged(from, to, cause, planted * MS / 100, runnable * MS / 100)
    });
    log_of(&calls.collect::<Vec<_>>())
}

/// A cause's type by its words; its thread and kind of time in the tree.
fn typed(what: &str) -> (&'static str, Option<&'static str>, &'static str) {
    match what {
        "running" => ("caller", None, "running"),
        HELD => ("thread", Some("causes-holder"), "running"),
        HOLDER => ("running", Some("causes-holder"), "running"),
        CPU | IDLE => ("cpu", None, "runnable"),
        "interrupted" => ("interrupts", Some("causes-holder"), "interrupted"),
        DISK => ("disk", None, "block_device"),
        TIMER => ("timer", None, "timer"),
        "waiting for dd (2 processes)" => ("process", None, "unknown"),
        "waiting for the network, 10.0.0.1:80" => ("network", None, "unknown"),
        _ => ("unknown", None, "unknown"),
    }
}

/// The tool's document about such calls: the causes with their ns a call, the first cause of each call, and the calls'
/// mean.
fn document(causes: &[(&str, f64)], calls: &[Value], mean: u64) -> CallsDocument {
    // The causes as a tree with a node each.
    let tree = causes.iter().map(|&(what, ns)| {
        let (_, who, kind) = typed(what);
        json!({"who": who, "own": [{"kind": kind, "what": what, "asked_ns": ns, "usual_ns": 0.0}]})
    });
    let tree: Vec<Value> = tree.collect();
    let causes = causes.iter().map(|&(what, ns)| {
        let part = |kind: &str, what: &str, ns: f64| json!({"kind": kind, "type": kind, "what": what, "asked_ns": ns});
        let parts = match what {
            IDLE => vec![json!({"kind": "runnable", "type": "idle_cpu", "what": "", "asked_ns": ns})],
            HELD => vec![part("running", "running", ns * 0.9), part("runnable", "waiting for a CPU", ns * 0.1)],
            _ => Vec::new(),
        };
        json!({"type": typed(what).0, "what": what, "asked_ns": ns, "parts": parts})
    });
    let causes: Vec<Value> = causes.collect();
    let document = json!({"schema": "wakepath.calls/1", "origin_ns": "0", "causes": causes, "tree": tree, "calls": calls,
        "peaks": [{"from_bucket": 23, "to_bucket": 23, "count": calls.len()}], "asked": {"mean_ns": mean}});
    CallsDocument::read(document).expect("a document").0
}

/// The document with the causes in thousandths of a call.
fn reported(causes: &[(&str, u64)], calls: &[&str]) -> CallsDocument {
    let causes: Vec<_> = causes.iter().map(|&(what, part)| (what, (part * MS / 100) as f64)).collect();
    let calls = times().zip(calls).map(|((from, to), what)| {
        json!({"tid": 7, "from_ns": from, "to_ns": to, "first": {"type": typed(what).0, "what": what, "ns": MS}})
    });
    document(&causes, &calls.collect::<Vec<_>>(), 10 * MS)
}

/// The violations and void reasons for a peak with a single call: its cause with planted and runnable hundredths, and
/// the tool's causes in thousandths.
fn judged(met: (&str, u64, u64), causes: &[(&str, u64)], ahead: bool) -> (Vec<String>, Vec<String>) {
    let met = (met.0, met.1 * 10, met.2 * 10);
    let verdict = peak(&log(&[met]), &reported(causes, &["-"]), 0, 1, ahead);
    (verdict.violations, verdict.void)
}

const HOLDER: &str = "running causes-holder";
const CPU: &str = "waiting for a CPU";
const HELD: &str = "waiting for a lock that causes-holder held";
const IDLE: &str = "waiting for a CPU, idle";
const DISK: &str = "waiting for disk vda";
const TIMER: &str = "sleeping until a timer";

#[test]
fn a_thread_that_is_waited_for_is_judged_by_what_it_did() {
    for (met, causes, wrong) in [
        (("mutex", 90, 10), &[(HELD, 1000)][..], vec![]),
        (("mutex", 90, 0), &[(HELD, 1000)], vec!["neighbour differs by 10.00 points"]),
        (
            ("timer", 90, 10),
            &[(HELD, 1000)],
            vec![
                "timer differs by 90.00 points",
                "the first cause is `waiting for a lock that causes-holder held`",
            ],
        ),
    ] {
        assert_eq!(
            judged(met, causes, false),
            (wrong.iter().map(ToString::to_string).collect(), vec![]),
            "{met:?}"
        );
    }
}

#[test]
fn a_thread_that_was_waited_for_is_the_first_cause_though_it_mostly_lacked_a_cpu() {
    // In HELD the holder ran for nine tenths of the wait; the log has more neighbour time.
    let first = |met, causes: &[(&str, u64)]| {
        judged(met, causes, false).0.iter().filter(|text| text.contains("first cause")).count()
    };
    assert_eq!(first(("mutex", 30, 70), &[(HELD, 1000)]), 0);
    assert_eq!(first(("mutex", 30, 70), &[(HOLDER, 1000)]), 1, "the holder did not run for most of it");
    assert_eq!(first(("timer", 30, 70), &[(HELD, 1000)]), 1, "the call did not wait for the holder");
    assert_eq!(first(("peer", 30, 70), &[(HELD, 1000)]), 1, "it waited for the peer");
    // The timer is the cause of most of these calls; a single call waited for the holder too.
    let mixed = log(&[("timer", 300, 690), ("timer", 300, 690), ("mutex", 10, 980)]);
    let verdict = peak(&mixed, &reported(&[(HELD, 1000)], &["-"; 3]), 0, 1, false);
    assert_eq!(verdict.violations.iter().filter(|text| text.contains("first cause")).count(), 1);
    let right = |met: &[(&str, u64, u64)], first: &str| {
        super::calls(&log(met), &reported(&[], &vec![first; met.len()]), 0).right
    };
    assert_eq!(right(&[("mutex", 300, 690)], HELD), 1);
    assert_eq!(right(&[("mutex", 300, 690)], HOLDER), 0);
    assert_eq!(right(&[("timer", 300, 690)], HELD), 0);
    assert_eq!(right(&[("peer", 300, 690)], HELD), 0);
}

#[test]
fn an_idle_cpu_is_no_neighbour_and_the_log_may_count_its_time_as_the_disks() {
    for (met, causes, wrong) in [
        (("fsync", 97, 0), &[(DISK, 970), (IDLE, 28), (CPU, 2)][..], vec![]),
        (("fsync", 97, 3), &[(DISK, 970), (IDLE, 28), (CPU, 2)], vec![]),
        // The log has the idle CPU's time in the disk's.
        (("fsync", 100, 0), &[(DISK, 970), (IDLE, 28), (CPU, 2)], vec![]),
        (("fsync", 97, 0), &[(DISK, 970), (CPU, 30)], vec!["neighbour differs by 3.00 points"]),
        (("fsync", 100, 0), &[(DISK, 960), (IDLE, 2), ("running", 38)], vec!["fsync differs by 3.80 points"]),
        (("timer", 100, 0), &[(TIMER, 970), (IDLE, 28), (CPU, 2)], vec!["timer differs by 3.00 points"]),
    ] {
        assert_eq!(
            judged(met, causes, false),
            (wrong.iter().map(ToString::to_string).collect(), vec![]),
            "{causes:?}"
        );
    }
}

#[test]
fn a_cause_is_right_by_name_and_within_a_hundredth_of_the_calls() {
    let met = ("mutex", 97, 2);
    for (causes, wrong) in [
        (&[(HOLDER, 970), (CPU, 20), ("running", 10)][..], vec![]),
        (&[(HOLDER, 961), (CPU, 29), ("running", 10)], vec![]),
        (&[(HOLDER, 950), (CPU, 30), ("running", 20)], vec!["mutex differs by 2.00 points"]),
        // The owner's interrupts are running by its clock.
        (&[(HOLDER, 900), ("interrupted", 70), (CPU, 20), ("running", 10)], vec![]),
        (&[(HOLDER, 979), ("interrupted", 10), (CPU, 11)], vec![]),
        (
            &[("running", 970), (CPU, 30)],
            vec![
                "mutex differs by 97.00 points",
                "the first cause is `running`",
                "the tree's first cause is `running` of the caller",
            ],
        ),
        (
            &[(HOLDER, 970), (CPU, 20)],
            vec![
                "the causes sum to 9900000.0 ns, the calls take 10000000 ns",
                "the parts of the tree sum to 9900000.0 ns, the calls take 10000000 ns",
            ],
        ),
    ] {
        assert_eq!(
            judged(met, causes, true),
            (wrong.into_iter().map(str::to_owned).collect(), vec![]),
            "{causes:?}"
        );
    }
}

#[test]
fn unknown_time_for_missing_events_excuses_as_much_and_cannot_be_judged() {
    let causes = &[(HOLDER, 900), ("unknown: records were lost", 80), (CPU, 20)];
    let void = vec![String::from("8.00% is unknown where events are missing")];
    assert_eq!(judged(("mutex", 98, 2), causes, true), (vec![], void));
    let wrong = judged(("mutex", 100, 0), causes, true).0;
    assert_eq!(wrong, ["mutex differs by 10.00 points"]);
}

#[test]
fn unknown_time_excuses_nothing_that_somebody_has_too_much_of() {
    const LOST: &str = "unknown: records were lost";
    let of = |causes| judged(("timer", 90, 0), causes, false);
    let wrong = of(&[(TIMER, 850), (DISK, 50), (LOST, 100)]).0;
    assert_eq!(wrong, ["fsync differs by 5.00 points"], "a disk that nobody waited for");
    assert_eq!(of(&[(TIMER, 920), (LOST, 80)]).0, ["timer differs by 2.00 points"]);
    assert_eq!(of(&[(TIMER, 900), (LOST, 100)]), (vec![], vec![]));
    let void = of(&[(TIMER, 820), (LOST, 180)]);
    assert_eq!(void, (vec![], vec![String::from("18.00% is unknown where events are missing")]));
}

#[test]
fn a_run_of_calls_with_a_wrong_peak_is_wrong_whatever_else_is_void() {
    let outcome = |causes: &[(&str, u64)], left_out: &[&str]| {
        let peak = peak(&log(&[("timer", 990, 0)]), &reported(causes, &["-"]), 0, 1, false);
        let calls = CallsVerdict { slow: 1, right: 1, ..CallsVerdict::default() };
        let left_out = left_out.iter().map(|&why| why.to_owned()).collect();
        let (missing_peaks, mixed, peaks) = (vec![], vec![], vec![peak]);
        CallsJudgement { peaks, calls, missing_peaks, mixed, left_out, never_blamed: false }.outcome()
    };
    let right = &[(TIMER, 990), ("running", 10)];
    let wrong = &[(TIMER, 890), (DISK, 100), ("running", 10)];
    assert_eq!(outcome(right, &[]), Outcome::Right);
    assert_eq!(outcome(right, &["no right to limit a CPU"]), Outcome::Void);
    assert_eq!(outcome(wrong, &["no right to limit a CPU"]), Outcome::Wrong);
    assert_eq!(outcome(wrong, &[]), Outcome::Wrong);
}

#[test]
fn another_first_cause_is_wrong_unless_unknown_time_could_have_been_the_planted_one() {
    const LOST: &str = "unknown: records were lost";
    // A timer for six tenths, the neighbour for four.
    let of = |causes| judged(("timer", 60, 40), causes, false);
    let beside = String::from("the first cause is `waiting for a CPU` beside 25.00% unknown");
    let missing = String::from("25.00% is unknown where events are missing");
    assert_eq!(of(&[(CPU, 400), (TIMER, 350), (LOST, 250)]), (vec![], vec![missing, beside]));
    let unknown_first = of(&[(LOST, 500), (CPU, 300), (TIMER, 200)]);
    assert_eq!((unknown_first.0.len(), unknown_first.1.len()), (0, 2), "{unknown_first:?}");
    let wrong = of(&[(CPU, 400), (TIMER, 590), (LOST, 10)]).0;
    assert_eq!(wrong, ["the first cause is `waiting for a CPU`"]);
}

#[test]
fn the_trees_first_cause_is_judged_beside_unknown_time() {
    const LOST: &str = "unknown: records were lost";
    let tree = |causes| {
        let (wrong, void) = judged(("mutex", 97, 0), causes, true);
        [wrong, void].map(|list| list.iter().filter(|text| text.contains("tree's first")).count())
    };
    assert_eq!(tree(&[("running", 480), (HOLDER, 420), (LOST, 100)]), [0, 1], "it may have been the holder");
    assert_eq!(tree(&[("running", 550), (HOLDER, 350), (LOST, 100)]), [1, 0]);
    assert_eq!(tree(&[(LOST, 600), (HOLDER, 400)]), [0, 1]);
}

#[test]
fn a_neighbour_is_a_cause_of_its_own_unless_the_server_is_ahead() {
    let (met, causes) = (("mutex", 30, 70), &[(CPU, 700), (HOLDER, 300)]);
    assert_eq!(judged(met, causes, false), (vec![], vec![]));
    let void = String::from("by the log, mutex is not the largest cause");
    assert_eq!(judged(met, causes, true), (vec![], vec![void]));
    // The server's own clocks do not show the time to preempt a neighbour.
    let beside = &[(HOLDER, 960), (CPU, 40)];
    assert_eq!(judged(("mutex", 96, 1), beside, true), (vec![], vec![]));
    assert_eq!(judged(("mutex", 96, 1), beside, false).0, ["neighbour differs by 3.00 points"]);
    let causes = &[(HOLDER, 700), (CPU, 300)];
    assert_eq!(judged(met, causes, false).0.len(), 2, "a neighbour's time is not the holder's");
}

#[test]
fn a_slow_call_is_right_if_its_first_cause_took_most_of_it() {
    let log = log(&[
        ("timer", 990, 0),
        ("timer", 990, 0),
        ("timer", 300, 690),
        ("timer", 300, 690),
        ("timer", 500, 495),
        ("timer", 500, 495),
        ("timer", 200, 100),
        ("timer", 990, 0),
        ("none", 990, 0),
    ]);
    let calls = [TIMER, "running", TIMER, CPU, TIMER, CPU, TIMER, "unknown: records were lost", "running"];
    let verdict = super::calls(&log, &reported(&[], &calls), 0);
    assert_eq!((verdict.slow, verdict.right), (8, 4));
    assert_eq!((verdict.missing, verdict.unknown_to_log, verdict.by_neighbours), (1, 1, 2));
    assert!(!verdict.is_right() && verdict.is_void());
    assert_eq!(verdict.examples.len(), 3);
}

#[test]
fn a_call_that_is_not_reported_is_not_right() {
    let log = log(&[("timer", 990, 0); 100]);
    let mut reports = vec![TIMER; 98];
    let verdict = |reports: &[&str]| super::calls(&log, &reported(&[], reports), 0);
    assert!(verdict(&[TIMER; 99]).is_right());
    assert!(!verdict(&reports).is_right());
    // A run with missing events judges nothing.
    reports.push("unknown: records were lost");
    assert!(verdict(&reports).is_right() && verdict(&reports).is_void());
}

#[test]
fn causes_need_a_peak_of_their_own_where_an_empty_bucket_lies_between() {
    let long = |cause: &str, ns: u64| logged(0, ns, cause, 0, 0);
    // The lengths of a timer's calls, a peer's twenty calls, and a call without a cause.
    for (timer, peer, none, expected) in [
        (1 << 20, 1 << 22, 1 << 10, &[CallCause::None, CallCause::Timer, CallCause::Peer][..]),
        (1 << 20, 1 << 21, 1 << 10, &[CallCause::None]),
        (1 << 20, 1 << 20, 1 << 10, &[CallCause::None]),
        (1 << 20, 1 << 22, 1 << 21, &[]),
        (1 << 20, 1 << 23, 1 << 22, &[CallCause::Timer]),
    ] {
        let mut calls = vec![long("timer", timer), long("timer", timer), long("none", none)];
        calls.extend((0..20).map(|_| long("peer", peer)));
        assert_eq!(separate_causes(&log_of(&calls)), expected, "{timer} {peer} {none}");
    }
    // A stray call between them is a twentieth of the peer's calls, and more than a twentieth of the timer's.
    let mut calls = vec![long("timer", 1 << 20), long("timer", 1 << 20), long("peer", 1 << 21)];
    calls.extend((0..20).map(|_| long("peer", 1 << 22)));
    assert_eq!(separate_causes(&log_of(&calls)), [CallCause::Peer]);
}

#[test]
fn a_wait_for_a_disk_may_be_a_process_that_is_served_first() {
    let met = ("fsync", 97, 0);
    assert_eq!(judged(met, &[(DISK, 900), ("waiting for dd (2 processes)", 100)], true), (vec![], vec![]));
    let wrong = judged(met, &[(DISK, 900), ("waiting for the network, 10.0.0.1:80", 100)], true).0;
    assert_eq!(wrong, ["fsync differs by 7.00 points"]);
}

#[test]
fn the_cost_of_probes_in_calls_without_a_cause_counts_as_running() {
    for (met, what, wrong) in [("none", "running", 0), ("mutex", HOLDER, 1)] {
        let log = log_of(&[logged(1500, 23_500, met, 22_000, 0)]);
        let calls = [json!({"tid": 7, "from_ns": 0, "to_ns": 24_500, "first": null})];
        let verdict = peak(&log, &document(&[(what, 24_500.0)], &calls, 24_500), 0, 1, true);
        assert_eq!(verdict.violations.len(), wrong, "{met}: {:?}", verdict.violations);
    }
}

#[test]
fn the_type_of_a_cause_decides_and_its_words_do_not() {
    for (kind, what, is_timer) in [("timer", "a new wording", true), ("lock", TIMER, false)] {
        let cause = CauseName { kind: kind.to_owned(), what: what.to_owned() };
        assert_eq!(CallCause::Timer.is_named(&cause), is_timer, "{kind}: {what}");
    }
}

#[test]
fn a_neighbour_between_a_probe_and_the_servers_own_stamp_is_in_the_log_too() {
    let call = LoggedCall {
        tid: 7,
        from_ns: 1_000_000,
        to_ns: 1_030_000,
        cause: CallCause::None,
        planted_ns: 0,
        cpu_ns: 20_000,
        runnable_ns: 10_000,
    };
    let neighbours = |window: u64| {
        let share = super::logged(&[(&call, window)])[&CallCause::Neighbour];
        (share * window as f64).round()
    };
    assert_eq!(neighbours(30_000), 10_000.0);
    assert_eq!(neighbours(33_000), 10_000.0, "the probes took that");
    assert_eq!(neighbours(433_000), 410_000.0);
}
