//! The builder of a graph: it stores the output of a timeline.

use std::borrow::Borrow;

use wakepath_clock::{Reference, Stamp};
use wakepath_event::{CgroupId, Comm, Cpu, Event, EventKind, ThreadIdentity, Tid};
use wakepath_timeline::{Sink, State, Timeline};

use crate::chunks::Chunks;
use crate::occupancy::Occupancies;
use crate::state_interval::Packed;
use crate::{
    Evidence, EvidenceIndex, Graph, Loss, Losses, Occupant, Stolen, Thread, ThreadIndex, ThreadState,
};

/// Builds a [`Graph`] from events in time order, one by one.
#[derive(Debug, Default)]
pub struct Builder {
    timeline: Timeline,
    store: Store,
}

/// The graph while it grows: the timeline's output goes here.
#[derive(Debug, Default)]
struct Store {
    graph: Graph,
    /// The threads' state intervals, apart from the rest of each thread, which is rarely needed.
    interval_lists: Vec<IntervalList>,
    losses: Vec<Loss>,
}

#[derive(Debug)]
struct IntervalList {
    intervals: Chunks<Packed>,
    end: Stamp<Reference>,
}

impl Builder {
    /// Adds the next event.
    pub fn push(&mut self, event: &Event) {
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
            EventKind::Stack(stack) => graph.stacks.define(stack),
            EventKind::Flow(id, flow) => {
                graph.flows.insert(*id, *flow);
            }
            _ => {}
        }
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
        graph.evidence.shrink_to_fit();
        graph.waits.shrink();
        graph.occupancies.iter_mut().for_each(Occupancies::shrink);
        for (thread, mut list) in graph.threads.iter_mut().zip(self.store.interval_lists) {
            list.intervals.shrink();
            thread.intervals = list.intervals;
            thread.last = list.end;
        }
        graph
    }
}

/// The graph of events that come in time order.
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
        state: State<'_>,
    ) {
        let state = match state {
            State::Running { cpu, interrupts_ns } => ThreadState::Running { cpu, interrupts_ns },
            State::Runnable { cpu } => ThreadState::Runnable { cpu },
            State::Throttled { cpu } => ThreadState::Throttled { cpu },
            State::Blocked(wait) => ThreadState::Blocked(self.graph.waits.push(wait, to)),
            State::Unknown(seen) => ThreadState::Unknown(seen),
        };
        let list = &mut self.interval_lists[thread.0 as usize];
        debug_assert!(list.intervals.is_empty() || list.end == from, "intervals have no gaps");
        list.intervals.push(Packed::new(from, state));
        list.end = to;
    }

    fn acquired(&mut self, thread: ThreadIndex, at: Stamp<Reference>, lock: u64) {
        self.graph.acquisitions.push((lock, at, thread));
    }

    fn occupant(&mut self, cpu: Cpu, at: Stamp<Reference>, occupant: Occupant) {
        let index = usize::from(cpu.0);
        if index >= self.graph.occupancies.len() {
            self.graph.occupancies.resize_with(index + 1, Occupancies::default);
        }
        self.graph.occupancies[index].push(at, occupant);
    }

    fn stolen(&mut self, cpu: Cpu, from: Stamp<Reference>, to: Stamp<Reference>) {
        let index = usize::from(cpu.0);
        if index >= self.graph.stolen.len() {
            self.graph.stolen.resize_with(index + 1, Stolen::default);
        }
        self.graph.stolen[index].push(from, to);
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
