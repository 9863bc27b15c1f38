//! Merging streams by time.

use wakepath_ctf::Source;
use wakepath_event::Event;

use super::ReadProblem;
use super::cursor::{Cursor, Head};

/// Emits all cursors' events in the order of (stamp, cursor index, position in the cursor).
///
/// A cursor emits a whole run of events, up to the next event of any other cursor, so that choosing a cursor costs
/// once a run.
pub(super) fn merge(
    mut cursors: Vec<Cursor<impl Source>>,
    problems: &mut Vec<ReadProblem>,
    emit: &mut impl FnMut(&Event),
) {
    // Sorted, with the next cursor last: most runs end a few places from there, where inserting is cheaper than any
    // tree. The first stamps are not known yet: all cursors begin at stamp 0.
    let mut heads: Vec<(u64, usize)> = (0..cursors.len()).rev().map(|index| (0, index)).collect();
    while let Some((next, index)) = heads.pop() {
        let limit = match heads.last() {
            None => u64::MAX,
            // At equal stamps, the lower index goes first.
            Some(&(stamp, other)) if index < other => stamp,
            // Greater than the stamp just popped, so not 0.
            Some(&(stamp, _)) => stamp.saturating_sub(1),
        };
        debug_assert!(next <= limit, "a cursor goes on");
        if let Head::At(stamp) = cursors[index].run(limit, emit) {
            debug_assert!(stamp > limit, "all events up to the limit are out");
            insert(&mut heads, (stamp, index));
        }
    }
    for cursor in cursors {
        problems.extend(cursor.problems());
    }
}

/// The number of places compared singly before a binary search begins.
const NEAR: usize = 16;

/// Inserts a head into the sorted heads, the latest first.
#[inline]
fn insert(heads: &mut Vec<(u64, usize)>, head: (u64, usize)) {
    let far = &heads[..heads.len().saturating_sub(NEAR)];
    if far.last().is_some_and(|&last| last < head) {
        let at = far.partition_point(|&other| other > head);
        return heads.insert(at, head);
    }
    let mut at = heads.len();
    heads.push(head);
    while let Some(before) = at.checked_sub(1).filter(|&before| heads[before] < head) {
        heads[at] = heads[before];
        at = before;
    }
    heads[at] = head;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_stay_sorted_however_many_there_are() {
        for streams in [1, 2, NEAR, NEAR + 1, 3 * NEAR] {
            let mut heads = Vec::new();
            // Steps that reach every place, with equal stamps among them.
            for step in 0..20 * streams {
                insert(&mut heads, ((step * 7919 % 101) as u64, step % streams));
                assert!(heads.is_sorted_by(|one, next| one >= next), "{streams} streams: {heads:?}");
                if heads.len() == streams {
                    heads.pop();
                }
            }
        }
    }
}
