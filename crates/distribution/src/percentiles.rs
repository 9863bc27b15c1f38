//! Percentiles, each with two errors: the width of its bucket, and chance.
//!
//! A histogram holds buckets in place of latencies: the counted calls' percentile lies in a known bucket. A second run
//! under the same conditions would have other calls. If calls are independent, the number below the percentile for
//! *all possible* calls has a binomial distribution, whatever their latencies are. So two ranks among the counted calls
//! enclose this percentile with a known probability (David and Nagaraja, Order
//! Statistics, section 7.1), here at least 95%: it lies below
//! in at most 1 in 40 runs, and above in at most 1 in 40.

use crate::histogram::{BUCKETS, Histogram};

/// The percentiles, per mille.
const ASKED: [u16; 4] = [500, 900, 990, 999];

/// The calls from which on the last percentile, 99.9%, is given.
const MIN_CALLS_OF_LAST: u64 = 10_000;

/// The probability on each side beyond a rank interval.
const OUTSIDE: f64 = 0.025;

/// The standard deviations beyond which a normal distribution has [`OUTSIDE`].
const DEVIATIONS: f64 = 1.959_963_984_540_054;

/// The variance up to which a binomial distribution is added up exactly. Beyond, the normal distribution's ranks are
/// less than two off.
const MAX_EXACT_VARIANCE: f64 = 10_000.0;

/// Weights below this, beside the largest weight 1, no longer matter.
const NEGLIGIBLE: f64 = 1e-20;

/// A histogram's percentile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Percentile {
    /// The calls at or below it, per mille: 990 for the 99th percentile.
    pub per_mille: u16,
    /// Its place among the counted calls, from 1 for the fastest.
    pub rank: u64,
    /// Its bucket.
    pub bucket: usize,
    /// The first rank; up to `to_rank` they enclose the percentile for all possible calls with at least 95% probability.
    /// Both are counted calls' ranks.
    pub from_rank: u64,
    /// The last rank.
    pub to_rank: u64,
    /// The first rank's bucket.
    pub from_bucket: usize,
    /// The last rank's bucket.
    pub to_bucket: usize,
}

/// The 50th, 90th and 99th percentile, and the 99.9th from 10,000 calls on.
///
/// A percentile is left out while its rank interval needs more calls than were counted: below 6, 36 and 368 calls.
pub fn percentiles(histogram: &Histogram) -> Vec<Percentile> {
    let calls = histogram.calls();
    let asked = ASKED.iter().filter(|&&asked| asked != ASKED[3] || calls >= MIN_CALLS_OF_LAST);
    asked.filter_map(|&per_mille| percentile(histogram.counts(), calls, per_mille)).collect()
}

fn percentile(counts: &[u64; BUCKETS], calls: u64, per_mille: u16) -> Option<Percentile> {
    let (from_rank, to_rank) = rank_interval(calls, f64::from(per_mille) / 1000.0)?;
    let rank = (u128::from(calls) * u128::from(per_mille)).div_ceil(1000) as u64;
    let [bucket, from_bucket, to_bucket] =
        [rank, from_rank, to_rank].map(|rank| bucket_of_rank(counts, rank));
    Some(Percentile { per_mille, rank, bucket, from_rank, to_rank, from_bucket, to_bucket })
}

/// The bucket for a rank; the last bucket for a rank behind all calls.
fn bucket_of_rank(counts: &[u64; BUCKETS], rank: u64) -> usize {
    let mut below = 0;
    let holds = |&count: &u64| {
        below += u128::from(count);
        below >= u128::from(rank)
    };
    counts.iter().position(holds).unwrap_or(BUCKETS - 1)
}

/// The ranks among `calls`, from 1 on, around the latency below which this `part` lies in the long run; `None` for too
/// few calls.
fn rank_interval(calls: u64, part: f64) -> Option<(u64, u64)> {
    let variance = calls as f64 * part * (1.0 - part);
    let (from, to) =
        if variance <= MAX_EXACT_VARIANCE { exact_ranks(calls, part) } else { normal_ranks(calls, part) };
    (from >= 1 && to <= calls).then_some((from, to))
}

/// The largest rank `from` and the smallest rank `to` within [`OUTSIDE`]: P(B < from) ≤ 2.5% and P(B ≥ to) ≤ 2.5% for a binomial B. 0 and `calls` + 1 are no ranks.
fn exact_ranks(calls: u64, part: f64) -> (u64, u64) {
    let mode = ((calls as f64 + 1.0) * part) as u64;
    let mode = mode.min(calls);
    let odds = part / (1.0 - part);
    // Weights from the mode outwards: no factorial is needed, and the sum of all is known at the end.
    let mut above = Vec::new();
    let (mut k, mut weight) = (mode, 1.0);
    while k < calls && weight > NEGLIGIBLE {
        weight *= (calls - k) as f64 / (k + 1) as f64 * odds;
        k += 1;
        above.push(weight);
    }
    let mut below = Vec::new();
    let (mut k, mut weight) = (mode, 1.0);
    while k > 0 && weight > NEGLIGIBLE {
        weight *= k as f64 / (calls - k + 1) as f64 / odds;
        k -= 1;
        below.push(weight);
    }
    let allowed = (1.0 + above.iter().sum::<f64>() + below.iter().sum::<f64>()) * OUTSIDE;
    // The number of weights, from the far end, within the allowed sum.
    let within = |outwards: &[f64]| {
        let mut sum = 0.0;
        let inwards = outwards.iter().rev().chain([&1.0]);
        let fits = inwards.take_while(|&&weight| {
            sum += weight;
            sum <= allowed
        });
        fits.count() as u64
    };
    let from = mode - below.len() as u64 + within(&below);
    let to = mode + above.len() as u64 + 1 - within(&above);
    (from, to)
}

/// The same for many calls, from the normal distribution. The skew moves a quantile by (1 − 2 × part) × (z² − 1) / 6,
/// less than half a rank; whole ranks and half a rank for steps are added outwards.
fn normal_ranks(calls: u64, part: f64) -> (u64, u64) {
    let mean = calls as f64 * part;
    let reach = DEVIATIONS * (mean * (1.0 - part)).sqrt();
    (((mean - reach).floor() as u64).saturating_sub(1), ((mean + reach).ceil() as u64).saturating_add(2))
}

#[cfg(test)]
mod tests {
    use statrs::distribution::{Binomial, DiscreteCDF};

    use super::*;
    use crate::histogram::{Unit, bucket_of};

    fn histogram(calls: &[(u64, u64)]) -> Histogram {
        let mut counts = [0; BUCKETS];
        calls.iter().for_each(|(latency, count)| counts[bucket_of(*latency)] += count);
        Histogram::from_counters(Unit::Nanoseconds, counts, 0)
    }

    /// P(B ≤ k), by a library for statistics.
    fn at_most(k: i64, calls: u64, part: f64) -> f64 {
        let binomial = Binomial::new(part, calls).expect("a probability");
        u64::try_from(k).map_or(0.0, |k| binomial.cdf(k))
    }

    #[test]
    fn a_rank_interval_is_the_narrowest_that_leaves_a_fortieth_on_each_side() {
        for (calls, part) in [
            (6, 0.5),
            (7, 0.5),
            (20, 0.5),
            (36, 0.9),
            (100, 0.9),
            (368, 0.99),
            (700, 0.99),
            (39_999, 0.5),
            (900_000, 0.99),
            (10_000, 0.999),
            (9_000_000, 0.999),
        ] {
            let (from, to) = rank_interval(calls, part).expect("enough calls");
            let [from, to] = [from as i64, to as i64];
            let below = |rank: i64| at_most(rank - 1, calls, part);
            let above = |rank: i64| 1.0 - at_most(rank - 1, calls, part);
            assert!(below(from) <= OUTSIDE && above(to) <= OUTSIDE, "{calls} {part}: {from} to {to}");
            assert!(below(from + 1) > OUTSIDE && above(to - 1) > OUTSIDE, "{calls} {part}: {from} to {to}");
        }
        // Conover, Practical Nonparametric Statistics: the median of 20 lies between the 6th and the 15th.
        assert_eq!(rank_interval(20, 0.5), Some((6, 15)));
        assert_eq!(rank_interval(100, 0.5), Some((40, 61)));
    }

    #[test]
    fn too_few_calls_have_no_percentile() {
        for (part, least) in [(0.5, 6), (0.9, 36), (0.99, 368), (0.999_f64, 3688)] {
            // The probability with all calls below.
            assert!(part.powi(least) <= OUTSIDE && part.powi(least - 1) > OUTSIDE, "{part}");
            assert_eq!(rank_interval(least as u64 - 1, part), None, "{part}");
            assert!(rank_interval(least as u64, part).is_some(), "{part}");
        }
        assert_eq!(rank_interval(30, 0.1), None, "the fastest call may lie above");
        let given = |calls| {
            percentiles(&histogram(&[(9, calls)])).iter().map(|found| found.per_mille).collect::<Vec<_>>()
        };
        assert_eq!(given(0), []);
        assert_eq!(given(5), []);
        assert_eq!(given(6), [500]);
        assert_eq!(given(36), [500, 900]);
        assert_eq!(given(368), [500, 900, 990]);
        assert_eq!(given(9_999), [500, 900, 990]);
        assert_eq!(given(10_000), [500, 900, 990, 999]);
    }

    #[test]
    fn many_calls_have_the_same_ranks_or_one_or_two_further_out() {
        for part in [0.5, 0.9, 0.99, 0.999] {
            for variance in [2_000.0, 10_000.0, 90_000.0_f64] {
                let calls = (variance / part / (1.0 - part)) as u64;
                let ((from, to), (exact_from, exact_to)) =
                    (normal_ranks(calls, part), exact_ranks(calls, part));
                assert!((0..=2).contains(&(exact_from - from)), "{part} {calls}: {from} for {exact_from}");
                assert!((0..=3).contains(&(to - exact_to)), "{part} {calls}: {to} for {exact_to}");
            }
        }
    }

    #[test]
    fn a_percentile_is_in_its_ranks_bucket_and_chance_reaches_into_others() {
        // 990 in 1000 calls are fast: the 99th percentile is the slowest fast call, and by chance a slow call.
        let found = percentiles(&histogram(&[(9, 500), (17, 490), (1 << 20, 10)]));
        let [median, p90, p99] = found[..] else { panic!("{found:?}") };
        assert_eq!((median.rank, median.bucket), (500, 3));
        assert_eq!((median.from_rank, median.to_rank), (469, 532));
        assert_eq!((median.from_bucket, median.to_bucket), (3, 4));
        assert_eq!((p90.rank, p90.bucket, p90.from_bucket, p90.to_bucket), (900, 4, 4, 4));
        assert_eq!(
            (p99.per_mille, p99.rank, p99.bucket, p99.from_bucket, p99.to_bucket),
            (990, 990, 4, 4, 20)
        );
        // A rank is rounded up: half of seven are four.
        let seven = percentiles(&histogram(&[(9, 3), (17, 4)]))[0];
        assert_eq!((seven.rank, seven.bucket, seven.from_bucket, seven.to_bucket), (4, 4, 3, 4));
    }

    /// Seemingly random numbers (SplitMix64, Steele, Lea and Flood 2014).
    fn random(state: &mut u64) -> f64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    #[test]
    fn the_interval_holds_the_true_percentile_in_nineteen_of_twenty_runs() {
        // Latencies 2^(20 × u): the true percentiles are known, and each bucket has a twentieth.
        const RUNS: u64 = 2_000;
        for (index, part, calls) in [(0, 0.5, 200), (1, 0.9, 200), (2, 0.99, 1_000)] {
            let truth = 20.0 * part;
            let mut outside = 0;
            for run in 0..RUNS {
                let mut state = run << 32 | calls;
                let drawn: Vec<f64> = (0..calls).map(|_| 20.0 * random(&mut state)).collect();
                let mut sorted = drawn.clone();
                sorted.sort_by(f64::total_cmp);
                let whole: Vec<_> = drawn.iter().map(|exponent| (exponent.exp2() as u64, 1)).collect();
                let found = percentiles(&histogram(&whole))[index];
                let [from, to] = [found.from_rank, found.to_rank].map(|rank| sorted[rank as usize - 1]);
                outside += u64::from(truth < from || truth > to);
                // The sample's own percentile is always in its bucket.
                assert_eq!(sorted[found.rank as usize - 1] as usize, found.bucket);
                assert_eq!([from as usize, to as usize], [found.from_bucket, found.to_bucket]);
            }
            assert!((RUNS / 50..=RUNS / 19).contains(&outside), "{part}: {outside} of {RUNS}");
        }
    }

    #[test]
    fn full_counters_have_percentiles_within_their_buckets() {
        let mut counts = [0; BUCKETS];
        (counts[3], counts[4]) = (u64::MAX / 2, u64::MAX);
        for found in percentiles(&Histogram::from_counters(Unit::Cycles, counts, u128::MAX)) {
            assert!(found.from_rank <= found.rank && found.rank <= found.to_rank, "{found:?}");
            assert!([3, 4].contains(&found.bucket) && found.to_bucket <= 4, "{found:?}");
        }
    }
}
