//! A Python server under `wakepath record --otlp`: a request waits behind another request's callback, in one event loop.

use serde_json::Value;
use wakepath_harness::live::{command, document, list, number, place, texts};

use crate::plugin;
use crate::python::{Installed, install};
use crate::truth::said;

/// The requests that blocked the page, by operation with ns, if `first` begins first; and the page's wait behind the
/// report by the program's own clock.
fn blocked(installed: &Installed, first: &str, second: &str) -> Option<(Vec<(String, u64)>, u64)> {
    let folder = place("a request behind the callback of another one is blocked by it")?;
    let mut record = command(&folder, &["record", "--otlp", "0", "--"]);
    record.arg(installed.bin("opentelemetry-instrument")).arg(installed.bin("python"));
    record
        .arg(plugin("python/tests/event_loop.py").canonicalize().expect("the program"))
        .args([first, second]);
    record.env("PYTHONPATH", installed.site()).env("OTEL_TRACES_EXPORTER", "otlp_proto_http");
    record.env("OTEL_METRICS_EXPORTER", "none").env("OTEL_LOGS_EXPORTER", "none");
    record.env_remove("OTEL_EXPORTER_OTLP_ENDPOINT");
    let output = record.output().expect("wakepath");
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{out}{err}");
    let answer = document(&folder, &["requests", "--operation", "page", "--slowest", "1"]);
    let name = |one: &Value| one["operation"].as_str().unwrap_or_default().to_owned();
    let blocked = list(&answer["blocked_by"]).iter();
    let blocked = blocked.map(|one| (name(one), number(&one["total_ns"]))).collect();
    let line = out.lines().find(|line| line.contains("behind_ns")).expect("the program's own line");
    println!("{first} first, by {}: {blocked:?}; {line}", answer["request"]["join"]);
    Some((blocked, said(line, "behind_ns") as u64))
}

#[test]
fn live_root_with_python_a_request_that_waits_behind_the_callback_of_another_one_is_blocked_by_it() {
    let Some(installed) = install("a request behind a callback is blocked by its request", true) else {
        return;
    };
    // The thread number alone names no request if the report begins first; the plug-in's record does.
    for (first, second) in [("page", "report"), ("report", "page")] {
        let Some((by, behind_ns)) = blocked(&installed, first, second) else { return };
        let [(operation, ns)] = &by[..] else { panic!("one request blocked it: {by:?}") };
        assert_eq!(operation, "report");
        assert!(*ns >= behind_ns * 9 / 10, "{first} first: {ns} of {behind_ns} ns");
    }
}
