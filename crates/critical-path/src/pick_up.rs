//! Kernel workers, which take up work for whoever has some.

use wakepath_clock::{Reference, Stamp};
use wakepath_event::BlockedState;
use wakepath_wait_graph::{Graph, StateInterval, ThreadIndex, Wait, Waker};

/// So many intervals are looked through for the wait before a worker took up its work. Within work of more
/// than that it is followed as any other thread, so that the cost stays linear.
const MAX_PENDING: usize = 256;

/// A worker's wait for work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkPickUp {
    /// The interval after it.
    pub(crate) next: usize,
    pub(crate) interval: StateInterval,
    pub(crate) wait: Wait,
}

/// The last wait for work of a kernel worker before it did something, `acted`, that somebody waited for
/// since `since`; `None` if it took up the work before that one waited, or is no worker.
///
/// What a worker did before it took up the work has nothing to do with who waits for that work: it was
/// there for anyone. So its last wait for work stands for all before, and what ended that wait, which
/// queued the work, for why it was not done earlier. Only workers sleep so: within their work they wait in
/// other states.
pub(crate) fn pick_up(
    graph: &Graph,
    thread: ThreadIndex,
    since: Stamp<Reference>,
    acted: Stamp<Reference>,
) -> Option<WorkPickUp> {
    is_worker(graph, thread, acted).then_some(())?;
    let intervals = graph.state_intervals(thread);
    let last = intervals.find_before(acted)?;
    let back = (0..=last).rev().take(MAX_PENDING).map_while(|index| Some((index + 1, intervals.get(index)?)));
    let mut waits =
        back.take_while(|(_, interval)| interval.to > since).filter(|(_, interval)| interval.to <= acted);
    waits.find_map(|(next, interval)| {
        Some(WorkPickUp { next, interval, wait: for_work(graph.wait(&interval)?)? })
    })
}

fn for_work(wait: Wait) -> Option<Wait> {
    let woken = matches!(wait.end, Waker::Woken { .. });
    (woken && wait.state == Some(BlockedState::Idle)).then_some(wait)
}

/// Kernel threads have names of their own making; what calls itself so in user space is none.
fn is_worker(graph: &Graph, thread: ThreadIndex, at: Stamp<Reference>) -> bool {
    let row = graph.thread(thread);
    row.identity.as_ref().is_some_and(|who| who.kernel) && row.name_at(at).bytes().starts_with(b"kworker/")
}
