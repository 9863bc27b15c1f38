//! Whose latencies they are.

pub use wakepath_distribution::{GroupBy, MAX_GROUP_SLICES, MAX_GROUPS};
use wakepath_distribution::{Histogram, Peak};

use crate::Slice;

/// A target's latencies, told apart by whose they are.
#[derive(Debug, Clone)]
pub struct Groups {
    /// How they are told apart.
    pub by: GroupBy,
    /// Those with most time first; the others last, if there are any. Together they are the whole.
    pub groups: Vec<Group>,
}

/// One group's part of a target's latencies.
#[derive(Debug, Clone)]
pub struct Group {
    /// Whose it is.
    pub who: Who,
    /// Its latencies.
    pub histogram: Histogram,
    /// As a person would see them.
    pub peaks: Vec<Peak>,
    /// The parts of the target's slices that are its own, where there are any; some are too many to keep.
    pub slices: Vec<Slice>,
    /// Calls that an exception, `longjmp` or the end of their thread unwound: they never returned.
    pub unwound: u64,
    /// Calls that were not counted.
    pub overflowed: u64,
}

/// Whose latencies are counted as one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// A process.
    Process {
        /// Its number.
        pid: u32,
        /// When it started, ns of the monotonic clock: another one may have had its number before.
        start_ns: u64,
        /// What it was called at last.
        comm: Option<Box<[u8]>>,
    },
    /// A thread.
    Thread {
        /// Its number.
        tid: u32,
        /// The process that it belongs to.
        pid: Option<u32>,
        /// When it started, ns of the monotonic clock.
        start_ns: u64,
        /// What it was called at last.
        comm: Option<Box<[u8]>>,
    },
    /// A cgroup.
    Cgroup {
        /// Its inode.
        id: u64,
        /// Where it is in its hierarchy; nothing where it came and went while latencies were counted.
        path: Option<Box<[u8]>>,
    },
    /// All that came when there was no room for more groups.
    Others,
}
