//! Latency distributions, as JSON.

use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;
use wakepath_distribution::Unit;
use wakepath_engine::latency::{Distribution, Latency, Of};

use super::buckets::{BucketJson, PeakJson, buckets, peaks};
use super::text;

#[derive(Serialize)]
struct LatencyJson {
    schema: &'static str,
    elapsed_ns: u64,
    targets: Vec<TargetJson>,
}

#[derive(Serialize)]
struct TargetJson {
    target: String,
    of: &'static str,
    unit: &'static str,
    count: u64,
    /// Decimal: it passes 2^53 after 104 days of waiting.
    sum: String,
    buckets: Vec<BucketJson>,
    peaks: Vec<PeakJson>,
    open: u64,
    left: u64,
    crowded: u64,
    probe: Option<ProbeJson>,
    notes: Vec<String>,
    slices: Vec<SliceJson>,
}

#[derive(Serialize)]
struct ProbeJson {
    per_call_ns: u64,
    shift_ns: u64,
    from_bucket: usize,
}

#[derive(Serialize)]
struct SliceJson {
    from_ns: u64,
    to_ns: u64,
    count: u64,
    sum: String,
    buckets: Vec<BucketJson>,
}

/// Writes distributions.
///
/// # Errors
/// Those of `out`.
pub fn latency(latency: &Latency, out: &mut dyn Write) -> io::Result<()> {
    let document = LatencyJson {
        schema: "wakepath.latency/1",
        elapsed_ns: ns(latency.elapsed),
        targets: latency.targets.iter().map(target).collect(),
    };
    super::write(out, &document)
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn target(target: &Distribution) -> TargetJson {
    TargetJson {
        target: text(target.target.as_bytes()),
        of: match target.of {
            Of::Calls => "calls",
            Of::Waits => "waits",
            Of::Requests => "requests",
        },
        unit: match target.histogram.unit() {
            Unit::Nanoseconds => "ns",
            Unit::Cycles => "cycles",
        },
        count: target.histogram.calls(),
        sum: target.histogram.sum().to_string(),
        buckets: buckets(&target.histogram),
        peaks: peaks(&target.peaks),
        open: target.open,
        left: target.left,
        crowded: target.crowded,
        probe: target.probe.map(|probe| ProbeJson {
            per_call_ns: probe.per_call_ns,
            shift_ns: probe.shift_ns,
            from_bucket: probe.from_bucket,
        }),
        notes: target.notes.iter().map(|note| text(note.as_bytes())).collect(),
        slices: target
            .slices
            .iter()
            .map(|slice| SliceJson {
                from_ns: ns(slice.from),
                to_ns: ns(slice.to),
                count: slice.histogram.calls(),
                sum: slice.histogram.sum().to_string(),
                buckets: buckets(&slice.histogram),
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use wakepath_distribution::{Histogram, peaks};
    use wakepath_engine::latency::{EndReason, ProbeCost, Slice};

    use super::*;
    use crate::json::shape::misfits;

    #[test]
    fn documents_keep_the_contract() {
        let mut histogram = Histogram::new(Unit::Nanoseconds);
        (0..30).for_each(|_| histogram.add(1000));
        histogram.add(1 << 60);
        let slice = Slice { from: Duration::ZERO, to: Duration::from_secs(1), histogram: histogram.clone() };
        let distribution = Distribution {
            target: String::from("./app:f\u{202e}"),
            of: Of::Calls,
            peaks: peaks(&histogram),
            histogram,
            slices: vec![slice],
            left: 1,
            crowded: 2,
            open: 3,
            probe: Some(ProbeCost { per_call_ns: 1100, shift_ns: 480, from_bucket: 10 }),
            notes: vec![String::from("a note")],
        };
        let found = Latency {
            elapsed: Duration::from_secs(1),
            reason: EndReason::Ended,
            status: Some(0),
            running: None,
            targets: vec![distribution],
        };
        let mut out = Vec::new();
        latency(&found, &mut out).expect("a vector takes everything");
        assert!(out.is_ascii(), "nothing that turns a terminal's text around");
        let document: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
        assert_eq!(misfits(include_str!("../../contract/latency.txt"), &document), Vec::<String>::new());
        let target = &document["targets"][0];
        let cost = serde_json::json!({"per_call_ns": 1100, "shift_ns": 480, "from_bucket": 10});
        assert_eq!(target["probe"], cost);
        assert_eq!(target["buckets"][0]["index"], 9);
        assert_eq!(target["buckets"][1]["to"], ((1_u64 << 61) - 1).to_string());
        assert_eq!(target["sum"], (30_000_u64 + (1 << 60)).to_string());
    }
}
