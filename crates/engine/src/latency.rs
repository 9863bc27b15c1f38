//! Latency distributions, counted live or read from a recording, and their targets' grammar.

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

/// The kind of events or states behind a target's latencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LatencySource {
    /// Calls of a function or a system call.
    Calls,
    /// Waits for a CPU.
    CpuWaits,
    /// Disk requests, by any process.
    DiskRequests,
    /// Waits of threads blocked in a system call, until their wake-up.
    BlockedWaits,
    /// Waits for locks.
    LockWaits,
    /// Path segments.
    Segments,
    /// Distributed tracing's spans.
    Spans,
    /// Programs' own states, each between two marks.
    UserStates,
    /// The times between two successive marks by a thread.
    UserMarks,
}

/// A target's latencies.
#[derive(Debug, Clone)]
pub struct Distribution {
    /// The target as it was asked for, or its own name if a pattern was.
    pub target: String,
    /// The kind of latencies.
    pub source: LatencySource,
    /// The latencies over the whole time.
    pub histogram: Histogram,
    /// The latencies by time slice, where slices were asked for.
    pub slices: Vec<TimeSlice>,
    /// The latencies by process, thread or cgroup, if asked for.
    pub groups: Option<Groups>,
    /// Calls that never returned: unwound by an exception or `longjmp`, or ended with their thread.
    pub unwound: u64,
    /// Calls that were not counted because a table was full, or the recursion too deep.
    pub overflowed: u64,
    /// Calls that had not ended.
    pub open: u64,
    /// Calls and waits not counted because their beginning or end was not seen: in recordings, and for kernel
    /// functions.
    pub unseen: u64,
    /// The probes' cost; `None` without probes, or where it could not be measured.
    pub probe: Option<ProbeCost>,
    /// Other processes that pay for the probes; `None` if there are none.
    pub other_processes: Option<OtherProcesses>,
    /// The probes did not stay until the end; `None` if they did.
    pub removed: Option<RemovedProbes>,
    /// Sentences about limits to the numbers' meaning.
    pub notes: Vec<String>,
}

impl Distribution {
    /// A distribution without slices, groups, probes or notes.
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
            removed: None,
            notes: Vec::new(),
        }
    }

    /// Whether nothing was counted.
    fn is_empty(&self) -> bool {
        self.histogram.is_empty() && [self.unwound, self.open, self.unseen] == [0; 3]
    }
}

/// A refused target beside counted ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedTarget {
    /// The target: `FILE:FUNCTION`.
    pub target: String,
    /// The reason.
    pub why: String,
}

/// The cost of a function's probes, measured before counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeCost {
    /// The extra time for each call, ns.
    pub per_call_ns: u64,
    /// The part counted as latency, in the histogram's unit.
    pub shift: u64,
    /// The smallest bucket whose average latency stays in it despite the shift.
    pub from_bucket: usize,
}

impl ProbeCost {
    /// T08 section 8.2: bucket i's average latency is 3/2 · 2^i. It stays in its bucket if, with the shift, it is below
    /// 2^(i+1): if twice the shift is below 2^i.
    pub fn new(per_call_ns: u64, shift: u64) -> Self {
        let from_bucket = (u128::BITS - (2 * u128::from(shift)).leading_zeros()) as usize;
        Self { per_call_ns, shift, from_bucket }
    }
}

/// A function's probes were removed since they took more than their budget.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RemovedProbes {
    /// Calls were counted until then.
    pub after: Duration,
    /// The calls until then, in all processes.
    pub calls: u64,
    /// The probes' time for each, ns.
    pub per_call_ns: u64,
    /// The probes' part of the machine's time until then, from 0 to 1.
    pub share: f64,
    /// The allowed part.
    pub budget: f64,
}

/// Other processes that have a probed file mapped: its probes stand there too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherProcesses {
    /// Their number when counting began; at least 1.
    pub processes: usize,
    /// The file, as these processes see it.
    pub file: PathBuf,
    /// The extra time for each call there, ns; `None` where it could not be measured.
    pub per_call_ns: Option<u64>,
}

/// The latencies in a time slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeSlice {
    /// The slice's start, since the beginning.
    pub from: Duration,
    /// The slice's end, since the beginning.
    pub to: Duration,
    /// Its latencies, in the same unit as the whole.
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
            // T08 section 8.2, literally, but doubled for whole numbers.
            let stays = |bucket: usize| 3 * (1_u128 << bucket) + 2 * u128::from(shift) < 4 << bucket;
            assert!(stays(expected) && (0..expected).all(|bucket| !stays(bucket)), "{shift} ns");
        }
    }
}
