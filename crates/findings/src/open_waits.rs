//! Waits that were open when the recording ended: those of a window, and those of many threads.

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::{Hang, Window, deadlocks, hangs};
use wakepath_names::Recorded;
use wakepath_wait_graph::ThreadIndex;

use crate::idleness::is_for_work;

/// The open waits of several threads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenWaits {
    /// Cycles of threads that wait for each other's locks.
    pub deadlocks: Vec<Vec<Hang>>,
    /// Waits that are not for work, the longest first.
    pub still_waiting: Vec<Hang>,
    /// The number of threads that wait for work.
    pub idle: usize,
}

/// Whether what was open when the recording ended was open at `to`.
fn reaches_end(recorded: &Recorded, to: Stamp<Reference>) -> bool {
    to >= recorded.to().min(recorded.graph.to())
}

/// The open waits of these threads at `to`.
pub fn open_waits_of_threads(
    recorded: &Recorded,
    threads: &[ThreadIndex],
    to: Stamp<Reference>,
) -> OpenWaits {
    let graph = &recorded.graph;
    let mut chosen = vec![false; graph.threads().len()];
    threads.iter().for_each(|thread| chosen[thread.0 as usize] = true);
    let is_chosen = |hang: &Hang| chosen[hang.thread.0 as usize];
    let deadlocks: Vec<_> =
        deadlocks(graph).into_iter().filter(|cycle| cycle.iter().any(is_chosen)).collect();
    let open = if reaches_end(recorded, to) { hangs(graph) } else { Vec::new() };
    let (idle, still_waiting): (Vec<_>, Vec<_>) = open.into_iter().filter(is_chosen).partition(|hang| {
        let thread = recorded.thread_at(hang.thread, to);
        hang.lock.is_none_or(|lock| lock.owner.is_none())
            && is_for_work(recorded, &thread, hang.call.as_ref(), hang.state, to)
    });
    OpenWaits { deadlocks, still_waiting, idle: idle.len() }
}

/// The open wait of a window's thread, where the window reaches the end of the recording, and the deadlocks that
/// concern its process or descendants of that.
pub fn open_waits_of_window(recorded: &Recorded, window: Window) -> (Option<Hang>, Vec<Vec<Hang>>) {
    let graph = &recorded.graph;
    if !reaches_end(recorded, window.to) {
        return (None, Vec::new());
    }
    let thread = graph.last_successor(window.thread);
    let still_waiting = hangs(graph).into_iter().find(|hang| hang.thread == thread);
    let of_window = |hang: &Hang| {
        let own = graph.thread(window.thread).tgid();
        let theirs = graph.thread(hang.thread).tgid();
        hang.thread == thread
            || own.zip(theirs).is_some_and(|(own, theirs)| recorded.descends(theirs, own, window.to))
    };
    let mut cycles = deadlocks(graph);
    cycles.retain(|cycle| cycle.iter().any(of_window));
    (still_waiting, cycles)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakepath_event::{BlockedState, Call, Event, EventKind, LockWord, SwitchOut, Tid};
    use wakepath_names::testing::{event, read, thread};

    fn switch(at: u64, from: u32, to: u32, out: SwitchOut, call: Option<Call>) -> Event {
        event(at, 0, from, EventKind::Switch { next: Tid(to), out, interrupts_ns: 0, call })
    }

    /// Two threads, each holding the mutex that the other waits for.
    #[test]
    fn a_deadlock_is_its_cycle() {
        let lock = |owner, address| Call {
            number: Call::FUTEX,
            arg0: address,
            lock: Some(LockWord { operation: 128, value: Some(2), claimed_owner: Some(Tid(owner)) }),
        };
        let blocked = SwitchOut::Blocked(BlockedState::Interruptible);
        let recorded = read(&[
            event(0, 0, 0, thread(7, 7, 1, "left")),
            event(0, 0, 0, thread(8, 7, 1, "right")),
            switch(1, 0, 7, SwitchOut::Runnable, None),
            switch(10, 7, 8, blocked, Some(lock(8, 0x1000))),
            switch(20, 8, 0, blocked, Some(lock(7, 0x2000))),
            switch(100, 0, 0, SwitchOut::Runnable, None),
        ]);
        let threads: Vec<_> = recorded.graph.threads().map(|(index, _)| index).collect();
        let open = open_waits_of_threads(&recorded, &threads, recorded.to());
        let tids = |hangs: &[Hang]| {
            hangs.iter().map(|hang| recorded.graph.thread(hang.thread).tid().0).collect::<Vec<_>>()
        };
        assert_eq!(open.deadlocks.iter().map(|cycle| tids(cycle)).collect::<Vec<_>>(), [[7, 8]]);
        assert_eq!(tids(&open.still_waiting), [7, 8]);
        assert_eq!(open.idle, 0);
    }
}
