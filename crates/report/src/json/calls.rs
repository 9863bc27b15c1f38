//! What the calls of a peak waited for, as JSON.

use std::io::{self, Write};

use serde::Serialize;
use wakepath_clock::{Reference, Stamp};
use wakepath_engine::{CallsAnswer, Group, PathAnswer, Which};

use super::buckets::{BucketJson, PeakJson, buckets, peaks};
use super::text;
use crate::calls::{causes, first};
use crate::text::calls::label;

#[derive(Serialize)]
struct CallsJson {
    schema: &'static str,
    target: String,
    unit: &'static str,
    buckets: Vec<BucketJson>,
    peaks: Vec<PeakJson>,
    left: u64,
    open: u64,
    asked: GroupJson,
    /// Null where there are no others.
    usual: Option<GroupJson>,
    causes: Vec<CauseJson>,
    /// Of the recording's clock: stamps of calls count from here.
    origin_ns: String,
    /// Those that were explained of the calls that were asked about.
    calls: Vec<CallJson>,
}

#[derive(Serialize)]
struct CallJson {
    tid: u32,
    from_ns: u64,
    to_ns: u64,
    /// What took most of it; null of a call of no length.
    first: Option<FirstJson>,
}

#[derive(Serialize)]
struct FirstJson {
    what: String,
    ns: u64,
}

#[derive(Serialize)]
struct GroupJson {
    /// From 1 on; null where calls were not asked for by their peak.
    peak: Option<usize>,
    calls: u64,
    explained: usize,
    mean_ns: u64,
}

#[derive(Serialize)]
struct CauseJson {
    what: String,
    asked_ns: f64,
    usual_ns: f64,
    first_in: u64,
}

/// Writes an answer about calls.
///
/// # Errors
/// Those of `out`.
pub fn calls(answer: &CallsAnswer, out: &mut dyn Write) -> io::Result<()> {
    let usual = answer.usual.as_ref();
    let group = |peak, group: &Group<'_>| GroupJson {
        peak,
        calls: group.calls,
        explained: group.paths.len(),
        mean_ns: group.paths.iter().map(|path| path.window_ns()).sum::<u64>()
            / group.paths.len().max(1) as u64,
    };
    let peak = match answer.which {
        Which::Peak(peak) => Some(peak),
        Which::Above(_) | Which::Slowest(_) => None,
    };
    let causes = causes(&answer.asked, usual.map(|(_, group)| group));
    let document = CallsJson {
        schema: "wakepath.calls/1",
        target: text(answer.target.bytes()),
        unit: "ns",
        buckets: buckets(&answer.histogram),
        peaks: peaks(&answer.peaks),
        left: answer.left,
        open: answer.open,
        asked: group(peak, &answer.asked),
        usual: usual.map(|(peak, usual)| group(Some(*peak), usual)),
        causes: causes
            .iter()
            .map(|cause| CauseJson {
                what: label(&cause.taker, cause.example.0, &cause.example.1),
                asked_ns: cause.asked_ns,
                usual_ns: cause.usual_ns,
                first_in: cause.first_in,
            })
            .collect(),
        origin_ns: answer.asked.paths.first().map_or(0, |path| path.head.origin.ns()).to_string(),
        calls: answer.asked.paths.iter().map(call).collect(),
    };
    super::write(out, &document)
}

fn call(answer: &PathAnswer<'_>) -> CallJson {
    let since = |at: Stamp<Reference>| at.since(answer.head.origin);
    CallJson {
        tid: answer.subject().tid.number(),
        from_ns: since(answer.path.window.from),
        to_ns: since(answer.path.window.to),
        first: first(answer)
            .map(|(taker, row)| FirstJson { what: label(&taker, answer, &row), ns: row.total_ns }),
    }
}

#[cfg(test)]
mod tests {
    use crate::json::shape::misfits;
    use crate::sample::calls_of;

    #[test]
    fn documents_keep_the_contract_and_causes_add_up() {
        calls_of(|answer| {
            let mut out = Vec::new();
            super::calls(answer, &mut out).expect("a vector takes everything");
            let document: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
            assert_eq!(misfits(include_str!("../../contract/calls.txt"), &document), Vec::<String>::new());
            assert_eq!((&document["asked"]["calls"], &document["usual"]["calls"]), (&20.into(), &60.into()));
            let sum = |key: &str| -> f64 {
                let causes = document["causes"].as_array().expect("a list").iter();
                causes.map(|cause| cause[key].as_f64().expect("a number")).sum()
            };
            // What the groups' calls took on average, all of it.
            assert_eq!([sum("asked_ns"), sum("usual_ns")].map(f64::round), [100_100.0, 200.0]);
            assert_eq!(document["calls"][0]["first"]["what"], "running holder");
        });
    }
}
