use std::cmp::Reverse;
use std::collections::BinaryHeap;

use wakepath_ctf::Source;
use wakepath_event::Event;

use super::ReadProblem;
use super::cursor::{Cursor, Head};

/// Tells the events of all cursors in the order of (stamp, index of the cursor, position in it).
///
/// A cursor tells a whole run of events, up to where another one's next event is due, so that the
/// cost of choosing is paid once a run.
pub(super) fn merge(
    mut cursors: Vec<Cursor<impl Source>>,
    problems: &mut Vec<ReadProblem>,
    tell: &mut impl FnMut(&Event),
) {
    // Nobody knows yet where the first events are: as if they were all at stamp 0.
    let mut heads: BinaryHeap<Reverse<(u64, usize)>> =
        (0..cursors.len()).map(|index| Reverse((0, index))).collect();
    while let Some(Reverse((_, index))) = heads.pop() {
        let limit = match heads.peek() {
            None => u64::MAX,
            // Of equal stamps the lower index goes first.
            Some(&Reverse((stamp, other))) if index < other => stamp,
            // Greater than the stamp just popped, so not 0.
            Some(&Reverse((stamp, _))) => stamp.saturating_sub(1),
        };
        if let Head::At(stamp) = cursors[index].run(limit, tell) {
            heads.push(Reverse((stamp, index)));
        }
    }
    for cursor in cursors {
        problems.extend(cursor.problems());
    }
}
