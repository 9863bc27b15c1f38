//! The first sentence of an answer about a path, and the steps that lead further.

use wakepath_critical_path::{Algorithm, Path, Segment, SegmentKind, Timeouts, active_by, is_sleep};
use wakepath_names::Recorded;

use crate::{Row, RowKey};

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

/// A question that leads further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextStep {
    /// For this number of ns, timers only interrupted a wait that then went on: a path that joins such timers shows
    /// the end of the wait. The timers are not the reason.
    JoinTimeouts(u64),
    /// The tree of this path: who waited for whom.
    CauseTree,
}

/// The questions that lead further from a path.
pub fn next_steps(window_ns: u64, timed_out_ns: u64) -> Vec<NextStep> {
    /// From this part of the window on, timers that interrupt waits are worth a question.
    const MIN_TIMED_OUT_SHARE: f64 = 0.01;
    let is_worth = timed_out_ns > 0 && timed_out_ns as f64 >= window_ns as f64 * MIN_TIMED_OUT_SHARE;
    let join = is_worth.then_some(NextStep::JoinTimeouts(timed_out_ns));
    join.into_iter().chain([NextStep::CauseTree]).collect()
}

/// The time of a path that [`Algorithm::Joined`] would not charge to timers, ns. That takes a second walk, which is
/// left out where the time could be no hundredth of the window.
pub fn timed_out_ns(recorded: &Recorded, path: &Path) -> u64 {
    let of = |segments: &[Segment], counts: &dyn Fn(&Segment) -> bool| -> u64 {
        let timers = segments.iter().filter(|segment| segment.kind == SegmentKind::Timer && counts(segment));
        timers.map(|segment| segment.to.since(segment.from)).sum()
    };
    let may_go_on = |segment: &Segment| segment.call.is_some_and(|call| !is_sleep(call.number));
    let window = path.window.to.since(path.window.from);
    if path.algorithm != Algorithm::Active || of(&path.segments, &may_go_on) < window / 100 {
        return 0;
    }
    let joined = active_by(&recorded.graph, path.window, Timeouts::Joined);
    of(&path.segments, &|_| true).saturating_sub(of(&joined.segments, &|_| true))
}
