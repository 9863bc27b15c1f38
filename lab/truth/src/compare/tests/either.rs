//! Truths with two readings of a part.

use super::*;

#[test]
fn a_series_of_polls_that_may_have_ended_in_two_ways_is_judged_by_the_nearer_one_and_by_no_third() {
    // 20 ms in which main polls, twice as long as the worker's rest.
    let ended = json!([
        {"pid": 10, "tid": 11, "comm": "prog-work", "kind": "running", "what": null, "call": null, "total_ns": 20_000_000}
    ]);
    let timed_out = json!([
        {"pid": 10, "tid": 10, "comm": "prog", "kind": "timer", "what": null, "call": "poll", "total_ns": 20_000_000}
    ]);
    let mut truth = truth();
    let series = |from_ms: i64, to_ms: i64| {
        let stamp = |ms: i64| ORIGIN + 1_000_000 + ms * 1_000_000;
        json!({"from_ns": stamp(from_ms), "to_ns": stamp(to_ms), "ended": ended, "timed_out": timed_out})
    };
    truth["either"] = json!([series(70, 90)]);
    let as_ended = path(EXACT);
    let as_timed_out = path("60 main running, 10 worker timer, 20 main timer/poll, 10 worker running");
    for path in [&as_ended, &as_timed_out] {
        check(&truth, path, 0.0, &[]);
        assert!((judge(&truth, path).either - 0.2).abs() < 1e-9);
    }
    let third = "60 main running, 10 worker timer, 20 main runnable, 10 worker running";
    check(&truth, &path(third), 0.2, &["contributors differ by 20.000%"]);
    // The series' time decides, and nothing else has a second reading.
    truth["either"] = json!([series(80, 100)]);
    check(
        &truth,
        &path("60 main running, 10 worker timer, 10 main timer/poll, 20 worker running"),
        0.1,
        &["differ by 10.000%"],
    );
    let mut short = series(70, 74);
    short["ended"][0]["total_ns"] = json!(4_000_000);
    short["timed_out"][0]["total_ns"] = json!(4_000_000);
    truth["either"] = json!([short]);
    check(&truth, &path("60 main running, 10 worker timer, 4 main timer/poll, 26 worker running"), 0.0, &[]);
    truth["either"] = json!([]);
    check(&truth, &as_timed_out, 0.2, &["differ by 20.000%"]);
    check(&truth, &as_ended, 0.0, &[]);
}

#[test]
fn books_with_two_readings_of_more_than_half_of_the_window_judge_nothing() {
    let main = |ms: i64| json!([{"pid": 10, "tid": 10, "comm": "prog", "kind": "running", "what": null, "call": null, "total_ns": ms * 1_000_000}]);
    let void = |from_ms: i64, sum_ms: i64, to_ms: i64| {
        let mut truth = truth();
        let stamp = |ms: i64| ORIGIN + 1_000_000 + ms * 1_000_000;
        truth["either"] = json!([{
            "from_ns": stamp(from_ms), "to_ns": stamp(to_ms), "ended": main(sum_ms), "timed_out": main(to_ms - from_ms),
        }]);
        judge(&truth, &path(EXACT)).void
    };
    assert_eq!(void(0, 50, 50), [""; 0]);
    assert_eq!(void(0, 51, 51), ["the program's books have two readings of 51.0% of the window"]);
    assert_eq!(void(0, 9, 10), ["a reading of 10000000 ns of the program's account sums to 9000000 ns"]);
}
