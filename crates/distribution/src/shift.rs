//! A change's direction: whether calls became slower or faster, and how much.

use crate::histogram::Histogram;

/// Whether calls became slower or faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Most calls and the mean are slower.
    Slower,
    /// Most calls and the mean are faster.
    Faster,
    /// Neither: some calls are slower and others faster, or the mean contradicts most calls.
    Mixed,
}

/// A change's direction and size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shift {
    /// The direction.
    pub direction: Direction,
    /// The mean after the change, by the mean before; `None` for a mean of 0 before.
    pub mean_ratio: Option<f64>,
}

/// The least ratio for a direction.
const CLEAR: f64 = 1.1;

/// The direction from one distribution to another; `None` where either has no calls.
///
/// A few very slow calls can move the mean, and change nothing for the others. The mean bucket hardly notices them. So
/// there is a direction only where both agree.
pub fn shift(before: &Histogram, after: &Histogram) -> Option<Shift> {
    let (mean_before, mean_after) = (before.mean()?, after.mean()?);
    let doublings = mean_place(after) - mean_place(before);
    let mean_ratio = (mean_before > 0.0).then(|| mean_after / mean_before);
    let direction = match mean_ratio {
        Some(ratio) if ratio >= CLEAR && doublings >= CLEAR.log2() => Direction::Slower,
        Some(ratio) if ratio <= 1.0 / CLEAR && doublings <= -CLEAR.log2() => Direction::Faster,
        _ => Direction::Mixed,
    };
    Some(Shift { direction, mean_ratio })
}

/// The calls' mean bucket.
fn mean_place(histogram: &Histogram) -> f64 {
    let weighed = histogram.counts().iter().zip(0_u32..);
    let sum: f64 = weighed.map(|(count, bucket)| *count as f64 * f64::from(bucket)).sum();
    let calls: f64 = histogram.counts().iter().map(|count| *count as f64).sum();
    sum / calls
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Unit;

    fn histogram(calls: &[(u64, u64)]) -> Histogram {
        let mut histogram = Histogram::new(Unit::Nanoseconds);
        calls.iter().for_each(|(latency, count)| (0..*count).for_each(|_| histogram.add(*latency)));
        histogram
    }

    #[test]
    fn a_direction_is_that_of_most_calls_and_of_the_mean() {
        let usual = histogram(&[(1000, 1000)]);
        for (after, direction, ratio) in [
            (&[(3000, 1000)][..], Direction::Slower, 3.0),
            (&[(250, 1000)], Direction::Faster, 0.25),
            // Every other call became slower.
            (&[(1000, 500), (5000, 500)], Direction::Slower, 3.0),
            // Most are faster, and a few take all the time.
            (&[(250, 990), (1_000_000, 10)], Direction::Mixed, 10.2475),
            // A single call moves the mean and hardly any bucket.
            (&[(1000, 999), (1_000_000, 1)], Direction::Mixed, 1.999),
            // Both ways.
            (&[(500, 500), (1500, 500)], Direction::Mixed, 1.0),
            (&[(1000, 900)], Direction::Mixed, 1.0),
        ] {
            let found = shift(&usual, &histogram(after)).expect("calls on both sides");
            assert_eq!(found.direction, direction, "{after:?}");
            let found = found.mean_ratio.expect("a mean before");
            assert!((found - ratio).abs() < 1e-3, "{after:?}: {found}");
        }
        // Slower by a tenth, in the next bucket.
        let edge = |latency| {
            shift(&histogram(&[(1000, 10)]), &histogram(&[(latency, 10)])).expect("calls").direction
        };
        assert_eq!(
            [edge(1100), edge(1099), edge(909)],
            [Direction::Slower, Direction::Mixed, Direction::Mixed]
        );
        let slow = |latency| {
            shift(&histogram(&[(1100, 10)]), &histogram(&[(latency, 10)])).expect("calls").direction
        };
        assert_eq!([slow(1000), slow(1001)], [Direction::Faster, Direction::Mixed]);
    }

    #[test]
    fn without_calls_or_time_there_is_no_ratio() {
        assert_eq!(shift(&histogram(&[]), &histogram(&[(5, 1)])), None);
        assert_eq!(shift(&histogram(&[(5, 1)]), &histogram(&[])), None);
        let found = shift(&histogram(&[(0, 1)]), &histogram(&[(5, 1)])).expect("calls");
        assert_eq!(found, Shift { direction: Direction::Mixed, mean_ratio: None });
    }
}
