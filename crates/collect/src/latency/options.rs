//! The options for counting: targets, threads, duration.

use std::ffi::OsString;
use std::time::Duration;

use wakepath_distribution::GroupBy;
use wakepath_functions::Probe;

use crate::kernel_probes::KernelFunction;

/// The most targets at once besides system calls: `MAX_FUNCTIONS` in `bpf/function.bpf.h`, less calibration's.
pub const MAX_TARGETS: usize = 63;
/// System calls have numbers below this: `WP_CALLS` in `bpf/latency.h`.
pub const MAX_CALLS: usize = 512;
/// The most disk targets: `WP_DISK_TARGETS`.
pub const MAX_DISKS: usize = 4;

/// A target whose latencies are counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Counted {
    /// Calls of a system call, by its number.
    Call(u32),
    /// Waits for a CPU.
    RunQueue,
    /// Waits for user-space locks: futexes.
    UserLock,
    /// Waits for the kernel's sleeping locks.
    KernelLock,
    /// A block device's requests (major << 20 | minor); `None` for all devices.
    Disk(Option<u32>),
    /// A user function's calls.
    Function(Probe),
    /// A kernel function's calls.
    KernelFunction(KernelFunction),
}

/// The options for counting.
#[derive(Debug, Clone, Default)]
pub struct LatencyOptions {
    /// The targets: at most [`MAX_TARGETS`], and system calls behind them.
    pub targets: Vec<Counted>,
    /// Count cycles of the time-stamp counter instead of nanoseconds.
    pub in_cycles: bool,
    /// Grouping of the counts; `None` makes one total. A disk's requests cannot be grouped.
    pub by: Option<GroupBy>,
    /// The processes to count, with those that they start; all processes if there are none and no command.
    pub processes: Vec<u32>,
    /// The command to run, with its arguments.
    pub command: Vec<OsString>,
    /// The user who called sudo: the command runs as this user.
    pub caller: Option<wakepath_caller::Caller>,
    /// Run the command as root nevertheless.
    pub as_root: bool,
    /// The time after which counting stops.
    pub duration: Option<Duration>,
    /// The interval at which the counts are read; `None` for only at the end.
    pub every: Option<Duration>,
    /// Single-stepped probes are removed above this share in all CPUs' time, from 0 to 1; `None`: never.
    pub budget: Option<f64>,
}

impl LatencyOptions {
    /// Whether latencies in all processes are counted.
    pub(crate) fn everyone(&self) -> bool {
        self.processes.is_empty() && self.command.is_empty()
    }
}
