//! Grouping of latencies by process, thread or cgroup, and the maximum number of groups.

/// The key by which latencies are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupBy {
    /// Process id and start time.
    Process,
    /// Thread id and start time.
    Thread,
    /// Cgroup: in the v2 hierarchy, or in the CPU controller's where v2 has only its root.
    Cgroup,
}

/// The maximum number of groups over all targets: `WP_GROUPS` in `bpf/latency.h`. Later groups are counted together.
pub const MAX_GROUPS: usize = 16384;

/// The maximum number of the groups' time slices over all targets: some 35 MB.
pub const MAX_GROUP_SLICES: usize = 65536;
