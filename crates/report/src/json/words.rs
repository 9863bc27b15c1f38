//! The words for enum values in JSON documents and Parquet files.

use wakepath_distribution::Unit;
use wakepath_engine::latency::{GroupBy, LatencySource};

/// The source of a distribution's latencies.
pub(crate) const fn source(source: LatencySource) -> &'static str {
    match source {
        LatencySource::Calls => "calls",
        LatencySource::CpuWaits => "waits",
        LatencySource::DiskRequests => "requests",
        LatencySource::BlockedWaits => "blocked",
        LatencySource::LockWaits => "locks",
        LatencySource::Segments => "segments",
    }
}

/// The unit of a distribution's latencies.
pub(crate) const fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Nanoseconds => "ns",
        Unit::Cycles => "cycles",
    }
}

/// The key of groups.
pub(crate) const fn by(by: GroupBy) -> &'static str {
    match by {
        GroupBy::Process => "process",
        GroupBy::Thread => "thread",
        GroupBy::Cgroup => "cgroup",
    }
}
