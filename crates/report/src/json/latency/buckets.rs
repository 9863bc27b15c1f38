//! A histogram's buckets and peaks, as JSON.

use serde::Serialize;
use wakepath_distribution::{Histogram, Peak, Percentile, bounds};

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

/// A percentile, with its bucket, and its rank interval with the latencies.
#[derive(Serialize)]
pub(in crate::json) struct PercentileJson {
    per_mille: u16,
    rank: u64,
    /// Decimal, like all latencies here: the smallest and the largest latency in its bucket.
    from: String,
    to: String,
    from_rank: u64,
    to_rank: u64,
    at_least: String,
    at_most: String,
}

impl PercentileJson {
    fn new(found: Percentile) -> Self {
        let held = bounds(found.bucket);
        Self {
            per_mille: found.per_mille,
            rank: found.rank,
            from: held.start().to_string(),
            to: held.end().to_string(),
            from_rank: found.from_rank,
            to_rank: found.to_rank,
            at_least: bounds(found.from_bucket).start().to_string(),
            at_most: bounds(found.to_bucket).end().to_string(),
        }
    }
}

impl PeakJson {
    pub(in crate::json) fn new(peak: Peak) -> Self {
        Self { from_bucket: peak.from_bucket, to_bucket: peak.to_bucket, count: peak.count }
    }
}

pub(in crate::json) fn peaks(histogram: &Histogram) -> Vec<PeakJson> {
    wakepath_distribution::peaks(histogram).into_iter().map(PeakJson::new).collect()
}

pub(in crate::json) fn percentiles(histogram: &Histogram) -> Vec<PercentileJson> {
    wakepath_distribution::percentiles(histogram).into_iter().map(PercentileJson::new).collect()
}

pub(in crate::json) fn buckets(histogram: &Histogram) -> Vec<BucketJson> {
    let counts = histogram.counts().iter().enumerate().filter(|&(_, &count)| count > 0);
    let bucket = |(index, &count): (usize, &u64)| {
        let held = bounds(index);
        BucketJson { index, from: held.start().to_string(), to: held.end().to_string(), count }
    };
    counts.map(bucket).collect()
}
