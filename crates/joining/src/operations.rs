//! Operations by HotSpot's `VM Thread` for another thread, while all threads stand still: a garbage collection, a dump.
//!
//! ```text
//! asker     aa|...........|aa    wakes the VM thread, and waits until it has run the operation
//! VM thread ...aaaaaaaaaaaa..    works for `a`
//! other     bbbbb..........bb    stands still: it was blocked by `a`
//! ```

#[cfg(test)]
mod tests;

use wakepath_clock::{Reference, Stamp};
use wakepath_event::Comm;
use wakepath_spans::WorksFor;
use wakepath_wait_graph::{StateInterval, ThreadIndex, ThreadState};

use crate::join::Joined;
use crate::model::Worked;

/// The most VM thread's states searched for its operation's beginning.
const MAX_BACK: usize = 1024;

/// The most states searched for the asking thread's wait.
const MAX_ON: usize = 64;

/// An operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Operation {
    asker: ThreadIndex,
    /// The asker's work then.
    asked: Stamp<Reference>,
    /// The asker's wait ends.
    done: Stamp<Reference>,
}

impl Joined<'_> {
    /// The VM thread's work between two times, if it ran an operation for another thread at the first; `None` for other threads.
    pub(crate) fn operation_of(
        &self,
        thread: ThreadIndex,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
    ) -> Option<Vec<Worked>> {
        let Operation { asker, asked, done } = self.operation(thread, from)?;
        let worked = self.work_of(asker, asked, asked.plus(1)).pop()?;
        matches!(worked.works_for, WorksFor::Span(_) | WorksFor::Missing(..)).then_some(())?;
        let until = done.min(to);
        let mut all = vec![Worked { from, to: until, measured: false, ..worked }];
        if until < to {
            all.push(Worked::unknown(until, to));
        }
        Some(all)
    }

    /// The VM thread's operation at a time, if its asker waits for it.
    fn operation(&self, thread: ThreadIndex, at: Stamp<Reference>) -> Option<Operation> {
        let graph = &self.recorded.graph;
        (graph.thread(thread).name_at(at).bytes() == b"VM Thread").then_some(())?;
        let intervals = graph.state_intervals(thread);
        let now = intervals.find(at);
        let back = (0..=now).rev().take(MAX_BACK).filter_map(|place| intervals.get(place));
        let mut waits = back.filter(|interval| matches!(interval.state, ThreadState::Blocked(_)));
        // Within an operation it sleeps until all threads have stopped, and waits for its collectors.
        let woken = waits.find(|wait| !self.is_within(thread, wait))?;
        if woken.to > at {
            return None;
        }
        let asker = self.waker(&woken)?;
        let is_wait = |interval: &StateInterval| self.waker(interval) == Some(thread);
        let mut later = graph.state_intervals(asker).overlapping(woken.to, Stamp::MAX).take(MAX_ON);
        let wait = later.find(is_wait).filter(|wait| wait.to > at)?;
        let process = |thread| graph.thread(thread).tgid();
        let asked = woken.to.min(wait.from).minus(1);
        (process(asker) == process(thread)).then_some(Operation { asker, asked, done: wait.to })
    }

    /// Whether the VM thread's wait belongs to an operation.
    fn is_within(&self, thread: ThreadIndex, wait: &StateInterval) -> bool {
        let graph = &self.recorded.graph;
        let is_sleep = || {
            let call = graph.wait(wait).and_then(|wait| wait.call);
            call.is_some_and(|call| call.is_sleep())
        };
        let by_collector = |waker: ThreadIndex| {
            let is_same = graph.thread(waker).tgid() == graph.thread(thread).tgid();
            is_same && is_collector(graph.thread(waker).name_at(wait.to))
        };
        self.waker(wait).map_or_else(is_sleep, by_collector)
    }

    /// The thread behind a wake-up by its own code.
    fn waker(&self, wait: &StateInterval) -> Option<ThreadIndex> {
        self.recorded.graph.wait(wait)?.woken_by()
    }
}

/// Whether HotSpot gives this name to collectors, which the VM thread commands.
fn is_collector(name: Comm) -> bool {
    name.bytes().starts_with(b"GC Thread#")
}
