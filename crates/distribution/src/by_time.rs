//! Peaks by their share of the time: few calls may have most of it.

use crate::histogram::BUCKETS;
use crate::peaks::Peak;

/// A part of the time that matters: a tenth.
const MATTERS: u128 = 10;

/// The calls' total time in each bucket, ns.
pub type Sums = [u64; BUCKETS];

fn time(sums: &Sums, from: usize, to: usize) -> u128 {
    sums.iter().take(to + 1).skip(from).map(|ns| u128::from(*ns)).sum()
}

fn matters(part: u128, sums: &Sums) -> bool {
    part > 0 && part * MATTERS >= time(sums, 0, BUCKETS - 1)
}

/// The calls above all peaks, in no peak, if they have a tenth of the time or more.
pub fn slow_strays(peaks: &[Peak], counts: &[u64; BUCKETS], sums: &Sums) -> Option<Peak> {
    let from = peaks.last()?.to_bucket + 1;
    let mut held = (from..BUCKETS).filter(|bucket| counts[*bucket] > 0);
    let first = held.next()?;
    let last = held.next_back().unwrap_or(first);
    let count = counts[first..=last].iter().sum();
    matters(time(sums, first, last), sums).then_some(Peak { from_bucket: first, to_bucket: last, count })
}

/// The number, from 1 on, of the slowest peak behind the first which has a tenth of the time or more; the slowest where none has.
pub fn slowest_by_time(peaks: &[Peak], sums: &Sums) -> usize {
    let has = |peak: &Peak| matters(time(sums, peak.from_bucket, peak.to_bucket), sums);
    let slow = peaks.iter().skip(1).rposition(has);
    slow.map_or(peaks.len(), |index| index + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peak(from_bucket: usize, to_bucket: usize) -> Peak {
        Peak { from_bucket, to_bucket, count: 1 }
    }

    /// Counters with these values.
    fn of(values: &[(usize, u64)]) -> [u64; BUCKETS] {
        let mut all = [0; BUCKETS];
        values.iter().for_each(|(bucket, value)| all[*bucket] = *value);
        all
    }

    #[test]
    fn calls_above_all_peaks_are_a_peak_if_they_have_a_tenth_of_the_time() {
        let counts = of(&[(5, 1000), (20, 2), (22, 1)]);
        let strays =
            |ns: u64| slow_strays(&[peak(4, 6)], &counts, &of(&[(5, 900), (20, ns / 2), (22, ns / 2)]));
        assert_eq!(strays(100), Some(Peak { from_bucket: 20, to_bucket: 22, count: 3 }));
        assert_eq!(strays(98), None);
        // In a peak, below it, or nowhere.
        assert_eq!(slow_strays(&[peak(4, 6), peak(20, 22)], &counts, &of(&[(22, 900)])), None);
        assert_eq!(slow_strays(&[peak(24, 26)], &counts, &of(&[(22, 900)])), None);
        assert_eq!(slow_strays(&[], &counts, &of(&[(22, 900)])), None);
        let alone = of(&[(5, 1000), (BUCKETS - 1, 1)]);
        let last = Peak { from_bucket: BUCKETS - 1, to_bucket: BUCKETS - 1, count: 1 };
        assert_eq!(slow_strays(&[peak(4, 6)], &alone, &of(&[(5, 9), (BUCKETS - 1, 1)])), Some(last));
        // Calls without any time.
        assert_eq!(slow_strays(&[peak(4, 6)], &counts, &of(&[])), None);
    }

    #[test]
    fn the_slowest_peak_with_a_tenth_of_the_time_is_the_default() {
        let peaks = [peak(4, 6), peak(10, 11), peak(20, 22)];
        let number = |sums: &[(usize, u64)]| slowest_by_time(&peaks, &of(sums));
        assert_eq!(number(&[(5, 100), (10, 450), (11, 350), (22, 100)]), 3);
        assert_eq!(number(&[(5, 101), (10, 450), (11, 350), (22, 99)]), 2);
        assert_eq!(number(&[(5, 900), (10, 50), (11, 49), (22, 1)]), 3);
        assert_eq!(number(&[(5, 900), (10, 50), (11, 50)]), 2);
        assert_eq!(slowest_by_time(&peaks[..1], &of(&[(5, 1)])), 1);
        assert_eq!(slowest_by_time(&[], &of(&[])), 0);
    }
}
