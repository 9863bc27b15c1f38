//! The Go programs for a recording under way. `live` finds them.

use std::path::PathBuf;
use std::time::Duration;

/// The sentence for a Go program whose goroutines are not seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoRefused {
    /// The path to the program's file.
    pub path: PathBuf,
    /// The reason.
    pub why: String,
}

/// The Go programs among the command and the processes that run as a recording begins.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GoPrograms {
    /// The files whose goroutines are recorded.
    pub probed: Vec<PathBuf>,
    /// Whether the probes see only where spans begin.
    pub spans_alone: bool,
    /// Requested programs that cannot be recorded.
    pub refused: Vec<GoRefused>,
    /// Running files left out, since only others were requested.
    pub left_alone: Vec<PathBuf>,
}

/// New Go programs that started while a session recorded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GoStarted {
    /// Whether the probes see only where spans begin.
    pub spans_alone: bool,
    /// The files whose goroutines are recorded, each with the time from its start to its probes: before, they are not known.
    pub probed: Vec<(PathBuf, Duration)>,
    /// Requested programs that cannot be recorded.
    pub refused: Vec<GoRefused>,
    /// The files left out, since only others were requested.
    pub left_alone: Vec<PathBuf>,
    /// The files of programs that ended, or became another program, before there were probes.
    pub ended: Vec<PathBuf>,
}
