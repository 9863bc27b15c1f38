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
