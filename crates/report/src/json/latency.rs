//! Latency distributions, as JSON: the common parts of live counting and recordings.

mod buckets;
mod groups;
mod live;
mod recorded;

use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use serde::Serialize;
use wakepath_distribution::Unit;
use wakepath_engine::latency::{Distribution, TimeSlice};

pub(super) use buckets::{BucketJson, PeakJson, buckets, peaks};
use buckets::{PercentileJson, percentiles};
use groups::GroupJson;
pub use live::live_latency;
pub use recorded::recorded_latency;

use super::text;
use crate::wording::latency as words;

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
    percentiles: Vec<PercentileJson>,
    open: u64,
    left: u64,
    crowded: u64,
    unseen: u64,
    probe: Option<ProbeJson>,
    /// Null if no other process has the file mapped.
    elsewhere: Option<OtherProcessesJson>,
    /// Null if the probes stayed until the end.
    removed: Option<RemovedJson>,
    notes: Vec<String>,
    slices: Vec<SliceJson>,
    /// The groups' key; null without groups.
    by: Option<&'static str>,
    groups: Vec<GroupJson>,
}

#[derive(Serialize)]
struct ProbeJson {
    per_call_ns: u64,
    /// Null when cycles are counted.
    shift_ns: Option<u64>,
    /// Null when ns are counted.
    shift_cycles: Option<u64>,
    from_bucket: usize,
}

/// Probes that took more than their budget.
#[derive(Serialize)]
struct RemovedJson {
    after_ns: u64,
    /// In all processes.
    calls: u64,
    per_call_ns: u64,
    /// The part taken from the machine's time, from 0 to 1.
    share: f64,
    budget: f64,
}

#[derive(Serialize)]
struct OtherProcessesJson {
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

pub(super) fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

pub(super) fn target(target: &Distribution) -> TargetJson {
    TargetJson {
        target: text(target.target.as_bytes()),
        of: words::source(target.source).0,
        unit: words::unit(target.histogram.unit()),
        count: target.histogram.calls(),
        sum: target.histogram.sum().to_string(),
        buckets: buckets(&target.histogram),
        peaks: peaks(&target.histogram),
        percentiles: percentiles(&target.histogram),
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
        elsewhere: target.other_processes.as_ref().map(|others| OtherProcessesJson {
            processes: others.processes,
            file: text(others.file.as_os_str().as_bytes()),
            per_call_ns: others.per_call_ns,
        }),
        removed: target.removed.as_ref().map(|removed| RemovedJson {
            after_ns: ns(removed.after),
            calls: removed.calls,
            per_call_ns: removed.per_call_ns,
            share: removed.share,
            budget: removed.budget,
        }),
        notes: target.notes.iter().map(|note| text(note.as_bytes())).collect(),
        slices: target.slices.iter().map(slice).collect(),
        by: target.groups.as_ref().map(|groups| words::by(groups.by)),
        groups: target.groups.iter().flat_map(|groups| &groups.groups).map(GroupJson::new).collect(),
    }
}

fn slice(slice: &TimeSlice) -> SliceJson {
    SliceJson {
        from_ns: ns(slice.from),
        to_ns: ns(slice.to),
        count: slice.histogram.calls(),
        sum: slice.histogram.sum().to_string(),
        buckets: buckets(&slice.histogram),
    }
}
