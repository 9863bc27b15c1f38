//! Django, gunicorn and PostgreSQL under `wakepath record --otlp`: a request waits for a row changed by another request.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use wakepath_harness::live::{command, document, list, not_possible, number, place, texts};

use crate::python::install;
use crate::truth::said;
use crate::{has, plugin};

#[test]
fn live_root_with_django_a_row_lock_is_named_as_the_request_that_holds_it_through_the_database() {
    const SHOWS: &str = "a row lock is named as the request that holds it";
    let Some(installed) = install(SHOWS, true) else { return };
    if let Some(missing) = ["initdb", "postgres", "psql", "setpriv"].into_iter().find(|program| !has(program))
    {
        not_possible(&format!("{missing} is not there"), SHOWS);
        return;
    }
    let Some(folder) = place(SHOWS) else { return };
    // The database runs as another user, who has to reach its own folders.
    let database =
        tempfile::Builder::new().permissions(Permissions::from_mode(0o755)).tempdir().expect("a folder");
    let program = plugin("python/tests/row_lock.py").canonicalize().expect("the program");
    let mut record = command(&folder, &["record", "--otlp", "0", "--"]);
    record.arg(installed.bin("python")).arg(program).arg(database.path());
    record.env("PYTHONPATH", installed.site()).env("OTEL_TRACES_EXPORTER", "otlp_proto_http");
    record.env("OTEL_METRICS_EXPORTER", "none").env("OTEL_LOGS_EXPORTER", "none");
    record.env("OTEL_SERVICE_NAME", "shop").env_remove("OTEL_EXPORTER_OTLP_ENDPOINT");
    let output = record.output().expect("wakepath");
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{out}{err}");
    let line = out.lines().find(|line| line.contains("behind_ns")).expect("the program's own line");
    let behind_ns = said(line, "behind_ns") as u64;
    let answer = document(&folder, &["requests", "--operation", "GET order/quick", "--slowest", "1"]);
    let by: Vec<_> = list(&answer["blocked_by"])
        .iter()
        .map(|one| (one["operation"].as_str().unwrap_or_default(), number(&one["total_ns"])))
        .collect();
    println!("behind the other order for {behind_ns} ns, by the answer: {by:?}");
    let [("GET order/paid", ns)] = by[..] else { panic!("one request blocked it: {by:?}") };
    assert!(ns.abs_diff(behind_ns) <= behind_ns / 10, "{ns} of {behind_ns} ns: {answer}");
}
