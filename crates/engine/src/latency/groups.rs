//! The latencies of a target, by process, thread or cgroup.

use wakepath_distribution::{GroupBy, Histogram};

use super::TimeSlice;

/// The latencies of a target, by group.
#[derive(Debug, Clone)]
pub struct Groups {
    /// The key of the groups.
    pub by: GroupBy,
    /// The groups with most time first; [`GroupKey::Others`] last, if there are any. Together they are the whole.
    pub groups: Vec<Group>,
}

/// The latencies of one group.
#[derive(Debug, Clone)]
pub struct Group {
    /// The process, thread or cgroup.
    pub key: GroupKey,
    /// Its latencies.
    pub histogram: Histogram,
    /// The group's share of the target's slices, where that was asked for; empty where there were too many to
    /// keep.
    pub slices: Vec<TimeSlice>,
    /// Calls that never returned.
    pub unwound: u64,
    /// Calls that were not counted.
    pub overflowed: u64,
}

/// The process, thread or cgroup whose latencies make a group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupKey {
    /// A process.
    Process {
        /// Its id.
        pid: u32,
        /// When it started, ns of the monotonic clock: another one may have had its id before.
        start_ns: u64,
        /// Its last name.
        comm: Option<Box<[u8]>>,
    },
    /// A thread.
    Thread {
        /// Its id.
        tid: u32,
        /// The process that it belongs to.
        pid: Option<u32>,
        /// When it started, ns of the monotonic clock.
        start_ns: u64,
        /// Its last name.
        comm: Option<Box<[u8]>>,
    },
    /// A cgroup.
    Cgroup {
        /// Its inode.
        id: u64,
        /// Its path in its hierarchy; `None` for a cgroup that came and went while latencies were counted.
        path: Option<Box<[u8]>>,
    },
    /// All groups that came after the table of groups was full.
    Others,
}
