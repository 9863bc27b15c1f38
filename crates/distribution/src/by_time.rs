//! Peaks by their share of the time: few calls may have most of it.

use crate::histogram::{BUCKETS, Histogram, bounds};
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

/// Each bucket's time, in the histogram's unit: an estimate with the exact sum.
///
/// A bucket's calls took between its smallest and its largest latency each. The estimate takes the same place between
/// these in every bucket, such as makes the exact sum. So it stays within the bounds by counts and sum; the middles alone
/// may add up to half as much again.
pub fn estimated_times(histogram: &Histogram) -> [f64; BUCKETS] {
    let ends = |end: fn(usize) -> u64| -> [f64; BUCKETS] {
        std::array::from_fn(|bucket| histogram.counts()[bucket] as f64 * end(bucket) as f64)
    };
    let (least, most) = (ends(|bucket| *bounds(bucket).start()), ends(|bucket| *bounds(bucket).end()));
    let [all_least, all_most] = [&least, &most].map(|times| times.iter().sum::<f64>());
    let sum = histogram.sum() as f64;
    let place = ((sum - all_least) / (all_most - all_least)).clamp(0.0, 1.0);
    // No calls: there is no place.
    let place = if place.is_nan() { 0.0 } else { place };
    let mut times: [f64; BUCKETS] =
        std::array::from_fn(|bucket| least[bucket] + place * (most[bucket] - least[bucket]));
    // Counters read while calls end may have a call without its latency, or the other way round.
    let all: f64 = times.iter().sum();
    if all > 0.0 {
        times.iter_mut().for_each(|time| *time = *time * sum / all);
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Unit;

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

    fn estimated(latencies: &[(u64, u64)]) -> (Histogram, [f64; BUCKETS]) {
        let mut histogram = Histogram::new(Unit::Nanoseconds);
        latencies.iter().for_each(|(latency, count)| (0..*count).for_each(|_| histogram.add(*latency)));
        let times = estimated_times(&histogram);
        (histogram, times)
    }

    #[test]
    fn times_by_bucket_are_the_exact_sum_and_within_each_buckets_bounds() {
        for latencies in [
            &[(1_030, 5_000), (70_000_000, 900)][..],
            &[(2_000, 5_000), (130_000_000, 900)],
            &[(1, 3), (0, 8), (u64::MAX, 2)],
            &[(9, 1)],
        ] {
            let (histogram, times) = estimated(latencies);
            let all: f64 = times.iter().sum();
            let sum = histogram.sum() as f64;
            assert!((all - sum).abs() <= 1e-9 * sum, "{latencies:?}: {all} for {sum}");
            for (bucket, time) in times.iter().enumerate() {
                let calls = histogram.counts()[bucket] as f64;
                let [least, most] =
                    [bounds(bucket).start(), bounds(bucket).end()].map(|end| calls * *end as f64);
                assert!(least * 0.999_999 <= *time && *time <= most * 1.000_001, "{latencies:?} {bucket}");
            }
        }
        // The slow bucket has nearly all time: its part is known well, though its middle is 96 ms.
        let (_, times) = estimated(&[(1_030, 5_000), (70_000_000, 900)]);
        assert!((times[26] - 63e9).abs() < 0.01e9, "{}", times[26]);
    }

    #[test]
    fn times_of_torn_or_empty_counters_are_no_more_than_the_sum() {
        let times = |counts: &[(usize, u64)], sum| {
            estimated_times(&Histogram::from_counters(Unit::Nanoseconds, of(counts), sum))
        };
        assert_eq!(times(&[], 0), [0.0; BUCKETS]);
        assert_eq!(times(&[], 7), [0.0; BUCKETS]);
        assert_eq!(times(&[(4, 10), (5, 5)], 80).iter().sum::<f64>(), 80.0);
        assert_eq!(times(&[(4, 10), (5, 5)], 80)[4], 40.0);
        assert_eq!(times(&[(4, 10)], 1000)[4], 1000.0);
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
