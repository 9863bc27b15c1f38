//! The turns in which threads had a futex lock while another thread waited for it.
//!
//! The kernel wakes a lock's waiters in their order of arrival. But a release only wakes a waiter: before it runs, any other thread may take the free
//! lock, and the woken thread goes back to sleep, behind the others. The thread that ends a wait then has nothing to do with the time before it took
//! the lock out of turn:
//!
//! ```text
//! owner     ==hold==r                      r releases the lock, and wakes `first`
//! first     ........|--=|...........       it gets no CPU, then finds the lock taken
//! taker     ~~~~~~~~~~~=|==hold==r         it did other things before
//! waiter    .....................|=        owner until the first r, then `first`, then taker
//! ```
//!
//! A free lock is taken without the kernel, so the time is not known: while the taker does not run, `first` keeps the others waiting; from the
//! taker's switch-in until `first` finds the lock taken, either thread may keep them waiting.
//!
//! The taker may have been woken for the lock by an earlier release, without a CPU since. Then two threads have been woken for the free lock, and
//! the first to run keeps the others waiting.

use wakepath_clock::{Reference, Stamp};
use wakepath_wait_graph::{ContendedLock, Graph, Release, StateInterval, ThreadIndex, ThreadState};

use crate::explain::WaitPart;
use crate::tiles::Trust;
use crate::{LockCause, Rule, Via};

/// The maximum number of state intervals to search for the time at which a woken thread goes back to sleep, or a taker runs.
const MAX_INTERVALS: usize = 64;

/// The parts from `from` to `to` of a wait that began at `began` and that `end` ended. `None` if each thread had the lock from the thread before:
/// then the last thread's own waits lead to the others. Also `None` if the owner that the waiter saw is not the first thread to release the lock:
/// then it is not known to be a lock.
pub(crate) fn lock_turns(
    graph: &Graph,
    began: Stamp<Reference>,
    lock: &ContendedLock,
    end: &Release,
    from: Stamp<Reference>,
    to: Stamp<Reference>,
) -> Option<Vec<WaitPart>> {
    let releases = || graph.releases(end.woken, lock.address, began, end.at);
    let first = releases().next()?;
    (lock.owner == Some(first.by)).then_some(())?;
    let cause = LockCause { address: lock.address, kernel: false, owner: lock.owner };
    let part = |thread, until: Stamp<Reference>, trust| {
        let (via, lock) = (Via::Lock, Some(cause));
        WaitPart::Thread { thread, to: until.min(to), acted: until, via, lock, trust }
    };
    let sure = Trust::By(Rule::LockTurns);
    // Backwards: the last turn without a part yet, and the release before it.
    let (mut parts, mut turn) = (vec![part(end.by, end.at, sure)], *end);
    for before in releases().rev() {
        if turn.at <= from {
            break;
        }
        if before.woken != turn.by {
            // The taker took the lock at the latest when the woken thread found it taken.
            let asleep = asleep_again(graph, before, lock.address, turn.at);
            let runs = runs(graph, turn.by, before.at).min(turn.at);
            // By the records, the taker did not run before the woken thread found the lock taken: some
            // records are missing.
            let is_missing = asleep.is_some_and(|at| at <= runs);
            if is_missing || !is_woken_for(graph, turn.by, lock.address, before.at) {
                let ran = if is_missing { before.at } else { runs };
                let doubtful = asleep.filter(|&at| ran < at);
                parts.extend(doubtful.map(|at| part(before.woken, at, Trust::Doubtful)));
                if before.at < ran {
                    parts.push(part(before.woken, ran, sure));
                }
            }
            parts.push(part(before.by, before.at, sure));
        }
        turn = *before;
    }
    (parts.len() > 1).then(|| parts.into_iter().rev().collect())
}

/// The time before `until` at which a thread woken by a release went back to sleep for the same lock.
fn asleep_again(
    graph: &Graph,
    release: &Release,
    address: u64,
    until: Stamp<Reference>,
) -> Option<Stamp<Reference>> {
    let intervals = graph.state_intervals(release.woken);
    let first = intervals.find(release.at);
    (first..intervals.len())
        .take(MAX_INTERVALS)
        .map_while(|index| intervals.get(index))
        .take_while(|interval| interval.from < until)
        .find(|interval| {
            let lock = graph.wait(interval).and_then(|wait| wait.lock);
            matches!(interval.state, ThreadState::Blocked(_))
                && lock.is_some_and(|lock| lock.address == address)
        })
        .map(|interval| interval.from)
}

/// Whether a thread is runnable at `at`, after a wait for this lock.
fn is_woken_for(graph: &Graph, thread: ThreadIndex, address: u64, at: Stamp<Reference>) -> bool {
    let intervals = graph.state_intervals(thread);
    let mut before =
        (0..=intervals.find(at)).rev().take(MAX_INTERVALS).map_while(|index| intervals.get(index));
    let is_runnable = |interval: &StateInterval| matches!(interval.state, ThreadState::Runnable { .. });
    before.next().as_ref().is_some_and(is_runnable)
        && before.find(|interval| !is_runnable(interval)).is_some_and(|interval| {
            let lock = graph.wait(&interval).and_then(|wait| wait.lock);
            lock.is_some_and(|lock| lock.address == address)
        })
}

/// The first time from `at` on at which a thread may run: it neither sleeps nor is runnable.
fn runs(graph: &Graph, thread: ThreadIndex, at: Stamp<Reference>) -> Stamp<Reference> {
    let intervals = graph.state_intervals(thread);
    let first = intervals.find(at);
    let mut later = (first..intervals.len()).take(MAX_INTERVALS).map_while(|index| intervals.get(index));
    let may_run = |interval: &StateInterval| {
        !matches!(interval.state, ThreadState::Blocked(_) | ThreadState::Runnable { .. })
    };
    later.find(may_run).map_or(at, |interval| interval.from.max(at))
}
