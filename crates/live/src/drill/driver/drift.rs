//! The calls in question become rarer during a search.

use wakepath_collect::DrillCounts;
use wakepath_distribution::{Histogram, Measure, Unit, bucket_of};
use wakepath_drilldown::Drift;

/// The change of f0's distribution, if calls at least as long as the peak's became less than half as frequent as at its choice, by more
/// than four standard deviations. Probes make calls longer, so that they cannot be the reason; for the same reason, a peak that becomes
/// more frequent is no sign.
pub(super) fn drift(counted: &DrillCounts, since: &DrillCounts, from_ns: u64) -> Option<Drift> {
    let from = bucket_of(from_ns);
    let shares = |buckets: &[u64]| {
        let long = buckets.iter().skip(from).sum::<u64>() as f64;
        (long, buckets.iter().sum::<u64>() as f64)
    };
    let ((long, all), (long_since, all_since)) = (shares(&counted.buckets), shares(&since.buckets));
    let expected = long / all.max(1.0) * all_since;
    if 2.0 * long_since >= expected || expected - long_since <= 4.0 * expected.sqrt() {
        return None;
    }
    let histogram = |buckets, sum| Histogram::from_counters(Unit::Nanoseconds, buckets, sum);
    let sum = |counts: &DrillCounts| counts.sums.iter().map(|&ns| u128::from(ns)).sum::<u128>();
    let before = histogram(counted.buckets, sum(counted));
    let after = histogram(since.buckets, sum(since));
    Some(Drift { earth_mover: Measure::EarthMover.score(&before, &after).ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts with this many calls that take 1 µs, and 1 ms.
    fn counts(short: u64, long: u64) -> DrillCounts {
        let mut buckets = [0; 64];
        (buckets[9], buckets[20]) = (short, long);
        let mut sums = [0; 64];
        (sums[9], sums[20]) = (1000 * short, (1 << 20) * long);
        DrillCounts { buckets, sums, left: 0, crowded: 0, lost: 0 }
    }

    #[test]
    fn a_peak_that_loses_half_of_its_calls_by_no_chance_is_drift() {
        let counted = counts(900, 100);
        // Since then, a tenth is expected: 100 calls in 1000, 10,000 in 100,000.
        for (short, long, is_drift) in [
            (900, 100, false),
            (950, 50, false),
            (951, 49, true),
            (1000, 0, true),
            (95_001, 4_999, true),
            (95_000, 5_000, false),
            // Too few calls to be sure: 16 expected, and 0 came.
            (160, 0, false),
            (170, 0, true),
            (500, 500, false),
            (0, 0, false),
        ] {
            let found = drift(&counted, &counts(short, long), 1 << 20);
            assert_eq!(found.is_some(), is_drift, "{short} {long}: {found:?}");
        }
        let found = drift(&counted, &counts(1000, 0), 1 << 20).expect("no long call came");
        assert!(found.earth_mover > 1.0, "{found:?}");
        // If the peak holds all calls, nothing is rarer.
        assert_eq!(drift(&counted, &counts(1000, 0), 1), None);
    }
}
