//! Whether a part follows the part before it, by each CPU's records on both sides.
//!
//! A CPU's switch leaves the thread at which its last switch arrived. Where the next part's first switch leaves another
//! thread, records are missing between the parts: a part was left out, or perf's buffer was full.

use std::collections::BTreeMap;

use wakepath_event::{Cpu, Tid};

use super::runs::Gap;

/// A part's records next to its neighbours', by CPU.
#[derive(Debug, Default)]
pub(super) struct Edges(BTreeMap<u32, Edge>);

#[derive(Debug, Clone, Copy)]
struct Edge {
    /// The first and the last event's stamps, ns.
    first: u64,
    last: u64,
    /// The first switch: its stamp, and the leaving thread.
    left: Option<(u64, Tid)>,
    /// The last switch: its stamp, and the arriving thread.
    arrived: Option<(u64, Tid)>,
}

/// How two parts meet.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Seam {
    /// No record contradicts their order.
    Follows,
    /// Records between these stamps are missing.
    Missing(Vec<Gap>),
    /// Both have records from the same time.
    Overlaps,
}

/// How the CPUs' buffers were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Buffers {
    /// All threads' records.
    Whole,
    /// Some threads' records.
    Threads,
    /// The last records before each part's end (`perf record --overwrite`).
    Overwritten,
}

impl Edges {
    /// Takes an event on a CPU; for a switch, the leaving and the arriving thread.
    pub fn see(&mut self, cpu: u32, at: u64, switch: Option<(Tid, Tid)>) {
        if Cpu::numbered(cpu) == Cpu::UNKNOWN {
            return;
        }
        let new = Edge { first: at, last: at, left: None, arrived: None };
        let edge = self.0.entry(cpu).or_insert(new);
        (edge.first, edge.last) = (edge.first.min(at), edge.last.max(at));
        let Some((prev, next)) = switch else { return };
        if edge.left.is_none_or(|(first, _)| at < first) {
            edge.left = Some((at, prev));
        }
        if edge.arrived.is_none_or(|(last, _)| at >= last) {
            edge.arrived = Some((at, next));
        }
    }

    /// How the next part meets the parts before, whose edges these are.
    pub fn meet(&self, next: &Self, buffers: Buffers) -> Seam {
        let both = || self.0.iter().filter_map(|(cpu, before)| Some((before, next.0.get(cpu)?)));
        let overlaps = both().any(|(before, after)| match buffers {
            Buffers::Threads => after.first <= before.first,
            _ => before.arrived.zip(after.left).is_some_and(|((last, _), (first, _))| first < last),
        });
        if overlaps {
            return Seam::Overlaps;
        }
        let contradicts = both().any(|(before, after)| {
            before.arrived.zip(after.left).is_some_and(|((_, came), (_, left))| came != left)
        });
        let missing = match buffers {
            Buffers::Overwritten => true,
            Buffers::Whole => contradicts,
            Buffers::Threads => false,
        };
        let end = self.0.values().map(|edge| edge.last).max();
        let begin = next.0.values().map(|edge| edge.first).min();
        let (Some(end), Some(begin), true) = (end, begin, missing) else { return Seam::Follows };
        let mut cpus: Vec<_> = self.0.keys().chain(next.0.keys()).copied().collect();
        cpus.sort_unstable();
        cpus.dedup();
        let gap = |cpu| {
            let from = self.0.get(&cpu).map_or(end, |edge| edge.last);
            let to = next.0.get(&cpu).map_or(begin, |edge| edge.first).max(from);
            Gap { to, from, cpu }
        };
        Seam::Missing(cpus.into_iter().map(gap).collect())
    }

    /// Goes on to the next part's end. A CPU without a record there keeps its last.
    pub fn follow(&mut self, next: Self) {
        self.0.extend(next.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record: CPU, stamp, and for a switch both threads.
    type Seen = (u32, u64, Option<(u32, u32)>);

    fn edges(seen: &[Seen]) -> Edges {
        let mut edges = Edges::default();
        for &(cpu, at, switch) in seen {
            edges.see(cpu, at, switch.map(|(prev, next)| (Tid(prev), Tid(next))));
        }
        edges
    }

    #[test]
    fn the_first_switch_at_a_stamp_left_and_the_last_arrived() {
        let seen =
            [(0, 7, None), (0, 5, Some((1, 2))), (0, 5, Some((2, 3))), (0, 5, Some((3, 4))), (0, 2, None)];
        let edge = edges(&seen).0[&0];
        assert_eq!((edge.first, edge.last), (2, 7));
        assert_eq!((edge.left, edge.arrived), (Some((5, Tid(1))), Some((5, Tid(4)))));
        // In file order, an earlier switch may stand behind a later one.
        let edge = edges(&[(0, 5, Some((2, 3))), (0, 4, Some((1, 2)))]).0[&0];
        assert_eq!((edge.left, edge.arrived), (Some((4, Tid(1))), Some((5, Tid(3)))));
        assert!(edges(&[(u32::MAX, 5, None)]).0.is_empty(), "an impossible CPU");
    }

    #[test]
    fn parts_overlap_from_the_stamp_on_at_which_both_have_switches() {
        let before = || edges(&[(0, 3, None), (0, 5, Some((1, 2))), (0, 9, None)]);
        for (buffers, after, overlaps) in [
            (Buffers::Whole, (0, 4, Some((2, 3))), true),
            (Buffers::Whole, (0, 5, Some((2, 3))), false),
            (Buffers::Overwritten, (0, 4, Some((2, 3))), true),
            // Without a switch on both sides, or on another CPU, nothing contradicts.
            (Buffers::Whole, (0, 4, None), false),
            (Buffers::Whole, (1, 4, Some((2, 3))), false),
            // Some threads' records: the CPU's first records decide.
            (Buffers::Threads, (0, 3, None), true),
            (Buffers::Threads, (0, 4, Some((2, 3))), false),
        ] {
            let seam = before().meet(&edges(&[after]), buffers);
            assert_eq!(seam == Seam::Overlaps, overlaps, "{buffers:?} {after:?}: {seam:?}");
        }
    }

    #[test]
    fn missing_records_lie_on_each_cpu_between_its_own_records_or_those_of_all() {
        let before = edges(&[(0, 10, Some((1, 2))), (1, 30, Some((4, 5))), (2, 20, None)]);
        let after = edges(&[(0, 40, Some((3, 1))), (1, 35, Some((5, 4))), (3, 50, None)]);
        let gaps = [(10, 40, 0), (30, 35, 1), (20, 35, 2), (30, 50, 3)];
        let gaps = gaps.map(|(from, to, cpu)| Gap { to, from, cpu });
        assert_eq!(before.meet(&after, Buffers::Whole), Seam::Missing(gaps.to_vec()));
        assert_eq!(before.meet(&after, Buffers::Threads), Seam::Follows);
        // The thread that left is that which had come; an overwritten buffer proves nothing by it.
        let follows = edges(&[(0, 40, Some((2, 1))), (1, 35, Some((5, 4)))]);
        assert_eq!(before.meet(&follows, Buffers::Whole), Seam::Follows);
        assert!(matches!(before.meet(&follows, Buffers::Overwritten), Seam::Missing(_)));
        // Without a record on a side, nothing is between them.
        assert_eq!(before.meet(&Edges::default(), Buffers::Overwritten), Seam::Follows);
        // Records whose stamps cross make no gap back in time.
        let crossing = edges(&[(0, 9, None), (1, 31, Some((7, 4)))]);
        let Seam::Missing(gaps) = before.meet(&crossing, Buffers::Whole) else { panic!("no gap") };
        assert_eq!(gaps[0], Gap { to: 10, from: 10, cpu: 0 });
    }

    #[test]
    fn a_cpu_without_a_record_in_a_part_keeps_its_last() {
        let mut before = edges(&[(0, 10, Some((1, 2))), (1, 30, Some((4, 5)))]);
        before.follow(edges(&[(1, 40, Some((5, 6)))]));
        let edge = |cpu| before.0[&cpu].arrived;
        assert_eq!([edge(0), edge(1)], [Some((10, Tid(2))), Some((40, Tid(6)))]);
    }
}
