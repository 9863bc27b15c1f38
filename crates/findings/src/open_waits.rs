//! Waits that were open when the recording ended, or when a signal killed the thread: those of a window, and those of
//! many threads.

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::{Hang, Window, deadlocks, hangs, killed};
use wakepath_names::Recorded;
use wakepath_wait_graph::ThreadIndex;

use crate::idleness::{Blocked, BlockedClass, Pools};

/// The open waits of several threads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenWaits {
    /// Cycles of threads that wait for each other's locks.
    pub deadlocks: Vec<Vec<Hang>>,
    /// Waits for an answer, a lock or a device, the longest first.
    pub still_waiting: Vec<Hang>,
    /// The number of threads that wait for work.
    pub idle: usize,
    /// The number of threads in a sleeping call.
    pub sleeping: usize,
    /// The number of threads that wait for work or for an answer.
    pub undecided: usize,
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
    pools: &mut Pools<'_>,
) -> OpenWaits {
    let graph = &recorded.graph;
    let mut chosen = vec![false; graph.threads().len()];
    threads.iter().for_each(|thread| chosen[thread.0 as usize] = true);
    let is_chosen = |hang: &Hang| chosen[hang.thread.0 as usize];
    let is_before = |hang: &Hang| hang.killed.is_none_or(|killed| killed.at <= to);
    let deadlocks: Vec<_> = deadlocks(graph)
        .into_iter()
        .filter(|cycle| cycle.iter().any(is_chosen) && cycle.iter().all(is_before))
        .collect();
    let open = if reaches_end(recorded, to) { hangs(graph) } else { Vec::new() };
    let mut waits = OpenWaits { deadlocks, ..OpenWaits::default() };
    for hang in open.into_iter().filter(is_chosen) {
        let thread = recorded.thread_at(hang.thread, to);
        match Blocked::of_hang(&hang, to).class(recorded, &thread, pools).class {
            BlockedClass::Idle => waits.idle += 1,
            BlockedClass::Sleeping => waits.sleeping += 1,
            BlockedClass::Undecided => waits.undecided += 1,
            BlockedClass::Waiting => waits.still_waiting.push(hang),
        }
    }
    waits
}

/// The waits of a window that nothing ended but the end of the recording, or a signal that killed the thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WindowWaits {
    /// The open wait of the window's thread, where the window reaches the end of the recording.
    pub still_waiting: Option<Hang>,
    /// The wait in which a signal killed the window's thread; else the longest one in which a signal killed the main
    /// thread of a descendant of its process.
    pub killed: Option<Hang>,
    /// The deadlocks that concern the window's process or descendants of that.
    pub deadlocks: Vec<Vec<Hang>>,
}

/// The open waits of a window, and those in which threads were killed.
pub fn waits_of_window(recorded: &Recorded, window: Window) -> WindowWaits {
    let graph = &recorded.graph;
    let thread = graph.last_successor(window.thread);
    let own = graph.thread(window.thread).tgid();
    let descends = |other: ThreadIndex| {
        let theirs = graph.thread(other).tgid();
        own.zip(theirs).is_some_and(|(own, theirs)| recorded.descends(theirs, own, window.to))
    };
    let reaches_end = reaches_end(recorded, window.to);
    let is_within = |hang: &Hang| match hang.killed {
        Some(killed) => window.from < killed.at && killed.at <= window.to,
        None => reaches_end,
    };
    let is_main = |other: ThreadIndex| {
        let other = graph.thread(other);
        other.tgid() == Some(other.tid()) && other.tgid() != own
    };
    // A thread that ends the process decides how long the others take: that is no signal.
    let by_signal = |hang: &Hang| hang.killed.is_some_and(|killed| killed.by.number != 0);
    let killed_here = |thread| killed(graph, thread).filter(is_within).filter(by_signal);
    let of_others = || {
        let others =
            graph.threads().map(|(other, _)| other).filter(|&other| is_main(other) && descends(other));
        let killed = others.filter_map(killed_here);
        killed.min_by_key(|hang| hang.since)
    };
    let mut deadlocks = deadlocks(graph);
    deadlocks.retain(|cycle| {
        cycle.iter().all(is_within) && cycle.iter().any(|hang| hang.thread == thread || descends(hang.thread))
    });
    let still_waiting =
        if reaches_end { hangs(graph).into_iter().find(|hang| hang.thread == thread) } else { None };
    WindowWaits { still_waiting, killed: killed_here(thread).or_else(of_others), deadlocks }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakepath_names::testing::read;

    /// Two threads, each holding the mutex that the other waits for.
    #[test]
    fn a_deadlock_is_its_cycle() {
        let trace = wakepath_scenario::text::parse(
            "thread left tid=7
             thread right tid=8 tgid=7
             1 c0 idle switch left
             10 c0 left switch right blocked call=202:0x1000 op=128 value=2 claim=right
             20 c0 right switch idle blocked call=202:0x2000 op=128 value=2 claim=left
             100 c0 idle switch idle",
        );
        let recorded = read(&trace.expect("a trace").events);
        let threads: Vec<_> = recorded.graph.threads().map(|(index, _)| index).collect();
        let open = open_waits_of_threads(&recorded, &threads, recorded.to(), &mut Pools::unknown());
        let tids = |hangs: &[Hang]| {
            hangs.iter().map(|hang| recorded.graph.thread(hang.thread).tid().0).collect::<Vec<_>>()
        };
        assert_eq!(open.deadlocks.iter().map(|cycle| tids(cycle)).collect::<Vec<_>>(), [[7, 8]]);
        assert_eq!(tids(&open.still_waiting), [7, 8]);
        assert_eq!([open.idle, open.sleeping, open.undecided], [0; 3]);
    }

    #[test]
    fn open_waits_have_the_classes_of_ended_ones() {
        let trace = wakepath_scenario::text::parse(
            "thread accepts tid=7 blocked=interruptible call=43:3
             thread sleeps tid=8 blocked=interruptible call=230:0
             thread lock tid=9 blocked=interruptible call=202:0x1000
             thread poll tid=10 blocked=interruptible call=7:0x1000
             thread disk tid=11 blocked=uninterruptible call=74:3
             0 c0 idle started
             100 c0 idle stopped",
        );
        let recorded = read(&trace.expect("a trace").events);
        let threads: Vec<_> = recorded.graph.threads().map(|(index, _)| index).collect();
        let open = open_waits_of_threads(&recorded, &threads, recorded.to(), &mut Pools::unknown());
        assert_eq!([open.idle, open.sleeping, open.undecided, open.still_waiting.len()], [1, 1, 2, 1]);
    }
}
