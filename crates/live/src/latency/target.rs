//! A target for live counting.

use std::path::PathBuf;

use wakepath_collect::Counted;
use wakepath_functions::Function;

use super::LatencySource;
use wakepath_engine::latency::target::LockKind;

/// A target that this machine can count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LiveTarget {
    pub name: String,
    pub source: LatencySource,
    pub counted: Counted,
    /// The file of a user function, as processes see it.
    pub file: Option<PathBuf>,
    /// The user function.
    pub function: Option<Function>,
    pub notes: Vec<String>,
}

impl LiveTarget {
    pub(super) fn new(name: impl Into<String>, source: LatencySource, counted: Counted) -> Self {
        Self { name: name.into(), source, counted, file: None, function: None, notes: Vec::new() }
    }

    pub(super) fn lock(kind: LockKind) -> Self {
        let (name, counted) = match kind {
            LockKind::User => ("lock:user", Counted::UserLock),
            LockKind::Kernel => ("lock:kernel", Counted::KernelLock),
        };
        Self::new(name, LatencySource::LockWaits, counted)
    }
}
