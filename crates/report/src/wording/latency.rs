//! The words for latency enums, in all views.

use wakepath_distribution::Unit;
use wakepath_engine::latency::{GroupBy, LatencySource, RemovedProbes};

use crate::units::{duration, grouped};

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

/// A share of the machine's time, to a tenth of a percent.
fn percent(share: f64) -> String {
    format!("{}%", (share * 1e3).round() / 10.0)
}

/// The sentence on probes that were removed.
pub fn probes_removed(removed: &RemovedProbes) -> String {
    let RemovedProbes { after, calls, per_call_ns, share, budget } = *removed;
    let when = match u64::try_from(after.as_nanos()).unwrap_or(u64::MAX) {
        0 => String::from("before counting began"),
        ns => format!("after {}", duration(ns)),
    };
    format!(
        "its probes were removed {}: each of {} calls took {} longer, {} of the machine's time; --budget allows more than {}",
        when,
        grouped(calls),
        duration(per_call_ns),
        percent(share),
        percent(budget),
    )
}
