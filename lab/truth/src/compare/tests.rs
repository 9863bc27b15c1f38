//! Hand-made documents. A path is drawn as its segments: length in ms, thread, kind and, after a slash, its system call
//! or, after a `<`, the competitor. A kind with a `?` is ambiguous.

mod unseen;

use super::*;
use crate::made;
use serde_json::json;

mod either;

const ORIGIN: i64 = 7_000_000_000;
const MAIN: (u32, &str) = (10, "prog");
const WORKER: (u32, &str) = (11, "prog-work");
const OUTSIDER: (u32, &str) = (99, "postgres");

fn thread_named(name: &str) -> (u32, &str) {
    match name {
        "main" => MAIN,
        "worker" => WORKER,
        "outsider" => OUTSIDER,
        "jbd2" => (50, "jbd2/sda1-8"),
        "nobody" => (0, ""),
        other => panic!("no thread is called {other} here"),
    }
}

/// Truth: main runs 60 ms, the worker runs 30 ms and sleeps 10 ms.
fn truth() -> Value {
    truth_of(&[("main", "running", None, 60), ("worker", "running", None, 30), ("worker", "timer", None, 10)])
}

fn truth_of(parts: &[(&str, &str, Option<&str>, i64)]) -> Value {
    let parts = parts.iter().map(|&(who, kind, call, ms)| (thread_named(who), kind, call, ms * 1_000_000));
    made::truth(&[MAIN, WORKER], ORIGIN + 1_000_000, &parts.collect::<Vec<_>>())
}

/// A path whose window begins 1 ms before the truth's and ends 1 ms after it, with main running.
fn path(drawing: &str) -> Value {
    let mut segments = Vec::new();
    let mut at = 0;
    let drawing = format!("1 main running, {drawing}, 1 main running");
    for piece in drawing.split(", ") {
        let words: Vec<&str> = piece.split_whitespace().collect();
        let (kind, competitor) = words[2].split_once('<').unwrap_or((words[2], ""));
        let (kind, call) = kind.split_once('/').unwrap_or((kind, ""));
        let (kind, basis) = kind.strip_suffix('?').map_or((kind, "measured"), |kind| (kind, "ambiguous"));
        let (tid, comm) = thread_named(words[1]);
        let to = at + words[0].parse::<i64>().expect("a length in ms") * 1_000_000;
        segments.push(json!({
            "from_ns": at, "to_ns": to, "kind": kind,
            "tid": (tid > 0).then_some(tid), "comm": (tid > 0).then_some(comm),
            "call": (!call.is_empty()).then_some(call), "basis": basis,
            "cause": (!competitor.is_empty()).then(|| json!({"type": "competitor", "comm": competitor})),
        }));
        at = to;
    }
    let mut path = made::path(MAIN, &segments);
    path["origin_ns"] = json!(ORIGIN.to_string());
    path
}

/// The path that agrees with [`truth`].
const EXACT: &str = "60 main running, 10 worker timer, 30 worker running";

fn judge(truth: &Value, path: &Value) -> PathVerdict {
    compare(truth, path, Limits::with_error(0.01)).expect("documents of the right form")
}

fn check(truth: &Value, path: &Value, error: f64, violations: &[&str]) {
    let verdict = judge(truth, path);
    assert!((verdict.error - error).abs() < 1e-9, "error {} expected {error}: {verdict:#?}", verdict.error);
    assert_eq!(verdict.violations.len(), violations.len(), "{:#?}", verdict.violations);
    for (found, expected) in verdict.violations.iter().zip(violations) {
        assert!(found.contains(expected), "`{found}` should say `{expected}`");
    }
}

/// Checks paths against a truth: two lines for each, its name with the error in percent and the violation, then the
/// drawing.
#[track_caller]
fn check_all(truth: &Value, situations: &str) {
    let lines: Vec<&str> = situations.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    for situation in lines.chunks(2) {
        println!("{}", situation[0]);
        let (_, expected) = situation[0].split_once(": ").expect("NAME: ERROR% VIOLATION");
        let (error, violation) = expected.split_once('%').expect("ERROR%");
        let violation = Some(violation.trim()).filter(|violation| !violation.is_empty());
        let error = error.parse::<f64>().expect("percent") / 100.0;
        check(truth, &path(situation[1]), error, violation.as_slice());
    }
}

#[test]
fn time_of_a_wrong_thread_or_kind_is_an_error_and_nothing_hides_it() {
    check_all(
        &truth(),
        "exact agreement, whatever lies beyond the ends: 0%
             60 main running, 10 worker timer, 30 worker running
         the order of pieces and their number do not matter: 0%
             30 worker running, 20 main running, 4 worker timer, 40 main running, 6 worker timer
         a swapped thread: 30% contributors differ by 30.000%
             60 main running, 10 worker timer, 30 main running
         a swapped kind: 10% contributors differ by 10.000%
             60 main running, 10 worker network, 30 worker running
         the worker's total is right, and so is the sum of all timers and of all running: 20% contributors differ by 20.000%
             50 main running, 10 main timer, 40 worker running
         one percent is within one percent: 1%
             61 main running, 9 worker timer, 30 worker running
         two percent are not: 2% differ by 2.000%
             62 main running, 8 worker timer, 30 worker running
         unknown beyond a thousandth fails even where the difference is within its limit: 1% unknown is 1.000%
             60 main running, 1 worker unknown, 9 worker timer, 30 worker running
         and so does an outsider: 1% threads outside of the workload have 1.000%
             60 main running, 1 outsider running, 9 worker timer, 30 worker running
         kernel threads are outsiders where no disk is waited for: 1% threads outside of the workload have 1.000%
             60 main running, 1 jbd2 running, 9 worker timer, 30 worker running
         an interrupt within work is part of the work: 0%
             58 main running, 2 main interrupted, 10 worker timer, 30 worker running
         the hypervisor takes from work: 0%
             58 main running, 2 main stolen, 10 worker timer, 30 worker running",
    );
    assert_eq!(judge(&truth(), &path(EXACT)).ends_ns, 2_000_000);
}

#[test]
fn an_assertion_that_must_not_hold_and_does_fails() {
    let mut truth = truth();
    truth["never"] = json!(["waits lock.owner"]);
    let mut path = path(EXACT);
    path["waits"] = json!([{"call": "futex", "lock": {"kernel": false, "owner": null}}]);
    check(&truth, &path, 0.0, &[]);
    path["waits"] = json!([{"call": "futex", "lock": {"kernel": false, "owner": {"tid": 11}}}]);
    check(&truth, &path, 0.0, &["this must not hold and does 1 times: waits lock.owner"]);
}

#[test]
fn an_assertion_that_must_hold_and_does_not_fails() {
    let mut truth = truth();
    truth["must"] = json!(["segments kind=running cause.comm=rival"]);
    check(&truth, &path("60 main running<rival, 10 worker timer, 30 worker running"), 0.0, &[]);
    check(&truth, &path(EXACT), 0.0, &["this must hold and does not"]);
}

#[test]
fn what_the_hypervisor_took_from_a_wait_for_a_cpu_is_part_of_it() {
    check_all(
        &truth_of(&[("main", "running", None, 60), ("main", "runnable", None, 40)]),
        "behind the wait: 0%
             60 main running, 9 main runnable, 31 main stolen
         before it: 0%
             60 main running, 31 main stolen, 9 main runnable
         within it: 0%
             60 main running, 5 main runnable, 31 main stolen, 4 main runnable",
    );
}

#[test]
fn what_the_hypervisor_held_a_timer_back_is_part_of_the_wait() {
    let truth = truth_of(&[("main", "running", None, 60), ("main", "timer", None, 40)]);
    check_all(&truth, "within it: 0%\n60 main running, 9 main timer, 30 main stolen, 1 main timer");
    let differ = &["contributors differ by 30"];
    check(&truth, &path("60 main running, 9 main timer, 30 worker stolen, 1 main timer"), 0.3, differ);
    check(&truth, &path("60 main running, 30 main stolen, 10 main timer"), 0.3, differ);
}

#[test]
fn a_disk_wait_may_be_split_between_kernel_threads_and_device_in_any_way() {
    check_all(
        &truth_of(&[("main", "running", None, 60), ("main", "block_device", Some("fsync"), 40)]),
        "the device alone: 0%
             60 main running, 40 main block_device/fsync
         a timer in the same call: 0%
             60 main running, 39 main block_device/fsync, 1 main timer/fsync
         kernel threads: 0%
             60 main running, 10 jbd2 running, 5 jbd2 runnable, 24 jbd2 block_device, 1 main block_device/fsync
         another program: 1% threads outside of the workload have 1.000%
             60 main running, 39 main block_device/fsync, 1 outsider running
         another call: 0% no wait of prog in fsync
             60 main running, 40 main block_device/read",
    );
}

/// A truth with 40 ms in `fsync` and the kernel's count for two of its threads: jbd2 with the given ms, and a worker.
fn truth_with_kernel_threads(jbd2_ms: i64) -> Value {
    let mut truth = truth_of(&[("main", "running", None, 60), ("main", "block_device", Some("fsync"), 40)]);
    truth["kernel_threads"] = json!([
        {"tid": 50, "comm": "jbd2/sda1-8", "ran_ns": jbd2_ms * 1_000_000},
        {"tid": 51, "comm": "kworker/0:1-events", "ran_ns": 90_000_000},
    ]);
    truth
}

const BY_JBD2: &str = "60 main running, 10 jbd2 running, 29 jbd2 block_device, 1 main block_device/fsync";

#[test]
fn a_kernel_thread_on_the_path_of_a_disk_wait_ran_for_as_long_by_the_kernels_count() {
    check(&truth_with_kernel_threads(10), &path(BY_JBD2), 0.0, &[]);
    let reason =
        "jbd2/sda1-8 is charged with 10.000 ms of running and ran for 9.000 ms by the kernel's count";
    check(&truth_with_kernel_threads(9), &path(BY_JBD2), 0.0, &[reason]);
    // Neither missing events nor the program's own log excuse it.
    let unknown =
        "60 main running, 10 jbd2 running, 20 jbd2 block_device, 5 main unknown, 5 main block_device/fsync";
    let beside = judge(&truth_with_kernel_threads(9), &path_with_missing(unknown));
    assert_eq!((beside.outcome(), beside.violations), (Outcome::Wrong, vec![format!("{reason}")]));
    let mut bad_books = truth_with_kernel_threads(9);
    bad_books["clocks"]["running_ns"] = json!(20_000_000);
    assert_eq!(judge(&bad_books, &path(BY_JBD2)).outcome(), Outcome::Wrong);
}

#[test]
fn a_program_with_the_name_of_a_kernel_thread_does_no_disk_work() {
    let mut truth = truth_with_kernel_threads(10);
    truth["kernel_threads"].as_array_mut().unwrap().remove(0);
    let outside = "threads outside of the workload have 10.000%";
    check(&truth, &path(BY_JBD2), 0.1, &["contributors differ by", outside]);
}

/// The truth for a window of 100 ms, by clocks that date switches back: main runs for `running_ms` and is runnable for
/// the rest. Each switch has from, to, the thread leaving the CPU and the thread getting it; times are in ms.
fn truth_dated_back(running_ms: i64, switches: &[(i64, i64, u32, u32)], is_preempted: bool) -> Value {
    truth_of_window_dated_back(100, running_ms, switches, is_preempted)
}

fn truth_of_window_dated_back(
    ms: i64,
    running_ms: i64,
    switches: &[(i64, i64, u32, u32)],
    is_preempted: bool,
) -> Value {
    let mut truth =
        truth_of(&[("main", "running", None, running_ms), ("main", "runnable", None, ms - running_ms)]);
    let ns = |ms: i64| ORIGIN + (ms + 1) * 1_000_000;
    let dated = |&(from, to, prev, next): &(i64, i64, u32, u32)| json!({"at_ns": ns(to), "back_ns": ns(to) - ns(from), "prev": prev, "is_preempted": is_preempted, "next": next});
    truth["dated_back"] =
        json!({"basis": "measured", "switches": switches.iter().map(dated).collect::<Vec<_>>()});
    truth
}

#[test]
fn switches_that_the_kernel_dates_back_explain_a_difference_and_no_more() {
    let truth = |switches: &[(i64, i64, u32, u32)]| truth_dated_back(55, switches, true);
    let path = path("60 main running, 40 main runnable");
    check(&truth(&[]), &path, 0.05, &["contributors differ by 5.000%"]);
    let explained = truth(&[(56, 60, 10, 99), (50, 51, 10, 99)]);
    check(&explained, &path, 0.05, &[]);
    let verdict = judge(&explained, &path);
    assert_eq!((verdict.remains, verdict.dated_back), (0.0, Some((Basis::Measured, 2))));
    // 3 of the 5 ms are explained; another thread's switches explain nothing, a woken thread's the contrary.
    let part = truth(&[(57, 60, 10, 99), (50, 51, 11, 99)]);
    check(&part, &path, 0.05, &["contributors differ by 2.000% of the window, more than 1.0%"]);
    let woken = truth(&[(95, 100, 99, 10)]);
    check(&woken, &path, 0.05, &["contributors differ by 10.000%"]);
    // The second switch of a preemption takes back a part of the time explained by the first.
    let both_ends = truth_dated_back(58, &[(56, 60, 10, 99), (98, 100, 99, 10)], true);
    check(&both_ends, &path, 0.02, &[]);
}

#[test]
fn a_thread_that_blocks_when_the_kernel_dates_back_waited_for_what_comes_next() {
    let runs = path("60 main running, 40 main runnable");
    // The runnable time comes next here.
    check(&truth_dated_back(55, &[(55, 60, 10, 99)], false), &runs, 0.05, &[]);
    let mut truth = truth_of(&[("main", "running", None, 55), ("main", "block_device", Some("fsync"), 45)]);
    truth["dated_back"] = truth_dated_back(55, &[(55, 60, 10, 99)], false)["dated_back"].clone();
    let waits = path("60 main running, 30 jbd2 running, 10 main block_device/fsync");
    check(&truth, &waits, 0.05, &[]);
}

#[test]
fn a_path_of_two_hosts_may_have_its_times_by_a_clock_that_is_shifted() {
    let (mut drawing, mut switches, mut at) = (Vec::new(), Vec::new(), 0);
    for ran in [3, 5, 2, 7, 4, 6, 1, 8, 3, 5, 9, 2].repeat(5) {
        drawing.push(format!("{ran} main running, 2 main runnable"));
        at += ran;
        // By the machine's clock each switch is 1 ms later, and dated back by 1 ms.
        switches.push((at, at + 1, 10, 99));
        at += 2;
    }
    let path = path(&format!("{}, 5 main running", drawing.join(", ")));
    let mut truth = truth_of_window_dated_back(400, 280 - 60, &switches, true);
    check(&truth, &path, 0.15, &["contributors differ by 15.000%"]);
    truth["hosts"] = json!([{"name": "near", "netns": 1, "pids": [10]}]);
    check(&truth, &path, 0.15, &[]);
}

#[test]
fn a_run_in_which_nothing_was_looked_at_has_no_basis() {
    let plain = judge(&truth(), &path(EXACT));
    assert_eq!((plain.dated_back, plain.remains), (None, 0.0));
    let mut assumed = truth();
    assumed["dated_back"] = json!({"basis": {"assumed": "no rights"}, "switches": []});
    let assumed = judge(&assumed, &path(EXACT));
    assert_eq!(assumed.dated_back, Some((Basis::Assumed("no rights".to_owned()), 0)));
}

#[test]
fn a_wait_in_another_system_call_fails() {
    check_all(
        &truth_of(&[("main", "running", None, 60), ("main", "timer", Some("poll"), 40)]),
        "the same call: 0%
             60 main running, 40 main timer/poll
         half of it in another: 0% timer of prog in poll is 20.000 ms, not 40.000 ms
             60 main running, 20 main timer/poll, 20 main timer/select",
    );
}

#[test]
fn a_window_of_another_thread_or_length_fails() {
    let mut other = path(EXACT);
    other["window"]["tid"] = json!(11);
    check(&truth(), &other, 0.0, &["the window belongs to"]);
    let long = path("600 main running, 60 main running, 10 worker timer, 30 worker running");
    let mut late = truth();
    for end in ["from_ns", "to_ns"] {
        late["window"][end] = json!(late["window"][end].as_i64().unwrap() + 600_000_000);
    }
    check(&late, &long, 0.0, &["the window has 602 ms of running before"]);
    // The program's own clock knows most of it, or too little.
    let mut known = late.clone();
    known["clocks"]["before_ns"] = json!(560_000_000);
    check(&known, &long, 0.0, &[]);
    known["clocks"]["before_ns"] = json!(540_000_000);
    check(&known, &long, 0.0, &["the window has 602 ms of running before"]);
    // It says nothing about the time behind the last line.
    let behind = path("60 main running, 10 worker timer, 30 worker running, 600 main running");
    let mut early = truth();
    early["clocks"]["before_ns"] = json!(900_000_000);
    check(&early, &behind, 0.0, &["the window has 602 ms of running before"]);
    let short = path("58 main running, 10 worker timer, 30 worker running");
    assert!(
        judge(&truth(), &short)
            .violations
            .iter()
            .any(|text| text.contains("too early for the program's own"))
    );
}

#[test]
fn a_gap_between_segments_or_a_wrong_sum_fails() {
    let mut gap = path(EXACT);
    gap["segments"][2]["from_ns"] = json!(61_000_007);
    let violations = judge(&truth(), &gap).violations;
    assert!(violations.iter().any(|text| text.contains("do not tile")), "{violations:?}");
    let mut sum = path(EXACT);
    sum["contributors"][1]["total_ns"] = json!(60_000_001);
    check(&truth(), &sum, 0.0, &["segments and contributors differ by -1 ns in running"]);
}

#[test]
fn a_recorder_that_lost_records_fails() {
    let mut path = path(EXACT);
    path["losses"] = json!([{"count": 3, "reported": true}]);
    check(&truth(), &path, 0.0, &["the recorder lost records in 1 places"]);
}

/// A path in which switches are missing.
fn path_with_missing(drawing: &str) -> Value {
    let mut path = path(drawing);
    path["losses"] = json!([{"count": null, "reported": false}]);
    path
}

/// Checks runs with missing events: void, or wrong with this violation.
#[track_caller]
fn check_beside_unknown(truth: &Value, drawings: &[(&str, &str)]) {
    for (drawing, violation) in drawings {
        let verdict = judge(truth, &path_with_missing(drawing));
        let violations = &verdict.violations;
        assert!(verdict.void[0].contains("is unknown where events are missing"), "{:?}", verdict.void);
        let expected = if violation.is_empty() { Outcome::Void } else { Outcome::Wrong };
        assert_eq!(verdict.outcome(), expected, "{drawing}: {violations:?}");
        assert!(violations.iter().all(|text| text.contains(violation)), "{drawing}: {violations:?}");
    }
}

#[test]
fn unknown_where_an_event_never_came_excuses_what_the_path_lacks_and_nothing_else() {
    check_beside_unknown(
        &truth(),
        &[
            ("60 main running, 5 worker unknown, 5 worker timer, 30 worker running", ""),
            ("60 main running, 5 worker unknown, 5 worker timer, 29 worker running, 1 main running", ""),
            ("60 main running, 10 main network?, 30 worker running", ""),
            ("60 main running, 10 main timer?, 30 worker running", ""),
            // All of it lies within the unknown time, and main still has too much.
            (
                "60 main running, 5 worker unknown, 5 worker timer, 20 worker running, 10 main running",
                "contributors differ by 10.000%",
            ),
            (
                "60 main running, 10 main network, 5 worker unknown, 25 worker running",
                "contributors differ by 10.000%",
            ),
            (
                "62 main running, 30 worker unknown, 8 worker timer",
                "contributors differ by 2.000% of the window, more than 1.0%",
            ),
            (
                "60 main running, 5 worker unknown, 4 worker timer, 30 worker running, 1 outsider running",
                "threads outside of the workload have 1.000%",
            ),
        ],
    );
}

#[test]
fn a_must_or_never_or_name_is_wrong_whatever_is_unknown_beside_it() {
    const BESIDE: &str = "60 main running, 5 worker unknown, 5 worker timer, 30 worker running";
    let with = |key: &str, assertion: &str| {
        let mut truth = truth();
        truth[key] = json!([assertion]);
        judge(&truth, &path_with_missing(BESIDE)).outcome()
    };
    assert_eq!(with("must", "segments kind=timer comm=prog-work"), Outcome::Void);
    assert_eq!(with("must", "segments kind=lock"), Outcome::Wrong);
    assert_eq!(with("never", "segments kind=lock"), Outcome::Void);
    assert_eq!(with("never", "segments kind=timer comm=prog-work"), Outcome::Wrong);
    let mut path = path_with_missing(BESIDE);
    for segment in path["segments"].as_array_mut().unwrap() {
        segment["comm"] = json!("prog");
    }
    let verdict = judge(&truth(), &path);
    assert_eq!(verdict.outcome(), Outcome::Wrong, "{:?}", verdict.void);
    assert_eq!(verdict.violations, ["thread 11 has the name `prog` and never `prog-work`"]);
}

#[test]
fn a_wait_may_lack_unknown_time_and_has_none_that_it_did_not_have() {
    check_beside_unknown(
        &truth_of(&[("main", "running", None, 60), ("main", "timer", Some("poll"), 40)]),
        &[
            ("60 main running, 20 main timer/poll, 20 main unknown", ""),
            ("60 main running, 40 main unknown", ""),
            (
                "60 main running, 10 main timer/poll, 20 main timer/select, 10 main unknown",
                "timer of prog in poll is 10.000 ms",
            ),
        ],
    );
    let truth = truth_of(&[("main", "running", None, 60), ("main", "timer", Some("poll"), 40)]);
    let longer = judge(&truth, &path_with_missing("50 main running, 45 main timer/poll, 5 main unknown"));
    let said = |text: &String| text == "timer of prog in poll is 45.000 ms, not 40.000 ms";
    assert!(longer.violations.iter().any(said), "{:?}", longer.violations);
    let disk = truth_of(&[("main", "running", None, 60), ("main", "block_device", Some("fsync"), 40)]);
    check_beside_unknown(
        &disk,
        &[
            ("60 main running, 40 main unknown", ""),
            ("60 main running, 20 main block_device/read, 20 main unknown", "no wait of prog in fsync"),
        ],
    );
}

#[test]
fn unknown_time_without_a_missing_event_excuses_nothing() {
    for drawing in [
        "60 main running, 5 worker unknown, 5 worker timer, 30 worker running",
        "60 main running, 10 main network?, 30 worker running",
        "60 main running, 10 main timer?, 30 worker running",
    ] {
        let verdict = judge(&truth(), &path(drawing));
        assert_eq!((verdict.outcome(), verdict.void.len()), (Outcome::Wrong, 0), "{:?}", verdict.violations);
    }
}

#[test]
fn a_path_that_contradicts_itself_is_wrong_even_beside_a_truth_that_does() {
    let mut truth = truth();
    truth["clocks"]["running_ns"] = json!(50_000_000);
    truth["must"] = json!(["segments kind=lock"]);
    let swapped = "60 main running, 10 worker timer, 30 main running";
    let mut path = path(swapped);
    assert_eq!(judge(&truth, &path).outcome(), Outcome::Void, "nothing else can be judged");
    path["contributors"][1]["total_ns"] = json!(60_000_001);
    assert_eq!(judge(&truth, &path).outcome(), Outcome::Wrong);
}

#[test]
fn a_truth_that_contradicts_itself_judges_nothing() {
    let path = path(EXACT);
    let void = |key: &str, value: i64, expected: &str| {
        let mut truth = truth();
        match key {
            "part" => truth["contributors"][1]["total_ns"] = json!(value),
            clock => truth["clocks"][clock] = json!(value),
        }
        let verdict = judge(&truth, &path);
        assert!(verdict.void.len() == 1 && verdict.void[0].contains(expected), "{:?}", verdict.void);
    };
    void("part", 29_000_000, "the truth's parts sum to 99000000 ns");
    void("running_ns", 50_000_000, "ran for 60000000 ns by its account, for 50000000 ns by its clock");
    void("unawares_ns", 400_000, "blocked for 400000 ns that its account has as work");
    void("unordered_ns", 500_001, "500001 ns of the program's account are in no certain order");
    assert_eq!(judge(&truth(), &path).void, [""; 0]);
    let mut disk = truth_of(&[("main", "running", None, 60), ("main", "block_device", Some("fsync"), 40)]);
    disk["clocks"]["stolen_ns"] = json!(10_000_000);
    let verdict = judge(&disk, &self::path("60 main running, 40 main block_device/fsync"));
    assert!(verdict.void[0].contains("the hypervisor stole 10000000 ns"), "{:?}", verdict.void);
}

#[test]
fn an_open_window_ends_where_the_path_does_and_still_waiting_is_not_unknown() {
    let mut truth = truth_of(&[("main", "running", None, 20), ("main", "still_waiting", Some("futex"), 80)]);
    truth["window"]["to_ns"] = json!(null);
    truth["contributors"][1]["total_ns"] = json!(null);
    let mut hang = path("20 main running, 170 main unknown/futex, 1 main unknown/futex");
    // The drawing's last running is not there: a hang has no end.
    hang["segments"].as_array_mut().unwrap().pop();
    hang["contributors"].as_array_mut().unwrap().pop();
    hang["window"]["to_ns"] = json!(192_000_000);
    for part in hang["contributors"].as_array_mut().unwrap() {
        part["share"] = json!(part["total_ns"].as_i64().unwrap() as f64 / 192e6);
    }
    check(&truth, &hang, 171.0 / 191.0, &["contributors differ by", "unknown is"]);
    for open in [2, 3] {
        hang["segments"][open]["cause"] = json!({"type": "still_waiting", "comm": null});
    }
    check(&truth, &hang, 0.0, &[]);
}

#[test]
fn a_thread_may_have_had_another_name_before_but_not_throughout() {
    let renamed = |pieces: &[usize]| {
        let mut path = path("60 main running, 5 worker running, 10 worker timer, 25 worker running");
        for &piece in pieces {
            path["segments"][piece]["comm"] = json!("prog");
        }
        path
    };
    check(&truth(), &renamed(&[2]), 0.0, &[]);
    check(&truth(), &renamed(&[2, 3, 4]), 0.0, &["thread 11 has the name `prog` and never `prog-work`"]);
}

#[test]
fn a_slower_machine_is_allowed_more_for_its_switches_but_nothing_that_must_not_be_there() {
    let slower = Limits::with_error(0.01).slower(4.0);
    let violations = |drawing, limits| {
        compare(&truth(), &path(drawing), limits).expect("documents of the right form").violations.len()
    };
    let off_by_three_percent = "57 main running, 3 main runnable, 10 worker timer, 30 worker running";
    assert_eq!(violations(off_by_three_percent, Limits::with_error(0.01)), 1);
    assert_eq!(violations(off_by_three_percent, slower), 0);
    assert_eq!(violations("55 main running, 5 main runnable, 10 worker timer, 30 worker running", slower), 1);
    let unknown = "60 main running, 10 worker timer, 29 worker running, 1 worker unknown";
    assert_eq!(violations(unknown, slower), 1);
    let outside = "60 main running, 10 worker timer, 29 worker running, 1 outsider running";
    assert_eq!(violations(outside, slower), 1);
}

#[test]
fn documents_of_another_form_are_refused() {
    let path = path(EXACT);
    let mut other = path.clone();
    other["schema"] = json!("wakepath.path/2");
    let limits = Limits::with_error(0.01);
    assert!(matches!(compare(&truth(), &other, limits), Err(BadDocument::Schema { .. })));
    other["schema"] = json!("wakepath.path/1");
    other["origin_ns"] = json!("yesterday");
    assert!(matches!(compare(&truth(), &other, limits), Err(BadDocument::Origin(_))));
    other["origin_ns"] = json!("900000000000000");
    assert!(matches!(compare(&truth(), &other, limits), Err(BadDocument::Apart)));
    assert!(matches!(compare(&json!({}), &path, limits), Err(BadDocument::Truth(_))));
    assert!(matches!(compare(&truth(), &json!([]), limits), Err(BadDocument::Path(_))));
}
