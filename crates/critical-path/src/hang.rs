//! Waits that had not ended when the recording did, and deadlocks among them.

use wakepath_clock::{Reference, Stamp};
use wakepath_event::{BlockedState, Call, SignalEffect};
use wakepath_wait_graph::{Graph, StateInterval, ThreadIndex, Wait, Waker};

use crate::{LockCause, SignalCause};

/// A wait that was still open when the recording ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hang {
    /// The waiting thread.
    pub thread: ThreadIndex,
    /// The wait's beginning; the latest possible time if `began_before`.
    pub since: Stamp<Reference>,
    /// The wait began before the thread's first record.
    pub began_before: bool,
    /// The thread's state in the kernel.
    pub state: Option<BlockedState>,
    /// The system call in which the thread is blocked.
    pub call: Option<Call>,
    /// The awaited lock, and its owner at the wait's beginning. Unless `proved`, the owner is a claim in the
    /// lock's own memory.
    pub lock: Option<LockCause>,
    /// The kernel names the owner.
    pub proved: bool,
    /// The signal that ended the wait and the thread with it; `None` if the wait was open when the recording ended.
    pub killed: Option<Killed>,
}

/// The end of a wait by a signal that also ends the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Killed {
    /// The time at which the signal woke the thread.
    pub at: Stamp<Reference>,
    /// The signal.
    pub by: SignalCause,
}

/// All threads' waits that the recording's end cut off, longest first.
pub fn hangs(graph: &Graph) -> Vec<Hang> {
    let mut hangs: Vec<_> = graph.threads().filter_map(|(thread, _)| hang(graph, thread)).collect();
    hangs.sort_by_key(|hang| (hang.since, hang.thread));
    hangs
}

/// The thread's wait at the recording's end, if there was any.
fn hang(graph: &Graph, thread: ThreadIndex) -> Option<Hang> {
    let intervals = graph.state_intervals(thread);
    let last = intervals.get(intervals.len().checked_sub(1)?)?;
    let wait = graph.wait(&last).filter(|wait| wait.end == Waker::Open && !wait.newborn)?;
    Some(hang_of(thread, &last, &wait, None))
}

/// A thread's wait directly before `at`, whatever ended it later.
pub fn waits_at(graph: &Graph, thread: ThreadIndex, at: Stamp<Reference>) -> Option<Hang> {
    let intervals = graph.state_intervals(thread);
    let interval = intervals.get(intervals.find_before(at)?).filter(|interval| at <= interval.to)?;
    let wait = graph.wait(&interval).filter(|wait| !wait.newborn)?;
    Some(hang_of(thread, &interval, &wait, None))
}

/// A thread's wait that a signal ended together with the thread.
pub fn killed(graph: &Graph, thread: ThreadIndex) -> Option<Hang> {
    // This test settles all threads but the few killed by signals.
    if graph.thread(thread).signals.is_empty() {
        return None;
    }
    let intervals = graph.state_intervals(thread);
    (0..intervals.len()).rev().find_map(|index| {
        let interval = intervals.get(index)?;
        let wait = graph.wait(&interval)?;
        let cut = wait.cut.filter(|cut| cut.effect == SignalEffect::Kills)?;
        let Waker::Woken(woken) = wait.end else { return None };
        let by = SignalCause::new(cut, &woken);
        Some(hang_of(thread, &interval, &wait, Some(Killed { at: interval.to, by })))
    })
}

fn hang_of(thread: ThreadIndex, last: &StateInterval, wait: &Wait, killed: Option<Killed>) -> Hang {
    Hang {
        thread,
        since: last.from,
        began_before: wait.began_before,
        state: wait.state,
        call: wait.call,
        lock: wait.lock.map(LockCause::from),
        // A signal from the owner proves no ownership.
        proved: wait.lock.is_some_and(|link| link.proved && (killed.is_none() || link.kernel)),
        killed,
    }
}

/// The cycles of threads that each wait for a lock owned by the next, when the recording ended or until a signal killed them. Each cycle is returned
/// once, from its first thread on; a thread is part of at most one cycle.
pub fn deadlocks(graph: &Graph) -> Vec<Vec<Hang>> {
    let count = graph.threads().len();
    // Every thread waits for at most one owner, so it is enough to note, for each thread, the start of the first chain through it.
    let mut from = vec![None; count];
    let mut cycles = Vec::new();
    for (first, _) in graph.threads() {
        let mut on_the_way = Vec::new();
        let mut next = Some(first);
        while let Some(thread) = next.filter(|thread| from[thread.0 as usize].is_none()) {
            from[thread.0 as usize] = Some(first);
            let Some(hang) = hang(graph, thread).or_else(|| killed(graph, thread)) else {
                next = None;
                break;
            };
            next = hang.lock.and_then(|lock| lock.owner);
            on_the_way.push(hang);
        }
        let Some(back) = next.filter(|thread| from[thread.0 as usize] == Some(first)) else { continue };
        let Some(begin) = on_the_way.iter().position(|hang| hang.thread == back) else { continue };
        let mut cycle = on_the_way.split_off(begin);
        let earliest = cycle.iter().enumerate().min_by_key(|(_, hang)| hang.thread).map_or(0, |(n, _)| n);
        cycle.rotate_left(earliest);
        cycles.push(cycle);
    }
    cycles
}
