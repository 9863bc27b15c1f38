//! Threads without a single window: what each did, and which of them to ask further about.
//!
//! Idleness (of a server between requests) and sleeps are never the longest wait of a thread. `findings` decides what
//! is one: a blocked thread is idle only where that is shown.

use wakepath_clock::{Reference, Stamp};
use wakepath_findings::{
    OpenWaits, Pools, ThreadTimes, ThreadsHeadline, open_waits_of_threads, thread_to_ask,
    threads as thread_times, threads_headline,
};
use wakepath_wait_graph::ThreadIndex;

use crate::code_names::code_names;
use crate::head::head;
use crate::query::Scope;
use crate::{Head, Recorded};

/// The times of threads between two stamps.
#[derive(Debug)]
pub struct Overview<'r> {
    /// The part that all answers have.
    pub head: Head,
    /// Which threads it is about.
    pub scope: Scope,
    /// From here on.
    pub from: Stamp<Reference>,
    /// Up to here.
    pub to: Stamp<Reference>,
    /// The threads, by how long they waited or could not run, the longest first.
    pub threads: Vec<ThreadTimes>,
    /// The waits of these threads that were open at the end, and their deadlocks that a signal ended in this time.
    pub open: OpenWaits,
    /// The rest of the recording.
    pub recorded: &'r Recorded,
}

impl Overview<'_> {
    /// The first thing to say about these threads.
    pub fn headline(&self) -> ThreadsHeadline {
        threads_headline(&self.open)
    }

    /// The thread to ask about first.
    pub fn thread_to_ask(&self) -> Option<ThreadIndex> {
        thread_to_ask(&self.open.still_waiting, &self.threads)
    }
}

/// Gathers what these threads did between `from` and `to`. The recorder's own threads are left out.
pub(crate) fn overview<'r>(
    recorded: &'r Recorded,
    scope: Scope,
    threads: &[ThreadIndex],
    from: Stamp<Reference>,
    to: Stamp<Reference>,
) -> Overview<'r> {
    let observers = recorded.survey.observers();
    let shown = |thread: &&ThreadIndex| !observers.contains(&recorded.graph.thread(**thread).tid());
    let threads: Vec<_> = threads.iter().filter(shown).copied().collect();
    let mut pools =
        if recorded.graph.has_stacks() { Pools::new(code_names(recorded)) } else { Pools::unknown() };
    Overview {
        head: head(recorded, from, to),
        scope,
        from,
        to,
        threads: thread_times(recorded, &threads, from, to, &mut pools),
        open: open_waits_of_threads(recorded, &threads, from, to, &mut pools),
        recorded,
    }
}
