//! A session's errors.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use wakepath_recording::WriteError;

/// The reason why recording or counting could not begin, or ended early.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages explain each")]
pub enum Error {
    #[error("cannot read the kernel's type information, `/sys/kernel/btf/vmlinux`: {source}")]
    NoBtf { source: io::Error },
    #[error("this kernel has no tracepoint `{name}`, and no wait can be explained without it")]
    NoTracepoint { name: String },
    #[error("cannot load the BPF programs: {source}")]
    Load { source: io::Error },
    #[error("cannot attach `{name}`: {source}")]
    Attach { name: String, source: io::Error },
    #[error("cannot map the buffers: {source}")]
    MapRings { source: io::Error },
    #[error("cannot list the existing threads: {source}")]
    Snapshot { source: io::Error },
    #[error("the embedded BPF object lacks `{0}`")]
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
        "this kernel does not allow BPF programs at its functions: {why}; they need Linux 5.19 or later, built with \
         CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS, and no security policy that forbids them"
    )]
    NoKernelProbes { why: String },
    #[error("cannot put a probe on the kernel's `{name}`: {source}")]
    KernelProbe { name: String, source: io::Error },
    #[error("cannot count the processor's cycles here: {source}")]
    Cycles { source: io::Error },
    #[error("cannot read the counts: {source}")]
    Counts { source: io::Error },
    #[error("cannot drop privileges after attaching: {source}")]
    Rights { source: io::Error },
    #[error("cannot measure calls by code in the process: {0}")]
    Stubs(#[from] wakepath_inject::Error),
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl Error {
    /// Whether this kernel's verifier refused a program, which no right changes. Without the rights to load programs
    /// the error would be EPERM.
    pub fn is_refusal_of_a_program(&self) -> bool {
        matches!(self, Self::Load { source } if source.raw_os_error() == Some(libc::EACCES))
    }
}
