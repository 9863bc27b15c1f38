//! Thread states proved by a trace itself, beside the tool's states for the same LTTng trace.
//!
//! The reference shares nothing with the tool: another reader prints the events, and a replay of the scheduler's events
//! alone shows when each thread ran, could run, or was blocked.

mod compare;
mod events;
mod replay;

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use wakepath_runner::document;

pub use compare::{HEAD, Said, Thread, ThreadVerdict, line, row};
pub use replay::Proved;

/// Compares all threads in an LTTng kernel trace: a directory with its `metadata`, there or in folders below.
///
/// # Errors
///
/// If babeltrace2 or the tool fails, cannot be run, or prints unreadable output.
pub fn compare(wakepath: &Path, trace: &Path) -> Result<Vec<Thread>> {
    let events = events::read(trace)?;
    ensure!(!events.is_empty(), "`{}` has no scheduler events", trace.display());
    let overview: compare::Overview =
        document(Command::new(wakepath).args(["path", "--all", "--json"]).arg(trace))?;
    let proved = replay::replay(&events, overview.window()?);
    Ok(compare::compare(&proved, &overview))
}
