//! Percentiles, as text: a line under the histogram.

use wakepath_distribution::{Histogram, Percentile, Unit, percentiles};

use super::range_over;
use crate::screen::{Line, Screen};

/// The line with a histogram's percentiles; none where too few calls were counted.
pub(super) fn line(histogram: &Histogram, screen: &mut Screen) {
    let found: Vec<_> = percentiles(histogram).iter().map(|found| words(found, histogram.unit())).collect();
    if !found.is_empty() {
        screen.hanging(Line::default(), 4, found.join(", "));
    }
}

/// `p99 1.05 to 2.10 ms`; the rank interval's buckets stand behind it where they are more.
fn words(found: &Percentile, unit: Unit) -> String {
    let percent = percent(found.per_mille);
    let held = range_over(found.bucket, found.bucket, unit);
    if found.from_bucket == found.to_bucket {
        return format!("p{percent} {held}");
    }
    format!("p{percent} {held} (by chance {})", range_over(found.from_bucket, found.to_bucket, unit))
}

/// `99` or `99.9`.
fn percent(per_mille: u16) -> String {
    match per_mille % 10 {
        0 => (per_mille / 10).to_string(),
        tenth => format!("{}.{tenth}", per_mille / 10),
    }
}
