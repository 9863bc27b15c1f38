//! Verdicts on made-up logs and answers.

use serde_json::{Value, json};

use super::*;

const MS: u64 = 1_000_000;

/// The log of calls of 10 ms by thread 7, one a second: the cause, its hundredths of a call, and those of neighbours.
fn log(calls: &[(&str, u64, u64)]) -> CallLog {
    let calls: Vec<Value> = calls
        .iter()
        .enumerate()
        .map(|(i, &(cause, planted, runnable))| {
            let from = i as u64 * 1000 * MS + 1000;
            json!({"tid": 7, "from_ns": from, "to_ns": from + 10 * MS, "cause": cause, "planted_ns": planted * MS / 100,
                   "by_tid": 7, "cpu_ns": if cause == "compute" { planted * MS / 100 } else { 0 },
                   "runnable_ns": runnable * MS / 100})
        })
        .collect();
    let truth = json!({"schema": "wakepath.truth-of-calls/1", "left_out": {}, "calls": calls});
    CallLog::read(&truth).expect("a truth")
}

/// The tool's document about such calls: the causes with their thousandths of a call, and the first cause of each call.
fn reported(causes: &[(&str, u64)], calls: &[&str]) -> CallsDocument {
    // The causes as a tree with one node each.
    let tree: Vec<Value> = causes
        .iter()
        .map(|&(what, part)| {
            let (who, kind) = match what {
                "running causes-holder" => (json!("causes-holder"), "running"),
                "waiting for a CPU" => (json!(null), "runnable"),
                "interrupted" => (json!("causes-holder"), "interrupted"),
                "waiting for disk vda" => (json!(null), "block_device"),
                _ => (json!(null), if what == "running" { what } else { "unknown" }),
            };
            let ns = (part * MS / 100) as f64;
            json!({"who": who, "own": [{"kind": kind, "what": what, "asked_ns": ns, "usual_ns": 0.0}]})
        })
        .collect();
    let causes: Vec<Value> = causes
        .iter()
        .map(|&(what, part)| json!({"what": what, "asked_ns": (part * MS / 100) as f64}))
        .collect();
    let calls: Vec<Value> = calls
        .iter()
        .enumerate()
        .map(|(i, &what)| {
            let from = i as u64 * 1000 * MS + 1000;
            json!({"tid": 7, "from_ns": from, "to_ns": from + 10 * MS, "first": {"what": what, "ns": MS}})
        })
        .collect();
    let document = json!({"schema": "wakepath.calls/1", "origin_ns": "0", "causes": causes, "tree": tree, "calls": calls,
        "peaks": [{"from_bucket": 23, "to_bucket": 23, "count": calls.len()}], "asked": {"mean_ns": 10 * MS}});
    CallsDocument::read(document).expect("a document").0
}

/// The violations and void reasons of a peak of one call: (cause, planted, runnable) in thousandths, and the causes.
fn judged(met: (&str, u64, u64), causes: &[(&str, u64)], ahead: bool) -> (Vec<String>, Vec<String>) {
    let met = (met.0, met.1 * 10, met.2 * 10);
    let verdict = peak(&log(&[met]), &reported(causes, &["-"]), 0, 1, ahead);
    (verdict.violations, verdict.void)
}

const HOLDER: &str = "running causes-holder";
const CPU: &str = "waiting for a CPU";

#[test]
fn a_cause_is_right_by_name_and_within_a_hundredth_of_the_calls() {
    let met = ("mutex", 97, 2);
    for (causes, wrong) in [
        (&[(HOLDER, 970), (CPU, 20), ("running", 10)][..], vec![]),
        (&[(HOLDER, 961), (CPU, 29), ("running", 10)], vec![]),
        (&[(HOLDER, 950), (CPU, 30), ("running", 20)], vec!["mutex differs by 2.00 points"]),
        // The interrupts of the owner are running by its clock.
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
fn a_neighbour_is_a_cause_of_its_own_unless_the_server_is_ahead() {
    let (met, causes) = (("mutex", 30, 70), &[(CPU, 700), (HOLDER, 300)]);
    assert_eq!(judged(met, causes, false), (vec![], vec![]));
    let void = String::from("by the log, mutex is not the largest cause");
    assert_eq!(judged(met, causes, true), (vec![], vec![void]));
    // Its own clocks do not know what it takes to preempt one.
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
    let timer = "sleeping until a timer";
    let calls = [timer, "running", timer, CPU, timer, CPU, timer, "unknown: records were lost", "running"];
    let verdict = calls_of(&log, &reported(&[], &calls));
    assert_eq!((verdict.slow, verdict.right), (8, 4));
    assert_eq!((verdict.missing, verdict.unknown_to_log, verdict.by_neighbours), (1, 1, 2));
    assert!(!verdict.is_right() && verdict.is_void());
    assert_eq!(verdict.examples.len(), 3);
}

fn calls_of(log: &CallLog, document: &CallsDocument) -> CallsVerdict {
    calls(log, document, 0)
}

#[test]
fn a_call_that_is_not_reported_is_not_right() {
    let log = log(&[("timer", 990, 0); 100]);
    let reported = |n| reported(&[], &vec!["sleeping until a timer"; n]);
    assert!(calls_of(&log, &reported(99)).is_right());
    assert!(!calls_of(&log, &reported(98)).is_right());
    // Where events are missing a run judges nothing.
    let mut missing = vec!["sleeping until a timer"; 98];
    missing.push("unknown: records were lost");
    let verdict = calls_of(&log, &self::reported(&[], &missing));
    assert!(verdict.is_right() && verdict.is_void());
}

#[test]
fn causes_need_a_peak_of_their_own_where_an_empty_bucket_lies_between() {
    let long = |cause: &str, ns: u64| {
        json!({"tid": 1, "from_ns": 0, "to_ns": ns, "cause": cause, "planted_ns": 0, "by_tid": 1, "cpu_ns": 0,
               "runnable_ns": 0})
    };
    // How long a timer's calls are, a peer's twenty, and one that meets nothing.
    for (timer, peer, none, expected) in [
        (1 << 20, 1 << 22, 1 << 10, &[Cause::None, Cause::Timer, Cause::Peer][..]),
        (1 << 20, 1 << 21, 1 << 10, &[Cause::None]),
        (1 << 20, 1 << 20, 1 << 10, &[Cause::None]),
        (1 << 20, 1 << 22, 1 << 21, &[]),
        (1 << 20, 1 << 23, 1 << 22, &[Cause::Timer]),
    ] {
        let mut calls = vec![long("timer", timer), long("timer", timer), long("none", none)];
        calls.extend((0..20).map(|_| long("peer", peer)));
        let truth = json!({"schema": "wakepath.truth-of-calls/1", "left_out": {}, "calls": calls});
        assert_eq!(
            separate_causes(&CallLog::read(&truth).expect("a truth")),
            expected,
            "{timer} {peer} {none}"
        );
    }
    // A stray one between is one in twenty of the peer's calls, and more than that of the timer's.
    let mut calls = vec![long("timer", 1 << 20), long("timer", 1 << 20), long("peer", 1 << 21)];
    calls.extend((0..20).map(|_| long("peer", 1 << 22)));
    let truth = json!({"schema": "wakepath.truth-of-calls/1", "left_out": {}, "calls": calls});
    assert_eq!(separate_causes(&CallLog::read(&truth).expect("a truth")), [Cause::Peer]);
}
#[test]
fn a_wait_for_a_disk_may_be_a_process_that_is_served_first() {
    let met = ("fsync", 97, 0);
    let disk = "waiting for disk vda";
    assert_eq!(judged(met, &[(disk, 900), ("waiting for dd (2 processes)", 100)], true), (vec![], vec![]));
    let wrong = judged(met, &[(disk, 900), ("waiting for the network, 10.0.0.1:80", 100)], true).0;
    assert_eq!(wrong, ["fsync differs by 7.00 points"]);
}

#[test]
fn the_cost_of_probes_in_calls_without_a_cause_counts_as_running() {
    for (met, wrong) in [("none", 0), ("mutex", 1)] {
        let call = json!({"tid": 7, "from_ns": 1500, "to_ns": 23_500, "cause": met, "planted_ns": 22_000,
                          "by_tid": 7, "cpu_ns": if met == "none" { 22_000 } else { 0 }, "runnable_ns": 0});
        let truth = json!({"schema": "wakepath.truth-of-calls/1", "left_out": {}, "calls": [call]});
        let (what, who) =
            if met == "none" { ("running", json!(null)) } else { (HOLDER, json!("causes-holder")) };
        let reported = json!({"schema": "wakepath.calls/1", "origin_ns": "0",
            "causes": [{"what": what, "asked_ns": 24_500.0}],
            "tree": [{"who": who, "own": [{"kind": "running", "what": "", "asked_ns": 24_500.0, "usual_ns": 0.0}]}],
            "calls": [{"tid": 7, "from_ns": 0, "to_ns": 24_500, "first": null}],
            "peaks": [{"from_bucket": 14, "to_bucket": 14, "count": 1}], "asked": {"mean_ns": 24_500}});
        let reported = CallsDocument::read(reported).expect("a document").0;
        let verdict = peak(&CallLog::read(&truth).expect("a truth"), &reported, 0, 1, true);
        assert_eq!(verdict.violations.len(), wrong, "{met}: {:?}", verdict.violations);
    }
}
