//! The words for latency enums, in all views.

use wakepath_distribution::Unit;
use wakepath_engine::latency::{GroupBy, LatencySource};

/// The source of a distribution's latencies: its code, and the noun for a single latency and for several.
pub const fn source(source: LatencySource) -> (&'static str, [&'static str; 2]) {
    match source {
        LatencySource::Calls => ("calls", ["call", "calls"]),
        LatencySource::CpuWaits => ("waits", ["wait for a CPU", "waits for a CPU"]),
        LatencySource::DiskRequests => ("requests", ["request", "requests"]),
        LatencySource::BlockedWaits => ("blocked", ["wait", "waits"]),
        LatencySource::LockWaits => ("locks", ["wait for a lock", "waits for locks"]),
        LatencySource::Segments => ("segments", ["segment", "segments"]),
        LatencySource::Spans => ("spans", ["span", "spans"]),
        LatencySource::UserStates => ("user_states", ["state", "states"]),
        LatencySource::UserMarks => ("user_marks", ["time between marks", "times between marks"]),
    }
}

/// The unit of a distribution's latencies.
pub const fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Nanoseconds => "ns",
        Unit::Cycles => "cycles",
    }
}

/// The groups' key.
pub const fn by(by: GroupBy) -> &'static str {
    match by {
        GroupBy::Process => "process",
        GroupBy::Thread => "thread",
        GroupBy::Cgroup => "cgroup",
    }
}
