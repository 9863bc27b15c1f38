//! The options of counting: targets, threads, duration.

use std::ffi::OsString;
use std::time::Duration;

use wakepath_distribution::GroupBy;
use wakepath_functions::Probe;

use crate::kernel_probes::KernelFunction;

/// Number of targets at once, at most: `WP_TARGETS` of `bpf/latency.h` without the one of calibration.
pub const MAX_TARGETS: usize = 63;
/// Number of targets that are disks, at most: `WP_DISK_TARGETS`.
pub const MAX_DISKS: usize = 4;

/// A target: latencies that are counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Counted {
    /// Calls of a system call, by its number.
    Call(u32),
    /// Waits for a CPU.
    RunQueue,
    /// Waits for locks in user space: futexes.
    UserLock,
    /// Waits for the kernel's sleeping locks.
    KernelLock,
    /// Requests of a block device (major << 20 | minor); `None` for all devices.
    Disk(Option<u32>),
    /// Calls of a user function.
    Function(Probe),
    /// Calls of a function of the kernel.
    KernelFunction(KernelFunction),
}

/// The options of counting.
#[derive(Debug, Clone, Default)]
pub struct LatencyOptions {
    /// The targets; at most [`MAX_TARGETS`].
    pub targets: Vec<Counted>,
    /// Count cycles of the processor's time-stamp counter instead of nanoseconds.
    pub in_cycles: bool,
    /// Grouping of the counts; `None` makes one total. A disk's requests cannot be grouped.
    pub by: Option<GroupBy>,
    /// The processes to count, with those that they start; all processes if there are none and no command.
    pub processes: Vec<u32>,
    /// The command to run, with its arguments.
    pub command: Vec<OsString>,
    /// The user who called sudo: the command runs as that user.
    pub caller: Option<wakepath_caller::Caller>,
    /// Run the command as root nevertheless.
    pub as_root: bool,
    /// Stop after this long.
    pub duration: Option<Duration>,
    /// The interval at which the counts are read; `None` for only at the end.
    pub every: Option<Duration>,
}

impl LatencyOptions {
    /// Whether latencies of all processes are counted.
    pub(crate) fn everyone(&self) -> bool {
        self.processes.is_empty() && self.command.is_empty()
    }
}
