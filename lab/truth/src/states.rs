//! The states of threads that a trace itself proves, beside those that the tool gives: both for the same LTTng trace.
//!
//! The reference shares nothing with the tool: another reader prints the events, and a replay of the scheduler's events
//! alone says when each thread ran, could run, or was blocked.

mod compare;
mod events;
mod replay;

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use wakepath_runner::document;

pub use compare::{HEAD, Said, Thread, Verdict, line, row};
pub use replay::Proved;

/// Compares all threads of a trace: of one LTTng kernel trace, a directory with its `metadata`.
///
/// # Errors
///
/// If babeltrace2 or the tool fails, or cannot be run, or prints what cannot be read.
pub fn compare(wakepath: &Path, trace: &Path) -> Result<Vec<Thread>> {
    let events = events::read(trace)?;
    ensure!(!events.is_empty(), "`{}` has no scheduler events", trace.display());
    let overview: compare::Overview =
        document(Command::new(wakepath).args(["path", "--all", "--json"]).arg(trace))?;
    let proved = replay::replay(&events, overview.window()?);
    Ok(compare::compare(&proved, &overview))
}
