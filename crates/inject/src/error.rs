//! Errors, and the reasons to leave a process alone.

use std::io;

use wakepath_process::Kind;

/// The reason why a process gets no stubs. The process is unchanged.
#[derive(Debug, thiserror::Error, PartialEq, Eq, Clone)]
pub enum Refusal {
    /// The stubs' clock may change its speed or stand still.
    #[error(
        "the time stamp counter of this CPU does not run at one speed all the time (constant_tsc, nonstop_tsc)"
    )]
    Clock,
    /// A 32-bit program.
    #[error("process {pid} runs 32-bit code")]
    Narrow {
        /// The process.
        pid: u32,
    },
    /// A thread's own address cannot be read without a system call.
    #[error("this CPU or kernel does not let programs read their thread pointer (FSGSBASE, Linux 5.9)")]
    ThreadPointer,
    /// A debugger traces the process.
    #[error("process {pid} is traced by process {tracer} already")]
    Traced {
        /// The process.
        pid: u32,
        /// The tracer.
        tracer: u32,
    },
    /// Another wakepath measures the process.
    #[error("process {owner} measures process {pid} in this way already")]
    Owned {
        /// The process.
        pid: u32,
        /// The process that put code into it.
        owner: u32,
    },
    /// No thread could run a system call for us unnoticed.
    #[error(
        "no thread of process {pid} could be asked for memory: each is in a system call that a stop would end early"
    )]
    NoThread {
        /// The process.
        pid: u32,
    },
    /// A system call made for us failed.
    #[error(
        "system call {number}, which process {pid} made for us, failed: {source}",
        source = io::Error::from_raw_os_error(*errno)
    )]
    SystemCall {
        /// The process.
        pid: u32,
        /// The system call's number.
        number: i64,
        /// The error number, positive.
        errno: i32,
    },
    /// The process gets no memory.
    #[error("process {pid} gets no memory from the kernel: {source}", source = io::Error::from_raw_os_error(*errno))]
    NoMemory {
        /// The process.
        pid: u32,
        /// The error number, positive.
        errno: i32,
    },
    /// System calls are filtered (seccomp), and the filter cannot be suspended for ours.
    #[error(
        "the system calls of process {pid} are filtered (seccomp), and this kernel does not set a filter aside for a moment"
    )]
    Filtered {
        /// The process.
        pid: u32,
    },
    /// No `syscall` instruction was found.
    #[error("process {pid} has no vDSO, from which system calls are made")]
    NoVdso {
        /// The process.
        pid: u32,
    },
}

/// The reason why a process could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The process is refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The process ended.
    #[error("process {pid} has ended")]
    Ended {
        /// The process.
        pid: u32,
    },
    /// A system call failed.
    #[error("{what} of process {pid}: {source}")]
    System {
        /// The attempt.
        what: &'static str,
        /// The process.
        pid: u32,
        /// The reason.
        source: io::Error,
    },
}

impl From<wakepath_process::Error> for Error {
    fn from(error: wakepath_process::Error) -> Self {
        let what = match (error.kind, error.file.as_str()) {
            (Kind::Gone, _) => return Self::Ended { pid: error.pid },
            (Kind::Unmapped { .. }, _) => "an address in the memory",
            (_, "mem") => "the memory",
            (_, "maps") => "the mappings",
            _ => "the state",
        };
        Self::System { what, pid: error.pid, source: error.into() }
    }
}

impl Error {
    /// A failed attempt; for a process that is gone, [`Error::Ended`].
    pub(crate) fn of(what: &'static str, pid: u32, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::ESRCH) => Self::Ended { pid },
            _ => Self::System { what, pid, source },
        }
    }
}
