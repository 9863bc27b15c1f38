//! Each measure's error rates, on pairs of profiles for which it is known whether the condition changed (Traeger 2008,
//! section 9.2). The pairs' source does not matter here.
//!
//! The paper labels pairs by eye, and reads its thresholds from the same pairs as its error rates. Here labels are by
//! construction, and a threshold chosen on some pairs is judged on others.

use crate::compare::Measure;
use crate::histogram::{Histogram, MismatchError};

/// The share of same-condition pairs that the default may report as different, on the pairs for its choice.
///
/// A user who compares two runs looks at dozens of operations, and few changed (chapter 9). Most reported operations
/// should have changed, so that at most one in twenty of the others may be reported too.
pub const LEVEL: f64 = 0.05;

/// The default measure for a comparison: it misses least at [`LEVEL`], on profiles measured under known conditions,
/// from runs with different lengths. A test chooses it again.
pub const DEFAULT_MEASURE: Measure = Measure::EarthMover;

/// Above this score by [`DEFAULT_MEASURE`], two profiles are reported as different conditions.
///
/// Chosen with it: two runs in the same condition differ by the machine's other work, which is far more than chance.
/// Profiles from a made-up service, with chance alone, would have it at 14.
pub const DEFAULT_THRESHOLD: f64 = 58.0;

/// With fewer calls in either profile, chance alone may pass the threshold.
pub const MIN_CALLS: u64 = 1000;

/// Two profiles of one operation.
#[derive(Debug, Clone)]
pub struct Pair {
    /// The reference.
    pub first: Histogram,
    /// The other.
    pub second: Histogram,
    /// Whether the system's condition changed: load, machine state, version.
    pub changed: bool,
}

/// A measure's errors at a threshold: a score above it means a changed condition.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Errors {
    /// The threshold, in the measure's unit.
    pub threshold: f64,
    /// The number of same-condition pairs.
    pub same: u64,
    /// Those reported as different (type I errors).
    pub false_positives: u64,
    /// The number of pairs with two conditions.
    pub changed: u64,
    /// Those reported as the same (type II errors).
    pub false_negatives: u64,
}

impl Errors {
    /// The reported share among same-condition pairs; `None` without such pairs.
    pub fn false_positive_rate(&self) -> Option<f64> {
        rate(self.false_positives, self.same)
    }

    /// The unreported share among two-condition pairs; `None` without such pairs.
    pub fn false_negative_rate(&self) -> Option<f64> {
        rate(self.false_negatives, self.changed)
    }
}

fn rate(errors: u64, pairs: u64) -> Option<f64> {
    (pairs > 0).then(|| errors as f64 / pairs as f64)
}

/// Labelled pairs' scores by a measure, from which error rates are counted.
#[derive(Debug, Clone)]
pub struct Scores {
    /// In ascending order.
    same: Vec<f64>,
    /// In ascending order.
    changed: Vec<f64>,
}

impl Scores {
    /// Scores all pairs.
    pub fn new<'a>(
        measure: Measure,
        pairs: impl IntoIterator<Item = &'a Pair>,
    ) -> Result<Self, MismatchError> {
        let (mut same, mut changed) = (Vec::new(), Vec::new());
        for pair in pairs {
            let score = measure.score(&pair.first, &pair.second)?;
            if pair.changed { changed.push(score) } else { same.push(score) }
        }
        same.sort_by(f64::total_cmp);
        changed.sort_by(f64::total_cmp);
        Ok(Self { same, changed })
    }

    /// The errors at a threshold.
    pub fn errors(&self, threshold: f64) -> Errors {
        let up_to = |scores: &[f64]| scores.partition_point(|&score| score <= threshold) as u64;
        let (same, changed) = (self.same.len() as u64, self.changed.len() as u64);
        Errors {
            threshold,
            same,
            false_positives: same - up_to(&self.same),
            changed,
            false_negatives: up_to(&self.changed),
        }
    }

    /// The errors at the lowest threshold that reports at most this share of the same-condition pairs.
    ///
    /// `None` if pairs with either label are missing.
    pub fn at_level(&self, false_positive_rate: f64) -> Option<Errors> {
        if self.changed.is_empty() {
            return None;
        }
        // The cast makes NaN 0, and a number above the maximum the maximum.
        let allowed = (false_positive_rate * self.same.len() as f64) as usize;
        let threshold = match self.same.len().checked_sub(allowed + 1) {
            Some(last) => *self.same.get(last)?,
            None => 0.0,
        };
        (!self.same.is_empty()).then(|| self.errors(threshold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::{BUCKETS, Unit};

    /// Pairs with these EARTHMOVER scores, in hundreds.
    fn scores(same: &[usize], changed: &[usize]) -> Scores {
        let at = |bucket: usize| {
            let mut counts = [0; BUCKETS];
            counts[bucket] = 1;
            Histogram::from_counters(Unit::Cycles, counts, 0)
        };
        let pair = |&by: &usize, changed| Pair { first: at(0), second: at(by), changed };
        let same = same.iter().map(|by| pair(by, false));
        let pairs: Vec<Pair> = same.chain(changed.iter().map(|by| pair(by, true))).collect();
        Scores::new(Measure::EarthMover, &pairs).unwrap()
    }

    #[test]
    fn errors_are_counted_on_the_wrong_side_of_the_threshold() {
        let scores = scores(&[0, 3, 1, 2], &[5, 2, 4]);
        // Threshold, false positives out of four, false negatives out of three.
        for (threshold, positives, negatives) in [
            (-1.0, 4, 0),
            (0.0, 3, 0),
            (199.0, 2, 0),
            (200.0, 1, 1),
            (300.0, 0, 1),
            (450.0, 0, 2),
            (500.0, 0, 3),
        ] {
            let errors = scores.errors(threshold);
            assert_eq!((errors.false_positives, errors.same), (positives, 4), "{threshold}");
            assert_eq!((errors.false_negatives, errors.changed), (negatives, 3), "{threshold}");
        }
        let errors = scores.errors(200.0);
        assert_eq!(errors.false_positive_rate(), Some(0.25));
        assert_eq!(errors.false_negative_rate(), Some(1.0 / 3.0));
    }

    #[test]
    fn a_level_gives_the_lowest_threshold_that_keeps_it() {
        let scores = scores(&[0, 3, 1, 2], &[5, 2, 4]);
        for (level, threshold) in
            [(0.0, 300.0), (0.24, 300.0), (0.25, 200.0), (0.5, 100.0), (0.75, 0.0), (1.0, 0.0), (9.0, 0.0)]
        {
            assert_eq!(scores.at_level(level).unwrap().threshold, threshold, "{level}");
        }
    }

    #[test]
    fn without_pairs_of_a_kind_no_rate_is_known() {
        assert_eq!(scores(&[], &[1]).at_level(0.05), None);
        assert_eq!(scores(&[1], &[]).at_level(0.05), None);
        assert_eq!(scores(&[], &[1]).errors(0.0).false_positive_rate(), None);
        assert_eq!(scores(&[1], &[]).errors(0.0).false_negative_rate(), None);
    }
}
