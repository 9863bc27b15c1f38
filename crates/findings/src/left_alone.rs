//! A process's wait for its child's end, the child's own wait, and threads left alone in a wait.

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::{Hang, waits_at};
use wakepath_event::{BlockedState, LockWord, Tid};
use wakepath_loaded::Recorded;
use wakepath_wait_graph::{Occupant, Thread, ThreadIndex};

use crate::deaths::children;
use crate::far_ends::waits_for_children;

/// A child's wait, while its parent waited for its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildWait {
    /// The wait.
    pub hang: Hang,
    /// Nobody could wake it.
    pub left_alone: Option<LeftAlone>,
}

/// A thread in a futex for threads of its own process alone, without a time-out and without any other thread in the process.
/// A signal may still end the wait. Inferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftAlone {
    /// It began as a fork of a process with several threads, which copied all locks, and no thread but the forking one: the futex may be
    /// such a lock.
    Forked,
    /// For another reason.
    NotForked,
}

/// The most generations.
const MAX_CHILDREN: usize = 6;

/// The waits behind a wait for children's ends, up to `at`: each in the main thread of the only child alive then, and at least half
/// as long as the first wait.
pub fn child_waits(recorded: &Recorded, hang: &Hang, at: Stamp<Reference>) -> Vec<ChildWait> {
    let graph = recorded.graph();
    let until = hang.killed.map_or(at, |killed| killed.at);
    let mut found: Vec<ChildWait> = Vec::new();
    let mut last = hang.clone();
    while waits_for_children(&last) && found.len() < MAX_CHILDREN {
        let Some(parent) = graph.thread(last.thread).tgid() else { break };
        let living =
            children(recorded, parent).filter(|(index, thread)| is_alive(recorded, *index, thread, until));
        let mut waits = living.map(|(child, _)| waits_at(graph, child, until));
        let (Some(Some(wait)), None) = (waits.next(), waits.next()) else { break };
        if until.since(wait.since) < until.since(hang.since) / 2 {
            break;
        }
        found.push(ChildWait { left_alone: left_alone(recorded, &wait, until), hang: wait.clone() });
        last = wait;
    }
    found
}

fn is_alive(recorded: &Recorded, index: ThreadIndex, thread: &Thread, at: Stamp<Reference>) -> bool {
    thread.first < at && (at <= thread.last || !recorded.graph().has_died(index))
}

/// Whether nobody could wake a thread from a wait, up to `at` or a signal that killed it.
pub fn left_alone(recorded: &Recorded, hang: &Hang, at: Stamp<Reference>) -> Option<LeftAlone> {
    let graph = recorded.graph();
    let at = hang.killed.map_or(at, |killed| killed.at);
    hang.call.filter(|call| call.lock == Some(LockWord::private_futex()))?;
    // Stopped by a signal, or in a page fault on the futex, it waits for something else.
    if hang.state != Some(BlockedState::Interruptible) || graph.losses().touch_reported(Stamp::MIN, at) {
        return None;
    }
    let thread = graph.thread(hang.thread);
    let process = thread.tgid()?;
    let threads_of = |process: Tid, at: Stamp<Reference>| {
        let threads = graph.threads().filter(move |(_, thread)| thread.tgid() == Some(process));
        threads.filter(|(index, thread)| is_alive(recorded, *index, thread, at)).count()
    };
    if threads_of(process, at) != 1 || threads_of(process, hang.since) != 1 {
        return None;
    }
    let parent = match thread.born {
        Some((born, Occupant::Thread(parent))) if thread.execs.is_empty() => Some((born, parent)),
        _ => None,
    };
    let is_copy = parent.is_some_and(|(born, parent)| {
        graph.thread(parent).tgid().is_some_and(|parent| threads_of(parent, born) > 1)
    });
    Some(if is_copy { LeftAlone::Forked } else { LeftAlone::NotForked })
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakepath_critical_path::killed;
    use wakepath_loaded::testing::read;

    /// A parent with two threads forks a child, which waits for a private futex; the parent waits for it.
    const FORKED: &str = "
        thread parent tid=10
        thread holder tid=11 tgid=10 blocked=interruptible call=230:0
        thread killer tid=99
        0 c0 idle started
        0 c1 idle switch killer
        0 c0 idle switch parent
        10 c0 parent fork child tid=20 parent=10
        20 c0 parent switch child blocked=interruptible call=61:20
        30 c0 child switch idle blocked=interruptible call=202:0x1000 private
        40 c0 idle started
        500 c1 killer waking parent
        501 c0 idle switch parent
        502 c0 parent signal 15 cut=61 sent=500 by=killer
        503 c0 parent exit
        504 c0 parent switch idle dead
        900 c0 idle stopped
    ";

    fn told(changes: &[(&str, &str)]) -> Vec<(u32, Option<LeftAlone>)> {
        let mut trace = FORKED.to_owned();
        for (from, to) in changes {
            assert!(trace.contains(from), "{from}");
            trace = trace.replacen(from, to, 1);
        }
        let recorded = read(&wakepath_scenario::text::parse(&trace).expect("a trace").events);
        let hang = killed(recorded.graph(), recorded.with_tid(Tid(10))[0]).expect("a killed wait");
        let waits = child_waits(&recorded, &hang, recorded.to());
        waits.iter().map(|it| (recorded.graph().thread(it.hang.thread).tid().0, it.left_alone)).collect()
    }

    #[test]
    fn a_forked_child_in_a_lock_copied_by_the_fork_is_left_alone() {
        assert_eq!(told(&[]), [(20, Some(LeftAlone::Forked))]);
        let not_forked = [(20, Some(LeftAlone::NotForked))];
        // The parent had a single thread; the child executes another program.
        assert_eq!(
            told(&[("        thread holder tid=11 tgid=10 blocked=interruptible call=230:0\n", "")]),
            not_forked
        );
        let exec = ("30 c0 child", "25 c0 child exec other\n30 c0 child");
        assert_eq!(told(&[exec]), not_forked);
    }

    #[test]
    fn a_child_with_somebody_to_wake_it_is_not_left_alone() {
        let waits = [(20, None)];
        assert_eq!(told(&[("private", "op=128")]), waits, "it may have a time-out");
        assert_eq!(told(&[("private", "op=128 value=2 claim=holder")]), waits, "of a lock's waits as well");
        assert_eq!(told(&[("blocked=interruptible call=202", "blocked=uninterruptible call=202")]), waits);
        assert_eq!(
            told(&[("40 c0 idle", "40 c0 idle loss from=35\n40 c0 idle")]),
            waits,
            "a fork may be lost"
        );
        assert_eq!(told(&[("call=202:0x1000 private", "call=0:3")]), waits);
        let helper = ("30 c0 child", "25 c0 child fork helper tid=21 tgid=20 parent=10\n30 c0 child");
        assert_eq!(told(&[helper]), waits, "it has another thread");
    }

    #[test]
    fn only_a_single_living_child_is_awaited() {
        assert_eq!(told(&[("call=61:20", "call=0:3"), ("cut=61", "cut=0")]), [], "no wait for children");
        let second = ("20 c0 parent", "15 c0 parent fork other tid=30 parent=10\n20 c0 parent");
        assert_eq!(told(&[second]), []);
        let ended = "31 c0 idle switch other\n32 c0 other exit\n33 c0 other switch idle dead\n500 c1 killer";
        assert_eq!(told(&[second, ("500 c1 killer", ended)]), [(20, Some(LeftAlone::Forked))]);
        let late = ("503 c0 parent", "502 c1 killer fork late tid=40 parent=10\n503 c0 parent");
        assert_eq!(told(&[late]), [(20, Some(LeftAlone::Forked))]);
    }

    #[test]
    fn a_child_s_wait_that_took_less_than_half_of_its_parent_s_is_not_named() {
        // The parent waits from 20 to 500.
        let late = |at: u64| {
            let moved = format!("{at} c0 child switch");
            let line = "        30 c0 child switch idle blocked=interruptible call=202:0x1000 private\n";
            let rest = line.trim_start().trim_start_matches("30 c0 child switch");
            told(&[(line, ""), ("        40 c0 idle started\n", &format!("{moved}{rest}"))]).len()
        };
        assert_eq!([260, 261].map(late), [1, 0]);
    }

    #[test]
    fn the_waits_go_on_to_the_child_s_child() {
        let deeper = (
            "30 c0 child switch idle blocked=interruptible call=202:0x1000 private",
            "30 c0 child fork inner tid=30 parent=20\n31 c0 child switch inner blocked=interruptible call=61:30\n\
             32 c0 inner switch idle blocked=interruptible call=0:3",
        );
        assert_eq!(told(&[deeper]), [(20, None), (30, None)]);
    }
}
