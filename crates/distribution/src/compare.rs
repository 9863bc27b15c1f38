//! The distance between two profiles: the six measures in Traeger 2008, chapter 9.
//!
//! A score is 0 for a profile and itself, and grows with the difference. The paper calls all scores percentages; their
//! bases differ, and so do their limits: see [`Measure`]. No score alone shows whether the system's condition changed:
//! this takes a threshold, and thresholds differ by measure ([`crate::evaluation`]).
//!
//! The first profile is the reference: TOTOPS, TOTLAT and the two GROUP measures divide by its content, as in the
//! paper, so they change when the profiles change places. Percentages of zero do not exist: against a first profile
//! without calls these scores are infinite, like the formula's limit, unless the other has no calls either.
//!
//! A call counts with its bucket's average latency, as in the paper (equation 8.1), also where the exact sum is known:
//! the parts of GROUPLAT then add up to TOTLAT, and a single call of hours within the last bucket weighs no more than
//! its bucket.

use statrs::function::gamma::checked_gamma_ur;

use crate::histogram::{BUCKETS, Histogram, MismatchError, average_latency};
use crate::peaks::{Peak, peaks};

/// A measure for the distance between two profiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Measure {
    /// TOTOPS: the difference in the number of calls, in percent of the first. From 0 without limit.
    TotalOperations,
    /// TOTLAT: the difference in the latency of all calls together, in percent of the first. From 0 without limit.
    ///
    /// The paper prints bucket i's latency as 3/2 × 2^(n_i), with its count n_i. This cannot be meant: by the paper's
    /// own equation 8.1, it is n_i × 3/2 × 2^i.
    TotalLatency,
    /// CHISQUARE: the chi-square test's certainty that the counts have different rates, in percent: 100 less the
    /// probability of counts at least so far apart. From 0 to 100.
    ///
    /// χ² = Σ (n − m)² / (n + m), over buckets where either has calls: each is a degree of freedom. None is taken away,
    /// for neither the formula nor the counting makes the totals equal (Press et al., Numerical Recipes, "Are two
    /// distributions different?", says the same about unconstrained totals). So profiles with different numbers of
    /// calls are different here, whatever their shapes.
    ChiSquare,
    /// EARTHMOVER: the distance by which a profile's calls have to be moved to make the other, after scaling both to
    /// the same number of calls: in percent of all calls, times buckets. Twice each latency is 100, and so is 2^10
    /// times the latency for one call in ten. From 0 to 6300.
    ///
    /// Infinite if just one profile has no calls: nothing can be moved.
    EarthMover,
    /// GROUPOPS: 100 if the peaks are unlike (see [`alike`]), else the difference in each peak's calls, summed over
    /// peaks, in percent of the calls in the first profile's peaks. From 0 to 100: larger sums count as 100.
    GroupOperations,
    /// GROUPLAT: as GROUPOPS, with the calls' latency in place of their number.
    GroupLatency,
}

impl Measure {
    /// All six, in the paper's order.
    pub const ALL: [Measure; 6] = [
        Measure::TotalOperations,
        Measure::TotalLatency,
        Measure::ChiSquare,
        Measure::EarthMover,
        Measure::GroupOperations,
        Measure::GroupLatency,
    ];

    /// Its name in the paper.
    pub const fn name(self) -> &'static str {
        match self {
            Measure::TotalOperations => "TOTOPS",
            Measure::TotalLatency => "TOTLAT",
            Measure::ChiSquare => "CHISQUARE",
            Measure::EarthMover => "EARTHMOVER",
            Measure::GroupOperations => "GROUPOPS",
            Measure::GroupLatency => "GROUPLAT",
        }
    }

    /// A profile's score against another with the same unit. Never negative, and always a number, though it may be
    /// infinite: see the module's text.
    pub fn score(self, first: &Histogram, second: &Histogram) -> Result<f64, MismatchError> {
        first.same_unit(second)?;
        Ok(match self {
            Measure::TotalOperations => percent_of_first(operations(first), operations(second)),
            Measure::TotalLatency => percent_of_first(latency(first), latency(second)),
            Measure::ChiSquare => chi_square(first.counts(), second.counts()),
            Measure::EarthMover => earth_mover(first, second),
            Measure::GroupOperations => by_peak(first, second, |_, count| count as f64),
            Measure::GroupLatency => by_peak(first, second, latency_of),
        })
    }
}

impl std::fmt::Display for Measure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

fn percent_of_first(first: f64, second: f64) -> f64 {
    // Equal sums first: without calls on both sides there is no difference.
    if first == second { 0.0 } else { (first - second).abs() / first * 100.0 }
}

fn latency_of(bucket: usize, count: u64) -> f64 {
    count as f64 * average_latency(bucket)
}

fn operations(histogram: &Histogram) -> f64 {
    histogram.counts().iter().map(|&count| count as f64).sum()
}

fn latency(histogram: &Histogram) -> f64 {
    histogram.counts().iter().enumerate().map(|(i, &count)| latency_of(i, count)).sum()
}

fn chi_square(first: &[u64; BUCKETS], second: &[u64; BUCKETS]) -> f64 {
    let (mut chi_square, mut degrees) = (0.0, 0.0);
    for (&n, &m) in first.iter().zip(second).filter(|&(&n, &m)| n > 0 || m > 0) {
        chi_square += (n.abs_diff(m) as f64).powi(2) / (n as f64 + m as f64);
        degrees += 1.0;
    }
    if chi_square == 0.0 {
        return 0.0;
    }
    // Both arguments are above zero and finite here, as the function requires.
    let probability = checked_gamma_ur(degrees / 2.0, chi_square / 2.0).unwrap_or(0.0);
    ((1.0 - probability) * 100.0).clamp(0.0, 100.0)
}

fn earth_mover(first: &Histogram, second: &Histogram) -> f64 {
    match (first.is_empty(), second.is_empty()) {
        (true, true) => return 0.0,
        (false, false) => {}
        _ => return f64::INFINITY,
    }
    let (all_first, all_second) = (operations(first), operations(second));
    let (mut of_first, mut of_second, mut work) = (0.0, 0.0, 0.0);
    for (&n, &m) in first.counts().iter().zip(second.counts()) {
        of_first += n as f64;
        of_second += m as f64;
        // The amount carried to the next bucket, or missing there.
        work += (of_first / all_first - of_second / all_second).abs();
    }
    work * 100.0
}

/// Whether two profiles have the same peaks: the same number, each at its counterpart's place.
///
/// A peak's place is its calls' mean bucket, since the highest bar and a hump's ends move by chance. It may differ by
/// less than one bucket: doubled latencies are at another place, and smaller differences are left to the score.
pub fn alike(first: &Histogram, second: &Histogram) -> bool {
    let (peaks_first, peaks_second) = (peaks(first), peaks(second));
    alike_peaks(first, &peaks_first, second, &peaks_second)
}

fn alike_peaks(first: &Histogram, of_first: &[Peak], second: &Histogram, of_second: &[Peak]) -> bool {
    let pairs = || of_first.iter().zip(of_second);
    of_first.len() == of_second.len()
        && pairs().all(|(a, b)| (mean_bucket(first, a) - mean_bucket(second, b)).abs() < 1.0)
}

pub(crate) fn mean_bucket(histogram: &Histogram, peak: &Peak) -> f64 {
    within(histogram, peak, |bucket, count| bucket as f64 * count as f64)
        / within(histogram, peak, |_, count| count as f64)
}

fn within(histogram: &Histogram, peak: &Peak, weight: fn(usize, u64) -> f64) -> f64 {
    (peak.from_bucket..=peak.to_bucket).map(|bucket| weight(bucket, histogram.counts()[bucket])).sum()
}

fn by_peak(first: &Histogram, second: &Histogram, weight: fn(usize, u64) -> f64) -> f64 {
    let (peaks_first, peaks_second) = (peaks(first), peaks(second));
    if !alike_peaks(first, &peaks_first, second, &peaks_second) {
        return 100.0;
    }
    let (mut whole, mut different) = (0.0, 0.0);
    for (a, b) in peaks_first.iter().zip(&peaks_second) {
        let (a, b) = (within(first, a, weight), within(second, b, weight));
        whole += a;
        different += (a - b).abs();
    }
    if different == 0.0 { 0.0 } else { (different / whole * 100.0).min(100.0) }
}
