//! Waits of threads, by what they were doing when.

use wakepath_clock::{Reference, Stamp};
use wakepath_wait_graph::{ThreadIndex, ThreadState, Waker};

use super::tally::{End, Tallies};
use super::target::TargetKind;
use crate::Recorded;

/// What is known besides.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Besides {
    /// Waits for a CPU in which a limit kept the thread off it, and for how long in all, ns.
    pub(super) throttled: (u64, u64),
    /// A wait says in which system call it was.
    pub(super) calls: bool,
}

/// A wait for a CPU under way.
#[derive(Debug, Clone, Copy)]
struct Queued {
    /// `None` where it is not known.
    since: Option<Stamp<Reference>>,
    /// The thread was kept off the CPU so far, ns.
    throttled: u64,
    /// And still is.
    limited: bool,
}

/// Counts a thread's waits.
pub(super) fn count(recorded: &Recorded, thread: ThreadIndex, tallies: &mut Tallies, besides: &mut Besides) {
    let graph = &recorded.graph;
    let row = graph.thread(thread);
    let begin = recorded.from();
    let known = |at: Stamp<Reference>| Some(at).filter(|&at| at >= begin);
    let mut queued: Option<Queued> = None;
    let intervals = graph.state_intervals(thread);
    for (index, interval) in (0..intervals.len()).filter_map(|index| Some((index, intervals.get(index)?))) {
        // One that was introduced may have been waiting before; one that an event showed began to then.
        let was_there = index == 0 && row.introduced == Some(row.first);
        let since = known(interval.from).filter(|_| !was_there);
        let limited = matches!(interval.state, ThreadState::Throttled { .. });
        match interval.state {
            ThreadState::Runnable { .. } | ThreadState::Throttled { .. } => {
                // One that the limit lets go still waits; else it ran between, if for no time at all.
                if let Some(before) = queued.filter(|before| !before.limited || limited) {
                    over(before, interval.from, End::Seen, tallies, besides);
                    queued = None;
                }
                let wait = queued.get_or_insert(Queued { since, throttled: 0, limited });
                wait.limited = limited;
                if limited {
                    wait.throttled += interval.to.since(interval.from);
                }
            }
            ThreadState::Unknown(_) => {
                if let Some(wait) = queued.take() {
                    over(wait, interval.from, End::Unseen, tallies, besides);
                }
            }
            ThreadState::Running { .. } | ThreadState::Blocked(_) => {
                if let Some(wait) = queued.take() {
                    over(wait, interval.from, End::Seen, tallies, besides);
                }
            }
        }
        let Some(wait) = graph.wait(&interval) else { continue };
        // A wait for a CPU began where it was woken; when, or when it was over, nobody saw.
        let next = intervals.get(index + 1).map(|next| next.state);
        if matches!(
            (wait.end, next),
            (Waker::Unseen, Some(ThreadState::Running { .. }))
                | (Waker::Woken { .. }, Some(ThreadState::Unknown(_)))
        ) {
            tallies.take(TargetKind::RunQueue, None, interval.to, End::Unseen);
        }
        if wait.newborn {
            continue;
        }
        let from = known(interval.from).filter(|_| !wait.began_before && wait.state.is_some());
        let end = match wait.end {
            Waker::Woken { .. } => End::Seen,
            Waker::Unseen => End::Unseen,
            Waker::Open => End::Open,
        };
        if let Some(call) = wait.call {
            besides.calls = true;
            tallies.take(TargetKind::Blocked(call.number), from, interval.to, end);
        }
        if wait.lock.is_some_and(|lock| !lock.kernel) {
            tallies.take(TargetKind::Futex, from, interval.to, end);
            tallies.take(TargetKind::Lock, from, interval.to, end);
        }
    }
    if let Some(wait) = queued {
        let end = if row.last >= graph.to() { End::Open } else { End::Unseen };
        over(wait, row.last, end, tallies, besides);
    }
}

fn over(wait: Queued, to: Stamp<Reference>, end: End, tallies: &mut Tallies, besides: &mut Besides) {
    if wait.throttled > 0 && end == End::Seen && wait.since.is_some() {
        besides.throttled.0 += 1;
        besides.throttled.1 = besides.throttled.1.saturating_add(wait.throttled);
    }
    tallies.take(TargetKind::RunQueue, wait.since, to, end);
}
