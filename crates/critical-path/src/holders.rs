//! Threads that hold what another thread of their process waits for with time-outs, as the holders of CPython's interpreter lock do.

use wakepath_clock::{Reference, Stamp};
use wakepath_event::Call;
use wakepath_wait_graph::{Graph, Occupant, StateInterval, ThreadIndex, ThreadState, Wait};

use crate::early_end::timed_out;

/// The least share of a slice for which a holder ran or was ready to run, %.
const RAN_MEANWHILE: u64 = 95;
/// A waiter that only asks the holder to hand over runs for less than this part of its slice.
const ASKS: u64 = 32;
/// The most intervals from a slice to the last one.
const MAX_INTERVALS: usize = 256;
/// The most hand-overs between holders from a slice to the wait's end.
const MAX_HANDED_OVER: usize = 64;

/// Whether a thread's `last` wait in a futex and an earlier `slice` are waits for the same holders: the thread that ended it, and the threads
/// that had handed over to that one, ran all through the slice. They may hold what the other one waits for with time-outs, as the holders of
/// CPython's interpreter lock do: the waiter asks for it behind each time-out, and has it soon. A timer, and a thread that sleeps until it has
/// work, do not run; a thread with work of its own runs between its waits.
pub(crate) fn held_meanwhile(
    graph: &Graph,
    thread: ThreadIndex,
    slice: &StateInterval,
    (last, wait): (&StateInterval, &Wait),
) -> bool {
    let Some(at) = wait.call.and_then(|call| call.futex()) else { return false };
    let Some(ender) = ender_of(wait).filter(|ender| is_mate(graph, thread, *ender)) else { return false };
    let length = slice.to.since(slice.from);
    let asks_ns = graph.state_intervals(thread).time_in(slice.to, last.from, is_running);
    last.to.since(last.from) <= length
        && asks_ns * ASKS < length
        && is_held_through(graph, at, slice, (ender, last.to))
}

/// Whether the holder until a time, and the threads that had handed over to it at the futex, ran all through the slice.
pub(crate) fn is_held_through(
    graph: &Graph,
    at: u64,
    slice: &StateInterval,
    (mut holder, mut until): (ThreadIndex, Stamp<Reference>),
) -> bool {
    let is_on_cpu = |state| matches!(state, ThreadState::Running { .. } | ThreadState::Runnable { .. });
    let mut held_ns = 0;
    for _ in 0..MAX_HANDED_OVER {
        let intervals = graph.state_intervals(holder);
        let handed_over = intervals.overlapping(slice.from, until).filter_map(|interval| {
            let wait = graph.wait(&interval).filter(|_| interval.to < until)?;
            wait.call?.futex().filter(|word| Call::is_same_condition(*word, at))?;
            let by = ender_of(&wait).filter(|by| is_mate(graph, holder, *by))?;
            Some((interval.to, by))
        });
        let handed_over = handed_over.last();
        let since = handed_over.map_or(slice.from, |(at, _)| at.max(slice.from));
        held_ns += intervals.time_in(since.min(slice.to), until.min(slice.to), is_on_cpu);
        match handed_over {
            Some((at, by)) if at > slice.from => (holder, until) = (by, at),
            _ => break,
        }
    }
    held_ns * 100 >= slice.to.since(slice.from) * RAN_MEANWHILE
}

/// The thread that had a CPU as a time-out ended a thread's wait in a futex, and right behind waits there too, or for the thread itself: it handed
/// over what it had before the thread waited again.
pub(crate) fn handed_over_behind(
    graph: &Graph,
    thread: ThreadIndex,
    at: u64,
    slice: &StateInterval,
) -> Option<ThreadIndex> {
    let length = slice.to.since(slice.from);
    let occupant = |cpu| match graph.occupancies(cpu, slice.to, slice.to.plus(1)).next()?.occupant {
        Occupant::Thread(other) => Some(other),
        _ => None,
    };
    let hands_over = |other: &ThreadIndex| {
        let intervals = graph.state_intervals(*other);
        let is_blocked = |interval: &StateInterval| matches!(interval.state, ThreadState::Blocked(_));
        let next = intervals.overlapping(slice.to, slice.to.plus(length)).find(is_blocked);
        next.is_some_and(|next| {
            let wait = graph.wait(&next);
            let word = wait.and_then(|wait| wait.call?.futex());
            let is_taken = wait.as_ref().and_then(ender_of) == Some(thread);
            let ran_ns = intervals.time_in(slice.to, next.from, is_running);
            word.is_some_and(|word| is_taken || Call::is_same_condition(word, at)) && ran_ns * ASKS < length
        })
    };
    let others = graph.cpus().filter_map(occupant).filter(|other| is_mate(graph, thread, *other));
    let mut others = others.filter(hands_over);
    others.next().filter(|_| others.next().is_none())
}

/// The last slice, from the one at `index` on, behind which a thread asked again, and did not run for longer.
pub(crate) fn last_slice(graph: &Graph, thread: ThreadIndex, index: usize) -> Option<StateInterval> {
    let intervals = graph.state_intervals(thread);
    let mut last = intervals.get(index)?;
    let at = graph.wait(&last)?.call?.futex()?;
    let length = last.to.since(last.from);
    let mut ran_ns = 0;
    for interval in (index + 1..intervals.len()).map_while(|next| intervals.get(next)).take(MAX_INTERVALS) {
        ran_ns += if is_running(interval.state) { interval.to.since(interval.from) } else { 0 };
        let wait = graph.wait(&interval).filter(|_| matches!(interval.state, ThreadState::Blocked(_)));
        let is_slice = |wait: &Wait| {
            timed_out(wait)
                && wait
                    .call
                    .and_then(|call| call.futex())
                    .is_some_and(|word| Call::is_same_condition(word, at))
        };
        match wait {
            _ if ran_ns * ASKS >= length => break,
            Some(wait) if is_slice(&wait) => (last, ran_ns) = (interval, 0),
            Some(_) => break,
            None => {}
        }
    }
    Some(last)
}

fn is_mate(graph: &Graph, thread: ThreadIndex, other: ThreadIndex) -> bool {
    let process = graph.thread(thread).tgid();
    process.is_some() && process == graph.thread(other).tgid() && thread != other
}

const fn is_running(state: ThreadState) -> bool {
    matches!(state, ThreadState::Running { .. })
}

/// The thread that ended a wait, which no signal cut short.
pub(crate) fn ender_of(wait: &Wait) -> Option<ThreadIndex> {
    wait.woken_by().filter(|_| wait.cut.is_none())
}
