//! Loads the BPF programs, drains their buffers, runs a session.
//!
//! The only crate that loads BPF. It turns what the kernel does into a recording on disk and draws
//! no conclusion from it. One thread sleeps, wakes rarely, takes the rings' bytes and sleeps again; it is
//! never woken by a record. What may wait for a disk is done behind it, by threads of their own: writing
//! the recording, and reading which files processes have mapped.

mod child;
mod clocks;
mod doctor;
mod kernel_probes;
mod latency;
mod mappings;
mod names;
mod probes;
mod programs;
mod rights;
mod rings;
mod sampling;
mod session;
mod signals;
mod skeleton;
mod steal;
mod watch;
mod write_behind;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

pub use child::{Identity, Running, exit_code};
pub use doctor::{Check, Verdict, examine};
pub use kernel_probes::{KernelFunction, KernelTypes};
pub use latency::{
    Calibration, Counted, Counts, Group, Groups, LatencyOptions, LatencyOutcome, MAX_DISKS, MAX_TARGETS,
    Part, Reading, calibrate, count, try_kernel_functions,
};
pub use names::cgroup_paths;
pub use programs::Missing;
pub use rights::drop_capabilities;
pub use session::{EndReason, GRACE, Outcome, record};
pub use signals::Signals;
use wakepath_functions::{Probe, Runtime};
use wakepath_recording::WriteError;

/// What to record and for how long.
#[derive(Debug, Clone)]
pub struct Options {
    /// Bytes a CPU for switches and wakings; a power of two.
    pub sched_ring_bytes: usize,
    /// Bytes a CPU for packets; a power of two.
    pub net_ring_bytes: usize,
    /// Bytes for rare records of all CPUs; a power of two and a multiple of the page size.
    pub life_bytes: usize,
    /// At blocking switches, the system call and its first argument, and futex words.
    pub calls: bool,
    /// Stacks of running threads; 0 for none.
    pub samples_per_second: u32,
    /// Stacks at blocking switch-outs and wakings by threads.
    pub stacks: Stacks,
    /// Functions of which each call is recorded, with their names.
    pub functions: Vec<(String, Probe)>,
    /// Functions of the kernel of which each call is recorded, with their names as targets.
    pub kernel_functions: Vec<(String, KernelFunction)>,
    /// Stop after this long.
    pub duration: Option<Duration>,
    /// The command to run and its arguments; none records until the duration ends or a signal comes.
    pub command: Vec<OsString>,
    /// Processes that the session asks about.
    pub targets: Vec<u32>,
    /// Who called sudo: the command runs as that user, and so does the recorder once it is attached.
    pub caller: Option<Identity>,
    /// The command runs as root all the same.
    pub as_root: bool,
}

/// Which stacks are taken at switch-outs and wakings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stacks {
    /// None.
    None,
    /// All, but what looks as it did before is taken to be what it was, and now and then checked.
    Remembered,
    /// All, each anew, at many times the cost.
    Each,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            sched_ring_bytes: 8 << 20,
            net_ring_bytes: 4 << 20,
            life_bytes: 8 << 20,
            calls: true,
            samples_per_second: 99,
            stacks: Stacks::None,
            functions: Vec::new(),
            kernel_functions: Vec::new(),
            duration: None,
            command: Vec::new(),
            targets: Vec::new(),
            caller: None,
            as_root: false,
        }
    }
}

impl Options {
    /// The least and the most that [`Self::set_buffer`] takes, bytes a CPU.
    pub const BUFFER: std::ops::RangeInclusive<usize> = 16 << 10..=1 << 30;

    /// Sizes all buffers by that for switches and wakings, bytes a CPU, and returns what it is rounded up
    /// to: a power of two. Packets get half as much a CPU, everything rarer as much for all CPUs.
    pub fn set_buffer(&mut self, bytes: usize) -> usize {
        let bytes = bytes.clamp(*Self::BUFFER.start(), *Self::BUFFER.end()).next_power_of_two();
        self.sched_ring_bytes = bytes;
        self.net_ring_bytes = bytes / 2;
        self.life_bytes = bytes;
        bytes
    }

    /// Functions are probed in whatever process.
    fn everyone(&self) -> bool {
        self.targets.is_empty() && self.command.is_empty()
    }

    fn records_functions(&self) -> bool {
        !self.functions.is_empty() || !self.kernel_functions.is_empty()
    }

    fn wants(&self, program: &str) -> bool {
        match program {
            "sample" => self.samples_per_second > 0,
            "goroutines_exit" | "goroutines_exec" => {
                self.functions.iter().any(|(_, probe)| probe.runtime == Runtime::Go)
            }
            "function_enter" | "function_return" | "function_leave" | "function_exec" => {
                !self.functions.is_empty()
            }
            "kernel_enter" | "kernel_leave" => !self.kernel_functions.is_empty(),
            "function_exit" => self.records_functions(),
            "follow_fork" | "follow_free" => self.records_functions() && !self.everyone(),
            _ => true,
        }
    }
}

/// Why a session could not be.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum Error {
    #[error("cannot read the kernel's type information, `/sys/kernel/btf/vmlinux`: {source}")]
    NoBtf { source: io::Error },
    #[error("this kernel has no tracepoint `{name}`, and nothing can be told without it")]
    NoTracepoint { name: String },
    #[error("cannot load the BPF programs: {source}")]
    Load { source: io::Error },
    #[error("cannot attach `{name}`: {source}")]
    Attach { name: String, source: io::Error },
    #[error("cannot map the buffers: {source}")]
    MapRings { source: io::Error },
    #[error("cannot list the threads that live now: {source}")]
    Snapshot { source: io::Error },
    #[error("the embedded BPF object is not as expected: {0}")]
    Skeleton(&'static str),
    #[error("there is no process {pid}")]
    NoProcess { pid: u32 },
    #[error("cannot start the command: {source}")]
    Fork { source: io::Error },
    #[error("command not found: {}", command.to_string_lossy())]
    CommandNotFound { command: OsString },
    #[error("cannot run {}: {source}", command.to_string_lossy())]
    Exec { command: OsString, source: io::Error },
    #[error("cannot put a probe at byte {offset} of `{}`: {source}", file.display())]
    Probe { file: PathBuf, offset: u64, source: io::Error },
    #[error(
        "this kernel lets no program be put at its functions: {why}; that takes Linux 5.19 or later, built with CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS, and nothing that forbids it"
    )]
    NoKernelProbes { why: String },
    #[error("cannot put a probe on the kernel's `{name}`: {source}")]
    KernelProbe { name: String, source: io::Error },
    #[error("the processor's cycles cannot be counted here: {source}")]
    Cycles { source: io::Error },
    #[error("cannot read the counts: {source}")]
    Counts { source: io::Error },
    #[error("cannot give up rights after attaching: {source}")]
    Rights { source: io::Error },
    #[error(transparent)]
    Write(#[from] WriteError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_powers_of_two_and_no_less_than_was_asked_for() {
        for (asked, given) in [(0, 16 << 10), (16 << 10, 16 << 10), (100_000, 128 << 10), (3 << 20, 4 << 20)]
        {
            let mut options = Options::default();
            assert_eq!(options.set_buffer(asked), given);
            assert_eq!((options.sched_ring_bytes, options.net_ring_bytes), (given, given / 2));
            assert!(options.life_bytes.is_power_of_two() && options.life_bytes.is_multiple_of(4096));
        }
        let (mut options, default) = (Options::default(), Options::default());
        options.set_buffer(default.sched_ring_bytes);
        assert_eq!(options.net_ring_bytes, default.net_ring_bytes, "the default is a size like any other");
        assert_eq!(options.life_bytes, default.life_bytes);
    }
}
