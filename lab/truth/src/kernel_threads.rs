//! The kernel's own count of its threads' CPU time in a run: the most that a path may charge to them.
//!
//! A program waiting for a disk cannot know which kernel threads worked for it: in its truth all of them are a single
//! contributor. So the judge reads each kernel thread's CPU time before the recording begins and after it ends
//! (`/proc/TID/schedstat`, in ns). A kernel thread on the path must be in this list, and cannot have run for longer than
//! the kernel counts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::document::{KernelThread, Segment, length};

/// All kernel threads at a time: each thread's name and CPU time, ns, by its thread id and start time.
pub type Snapshot = BTreeMap<(u32, u64), (String, i64)>;

/// `PF_KTHREAD` in the kernel: no user program runs in this thread.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Reads this machine's kernel threads. A thread that ends meanwhile is left out.
pub fn snapshot() -> Snapshot {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let tids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    tids.filter_map(|tid| {
        let read = |file: &str| fs::read_to_string(format!("/proc/{tid}/{file}")).ok();
        thread(tid, &read("stat")?, &read("comm")?, &read("schedstat")?)
    })
    .collect()
}

/// A kernel thread's entry, from its files' texts; `None` for another thread.
fn thread(tid: u32, stat: &str, comm: &str, schedstat: &str) -> Option<((u32, u64), (String, i64))> {
    // The name stands in brackets and may have any letters.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let (flags, started) = (fields.get(6)?.parse::<u64>().ok()?, fields.get(19)?.parse().ok()?);
    let ran_ns = schedstat.split_whitespace().next()?.parse().ok()?;
    (flags & KERNEL_THREAD != 0).then(|| ((tid, started), (comm.trim_end().to_owned(), ran_ns)))
}

/// Each kernel thread's CPU time between two snapshots.
pub fn between(before: &Snapshot, after: &Snapshot) -> Vec<KernelThread> {
    let ended = before.iter().filter(|(thread, _)| !after.contains_key(thread));
    let ended = ended.map(|(&(tid, _), (comm, _))| KernelThread { tid, comm: comm.clone(), ran_ns: None });
    let rest = after.iter().map(|(thread, (comm, ran_ns))| {
        let before_ns = before.get(thread).map_or(0, |(_, ns)| *ns);
        KernelThread { tid: thread.0, comm: comm.clone(), ran_ns: Some(ran_ns - before_ns) }
    });
    ended.chain(rest).collect()
}

/// Checks the running time charged by the path to kernel threads: the errors, and the reasons why a thread cannot be
/// judged. `excess_ns` is allowed beyond the kernel's count for each thread, as much as may be charged to outsiders.
///
/// The count begins before the recording and ends after it, and includes the interrupts that the path counts
/// separately, so it should be larger. It is smaller only where the kernel dates the thread's preemptions back, by some
/// 15 µs each.
pub(crate) fn check(
    threads: &[KernelThread],
    segments: &[Segment],
    own: &BTreeSet<u32>,
    excess_ns: f64,
) -> (Vec<String>, Vec<String>) {
    let mut charged: BTreeMap<u32, i64> = BTreeMap::new();
    let mut names: BTreeSet<(u32, &str)> = BTreeSet::new();
    let theirs = segments.iter().filter_map(|segment| Some((segment.tid?, segment)));
    for (tid, segment) in theirs.filter(|(tid, _)| !own.contains(tid)) {
        names.extend(segment.comm.as_deref().map(|comm| (tid, comm)));
        *charged.entry(tid).or_default() += if segment.kind == "running" { length(segment) } else { 0 };
    }
    let of = |tid: u32| threads.iter().filter(move |thread| thread.tid == tid);
    let (mut violations, mut void) = (Vec::new(), Vec::new());
    for (&tid, &ns) in &charged {
        // A thread id may have been used again.
        let ran: Option<Vec<i64>> = of(tid).map(|thread| thread.ran_ns).collect();
        let Some(thread) = of(tid).next() else { continue };
        match ran.map(|ran| ran.iter().sum::<i64>()) {
            Some(ran) if ns as f64 > ran as f64 + excess_ns => violations.push(format!(
                "{} is charged with {:.3} ms of running and ran for {:.3} ms by the kernel's count",
                thread.comm,
                ns as f64 / 1e6,
                ran as f64 / 1e6
            )),
            None if ns as f64 > excess_ns => {
                void.push(format!("{} ended in the run, so that its CPU time is not known", thread.comm));
            }
            _ => {}
        }
    }
    for (tid, comm) in names {
        // A worker's name in /proc goes on with its work: `kworker/0:1-events`.
        if of(tid).next().is_some() && !of(tid).any(|thread| thread.comm.starts_with(comm)) {
            let name = of(tid).next().map_or("", |thread| &thread.comm);
            violations.push(format!("thread {tid} has the name `{comm}` and is `{name}`"));
        }
    }
    (violations, void)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::PathDocument;
    use crate::made;
    use serde::Deserialize;
    use serde_json::json;

    const MS: i64 = 1_000_000;

    fn of(threads: &[(u32, &str, Option<i64>)]) -> Vec<KernelThread> {
        let made = |&(tid, comm, ms): &(u32, &str, Option<i64>)| KernelThread {
            tid,
            comm: comm.to_owned(),
            ran_ns: ms.map(|ms| ms * MS),
        };
        threads.iter().map(made).collect()
    }

    /// The errors and void reasons for a path with these segments: ms, tid, name and kind.
    fn check_path(
        threads: &[(u32, &str, Option<i64>)],
        segments: &[(i64, u32, &str, &str)],
    ) -> (Vec<String>, Vec<String>) {
        let mut at = 0;
        let mut list = Vec::new();
        for &(ms, tid, comm, kind) in segments {
            list.push(json!({"from_ns": at, "to_ns": at + ms * MS, "kind": kind, "tid": tid, "comm": comm,
                             "call": null, "cause": null}));
            at += ms * MS;
        }
        let path = PathDocument::deserialize(made::path((1, "prog"), &list)).unwrap();
        check(&of(threads), &path.segments, &BTreeSet::from([1]), 1e6)
    }

    const WORKER: &str = "kworker/0:1";

    #[test]
    fn a_kernel_thread_has_at_most_the_time_that_it_ran() {
        let threads = [(50, "kworker/0:1-events", Some(10)), (51, "jbd2/sda1-8", Some(0))];
        let none = (vec![], vec![]);
        assert_eq!(check_path(&threads, &[(10, 50, WORKER, "running")]), none);
        assert_eq!(check_path(&threads, &[(11, 50, WORKER, "running")]), none);
        let (violations, void) = check_path(&threads, &[(12, 50, WORKER, "running")]);
        assert_eq!((violations.len(), void.len()), (1, 0));
        assert!(violations[0].contains("kworker/0:1-events is charged with 12.000 ms"), "{violations:?}");
        assert!(violations[0].contains("ran for 10.000 ms"), "{violations:?}");
        // Each alone: a thread's time does not count for the other.
        let both = check_path(&threads, &[(5, 50, WORKER, "running"), (2, 51, "jbd2/sda1-8", "running")]);
        assert_eq!(both.0.len(), 1, "{both:?}");
        // In pieces; waits and interrupts are no running.
        let pieces =
            [(6, 50, WORKER, "running"), (90, 50, WORKER, "block_device"), (6, 50, WORKER, "running")];
        assert_eq!(check_path(&threads, &pieces).0.len(), 1);
        assert_eq!(
            check_path(&threads, &[(50, 50, WORKER, "runnable"), (9, 50, WORKER, "interrupted")]),
            none
        );
    }

    #[test]
    fn the_workload_and_other_programs_are_judged_elsewhere() {
        let threads = [(1, "prog", Some(0))];
        assert_eq!(check_path(&threads, &[(9, 1, "prog", "running")]), (vec![], vec![]));
        assert_eq!(check_path(&threads, &[(9, 99, "postgres", "running")]), (vec![], vec![]));
    }

    #[test]
    fn a_kernel_thread_that_ended_in_the_run_cannot_be_judged() {
        let (violations, void) = check_path(&[(50, WORKER, None)], &[(2, 50, WORKER, "running")]);
        assert_eq!((violations.len(), void.len()), (0, 1), "{void:?}");
        assert_eq!(check_path(&[(50, WORKER, None)], &[(1, 50, WORKER, "running")]), (vec![], vec![]));
        // Another thread used its thread id again.
        let again = [(50, WORKER, None), (50, "kworker/1:2", Some(5))];
        assert_eq!(check_path(&again, &[(2, 50, "kworker/1:2", "running")]).1.len(), 1);
    }

    #[test]
    fn a_kernel_thread_has_its_own_name() {
        let threads = [(50, "kworker/0:1-events", Some(10)), (51, "jbd2/sda1-8", Some(10))];
        assert_eq!(check_path(&threads, &[(1, 51, "jbd2/sda1-8", "running")]).0, [""; 0]);
        let (violations, _) = check_path(&threads, &[(1, 51, WORKER, "running")]);
        assert_eq!(violations, ["thread 51 has the name `kworker/0:1` and is `jbd2/sda1-8`"]);
        assert_eq!(check_path(&threads, &[(1, 50, "kworker/0:2", "block_device")]).0.len(), 1);
    }

    #[test]
    fn the_files_of_a_kernel_thread_are_read_and_those_of_others_are_not() {
        let stat = |flags: u32| {
            format!(
                "50 (kworker/0:1) x) I 2 0 0 0 -1 {flags} 0 0 0 0 0 7 0 0 20 0 1 0 4711 0 0 18446744073709551615"
            )
        };
        let thread = |flags| thread(50, &stat(flags), "kworker/0:1-events\n", "123456 99 7\n");
        assert_eq!(thread(0x0420_8060), Some(((50, 4711), (String::from("kworker/0:1-events"), 123_456))));
        assert_eq!(thread(0x0040_0000), None);
        let here = snapshot();
        assert!(!here.contains_key(&(std::process::id(), 0)) && here.keys().all(|&(tid, _)| tid != 1));
    }

    #[test]
    fn the_time_between_two_snapshots_is_that_of_threads_not_of_numbers() {
        let one = |tid, started, ran_ns| ((tid, started), (String::from("kworker"), ran_ns));
        let before = Snapshot::from([one(5, 100, 70), one(6, 100, 70), one(7, 100, 70)]);
        let after = Snapshot::from([one(5, 100, 90), one(6, 200, 30), one(8, 200, 4)]);
        let found: Vec<_> = between(&before, &after).into_iter().map(|one| (one.tid, one.ran_ns)).collect();
        assert_eq!(found, [(6, None), (7, None), (5, Some(20)), (6, Some(30)), (8, Some(4))]);
    }
}
