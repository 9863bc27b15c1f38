//! The graph builder: it stores a timeline's output.

use std::borrow::Borrow;

use wakepath_clock::{Reference, Stamp};
use wakepath_event::{
    BlockedState, Call, CgroupId, Comm, Context, Cpu, Event, EventKind, HostIndex, Signal, SignalAction,
    SignalEffect, ThreadIdentity, Tid,
};
use wakepath_timeline::{Sink, State, Timeline};

use crate::chunks::Chunks;
use crate::occupancy::Occupancies;
use crate::state_interval::Packed;
use crate::wait::Waits;
use crate::{
    Cut, Evidence, EvidenceIndex, Graph, Loss, Losses, Occupant, Release, Thread, ThreadIndex, UnknownReason,
    Wait, WaitIndex, WakeUp, Waker,
};

/// Builds a [`Graph`] from events in time order.
#[derive(Debug, Default)]
pub struct Builder {
    timeline: Timeline,
    store: Store,
}

/// The graph while it grows: the timeline's output goes here.
#[derive(Debug, Default)]
struct Store {
    graph: Graph,
    /// The threads' state intervals, apart from the rarely needed rest of each thread.
    interval_lists: Vec<IntervalList>,
    losses: Vec<Loss>,
}

#[derive(Debug)]
struct IntervalList {
    intervals: Chunks<Packed>,
    end: Stamp<Reference>,
}

impl IntervalList {
    /// Makes the time behind a wake-up before its switch-out unknown where records may be lost. Such a wake-up counts only if no other followed, and
    /// the other one may be lost.
    fn doubt_early_wake_ups(&mut self, waits: &Waits, losses: &Losses) {
        let end = self.end;
        let mut intervals = self.intervals.iter_mut().peekable();
        let mut follows = false;
        while let Some(interval) = intervals.next() {
            let from = interval.from();
            let to = intervals.peek().map_or(end, |next| next.from());
            match interval.state() {
                State::Runnable { .. } if follows && losses.touch(from, to) => {
                    interval.set_state(State::Unknown(UnknownReason::Lost));
                    follows = false;
                }
                State::Blocked(index) => {
                    let wait = waits.get(index, to);
                    follows = wait.is_some_and(|wait| wait.is_woken_before(from));
                }
                _ => follows = false,
            }
        }
    }
}

impl Builder {
    /// Adds the next event. Programs' own marks lie over the graph, and change neither it nor its time.
    pub fn push(&mut self, event: &Event) {
        if matches!(event.kind, EventKind::UserMark(_) | EventKind::UserMarksLost { .. }) {
            return;
        }
        let at = event.at.on_reference_host();
        let graph = &mut self.store.graph;
        if graph.events == 0 {
            graph.from = at;
            graph.to = at;
        }
        graph.events += 1;
        graph.to = graph.to.max(at);
        self.timeline.push(event, &mut self.store);
        let graph = &mut self.store.graph;
        match &event.kind {
            EventKind::Sample(stack) => {
                let current = self.timeline.current(event);
                graph.samples.push(graph.to, current, stack);
            }
            EventKind::StackOf(id) => {
                let current = self.timeline.current(event);
                graph.stacks.push(at, current, *id);
            }
            EventKind::Stack(stack) => graph.stacks.define(stack.id(), stack),
            EventKind::StackLater(id, stack) => graph.stacks.define(*id, stack),
            EventKind::Flow(id, flow) => {
                graph.flows.insert(*id, *flow);
                graph.dialogues.define(*id, flow.within(event.current.host()), *flow);
            }
            EventKind::Packet(packet) => {
                let flow = graph.flows.get(&packet.flow);
                let sender = match self.timeline.current(event) {
                    Occupant::Thread(thread) if event.context == Context::Task => Some(thread),
                    _ => None,
                };
                graph.dialogues.packet(graph.to, packet, flow, sender);
            }
            _ => {}
        }
    }

    /// Ends a host, among several, at the last added event: from here on nothing is known about its threads
    /// and these CPUs, which are all its CPUs.
    pub fn end_host(&mut self, host: HostIndex, cpus: impl IntoIterator<Item = Cpu>) {
        self.timeline.end_host(host, cpus, &mut self.store);
        let graph = &mut self.store.graph;
        graph.host_ends.push((host, graph.to));
    }

    /// The graph of all events so far.
    pub fn finish(mut self) -> Graph {
        let counts = self.timeline.finish(&mut self.store);
        let mut graph = self.store.graph;
        graph.counts = counts;
        graph.losses = Losses::new(self.store.losses);
        graph.samples.sort();
        graph.stacks.sort();
        graph.acquisitions.sort_unstable();
        graph.acquisitions.shrink_to_fit();
        graph.releases.sort_unstable();
        graph.releases.shrink_to_fit();
        graph.evidence.shrink_to_fit();
        graph.waits.finish();
        graph.occupancies.iter_mut().for_each(Occupancies::shrink);
        let any_lost = !graph.losses.all().is_empty();
        for (thread, mut list) in graph.threads.iter_mut().zip(self.store.interval_lists) {
            if any_lost {
                list.doubt_early_wake_ups(&graph.waits, &graph.losses);
            }
            list.intervals.shrink();
            thread.intervals = list.intervals;
            thread.last = list.end;
        }
        graph
    }
}

/// The graph of events in time order.
///
/// ```
/// # use wakepath_wait_graph::Graph;
/// # let events: Vec<wakepath_event::Event> = Vec::new();
/// let graph: Graph = events.iter().collect();
/// ```
impl<E: Borrow<Event>> FromIterator<E> for Graph {
    fn from_iter<T: IntoIterator<Item = E>>(events: T) -> Self {
        let mut builder = Builder::default();
        events.into_iter().for_each(|event| builder.push(event.borrow()));
        builder.finish()
    }
}

impl Store {
    fn row(&mut self, thread: ThreadIndex) -> &mut Thread {
        &mut self.graph.threads[thread.0 as usize]
    }

    fn is_same_process(&self, thread: ThreadIndex, other: Occupant) -> bool {
        let process = |thread: ThreadIndex| self.graph.threads.get(thread.0 as usize)?.tgid();
        let other = other.thread().and_then(process);
        other.is_some() && other == process(thread)
    }

    /// The wait that a signal cut short, if any, and its wake-up. It is the thread's last wait, and the signal's record names its system call as cut
    /// short; but the call may not have waited at all, and a signal held back until then may have come long after the wake-up. So the signal must
    /// have been sent right behind the wake-up, by the same thread.
    fn wait_cut_by(
        &self,
        thread: ThreadIndex,
        signal: &Signal,
        sent: Option<(Stamp<Reference>, Occupant)>,
    ) -> Option<(WaitIndex, Stamp<Reference>)> {
        /// A wake-up and its signal are sent under the same lock, with interrupts off; a hypervisor may come between.
        const MAX_APART_NS: u64 = 20_000_000;
        let list = self.interval_lists.get(thread.0 as usize)?;
        let ends = signal.action == SignalAction::ProcessEnds;
        let mut to = list.end;
        for index in (0..list.intervals.len()).rev() {
            let interval = list.intervals.get(index)?;
            match interval.state() {
                // A signal with a recorded sending is taken as soon as the thread runs, even if a switch was not recorded.
                State::Unknown(_) if sent.is_none() => return None,
                State::Blocked(index) => {
                    let wait = self.graph.waits.get(index, to)?;
                    let Waker::Woken(WakeUp { at: woken, current, .. }) = wait.end else { return None };
                    let in_call =
                        |call| signal.cut_call == Some(call) || signal.cut_call == Some(Call::RESTART);
                    let same_call = wait.call.is_none_or(|call| in_call(call.number));
                    let is_cut = match sent {
                        // A core-dumping signal is taken by a single thread, which then ends the others.
                        _ if ends && self.is_same_process(thread, current) => true,
                        Some((at, by)) => by == current && woken <= at && at.since(woken) <= MAX_APART_NS,
                        // When a process ends, its other threads are woken without a sending of their own.
                        None => ends,
                    };
                    let cuts_call = signal.cut_call.is_some() && same_call;
                    // The thread does not go back to its call.
                    let kills =
                        wait.state == Some(BlockedState::Stopped) && signal.effect() == SignalEffect::Kills;
                    return ((cuts_call || kills) && is_cut).then_some((index, woken));
                }
                _ => to = interval.from(),
            }
        }
        None
    }

    /// A signal woke the thread at `woken`; no release of a lock did.
    fn take_back_release(&mut self, thread: ThreadIndex, woken: Stamp<Reference>) {
        /// The signal follows its wake-up as soon as the thread runs: few other waits end in between.
        const MAX_BEHIND: usize = 256;
        let releases = &mut self.graph.releases;
        let first = releases.len().saturating_sub(MAX_BEHIND);
        let is_it = |one: &Release| one.woken == thread && one.at == woken;
        if let Some(place) = releases[first..].iter().rposition(is_it) {
            releases.remove(first + place);
        }
    }
}

/// The release of a futex lock that ended this wait of a thread.
fn release(thread: ThreadIndex, wait: &Wait) -> Option<Release> {
    let lock = wait.lock.filter(|lock| !lock.kernel)?;
    match wait.end {
        Waker::Woken(WakeUp { at, current: Occupant::Thread(by), context: Context::Task, .. }) => {
            Some(Release { address: lock.address, at, by, woken: thread })
        }
        _ => None,
    }
}

/// A CPU's entry in a per-CPU list.
fn cpu_entry<T: Default>(list: &mut Vec<T>, cpu: Cpu) -> &mut T {
    let index = usize::from(cpu.0);
    if index >= list.len() {
        list.resize_with(index + 1, T::default);
    }
    &mut list[index]
}

impl Sink for Store {
    fn thread(&mut self, _: ThreadIndex, tid: Tid, at: Stamp<Reference>) {
        self.graph.threads.push(Thread::new(tid, at));
        self.interval_lists.push(IntervalList { intervals: Chunks::new(), end: at });
    }

    fn identity(&mut self, thread: ThreadIndex, at: Stamp<Reference>, identity: &ThreadIdentity) {
        let row = self.row(thread);
        if row.identity.is_none() {
            row.cgroups.push((at, identity.cgroup, identity.cpu_cgroup));
            row.identity = Some(identity.clone());
            row.introduced = Some(at);
        }
    }

    fn born(&mut self, thread: ThreadIndex, at: Stamp<Reference>, forker: Occupant) {
        self.row(thread).born = Some((at, forker));
    }

    fn named(&mut self, thread: ThreadIndex, at: Stamp<Reference>, comm: Comm) {
        let row = self.row(thread);
        if row.names.last().is_none_or(|&(_, last)| last != comm) {
            row.names.push((at, comm));
        }
    }

    fn exec(&mut self, thread: ThreadIndex, at: Stamp<Reference>, path: &[u8]) {
        self.row(thread).execs.push((at, path.into()));
    }

    fn renumbered(&mut self, thread: ThreadIndex, at: Stamp<Reference>, tid: Tid) {
        self.row(thread).tids.push((at, tid));
    }

    fn succeeded(&mut self, thread: ThreadIndex, by: ThreadIndex) {
        self.row(thread).successor = Some(by);
    }

    fn moved(&mut self, thread: ThreadIndex, at: Stamp<Reference>, cgroup: CgroupId, cpu_cgroup: CgroupId) {
        self.row(thread).cgroups.push((at, cgroup, cpu_cgroup));
    }

    fn exited(&mut self, thread: ThreadIndex, at: Stamp<Reference>) {
        self.row(thread).exited = Some(at);
    }

    fn state_interval(
        &mut self,
        thread: ThreadIndex,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
        state: State<&Wait>,
    ) {
        let state = match state {
            State::Running { cpu, interrupts_ns } => State::Running { cpu, interrupts_ns },
            State::Runnable { cpu, left } => State::Runnable { cpu, left },
            State::Throttled { cpu } => State::Throttled { cpu },
            State::Blocked(wait) => {
                self.graph.releases.extend(release(thread, wait));
                State::Blocked(self.graph.waits.push(wait, to))
            }
            State::Unknown(reason) => State::Unknown(reason),
        };
        let list = &mut self.interval_lists[thread.0 as usize];
        debug_assert!(list.intervals.is_empty() || list.end == from, "intervals have no gaps");
        list.intervals.push(Packed::new(from, state));
        list.end = to;
    }

    fn signal(
        &mut self,
        thread: ThreadIndex,
        at: Stamp<Reference>,
        signal: &Signal,
        sent: Option<(Stamp<Reference>, Occupant)>,
    ) {
        if let Some((index, woken)) = self.wait_cut_by(thread, signal, sent) {
            self.graph.waits.cut_short(index, Cut { signal: signal.number, effect: signal.effect() });
            self.take_back_release(thread, woken);
        }
        if signal.effect() != SignalEffect::GoesOn {
            self.row(thread).signals.push((at, *signal));
        }
    }

    fn acquired(&mut self, thread: ThreadIndex, at: Stamp<Reference>, lock: u64) {
        self.graph.acquisitions.push((lock, at, thread));
    }

    fn occupant(&mut self, cpu: Cpu, at: Stamp<Reference>, occupant: Occupant) {
        cpu_entry(&mut self.graph.occupancies, cpu).push(at, occupant);
    }

    fn stolen(&mut self, cpu: Cpu, from: Stamp<Reference>, to: Stamp<Reference>) {
        cpu_entry(&mut self.graph.stolen, cpu).push(from, to);
    }

    fn evidence(&mut self, evidence: Evidence) -> EvidenceIndex {
        let index = EvidenceIndex(self.graph.evidence.len() as u32);
        self.graph.evidence.push(evidence);
        index
    }

    fn loss(&mut self, loss: Loss) {
        self.losses.push(loss);
    }
}
