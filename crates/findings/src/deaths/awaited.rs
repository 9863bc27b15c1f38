//! A wait without an end, and the dead process expected to end it.
//!
//! The window's thread, or a descendant for whose end it waits, waited without an end: the recording, a signal or a
//! time-out came first. A process dead by then was expected to end it in four cases, all inferred:
//!
//! - The memory of the lock names one of its threads as the owner ([`AwaitedBy::Holds`]).
//! - Only its threads had ended the waiter's earlier waits in the same call, for the same object ([`AwaitedBy::WokeBefore`]).
//! - Its main thread could write to the pipe read by the waiter's process ([`AwaitedBy::Writes`]), under the conditions of the
//!   next case.
//! - The waiter's process woke it, and it had neither woken that process nor gone back to the wait before its wake-up
//!   ([`AwaitedBy::Unanswered`]). Here, no other process may owe an answer or work, and no other thread of the waiter's process.
//!
//! A process that died together with the waiter, or was idle, is not named.

use std::collections::{BTreeMap, BTreeSet};

use wakepath_clock::{Local, Reference, Stamp};
use wakepath_critical_path::{Hang, Window, killed, timed_out};
use wakepath_event::{BlockedState, Call, Context, SignalEffect, Tid};
use wakepath_loaded::Recorded;
use wakepath_wait_graph::{Graph, Occupant, StateInterval, Thread, ThreadIndex, ThreadState, Wait, Waker};

use super::{Death, TOGETHER_NS, children, family};
use crate::LastWaits;

/// A wait, and the dead process expected to end it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AwaitedWait {
    /// The waiting thread.
    pub waiter: ThreadIndex,
    /// The wait's beginning.
    pub since: Stamp<Reference>,
    /// The end of the wait, by something else.
    pub until: Stamp<Reference>,
    /// The evidence.
    pub by: AwaitedBy,
}

/// The evidence for the process expected to end a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AwaitedBy {
    /// The memory of the lock names it as the owner.
    Holds,
    /// It had ended all such waits before; their number.
    WokeBefore(u64),
    /// It could write to the pipe read by the waiter's process.
    Writes,
    /// The waiter's process woke it then, and had no answer.
    Unanswered(Stamp<Reference>),
}

/// The most waits for which a dead process is searched: each search reads the whole recording.
const MAX_SEARCHED: usize = 16;

/// The most generations from a waiting process to its child.
const MAX_CHILDREN: usize = 6;

/// A wait without an end in time.
#[derive(Debug, Clone, Copy)]
struct Unended {
    thread: ThreadIndex,
    since: Stamp<Reference>,
    until: Stamp<Reference>,
    call: Option<Call>,
    owner: Option<ThreadIndex>,
    /// The signal that ended it.
    ended_by: Option<u32>,
}

/// The dead processes expected to end the window's waits, each with its wait.
pub fn expected(
    recorded: &Recorded,
    window: Window,
    waits: LastWaits<'_>,
    deaths: &[Death],
) -> Vec<(Death, AwaitedWait)> {
    if deaths.is_empty() {
        return Vec::new();
    }
    let mut unended = unended(recorded, window, waits);
    let mut place = 0;
    while place < unended.len().min(MAX_CHILDREN) {
        unended.extend(childrens_waits(recorded, &unended[place]));
        place += 1;
    }
    let processes = Processes::new(recorded);
    let found = unended.iter().take(MAX_SEARCHED).find_map(|wait| {
        let waiter = processes.main(wait.thread);
        let possible = |death: &&Death| {
            let is_with_waiter =
                wait.ended_by == Some(death.signal) && wait.until.since(death.at) < TOGETHER_NS;
            death.at < wait.until
                && death.thread != waiter
                && !is_with_waiter
                && !death.is_by_recorder(recorded)
        };
        let candidates: Vec<&Death> = deaths.iter().filter(possible).collect();
        if candidates.is_empty() {
            return None;
        }
        let exchange = Exchange::new(recorded.graph(), &processes, waiter, wait.until, deaths);
        let evidence = |death: &Death| {
            let by = holds(recorded, &processes, wait, death)
                .or_else(|| woke_before(recorded.graph(), &processes, &exchange, wait, death))
                .or_else(|| alone(recorded, &processes, &exchange, wait, death, deaths))?;
            let Unended { thread, since, until, .. } = *wait;
            Some((*death, AwaitedWait { waiter: thread, since, until, by }))
        };
        let found: Vec<_> = candidates.into_iter().filter_map(evidence).collect();
        (!found.is_empty()).then_some(found)
    });
    found.unwrap_or_default()
}

/// The main thread of each thread's process.
struct Processes(Vec<ThreadIndex>);

impl Processes {
    fn new(recorded: &Recorded) -> Self {
        let main = |(index, thread): (ThreadIndex, &Thread)| {
            let main = thread.tgid().and_then(|process| recorded.leader(process, thread.last));
            main.unwrap_or(index)
        };
        Self(recorded.graph().threads().map(main).collect())
    }

    fn main(&self, thread: ThreadIndex) -> ThreadIndex {
        self.0[thread.0 as usize]
    }

    fn threads(&self, process: ThreadIndex) -> impl Iterator<Item = ThreadIndex> {
        let places = self.0.iter().enumerate().filter(move |(_, main)| **main == process);
        places.map(|(place, _)| ThreadIndex(place as u32))
    }
}

/// The window's waits without an end, the clearest first: open ones, and those ended by a signal or a
/// time-out.
fn unended(recorded: &Recorded, window: Window, waits: LastWaits<'_>) -> Vec<Unended> {
    let graph = recorded.graph();
    let of_hang = |hang: &Hang| Unended {
        thread: hang.thread,
        since: hang.since,
        until: hang.killed.map_or(window.to, |killed| killed.at),
        call: hang.call,
        owner: hang.lock.and_then(|lock| lock.owner),
        ended_by: hang.killed.map(|killed| killed.by.number),
    };
    let mut found: Vec<Unended> = waits.still_waiting.into_iter().chain(waits.killed).map(of_hang).collect();
    let own = graph.thread(window.thread).tgid();
    let own = own.map_or(BTreeSet::new(), |own| family(recorded, own, window.to));
    let is_main = |thread: &Thread| thread.tgid() == Some(thread.tid()) && own.contains(&thread.tid());
    let mut cut: Vec<Unended> = Vec::new();
    for (index, thread) in graph.threads() {
        if index != window.thread && !is_main(thread) {
            continue;
        }
        // The longest killed wait may be another's.
        let is_within = |hang: &Hang| hang.killed.is_some_and(|it| window.from < it.at && it.at <= window.to);
        cut.extend(killed(graph, index).filter(is_within).map(|hang| of_hang(&hang)));
        let within = graph.state_intervals(index).overlapping(window.from, window.to);
        for interval in within {
            let Some(wait) = graph.wait(&interval) else { continue };
            let long = interval.to.since(interval.from) > window.to.since(window.from) / 2;
            let ended_by = gave_up(&wait);
            let is_unended = ended_by.is_some() || (index == window.thread && timed_out_in_vain(&wait));
            if long && is_unended {
                cut.push(Unended {
                    thread: index,
                    since: interval.from,
                    until: interval.to,
                    call: wait.call,
                    owner: wait.lock.and_then(|lock| lock.owner),
                    ended_by,
                });
            }
        }
    }
    found.extend(cut);
    found
}

/// The signal by which somebody gave up a wait, if a handler took it.
fn gave_up(wait: &Wait) -> Option<u32> {
    let cut = wait.cut.filter(|cut| cut.effect == SignalEffect::GoesOn)?;
    // HUP INT QUIT TERM
    [1, 2, 3, 15].contains(&cut.signal).then_some(cut.signal)
}

/// Whether a time-out ended a wait for somebody.
fn timed_out_in_vain(wait: &Wait) -> bool {
    let waits_for_somebody = |call: Call| {
        call.number == Call::FUTEX
            || Call::EPOLLS.contains(&call.number)
            || Call::POLLS.contains(&call.number)
    };
    timed_out(wait) && wait.call.is_some_and(|call| waits_for_somebody(call) && !call.is_sleep())
}

/// The waits in the children for which a thread waits, at its wait's end.
fn childrens_waits(recorded: &Recorded, wait: &Unended) -> Vec<Unended> {
    let graph = recorded.graph();
    let is_for_child = wait.call.is_some_and(|call| Call::CHILD_WAITS.contains(&call.number));
    let Some(process) = graph.thread(wait.thread).tgid().filter(|_| is_for_child) else { return Vec::new() };
    let waits = children(recorded, process).filter_map(|(index, _)| {
        let interval = state_before(graph, index, wait.until)?;
        let of_child = graph.wait(&interval)?;
        Some(Unended {
            thread: index,
            since: interval.from,
            until: wait.until,
            call: of_child.call,
            owner: of_child.lock.and_then(|lock| lock.owner),
            ended_by: wait.ended_by,
        })
    });
    waits.collect()
}

/// A thread's state directly before a time; `None` if it was not alive.
fn state_before(graph: &Graph, thread: ThreadIndex, at: Stamp<Reference>) -> Option<StateInterval> {
    let (intervals, row) = (graph.state_intervals(thread), graph.thread(thread));
    if row.first >= at || row.last < at && graph.has_died(thread) {
        return None;
    }
    intervals.get(intervals.find_before(at)?)
}

/// A wake-up: its time, the woken thread, and the call that it waited in.
type LastWakeUp = (Stamp<Reference>, ThreadIndex, Option<(u32, u64)>);

/// The wake-ups between a process and others, up to a time.
struct Exchange {
    /// The last wake-up of others by the process: by the other's process, the time, the thread and its call.
    woken: BTreeMap<ThreadIndex, LastWakeUp>,
    /// The last wake-up of the process by others.
    woke: BTreeMap<ThreadIndex, Stamp<Reference>>,
}

impl Exchange {
    fn new(
        graph: &Graph,
        processes: &Processes,
        process: ThreadIndex,
        until: Stamp<Reference>,
        deaths: &[Death],
    ) -> Self {
        // A dying process wakes those who wait for its end: no answer.
        let died: BTreeMap<ThreadIndex, Stamp<Reference>> =
            deaths.iter().map(|death| (death.thread, death.taken)).collect();
        let mut exchange = Self { woken: BTreeMap::new(), woke: BTreeMap::new() };
        for (index, _) in graph.threads() {
            let woken = processes.main(index);
            for (at, by, wait) in wake_ups(graph, index) {
                let by = processes.main(by);
                if at >= until || by == woken || died.get(&by).is_some_and(|died| at >= *died) {
                    continue;
                }
                if woken == process {
                    let last = exchange.woke.entry(by).or_insert(at);
                    *last = at.max(*last);
                } else if by == process {
                    let call = wait.call.map(|call| (call.number, call.arg0));
                    let last = exchange.woken.entry(woken).or_insert((at, index, call));
                    if at >= last.0 {
                        *last = (at, index, call);
                    }
                }
            }
        }
        exchange
    }

    /// The process's last wake-up of another process, if the other has since, until `at`, neither woken it nor gone back to
    /// its earlier wait.
    fn owed(&self, graph: &Graph, other: ThreadIndex, at: Stamp<Reference>) -> Option<Stamp<Reference>> {
        let (woken, thread, call) = self.woken.get(&other).copied()?;
        let has_answered = self.woke.get(&other).is_some_and(|woke| *woke > woken);
        let wait = state_before(graph, thread, at).and_then(|interval| graph.wait(&interval));
        let is_back = wait.and_then(|wait| wait.call).map(|call| (call.number, call.arg0)) == call;
        let is_done = has_answered || call.is_some() && is_back;
        (!is_done).then_some(woken)
    }
}

/// A thread's waits ended by another thread, without its birth, stops and signals: the time, the waker and the wait.
fn wake_ups(
    graph: &Graph,
    thread: ThreadIndex,
) -> impl Iterator<Item = (Stamp<Reference>, ThreadIndex, Wait)> {
    let intervals = graph.state_intervals(thread);
    (0..intervals.len()).filter_map(move |place| {
        let wait = graph.wait(&intervals.get(place)?)?;
        let is_plain = !wait.newborn && wait.cut.is_none() && wait.state != Some(BlockedState::Stopped);
        match wait.end {
            Waker::Woken(woken) if is_plain && woken.context == Context::Task => match woken.current {
                Occupant::Thread(by) => Some((woken.at, by, wait)),
                _ => None,
            },
            _ => None,
        }
    })
}

fn holds(recorded: &Recorded, processes: &Processes, wait: &Unended, death: &Death) -> Option<AwaitedBy> {
    if wait.owner.is_some_and(|owner| processes.main(owner) == death.thread) {
        return Some(AwaitedBy::Holds);
    }
    let word = wait.call?.lock.filter(|word| !word.is_private())?;
    let owner = word.shaped_owner()?;
    // The number is the owner's in its own PID namespace. If two threads had it, it is unclear.
    let graph = recorded.graph();
    let had_it = |(index, thread): &(ThreadIndex, &Thread)| {
        let number = thread.identity.as_ref().map_or(thread.tid().number(), |it| it.ns_tid.number());
        number == owner.number()
            && thread.first <= wait.since
            && (processes.main(*index) == death.thread || thread.last >= wait.since)
    };
    let mut owners = graph.threads().filter(had_it).map(|(index, _)| processes.main(index));
    let first = owners.next()?;
    (first == death.thread && owners.all(|other| other == first)).then_some(AwaitedBy::Holds)
}

fn woke_before(
    graph: &Graph,
    processes: &Processes,
    exchange: &Exchange,
    wait: &Unended,
    death: &Death,
) -> Option<AwaitedBy> {
    let call = wait.call.filter(|call| !call.is_sleep())?;
    let key = |call: Call| (call.number, call.arg0);
    // A process with answered work is idle.
    if exchange.woken.contains_key(&death.thread) && exchange.owed(graph, death.thread, death.at).is_none() {
        return None;
    }
    let earlier = wake_ups(graph, wait.thread)
        .filter(|(at, _, earlier)| *at <= wait.since && earlier.call.is_some_and(|it| key(it) == key(call)));
    let mut count = 0;
    for (_, by, _) in earlier {
        if processes.main(by) != death.thread {
            return None;
        }
        count += 1;
    }
    (count > 0).then_some(AwaitedBy::WokeBefore(count))
}

/// The evidence for a process, valid only if no other process may owe the answer.
fn alone(
    recorded: &Recorded,
    processes: &Processes,
    exchange: &Exchange,
    wait: &Unended,
    death: &Death,
    deaths: &[Death],
) -> Option<AwaitedBy> {
    let graph = recorded.graph();
    let waiter = processes.main(wait.thread);
    let owed = exchange.owed(graph, death.thread, death.at).filter(|since| *since <= death.at);
    let by = match owed {
        Some(since) => AwaitedBy::Unanswered(since),
        // A process with answered work is idle.
        None if exchange.woken.contains_key(&death.thread) => return None,
        None if could_write(recorded, processes, wait, death) => AwaitedBy::Writes,
        None => return None,
    };
    if processes.threads(waiter).any(|thread| thread != wait.thread && is_at_work(graph, thread, wait.until))
    {
        return None;
    }
    let family = graph.thread(waiter).tgid().map(|process| family(recorded, process, wait.until));
    let is_child = |process: Tid| family.as_ref().is_some_and(|family| family.contains(&process));
    let only_children = is_child(death.process);
    let may_owe = |(index, thread): (ThreadIndex, &Thread)| {
        let is_main = processes.main(index) == index;
        let is_kernel = thread.identity.as_ref().is_none_or(|identity| identity.kernel);
        let process = thread.tgid().unwrap_or(thread.tid());
        let is_dead = graph.has_died(index) && thread.last < wait.until
            || deaths.iter().any(|other| other.thread == index && other.at < wait.until);
        if !is_main || is_kernel || index == waiter || is_dead || thread.first >= death.at {
            return false;
        }
        if only_children && !is_child(process) {
            return false;
        }
        let works = || processes.threads(index).any(|thread| is_at_work(graph, thread, wait.until));
        exchange.owed(graph, index, wait.until).is_some() || only_children && works()
    };
    (!graph.threads().any(may_owe)).then_some(by)
}

/// Whether the dead process could write to a pipe read by the waiter; or read by another thread in its process, if the waiter
/// waits for a futex.
fn could_write(recorded: &Recorded, processes: &Processes, wait: &Unended, death: &Death) -> bool {
    let graph = recorded.graph();
    let Some(reader) = graph.thread(wait.thread).tgid() else { return false };
    let [taken, until] = [death.taken, wait.until].map(|at| Stamp::<Local>::from_ns(at.ns()));
    let reads = |call: Option<Call>| {
        call.is_some_and(|call| recorded.names().could_write((&call, reader, until), (death.process, taken)))
    };
    let of_others = || {
        processes.threads(processes.main(wait.thread)).any(|thread| {
            let interval = state_before(graph, thread, wait.until);
            reads(interval.and_then(|interval| graph.wait(&interval)?.call))
        })
    };
    let is_futex = wait.call.is_some_and(|call| call.number == Call::FUTEX);
    reads(wait.call) || (is_futex && of_others())
}

/// Whether a thread runs, sleeps for a time, or waits for a device directly before a time: it may go on by itself.
fn is_at_work(graph: &Graph, thread: ThreadIndex, at: Stamp<Reference>) -> bool {
    let Some(interval) = state_before(graph, thread, at) else { return false };
    match interval.state {
        ThreadState::Blocked(_) => graph.wait(&interval).is_none_or(|wait| {
            let sleeps = wait.call.is_none_or(|call| call.is_sleep());
            sleeps || wait.state == Some(BlockedState::Uninterruptible)
        }),
        _ => true,
    }
}
