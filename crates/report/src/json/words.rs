//! What documents call things, and files beside them.

use wakepath_distribution::Unit;
use wakepath_engine::Of;
use wakepath_engine::groups::GroupBy;

/// What a distribution is of.
pub(crate) const fn of(of: Of) -> &'static str {
    match of {
        Of::Calls => "calls",
        Of::Waits => "waits",
        Of::Requests => "requests",
        Of::Blocked => "blocked",
        Of::Locks => "locks",
        Of::Segments => "segments",
    }
}

/// What its latencies are counted in.
pub(crate) const fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Nanoseconds => "ns",
        Unit::Cycles => "cycles",
    }
}

/// By what latencies are told apart.
pub(crate) const fn by(by: GroupBy) -> &'static str {
    match by {
        GroupBy::Process => "process",
        GroupBy::Thread => "thread",
        GroupBy::Cgroup => "cgroup",
    }
}
