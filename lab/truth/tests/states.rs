//! Thread states in other projects' traces, which `WAKEPATH_TRACES` and `WAKEPATH_FOUND` name, beside the states proved by another reader's
//! events.

use std::path::{Path, PathBuf};
use std::process::Command;

use wakepath_harness::live::{WAKEPATH, not_possible};
use wakepath_truth::states::{self, ThreadVerdict};

#[test]
fn threads_ran_could_run_and_were_blocked_as_the_schedulers_events_alone_prove() {
    let Some(folder) = std::env::var_os("WAKEPATH_TRACES").map(PathBuf::from) else {
        let would_show = "the states of all threads are those that another reader's events prove";
        return not_possible("WAKEPATH_TRACES names no folder", would_show);
    };
    for (trace, same) in [
        ("many-threads", 8016),
        ("scp_src", 22),
        ("scp_dest", 30),
        ("lttng-mutex", 14),
        ("lttng-pipeline", 17),
        ("lttng-imbalance", 15),
        ("lttng-rpc-local", 29),
        ("lttng-ust-app", 18),
    ] {
        check(&folder.join(trace), same, 0);
    }
}

#[test]
fn a_thread_has_unknown_time_where_a_cpu_has_no_records_and_otherwise_the_proved_states() {
    let Some(folder) = std::env::var_os("WAKEPATH_FOUND").map(PathBuf::from) else {
        let would_show =
            "traces that lack a CPU's records, or have another tracer's states, have the proved states";
        return not_possible("WAKEPATH_FOUND names no folder", would_show);
    };
    for (trace, same, unknown) in [
        ("lttng-tracefile-rotation", 180, 0),
        ("lttng-2.10-on-4.15-raw-states", 180, 0),
        ("babeltrace2-written-session", 63, 0),
        ("lttng-cpu-begins-late", 52, 123),
        ("lttng-one-of-four-cpus", 11, 94),
    ] {
        let into = tempfile::tempdir().expect("a temporary directory");
        let archive = folder.join(format!("{trace}.tar.xz"));
        let tar = Command::new("tar").arg("-xJf").arg(archive).arg("-C").arg(into.path()).status();
        assert!(tar.expect("tar").success(), "{trace}");
        check(into.path(), same, unknown);
    }
}

/// No thread differs from what the trace proves. `same` and `unknown` are the expected numbers.
fn check(trace: &Path, same: usize, unknown: usize) {
    let name = trace.display();
    let threads = states::compare(Path::new(*WAKEPATH), trace).expect("both read the trace");
    let of = |verdict| threads.iter().filter(move |thread| thread.verdict() == verdict);
    let different: Vec<String> = of(ThreadVerdict::Different).map(states::line).collect();
    assert!(different.is_empty(), "{name}: {different:#?}");
    let counts = [ThreadVerdict::Same, ThreadVerdict::Unknown].map(|verdict| of(verdict).count());
    assert_eq!(counts, [same, unknown], "{name}");
}
