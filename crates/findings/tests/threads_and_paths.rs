//! The times of all threads, and their paths: two ways to add up a graph's states.

use std::path::Path;

use wakepath_critical_path::{SegmentKind, Window, active};
use wakepath_findings::{Pools, threads};
use wakepath_loaded::testing::read;

#[test]
fn a_threads_times_are_those_of_its_own_path() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cases");
    let (mut compared, mut unknown) = (0, 0);
    for case in std::fs::read_dir(cases).expect("the folder cases/") {
        let case = case.expect("a case").path();
        let Ok(trace) = std::fs::read_to_string(case.join("trace.txt")) else { continue };
        let recorded = read(&wakepath_scenario::text::parse(&trace).expect("a case").events);
        let graph = recorded.graph();
        let all: Vec<_> = graph.threads().map(|(thread, _)| thread).collect();
        let (from, to) = (recorded.from(), recorded.to());
        for times in threads(&recorded, &all, from, to, &mut Pools::unknown()) {
            let path = active(graph, Window { thread: times.thread, from, to });
            // A hypervisor's time is a part of each state.
            if path.segments.iter().any(|segment| segment.kind == SegmentKind::Stolen) {
                continue;
            }
            // The thread's own time, without a wait's explanation.
            let own = path
                .segments
                .iter()
                .filter(|segment| segment.depth == 0 && segment.thread == Some(times.thread));
            let (mut running, mut runnable, mut throttled) = (0, 0, 0);
            for segment in own {
                *match segment.kind {
                    SegmentKind::Running | SegmentKind::Interrupted => &mut running,
                    SegmentKind::Runnable => &mut runnable,
                    SegmentKind::Throttled => &mut throttled,
                    _ => continue,
                } += segment.to.since(segment.from);
            }
            let what = format!("{}: {times:?}", case.display());
            let on_path = (running, runnable, throttled);
            assert_eq!((times.running_ns, times.runnable_ns, times.throttled_ns), on_path, "{what}");
            compared += 1;
            unknown += u32::from(times.unknown_ns > 0);
        }
    }
    assert!(compared > 400 && unknown > 50, "{compared}, {unknown} of them with unknown time");
}
