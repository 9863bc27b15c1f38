//! Counts threads' waits from their state intervals.

use wakepath_clock::{Reference, Stamp};
use wakepath_wait_graph::{QueueExit, ThreadIndex, ThreadState, Waker};

use super::counting::{Counters, Ending};
use super::resolve::TargetKind;
use crate::Recorded;
use crate::latency::target::LockKind;

/// A wait for a CPU under way.
#[derive(Debug, Clone, Copy)]
struct Queued {
    /// Its beginning; `None` where not known.
    since: Option<Stamp<Reference>>,
    /// The time for which a CPU limit has kept the thread off the CPU, ns.
    throttled: u64,
    /// Whether the limit still does.
    limited: bool,
    /// Whether it goes on in another CPU's queue.
    moved: bool,
}

/// Counts a thread's waits.
pub(super) fn count(recorded: &Recorded, thread: ThreadIndex, counters: &mut Counters) {
    let graph = &recorded.graph;
    let row = graph.thread(thread);
    let begin = recorded.from();
    let known = |at: Stamp<Reference>| Some(at).filter(|&at| at >= begin);
    let mut queued: Option<Queued> = None;
    let intervals = graph.state_intervals(thread);
    for (index, interval) in (0..intervals.len()).filter_map(|index| Some((index, intervals.get(index)?))) {
        // An introduced thread may have waited before; a thread first shown by an event began to wait then.
        let was_there = index == 0 && row.introduced == Some(row.first);
        let since = known(interval.from).filter(|_| !was_there);
        let limited = matches!(interval.state, ThreadState::Throttled { .. });
        match interval.state {
            ThreadState::Runnable { .. } | ThreadState::Throttled { .. } => {
                // A thread released by the limit still waits, and so does a thread moved to another queue; otherwise it ran in between, if
                // for 0 ns.
                if let Some(before) = queued.filter(|before| (!before.limited && !before.moved) || limited) {
                    count_queued(before, interval.from, Ending::Seen, counters);
                    queued = None;
                }
                let wait = queued.get_or_insert(Queued { since, throttled: 0, limited, moved: false });
                wait.limited = limited;
                wait.moved = matches!(interval.state, ThreadState::Runnable { left: QueueExit::Moved, .. });
                if limited {
                    wait.throttled += interval.to.since(interval.from);
                }
            }
            ThreadState::Running { .. } | ThreadState::Blocked(_) | ThreadState::Unknown(_) => {
                if let Some(wait) = queued.take() {
                    let unknown = matches!(interval.state, ThreadState::Unknown(_));
                    let end = if unknown { Ending::Unseen } else { Ending::Seen };
                    count_queued(wait, interval.from, end, counters);
                }
            }
        }
        let Some(wait) = graph.wait(&interval) else { continue };
        // A wait for a CPU began at the wake-up; the wake-up's time, or the switch-in's, was not seen.
        let next = intervals.get(index + 1).map(|next| next.state);
        if matches!(
            (wait.end, next),
            (Waker::Unseen, Some(ThreadState::Running { .. }))
                | (Waker::Woken { .. }, Some(ThreadState::Unknown(_)))
        ) {
            counters.count(TargetKind::RunQueue, None, interval.to, Ending::Unseen);
        }
        if wait.newborn {
            continue;
        }
        let from = known(interval.from).filter(|_| !wait.began_before && wait.state.is_some());
        let end = match wait.end {
            Waker::Woken { .. } => Ending::Seen,
            Waker::Unseen => Ending::Unseen,
            Waker::Open => Ending::Open,
        };
        if let Some(call) = wait.call {
            counters.facts.calls = true;
            counters.count(TargetKind::Blocked(call.number), from, interval.to, end);
        }
        if wait.lock.is_some_and(|lock| !lock.kernel) {
            counters.count_lock(LockKind::User, from, interval.to, end);
        }
    }
    if let Some(wait) = queued {
        let end = if row.last >= graph.end_of(row.tid().host()) { Ending::Open } else { Ending::Unseen };
        count_queued(wait, row.last, end, counters);
    }
}

/// Counts a wait for a CPU that ended at `to`.
fn count_queued(wait: Queued, to: Stamp<Reference>, end: Ending, counters: &mut Counters) {
    if wait.throttled > 0 && end == Ending::Seen && wait.since.is_some() {
        let (waits, ns) = &mut counters.facts.throttled;
        *waits += 1;
        *ns = ns.saturating_add(wait.throttled);
    }
    counters.count(TargetKind::RunQueue, wait.since, to, end);
}
