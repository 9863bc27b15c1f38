//! A worker whose calls are slow for reasons that depend on the sender of their request.

use std::path::Path;

use serde_json::Value;
use wakepath_harness::live::{Place, document, go, number, program, run};

use crate::drill::languages::go_program;
use crate::drill::{Drilled, alone, only_path};

/// The program's own numbers: `buy` orders, their time in the queue, ns, and both for the slow ones. Then the time in
/// the queue of those orders that are not slow, by the power of two of their call's ns.
fn waited(file: &Path) -> [u64; 68] {
    let bytes = std::fs::read(file).expect("the program's file");
    let word = |at: usize| u64::from_le_bytes(bytes[8 * at..8 * at + 8].try_into().expect("8 bytes"));
    std::array::from_fn(word)
}

/// The times in the queue while `ask` runs, ns: the means for all `buy` orders and for the slow ones, and the sum for
/// other orders whose calls took as long as those of the peak. With its answer.
fn meanwhile(file: &Path, ask: impl FnOnce() -> Value) -> ([u64; 3], Value) {
    let before = waited(file);
    let answer = ask();
    let after = waited(file);
    let gained = |at: usize| after[at] - before[at];
    let mean = |count: usize| gained(count + 1) / gained(count).max(1);
    let [from, to] = ["from_ns", "to_ns"].map(|end| number(&answer["peak"][end]).ilog2() as usize);
    // A peak reaches a little beyond its buckets.
    let strays = (from.saturating_sub(1)..=to + 1).map(|bucket| gained(4 + bucket)).sum();
    ([mean(0), mean(2), strays], answer)
}

fn built(folder: &Place) -> String {
    program(folder, "hand_over", include_str!("hand_over.c"), &["-O1", "-g", "-pthread"])
}

#[test]
fn calls_are_measured_whose_requests_a_function_handed_over_with_their_time_in_the_queue() {
    let Some(folder) = alone("requests are followed to the thread that takes them") else { return };
    let built = built(&folder);
    let kept = folder.join("waited");
    let process = Drilled::start_program(&built, &[kept.to_str().expect("a path")]);
    let function = |name: &str| format!("{built}:{name}");
    let target = function("work");
    let (order, report, buy) = (function("submit_order:2"), function("submit_report"), function("buy"));
    let asked = ["drill", &target, "-p", &process.1, "--start-ops", "200", "--no-waits"];
    let ask = |options: &[&str]| document(&folder, &[&asked, options].concat());
    // Reports make the slowest calls.
    let all = ask(&[]);
    assert_eq!(only_path(&all).0, ["work", "render"], "{all}");
    assert!(all["handed_over"].is_null(), "{all}");
    let reports = ask(&["--handed-over", &report]);
    assert_eq!(only_path(&reports).0, ["work", "render"], "{reports}");
    let orders = ask(&["--handed-over", &order]);
    assert!(only_path(&orders).0.starts_with(&["work", "pack"]), "{orders}");
    for more in [&[][..], &["--stubs"]] {
        let words = [&["--handed-over", &order, "--handed-over-within", &buy], more].concat();
        let ([mean, of_slow, strays], bought) = meanwhile(&kept, || ask(&words));
        let (path, cause) = only_path(&bought);
        assert_eq!((path, &cause["cause"]), (vec!["work", "parse"], &"itself".into()), "{bought}");
        let found = &bought["handed_over"];
        let named = ["by", "within", "argument", "request"].map(|key| found[key].clone());
        let named = Value::from(named.to_vec());
        let by = function("submit_order");
        assert_eq!(named, serde_json::json!([by, buy, 2, 1]), "{bought}");
        // Half of the requests are `buy` orders; six in a round may not have begun, or were handed over before.
        let [requests, others] = [&found["requests"], &found["others"]].map(number);
        let begun = number(&found["begun"]["requests"]);
        assert!(begun <= requests && begun + 6 >= requests, "{bought}");
        assert!(others + 12 > begun && others < begun + 18, "{bought}");
        assert_eq!((number(&found["not_followed"]), number(&bought["calls"]) <= begun), (0, true));
        // A tenth and a quarter: the program's figures begin before the probes, and the peak's figures cover only some
        // rounds. Other orders that were delayed into the peak waited for far longer.
        let measured = number(&found["in_peak"]["requests"]).max(1);
        let [found, in_peak] = ["begun", "in_peak"].map(|of| number(&found[of]["mean_ns"]));
        assert!(found.abs_diff(mean) <= mean / 10, "{found} and {mean}: {bought}");
        let most = of_slow + of_slow / 4 + strays / measured;
        assert!(
            (of_slow * 3 / 4..=most).contains(&in_peak),
            "{in_peak} and {of_slow}, strays {strays}: {bought}"
        );
        assert!(mean > 4 * of_slow, "slow orders are the first of a round: {mean} and {of_slow}");
    }
    let said = |options: &[&str], code| {
        let (out, err) = run(&folder, &[&asked[..6], options].concat(), code);
        format!("{out}{err}").split_whitespace().collect::<Vec<_>>().join(" ")
    };
    // The calls' waits are not recorded: a recording would cover all requests.
    let text = said(&["--handed-over", &order], 0);
    assert!(text.contains(" requests that ") && text.contains("other calls were not measured"), "{text}");
    // Where the part with the most votes computes, and the answer doubts it, no wait is asked about.
    let is_doubtful = text.contains("not certain");
    assert!(is_doubtful || text.contains("does not know which requests were handed over"), "{text}");
    assert!(!folder.join("wakepath.rec").exists());
    for (by, within, says, next) in [
        ("never", None, "never` was not called in 1.0 s, so that it handed no request over", "latency -a"),
        ("submit_order", None, "argument 1 of it was none of them", "submit_order:N --request M"),
        ("submit_order:3", None, "argument 3 of", "choose another argument"),
        ("submit_order:7", None, "is in no register: those from 1 to 6 are", "counted from 1"),
        ("submit_order:2", Some("work"), "but never within a call of", "leave --handed-over-within out"),
    ] {
        let by = function(by);
        let within = within.map(function);
        let mut options = vec!["-d", "1s", "--handed-over", &by];
        options.extend(within.iter().flat_map(|within| ["--handed-over-within", within.as_str()]));
        let text = said(&options, 2);
        assert!(text.contains(says) && text.contains(next), "{options:?}: {text}");
    }
    for (target, says) in
        [("kernel:vfs_read", "a function of the kernel"), ("python:f", "a function of Python")]
    {
        let (_, err) = run(&folder, &["drill", target, "-p", &process.1, "--handed-over", &order], 2);
        assert!(err.contains(says), "{err}");
    }
}

#[test]
fn requests_of_goroutines_are_followed_through_a_channel() {
    let would_show = "requests are followed through a channel of Go";
    let (Some(folder), Some(go)) = (alone(would_show), go(would_show)) else { return };
    let built = go_program(&folder, &go, "hand_over", include_str!("hand_over.go"));
    let process = Drilled::start_program(&built, &[]);
    let [target, order, report] =
        ["main.work", "main.submitOrder:2", "main.submitReport:2"].map(|name| format!("{built}:{name}"));
    for (by, culprit) in [(&order, "main.parse"), (&report, "main.render")] {
        let asked =
            ["drill", &target, "-p", &process.1, "--start-ops", "200", "--slow-probes", "--handed-over", by];
        let answer = document(&folder, &asked);
        assert_eq!(only_path(&answer).0, ["main.work", culprit, "main.compute"], "{answer}");
        let [begun, others] = [&answer["handed_over"]["begun"]["requests"], &answer["handed_over"]["others"]];
        // Orders and reports are handed over in turn.
        assert!(number(begun).abs_diff(number(others)) <= 16, "{answer}");
    }
}
