//! A target's latencies, by process, thread or cgroup.

use wakepath_distribution::{GroupBy, Histogram};

use super::TimeSlice;

/// A target's latencies, by group.
#[derive(Debug, Clone)]
pub struct Groups {
    /// The groups' key.
    pub by: GroupBy,
    /// The groups with most time first; [`GroupKey::Others`] last, if there are any. Together they are the whole.
    pub groups: Vec<Group>,
}

/// A group's latencies.
#[derive(Debug, Clone)]
pub struct Group {
    /// The process, thread or cgroup.
    pub key: GroupKey,
    /// Its latencies.
    pub histogram: Histogram,
    /// The group's share in the target's slices, if asked for; empty where there were too many to keep.
    pub slices: Vec<TimeSlice>,
    /// Calls that never returned.
    pub unwound: u64,
    /// Calls that were not counted.
    pub overflowed: u64,
}

/// The process, thread or cgroup behind a group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupKey {
    /// A process.
    Process {
        /// The process id.
        pid: u32,
        /// Its start, ns on the monotonic clock: another process may have had its id before.
        start_ns: u64,
        /// The last name.
        comm: Option<Box<[u8]>>,
    },
    /// A thread.
    Thread {
        /// The thread id.
        tid: u32,
        /// Its process id.
        pid: Option<u32>,
        /// Its start, ns on the monotonic clock.
        start_ns: u64,
        /// The last name.
        comm: Option<Box<[u8]>>,
    },
    /// A cgroup.
    Cgroup {
        /// Its inode.
        id: u64,
        /// Its path in its hierarchy; `None` if the cgroup came and went while latencies were counted.
        path: Option<Box<[u8]>>,
    },
    /// All groups since the group table was full.
    Others,
}
