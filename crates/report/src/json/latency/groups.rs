//! Latency groups, as JSON.

use serde::Serialize;
use wakepath_engine::latency::{Group, GroupKey};

use super::super::text;
use super::{BucketJson, PeakJson, PercentileJson, SliceJson, buckets, peaks, percentiles, slice};

/// A group. Keys that do not apply to its kind are null.
#[derive(Serialize, Default)]
pub(super) struct GroupJson {
    pid: Option<u32>,
    tid: Option<u32>,
    /// Decimal.
    start_ns: Option<String>,
    comm: Option<String>,
    cgroup: Option<String>,
    /// Decimal.
    cgroup_id: Option<String>,
    /// All groups without room in the table, together.
    others: bool,
    count: u64,
    sum: String,
    buckets: Vec<BucketJson>,
    peaks: Vec<PeakJson>,
    percentiles: Vec<PercentileJson>,
    left: u64,
    crowded: u64,
    /// The group's latencies in the target's slices, without empty slices.
    slices: Vec<SliceJson>,
}

impl GroupJson {
    pub(super) fn new(group: &Group) -> Self {
        let named = |name: &Option<Box<[u8]>>| name.as_deref().map(text);
        let counts = Self {
            count: group.histogram.calls(),
            sum: group.histogram.sum().to_string(),
            buckets: buckets(&group.histogram),
            peaks: peaks(&group.histogram),
            percentiles: percentiles(&group.histogram),
            left: group.unwound,
            crowded: group.overflowed,
            slices: group.slices.iter().map(slice).collect(),
            ..Self::default()
        };
        match &group.key {
            GroupKey::Process { pid, start_ns, comm } => {
                Self { pid: Some(*pid), start_ns: Some(start_ns.to_string()), comm: named(comm), ..counts }
            }
            GroupKey::Thread { tid, pid, start_ns, comm } => Self {
                pid: *pid,
                tid: Some(*tid),
                start_ns: Some(start_ns.to_string()),
                comm: named(comm),
                ..counts
            },
            GroupKey::Cgroup { id, path } => {
                Self { cgroup: named(path), cgroup_id: Some(id.to_string()), ..counts }
            }
            GroupKey::Others => Self { others: true, ..counts },
        }
    }
}
