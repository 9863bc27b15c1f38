use wakepath_clock::{Reference, Stamp};
use wakepath_event::{BlockedState, Call};
use wakepath_wait_graph::{Graph, ThreadIndex, Waker};

use crate::LockCause;

/// A wait that was still open when the recording ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hang {
    /// Who waits.
    pub thread: ThreadIndex,
    /// Since when. If `began_before`: at least since then.
    pub since: Stamp<Reference>,
    /// The wait began before the first that was seen of the thread.
    pub began_before: bool,
    /// How it waits.
    pub state: Option<BlockedState>,
    /// In which system call.
    pub call: Option<Call>,
    /// For which lock, and who owned that when the wait began. Unless `proved`, the owner is what
    /// the lock's own memory claims.
    pub lock: Option<LockCause>,
    /// The owner is what the kernel says.
    pub proved: bool,
}

/// The waits of all threads that the recording's end cut off, longest first.
pub fn hangs(graph: &Graph) -> Vec<Hang> {
    let mut hangs: Vec<_> = graph.threads().filter_map(|(thread, _)| hang(graph, thread)).collect();
    hangs.sort_by_key(|hang| (hang.since, hang.thread));
    hangs
}

/// The wait that a thread was in when the recording ended, if it was.
fn hang(graph: &Graph, thread: ThreadIndex) -> Option<Hang> {
    let intervals = graph.state_intervals(thread);
    let last = intervals.get(intervals.len().checked_sub(1)?)?;
    let wait = graph.wait(&last).filter(|wait| wait.end == Waker::Open && !wait.newborn)?;
    Some(Hang {
        thread,
        since: last.from,
        began_before: wait.began_before,
        state: wait.state,
        call: wait.call,
        lock: wait.lock.map(|link| LockCause {
            address: link.address,
            kernel: link.kernel,
            owner: link.owner,
        }),
        proved: wait.lock.is_some_and(|link| link.proved),
    })
}

/// Cycles of threads each of which waits for a lock that the next owns, and the last for one that
/// the first owns. Each cycle is given once, from its earliest thread on; a thread is part of one at most.
pub fn deadlocks(graph: &Graph) -> Vec<Vec<Hang>> {
    let count = graph.threads().len();
    // Every thread waits for one owner at most: cycles of a function, found by colouring.
    let mut colour = vec![0u32; count];
    let mut cycles = Vec::new();
    for (first, _) in graph.threads() {
        let mut on_the_way = Vec::new();
        let mut next = Some(first);
        while let Some(thread) = next.filter(|thread| colour[thread.0 as usize] == 0) {
            colour[thread.0 as usize] = first.0 + 1;
            let Some(hang) = hang(graph, thread) else {
                next = None;
                break;
            };
            next = hang.lock.and_then(|lock| lock.owner);
            on_the_way.push(hang);
        }
        let Some(back) = next.filter(|thread| colour[thread.0 as usize] == first.0 + 1) else { continue };
        let Some(begin) = on_the_way.iter().position(|hang| hang.thread == back) else { continue };
        let mut cycle = on_the_way.split_off(begin);
        let earliest = cycle.iter().enumerate().min_by_key(|(_, hang)| hang.thread).map_or(0, |(n, _)| n);
        cycle.rotate_left(earliest);
        cycles.push(cycle);
    }
    cycles
}
