//! Why a recording cannot be written.

use std::io;
use std::path::{Path, PathBuf};

use crate::RotateError;

/// Why a recording cannot be written, or not continued.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum WriteError {
    #[error("{} is in the way: a recording is written to a new directory, or to an empty one of your own", .0.display())]
    InTheWay(PathBuf),
    #[error("no space left to write {}", .0.display())]
    DiskFull(PathBuf),
    #[error("the recording has reached its limit of {limit} bytes")]
    SizeLimit { limit: u64 },
    #[error("a recording of {bytes} bytes is larger than all that are kept may be together, {limit} bytes")]
    LargerThanAllKept { bytes: u64, limit: u64 },
    #[error("the spans have reached a quarter of the recording's largest size, {limit} bytes")]
    SpansLimit { limit: u64 },
    #[error("the execution trace of a Go program has reached its limit of {limit} bytes")]
    GoTraceLimit { limit: u64 },
    #[error("{}: a message of {bytes} bytes is too long for a frame", .path.display())]
    LargeFrame { path: PathBuf, bytes: usize },
    #[error(
        "the disk of {} has only {free} of {total} bytes free, and {least} are to stay so",
        .path.display()
    )]
    DiskReserve { path: PathBuf, free: u64, total: u64, least: u64 },
    #[error("{}: stamp {stamp} comes after stamp {after}", .path.display())]
    Backwards { path: PathBuf, stamp: u64, after: u64 },
    #[error("{}: a packet of {bytes} bytes in {chunks} pieces is not made of records", .path.display())]
    NotRecords { path: PathBuf, bytes: usize, chunks: usize },
    #[error(transparent)]
    Rotate(#[from] RotateError),
    #[error("no machine has a CPU {0}")]
    NoSuchCpu(u16),
    #[error("not a record of this stream: {0}")]
    Record(#[from] wakepath_kernel_records::DecodeError),
    #[error("{0}")]
    Event(#[from] wakepath_kernel_records::EncodeError),
    #[error("cannot write {}: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl WriteError {
    pub(crate) fn from_io(path: &Path, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull(path.to_owned()),
            _ => Self::Io { path: path.to_owned(), source },
        }
    }

    /// Whether room ran out: the records so far are good, and no more can be written.
    pub const fn is_out_of_room(&self) -> bool {
        matches!(
            self,
            Self::DiskFull(_)
                | Self::SizeLimit { .. }
                | Self::LargerThanAllKept { .. }
                | Self::SpansLimit { .. }
                | Self::GoTraceLimit { .. }
                | Self::DiskReserve { .. }
        )
    }
}
