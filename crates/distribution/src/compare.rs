//! How far apart two profiles are: the six measures of Traeger 2008, chapter 9.
//!
//! A score is 0 for a profile and itself, and grows with the difference. The paper calls all of them
//! percentages; what they are percentages of differs, and so do their limits: see [`Measure`]. None says by
//! itself whether the condition of the system changed: that takes a threshold, and thresholds differ by
//! measure ([`crate::evaluation`]).
//!
//! The first profile is the reference: TOTOPS, TOTLAT and the two GROUP measures
//! divide by its content, as in the paper, so they change when the profiles change places. There are no
//! percentages of zero: against a first profile without calls these are infinite, like the formula's limit,
//! unless the other has no calls either.
//!
//! A call counts, as in the paper, with the average latency of its bucket (equation 8.1), also where the exact
//! sum is known: the parts of GROUPLAT then add up to TOTLAT, and a single call of hours within the last
//! bucket weighs no more than its bucket.

use statrs::function::gamma::checked_gamma_ur;

use crate::histogram::{BUCKETS, Histogram, MismatchError, average_latency};
use crate::peaks::{Peak, peaks};

/// A way to say how far apart two profiles are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Measure {
    /// TOTOPS: by how much the numbers of calls differ, in percent of the first. From 0 without limit.
    TotalOperations,
    /// TOTLAT: by how much the latencies of all calls together differ, in percent of the first. From 0
    /// without limit.
    ///
    /// The paper prints the latency of bucket i as 3/2 × 2^(n_i), n_i being its count. That cannot be meant:
    /// it is n_i × 3/2 × 2^i, by the paper's own equation 8.1.
    TotalLatency,
    /// CHISQUARE: how sure the chi-square test is that the counts are not of the same rates, in percent: 100
    /// less the probability of counts at least so far apart. From 0 to 100.
    ///
    /// χ² = Σ (n − m)² / (n + m), over buckets where either has calls: each is a degree of freedom. None is
    /// taken away, for the totals are not made equal by the formula nor by how calls are counted (Press et
    /// al., Numerical Recipes, "Are two distributions different?", says the same of unconstrained
    /// totals). So profiles of unlike numbers of calls are different here, whatever their shapes.
    ChiSquare,
    /// EARTHMOVER: how far the calls of one profile have to be moved to make the other, after both are taken
    /// for the same number of calls: in percent of all calls, times buckets. A doubling of each latency is
    /// 100, and so is one call in ten that takes 2^10 times as long. From 0 to 6300.
    ///
    /// Infinite if just one profile has no calls: nothing can be moved.
    EarthMover,
    /// GROUPOPS: 100 if the peaks are unlike (see [`alike`]), else by how much the calls of each peak differ,
    /// summed over peaks, in percent of the calls of the first profile's peaks. From 0 to 100: more than all
    /// is as unlike as can be.
    GroupOperations,
    /// GROUPLAT: as GROUPOPS, with the latency of the calls in place of their number.
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

    /// The score of a profile held against another of the same unit. Never negative, and always a number,
    /// though it may be infinite: see the module's text.
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
    // Equal ones first: 0 of 0 is no difference.
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
    // Half the degrees of freedom and half of χ² are above zero and finite here, which is all it asks for.
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
        // The amount that is carried to the next bucket, or missing there.
        work += (of_first / all_first - of_second / all_second).abs();
    }
    work * 100.0
}

/// Whether two profiles have the same peaks: as many, and each where its like is.
///
/// Where a peak is, is the mean bucket of its calls, since the highest bar and the ends of a hump move by
/// chance. It may differ by less than one bucket: latencies that doubled are elsewhere, and less is left to
/// the score.
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
