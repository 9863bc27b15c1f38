//! Two sets of latency distributions compared, as JSON.

use std::io::{self, Write};

use serde::Serialize;
use wakepath_engine::{Compared, Comparison};

use super::text;

#[derive(Serialize)]
struct ComparisonJson {
    schema: &'static str,
    measure: &'static str,
    threshold: f64,
    targets: Vec<ComparedJson>,
    only_first: Vec<String>,
    only_second: Vec<String>,
}

#[derive(Serialize)]
struct ComparedJson {
    target: String,
    count: [u64; 2],
    /// Null without latencies.
    mean_ns: [Option<f64>; 2],
    // JSON has no infinity.
    totops: Option<f64>,
    totlat: Option<f64>,
    chisquare: Option<f64>,
    earthmover: Option<f64>,
    groupops: Option<f64>,
    grouplat: Option<f64>,
    differ: bool,
    doubtful: bool,
}

/// Writes a comparison.
///
/// # Errors
/// Those of `out`.
pub fn comparison(comparison: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    let names = |names: &[String]| names.iter().map(|name| text(name.as_bytes())).collect();
    let document = ComparisonJson {
        schema: "wakepath.comparison/1",
        measure: comparison.measure.name(),
        threshold: comparison.threshold,
        targets: comparison.pairs.iter().map(compared).collect(),
        only_first: names(&comparison.only_first),
        only_second: names(&comparison.only_second),
    };
    super::write(out, &document)
}

fn compared(pair: &Compared) -> ComparedJson {
    let [totops, totlat, chisquare, earthmover, groupops, grouplat] =
        pair.scores.map(|score| Some(score).filter(|score| score.is_finite()));
    ComparedJson {
        target: text(pair.target.as_bytes()),
        count: pair.histograms.each_ref().map(|histogram| histogram.calls()),
        mean_ns: pair.histograms.each_ref().map(|histogram| histogram.mean()),
        totops,
        totlat,
        chisquare,
        earthmover,
        groupops,
        grouplat,
        differ: pair.differ,
        doubtful: pair.doubtful,
    }
}

#[cfg(test)]
mod tests {
    use wakepath_distribution::{Histogram, Unit};
    use wakepath_engine::{Profile, compare};

    use super::*;
    use crate::json::shape::misfits;

    #[test]
    fn documents_keep_the_contract() {
        let profile = |target: &str, calls: u64| {
            let mut histogram = Histogram::new(Unit::Nanoseconds);
            (0..calls).for_each(|_| histogram.add(700));
            Profile { target: target.to_owned(), histogram }
        };
        let before = vec![profile("f", 3), profile("never before", 0), profile("gone", 1)];
        let after = vec![profile("f", 4), profile("never before", 5), profile("new", 1)];
        let found = compare(before, after, None).expect("one unit");
        let mut out = Vec::new();
        comparison(&found, &mut out).expect("a vector takes everything");
        let document: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
        assert_eq!(misfits(include_str!("../../contract/comparison.txt"), &document), Vec::<String>::new());
        assert!(document["targets"][0]["totops"].is_null() && document["targets"][0]["differ"] == true);
    }
}
