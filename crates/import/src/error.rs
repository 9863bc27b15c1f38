//! Why another tracer's trace cannot be read at all.

use std::io;
use std::path::{Path, PathBuf};

use wakepath_ctf::stream::PlansError;
use wakepath_ctf::trace::TraceError;

/// Why a trace cannot be read at all.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum OpenError {
    #[error("cannot read {}: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
    /// The trace has another format, or an unsupported kind; `why` follows the path.
    #[error("{} {why}", .path.display())]
    Unsupported { path: PathBuf, why: String },
    #[error("{} at byte {offset}: {what}", .path.display())]
    Damaged { path: PathBuf, offset: u64, what: String },
    #[error(
        "{} holds no switches of threads (it holds {holds}), so that the waits of threads are not known: \
         record the switches with {record_with}", .path.display()
    )]
    NoSwitches { path: PathBuf, holds: String, record_with: &'static str },
    #[error(
        "{} holds traces of programs only (LTTng-UST), so that the waits of threads are not known: \
         record the kernel beside them: lttng enable-event --kernel sched_switch,sched_waking,sched_wakeup_new", .path.display()
    )]
    ProgramsOnly { path: PathBuf },
    #[error(transparent)]
    Metadata(#[from] TraceError),
    #[error("{}: {source}", .path.display())]
    Plans { path: PathBuf, source: PlansError },
}

impl OpenError {
    pub(crate) fn unsupported(path: &Path, why: impl Into<String>) -> Self {
        Self::Unsupported { path: path.to_owned(), why: why.into() }
    }

    pub(crate) fn big_endian(path: &Path) -> Self {
        Self::unsupported(
            path,
            "was recorded on a big-endian machine: only recordings of little-endian ones are read",
        )
    }

    /// The error for a trace without switches; the first names list its events.
    pub(crate) fn no_switches(path: &Path, mut names: Vec<String>, record_with: &'static str) -> Self {
        const MAX_COUNT: usize = 4;
        let more = names.len().saturating_sub(MAX_COUNT);
        names.truncate(MAX_COUNT);
        names.extend((more > 0).then(|| format!("{more} more")));
        let holds = if names.is_empty() { "no events".to_owned() } else { names.join(", ") };
        Self::NoSwitches { path: path.to_owned(), holds, record_with }
    }

    /// An operating system error about this file.
    pub(crate) fn io(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), source }
    }
}
