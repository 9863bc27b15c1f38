//! A recording's summary.

use std::collections::BTreeMap;

use wakepath_event::{Comm, Tid};
use wakepath_loaded::CommandLine;

use crate::head::head;
use crate::{Head, Recorded};

/// A recording's summary.
#[derive(Debug)]
pub struct InfoAnswer<'r> {
    /// The part that all answers have.
    pub head: Head,
    /// The number of processes seen.
    pub processes: usize,
    /// Processes whose threads publish a context that was never readable, each with its name.
    pub unread_contexts: Vec<(Tid, Option<Comm>)>,
    /// The command lines that the user asked for, in time order.
    pub command_lines: Vec<CommandLine<'r>>,
    /// The recording, for everything else.
    pub recorded: &'r Recorded,
}

/// Returns a recording's summary.
pub fn info(recorded: &Recorded) -> InfoAnswer<'_> {
    let graph = &recorded.graph;
    let mut processes: Vec<_> = graph.threads().filter_map(|(_, thread)| thread.tgid()).collect();
    processes.sort_unstable();
    processes.dedup();
    InfoAnswer {
        // All losses, also before the sources were attached.
        head: head(recorded, graph.from(), graph.to()),
        processes: processes.len(),
        unread_contexts: unread_contexts(recorded),
        command_lines: recorded.names().command_lines(),
        recorded,
    }
}

fn unread_contexts(recorded: &Recorded) -> Vec<(Tid, Option<Comm>)> {
    let mut were_read: BTreeMap<Tid, bool> = BTreeMap::new();
    for tid in recorded.survey.contexts.threads() {
        let is_read = recorded.survey.contexts.were_read(tid);
        for &thread in recorded.with_tid(tid) {
            if let Some(process) = recorded.graph.thread(thread).tgid() {
                *were_read.entry(process).or_default() |= is_read;
            }
        }
    }
    let unread = were_read.into_iter().filter(|(_, is_read)| !is_read);
    unread.map(|(process, _)| (process, recorded.process_comm(process, recorded.graph.to()))).collect()
}
