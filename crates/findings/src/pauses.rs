//! Garbage collections for which threads waited.
//!
//! A collection is more than its threads' running time: they wait for a CPU, and the runtime's other threads prepare it. The
//! program loses the whole wait in which a thread needs memory.

use std::collections::{BTreeMap, BTreeSet};

use wakepath_critical_path::WaitId;
use wakepath_event::Comm;
use wakepath_loaded::pool_family;

use crate::rows::segments_in_row;
use crate::{Evidence, RowKey};

/// Whether a runtime gives this name to threads that only collect garbage: HotSpot and .NET do.
pub(crate) fn collects_garbage(name: Comm) -> bool {
    const NAMES: [&[u8]; 9] = [
        b"GC Thread#",
        b"G1 Conc#",
        b"G1 Refine#",
        b"G1 Main Marker",
        b"ZWorker#",
        b"ZWorkerYoung#",
        b"ZWorkerOld#",
        b".NET Server GC",
        b".NET BGC",
    ];
    NAMES.contains(&pool_family(name).bytes())
}

/// Whether a runtime's thread runs collections for others, among its work: HotSpot's does.
fn runs_collections(name: Comm) -> bool {
    name.bytes() == b"VM Thread" || collects_garbage(name)
}

/// Waits on a path for garbage collections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pauses {
    /// Their number.
    pub count: u64,
    /// Their time on the path, ns.
    pub ns: u64,
    /// The waiting threads' names, most time first.
    pub names: Vec<Comm>,
}

/// The waits for the collections in a row; `None` for other rows, and without such a wait.
pub(crate) fn pauses(evidence: &Evidence<'_>, key: &RowKey) -> Option<Pauses> {
    if !key.is_garbage_collection() {
        return None;
    }
    let mut waits: BTreeSet<WaitId> = BTreeSet::new();
    segments_in_row(evidence, key, |segment| waits.extend(pause(evidence, segment.parent)));
    let mut names: BTreeMap<Comm, u64> = BTreeMap::new();
    let (mut count, mut sum) = (0, 0);
    for id in &waits {
        let Some(wait) = evidence.wait(*id) else { continue };
        let ns = wait.to.since(wait.from);
        (count, sum) = (count + u64::from(!wait.goes_on), sum + ns);
        *names.entry(evidence.thread(wait.thread).comm).or_default() += ns;
    }
    let mut names: Vec<_> = names.into_iter().collect();
    names.sort_by_key(|&(name, ns)| (std::cmp::Reverse(ns), name));
    let names: Vec<Comm> = names.into_iter().map(|(name, _)| name).collect();
    (sum > 0).then_some(Pauses { count, ns: sum, names })
}

/// The innermost wait above by a thread needing a collection.
fn pause(evidence: &Evidence<'_>, parent: Option<WaitId>) -> Option<WaitId> {
    std::iter::successors(parent, |id| evidence.wait(*id)?.parent).find(|id| {
        evidence.wait(*id).is_some_and(|wait| !runs_collections(evidence.thread(wait.thread).comm))
    })
}

#[cfg(test)]
mod tests {
    use wakepath_critical_path::{Cause, SegmentKind, Via};

    use super::*;
    use crate::rows;
    use crate::testing::{FUTEX, Story, call};

    /// `app` waits for its thread `worker`, which waits for a runtime's thread of this name, which waits for a collector.
    fn found(runtime: &[u8], collector: &[u8]) -> Option<Pauses> {
        let mut story = Story::default();
        let app = story.thread(7, 1, b"app", 7);
        let [worker, runtime, collector] = [(8, &b"worker"[..]), (9, runtime), (10, collector)]
            .map(|(tid, name)| story.thread_of(7, tid, 1, name, 7));
        for prepares in [10, 20] {
            let outer = story.wait(100, app, None, call(FUTEX, 3), Via::Wakeup, worker);
            story.then(30, worker, Some(outer), SegmentKind::Running, Cause::None);
            let pause = story.wait(70, worker, Some(outer), call(FUTEX, 4), Via::Wakeup, runtime);
            story.then(prepares, runtime, Some(pause), SegmentKind::Running, Cause::None);
            let inner =
                story.wait(70 - prepares, runtime, Some(pause), call(FUTEX, 5), Via::Wakeup, collector);
            story.then(40, collector, Some(inner), SegmentKind::Running, Cause::None);
            story.then(30 - prepares, collector, Some(inner), SegmentKind::Runnable, Cause::None);
        }
        let story = story.finish();
        let evidence = story.evidence();
        rows(&evidence).into_iter().find_map(|(_, row)| row.pauses)
    }

    #[test]
    fn a_pause_is_the_whole_wait_of_the_thread_that_needs_the_collection() {
        let pauses = |ns, name: &[u8]| Some(Pauses { count: 2, ns, names: vec![Comm::new(name)] });
        assert_eq!(found(b"VM Thread", b"GC Thread#0"), pauses(140, b"worker"));
        // The program's own thread: it needs the collection.
        assert_eq!(found(b"other", b"GC Thread#0"), pauses(110, b"other"));
        assert_eq!(found(b"VM Thread", b"helper"), None, "no collector");
    }

    #[test]
    fn a_wait_that_samples_show_to_be_for_a_collection_is_a_row_with_its_whole_time() {
        let mut story = Story::default();
        let app = story.thread(7, 1, b"app", 7);
        let [vm, helper] =
            [(8, &b"VM Thread"[..]), (9, b"helper")].map(|(tid, name)| story.thread_of(7, tid, 1, name, 7));
        for length in [60, 40] {
            let wait = story.wait(length, app, None, call(FUTEX, 3), Via::Wakeup, vm);
            story.then(length - 30, vm, Some(wait), SegmentKind::Running, Cause::None);
            story.then(20, vm, Some(wait), SegmentKind::Runnable, Cause::None);
            let inner = story.wait(10, vm, Some(wait), call(FUTEX, 4), Via::Wakeup, helper);
            story.then(10, helper, Some(inner), SegmentKind::Running, Cause::None);
            story.then(5, app, None, SegmentKind::Running, Cause::None);
        }
        // The second operation is another.
        let mut story = story.finish();
        story.stacks = std::mem::take(&mut story.stacks).with_collections([WaitId(0)]);
        let rows = rows(&story.evidence());
        let (_, row) = rows.iter().find(|(key, _)| *key == RowKey::Collection).expect("a collection");
        assert_eq!((row.total_ns, row.own_ns, row.parts.len()), (60, 0, 2));
        assert_eq!((row.basis.inferred, row.basis.measured), (60, 0));
        assert_eq!(row.pauses, Some(Pauses { count: 1, ns: 60, names: vec![Comm::new(b"app")] }));
        let vm = RowKey::Running(Comm::new(b"VM Thread"));
        let other = rows.iter().find(|(key, _)| *key == vm).expect("another operation");
        assert_eq!((other.1.total_ns, other.1.basis.measured), (10, 10));
        assert!(other.1.pauses.is_none());
    }
}
