//! The summary of a recording.

use std::collections::BTreeMap;

use wakepath_clock::{Reference, Stamp};

use crate::head::head;
use crate::{Head, Recorded};

/// The summary of a recording.
#[derive(Debug)]
pub struct InfoAnswer<'r> {
    /// The part that all answers have.
    pub head: Head,
    /// When recording began.
    pub from: Stamp<Reference>,
    /// When it ended.
    pub to: Stamp<Reference>,
    /// How many events, by kind.
    pub events: BTreeMap<&'static str, u64>,
    /// How many threads were seen.
    pub threads: usize,
    /// How many processes.
    pub processes: usize,
    /// How many CPUs were seen.
    pub cpus: usize,
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
        from: recorded.from(),
        to: recorded.to(),
        events: recorded.survey.counts.by_name(),
        threads: graph.threads().len(),
        processes: processes.len(),
        cpus: graph.cpus().count(),
        recorded,
    }
}
