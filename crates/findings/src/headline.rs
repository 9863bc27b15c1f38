//! The first sentence of an answer about a path, and the other reading of waits that timed out.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use wakepath_critical_path::{
    Algorithm, Cause, JoinedSum, Path, Segment, SegmentKind, Timeouts, active_by, may_go_on,
};
use wakepath_event::{Comm, Tid};
use wakepath_names::{CallName, Recorded};
use wakepath_wait_graph::ThreadIndex;

use crate::{Evidence, Row, RowKey};

/// The row that answers first, or the part of it that is of the window's own thread, or of the others.
#[derive(Debug, Clone, Copy)]
pub struct Headline<'a> {
    /// The key of the blamed row.
    pub key: &'a RowKey,
    /// The row.
    pub row: &'a Row,
    /// The blamed time, ns.
    pub ns: u64,
    /// Own threads spent it while the window's own thread waited for them.
    pub of_others: bool,
    /// It took more than half of the window.
    pub is_most: bool,
}

/// The headline of a window of `window_ns`; `None` for an empty one. The time in which the window's own thread ran is not
/// added to that in which it was blocked and another one ran.
pub fn headline(rows: &[(RowKey, Row)], window_ns: u64) -> Option<Headline<'_>> {
    let parts = rows.iter().flat_map(|(key, row)| {
        let of_others = if key.is_of_doers() { row.total_ns.saturating_sub(row.own_ns) } else { 0 };
        let part = move |ns, of_others| Headline { key, row, ns, of_others, is_most: ns > window_ns / 2 };
        [part(row.total_ns - of_others, false), part(of_others, true)]
    });
    // The first of equal ones.
    parts.filter(|part| part.ns > 0).min_by_key(|part| Reverse(part.ns))
}

/// The own threads that spent the time of a headline's row in which the window's own thread waited for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doers {
    /// Their names, those with the most time first.
    pub names: Vec<Comm>,
    /// The processes of those that have these names in the end.
    pub processes: BTreeSet<Tid>,
    /// The number of those.
    pub threads: usize,
}

/// The threads of a row without the window's own. Names with less than a twentieth of the time are left out.
pub fn doers(evidence: &Evidence<'_>, row: &Row) -> Doers {
    let asked = evidence.subject().comm;
    let least = row.total_ns.saturating_sub(row.own_ns) / 20;
    let of_others = |(name, ns): (&Comm, &u64)| {
        let own = if *name == asked { row.own_ns } else { 0 };
        let ns = ns.saturating_sub(own);
        (ns > least).then_some((Reverse(ns), *name))
    };
    let mut names: Vec<_> = row.users.iter().filter_map(of_others).collect();
    names.sort_unstable();
    let names: Vec<Comm> = names.into_iter().map(|(_, name)| name).collect();
    let others = row.threads.iter().filter(|thread| !evidence.is_asked(**thread));
    let threads: Vec<_> =
        others.map(|thread| evidence.thread(*thread)).filter(|thread| names.contains(&thread.comm)).collect();
    Doers {
        processes: threads.iter().filter_map(|thread| thread.tgid).collect(),
        threads: threads.len(),
        names,
    }
}

/// The thread that a window's own thread waited for, through time-outs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Awaited {
    /// The thread that ended the waits.
    pub thread: ThreadIndex,
    /// The system call of the first of them.
    pub call: Option<CallName>,
    /// The time of all waits for that thread, ns.
    pub ns: u64,
}

/// The thread for which the most time was joined; `None` if none was.
pub fn awaited(evidence: &Evidence<'_>) -> Option<Awaited> {
    let own = || evidence.path.waits.iter().filter(|wait| wait.depth == 0);
    let mut times: BTreeMap<ThreadIndex, u64> = BTreeMap::new();
    for wait in own().filter(|wait| wait.timed_out) {
        *times.entry(wait.ended_by?).or_default() += wait.to.since(wait.from);
    }
    let (thread, _) = times.into_iter().max_by_key(|&(thread, ns)| (ns, Reverse(thread)))?;
    let mut all = own().filter(|wait| wait.ended_by == Some(thread));
    let ns = all.clone().map(|wait| wait.to.since(wait.from)).sum();
    let call = all.find(|wait| wait.timed_out).and_then(|wait| evidence.recorded.wait_call(wait));
    Some(Awaited { thread, call, ns })
}

/// A path that also joins the time-outs after which waits may have gone on, and their sum; `None` if they take no
/// hundredth of the window.
pub fn joined_if_alike(recorded: &Recorded, path: &Path) -> Option<(Path, JoinedSum)> {
    let is_time_out = |segment: &&Segment| {
        segment.kind == SegmentKind::Timer
            && !matches!(segment.cause, Cause::SentByTimer { .. })
            && segment.call.is_some_and(|call| may_go_on(call.number))
    };
    let sum: u64 =
        path.segments.iter().filter(is_time_out).map(|segment| segment.to.since(segment.from)).sum();
    let is_worth = |ns: u64| ns > 0 && ns >= path.window.to.since(path.window.from) / 100;
    if path.algorithm != Algorithm::Joined || !is_worth(sum) {
        return None;
    }
    let joined = active_by(&recorded.graph, path.window, Timeouts::JoinedIfAlike);
    let more = JoinedSum {
        waits: joined.joined.waits.saturating_sub(path.joined.waits),
        ns: joined.joined.ns.saturating_sub(path.joined.ns),
    };
    is_worth(more.ns).then_some((joined, more))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FUTEX, Story, call, disk};
    use crate::{cause_tree, rows};
    use wakepath_critical_path::{Via, WaitId};

    fn row(total_ns: u64, own_ns: u64) -> Row {
        Row { total_ns, own_ns, ..Row::default() }
    }

    #[test]
    fn the_headline_is_the_largest_part_and_the_time_of_others_is_a_part_of_its_own() {
        let name = Comm::new(b"app");
        let told = |rows: &[(RowKey, Row)], window_ns: u64| {
            headline(rows, window_ns).map(|part| (part.key.clone(), part.ns, part.of_others, part.is_most))
        };
        let (ran, disk) = (RowKey::Running(name), RowKey::Disk(None));
        // The thread ran for 25 of 60 ns itself; a disk is waited for by whichever thread.
        let rows = [(ran.clone(), row(60, 25)), (disk.clone(), row(40, 10))];
        assert_eq!(told(&rows, 100), Some((disk.clone(), 40, false, false)));
        let rows = [(ran.clone(), row(70, 20)), (disk.clone(), row(30, 0))];
        assert_eq!(told(&rows, 100), Some((ran.clone(), 50, true, false)), "half is not most");
        assert_eq!(told(&rows, 99), Some((ran.clone(), 50, true, true)));
        // Among equal ones the first.
        let rows = [(ran.clone(), row(50, 50)), (disk.clone(), row(50, 50))];
        assert_eq!(told(&rows, 100), Some((ran, 50, false, false)));
        assert_eq!(told(&[(disk, row(0, 0))], 0), None);
        assert_eq!(told(&[], 0), None);
    }

    #[test]
    fn the_doers_of_a_row_are_the_other_threads_with_a_twentieth_of_its_time() {
        let mut story = Story::default();
        let own = story.thread(7, 1, b"app", 7);
        let names: [(&[u8], u64); 4] = [(b"build", 500), (b"app", 360), (b"pack", 47), (b"link", 48)];
        for (i, (name, ns)) in (0..).zip(names) {
            let other = story.thread(10 + i, 7, name, 7);
            let wait = story.wait(ns, own, None, call(FUTEX, 3), Via::Wakeup, other);
            story.then(ns, other, Some(wait), SegmentKind::Running, Cause::None);
        }
        story.then(300, own, None, SegmentKind::Running, Cause::None);
        // One row of all that ran: 1255 ns, 955 of others, of which a twentieth is 47.
        let story = story.finish();
        let evidence = story.evidence();
        let mut whole = Row::default();
        for (_, row) in rows(&evidence) {
            whole.total_ns += row.total_ns;
            whole.own_ns += row.own_ns;
            row.users.into_iter().for_each(|(name, ns)| *whole.users.entry(name).or_default() += ns);
            whole.threads.extend(row.threads);
        }
        assert_eq!((whole.total_ns, whole.own_ns), (1255, 300));
        let found = doers(&evidence, &whole);
        let names = [&b"build"[..], b"app", b"link"].map(Comm::new);
        assert_eq!((found.names, found.threads), (names.to_vec(), 3));
        assert_eq!(found.processes, BTreeSet::from([10, 11, 13].map(Tid)));
    }

    #[test]
    fn the_awaited_thread_is_the_one_for_which_most_timed_out() {
        let mut story = Story::default();
        let own = story.thread(7, 1, b"app", 7);
        let [short, long] = [8, 9].map(|tid| story.thread(tid, 7, b"holder", 7));
        let mut wait = |by, ns, number, timed_out| {
            let wait = story.wait(ns, own, None, call(number, 3), Via::Lock, by);
            story.waits[wait.0 as usize].timed_out = timed_out;
            story.then(ns, by, Some(wait), SegmentKind::Running, Cause::None);
        };
        wait(short, 40, FUTEX, true);
        wait(long, 500, 7, false);
        wait(long, 30, FUTEX, true);
        wait(long, 20, FUTEX, true);
        wait(short, 9, 7, true);
        let story = story.finish();
        let found = awaited(&story.evidence()).expect("waits that timed out");
        assert_eq!((found.thread, found.ns, found.call.map(|call| call.number)), (long, 550, Some(FUTEX)));
        let mut story = Story::default();
        let own = story.thread(7, 1, b"app", 7);
        story.then(5, own, None, SegmentKind::BlockDevice, disk(false));
        assert_eq!(awaited(&story.finish().evidence()), None);
    }

    #[test]
    fn only_waits_of_the_windows_own_thread_are_for_an_awaited_thread() {
        let mut story = Story::default();
        let own = story.thread(7, 1, b"app", 7);
        let [holder, third, fourth] = [8, 9, 10].map(|tid| story.thread(tid, 7, b"holder", 7));
        let timed_out = |story: &mut Story, wait: WaitId| story.waits[wait.0 as usize].timed_out = true;
        // The holder polls meanwhile.
        for _ in 0..2 {
            let wait = story.wait(60, own, None, call(FUTEX, 3), Via::Lock, holder);
            timed_out(&mut story, wait);
            let inner = story.wait(50, holder, Some(wait), call(7, 3), Via::Wakeup, third);
            timed_out(&mut story, inner);
            story.then(50, third, Some(inner), SegmentKind::Running, Cause::None);
            story.then(10, holder, Some(wait), SegmentKind::Running, Cause::None);
        }
        // The third thread polls longer for another one, and waits for the holder, in a wait without a time-out.
        let wait = story.wait(500, own, None, call(0, 3), Via::Wakeup, third);
        for (ns, by, number) in [(400, fourth, 7), (100, holder, FUTEX)] {
            let inner = story.wait(ns, third, Some(wait), call(number, 3), Via::Wakeup, by);
            if number == 7 {
                timed_out(&mut story, inner);
            }
            story.then(ns, by, Some(inner), SegmentKind::Running, Cause::None);
        }
        let story = story.finish();
        let found = awaited(&story.evidence()).expect("waits that timed out");
        assert_eq!((found.thread, found.ns, found.call.map(|call| call.number)), (holder, 120, Some(FUTEX)));
    }

    #[test]
    fn the_first_thread_is_the_awaited_one_of_two_alike() {
        let mut story = Story::default();
        let own = story.thread(7, 1, b"app", 7);
        let [first, second] = [8, 9].map(|tid| story.thread(tid, 7, b"holder", 7));
        for by in [second, first] {
            let wait = story.wait(30, own, None, call(FUTEX, 3), Via::Lock, by);
            story.waits[wait.0 as usize].timed_out = true;
            story.then(30, by, Some(wait), SegmentKind::Running, Cause::None);
        }
        let story = story.finish();
        assert_eq!(awaited(&story.evidence()).map(|found| found.thread), Some(first));
    }

    #[test]
    fn time_outs_are_joined_where_they_take_a_hundredth_of_the_window() {
        let trace = wakepath_scenario::text::parse(
            "thread own tid=7
             thread other tid=8
             0 c0 idle switch own
             10 c0 own switch idle blocked call=7:0x1000
             20 c0 idle/timer waking own
             20 c0 idle switch own
             21 c0 own switch idle blocked call=7:0x1000
             30 c0 idle switch other
             31 c0 other waking own
             31 c0 other switch own
             2000 c0 own switch idle",
        );
        let recorded = wakepath_names::testing::read(&trace.expect("a trace").events);
        let by = |from: u64, to: u64, timeouts| {
            let [from, to] = [from, to].map(wakepath_clock::Stamp::from_ns);
            let window = wakepath_critical_path::Window { thread: ThreadIndex(0), from, to };
            let path = active_by(&recorded.graph, window, timeouts);
            joined_if_alike(&recorded, &path).map(|(path, sum)| (path.algorithm, sum.waits, sum.ns))
        };
        let found = [31, 1099, 1100].map(|to| by(0, to, Timeouts::Joined));
        assert_eq!(found[0], Some((Algorithm::JoinedIfAlike, 1, 10)));
        assert_eq!((found[1], found[2]), (found[0], None));
        assert_eq!(by(0, 31, Timeouts::AsTheyAre), None, "that was not asked for");
        assert_eq!(by(31, 60, Timeouts::Joined), None, "no time-out");
    }

    #[test]
    fn the_root_of_a_tree_has_the_whole_window() {
        let mut story = Story::default();
        let own = story.thread(7, 1, b"app", 7);
        let other = story.thread(8, 1, b"db", 8);
        story.then(3, own, None, SegmentKind::Running, Cause::None);
        for (ns, number) in [(4, 0), (6, 0), (5, 1)] {
            let wait = story.wait(ns, own, None, call(number, 3), Via::Packet, other);
            story.then(ns, other, Some(wait), SegmentKind::Running, Cause::None);
        }
        let story = story.finish();
        let tree = cause_tree(&story.evidence());
        let told: Vec<_> = tree
            .nodes
            .iter()
            .map(|node| {
                (node.parent, node.total.ns.asked, node.waits, node.call.as_ref().map(|call| call.number))
            })
            .collect();
        assert_eq!(told, [(None, 18, 1, None), (Some(0), 10, 2, Some(0)), (Some(0), 5, 1, Some(1))]);
        assert_eq!(tree.nodes[0].children, [1, 2]);
        assert_eq!(tree.nodes[0].leaves.len(), 1);
    }
}
