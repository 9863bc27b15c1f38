//! This machine's abilities with the current rights; only where the collector is built in.

pub use wakepath_collect::{Check, Verdict};

/// Tries all steps of a default recording, and leaves nothing running.
pub fn examine() -> Vec<Check> {
    wakepath_collect::examine(&wakepath_collect::Options::default())
}
