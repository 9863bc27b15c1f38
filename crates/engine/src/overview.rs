//! Threads without a single window: their times, and the thread to ask about next.
//!
//! Idleness (a server's between requests) and sleeps are never a thread's longest wait. `findings` decides which waits
//! are idle: a blocked thread is idle only where this is shown.

use std::collections::BTreeSet;

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::hangs;
use wakepath_findings::{
    DeathPart, LastWaits, OpenChain, OpenWaits, Pools, ThreadTimes, ThreadsHeadline, WindowDeath,
    awaited_deaths, deaths, open_chains, open_waits_of_threads, thread_to_ask, threads as thread_times,
    threads_headline,
};
use wakepath_wait_graph::ThreadIndex;

use crate::code_names::code_names;
use crate::head::head;
use crate::query::Scope;
use crate::{Head, Recorded, Window};

/// Threads' times between two stamps.
#[derive(Debug)]
pub struct Overview<'r> {
    /// The part that all answers have.
    pub head: Head,
    /// The threads in question.
    pub scope: Scope,
    /// The beginning.
    pub from: Stamp<Reference>,
    /// The end.
    pub to: Stamp<Reference>,
    /// The threads, by the time in which they waited or could not run, the longest first.
    pub threads: Vec<ThreadTimes>,
    /// These threads' open waits at the end, and their deadlocks that a signal ended in this time.
    pub open: OpenWaits,
    /// For asked processes: open waits with the processes able to end them, the longest first.
    pub chains: Vec<OpenChain>,
    /// Killed processes expected to end these threads' open waits.
    pub deaths: Vec<WindowDeath>,
    /// The recording, for everything else.
    pub recorded: &'r Recorded,
}

impl Overview<'_> {
    /// The most important finding about these threads.
    pub fn headline(&self) -> ThreadsHeadline {
        match self.chains.first() {
            Some(chain) if chain.is_deadlock => ThreadsHeadline::Deadlocked,
            _ => threads_headline(&self.open),
        }
    }

    /// The thread to ask about first.
    pub fn thread_to_ask(&self) -> Option<ThreadIndex> {
        thread_to_ask(&self.open.still_waiting, &self.threads)
    }
}

/// Gathers these threads' times between `from` and `to`, without the recorder's own threads.
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
    let chains = match scope {
        Scope::Processes(_) => open_chains(recorded, &threads, to),
        Scope::All | Scope::Host(_) | Scope::Cgroup(_) => Vec::new(),
    };
    Overview {
        head: head(recorded, from, to),
        deaths: awaited(recorded, &threads, from, to),
        chains,
        scope,
        from,
        to,
        threads: thread_times(recorded, &threads, from, to, &mut pools),
        open: open_waits_of_threads(recorded, &threads, from, to, &mut pools),
        recorded,
    }
}

/// The most open waits for which a dead process is searched: each search reads the whole recording.
const MAX_SEARCHED: usize = 16;

/// The killed processes expected to end these threads' longest waits at the recording's end, each once.
fn awaited(
    recorded: &Recorded,
    threads: &[ThreadIndex],
    from: Stamp<Reference>,
    to: Stamp<Reference>,
) -> Vec<WindowDeath> {
    let all = deaths(recorded);
    if all.is_empty() || to < recorded.to().min(recorded.graph.to()) {
        return Vec::new();
    }
    let mut found: Vec<WindowDeath> = Vec::new();
    let threads: BTreeSet<ThreadIndex> = threads.iter().copied().collect();
    let open = hangs(&recorded.graph).into_iter().filter(|hang| threads.contains(&hang.thread));
    for hang in open.take(MAX_SEARCHED) {
        let window = Window { thread: hang.thread, from, to };
        let waits = LastWaits { still_waiting: Some(&hang), killed: None };
        for (death, wait) in awaited_deaths(recorded, window, waits, &all) {
            if !found.iter().any(|known| known.death.thread == death.thread) {
                found.push(WindowDeath { death, part: DeathPart::Awaited(wait) });
            }
        }
    }
    found
}
