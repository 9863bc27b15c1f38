//! The abilities of this machine with these rights; only where the collector is built in.

pub use wakepath_collect::{Check, Verdict};

/// Tries all that recording with its defaults does, and leaves nothing running.
pub fn examine() -> Vec<Check> {
    wakepath_collect::examine(&wakepath_collect::Options::default())
}
