//! Work pick-ups: the time at which a kernel worker begins the work that a waiting thread queued.

use wakepath_clock::{Reference, Stamp};
use wakepath_event::BlockedState;
use wakepath_wait_graph::{Graph, StateInterval, ThreadIndex, Wait, Waker};

/// The maximum number of state intervals to search for the wait before a pick-up. A worker with longer work
/// is followed like any other thread, so the cost stays linear.
const MAX_INTERVALS: usize = 256;

/// A kernel worker's wait for the work that it then picked up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkPickUp {
    pub(crate) interval: StateInterval,
    pub(crate) wait: Wait,
}

/// A kernel worker's last wait for work before it ended, at `acted`, a wait that began at `since`. `None` if
/// it picked the work up before `since`, or is no worker.
///
/// A worker's activity before the pick-up has nothing to do with the thread that waits for the work. So its
/// last wait for work stands for all of that time, and the end of this wait, when the work was queued,
/// explains why the work was not done earlier. Only workers wait in the idle state: within their work they
/// wait in other states.
pub(crate) fn find_pick_up(
    graph: &Graph,
    thread: ThreadIndex,
    since: Stamp<Reference>,
    acted: Stamp<Reference>,
) -> Option<WorkPickUp> {
    is_worker(graph, thread, acted).then_some(())?;
    let intervals = graph.state_intervals(thread);
    let last = intervals.find_before(acted)?;
    let back = (0..=last).rev().take(MAX_INTERVALS).map_while(|index| intervals.get(index));
    let mut waits = back.take_while(|interval| interval.to > since).filter(|interval| interval.to <= acted);
    waits.find_map(|interval| Some(WorkPickUp { interval, wait: for_work(graph.wait(&interval)?)? }))
}

fn for_work(wait: Wait) -> Option<Wait> {
    let woken = matches!(wait.end, Waker::Woken { .. });
    (woken && wait.state == Some(BlockedState::Idle)).then_some(wait)
}

/// Whether a thread is a kernel worker. A user thread with a worker's name is not.
fn is_worker(graph: &Graph, thread: ThreadIndex, at: Stamp<Reference>) -> bool {
    let row = graph.thread(thread);
    row.identity.as_ref().is_some_and(|who| who.kernel) && row.name_at(at).bytes().starts_with(b"kworker/")
}
