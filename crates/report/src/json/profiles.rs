//! Reads a document written by `latency --json`, to compare its distributions. It may come from anywhere.

use serde::Deserialize;
use wakepath_distribution::{BUCKETS, Histogram, Unit};
use wakepath_engine::Profile;

/// The reason why a document has no distributions.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum NoProfiles {
    #[error("it is no document of `wakepath latency --json`: {0}")]
    Json(#[from] serde_json::Error),
    #[error("its schema is `{0}`, not `wakepath.latency/1`")]
    Schema(String),
    #[error("its target {target} has a bucket {index}; there are {BUCKETS}")]
    Bucket { target: usize, index: u64 },
    #[error("the sum of its target {target} is no number")]
    Sum { target: usize },
}

#[derive(Deserialize)]
struct SchemaHeader {
    schema: String,
}

#[derive(Deserialize)]
struct Document {
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    target: String,
    #[serde(with = "UnitWord")]
    unit: Unit,
    sum: String,
    buckets: Vec<Bucket>,
}

#[derive(Deserialize)]
#[serde(remote = "Unit")]
enum UnitWord {
    #[serde(rename = "ns")]
    Nanoseconds,
    #[serde(rename = "cycles")]
    Cycles,
}

#[derive(Deserialize)]
struct Bucket {
    index: u64,
    count: u64,
}

/// The distributions in a document from `wakepath latency --json`.
///
/// # Errors
/// If it is no such document.
pub fn profiles(document: &[u8]) -> Result<Vec<Profile>, NoProfiles> {
    // The schema comes first: another document has other keys, or the same keys for something else.
    let SchemaHeader { schema } = serde_json::from_slice(document)?;
    if schema != "wakepath.latency/1" {
        return Err(NoProfiles::Schema(schema));
    }
    let document: Document = serde_json::from_slice(document)?;
    let profile = |(at, found): (usize, Target)| {
        let mut counts = [0_u64; BUCKETS];
        for bucket in &found.buckets {
            let count = usize::try_from(bucket.index).ok().and_then(|index| counts.get_mut(index));
            let count = count.ok_or(NoProfiles::Bucket { target: at + 1, index: bucket.index })?;
            *count = count.saturating_add(bucket.count);
        }
        let sum = found.sum.parse().map_err(|_| NoProfiles::Sum { target: at + 1 })?;
        Ok(Profile { target: found.target, histogram: Histogram::from_counters(found.unit, counts, sum) })
    };
    document.targets.into_iter().enumerate().map(profile).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_such_document_is_refused_by_what_is_wrong() {
        let of = |bucket: &str, sum: &str| {
            format!(
                "{{\"schema\":\"wakepath.latency/1\",\"more\":1,\"targets\":[{{\"target\":\"f\",\"unit\":\"ns\",\
                 \"sum\":\"{sum}\",\"buckets\":[{bucket}]}}]}}"
            )
        };
        let good = of("{\"index\":63,\"count\":7},{\"index\":63,\"count\":18446744073709551615}", "9");
        let found = profiles(good.as_bytes()).expect("a document");
        assert_eq!((found[0].histogram.counts()[63], found[0].histogram.sum()), (u64::MAX, 9));
        for (document, expected) in [
            (String::from("{"), "it is no document of `wakepath latency --json`: EOF"),
            (
                String::from("{\"schema\":\"wakepath.path/1\",\"targets\":[]}"),
                "its schema is `wakepath.path/1`",
            ),
            (
                String::from("{\"schema\":\"wakepath.calls/1\",\"target\":\"f\"}"),
                "its schema is `wakepath.calls/1`",
            ),
            (of("{\"index\":64,\"count\":1}", "9"), "its target 1 has a bucket 64; there are 64"),
            (of("{\"index\":1,\"count\":-1}", "9"), "it is no document"),
            (of("", "nine"), "the sum of its target 1 is no number"),
        ] {
            let error = profiles(document.as_bytes()).expect_err(&document).to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
