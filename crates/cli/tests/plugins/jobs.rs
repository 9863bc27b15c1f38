//! Jobs in pools of threads, handed over by an event loop: a request is blocked by the request whose job has the lock, or the thread.

use crate::eight::{Own, Parts, answers, assert_most_recorded, own_times, recorded};
use crate::plugin;
use crate::python::install;

/// The program's own times of an operation's requests beside the answers, each from the shortest to the longest.
fn beside(own: &[Own], operation: &str, mut answers: Vec<Parts>) -> Vec<(Vec<f64>, Parts)> {
    let own = own.iter().filter(|one| one.name == operation);
    let mut own: Vec<_> = own.map(|one| one.times.clone()).collect();
    own.sort_by(|one, other| (one[1] - one[0]).total_cmp(&(other[1] - other[0])));
    answers.sort_by(|one, other| one.in_all.total_cmp(&other.in_all));
    assert_eq!(own.len(), answers.len(), "{operation}");
    own.into_iter().zip(answers).collect()
}

/// Compares a blocked time with the program's own time, in which it also waited for a CPU.
#[track_caller]
fn is_within(blocked: f64, waited: f64, request: &Parts, points: f64) {
    let least = waited - request.state("runnable") - request.unrecorded - points;
    assert!((least..=waited + points).contains(&blocked), "{waited}: {request:?}");
}

/// A request waits for its own timer; the kernel may leave its switches out, and the answer says so.
#[track_caller]
fn is_timer(request: &Parts, ms: f64) {
    let (timer, points) = (request.state("timer"), request.in_all * 0.02);
    assert!((ms - request.unrecorded - points..=ms + points).contains(&timer), "{request:?}");
}

#[test]
fn live_root_with_python_a_request_is_blocked_by_the_request_whose_job_has_the_lock_or_the_thread() {
    let would_show = "a request waits for another request's job in a pool";
    let Some(installed) = install(would_show, true) else { return };
    for argument in ["", "anyio"] {
        let program = |record: &mut std::process::Command| {
            record.arg(installed.bin("opentelemetry-instrument")).arg(installed.bin("python"));
            record.arg(plugin("python/tests/jobs.py").canonicalize().expect("the program"));
            record.env("PYTHONPATH", installed.site()).env("OTEL_TRACES_EXPORTER", "otlp_proto_http");
        };
        let Some((folder, out)) = recorded(argument, would_show, program) else { return };
        let own = own_times(&out);
        let all = |operation| {
            let answers = answers(&folder, operation);
            assert_most_recorded(&answers);
            let all = beside(&own, operation, answers);
            all.iter().for_each(|one| println!("{argument} {operation}: {one:?}"));
            all
        };
        for (times, item) in all("item") {
            let (waited, points) = (times[3] - times[2], item.in_all * 0.02);
            assert!(waited > 250.0, "{times:?}");
            is_within(item.blocker("hold"), waited, &item, points);
            assert!(item.state("unknown") - item.unrecorded <= points, "{item:?}");
        }
        for (times, quick) in all("quick") {
            let (waited, points) = (times[2] - times[0], quick.in_all * 0.02);
            assert!(waited > 250.0, "{times:?}");
            is_within(quick.blocker("batch"), waited, &quick, points);
            assert!(quick.state("unknown") - quick.unrecorded <= points, "{quick:?}");
        }
        // The twin: in a thread that no other job needs.
        for (_, other) in all("other") {
            let points = other.in_all * 0.02;
            is_timer(&other, 100.0);
            assert!(other.blocker("hold") + other.blocker("batch") <= points, "{other:?}");
        }
        for (_, hold) in all("hold") {
            is_timer(&hold, 400.0);
        }
    }
}
