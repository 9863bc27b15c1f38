//! Thread states in other projects' traces, which `WAKEPATH_TRACES` names, beside the states proved by another reader's
//! events.

use std::path::{Path, PathBuf};

use wakepath_harness::live::{WAKEPATH, not_possible};
use wakepath_truth::states::{self, ThreadVerdict};

#[test]
fn threads_ran_could_run_and_were_blocked_as_the_schedulers_events_alone_prove() {
    let Some(folder) = std::env::var_os("WAKEPATH_TRACES").map(PathBuf::from) else {
        let would_show = "the states of all threads are those that another reader's events prove";
        return not_possible("WAKEPATH_TRACES names no folder", would_show);
    };
    let wakepath = Path::new(*WAKEPATH);
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
        let threads = states::compare(wakepath, &folder.join(trace)).expect("both read the trace");
        let of = |verdict| threads.iter().filter(move |thread| thread.verdict() == verdict);
        let different: Vec<String> = of(ThreadVerdict::Different).map(states::line).collect();
        assert!(different.is_empty(), "{trace}: {different:#?}");
        assert_eq!(of(ThreadVerdict::Same).count(), same, "{trace}");
    }
}
