//! Loads the BPF programs, drains their buffers, runs a session.
//!
//! The only crate that loads BPF. It turns what the kernel does into a recording on disk and draws
//! no conclusion from it. One thread does it all: it sleeps, wakes rarely, copies the rings' bytes
//! into CTF packets and sleeps again; it is never woken by a record.

mod child;
mod clocks;
mod doctor;
mod mappings;
mod names;
mod programs;
mod rights;
mod rings;
mod sampling;
mod session;
mod signals;
mod skeleton;

use std::ffi::OsString;
use std::io;
use std::time::Duration;

pub use child::{Identity, Running, exit_code};
pub use doctor::{Check, Verdict, examine};
pub use names::cgroup_paths;
pub use programs::Missing;
pub use rights::drop_capabilities;
pub use session::{EndReason, GRACE, Outcome, record};
pub use signals::Signals;
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

impl Default for Options {
    fn default() -> Self {
        Self {
            sched_ring_bytes: 8 << 20,
            net_ring_bytes: 2 << 20,
            life_bytes: 8 << 20,
            calls: true,
            samples_per_second: 99,
            duration: None,
            command: Vec::new(),
            targets: Vec::new(),
            caller: None,
            as_root: false,
        }
    }
}

impl Options {
    fn wants(&self, program: &str) -> bool {
        match program {
            "sample" => self.samples_per_second > 0,
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
    #[error("cannot give up rights after attaching: {source}")]
    Rights { source: io::Error },
    #[error(transparent)]
    Write(#[from] WriteError),
}
