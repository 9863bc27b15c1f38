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
