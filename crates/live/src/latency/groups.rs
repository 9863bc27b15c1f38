//! A live target's groups.

use std::collections::HashMap;

use wakepath_collect::{Counts, Group as Counted, GroupCounts, Reading};
use wakepath_distribution::{GroupBy, Histogram, Unit};

use wakepath_engine::latency::{Group, GroupKey, Groups, TimeSlice};

/// Each group's slices, by its id and start time; `None` for the groups since the table was full.
pub(super) type GroupSlices = HashMap<Option<(u64, u64)>, Vec<TimeSlice>>;

/// A target's groups.
pub(super) fn groups(
    by: GroupBy,
    counted: &wakepath_collect::Groups,
    unit: Unit,
    mut slices: GroupSlices,
) -> Groups {
    let mut group = |key, id, counts: &Counts| Group {
        key,
        histogram: Histogram::from_counters(unit, counts.buckets, counts.sum.into()),
        slices: slices.remove(&id).unwrap_or_default(),
        unwound: counts.unwound,
        overflowed: counts.overflowed,
    };
    let known = counted.groups.iter();
    let mut groups: Vec<_> =
        known.map(|found| group(key(by, found), Some((found.id, found.start_ns)), &found.counts)).collect();
    groups.sort_by(|a, b| b.histogram.sum().cmp(&a.histogram.sum()).then_with(|| a.key.cmp(&b.key)));
    let others = group(GroupKey::Others, None, &counted.others);
    if !others.histogram.is_empty() || others.unwound > 0 || others.overflowed > 0 {
        groups.push(others);
    }
    Groups { by, groups }
}

/// The target's slices by group. `slice_of_reading` holds each reading's slice index. Empty if a reading does not know
/// its groups: the slices would not add up.
pub(super) fn slices(
    of_target: &[TimeSlice],
    slice_of_reading: &[usize],
    readings: &[Reading],
    target: usize,
    unit: Unit,
) -> GroupSlices {
    let mut slices = GroupSlices::new();
    for (&index, reading) in slice_of_reading.iter().zip(readings) {
        let (Some(slice), Some(of_targets)) = (of_target.get(index), &reading.parts) else {
            return GroupSlices::new();
        };
        for GroupCounts { whose, counts } in of_targets.get(target).into_iter().flatten() {
            let histogram = Histogram::from_counters(unit, counts.buckets, counts.sum.into());
            let of_group = slices.entry(*whose).or_default();
            match of_group.last_mut().filter(|last| last.from == slice.from) {
                Some(last) => {
                    // Both have the same unit.
                    let _ = last.histogram.merge(&histogram);
                }
                None => of_group.push(TimeSlice { from: slice.from, to: slice.to, histogram }),
            }
        }
    }
    slices
}

fn key(by: GroupBy, group: &Counted) -> GroupKey {
    let (id, start_ns, name) = (group.id as u32, group.start_ns, group.name.clone());
    match by {
        GroupBy::Process => GroupKey::Process { pid: id, start_ns, comm: name },
        GroupBy::Thread => GroupKey::Thread { tid: id, pid: group.process, start_ns, comm: name },
        GroupBy::Cgroup => GroupKey::Cgroup { id: group.id, path: name },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(calls: u64, sum: u64) -> Counts {
        let buckets = std::array::from_fn(|bucket| if bucket == 10 { calls } else { 0 });
        Counts { buckets, sum, unwound: 0, overflowed: 0, open: 0, unseen: 0 }
    }

    fn group(id: u64, start_ns: u64, sum: u64) -> Counted {
        Counted { id, start_ns, process: None, name: Some(Box::from(*b"x")), counts: counts(1, sum) }
    }

    /// The groups' keys in order, and the number of calls in all.
    fn order(counted: &wakepath_collect::Groups) -> (Vec<GroupKey>, u64) {
        let found = groups(GroupBy::Process, counted, Unit::Nanoseconds, GroupSlices::new()).groups;
        let calls = found.iter().map(|group| group.histogram.calls()).sum();
        (found.into_iter().map(|group| group.key).collect(), calls)
    }

    #[test]
    fn groups_with_most_time_come_first_and_those_that_found_the_table_full_last() {
        let process = |pid, start_ns| GroupKey::Process { pid, start_ns, comm: Some(Box::from(*b"x")) };
        let mut counted = wakepath_collect::Groups {
            groups: vec![group(9, 1, 2000), group(7, 5, 3000), group(7, 2, 2000)],
            others: counts(0, 0),
        };
        let known = vec![process(7, 5), process(7, 2), process(9, 1)];
        assert_eq!(order(&counted), (known.clone(), 3), "an id that was used again");
        let with_others = [known, vec![GroupKey::Others]].concat();
        counted.others = counts(10, 100_000);
        assert_eq!(order(&counted), (with_others.clone(), 13));
        counted.others = Counts { unwound: 1, ..counts(0, 0) };
        assert_eq!(order(&counted), (with_others, 3));
    }
}
