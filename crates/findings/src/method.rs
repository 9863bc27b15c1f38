//! The evidence behind a path's numbers: the basis of its time, and its largest segments.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use wakepath_critical_path::{Basis, Segment, SegmentKind, Wait, WaitId};

use crate::Evidence;

/// The evidence behind a path's numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Method {
    /// The kinds of time that occur.
    pub kinds: BTreeSet<SegmentKind>,
    /// The time by basis, ns, largest first.
    pub bases: Vec<(Basis, u64)>,
    /// The total time of all segments, ns.
    pub total_ns: u64,
    /// The indices of the largest segments, largest first; equal segments in time order.
    pub largest: Vec<usize>,
}

/// The number of segments shown with their evidence.
const MAX_SEGMENTS: usize = 5;
/// The number of waits shown above a segment.
const MAX_WAITS: usize = 4;

impl Method {
    /// The evidence behind this path's numbers.
    pub fn new(evidence: &Evidence<'_>) -> Self {
        let length = |segment: &Segment| segment.to.since(segment.from);
        let mut sums: HashMap<Basis, u64> = HashMap::new();
        for segment in evidence.segments() {
            *sums.entry(segment.basis).or_default() += length(segment);
        }
        let mut bases: Vec<_> = sums.into_iter().collect();
        bases.sort_by_key(|(_, ns)| Reverse(*ns));
        let mut largest: Vec<_> = evidence.segments().enumerate().collect();
        largest.sort_by_key(|(_, segment)| (Reverse(length(segment)), segment.from));
        Self {
            kinds: evidence.segments().map(|segment| segment.kind).collect(),
            bases,
            total_ns: evidence.segments().map(length).sum(),
            largest: largest.into_iter().take(MAX_SEGMENTS).map(|(place, _)| place).collect(),
        }
    }

    /// The waits that a segment explains, innermost first, at most four.
    pub fn waits_above<'a>(
        evidence: Evidence<'a>,
        segment: &Segment,
    ) -> impl Iterator<Item = (WaitId, &'a Wait)> + use<'a> {
        let wait = move |id: Option<WaitId>| id.and_then(|id| Some((id, evidence.wait(id)?)));
        std::iter::successors(wait(segment.parent), move |(_, above)| wait(above.parent)).take(MAX_WAITS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FUTEX, Story, call};
    use wakepath_critical_path::{Cause, Rule, Via};

    #[test]
    fn each_basis_has_its_time_and_the_largest_segments_come_first() {
        let mut story = Story::default();
        let own = story.thread(7, 1, b"app", 7);
        let rule = Basis::Inferred(Rule::LastPacket);
        let other = Basis::Inferred(Rule::LastCompletion);
        let segments = [
            (5, Basis::Measured),
            (9, rule),
            (3, other),
            (9, rule),
            (4, Basis::Measured),
            (1, other),
            (2, rule),
        ];
        for (ns, basis) in segments {
            story.then(ns, own, None, SegmentKind::Running, Cause::None).basis = basis;
        }
        let found = Method::new(&story.finish().evidence());
        assert_eq!(found.bases, [(rule, 20), (Basis::Measured, 9), (other, 4)]);
        assert_eq!((found.total_ns, found.largest), (33, vec![1, 3, 0, 4, 2]));
        assert_eq!(found.kinds, BTreeSet::from([SegmentKind::Running]));
    }

    #[test]
    fn the_waits_above_a_segment_are_at_most_four() {
        let mut story = Story::default();
        let threads = [7, 8, 9, 10, 11, 12].map(|tid| story.thread(tid, 1, b"link", 7));
        let mut parent = None;
        let mut above = Vec::new();
        for pair in threads.windows(2) {
            let wait = story.wait(9, pair[0], parent, call(FUTEX, 3), Via::Wakeup, pair[1]);
            above.insert(0, wait);
            parent = Some(wait);
        }
        story.then(9, threads[5], parent, SegmentKind::Running, Cause::None);
        let story = story.finish();
        let evidence = story.evidence();
        let segment = evidence.segments().next().expect("a segment");
        let found: Vec<_> = Method::waits_above(evidence, segment).map(|(id, _)| id).collect();
        assert_eq!(found, above[..4]);
    }
}
