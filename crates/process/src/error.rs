//! The reasons why a process cannot be read.

use std::io;

/// A process's file could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.message())]
pub struct Error {
    /// The process.
    pub pid: u32,
    /// The file below `/proc/PID`; empty for the directory itself.
    pub file: String,
    /// The reason.
    pub kind: Kind,
    /// The system call's error, as the source.
    source: io::Error,
}

/// The kind of reason why a process could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The process or thread has ended, or runs another program, to which the memory does not belong.
    Gone,
    /// Rights are lacking.
    NoRights,
    /// No kernel writes such a text.
    Malformed {
        /// The first wrong line, from 1.
        line: usize,
    },
    /// The process has no memory at this address, or less than asked for.
    Unmapped {
        /// The address.
        address: u64,
    },
    /// Another error.
    Other,
}

impl Error {
    pub(crate) fn new(pid: u32, file: &str, source: io::Error, is_gone: bool) -> Self {
        let kind = match source.kind() {
            io::ErrorKind::PermissionDenied => Kind::NoRights,
            _ if is_gone || source.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {
                Kind::Gone
            }
            _ => Kind::Other,
        };
        Self { pid, file: file.to_owned(), kind, source }
    }

    pub(crate) fn malformed(pid: u32, file: &str, line: usize) -> Self {
        let (kind, source) = (Kind::Malformed { line }, io::ErrorKind::InvalidData.into());
        Self { pid, file: file.to_owned(), kind, source }
    }

    /// The memory of an ended program reads as an empty file.
    pub(crate) fn memory_access(pid: u32, address: u64, source: io::Error) -> Self {
        let kind = match source.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::WriteZero => Kind::Gone,
            _ => Kind::Unmapped { address },
        };
        Self { pid, file: String::from("mem"), kind, source }
    }

    fn message(&self) -> String {
        let Self { pid, file, kind, source } = self;
        match kind {
            Kind::Gone => format!("process {pid} has ended"),
            Kind::NoRights | Kind::Other => format!("cannot open or read `/proc/{pid}/{file}`: {source}"),
            Kind::Malformed { line } => format!("`/proc/{pid}/{file}` is malformed at line {line}"),
            Kind::Unmapped { address } => format!("process {pid} has no memory at {address:#x}: {source}"),
        }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        match error.kind {
            Kind::Malformed { .. } => Self::new(io::ErrorKind::InvalidData, error),
            _ => error.source,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_its_kind_its_file_and_the_error_of_the_kernel() {
        let of_kernel = |errno: rustix::io::Errno| io::Error::from_raw_os_error(errno.raw_os_error());
        use rustix::io::Errno;
        for (error, kind, text) in [
            (Error::new(7, "", of_kernel(Errno::NOENT), true), Kind::Gone, "process 7 has ended"),
            (Error::new(7, "maps", of_kernel(Errno::SRCH), false), Kind::Gone, "process 7 has ended"),
            (
                Error::new(7, "exe", of_kernel(Errno::NOENT), false),
                Kind::Other,
                "cannot open or read `/proc/7/exe`: No such file or directory (os error 2)",
            ),
            (
                Error::new(7, "mem", of_kernel(Errno::ACCESS), true),
                Kind::NoRights,
                "cannot open or read `/proc/7/mem`: Permission denied (os error 13)",
            ),
            (
                Error::malformed(7, "maps", 3),
                Kind::Malformed { line: 3 },
                "`/proc/7/maps` is malformed at line 3",
            ),
            (
                Error::memory_access(7, 0x1000, of_kernel(Errno::IO)),
                Kind::Unmapped { address: 0x1000 },
                "process 7 has no memory at 0x1000: Input/output error (os error 5)",
            ),
            (
                Error::memory_access(7, 1, io::ErrorKind::UnexpectedEof.into()),
                Kind::Gone,
                "process 7 has ended",
            ),
            (Error::memory_access(7, 1, io::ErrorKind::WriteZero.into()), Kind::Gone, "process 7 has ended"),
        ] {
            let number = error.source.raw_os_error();
            assert_eq!((error.kind, error.to_string().as_str()), (kind, text));
            let passed_on = io::Error::from(error);
            assert_eq!(passed_on.raw_os_error(), number, "{text}");
            let is_malformed = matches!(kind, Kind::Malformed { .. });
            assert_eq!(passed_on.to_string() == text, is_malformed, "what the kernel does not say itself");
        }
    }
}
