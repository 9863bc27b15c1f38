//! The errors for latencies from a recording.

use crate::QueryError;
use crate::latency::TargetError;

/// The maximum number of time slices over all targets.
pub const MAX_SLICES: u64 = 100_000;

/// The error when a recording does not answer.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum RecordedLatencyError {
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error("`{0}` has no latencies in this recording")]
    Nothing(String),
    #[error("no calls of `{0}` were recorded, nor of any other function")]
    NoCalls(String),
    #[error("a recording does not hold where system calls begin and end, only the waits in them")]
    SystemCall(String),
    #[error("there are no spans")]
    NoSpans,
    #[error("no program's own marks were recorded")]
    NoMarks,
    #[error(
        "the programs' own marks are not read: the trace does not show that their clock is the kernel trace's"
    )]
    MarksApart,
    #[error("segments belong to the path of a thread: choose the threads")]
    NoThreads,
    #[error("{slices} time slices are too many: at most {MAX_SLICES} are shown")]
    TooManySlices { slices: u64 },
    #[error(transparent)]
    Query(#[from] QueryError),
}
