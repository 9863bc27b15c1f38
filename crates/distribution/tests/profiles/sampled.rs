//! Peaks in random histograms from distributions with known peaks.

use crate::rng::{self, Rng};
use proptest::prelude::*;
use wakepath_distribution::{BUCKETS, Histogram, Peak, Unit, peaks};

type Rates = [f64; BUCKETS];

/// A cause: unimodal on the log scale, with a separate flank on each side.
#[derive(Debug, Clone)]
struct SampledCause {
    calls: f64,
    /// In buckets: 10.5 is the middle of bucket 10.
    mode: f64,
    /// Standard deviations on the fast and on the slow side, in buckets.
    spread: (f64, f64),
}

impl SampledCause {
    /// Calls expected in each bucket.
    fn rates(&self) -> Rates {
        const STEPS: usize = 32;
        let mut rates = [0.0; BUCKETS];
        for (i, rate) in rates.iter_mut().enumerate() {
            for step in 0..STEPS {
                let off = i as f64 + (step as f64 + 0.5) / STEPS as f64 - self.mode;
                let spread = if off < 0.0 { self.spread.0 } else { self.spread.1 };
                *rate += (-0.5 * (off / spread).powi(2)).exp();
            }
        }
        let whole: f64 = rates.iter().sum();
        rates.map(|rate| rate / whole * self.calls)
    }
}

fn sampled(rates: &Rates, rng: &mut Rng) -> Histogram {
    Histogram::from_counters(Unit::Nanoseconds, rates.map(|rate| rng.poisson(rate)), 0)
}

fn sum(causes: &[SampledCause]) -> Rates {
    let mut rates = [0.0; BUCKETS];
    for cause in causes {
        rates.iter_mut().zip(cause.rates()).for_each(|(sum, rate)| *sum += rate);
    }
    rates
}

/// The bucket with most of a cause's expected calls.
fn top(rates: &Rates) -> usize {
    (0..BUCKETS).max_by(|&a, &b| rates[a].total_cmp(&rates[b])).unwrap_or(0)
}

/// Whether any viewer would see these apart: between any two neighbours, some bucket is expected to hold a tenth of the
/// lower top. The peak finder needs half of it for a valley.
fn well_separated(causes: &[SampledCause]) -> bool {
    let together = sum(causes);
    causes.windows(2).all(|pair| {
        let tops = [top(&pair[0].rates()), top(&pair[1].rates())];
        let lower = tops.map(|top| together[top]).into_iter().fold(f64::INFINITY, f64::min);
        tops[1] >= tops[0] + 2 && together[tops[0]..tops[1]].iter().any(|&rate| rate <= lower / 10.0)
    })
}

/// Two to six causes; shares from 0.1%, among 10^5 to 10^9 calls.
fn causes() -> impl Strategy<Value = Vec<SampledCause>> {
    let one = (0.0..3.0f64, 2.0..9.0f64, 0.15..1.1f64, 0.15..1.1f64);
    (prop::collection::vec(one, 2..=6), 5.0..9.0f64).prop_map(|(drawn, calls)| {
        let greatest = drawn.iter().map(|one| one.0).fold(0.0, f64::max);
        let weights: Vec<f64> = drawn.iter().map(|one| 10f64.powf(one.0 - greatest)).collect();
        let whole: f64 = weights.iter().sum();
        let mut mode = 3.0;
        let causes = drawn.iter().zip(weights).map(|(&(_, distance, fast, slow), weight)| {
            mode += distance;
            let share = (weight / whole).max(0.001);
            SampledCause { calls: 10f64.powf(calls) * share, mode, spread: (fast, slow) }
        });
        causes.collect()
    })
}

fn around(peak: &Peak, bucket: usize) -> bool {
    (peak.from_bucket..=peak.to_bucket).contains(&bucket)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, max_global_rejects: 100_000, ..rng::config() })]

    #[test]
    fn well_separated_causes_are_found_one_peak_each(causes in causes(), seed: u64) {
        prop_assume!(well_separated(&causes));
        let histogram = sampled(&sum(&causes), &mut Rng::new(seed));
        let found = peaks(&histogram);
        prop_assert_eq!(found.len(), causes.len(), "{:?}", histogram.counts());
        for (peak, cause) in found.iter().zip(&causes) {
            prop_assert!(around(peak, top(&cause.rates())), "{:?} for {:?}", peak, cause);
        }
    }

    #[test]
    fn noise_never_splits_a_smooth_hump(
        calls in 1.5..9.0f64, mode in 5.0..55.0f64, fast in 0.2..3.0f64, slow in 0.2..3.0f64, seed: u64,
    ) {
        let cause = SampledCause { calls: 10f64.powf(calls), mode, spread: (fast, slow) };
        let histogram = sampled(&cause.rates(), &mut Rng::new(seed));
        prop_assert_eq!(peaks(&histogram).len(), 1, "{:?}", histogram.counts());
    }

    #[test]
    fn noise_digs_no_valley_into_a_plateau(level in 0.5..4.0f64, width in 2..24usize, seed: u64) {
        let mut rates = [0.0; BUCKETS];
        rates[20..20 + width].fill(10f64.powf(level));
        let histogram = sampled(&rates, &mut Rng::new(seed));
        prop_assert_eq!(peaks(&histogram).len(), 1, "{:?}", histogram.counts());
    }

    #[test]
    fn whatever_the_counters_hold_peaks_are_in_order_and_begin_and_end_with_calls(
        counts in prop::collection::vec(prop_oneof![
            3 => Just(0u64), 3 => 1..4u64, 3 => 0..1000u64, 1 => any::<u64>(), 1 => Just(u64::MAX),
        ], BUCKETS),
    ) {
        let counts: [u64; BUCKETS] = counts.try_into().unwrap();
        let found = peaks(&Histogram::from_counters(Unit::Cycles, counts, 0));
        prop_assert_eq!(found.is_empty(), counts.iter().all(|&count| count == 0));
        let mut next = 0;
        for peak in &found {
            prop_assert!(next <= peak.from_bucket && peak.from_bucket <= peak.to_bucket && peak.to_bucket < BUCKETS);
            prop_assert!(counts[peak.from_bucket] > 0 && counts[peak.to_bucket] > 0);
            next = peak.to_bucket + 1;
        }
    }
}

/// The worst kind of histogram: each bar in a flat tail has the hump as a flank, which always passes.
#[test]
fn noise_makes_a_peak_of_the_worst_tail_at_most_once_in_500() {
    let mut rng = Rng::new(3);
    for level in [1.0, 6.0, 20.0] {
        let mut rates = [0.0; BUCKETS];
        rates[20] = 1e5;
        rates[21..31].fill(level);
        let split = (0..10_000).filter(|_| peaks(&sampled(&rates, &mut rng)).len() > 1).count();
        assert!(split < 20, "{split} of 10 000 with {level} calls a bucket");
    }
}
