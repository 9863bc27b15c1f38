//! The errors of live counting.

use wakepath_collect::Error as CollectError;
use wakepath_functions::{FindError, TargetError as FunctionTargetError};

use wakepath_engine::latency::TargetError;

/// The error when counting could not begin.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum LiveLatencyError {
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error("`{0}` is counted only in a recording")]
    OnlyRecorded(String),
    #[error("`{0}` is a function of Python: only wakepath drill follows these")]
    OnlyDrilled(String),
    #[error("`{name}` is a function of this kernel, but its calls cannot be seen: {source}")]
    KernelFunction { name: String, source: CollectError },
    #[error("cannot probe the kernel's `{name}`: {why}")]
    KernelRefused { name: String, why: KernelRefusal },
    #[error("`kernel:{pattern}` matches {count} functions; at most {max} can be counted: narrow the pattern")]
    TooManyOfKernel { pattern: String, count: usize, max: usize },
    #[error("{asked} targets are too many: besides system calls, at most {max} can be counted at once")]
    TooMany { asked: usize, max: usize },
    #[error("`{0}` cannot be grouped: a disk request does not say which process it is for")]
    NotGrouped(String),
    #[error(transparent)]
    FunctionTarget(#[from] FunctionTargetError),
    #[error(transparent)]
    Find(#[from] FindError),
    #[error(transparent)]
    Collect(#[from] CollectError),
}

/// The reason not to probe a kernel function.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum KernelRefusal {
    #[error(
        "the compiler inlined or changed it, and only {} {} left, which does not see all of its calls; probe a caller",
        .left.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
        if .left.len() == 1 { "is" } else { "are" }
    )]
    Altered { left: Vec<String> },
    #[error("{0} functions have that name, and a probe cannot choose between them")]
    Several(usize),
    #[error("it belongs to the module `{0}`; only functions of the kernel itself can be probed")]
    OfModule(String),
    #[error("the kernel does not allow tracing it; probe a caller, or a function that it calls")]
    Untraceable,
    #[error("the kernel's type information does not describe its arguments, which a probe needs")]
    NoType,
}

impl LiveLatencyError {
    /// The reason why an existing function cannot be counted; `None` for other errors.
    pub(super) fn refusal(&self) -> Option<String> {
        match self {
            Self::Find(FindError::Refused(refusal)) => Some(refusal.why.to_string()),
            Self::KernelRefused { why, .. } => Some(why.to_string()),
            Self::KernelFunction { source, .. } => Some(source.to_string()),
            _ => None,
        }
    }
}
