//! Whose latencies they are.

use std::collections::HashMap;

use wakepath_collect::{Counts, Group as Counted, Part, Reading};
use wakepath_distribution::{GroupBy, Histogram, Unit, peaks};

use crate::Slice;
use crate::groups::{Group, Groups, Who};
/// What was counted of a target's groups.
pub(super) fn told_apart(
    by: GroupBy,
    counted: &wakepath_collect::Groups,
    unit: Unit,
    mut parts: Parts,
) -> Groups {
    let mut told = |who, key, counts| told(who, counts, unit, parts.remove(&key).unwrap_or_default());
    let mut groups: Vec<_> = counted
        .groups
        .iter()
        .map(|group| told(who(by, group), Some((group.id, group.start_ns)), &group.counts))
        .collect();
    groups.sort_by(|a, b| b.histogram.sum().cmp(&a.histogram.sum()).then_with(|| a.who.cmp(&b.who)));
    let others = told(Who::Others, None, &counted.others);
    if !others.histogram.is_empty() || others.unwound > 0 || others.overflowed > 0 {
        groups.push(others);
    }
    Groups { by, groups }
}

fn told(who: Who, counts: &Counts, unit: Unit, slices: Vec<Slice>) -> Group {
    let histogram = Histogram::from_counters(unit, counts.buckets, counts.sum.into());
    Group {
        who,
        peaks: peaks(&histogram),
        histogram,
        slices,
        unwound: counts.unwound,
        overflowed: counts.overflowed,
    }
}

/// The slices of each group: its number and when it started; of those for whom there was no room.
pub(super) type Parts = HashMap<Option<(u64, u64)>, Vec<Slice>>;

/// Which of the target's slices is whose. `of_reading` is the number of each reading's slice. Nothing where the
/// parts of some reading are not known: they would not add up.
pub(super) fn parts(
    slices: &[Slice],
    of_reading: &[usize],
    readings: &[Reading],
    target: usize,
    unit: Unit,
) -> Parts {
    let mut parts = Parts::new();
    for (&number, reading) in of_reading.iter().zip(readings) {
        let (Some(slice), Some(of_targets)) = (slices.get(number), &reading.parts) else {
            return Parts::new();
        };
        for Part { whose, counts } in of_targets.get(target).into_iter().flatten() {
            let part = Histogram::from_counters(unit, counts.buckets, counts.sum.into());
            let own = parts.entry(*whose).or_default();
            match own.last_mut().filter(|last| last.from == slice.from) {
                Some(last) => {
                    // They are of one unit.
                    let _ = last.histogram.merge(&part);
                }
                None => own.push(Slice { from: slice.from, to: slice.to, histogram: part }),
            }
        }
    }
    parts
}

fn who(by: GroupBy, group: &Counted) -> Who {
    let (number, start_ns, name) = (group.id as u32, group.start_ns, group.name.clone());
    match by {
        GroupBy::Process => Who::Process { pid: number, start_ns, comm: name },
        GroupBy::Thread => Who::Thread { tid: number, pid: group.process, start_ns, comm: name },
        GroupBy::Cgroup => Who::Cgroup { id: group.id, path: name },
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

    fn order(groups: &Groups) -> Vec<Who> {
        groups.groups.iter().map(|group| group.who.clone()).collect()
    }

    #[test]
    fn those_with_most_time_come_first_and_those_without_room_last() {
        let process = |pid, start_ns| Who::Process { pid, start_ns, comm: Some(Box::from(*b"x")) };
        let mut counted = wakepath_collect::Groups {
            groups: vec![group(9, 1, 2000), group(7, 5, 3000), group(7, 2, 2000)],
            others: counts(0, 0),
        };
        let found = told_apart(GroupBy::Process, &counted, Unit::Nanoseconds, Parts::new());
        assert_eq!(order(&found), [process(7, 5), process(7, 2), process(9, 1)], "a number that came again");
        counted.others = counts(10, 100_000);
        let found = told_apart(GroupBy::Process, &counted, Unit::Nanoseconds, Parts::new());
        assert_eq!(order(&found).last(), Some(&Who::Others));
        assert_eq!(found.groups.iter().map(|group| group.histogram.calls()).sum::<u64>(), 13);
        counted.others = Counts { unwound: 1, ..counts(0, 0) };
        assert_eq!(
            order(&told_apart(GroupBy::Process, &counted, Unit::Nanoseconds, Parts::new())).last(),
            Some(&Who::Others)
        );
    }
}
