//! The Go programs of a recording that is made. `live` finds them.

use std::path::PathBuf;
use std::time::Duration;

/// The sentence for a Go program whose goroutines are not seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoRefused {
    /// The path of the program's file.
    pub path: PathBuf,
    /// The reason.
    pub why: String,
}

/// The Go programs among the command and the processes that run as a recording begins.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GoPrograms {
    /// The files whose goroutines are recorded.
    pub probed: Vec<PathBuf>,
    /// Programs asked about that cannot be recorded.
    pub refused: Vec<GoRefused>,
    /// The files that run and are left out, since only others are asked about.
    pub left_alone: Vec<PathBuf>,
}

/// New Go programs that started while a session recorded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GoStarted {
    /// The files whose goroutines are recorded, each with the time from its start to its probes: before, they are not known.
    pub probed: Vec<(PathBuf, Duration)>,
    /// Programs asked about that cannot be recorded.
    pub refused: Vec<GoRefused>,
    /// The files left out, since only others are asked about.
    pub left_alone: Vec<PathBuf>,
    /// The files of programs that had ended, or had become another program, before there were probes.
    pub ended: Vec<PathBuf>,
}
