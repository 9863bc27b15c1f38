//! Waits still open when the recording ended, or when a signal killed the thread: for a window, and for many
//! threads.

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::{Hang, Killed, Path, SegmentKind, SignalSender, deadlocks, hangs, killed};
use wakepath_event::Tid;
use wakepath_loaded::Recorded;
use wakepath_wait_graph::ThreadIndex;

use crate::idleness::{Blocked, BlockedClass, Pools};

/// The open waits of several threads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenWaits {
    /// Cycles of threads waiting for each other's locks.
    pub deadlocks: Vec<Vec<Hang>>,
    /// Waits for an answer, a lock or a device, the longest first.
    pub still_waiting: Vec<Hang>,
    /// The number of threads waiting for work.
    pub idle: usize,
    /// The number of threads in a sleeping call.
    pub sleeping: usize,
    /// The number of threads waiting for work or for an answer.
    pub undecided: usize,
}

/// The first statement about threads without a single window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadsHeadline {
    /// Some threads wait for each other's locks.
    Deadlocked,
    /// This number of threads still wait at the end.
    StillWaiting(usize),
    /// The user has to choose a thread.
    Choose,
}

/// The first statement: a deadlock, else waits that nothing ended.
pub fn threads_headline(open: &OpenWaits) -> ThreadsHeadline {
    match (open.deadlocks.is_empty(), open.still_waiting.len()) {
        (false, _) => ThreadsHeadline::Deadlocked,
        (true, 0) => ThreadsHeadline::Choose,
        (true, waiting) => ThreadsHeadline::StillWaiting(waiting),
    }
}

/// Whether `to` reaches the recording's end: waits open at that end were then open at `to`.
fn reaches_end(recorded: &Recorded, to: Stamp<Reference>) -> bool {
    to >= recorded.to().min(recorded.graph().to())
}

/// Whether a wait belongs to the time from `from` to `to`: its thread was killed then, or nothing
/// ended it and `to` reaches the recording's end.
fn is_within(
    recorded: &Recorded,
    from: Stamp<Reference>,
    to: Stamp<Reference>,
) -> impl Fn(&Hang) -> bool + use<> {
    let reaches_end = reaches_end(recorded, to);
    move |hang| match hang.killed {
        Some(killed) => from < killed.at && killed.at <= to,
        None => reaches_end,
    }
}

/// These threads' waits open at `to`, and the deadlocks that a signal ended since `from`.
pub fn open_waits_of_threads(
    recorded: &Recorded,
    threads: &[ThreadIndex],
    from: Stamp<Reference>,
    to: Stamp<Reference>,
    pools: &mut Pools<'_>,
) -> OpenWaits {
    let graph = recorded.graph();
    let mut chosen = vec![false; graph.threads().len()];
    threads.iter().for_each(|thread| chosen[thread.0 as usize] = true);
    let is_chosen = |hang: &Hang| chosen[hang.thread.0 as usize];
    let is_within = is_within(recorded, from, to);
    let deadlocks: Vec<_> = deadlocks(graph)
        .into_iter()
        .filter(|cycle| cycle.iter().any(is_chosen) && cycle.iter().all(&is_within))
        .collect();
    let open = if reaches_end(recorded, to) { hangs(graph) } else { Vec::new() };
    let mut waits = OpenWaits { deadlocks, ..OpenWaits::default() };
    for hang in open.into_iter().filter(is_chosen) {
        let thread = recorded.thread_at(hang.thread, to);
        match Blocked::from_hang(&hang, to).class(recorded, &thread, pools).class {
            BlockedClass::Idle => waits.idle += 1,
            BlockedClass::Sleeping => waits.sleeping += 1,
            BlockedClass::Undecided => waits.undecided += 1,
            BlockedClass::Waiting => waits.still_waiting.push(hang),
        }
    }
    waits
}

/// A window's waits that only the recording's end ended, or a signal that killed the thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WindowWaits {
    /// The open wait of the window's thread, if the window reaches the recording's end.
    pub still_waiting: Option<Hang>,
    /// The wait in which a signal killed the window's thread; else the longest such wait of a main thread in a
    /// descendant of its process, if it is long, and the path leads there or the window ended then.
    pub killed: Option<Hang>,
    /// The deadlocks that concern the window's process or its descendants.
    pub deadlocks: Vec<Vec<Hang>>,
}

/// Before this time at a window's end, a killing did not end the window, ns.
const END_NS: u64 = 100_000_000;

/// The open waits in a path's window, and the waits in which threads were killed.
pub fn waits_of_window(recorded: &Recorded, path: &Path) -> WindowWaits {
    let (graph, window) = (recorded.graph(), path.window);
    let is_part = |hang: &Hang| {
        hang.killed.is_some_and(|killed| {
            let leads_there = || {
                path.segments().any(|segment| {
                    segment.thread == Some(hang.thread) && segment.from < killed.at && killed.at <= segment.to
                })
            };
            let ends_window = || window.to.since(killed.at.min(window.to)) <= END_NS;
            let took = window.to.since(window.from);
            killed.at.since(hang.since.max(window.from)) >= took / 10
                && (leads_there() || ends_window() && !was_meanwhile_elsewhere(recorded, path, hang, killed))
        })
    };
    let thread = graph.last_successor(window.thread);
    let own = graph.thread(window.thread).tgid();
    let descends = |other: ThreadIndex| {
        let theirs = graph.thread(other).tgid();
        own.zip(theirs).is_some_and(|(own, theirs)| recorded.descends(theirs, own, window.to))
    };
    let is_within = is_within(recorded, window.from, window.to);
    let is_main = |other: ThreadIndex| {
        let other = graph.thread(other);
        other.tgid() == Some(other.tid()) && other.tgid() != own
    };
    // Number 0: a thread ended the process and so the others' waits; that is no signal.
    let by_signal = |hang: &Hang| hang.killed.is_some_and(|killed| killed.by.number != 0);
    let killed_here = |thread| killed(graph, thread).filter(&is_within).filter(by_signal);
    let of_others = || {
        let others =
            graph.threads().map(|(other, _)| other).filter(|&other| is_main(other) && descends(other));
        let killed: Vec<Hang> = others.filter_map(killed_here).filter(is_part).collect();
        let process = |thread: ThreadIndex| graph.thread(thread).tgid();
        // A process killed by a killed process, its parent for instance, died of the other's death.
        let is_first = |hang: &&Hang| match hang.killed.map(|killed| killed.by.sender) {
            Some(SignalSender::Thread(by)) => {
                process(by) == own || killed.iter().all(|other| process(other.thread) != process(by))
            }
            _ => true,
        };
        let first = killed.iter().filter(is_first).min_by_key(|hang| hang.since);
        first.or_else(|| killed.iter().min_by_key(|hang| hang.since)).cloned()
    };
    let mut deadlocks = deadlocks(graph);
    deadlocks.retain(|cycle| {
        cycle.iter().all(&is_within)
            && cycle.iter().any(|hang| hang.thread == thread || descends(hang.thread))
    });
    let still_waiting = if reaches_end(recorded, window.to) {
        hangs(graph).into_iter().find(|hang| hang.thread == thread)
    } else {
        None
    };
    WindowWaits { still_waiting, killed: killed_here(thread).or_else(of_others), deadlocks }
}

/// Whether the window's own process killed a descendant without having waited for it. For half of the killed wait or
/// more, its path was busy, or in a single sleep of its own, or in processes without any part in the killed process:
/// so a program ends its helpers when its work is done. Sleeps in a row may be the ticks of a wait for the helper.
fn was_meanwhile_elsewhere(recorded: &Recorded, path: &Path, hang: &Hang, killed: Killed) -> bool {
    let graph = recorded.graph();
    let process = |thread: ThreadIndex| graph.thread(thread).tgid();
    let own = process(path.window.thread);
    let is_own = matches!(killed.by.sender, SignalSender::Thread(by) if own.is_some() && process(by) == own);
    let Some(victim) = process(hang.thread).filter(|_| is_own) else { return false };
    let is_related = |other: Tid| {
        recorded.descends(other, victim, killed.at) || recorded.descends(victim, other, killed.at)
    };
    let from = hang.since.max(path.window.from);
    let half = killed.at.since(from) / 2;
    let elsewhere = path.segments().filter_map(|segment| {
        let other = segment.thread.and_then(process);
        let ns = segment.to.min(killed.at).since(segment.from.max(from));
        let is_elsewhere = match segment.kind {
            SegmentKind::Running
            | SegmentKind::Runnable
            | SegmentKind::Throttled
            | SegmentKind::Interrupted
            | SegmentKind::Stolen
            | SegmentKind::BlockDevice
                if other == own =>
            {
                true
            }
            SegmentKind::Timer if other == own => {
                segment.call.is_some_and(|call| call.is_sleep()) && ns >= half
            }
            // A shell waits by a sleeping process.
            SegmentKind::Timer => false,
            _ => other.is_some_and(|other| !is_related(other)),
        };
        is_elsewhere.then_some(ns)
    });
    elsewhere.sum::<u64>() >= half
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakepath_critical_path::{Window, active};
    use wakepath_loaded::testing::read;

    /// Two threads hold a mutex each, and wait for the other's.
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
        let open =
            open_waits_of_threads(&recorded, &threads, Stamp::MIN, recorded.to(), &mut Pools::unknown());
        let tids = |hangs: &[Hang]| {
            hangs.iter().map(|hang| recorded.graph.thread(hang.thread).tid().0).collect::<Vec<_>>()
        };
        assert_eq!(open.deadlocks.iter().map(|cycle| tids(cycle)).collect::<Vec<_>>(), [[7, 8]]);
        assert_eq!(tids(&open.still_waiting), [7, 8]);
        assert_eq!([open.idle, open.sleeping, open.undecided], [0; 3]);
        assert_eq!(threads_headline(&open), ThreadsHeadline::Deadlocked);
        let open = OpenWaits { deadlocks: Vec::new(), ..open };
        assert_eq!(threads_headline(&open), ThreadsHeadline::StillWaiting(2));
        let open = OpenWaits { still_waiting: Vec::new(), idle: 3, ..open };
        assert_eq!(threads_headline(&open), ThreadsHeadline::Choose);
    }

    #[test]
    fn a_deadlock_concerns_windows_of_its_threads_that_reach_the_end_and_no_others() {
        let trace = wakepath_scenario::text::parse(
            "thread left tid=7
             thread right tid=8 tgid=7
             thread other tid=9
             0 c1 idle switch other
             1 c0 idle switch left
             10 c0 left switch right blocked call=202:0x1000 op=128 value=2 claim=right
             20 c0 right switch idle blocked call=202:0x2000 op=128 value=2 claim=left
             50 c1 other switch idle blocked call=0:3
             100 c0 idle switch idle",
        );
        let recorded = read(&trace.expect("a trace").events);
        let of = |tid: u32, to: u64| {
            let window = Window {
                thread: recorded.with_tid(wakepath_event::Tid(tid))[0],
                from: Stamp::from_ns(5),
                to: Stamp::from_ns(to),
            };
            let waits = waits_of_window(&recorded, &active(recorded.graph(), window));
            (waits.still_waiting.map(|hang| hang.since.ns()), waits.killed.is_some(), waits.deadlocks.len())
        };
        assert_eq!(
            [of(7, 100), of(8, 100), of(9, 100)],
            [(Some(10), false, 1), (Some(20), false, 1), (Some(50), false, 0)]
        );
        assert_eq!([of(7, 99), of(9, 60)], [(None, false, 0); 2], "not up to the end");
        let other = recorded.with_tid(wakepath_event::Tid(9)).to_vec();
        let open_of = |threads: &[ThreadIndex], to: u64| {
            let (from, to) = (Stamp::MIN, Stamp::from_ns(to));
            open_waits_of_threads(&recorded, threads, from, to, &mut Pools::unknown())
        };
        let open = |to: u64| open_of(&other, to);
        assert_eq!((open(100).deadlocks.len(), open(100).undecided), (0, 1));
        assert_eq!(open(99), OpenWaits::default());
        let all: Vec<_> = recorded.graph.threads().map(|(index, _)| index).collect();
        let deadlocks = [5, 15, 20, 99, 100].map(|to| open_of(&all, to).deadlocks.len());
        assert_eq!(deadlocks, [0, 0, 0, 0, 1], "the cycle is known to be one at the end alone");
    }

    #[test]
    fn a_deadlock_that_a_signal_ended_is_one_of_times_with_that_moment_and_no_others() {
        let trace = wakepath_scenario::text::parse(
            "thread left tid=7
             thread right tid=8 tgid=7
             thread killer tid=99
             0 c0 idle started
             0 c1 idle switch killer
             1 c0 idle switch left
             10 c0 left switch right blocked call=202:0x1000 op=128 value=2 claim=right
             20 c0 right switch idle blocked call=202:0x2000 op=128 value=2 claim=left
             300 c1 killer waking left
             300 c1 killer waking right
             301 c0 idle switch left
             302 c0 left signal 9 cut=202 sent=300 by=killer
             303 c0 left exit
             304 c0 left switch right dead
             305 c0 right signal 9 cut=202 sent=300 by=killer
             306 c0 right exit
             307 c0 right switch idle dead
             500 c0 idle stopped",
        );
        let recorded = read(&trace.expect("a trace").events);
        let threads: Vec<_> = recorded.graph.threads().map(|(index, _)| index).collect();
        for (from, to, deadlocks) in [(0, 500, 1), (0, 300, 1), (0, 299, 0), (299, 300, 1), (300, 500, 0)] {
            let (from, to) = (Stamp::from_ns(from), Stamp::from_ns(to));
            let open = open_waits_of_threads(&recorded, &threads, from, to, &mut Pools::unknown());
            assert_eq!(open.deadlocks.len(), deadlocks, "{}..{}", from.ns(), to.ns());
        }
    }

    #[test]
    fn the_killed_wait_of_a_window_is_its_threads_own_else_the_longest_of_a_descendants_main_thread() {
        let trace = wakepath_scenario::text::parse(
            "thread asked tid=10
             thread helper tid=11 tgid=10
             thread child tid=20 parent=10
             thread inner tid=21 tgid=20 parent=10
             thread stranger tid=30
             thread killer tid=99
             0 c0 idle started
             0 c1 idle switch killer
             0 c0 idle switch stranger
             1 c0 stranger switch inner blocked call=0:5
             5 c0 inner switch child blocked call=0:4
             10 c0 child switch asked blocked call=0:3
             20 c0 asked switch helper blocked call=61:20
             25 c0 helper switch idle blocked call=0:6
             300 c1 killer waking stranger
             300 c1 killer waking inner
             300 c1 killer waking child
             301 c0 idle switch stranger
             302 c0 stranger signal 9 cut=0 sent=300 by=killer
             303 c0 stranger exit
             304 c0 stranger switch inner dead
             305 c0 inner signal 9 cut=0 sent=300 by=killer
             306 c0 inner exit
             307 c0 inner switch child dead
             308 c0 child signal 9 cut=0 sent=300 by=killer
             309 c0 child exit
             310 c0 child switch idle dead
             500 c0 idle stopped",
        );
        let recorded = read(&trace.expect("a trace").events);
        let killed = |tid: u32, from: u64, to: u64| {
            let thread = recorded.with_tid(wakepath_event::Tid(tid))[0];
            let window = Window { thread, from: Stamp::from_ns(from), to: Stamp::from_ns(to) };
            let killed = waits_of_window(&recorded, &active(recorded.graph(), window)).killed;
            killed.map(|hang| (recorded.graph.thread(hang.thread).tid().0, hang.since.ns()))
        };
        assert_eq!(killed(10, 0, 400), Some((20, 10)), "of a descendant");
        assert_eq!(killed(11, 0, 400), Some((20, 10)), "of one of its process");
        assert_eq!(killed(21, 0, 400), Some((21, 5)), "its own");
        assert_eq!(killed(30, 0, 400), Some((30, 1)), "its own, and no other");
        // The wait ended at 300.
        assert_eq!([killed(10, 299, 300), killed(10, 300, 400)], [Some((20, 10)), None]);
        assert_eq!([killed(10, 0, 299), killed(10, 350, 400)], [None, None]);
    }

    #[test]
    fn a_process_that_a_killed_one_kills_has_no_killed_wait_of_its_own() {
        let trace = wakepath_scenario::text::parse(
            "thread asked tid=10
             thread child tid=20 parent=10
             thread grandchild tid=21 parent=20
             thread killer tid=99
             0 c0 idle started
             0 c1 idle switch killer
             0 c0 idle switch grandchild
             5 c0 grandchild switch child blocked=interruptible call=35:0
             10 c0 child switch asked blocked=interruptible call=0:3
             20 c0 asked switch idle blocked=interruptible call=61:20
             300 c1 killer waking child
             301 c0 idle switch child
             302 c0 child signal 15 cut=0 sent=300 by=killer
             303 c0 child waking grandchild
             304 c0 child exit
             305 c0 child switch grandchild dead
             306 c0 grandchild signal 9 ends cut=35 sent=303 by=child
             307 c0 grandchild exit
             308 c0 grandchild switch idle dead
             500 c0 idle stopped",
        );
        let recorded = read(&trace.expect("a trace").events);
        let thread = recorded.with_tid(wakepath_event::Tid(10))[0];
        let window = Window { thread, from: Stamp::from_ns(0), to: Stamp::from_ns(400) };
        let killed =
            waits_of_window(&recorded, &active(recorded.graph(), window)).killed.expect("a killed wait");
        assert_eq!(recorded.graph.thread(killed.thread).tid().0, 20, "not the longest wait");
    }

    #[test]
    fn a_killed_wait_beside_the_path_is_not_the_window_s_unless_the_window_ended_then() {
        let trace = wakepath_scenario::text::parse(
            "thread asked tid=10
             thread child tid=20 parent=10 blocked=interruptible call=0:3
             thread killer tid=99
             0 c0 idle started
             0 c0 idle switch asked
             0 c1 idle switch killer
             50000000 c1 killer waking child
             50000001 c2 idle switch child
             50000002 c2 child signal 9 cut=0 sent=50000000 by=killer
             50000003 c2 child exit
             50000004 c2 child switch idle dead
             500000000 c0 idle stopped",
        );
        let recorded = read(&trace.expect("a trace").events);
        let thread = recorded.with_tid(wakepath_event::Tid(10))[0];
        let is_killed = |from, to| {
            let window = Window { thread, from: Stamp::from_ns(from), to: Stamp::from_ns(to) };
            waits_of_window(&recorded, &active(recorded.graph(), window)).killed.is_some()
        };
        let killed = 50_000_000;
        let ends = [killed + 100, killed + 100_000_000, killed + 100_000_001];
        assert_eq!(ends.map(|to| is_killed(0, to)), [true, true, false]);
        // The killed wait took a tenth of the window, or less.
        assert_eq!([90, 100].map(|more| is_killed(killed - 10, killed + more)), [true, false]);
    }

    #[test]
    fn a_helper_killed_by_the_window_s_process_counts_only_if_it_was_waited_for() {
        let killed = |own: &str, sender: &str, from: u64| {
            let cpu = if sender == "asked" { "c0" } else { "c1" };
            let trace = wakepath_scenario::text::parse(&format!(
                "thread asked tid=10
                 thread shell tid=15 parent=10
                 thread child tid=20 parent=15 blocked=interruptible call=0:3
                 thread its tid=25 parent=20
                 thread far tid=35 parent=15
                 thread other tid=30 parent=10
                 thread killer tid=99
                 0 c0 idle started
                 0 c0 idle switch asked
                 0 c1 idle switch killer
                 0 c2 idle started
                 0 c3 idle switch shell
                 0 c4 idle switch its
                 0 c5 idle switch other
                 {own}
                 300 {cpu} {sender} waking child
                 301 c2 idle switch child
                 302 c2 child signal 9 cut=0 sent=300 by={sender}
                 303 c2 child exit
                 304 c2 child switch idle dead
                 500 c0 idle stopped"
            ));
            let recorded = read(&trace.expect("a trace").events);
            let thread = recorded.with_tid(Tid(10))[0];
            let window = Window { thread, from: Stamp::from_ns(from), to: Stamp::from_ns(400) };
            waits_of_window(&recorded, &active(recorded.graph(), window)).killed.is_some()
        };
        let waited = |from: u64, call: u32, until: u64, waker: &str| {
            format!(
                "{from} c0 asked switch idle blocked=interruptible call={call}:0x1000
                 {until} {waker} waking asked
                 {until} c0 idle switch asked
                 "
            )
        };
        let timer = "c0 idle/timer";
        let slept =
            "\n 20 c5 other switch idle blocked=interruptible call=230:0\n 290 c5 idle/timer waking other
             291 c5 idle switch other\n";
        let two_sleeps = waited(2, 35, 149, timer) + &waited(150, 35, 297, timer);
        for (own, sender, from, is_named) in [
            (String::new(), "killer", 0, true),
            (String::new(), "asked", 0, false),
            // It ran for 150 ns until the signal, or for 149.
            (waited(149, 7, 299, timer), "asked", 0, false),
            (waited(148, 7, 299, timer), "asked", 0, true),
            // The same in a window that begins later: it ran for 100 ns or 99 of 200.
            (waited(199, 7, 299, timer), "asked", 100, false),
            (waited(198, 7, 299, timer), "asked", 100, true),
            // It was ready to run.
            ("140 c0 asked switch far runnable\n 299 c0 far switch asked blocked".into(), "asked", 0, false),
            // It slept, at once or by turns.
            (waited(10, 35, 299, timer), "asked", 0, false),
            (two_sleeps, "asked", 0, true),
            // Another child slept until a timer.
            (waited(10, 61, 299, "c5 other").replacen('\n', slept, 1), "asked", 0, true),
            // Its path was in another child, in the killed process's parent, or in its child.
            (waited(10, 61, 299, "c5 other"), "asked", 0, false),
            (waited(10, 61, 299, "c3 shell"), "asked", 0, true),
            (waited(10, 61, 299, "c4 its"), "asked", 0, true),
        ] {
            assert_eq!(killed(&own, sender, from), is_named, "{own} {sender} {from}");
        }
    }

    #[test]
    fn a_killed_wait_on_the_path_is_the_window_s_long_before_its_end_too() {
        let trace = wakepath_scenario::text::parse(
            "thread asked tid=10
             thread child tid=20 parent=10 blocked=interruptible call=0:3
             thread killer tid=99
             0 c0 idle started
             0 c0 idle switch asked
             0 c1 idle switch killer
             10 c0 asked switch idle blocked=interruptible call=61:20
             50000000 c1 killer waking child
             50000001 c2 idle switch child
             50000002 c2 child signal 9 cut=0 sent=50000000 by=killer
             50000003 c2 child exit
             50000004 c2 child waking asked
             50000005 c2 child switch idle dead
             50000006 c0 idle switch asked
             500000000 c0 idle stopped",
        );
        let recorded = read(&trace.expect("a trace").events);
        let window = |from| {
            let thread = recorded.with_tid(Tid(10))[0];
            let window = Window { thread, from: Stamp::from_ns(from), to: Stamp::from_ns(400_000_000) };
            waits_of_window(&recorded, &active(recorded.graph(), window)).killed.is_some()
        };
        assert_eq!([0, 50_000_006].map(window), [true, false]);
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
        let open =
            open_waits_of_threads(&recorded, &threads, Stamp::MIN, recorded.to(), &mut Pools::unknown());
        assert_eq!([open.idle, open.sleeping, open.undecided, open.still_waiting.len()], [1, 1, 2, 1]);
    }
}
