//! What a latency distribution is to every shell, wherever its counts are from.

use std::path::PathBuf;
use std::time::Duration;

use wakepath_distribution::{Histogram, Peak};

use crate::groups::Groups;

/// What a target's latencies are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// Calls of a function or of the system.
    Calls,
    /// Waits for a CPU.
    Waits,
    /// Requests of a disk, whoever made them.
    Requests,
    /// Waits of threads that are blocked in a system call, until they are woken.
    Blocked,
    /// Waits for locks.
    Locks,
    /// Segments of paths.
    Segments,
}

/// How long one target took, how often.
#[derive(Debug, Clone)]
pub struct Distribution {
    /// As it was asked for, or as it is called where a pattern was.
    pub target: String,
    /// What was counted.
    pub of: Of,
    /// Of the whole time.
    pub histogram: Histogram,
    /// As a person would see them.
    pub peaks: Vec<Peak>,
    /// What came in each part of the time, where it was asked for.
    pub slices: Vec<Slice>,
    /// Whose they are, where that was asked for.
    pub groups: Option<Groups>,
    /// Calls that never returned: an exception, `longjmp` or the end of their thread unwound them.
    pub unwound: u64,
    /// Calls that were not counted for want of room, or since they recursed too deep.
    pub overflowed: u64,
    /// Calls that had not ended.
    pub open: u64,
    /// Whose beginning or end was not seen, so that they are not counted: of recordings, and of functions of
    /// the kernel.
    pub unseen: u64,
    /// What its probes cost; nothing where it has none, or that could not be measured.
    pub probe: Option<ProbeCost>,
    /// Who pays for its probes beside those who were asked about; nothing where nobody does.
    pub elsewhere: Option<Elsewhere>,
    /// What a person should know of it.
    pub notes: Vec<String>,
}

/// What the probes of a function cost here, as it was measured before counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeCost {
    /// How much longer a call takes, ns.
    pub per_call_ns: u64,
    /// How much longer it is counted to have taken, in the unit of its histogram.
    pub shift: u64,
    /// The smallest bucket whose latencies, on average, are counted in it all the same.
    pub from_bucket: usize,
}

/// Processes that were not asked about and have the file of a function mapped: its probes stand there too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elsewhere {
    /// How many, when counting began; at least one.
    pub processes: usize,
    /// Which file, as processes see it.
    pub file: PathBuf,
    /// How much longer a call takes there, ns; nothing where that could not be measured.
    pub per_call_ns: Option<u64>,
}

/// What came in a part of the time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// Since the beginning.
    pub from: Duration,
    /// Since the beginning.
    pub to: Duration,
    /// In the same unit.
    pub histogram: Histogram,
}
