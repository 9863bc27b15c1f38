//! How far two sets of latency distributions are apart (T08 chapter 9).

use wakepath_distribution::evaluation::{DEFAULT_MEASURE, DEFAULT_THRESHOLD, MIN_CALLS};
use wakepath_distribution::{Histogram, Measure, MismatchError};

/// A distribution with the target that it is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// Its name on the command line.
    pub target: String,
    /// Its latencies.
    pub histogram: Histogram,
}

/// Two sets of distributions, target by target.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// By which measure two are said to differ.
    pub measure: Measure,
    /// Above which score.
    pub threshold: f64,
    /// The targets of both: those that differ most first.
    pub pairs: Vec<Compared>,
    /// The targets of the first alone.
    pub only_first: Vec<String>,
    /// The targets of the second alone.
    pub only_second: Vec<String>,
}

/// A target's two distributions.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// Their target.
    pub target: String,
    /// Both of them.
    pub histograms: [Histogram; 2],
    /// By each measure, in the order of [`Measure::ALL`].
    pub scores: [f64; 6],
    /// The score is above the threshold.
    pub differ: bool,
    /// One has so few calls that chance may have made the difference.
    pub doubtful: bool,
}

/// Compares two sets of distributions by `measure`, or by the one that errs least.
///
/// # Errors
/// When two of one target are in different units.
pub fn compare(
    first: Vec<Profile>,
    mut second: Vec<Profile>,
    measure: Option<(Measure, f64)>,
) -> Result<Comparison, MismatchError> {
    let (measure, threshold) = measure.unwrap_or((DEFAULT_MEASURE, DEFAULT_THRESHOLD));
    let decisive = Measure::ALL.iter().position(|&by| by == measure).unwrap_or(0);
    let (mut pairs, mut only_first) = (Vec::new(), Vec::new());
    for Profile { target, histogram } in first {
        let Some(at) = second.iter().position(|other| other.target == target) else {
            only_first.push(target);
            continue;
        };
        let histograms = [histogram, second.remove(at).histogram];
        let mut scores = [0.0; 6];
        for (score, by) in scores.iter_mut().zip(Measure::ALL) {
            *score = by.score(&histograms[0], &histograms[1])?;
        }
        let differ = scores[decisive] > threshold;
        let doubtful = histograms.iter().any(|histogram| histogram.calls() < MIN_CALLS);
        pairs.push(Compared { target, histograms, scores, differ, doubtful });
    }
    pairs.sort_by(|a, b| b.scores[decisive].total_cmp(&a.scores[decisive]));
    let only_second = second.into_iter().map(|profile| profile.target).collect();
    Ok(Comparison { measure, threshold, pairs, only_first, only_second })
}

#[cfg(test)]
mod tests {
    use wakepath_distribution::Unit;

    use super::*;

    fn profile(target: &str, counts: &[(u64, u64)]) -> Profile {
        let mut histogram = Histogram::new(Unit::Nanoseconds);
        for &(latency, count) in counts {
            (0..count).for_each(|_| histogram.add(latency));
        }
        Profile { target: target.to_owned(), histogram }
    }

    #[test]
    fn what_differs_most_comes_first_and_what_one_has_alone_is_told() {
        let before = vec![
            profile("same", &[(100, 1000)]),
            profile("slower", &[(100, 1000)]),
            profile("a little", &[(100, 990), (200, 10)]),
            profile("gone", &[(1, 1)]),
        ];
        let after = vec![
            profile("slower", &[(800, 1500)]),
            profile("same", &[(100, 1200)]),
            profile("a little", &[(100, 980), (200, 20)]),
            profile("new", &[(1, 1)]),
        ];
        let found = compare(before, after, None).expect("one unit");
        let told: Vec<_> = found.pairs.iter().map(|pair| (pair.target.as_str(), pair.differ)).collect();
        assert_eq!(told, [("slower", true), ("a little", false), ("same", false)]);
        assert!(found.pairs.iter().all(|pair| !pair.doubtful));
        assert_eq!((found.only_first, found.only_second), (vec!["gone".into()], vec!["new".into()]));
    }

    #[test]
    fn another_measure_may_be_asked_for() {
        let before = vec![profile("f", &[(100, 1000)])];
        let after = vec![profile("f", &[(100, 1200)])];
        let few = vec![profile("f", &[(100, 999)])];
        assert!(compare(before.clone(), few, None).expect("one unit").pairs[0].doubtful);
        let by = |measure| compare(before.clone(), after.clone(), measure).expect("one unit").pairs[0].differ;
        assert!(!by(None), "as long, only more often");
        assert!(by(Some((Measure::TotalOperations, 10.0))));
        assert!(!by(Some((Measure::TotalOperations, 30.0))));
    }
}
