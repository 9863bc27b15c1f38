//! Errors, and the reasons for which a process or a site is left alone.

use std::io;

use wakepath_process::Kind;

/// The reason why nothing is put into a process. Nothing of it was changed.
#[derive(Debug, thiserror::Error, PartialEq, Eq, Clone)]
pub enum Refusal {
    /// The clock that stubs read may change its speed or stand still.
    #[error(
        "the time stamp counter of this CPU does not run at one speed all the time (constant_tsc, nonstop_tsc)"
    )]
    Clock,
    /// A program of 32 bits.
    #[error("process {pid} runs 32-bit code")]
    Narrow {
        /// The process.
        pid: u32,
    },
    /// A thread's own address cannot be read without a system call.
    #[error("this CPU or kernel does not let programs read their thread pointer (FSGSBASE, Linux 5.9)")]
    ThreadPointer,
    /// A debugger.
    #[error("process {pid} is traced by process {tracer} already")]
    Traced {
        /// The process.
        pid: u32,
        /// The one that traces it.
        tracer: u32,
    },
    /// Another wakepath.
    #[error("process {owner} measures process {pid} in this way already")]
    Owned {
        /// The process.
        pid: u32,
        /// The one that put code into it.
        owner: u32,
    },
    /// No thread could run a system call of ours unnoticed.
    #[error(
        "no thread of process {pid} could be asked for memory: each is in a system call that a stop would end early"
    )]
    NoThread {
        /// The process.
        pid: u32,
    },
    /// A system call that it made for us failed.
    #[error(
        "system call {number}, which process {pid} made for us, failed: {source}",
        source = io::Error::from_raw_os_error(*errno)
    )]
    SystemCall {
        /// The process.
        pid: u32,
        /// The number of the call.
        number: i64,
        /// The error number, positive.
        errno: i32,
    },
    /// The process may not get memory.
    #[error("process {pid} gets no memory from the kernel: {source}", source = io::Error::from_raw_os_error(*errno))]
    NoMemory {
        /// The process.
        pid: u32,
        /// The error number, positive.
        errno: i32,
    },
    /// System calls of the process are filtered, and the filter cannot be set aside for ours.
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

/// A process could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is refused.
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
    /// A failed attempt; a process that is gone is an end.
    pub(crate) fn of(what: &'static str, pid: u32, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::ESRCH) => Self::Ended { pid },
            _ => Self::System { what, pid, source },
        }
    }
}
