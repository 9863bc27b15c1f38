//! The peaks in two distributions, matched: each came, went, moved or stayed.

use crate::compare::mean_bucket;
use crate::histogram::Histogram;
use crate::peaks::{Peak, peaks};

/// A peak in a distribution, with its counterpart in another.
///
/// Peaks are numbered from 1, by latency, in their own distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeakChange {
    /// Both have it.
    Stayed {
        /// The peak in the first.
        before: Peak,
        /// The peak in the second.
        after: Peak,
        /// Its number in the second.
        number: usize,
    },
    /// Peaks between the same neighbours, the same number in both, but at other latencies.
    Moved {
        /// The peak in the first.
        before: Peak,
        /// The peak in the second.
        after: Peak,
        /// Its number in the second.
        number: usize,
    },
    /// Only the second has it.
    Came {
        /// The peak.
        after: Peak,
        /// Its number.
        number: usize,
    },
    /// Only the first has it.
    Went {
        /// The peak.
        before: Peak,
    },
}

/// Peaks with mean buckets closer than this are at the same place, as in [`crate::alike`].
const MAX_BUCKETS_APART: f64 = 1.0;

/// The peaks' changes from one distribution to another, by latency.
pub fn peak_changes(first: &Histogram, second: &Histogram) -> Vec<PeakChange> {
    let (before, after) = (peaks(first), peaks(second));
    let mut changes = Vec::new();
    // The first peak in each that is in no change yet.
    let (mut from_before, mut from_after) = (0, 0);
    let (mut i, mut j) = (0, 0);
    while i < before.len() && j < after.len() {
        let [a, b] = [mean_bucket(first, &before[i]), mean_bucket(second, &after[j])];
        if (a - b).abs() < MAX_BUCKETS_APART {
            unlike(&before[from_before..i], &after[from_after..j], from_after, &mut changes);
            changes.push(PeakChange::Stayed { before: before[i], after: after[j], number: j + 1 });
            (i, j) = (i + 1, j + 1);
            (from_before, from_after) = (i, j);
        } else if a < b {
            i += 1;
        } else {
            j += 1;
        }
    }
    unlike(&before[from_before..], &after[from_after..], from_after, &mut changes);
    changes
}

/// The changes between two matched peaks: equal numbers of unmatched peaks moved.
fn unlike(before: &[Peak], after: &[Peak], first_number: usize, changes: &mut Vec<PeakChange>) {
    let numbered = after.iter().zip(first_number + 1..);
    if before.len() == after.len() {
        let pairs = before.iter().zip(numbered);
        changes.extend(pairs.map(|(&before, (&after, number))| PeakChange::Moved { before, after, number }));
    } else {
        changes.extend(before.iter().map(|&before| PeakChange::Went { before }));
        changes.extend(numbered.map(|(&after, number)| PeakChange::Came { after, number }));
    }
}

/// The number of the second distribution's peak that explains the change best: the slowest new peak, else the slowest
/// moved peak, else the peak whose share of the calls grew most. `None` if the second distribution has no calls.
pub fn peak_to_explain(first: &Histogram, second: &Histogram) -> Option<usize> {
    let changes = peak_changes(first, second);
    let came = changes.iter().filter_map(|change| match change {
        PeakChange::Came { number, .. } => Some(*number),
        _ => None,
    });
    let moved = changes.iter().filter_map(|change| match change {
        PeakChange::Moved { number, .. } => Some(*number),
        _ => None,
    });
    let share = |peak: &Peak, of: &Histogram| peak.count as f64 / of.calls().max(1) as f64;
    let grew = changes.iter().filter_map(|change| match change {
        PeakChange::Stayed { before, after, number } => {
            Some((share(after, second) - share(before, first), *number))
        }
        _ => None,
    });
    let grew_most = grew.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, number)| number);
    came.max().or(moved.max()).or(grew_most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Unit;

    fn of(counts: &[(usize, u64)]) -> Histogram {
        let mut buckets = [0; crate::BUCKETS];
        counts.iter().for_each(|&(bucket, count)| buckets[bucket] = count);
        Histogram::from_counters(Unit::Nanoseconds, buckets, 0)
    }

    /// `+N` came, `-` went, `>N` moved, `=N` stayed.
    fn drawn(before: &[(usize, u64)], after: &[(usize, u64)]) -> String {
        let sign = |change: &PeakChange| match change {
            PeakChange::Stayed { number, .. } => format!("={number}"),
            PeakChange::Moved { number, .. } => format!(">{number}"),
            PeakChange::Came { number, .. } => format!("+{number}"),
            PeakChange::Went { .. } => String::from("-"),
        };
        peak_changes(&of(before), &of(after)).iter().map(sign).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn peaks_come_go_move_and_stay() {
        let (low, middle, high) = ((10, 900), (16, 300), (22, 100));
        for (before, after, expected) in [
            (&[low][..], &[low][..], "=1"),
            (&[low], &[low, high], "=1 +2"),
            (&[low, high], &[low], "=1 -"),
            (&[low, high], &[low, middle, high], "=1 +2 =3"),
            (&[low, high], &[low, middle], "=1 >2"),
            (&[low], &[high], ">1"),
            (&[middle], &[low, high], "- +1 +2"),
            (&[low, middle, high], &[low], "=1 - -"),
            (&[low], &[], "-"),
            (&[], &[low], "+1"),
            (&[(10, 900)], &[(11, 900)], ">1"),
            (&[(10, 900), (11, 100)], &[(10, 500), (11, 500)], "=1"),
        ] {
            assert_eq!(drawn(before, after), expected, "{before:?} to {after:?}");
        }
    }

    #[test]
    fn a_new_peak_explains_a_change_before_one_that_moved_or_grew() {
        let (low, middle, high) = ((10, 900), (16, 300), (22, 100));
        let (higher, highest) = ((28, 100), (34, 100));
        for (before, after, expected) in [
            (&[low][..], &[low, high][..], Some(2)),
            // Two came, and a slower peak moved.
            (&[low, highest], &[low, middle, high, highest], Some(3)),
            (&[middle, higher, (40, 100)], &[low, high, higher, (46, 100)], Some(2)),
            (&[low, high], &[low, middle], Some(2)),
            (&[low, high], &[(10, 100), (22, 900)], Some(2)),
            (&[low, high], &[(10, 9000), (22, 100)], Some(1)),
            (&[low], &[], None),
        ] {
            assert_eq!(peak_to_explain(&of(before), &of(after)), expected, "{before:?} to {after:?}");
        }
    }
}
