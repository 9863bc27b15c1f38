//! Two sets of latency distributions compared, as JSON.

use std::io::{self, Write};

use serde::{Serialize, Serializer};
use wakepath_engine::{Compared, Comparison, Measure};

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
    #[serde(flatten, serialize_with = "scores")]
    scores: [f64; 6],
    differ: bool,
    doubtful: bool,
}

/// Writes a comparison.
///
/// # Errors
/// Write errors on `out`.
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
    ComparedJson {
        target: text(pair.target.as_bytes()),
        count: pair.histograms.each_ref().map(|histogram| histogram.calls()),
        mean_ns: pair.histograms.each_ref().map(|histogram| histogram.mean()),
        scores: pair.scores,
        differ: pair.differ,
        doubtful: pair.doubtful,
    }
}

/// Each measure's score, by the measure's name in lower case.
fn scores<S: Serializer>(scores: &[f64; 6], serializer: S) -> Result<S::Ok, S::Error> {
    // JSON has no infinity: it becomes null.
    serializer.collect_map(Measure::ALL.map(|measure| measure.name().to_lowercase()).iter().zip(scores))
}

#[cfg(test)]
mod tests {
    use wakepath_engine::compare;

    use super::*;
    use crate::json::shape::{document, golden};
    use crate::sample::profile;

    #[test]
    fn documents_keep_the_contract() {
        let calls = |target, calls| profile(target, &[(700, calls)]);
        let before = vec![calls("f", 3), calls("never before", 0), calls("gone", 1)];
        let after = vec![calls("f", 4), calls("never before", 5), calls("new", 1)];
        let found = compare(before, after, None).expect("one unit");
        let shape = include_str!("../../contract/comparison.txt");
        let document = document(shape, |out| comparison(&found, out));
        golden(&document, &expect_test::expect_file!["../../tests/golden/comparison.json"]);
        assert!(document["targets"][0]["totops"].is_null() && document["targets"][0]["differ"] == true);
    }
}
