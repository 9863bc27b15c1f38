//! Figures from many rounds, and whether they are certain enough to be printed.

pub use wakepath_runner::{median, quantile};

/// A figure is printed if its interval reaches at most this share of it to either side. The aims are multiples
/// of the floor between 1.5 and 2.5: a less certain figure cannot show whether an aim is met.
const MAX_HALF_WIDTH: f64 = 0.25;

/// The rounds' median, and the interval that contains the true median with 95% confidence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

/// The estimate from a value per round; `None` for fewer than six, whose extremes are no such interval. The
/// interval is between two values by their ranks, so it assumes nothing about the rounds' scatter.
pub fn estimate(values: &[f64]) -> Option<Estimate> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let outside = ranks_outside(sorted.len())?;
    let (low, high) = (sorted[outside], sorted[sorted.len() - 1 - outside]);
    Some(Estimate { median: median(values)?, low, high })
}

/// A cost's estimate, if it is certain enough to be printed: above 0, and known to a quarter of itself.
pub fn judged(values: &[f64]) -> Option<Estimate> {
    let found = estimate(values)?;
    let reach = (found.high - found.median).max(found.median - found.low);
    (found.low > 0.0 && reach <= MAX_HALF_WIDTH * found.median).then_some(found)
}

/// The number of lowest values, and of highest values, outside the interval: as many as leave the true median
/// out with a probability of at most 2.5% on each side.
fn ranks_outside(count: usize) -> Option<usize> {
    let (mut probability, mut sum) = (0.5_f64.powi(i32::try_from(count).ok()?), 0.0);
    let mut ranks = 0;
    for below in 0..count {
        sum += probability;
        if sum > 0.025 {
            break;
        }
        ranks = below + 1;
        probability *= (count - below) as f64 / (below + 1) as f64;
    }
    ranks.checked_sub(1)
}

/// A figure, or a dash for `None`.
pub fn or_dash(value: Option<f64>, text: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| "–".to_owned(), text)
}

#[cfg(test)]
mod tests {
    use super::{Estimate, estimate, judged};

    /// Tables of the sign test: 6 values leave none out, 9 one, 24 six.
    #[test]
    fn the_interval_of_the_median_is_the_one_of_the_sign_test() {
        let upto = |count: u32| (1..=count).map(f64::from).collect::<Vec<_>>();
        let interval = |count| estimate(&upto(count)).map(|found| (found.low, found.high));
        assert_eq!(interval(5), None);
        assert_eq!(interval(6), Some((1.0, 6.0)));
        assert_eq!(interval(8), Some((1.0, 8.0)));
        assert_eq!(interval(9), Some((2.0, 8.0)));
        assert_eq!(interval(24), Some((7.0, 18.0)));
    }

    #[test]
    fn a_figure_is_printed_up_to_a_quarter_of_uncertainty() {
        let six = |low: f64, high: f64| [low, 100.0, 100.0, 100.0, 100.0, high];
        assert_eq!(judged(&six(75.0, 125.0)), Some(Estimate { median: 100.0, low: 75.0, high: 125.0 }));
        assert_eq!(judged(&six(74.0, 100.0)), None);
        assert_eq!(judged(&six(100.0, 126.0)), None);
    }

    #[test]
    fn what_may_be_nothing_or_negative_is_not_judged() {
        assert_eq!(judged(&[-3.7; 24]), None);
        assert_eq!(judged(&[0.0; 24]), None);
        assert_eq!(judged(&[0.1; 24]).map(|found| found.median), Some(0.1));
    }
}
