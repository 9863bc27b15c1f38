//! Latency distributions, as JSON.

#[cfg(feature = "collect")]
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use serde::Serialize;
use wakepath_distribution::Unit;
#[cfg(feature = "collect")]
use wakepath_engine::latency::Latency;
use wakepath_engine::{Distribution, Slice};

use groups::GroupJson;

use super::buckets::{BucketJson, PeakJson, buckets, peaks};
use super::{text, words};

mod groups;

#[cfg(feature = "collect")]
#[derive(Serialize)]
struct LatencyJson {
    schema: &'static str,
    /// Counted now, or from a recording.
    source: &'static str,
    elapsed_ns: u64,
    targets: Vec<TargetJson>,
}

#[derive(Serialize)]
pub(super) struct TargetJson {
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
    unseen: u64,
    probe: Option<ProbeJson>,
    /// Nothing where the probes stand nowhere else.
    elsewhere: Option<ElsewhereJson>,
    notes: Vec<String>,
    slices: Vec<SliceJson>,
    /// Whose its latencies are, where they are told apart.
    by: Option<&'static str>,
    groups: Vec<GroupJson>,
}

#[derive(Serialize)]
struct ProbeJson {
    per_call_ns: u64,
    /// Where ns are counted.
    shift_ns: Option<u64>,
    /// Where cycles are.
    shift_cycles: Option<u64>,
    from_bucket: usize,
}

#[derive(Serialize)]
struct ElsewhereJson {
    processes: usize,
    file: String,
    per_call_ns: Option<u64>,
}

#[derive(Serialize)]
struct SliceJson {
    from_ns: u64,
    to_ns: u64,
    count: u64,
    sum: String,
    buckets: Vec<BucketJson>,
}

/// Writes distributions that were counted.
///
/// # Errors
/// Those of `out`.
#[cfg(feature = "collect")]
pub fn latency(latency: &Latency, out: &mut dyn Write) -> io::Result<()> {
    let document = LatencyJson {
        schema: "wakepath.latency/1",
        source: "live",
        elapsed_ns: ns(latency.elapsed),
        targets: latency.targets.iter().map(target).collect(),
    };
    super::write(out, &document)
}

pub(super) fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

pub(super) fn target(target: &Distribution) -> TargetJson {
    TargetJson {
        target: text(target.target.as_bytes()),
        of: words::of(target.of),
        unit: words::unit(target.histogram.unit()),
        count: target.histogram.calls(),
        sum: target.histogram.sum().to_string(),
        buckets: buckets(&target.histogram),
        peaks: peaks(&target.peaks),
        open: target.open,
        left: target.unwound,
        crowded: target.overflowed,
        unseen: target.unseen,
        probe: target.probe.map(|probe| ProbeJson {
            per_call_ns: probe.per_call_ns,
            shift_ns: (target.histogram.unit() == Unit::Nanoseconds).then_some(probe.shift),
            shift_cycles: (target.histogram.unit() == Unit::Cycles).then_some(probe.shift),
            from_bucket: probe.from_bucket,
        }),
        elsewhere: target.elsewhere.as_ref().map(|elsewhere| ElsewhereJson {
            processes: elsewhere.processes,
            file: text(elsewhere.file.as_os_str().as_bytes()),
            per_call_ns: elsewhere.per_call_ns,
        }),
        notes: target.notes.iter().map(|note| text(note.as_bytes())).collect(),
        slices: target.slices.iter().map(slice).collect(),
        by: target.groups.as_ref().map(|groups| words::by(groups.by)),
        groups: target.groups.iter().flat_map(|groups| &groups.groups).map(GroupJson::new).collect(),
    }
}

fn slice(slice: &Slice) -> SliceJson {
    SliceJson {
        from_ns: ns(slice.from),
        to_ns: ns(slice.to),
        count: slice.histogram.calls(),
        sum: slice.histogram.sum().to_string(),
        buckets: buckets(&slice.histogram),
    }
}

#[cfg(all(test, feature = "collect"))]
mod tests {
    use wakepath_distribution::{Histogram, peaks};
    use wakepath_engine::groups::{Group, GroupBy, Groups, Who};
    use wakepath_engine::latency::EndReason;
    use wakepath_engine::{Elsewhere, Of, ProbeCost};

    use super::*;
    use crate::json::shape::misfits;

    #[test]
    fn documents_keep_the_contract() {
        let mut histogram = Histogram::new(Unit::Nanoseconds);
        (0..30).for_each(|_| histogram.add(1000));
        histogram.add(1 << 60);
        let slice = Slice { from: Duration::ZERO, to: Duration::from_secs(1), histogram: histogram.clone() };
        let group = |who| Group {
            who,
            histogram: histogram.clone(),
            peaks: Vec::new(),
            slices: vec![slice.clone()],
            unwound: 1,
            overflowed: 0,
        };
        let (comm, path) = (Some(Box::from(*b"a\x1b[2J")), Some(Box::from(*b"/a")));
        let groups = vec![
            group(Who::Process { pid: 7, start_ns: 1 << 60, comm: comm.clone() }),
            group(Who::Thread { tid: 8, pid: Some(7), start_ns: 1, comm }),
            group(Who::Cgroup { id: 1 << 60, path }),
            group(Who::Others),
        ];
        let distribution = Distribution {
            target: String::from("./app:f\u{202e}"),
            of: Of::Calls,
            peaks: peaks(&histogram),
            histogram,
            slices: vec![slice],
            groups: Some(Groups { by: GroupBy::Process, groups }),
            unwound: 1,
            overflowed: 2,
            open: 3,
            unseen: 4,
            probe: Some(ProbeCost { per_call_ns: 1100, shift: 480, from_bucket: 10 }),
            elsewhere: Some(Elsewhere { processes: 41, file: "/a\u{202e}".into(), per_call_ns: Some(900) }),
            notes: vec![String::from("a note")],
        };
        let found = Latency {
            host: wakepath_engine::Host::default(),
            began_realtime_ns: None,
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
        let cost = serde_json::json!({"per_call_ns": 1100, "shift_ns": 480, "shift_cycles": null, "from_bucket": 10});
        assert_eq!(target["probe"], cost);
        let beside = serde_json::json!({"processes": 41, "file": "/a\u{202e}", "per_call_ns": 900});
        assert_eq!(target["elsewhere"], beside);
        assert_eq!(target["buckets"][0]["index"], 9);
        let whose = |group: usize, key: &str| target["groups"][group][key].clone();
        assert_eq!((whose(0, "pid"), whose(1, "tid"), whose(1, "pid")), (7.into(), 8.into(), 7.into()));
        assert_eq!(
            (whose(0, "start_ns"), whose(2, "cgroup_id")),
            ((1_u64 << 60).to_string().into(), (1_u64 << 60).to_string().into())
        );
        assert_eq!((whose(0, "comm"), whose(2, "cgroup")), ("a\u{1b}[2J".into(), "/a".into()));
        assert_eq!((whose(2, "others"), whose(3, "others")), (false.into(), true.into()));
        assert_eq!(target["buckets"][1]["to"], ((1_u64 << 61) - 1).to_string());
        assert_eq!(target["sum"], (30_000_u64 + (1 << 60)).to_string());
    }
}
