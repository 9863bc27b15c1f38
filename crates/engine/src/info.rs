//! The summary of a recording.

use crate::head::head;
use crate::{Head, Recorded};

/// The summary of a recording.
#[derive(Debug)]
pub struct InfoAnswer<'r> {
    /// The part that all answers have.
    pub head: Head,
    /// How many processes were seen.
    pub processes: usize,
    /// The rest.
    pub recorded: &'r Recorded,
}

/// Returns the summary of a recording.
pub fn info(recorded: &Recorded) -> InfoAnswer<'_> {
    let graph = &recorded.graph;
    let mut processes: Vec<_> = graph.threads().filter_map(|(_, thread)| thread.tgid()).collect();
    processes.sort_unstable();
    processes.dedup();
    InfoAnswer {
        // Losses of all time, also before the sources were attached.
        head: head(recorded, graph.from(), graph.to()),
        processes: processes.len(),
        recorded,
    }
}
