//! Code sites where a path's threads were seen running.
//!
//! Samples are counted, never stretched into time: a sample shows a thread's place at a single time. A sample
//! counts only in a segment in which its thread ran on the path.

use std::collections::BTreeMap;

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::{Path, SegmentKind};
use wakepath_event::Comm;
use wakepath_wait_graph::ThreadIndex;

use crate::{CodeNames, Site};

/// Samples in a path's running segments, by the segment's number, its thread's name then, and the site.
pub type Sampled = BTreeMap<(usize, Comm, Site), u64>;

/// Counts a path's samples.
pub fn sampled(path: &Path, names: &mut CodeNames<'_>) -> Sampled {
    let graph = &names.recorded.graph;
    let mut threads: Vec<ThreadIndex> =
        path.segments.iter().filter(|s| s.kind == SegmentKind::Running).filter_map(|s| s.thread).collect();
    threads.sort_unstable();
    threads.dedup();
    let mut sampled = Sampled::new();
    for thread in threads {
        for sample in graph.samples(thread, path.window.from, path.window.to) {
            let Some(segment) = runs_at(path, thread, sample.at) else { continue };
            let comm = graph.thread(thread).name_at(sample.at);
            *sampled.entry((segment, comm, names.site(sample))).or_default() += 1;
        }
    }
    sampled
}

/// The segment in which `thread` ran on the path at `at`.
fn runs_at(path: &Path, thread: ThreadIndex, at: Stamp<Reference>) -> Option<usize> {
    let last = path.segments.partition_point(|segment| segment.from <= at).checked_sub(1)?;
    let segment = path.segments.get(last)?;
    (segment.thread == Some(thread) && segment.kind == SegmentKind::Running && at < segment.to)
        .then_some(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Recorded;
    use crate::testing::{event, mapping, thread, trace};
    use wakepath_critical_path::{Window, active};
    use wakepath_event::{Event, EventKind, Mapping, Stack, ThreadIdentity, Tid};
    use wakepath_symbols::Found;

    fn sample(at: u64, cpu: u16, current: u32, kernel: &[u64], user: &[u64]) -> Event {
        let stack =
            Stack { tgid: Tid(current), kernel: kernel.into(), user: user.into(), scanned: 0, proved: 0 };
        event(at, cpu, current, EventKind::Sample(stack))
    }

    /// The samples on a thread's path from `from` to 100.
    fn sampled_from(recorded: &Recorded, tid: u32, from: u64) -> Sampled {
        let thread = recorded.with_tid(Tid(tid))[0];
        let window = Window { thread, from: Stamp::from_ns(from), to: Stamp::from_ns(100) };
        sampled(&active(&recorded.graph, window), &mut CodeNames::new(recorded, false))
    }

    #[test]
    fn samples_count_where_the_path_says_that_the_thread_ran() {
        let text = "thread own tid=7
            thread other tid=8
            0 c0 idle switch own
            30 c0 own switch other
            50 c0 other switch own
            100 c0 own switch idle";
        let more = [
            sample(10, 0, 7, &[], &[0x1010, 0x5021]),
            sample(20, 0, 7, &[], &[0x1010, 0x1501, 0x5021]),
            sample(25, 0, 7, &[0xffff_8000], &[0x5100]),
            // Another thread had the CPU: its sample does not show this thread running.
            sample(40, 0, 8, &[], &[0x1010]),
            mapping(0x1000, "/nonexistent/lib"),
            mapping(0x5000, "/nonexistent/program"),
        ];
        let sampled = sampled_from(&trace(text, &more), 7, 0);
        let gone = |file: &str| Found::Unreadable(file.as_bytes().to_vec());
        let caller = crate::Caller::Guess(gone("program"));
        let in_library = Site { caller, ..Site::new(gone("lib"), false, None) };
        let in_kernel = Site::new(Found::AnotherKernel, true, Some(gone("program")));
        let own = Comm::new(b"own");
        assert_eq!(sampled, Sampled::from([((0, own, in_library), 2), ((0, own, in_kernel), 1)]));
    }

    #[test]
    fn a_newborn_runs_its_parents_code_until_it_runs_a_program() {
        let EventKind::Thread { identity, .. } = thread(9, 9, 7, "child") else { unreachable!() };
        let child = ThreadIdentity { start: Stamp::from_ns(65), ..identity };
        let Event { kind: EventKind::Mapping(parents), .. } = mapping(0x5000, "/nonexistent/other") else {
            unreachable!()
        };
        let text = "thread own tid=7
            0 c0 idle switch own
            70 c0 own switch #9
            100 c0 #9 switch idle";
        let more = [
            mapping(0x1000, "/nonexistent/program"),
            event(65, 0, 7, EventKind::Fork { child }),
            sample(75, 0, 9, &[], &[0x1010]),
            event(80, 0, 9, EventKind::Mapping(Mapping { tgid: Tid(9), ..parents })),
            sample(85, 0, 9, &[], &[0x1010]),
            sample(85, 0, 9, &[], &[0x5010]),
        ];
        let found = |tracer: Option<crate::Name>| {
            let recorded = Recorded { tracer, ..trace(text, &more) };
            let sampled = sampled_from(&recorded, 9, 70).into_iter();
            sampled.map(|((_, _, site), count)| (site.function.found, count)).collect::<Vec<_>>()
        };
        let file = |file: &str| Found::Unreadable(file.as_bytes().to_vec());
        let nobodys = Found::Unnamed(Vec::new());
        let expected = [(nobodys.clone(), 1), (file("other"), 1), (file("program"), 1)];
        assert_eq!(found(Some("perf".into())), expected);
        // Our own recorder reads each process's mappings.
        assert_eq!(found(None), [(nobodys, 2), (file("other"), 1)]);
    }

    #[test]
    fn a_thread_that_ran_beside_the_path_is_not_counted() {
        let text = "thread own tid=7
            thread helper tid=8
            0 c0 idle switch own
            0 c1 idle switch helper
            30 c0 own switch idle blocked
            60 c1 helper waking own
            60 c0 idle switch own
            100 c0 own switch idle blocked";
        // While own ran, it did not wait for the helper.
        let more = [10, 40].map(|at| sample(at, 1, 8, &[], &[1]));
        let counts: Vec<u64> = sampled_from(&trace(text, &more), 7, 0).into_values().collect();
        assert_eq!(counts, [1]);
    }

    #[test]
    fn a_sample_counts_in_the_segment_in_which_it_was_taken_also_at_its_first_nanosecond() {
        let text = "thread own tid=7
            thread other tid=8
            0 c0 idle switch own
            30 c0 own switch other
            50 c0 other switch own
            100 c0 own switch idle";
        let more = [0, 29, 50, 99].map(|at| sample(at, 0, 7, &[], &[1]));
        let recorded = trace(text, &more);
        let by_segment: Vec<_> = sampled_from(&recorded, 7, 0)
            .into_iter()
            .map(|((segment, ..), count)| (segment, count))
            .collect();
        assert_eq!(by_segment, [(0, 2), (2, 2)]);
        // A sample before the window is none in it.
        let in_window: Vec<u64> = sampled_from(&recorded, 7, 10).into_values().collect();
        assert_eq!(in_window, [1, 2]);
    }
}
