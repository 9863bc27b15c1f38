//! Grouping of latencies by process, thread or cgroup, and how many groups are kept.

/// The key by which latencies are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupBy {
    /// Process id and start time.
    Process,
    /// Thread id and start time.
    Thread,
    /// Cgroup: of the v2 hierarchy, or of the CPU controller where v2 has only its root.
    Cgroup,
}

/// The most groups that are kept over all targets: `WP_GROUPS` in `bpf/latency.h`. Later ones are counted
/// together.
pub const MAX_GROUPS: usize = 16384;

/// The most time slices of groups that are kept over all targets: some 35 MB.
pub const MAX_GROUP_SLICES: usize = 65536;
