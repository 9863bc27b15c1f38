//! Latency histograms in buckets by factors of two (Traeger 2008, chapter 2).

use std::ops::RangeInclusive;

/// The number of buckets in a histogram: one per bit in a latency.
pub const BUCKETS: usize = 64;

/// The latencies' unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Nanoseconds on some clock.
    Nanoseconds,
    /// Cycles on the processor's counter.
    Cycles,
}

impl std::fmt::Display for Unit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Unit::Nanoseconds => "ns",
            Unit::Cycles => "cycles",
        })
    }
}

/// The error for two histograms that cannot be combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MismatchError {
    /// Their latencies are in different units.
    #[error("one histogram counts {0}, the other {1}; record both in one unit")]
    Unit(Unit, Unit),
    /// A counter was higher in the earlier reading: it was reset in between, or the readings are from different
    /// counters.
    #[error("bucket {bucket} held {earlier} calls in the earlier reading and {later} in the later one")]
    BackwardsCount {
        /// The bucket.
        bucket: usize,
        /// Its count in the earlier reading.
        earlier: u64,
        /// Its count in the later reading.
        later: u64,
    },
    /// Like [`MismatchError::BackwardsCount`], for the sum of latencies.
    #[error("the latencies summed to {earlier} in the earlier reading and to {later} in the later one")]
    BackwardsSum {
        /// The sum in the earlier reading.
        earlier: u128,
        /// The sum in the later reading.
        later: u128,
    },
}

/// A latency's bucket: its highest bit's position, 0 for a latency of 0.
pub const fn bucket_of(latency: u64) -> usize {
    (latency | 1).ilog2() as usize
}

/// A bucket's latencies, first and last: 2^i to 2^(i+1) − 1, and 0 in bucket 0.
///
/// An index past the last bucket is taken for the last bucket.
pub const fn bounds(bucket: usize) -> RangeInclusive<u64> {
    let bucket = if bucket < BUCKETS { bucket } else { BUCKETS - 1 };
    let first = 1u64 << bucket;
    if bucket == 0 { 0..=1 } else { first..=(first - 1) + first }
}

/// The latency that stands for a bucket, 3/2 × 2^i: its range's middle (Traeger 2008, equation 8.1).
///
/// Exact as `f64`. An index past the last bucket is taken for the last bucket.
pub fn average_latency(bucket: usize) -> f64 {
    1.5 * (1u64 << bucket.min(BUCKETS - 1)) as f64
}

/// Counts of calls by latency, and the exact sum of their latencies.
///
/// Nothing here panics: on overflow, a value stays at its maximum. Counts are `u64`, like the counters that they are
/// read from. The sum is `u128`: in nanoseconds, a `u64` is full after 584 years' waiting, which ten thousand sleeping
/// threads have together in three weeks; and a single absurd latency would fill it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    unit: Unit,
    counts: [u64; BUCKETS],
    sum: u128,
}

impl Histogram {
    /// A histogram without calls.
    pub const fn new(unit: Unit) -> Self {
        Self { unit, counts: [0; BUCKETS], sum: 0 }
    }

    /// A histogram from counters.
    ///
    /// They are taken as they are: counters read during counting may hold a call whose latency is not in the sum yet,
    /// or the other way round.
    pub const fn from_counters(unit: Unit, counts: [u64; BUCKETS], sum: u128) -> Self {
        Self { unit, counts, sum }
    }

    /// Counts a call.
    pub fn add(&mut self, latency: u64) {
        let count = &mut self.counts[bucket_of(latency)];
        *count = count.saturating_add(1);
        self.sum = self.sum.saturating_add(u128::from(latency));
    }

    /// Adds the calls in another histogram with the same unit, from another CPU or thread say.
    pub fn merge(&mut self, other: &Histogram) -> Result<(), MismatchError> {
        self.same_unit(other)?;
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count = count.saturating_add(more);
        }
        self.sum = self.sum.saturating_add(other.sum);
        Ok(())
    }

    /// The counts since an earlier reading of the same counters.
    ///
    /// Counters that went backwards are an error: the counts in between are unknown then, which is not zero.
    pub fn minus(&self, earlier: &Histogram) -> Result<Histogram, MismatchError> {
        self.same_unit(earlier)?;
        let mut counts = [0; BUCKETS];
        for (bucket, count) in counts.iter_mut().enumerate() {
            let (earlier, later) = (earlier.counts[bucket], self.counts[bucket]);
            let backwards = MismatchError::BackwardsCount { bucket, earlier, later };
            *count = later.checked_sub(earlier).ok_or(backwards)?;
        }
        let backwards = MismatchError::BackwardsSum { earlier: earlier.sum, later: self.sum };
        let sum = self.sum.checked_sub(earlier.sum).ok_or(backwards)?;
        Ok(Histogram { unit: self.unit, counts, sum })
    }

    pub(crate) fn same_unit(&self, other: &Histogram) -> Result<(), MismatchError> {
        if self.unit == other.unit { Ok(()) } else { Err(MismatchError::Unit(self.unit, other.unit)) }
    }

    /// The latencies' unit.
    pub const fn unit(&self) -> Unit {
        self.unit
    }

    /// The calls in each bucket.
    pub const fn counts(&self) -> &[u64; BUCKETS] {
        &self.counts
    }

    /// The sum of all latencies.
    pub const fn sum(&self) -> u128 {
        self.sum
    }

    /// The number of calls.
    pub fn calls(&self) -> u64 {
        self.counts.iter().fold(0, |calls, &count| calls.saturating_add(count))
    }

    /// Whether no call was counted.
    pub fn is_empty(&self) -> bool {
        self.counts.iter().all(|&count| count == 0)
    }

    /// The mean latency; `None` without calls.
    pub fn mean(&self) -> Option<f64> {
        (!self.is_empty()).then(|| self.sum as f64 / self.calls() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(latencies: &[u64]) -> Histogram {
        let mut histogram = Histogram::new(Unit::Nanoseconds);
        latencies.iter().for_each(|&latency| histogram.add(latency));
        histogram
    }

    #[test]
    fn a_bucket_holds_a_power_of_two_up_to_but_not_the_next() {
        let cases =
            [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2), (1023, 9), (1024, 10), (1 << 63, 63), (u64::MAX, 63)];
        for (latency, bucket) in cases {
            assert_eq!(bucket_of(latency), bucket, "{latency}");
        }
        assert_eq!((bounds(0), bounds(1), bounds(10)), (0..=1, 2..=3, 1024..=2047));
        assert_eq!((bounds(63), bounds(64)), (1 << 63..=u64::MAX, 1 << 63..=u64::MAX));
        for bucket in 0..BUCKETS {
            let range = bounds(bucket);
            assert_eq!((bucket_of(*range.start()), bucket_of(*range.end())), (bucket, bucket));
            assert_eq!(range.end().checked_add(1).map_or(BUCKETS, bucket_of), bucket + 1);
        }
    }

    #[test]
    fn a_bucket_is_stood_for_by_the_middle_of_its_range() {
        assert_eq!((average_latency(0), average_latency(4)), (1.5, 24.0));
        assert_eq!(average_latency(63), 13_835_058_055_282_163_712.0);
        assert_eq!(average_latency(usize::MAX), average_latency(63));
    }

    #[test]
    fn counts_and_sum_are_exact() {
        let histogram = of(&[0, 1, 2, 1000, 1001, u64::MAX, u64::MAX]);
        let mut counts = [0; BUCKETS];
        (counts[0], counts[1], counts[9], counts[63]) = (2, 1, 2, 2);
        assert_eq!(histogram.counts(), &counts);
        assert_eq!(histogram.sum(), 2004 + 2 * u128::from(u64::MAX));
        assert_eq!(histogram.calls(), 7);
    }

    #[test]
    fn merged_and_taken_away_again_is_as_before() {
        let (a, b) = (of(&[1, 5, 900]), of(&[5, 7, 1 << 40]));
        let mut both = a.clone();
        both.merge(&b).unwrap();
        assert_eq!(both, of(&[1, 5, 900, 5, 7, 1 << 40]));
        assert_eq!(both.minus(&a), Ok(b));
        assert_eq!(a.minus(&a), Ok(of(&[])));
    }

    #[test]
    fn counters_that_went_backwards_are_an_error() {
        let error = of(&[5, 9]).minus(&of(&[5, 5, 9])).unwrap_err();
        assert_eq!(error, MismatchError::BackwardsCount { bucket: 2, earlier: 2, later: 1 });
        let error = of(&[8, 9]).minus(&of(&[10])).map(|_| ());
        assert_eq!(error, Ok(()), "17 is more than 10");
        let error = of(&[8]).minus(&of(&[10])).unwrap_err();
        assert_eq!(error, MismatchError::BackwardsSum { earlier: 10, later: 8 });
    }

    #[test]
    fn nanoseconds_and_cycles_do_not_mix() {
        let (mut ns, cycles) = (of(&[1]), Histogram::new(Unit::Cycles));
        let error = MismatchError::Unit(Unit::Nanoseconds, Unit::Cycles);
        assert_eq!(ns.merge(&cycles), Err(error));
        assert_eq!(ns.minus(&cycles), Err(error));
        assert_eq!(error.to_string(), "one histogram counts ns, the other cycles; record both in one unit");
    }

    #[test]
    fn full_counters_stay_full() {
        let mut full = Histogram::from_counters(Unit::Cycles, [u64::MAX; BUCKETS], u128::MAX);
        full.add(5);
        full.merge(&full.clone()).unwrap();
        assert_eq!((full.calls(), full.sum()), (u64::MAX, u128::MAX));
        assert!(full.mean().unwrap().is_finite());
    }

    #[test]
    fn the_mean_is_that_of_the_exact_sum() {
        let histogram = of(&[8, 9, 10, 15, 64, 64, 70, 100, 127, 1 << 20]);
        let sum = 8 + 9 + 10 + 15 + 64 + 64 + 70 + 100 + 127 + (1 << 20);
        assert_eq!(histogram.mean(), Some(f64::from(sum) / 10.0));
    }

    #[test]
    fn without_calls_nothing_is_known() {
        let empty = of(&[]);
        assert!(empty.is_empty());
        assert_eq!((empty.mean(), empty.calls()), (None, 0));
    }
}
