//! The first sentence of an answer about a path, and the other reading of waits that timed out.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use wakepath_critical_path::{
    Algorithm, Cause, JoinedSum, Path, Segment, SegmentKind, Timeouts, active_by, may_go_on,
};
use wakepath_names::{CallName, Recorded};
use wakepath_wait_graph::ThreadIndex;

use crate::{Evidence, Row, RowKey};

/// The row that answers first.
#[derive(Debug, Clone, Copy)]
pub struct Headline<'a> {
    /// The key of the blamed row.
    pub key: &'a RowKey,
    /// The row, with its time.
    pub row: &'a Row,
    /// It took more than half of the window.
    pub is_most: bool,
}

/// The headline of a window of `window_ns`; `None` for an empty one.
pub fn headline(rows: &[(RowKey, Row)], window_ns: u64) -> Option<Headline<'_>> {
    let (key, row) = rows.first()?;
    Some(Headline { key, row, is_most: row.total_ns > window_ns / 2 })
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
