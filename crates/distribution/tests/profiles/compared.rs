//! The six measures, against scores worked out by hand and against their required properties.

use crate::drawn::histogram;
use crate::rng;
use proptest::prelude::*;
use wakepath_distribution::{BUCKETS, Histogram, Measure, MismatchError, Unit, alike};

use Measure::{ChiSquare, EarthMover, GroupLatency, GroupOperations, TotalLatency, TotalOperations};

fn profile(counts: &[u64]) -> Histogram {
    histogram(0, counts)
}

#[test]
fn scores_are_as_worked_out_by_hand() {
    const INFINITE: f64 = f64::INFINITY;
    let cases: &[(Measure, &[u64], &[u64], f64)] = &[
        // |10 − 15| of 10, and of 15.
        (TotalOperations, &[4, 6], &[15], 50.0),
        (TotalOperations, &[15], &[4, 6], 100.0 / 3.0),
        (TotalOperations, &[5], &[], 100.0),
        (TotalOperations, &[], &[5], INFINITE),
        (TotalOperations, &[], &[], 0.0),
        // 4 × 1.5 + 2 × 3 + 1 × 6 = 18 against 2 × 1.5 + 2 × 12 = 27.
        (TotalLatency, &[4, 2, 1], &[2, 0, 0, 2], 50.0),
        (TotalLatency, &[2, 0, 0, 2], &[4, 2, 1], 100.0 / 3.0),
        // The same number of calls and the same latency.
        (TotalLatency, &[0, 3], &[2, 0, 1], 0.0),
        (TotalLatency, &[], &[1], INFINITE),
        // χ² = 36 / 36 = 1 with one degree of freedom: 68.27% within one standard deviation.
        (ChiSquare, &[21], &[15], 68.268_949_213_708_6),
        // χ² = 4 / 4 + 4 / 4 = 2 with two: the probability is e^-1.
        (ChiSquare, &[3, 0, 1], &[1, 0, 3], (1.0 - (-1f64).exp()) * 100.0),
        // χ² = 16 / 16 + 0 + 81 / 9 + 16 / 4 = 14 with four: the probability is e^-7 (1 + 7).
        (ChiSquare, &[10, 7, 9, 4], &[6, 7, 0, 0], (1.0 - 8.0 * (-7f64).exp()) * 100.0),
        (ChiSquare, &[1000], &[2000], 100.0),
        (ChiSquare, &[], &[], 0.0),
        (ChiSquare, &[], &[1], 68.268_949_213_708_6),
        // All calls by a bucket; a quarter by eight; half by one, half by two; the other way.
        (EarthMover, &[7], &[0, 7], 100.0),
        (EarthMover, &[4], &[3, 0, 0, 0, 0, 0, 0, 0, 1], 200.0),
        (EarthMover, &[10], &[0, 1, 1], 150.0),
        (EarthMover, &[0, 1, 1], &[10], 150.0),
        // Half up and half down by a bucket.
        (EarthMover, &[0, 8, 0], &[5, 0, 5], 100.0),
        (EarthMover, &[1, 3], &[100, 300], 0.0),
        (EarthMover, &[1], &[], INFINITE),
        (EarthMover, &[], &[1], INFINITE),
        (EarthMover, &[], &[], 0.0),
        // Peaks with 130 and 60 calls against 100 and 75: (30 + 15) of 190.
        (GroupOperations, &[30, 100, 0, 0, 0, 60], &[30, 70, 0, 0, 0, 75], 4500.0 / 190.0),
        // 30 × 1.5 + 100 × 3 = 345 and 60 × 48 = 2880 against 255 and 3600: (90 + 720) of 3225.
        (GroupLatency, &[30, 100, 0, 0, 0, 60], &[30, 70, 0, 0, 0, 75], 81_000.0 / 3225.0),
        // Another number of peaks; peaks elsewhere; more than twice the calls.
        (GroupOperations, &[30, 100, 0, 0, 0, 60], &[30, 160], 100.0),
        (GroupLatency, &[30, 100, 0, 0, 0, 60], &[30, 160], 100.0),
        (GroupOperations, &[100], &[0, 100], 100.0),
        (GroupOperations, &[100], &[300], 100.0),
        (GroupOperations, &[], &[1], 100.0),
        (GroupOperations, &[1], &[], 100.0),
        (GroupLatency, &[], &[], 0.0),
    ];
    for &(measure, first, second, expected) in cases {
        let score = measure.score(&profile(first), &profile(second)).unwrap();
        let near = score == expected || (score - expected).abs() < 1e-9 * expected.max(1.0);
        assert!(near, "{measure} of {first:?} and {second:?}: {score}, not {expected}");
    }
}

#[test]
fn profiles_of_other_units_have_no_score() {
    let (ns, cycles) = (Histogram::new(Unit::Nanoseconds), Histogram::new(Unit::Cycles));
    for measure in Measure::ALL {
        assert_eq!(measure.score(&ns, &cycles), Err(MismatchError::Unit(Unit::Nanoseconds, Unit::Cycles)));
    }
}

#[test]
fn a_stray_call_does_not_make_peaks_unlike() {
    let mut counts = [0; 40];
    counts[10..14].copy_from_slice(&[50, 2000, 900, 30]);
    let before = profile(&counts);
    counts[35] = 1;
    assert!(alike(&before, &profile(&counts)));
    counts[35] = 40;
    assert!(!alike(&before, &profile(&counts)));
}

fn any_counts() -> impl Strategy<Value = Histogram> {
    let count = prop_oneof![4 => Just(0u64), 4 => 0..1000u64, 1 => any::<u64>(), 1 => Just(u64::MAX)];
    prop::collection::vec(count, BUCKETS)
        .prop_map(|counts| Histogram::from_counters(Unit::Cycles, counts.try_into().unwrap(), 0))
}

/// Calls in the lower half of the buckets, so that there is room to shift them.
fn some_calls() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(prop_oneof![Just(0u64), 0..10_000u64], 1..32)
        .prop_filter("no calls", |counts| counts.iter().any(|&count| count > 0))
}

fn score(measure: Measure, first: &Histogram, second: &Histogram) -> f64 {
    measure.score(first, second).unwrap()
}

proptest! {
    #![proptest_config(rng::config())]

    #[test]
    fn a_profile_does_not_differ_from_itself(profile in any_counts()) {
        for measure in Measure::ALL {
            prop_assert_eq!(score(measure, &profile, &profile), 0.0, "{}", measure);
        }
    }

    #[test]
    fn scores_keep_within_their_limits(a in any_counts(), b in any_counts()) {
        for measure in Measure::ALL {
            let score = score(measure, &a, &b);
            let limit = match measure {
                TotalOperations | TotalLatency => f64::INFINITY,
                ChiSquare | GroupOperations | GroupLatency => 100.0,
                EarthMover if a.is_empty() || b.is_empty() => f64::INFINITY,
                EarthMover => 6300.0,
            };
            prop_assert!((0.0..=limit).contains(&score), "{} {}", measure, score);
        }
    }

    #[test]
    fn chi_square_and_earth_mover_do_not_care_which_is_first(a in any_counts(), b in any_counts()) {
        for measure in [ChiSquare, EarthMover] {
            prop_assert_eq!(score(measure, &a, &b), score(measure, &b, &a));
        }
        prop_assert_eq!(alike(&a, &b), alike(&b, &a));
    }

    #[test]
    fn earth_is_moved_as_far_as_calls_are_shifted(counts in some_calls(), by in 0..32usize, times in 1..9u64) {
        let mut shifted = vec![0; by];
        shifted.extend(counts.iter().map(|count| count * times));
        let moved = score(EarthMover, &profile(&counts), &profile(&shifted));
        prop_assert!((moved - 100.0 * by as f64).abs() < 1e-6, "{} for {} buckets", moved, by);
    }

    #[test]
    fn no_detour_moves_less_earth(a in some_calls(), b in some_calls(), c in some_calls()) {
        let [a, b, c] = [a, b, c].map(|counts| profile(&counts));
        let detour = score(EarthMover, &a, &b) + score(EarthMover, &b, &c);
        prop_assert!(score(EarthMover, &a, &c) <= detour + 1e-6);
    }

    #[test]
    fn with_one_peak_the_group_measures_are_the_totals(count in 1..1000u64, more in 0..1000u64) {
        let (a, b) = (profile(&[0, count]), profile(&[0, count + more]));
        for (group, total) in [(GroupOperations, TotalOperations), (GroupLatency, TotalLatency)] {
            prop_assert!((score(group, &a, &b) - score(total, &a, &b).min(100.0)).abs() < 1e-9);
        }
    }
}

#[test]
fn measures_have_the_names_of_the_paper() {
    let names = Measure::ALL.map(|measure| format!("{measure:>10}"));
    assert_eq!(names, ["    TOTOPS", "    TOTLAT", " CHISQUARE", "EARTHMOVER", "  GROUPOPS", "  GROUPLAT"]);
}
