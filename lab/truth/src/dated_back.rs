//! Time that the kernel's clocks give to the wrong side of a switch, and the difference it explains.
//!
//! A program's log consists of the kernel's counts, which follow the run queue's clock. The clock is read now and then and
//! stands still in between. At a switch it was last read at the switch's beginning, a microsecond ago, or, if a wake-up
//! preempts, at the wake-up, some 10 µs ago (`rq_clock_skip_update()`). A path follows the switches' stamps.
//!
//! ```text
//!                     clock   switch              clock   switch
//!     preempted   ======|=======|...................|.......|======     by the switches
//!     preempted   ======|.......|...................|=======|======     by the clock
//! ```
//!
//! Both ends of a preemption count: the thread ran longer by the first switch's dated-back time, and shorter by the
//! second's.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;

use crate::document::{Basis, Counted, Dated, DatedBack, Key, Overcounted, PathWait, Segment};

mod assumed;
mod measured;
mod run_queue;
mod shifts;

pub use run_queue::Readings;
pub(crate) use shifts::Shifts;

/// The kinds of time in which a thread has a CPU.
const RUNNING: &[&str] = &["running", "interrupted", "stolen"];

/// The switches of these threads, with the time by which each is dated back: measured by the readings or, without readings,
/// assumed from the recording.
///
/// # Errors
///
/// If babeltrace2 is needed and cannot be run, or cannot read the recording.
pub fn find(readings: Result<Readings>, recording: &Path, threads: &BTreeSet<u32>) -> Result<DatedBack> {
    let (basis, mut switches, mut overcounted) = match readings.and_then(Readings::end) {
        Ok(read) => (Basis::Measured, measured::dated(&read.switches), read.overcounted),
        Err(reason) => (Basis::Assumed(format!("{reason:#}")), assumed::read(recording)?, Vec::new()),
    };
    switches.retain(|switch| threads.contains(&switch.prev) || threads.contains(&switch.next));
    overcounted.retain(|sleep| threads.contains(&sleep.tid));
    Ok(DatedBack { basis, switches, overcounted })
}

/// The explained time, by thread and kind: added to a truth by the kernel's clocks, it gives a truth by the switches.
/// `segments` are the path's, and `keys` their contributors; they count from `origin`. These threads' time is part of the
/// window only on the path.
pub(crate) fn corrections<'a>(
    switches: &[Dated],
    own: &BTreeSet<u32>,
    segments: &[Segment],
    keys: &[Key<'a>],
    origin: i64,
    shifts: &Shifts,
) -> Vec<(Key<'a>, i64)> {
    let mut found = Vec::new();
    for switch in switches {
        // The thread's time on the path between the clock's reading and the switch, and its last segment there.
        let of_path = |tid: u32, kinds: &[&str]| {
            let at = shifts.on_path(tid, switch.at_ns - origin);
            let from = at - switch.back_ns;
            let first = segments.partition_point(|segment| segment.to_ns <= from);
            let touched = (first..segments.len()).take_while(|&index| segments[index].from_ns < at);
            let is_its = |segment: &Segment| segment.tid == Some(tid) && kinds.contains(&&*segment.kind);
            let its: Vec<usize> = touched.filter(|&index| is_its(&segments[index])).collect();
            let overlap = |segment: &Segment| segment.to_ns.min(at) - segment.from_ns.max(from);
            (its.iter().map(|&index| overlap(&segments[index])).sum::<i64>(), its.last().copied())
        };
        if own.contains(&switch.prev) {
            let (ns, last) = of_path(switch.prev, RUNNING);
            found.push(((switch.prev, "running"), ns));
            // A blocking thread has waited since then, for the path's next segment.
            let behind = last.and_then(|last| keys.get(last + 1)).copied();
            let instead = if switch.is_preempted { Some((switch.prev, "runnable")) } else { behind };
            found.extend(instead.map(|key| (key, -ns)));
        }
        if own.contains(&switch.next) {
            let (ns, _) = of_path(switch.next, &["runnable"]);
            found.extend([((switch.next, "running"), -ns), ((switch.next, "runnable"), ns)]);
        }
    }
    found.retain(|&(_, ns)| ns != 0);
    found
}

/// The path's time, ns, in which these threads wait for a CPU and the kernel does not count it: they lost the CPU between their
/// decision to sleep and their sleep. A program's log has something else there.
pub(crate) fn uncounted(switches: &[Dated], own: &BTreeSet<u32>, segments: &[Segment], origin: i64) -> i64 {
    let mut ns = 0;
    for switch in switches.iter().filter(|switch| switch.uncounted_ns > 0 && own.contains(&switch.prev)) {
        let from = switch.at_ns - origin;
        let to = from + switch.uncounted_ns;
        let first = segments.partition_point(|segment| segment.to_ns <= from);
        let touched = segments[first..].iter().take_while(|segment| segment.from_ns < to);
        let its = touched.filter(|segment| segment.tid == Some(switch.prev) && segment.kind == "runnable");
        ns += its.map(|segment| segment.to_ns.min(to) - segment.from_ns.max(from)).sum::<i64>();
    }
    ns
}

/// The time to add to a truth, by thread and kind, because the kernel counts these threads' sleep as waits for a CPU: a log has the last part of
/// such a wait as *runnable* where only that count bounds it (`counted`), and the path has there what the thread waited for. Only where the path
/// leads through the wait is that time part of the window.
pub(crate) fn overcounted<'a>(
    sleeps: &[Overcounted],
    counted: &[Counted],
    own: &BTreeSet<u32>,
    segments: &[Segment],
    keys: &[Key<'a>],
    waits: &[PathWait],
    origin: i64,
) -> Vec<(Key<'a>, i64)> {
    let mut found = Vec::new();
    let in_logs = sleeps.iter().filter(|sleep| own.contains(&sleep.tid)).flat_map(|sleep| {
        let of_thread = counted.iter().filter(|counted| counted.tid == sleep.tid);
        of_thread.map(|counted| Overcounted {
            from_ns: sleep.from_ns.max(counted.from_ns),
            to_ns: sleep.to_ns.min(counted.to_ns),
            ..*sleep
        })
    });
    for sleep in in_logs.filter(|sleep| sleep.from_ns < sleep.to_ns) {
        let (from, to) = (sleep.from_ns - origin, sleep.to_ns - origin);
        for wait in waits.iter().filter(|wait| wait.tid == Some(sleep.tid)) {
            let (from, to) = (from.max(wait.from_ns), to.min(wait.to_ns));
            if from >= to {
                continue;
            }
            let first = segments.partition_point(|segment| segment.to_ns <= from);
            let touched = (first..segments.len()).take_while(|&index| segments[index].from_ns < to);
            for index in touched {
                let ns = segments[index].to_ns.min(to) - segments[index].from_ns.max(from);
                found.extend([(keys[index], ns), ((sleep.tid, "runnable"), -ns)]);
            }
        }
    }
    found.retain(|&(_, ns)| ns != 0);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::PathDocument;
    use crate::made;
    use serde::Deserialize;
    use serde_json::json;

    #[test]
    fn only_time_of_the_workload_that_is_on_the_path_is_explained() {
        let segment = |from: i64, to: i64, tid: u32, kind: &str| json!({"from_ns": from, "to_ns": to, "kind": kind, "tid": tid, "comm": "prog", "call": null, "cause": null});
        let path = made::path(
            (7, "prog"),
            &[
                segment(0, 100, 7, "running"),
                segment(100, 200, 7, "runnable"),
                segment(200, 300, 8, "running"),
                segment(300, 400, 60, "running"),
                segment(400, 500, 61, "runnable"),
                segment(500, 550, 7, "interrupted"),
                segment(550, 600, 7, "stolen"),
            ],
        );
        let segments = PathDocument::deserialize(path).unwrap().segments;
        let key = |segment: &'_ Segment| (segment.tid.unwrap(), segment.kind.clone());
        let keys: Vec<(u32, String)> = segments.iter().map(key).collect();
        let keys: Vec<Key<'_>> = keys.iter().map(|(tid, kind)| (*tid, kind.as_str())).collect();
        let own = BTreeSet::from([7, 8]);
        let check_of = |is_preempted: bool,
                        (from, to): (i64, i64),
                        prev: u32,
                        next: u32,
                        expected: &[(Key<'_>, i64)]| {
            let one =
                Dated { at_ns: 1000 + to, back_ns: to - from, prev, is_preempted, next, uncounted_ns: 0 };
            assert_eq!(
                corrections(&[one], &own, &segments, &keys, 1000, &Shifts::default()),
                expected,
                "{one:?}"
            );
        };
        let check = |from, to, prev, next, expected: &[(Key<'_>, i64)]| {
            check_of(true, (from, to), prev, next, expected)
        };
        check(80, 100, 7, 50, &[((7, "running"), 20), ((7, "runnable"), -20)]);
        check(90, 130, 7, 50, &[((7, "running"), 10), ((7, "runnable"), -10)]);
        check(180, 200, 50, 7, &[((7, "running"), -20), ((7, "runnable"), 20)]);
        check(540, 560, 7, 50, &[((7, "running"), 20), ((7, "runnable"), -20)]);
        // Neither thread has the time on the path, or the time is empty.
        check(80, 100, 50, 51, &[]);
        check(80, 100, 8, 50, &[]);
        check(0, 0, 7, 8, &[]);
        // Other programs' threads explain nothing.
        check(350, 400, 60, 50, &[]);
        check(450, 500, 50, 61, &[]);
        check(250, 280, 50, 8, &[]);
        check(250, 280, 8, 50, &[((8, "running"), 30), ((8, "runnable"), -30)]);
        // A blocking thread has waited for the path's next segment; at the path's end that is not known.
        check_of(false, (280, 300), 8, 50, &[((8, "running"), 20), ((60, "running"), -20)]);
        check_of(false, (290, 305), 8, 50, &[((8, "running"), 10), ((60, "running"), -10)]);
        check_of(false, (590, 600), 7, 50, &[((7, "running"), 10)]);
        check_of(false, (350, 400), 60, 50, &[]);
    }

    #[test]
    fn sleep_that_is_counted_as_a_wait_for_a_cpu_was_for_what_the_path_has_there() {
        let segment = |from: i64, to: i64, tid: u32, kind: &str| json!({"from_ns": from, "to_ns": to, "kind": kind, "tid": tid, "comm": "prog", "call": null, "cause": null});
        let mut path = made::path(
            (7, "prog"),
            &[
                segment(0, 100, 7, "running"),
                segment(100, 200, 8, "running"),
                segment(200, 300, 9, "timer"),
                segment(300, 400, 7, "running"),
            ],
        );
        path["waits"] =
            json!([{"tid": 7, "from_ns": 100, "to_ns": 300}, {"tid": 8, "from_ns": 210, "to_ns": 300}]);
        let path = PathDocument::deserialize(path).unwrap();
        let key = |segment: &'_ Segment| (segment.tid.unwrap(), segment.kind.clone());
        let keys: Vec<(u32, String)> = path.segments.iter().map(key).collect();
        let keys: Vec<Key<'_>> = keys.iter().map(|(tid, kind)| (*tid, kind.as_str())).collect();
        let own = BTreeSet::from([7, 8]);
        let check = |tid: u32, from: i64, to: i64, expected: &[(Key<'_>, i64)]| {
            let sleep = Overcounted { tid, from_ns: 1000 + from, to_ns: 1000 + to };
            // From 240 on, thread 8's log knows the cause of its wait.
            let counted = [(7, 1000, 1400), (8, 1000, 1240), (9, 1000, 1400)];
            let counted = counted.map(|(tid, from_ns, to_ns)| Counted { tid, from_ns, to_ns });
            let found = overcounted(&[sleep], &counted, &own, &path.segments, &keys, &path.waits, 1000);
            assert_eq!(found, expected, "{sleep:?}");
        };
        let of = |tid: u32, kind: &'static str, ns: i64| [((tid, kind), ns), ((7, "runnable"), -ns)];
        check(7, 150, 300, &[of(8, "running", 50), of(9, "timer", 100)].concat());
        // The counted time ends behind the wait, or began before it: that part does not belong to the wait.
        check(7, 280, 350, &of(9, "timer", 20));
        check(7, 50, 110, &of(8, "running", 10));
        check(7, 0, 100, &[]);
        // In another thread's wait on the path, and in a wait outside the path.
        check(8, 200, 250, &[((9, "timer"), 30), ((8, "runnable"), -30)]);
        check(8, 100, 200, &[]);
        // It ends before the wait begins, within a segment; and thread 9 is not the workload's.
        check(8, 150, 205, &[]);
        check(9, 150, 300, &[]);
    }

    #[test]
    fn only_time_on_the_path_of_the_workloads_own_threads_is_uncounted() {
        let segment = |from: i64, to: i64, tid: u32, kind: &str| json!({"from_ns": from, "to_ns": to, "kind": kind, "tid": tid, "comm": "prog", "call": null, "cause": null});
        let segments = [
            segment(0, 100, 7, "running"),
            segment(100, 200, 7, "runnable"),
            segment(200, 300, 8, "runnable"),
            segment(300, 400, 7, "runnable"),
        ];
        let path = made::path((7, "prog"), &segments);
        let segments = PathDocument::deserialize(path).unwrap().segments;
        let own = BTreeSet::from([7]);
        for (from, to, prev, expected) in [
            (100, 200, 7, 100),
            (90, 150, 7, 50),
            (150, 350, 7, 100),
            (150, 350, 8, 0),
            (0, 100, 7, 0),
            (400, 500, 7, 0),
            (100, 100, 7, 0),
        ] {
            let uncounted_ns = to - from;
            let one =
                Dated { at_ns: 1000 + from, back_ns: 0, prev, is_preempted: true, next: 9, uncounted_ns };
            assert_eq!(uncounted(&[one], &own, &segments, 1000), expected, "{one:?}");
        }
    }

    /// In the bundled recording the second of these threads preempts the first 200 times.
    const PREEMPTED: u32 = 30075;
    const PREEMPTING: u32 = 26910;

    #[test]
    fn without_readings_the_preemptions_of_the_recording_are_dated_back_and_the_reason_is_kept() {
        let bundled = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recordings/backup");
        let found = |threads: &[u32]| {
            let none = Err(anyhow::anyhow!("no rights").context("cannot load"));
            find(none, &bundled, &threads.iter().copied().collect()).expect("babeltrace2 reads it")
        };
        let all = found(&[PREEMPTED, PREEMPTING]);
        assert_eq!(all.basis, Basis::Assumed("cannot load: no rights".to_owned()));
        let [by_prev, by_next] = [found(&[PREEMPTED]), found(&[PREEMPTING])];
        assert!(by_prev.switches.iter().any(|one| (one.prev, one.next) == (PREEMPTED, PREEMPTING)));
        assert!(by_next.switches.iter().any(|one| (one.prev, one.next) == (PREEMPTED, PREEMPTING)));
        assert!(by_prev.switches.iter().all(|one| [one.prev, one.next].contains(&PREEMPTED)));
        assert_eq!(found(&[]).switches, []);
    }
}
