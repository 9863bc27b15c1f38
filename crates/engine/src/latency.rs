//! Latency distributions, counted live or read from a recording, and the grammar of their targets.

pub mod live;
pub mod recorded;

mod groups;
pub mod target;

use std::path::PathBuf;
use std::time::Duration;

use wakepath_distribution::Histogram;

pub use groups::{Group, GroupKey, Groups};
pub use target::TargetError;
pub use wakepath_distribution::{GroupBy, MAX_GROUP_SLICES, MAX_GROUPS};

/// The kind of thing whose latencies a target has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LatencySource {
    /// Calls of a function or of the system.
    Calls,
    /// Waits for a CPU.
    CpuWaits,
    /// Requests of a disk, by any process.
    DiskRequests,
    /// Waits of threads that are blocked in a system call, until they are woken.
    BlockedWaits,
    /// Waits for locks.
    LockWaits,
    /// Segments of paths.
    Segments,
    /// Spans of distributed tracing.
    Spans,
}

/// A target's latencies.
#[derive(Debug, Clone)]
pub struct Distribution {
    /// The target as it was asked for, or its own name where that was a pattern.
    pub target: String,
    /// The kind of thing that was counted.
    pub source: LatencySource,
    /// The latencies of the whole time.
    pub histogram: Histogram,
    /// The latencies by time slice, where slices were asked for.
    pub slices: Vec<TimeSlice>,
    /// The latencies of each process, thread or cgroup, where that was asked for.
    pub groups: Option<Groups>,
    /// Calls that never returned: left by an exception or `longjmp`, or their thread ended.
    pub unwound: u64,
    /// Calls that were not counted because a table was full, or because they recursed too deep.
    pub overflowed: u64,
    /// Calls that had not ended.
    pub open: u64,
    /// Calls and waits that were not counted because their beginning or end was not seen: in recordings, and
    /// for functions of the kernel.
    pub unseen: u64,
    /// The cost of the probes; `None` without probes, or where it could not be measured.
    pub probe: Option<ProbeCost>,
    /// The processes that pay for the probes without having been asked about; `None` if there are none.
    pub other_processes: Option<OtherProcesses>,
    /// Sentences on what limits the meaning of the numbers.
    pub notes: Vec<String>,
}

impl Distribution {
    /// The distribution of latencies that were counted without slices, groups, probes or notes.
    pub fn new(target: String, source: LatencySource, histogram: Histogram) -> Self {
        Self {
            target,
            source,
            histogram,
            slices: Vec::new(),
            groups: None,
            unwound: 0,
            overflowed: 0,
            open: 0,
            unseen: 0,
            probe: None,
            other_processes: None,
            notes: Vec::new(),
        }
    }

    /// Whether nothing was counted.
    fn is_empty(&self) -> bool {
        self.histogram.is_empty() && [self.unwound, self.open, self.unseen] == [0; 3]
    }
}

/// The cost of a function's probes, as measured before counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeCost {
    /// The time added to each call, ns.
    pub per_call_ns: u64,
    /// The part counted as latency, in the histogram's unit.
    pub shift: u64,
    /// The smallest bucket whose average latency stays in it despite the shift.
    pub from_bucket: usize,
}

impl ProbeCost {
    /// T08 section 8.2: the average latency of bucket i is 3/2 · 2^i. It stays in its bucket if, with the shift,
    /// it is below 2^(i+1): if twice the shift is below 2^i.
    pub fn new(per_call_ns: u64, shift: u64) -> Self {
        let from_bucket = (u128::BITS - (2 * u128::from(shift)).leading_zeros()) as usize;
        Self { per_call_ns, shift, from_bucket }
    }
}

/// Processes that were not asked about and have a probed file mapped: its probes stand there too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherProcesses {
    /// Their number when counting began; at least 1.
    pub processes: usize,
    /// The file, as processes see it.
    pub file: PathBuf,
    /// The time added to each call there, ns; `None` where that could not be measured.
    pub per_call_ns: Option<u64>,
}

/// The latencies in a time slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeSlice {
    /// Since the beginning.
    pub from: Duration,
    /// Since the beginning.
    pub to: Duration,
    /// In the same unit as the whole.
    pub histogram: Histogram,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_not_shifted_where_its_average_stays_in_it() {
        for (shift, expected) in
            [(0, 0), (1, 2), (2, 3), (3, 3), (4, 4), (511, 10), (512, 11), (20_000, 16), (u64::MAX, 65)]
        {
            let found = ProbeCost::new(1, shift);
            assert_eq!(found.from_bucket, expected, "{shift} ns");
            // T08 section 8.2, as it stands there, twice over so that it is in whole numbers.
            let stays = |bucket: usize| 3 * (1_u128 << bucket) + 2 * u128::from(shift) < 4 << bucket;
            assert!(stays(expected) && (0..expected).all(|bucket| !stays(bucket)), "{shift} ns");
        }
    }
}
