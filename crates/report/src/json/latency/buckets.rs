//! A histogram's buckets and peaks, as JSON.

use serde::Serialize;
use wakepath_distribution::{Histogram, Peak, bounds};

/// A non-empty bucket.
#[derive(Serialize)]
pub(in crate::json) struct BucketJson {
    index: usize,
    /// Decimal: the smallest and the largest latency in the bucket.
    from: String,
    to: String,
    count: u64,
}

#[derive(Serialize)]
pub(in crate::json) struct PeakJson {
    from_bucket: usize,
    to_bucket: usize,
    count: u64,
}

impl PeakJson {
    pub(in crate::json) fn new(peak: Peak) -> Self {
        Self { from_bucket: peak.from_bucket, to_bucket: peak.to_bucket, count: peak.count }
    }
}

pub(in crate::json) fn peaks(histogram: &Histogram) -> Vec<PeakJson> {
    wakepath_distribution::peaks(histogram).into_iter().map(PeakJson::new).collect()
}

pub(in crate::json) fn buckets(histogram: &Histogram) -> Vec<BucketJson> {
    let counts = histogram.counts().iter().enumerate().filter(|&(_, &count)| count > 0);
    let bucket = |(index, &count): (usize, &u64)| {
        let held = bounds(index);
        BucketJson { index, from: held.start().to_string(), to: held.end().to_string(), count }
    };
    counts.map(bucket).collect()
}
