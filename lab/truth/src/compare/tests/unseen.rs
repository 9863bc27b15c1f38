//! Kernel actions that a program's log cannot show.

use serde_json::json;

use super::*;

#[test]
fn timers_of_tcp_are_not_judged_where_the_kernel_counts_that_it_sent_by_them() {
    let mut truth = truth_of(&[("main", "running", None, 60), ("main", "timer", Some("recvfrom"), 40)]);
    let mut path = path("60 main running, 40 main network/recvfrom");
    path["segments"][2]["cause"] = json!({"type": "sent_again", "comm": null});
    assert_eq!(judge(&truth, &path).outcome(), Outcome::Wrong, "the kernel counts none");
    truth["clocks"]["sent_by_timers"] = json!(1);
    let verdict = judge(&truth, &path);
    assert_eq!(verdict.outcome(), Outcome::Void);
    assert_eq!(verdict.void, ["40.000% is for timers of TCP, which the program does not see"]);
    path["segments"][2]["cause"]["type"] = json!("packet");
    assert_eq!(judge(&truth, &path).outcome(), Outcome::Wrong, "no timer of TCP");
    // It excuses time missing elsewhere, and no unknown time.
    path["segments"][2]["cause"]["type"] = json!("window_probe");
    path["segments"][1]["kind"] = json!("unknown");
    assert_eq!(judge(&truth, &path).outcome(), Outcome::Wrong);
}

#[test]
fn what_tcp_does_by_a_timer_is_the_network_in_the_books_of_a_link() {
    let mut truth = truth_of(&[("main", "running", None, 60), ("main", "network", None, 40)]);
    for key in ["pid", "tid"] {
        truth["contributors"][1][key] = json!(0);
    }
    let mut path = path("60 main running, 40 main timer/sendto");
    for cause in ["delayed_acknowledgement", "sent_again", "window_probe"] {
        path["segments"][2]["cause"] = json!({"type": cause, "comm": null});
        truth["hosts"] = json!([]);
        assert_eq!(judge(&truth, &path).outcome(), Outcome::Wrong, "{cause}: there is no link");
        truth["hosts"] = json!([{"name": "near", "netns": 1, "pids": [10]}]);
        let verdict = judge(&truth, &path);
        assert_eq!((verdict.error, verdict.outcome()), (0.0, Outcome::Right), "{cause}");
    }
    path["segments"][2]["cause"]["type"] = json!("timer");
    assert_eq!(judge(&truth, &path).outcome(), Outcome::Wrong, "a timer of the program");
}

#[test]
fn a_log_from_which_the_kernel_left_waits_for_a_cpu_out_judges_nothing() {
    let path = path("60 main running, 40 main runnable");
    let uncounted = |ns: i64| {
        let mut truth = truth_dated_back(58, &[(60, 60, 10, 99)], true);
        truth["dated_back"]["switches"][0]["uncounted_ns"] = json!(ns);
        judge(&truth, &path)
    };
    assert_eq!(uncounted(500_000).outcome(), Outcome::Wrong);
    let verdict = uncounted(500_001);
    assert_eq!(verdict.outcome(), Outcome::Void);
    assert!(verdict.void[0].starts_with("the kernel did not count 500001 ns"), "{:?}", verdict.void);
}

#[test]
fn sleep_that_the_kernel_counts_as_a_wait_for_a_cpu_is_no_error_of_the_path() {
    let mut truth = truth_of(&[
        ("main", "running", None, 60),
        ("worker", "running", None, 30),
        ("main", "runnable", None, 10),
    ]);
    let mut path = path("60 main running, 40 worker running");
    // The window begins 1 ms behind the origin.
    path["waits"] = json!([{"tid": 10, "from_ns": 61_000_000, "to_ns": 101_000_000}]);
    assert_eq!(judge(&truth, &path).outcome(), Outcome::Wrong);
    let to = ORIGIN + 101_000_000;
    let sleep = |ns: i64| json!([{"tid": 10, "from_ns": to - ns, "to_ns": to}]);
    truth["dated_back"] = json!({"basis": "measured", "switches": [], "overcounted": sleep(10_000_000)});
    // A log that knows otherwise when the sleep ended has none of it as runnable.
    assert_eq!(judge(&truth, &path).outcome(), Outcome::Wrong, "it was not in the log");
    truth["counted"] = sleep(10_000_000);
    let verdict = judge(&truth, &path);
    assert_eq!((verdict.remains, verdict.outcome()), (0.0, Outcome::Right));
    truth["counted"] = sleep(5_000_000);
    assert_eq!(judge(&truth, &path).outcome(), Outcome::Wrong, "half of it is not in the log");
    truth["counted"] = sleep(10_000_000);
    truth["dated_back"]["overcounted"] = sleep(5_000_000);
    assert_eq!(judge(&truth, &path).outcome(), Outcome::Wrong, "half of it is not explained");
}
