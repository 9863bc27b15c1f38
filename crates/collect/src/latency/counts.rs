//! Latency counts: histograms, their groups, and the differences between two readings.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use wakepath_distribution::MAX_GROUP_SLICES;

use crate::libbpf::word;
use crate::probe_budget::RemovedProbes;

/// A target's counts since the beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts {
    /// Bucket i: latencies from 2^i to below 2^(i+1) ns or cycles.
    pub buckets: [u64; 64],
    /// The sum of all latencies, ns or cycles.
    pub sum: u64,
    /// Calls unwound by an exception, `longjmp` or their thread's end: they never returned.
    pub unwound: u64,
    /// Calls that were not counted since too many were open or recursion was too deep.
    pub overflowed: u64,
    /// Unfinished calls.
    pub open: u64,
    /// Kernel function calls whose beginning or return was missed; not known by group.
    pub unseen: u64,
}

impl Counts {
    /// The sum of several `struct wp_distribution`.
    pub(super) fn sum<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut sums = [0_u64; 67];
        for value in values {
            for (at, sum) in (0..).step_by(8).zip(&mut sums) {
                *sum = sum.saturating_add(word(value, at));
            }
        }
        let [buckets @ .., sum, unwound, overflowed] = sums;
        Self { buckets, sum, unwound, overflowed, open: 0, unseen: 0 }
    }

    /// The counts since `before`; the kernel's counters only grow.
    fn since(&self, before: &Self) -> Self {
        Self {
            buckets: std::array::from_fn(|bucket| {
                self.buckets[bucket].saturating_sub(before.buckets[bucket])
            }),
            sum: self.sum.saturating_sub(before.sum),
            unwound: self.unwound.saturating_sub(before.unwound),
            overflowed: self.overflowed.saturating_sub(before.overflowed),
            open: 0,
            unseen: 0,
        }
    }

    /// Adds the counts in `other`, but not its open or unseen calls.
    pub(super) fn add(&mut self, other: &Self) {
        for (count, more) in self.buckets.iter_mut().zip(other.buckets) {
            *count = count.saturating_add(more);
        }
        self.sum = self.sum.saturating_add(other.sum);
        self.unwound = self.unwound.saturating_add(other.unwound);
        self.overflowed = self.overflowed.saturating_add(other.overflowed);
    }
}

/// A process, a thread or a cgroup with its counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The process or thread number, or the cgroup's inode.
    pub id: u64,
    /// The group's start, ns on the monotonic clock; 0 for a cgroup.
    pub start_ns: u64,
    /// A thread's process.
    pub process: Option<u32>,
    /// The process's or thread's last name, or the cgroup's path; `None` if it is gone.
    pub name: Option<Box<[u8]>>,
    /// The group's counts, without `open` and `unseen`, which are not known by group.
    pub counts: Counts,
}

/// A target's counts by group, at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Groups {
    /// In no order.
    pub groups: Vec<Group>,
    /// The sum over the groups without room. Together with `groups` it is the whole.
    pub others: Counts,
}

/// A reading of all targets' counts.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// The time of the reading, since the beginning.
    pub at: Duration,
    /// The same on the wall clock.
    pub realtime: SystemTime,
    /// The counts, in the targets' order.
    pub counts: Vec<Counts>,
    /// The counts since the previous reading, by target and group; `None` without grouping, and once there were more
    /// than `MAX_GROUP_SLICES` parts in all.
    pub parts: Option<Vec<Vec<GroupCounts>>>,
    /// The targets whose probes were removed since the previous reading.
    pub removed: Vec<(u32, RemovedProbes)>,
}

/// A group's counts between two readings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupCounts {
    /// The group: its number and its start; `None` for the groups without room.
    pub whose: Option<(u64, u64)>,
    /// The group's counts.
    pub counts: Counts,
}

/// The groups' counts at the last reading, from which the parts are computed.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// Whether parts are requested, and there is room for them.
    wanted: bool,
    /// The number of parts so far.
    kept: usize,
    last: HashMap<(usize, Option<(u64, u64)>), Counts>,
}

impl Parts {
    pub(super) fn new(wanted: bool) -> Self {
        Self { wanted, ..Self::default() }
    }

    /// The parts since the last reading, target by target.
    pub(super) fn since(&mut self, groups: &[Groups]) -> Option<Vec<Vec<GroupCounts>>> {
        if !self.wanted {
            return None;
        }
        let mut parts = Vec::new();
        for (target, Groups { groups, others }) in groups.iter().enumerate() {
            let known = groups.iter().map(|group| (Some((group.id, group.start_ns)), &group.counts));
            let mut of_target = Vec::new();
            for (whose, counts) in known.chain([(None, others)]) {
                let before = self.last.insert((target, whose), counts.clone());
                if before.as_ref() == Some(counts) {
                    continue;
                }
                let counts = before.map_or_else(|| counts.clone(), |before| counts.since(&before));
                if counts.buckets.iter().any(|&count| count > 0) {
                    of_target.push(GroupCounts { whose, counts });
                }
            }
            self.kept += of_target.len();
            parts.push(of_target);
        }
        self.wanted = self.kept <= MAX_GROUP_SLICES;
        self.wanted.then_some(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(calls: u64) -> Counts {
        let buckets = std::array::from_fn(|bucket| if bucket == 10 { calls } else { 0 });
        Counts { buckets, sum: calls * 1500, unwound: 0, overflowed: 0, open: 0, unseen: 0 }
    }

    fn groups(of: &[(u64, u64)], others: u64) -> Vec<Groups> {
        let group =
            |&(id, calls)| Group { id, start_ns: 1, process: None, name: None, counts: counts(calls) };
        vec![Groups { groups: of.iter().map(group).collect(), others: counts(others) }]
    }

    #[test]
    fn only_a_group_with_new_calls_has_a_part() {
        let mut parts = Parts::new(true);
        let mut since = |of: &[(u64, u64)], others| {
            let parts = parts.since(&groups(of, others)).expect("room").remove(0);
            let new = parts.into_iter().map(|part| (part.whose.map(|(id, _)| id), part.counts.buckets[10]));
            new.collect::<Vec<_>>()
        };
        assert_eq!(since(&[(7, 3)], 0), [(Some(7), 3)]);
        assert_eq!(since(&[(7, 3), (8, 2)], 1), [(Some(8), 2), (None, 1)]);
        assert_eq!(since(&[(7, 5), (8, 2)], 1), [(Some(7), 2)]);
        assert_eq!(Parts::new(false).since(&groups(&[(7, 3)], 0)), None);
    }

    #[test]
    fn once_there_are_too_many_parts_no_later_reading_has_any() {
        let mut parts = Parts::new(true);
        let many = |calls| (0..MAX_GROUP_SLICES as u64).map(|id| (id, calls)).collect::<Vec<_>>();
        assert!(parts.since(&groups(&many(1), 0)).is_some());
        assert_eq!(parts.since(&groups(&many(2), 0)), None);
        assert_eq!(parts.since(&groups(&[(7, 3)], 0)), None);
    }
}
