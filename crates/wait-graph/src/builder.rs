use wakepath_clock::{Reference, Stamp};
use wakepath_event::{CgroupId, Comm, Cpu, Event, EventKind, ThreadIdentity, Tid};
use wakepath_timeline::{Sink, State, Timeline};

use crate::chunks::Chunks;
use crate::lane::Lane;
use crate::span::Packed;
use crate::{Doing, Evidence, EvidenceIndex, Graph, Loss, Losses, Occupant, Stolen, Thread, ThreadIndex};

/// Makes a [`Graph`] of events that come in time order.
///
/// ```
/// # use wakepath_wait_graph::Builder;
/// # let events: Vec<wakepath_event::Event> = Vec::new();
/// let mut builder = Builder::default();
/// for event in &events {
///     builder.push(event);
/// }
/// let graph = builder.finish();
/// ```
#[derive(Debug, Default)]
pub struct Builder {
    timeline: Timeline,
    store: Store,
}

/// Where the timeline's output goes.
#[derive(Debug, Default)]
struct Store {
    graph: Graph,
    /// The threads' spans while they grow, apart from the rest, which is rarely looked at.
    growing: Vec<Growing>,
    losses: Vec<Loss>,
}

#[derive(Debug)]
struct Growing {
    spans: Chunks<Packed>,
    last: Stamp<Reference>,
}

impl Builder {
    /// Takes the next event.
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
        graph.lanes.iter_mut().for_each(Lane::shrink);
        for (thread, mut growing) in graph.threads.iter_mut().zip(self.store.growing) {
            growing.spans.shrink();
            thread.spans = growing.spans;
            thread.last = growing.last;
        }
        graph
    }
}

impl Store {
    fn of(&mut self, thread: ThreadIndex) -> &mut Thread {
        &mut self.graph.threads[thread.0 as usize]
    }
}

impl Sink for Store {
    fn thread(&mut self, _: ThreadIndex, tid: Tid, at: Stamp<Reference>) {
        self.graph.threads.push(Thread::new(tid, at));
        self.growing.push(Growing { spans: Chunks::new(), last: at });
    }

    fn identity(&mut self, thread: ThreadIndex, at: Stamp<Reference>, identity: &ThreadIdentity) {
        let row = self.of(thread);
        if row.identity.is_none() {
            row.cgroups.push((at, identity.cgroup, identity.cpu_cgroup));
            row.identity = Some(identity.clone());
            row.introduced = Some(at);
        }
    }

    fn born(&mut self, thread: ThreadIndex, at: Stamp<Reference>, forker: Occupant) {
        self.of(thread).born = Some((at, forker));
    }

    fn named(&mut self, thread: ThreadIndex, at: Stamp<Reference>, comm: Comm) {
        let row = self.of(thread);
        if row.names.last().is_none_or(|&(_, last)| last != comm) {
            row.names.push((at, comm));
        }
    }

    fn exec(&mut self, thread: ThreadIndex, at: Stamp<Reference>, path: &[u8]) {
        self.of(thread).execs.push((at, path.into()));
    }

    fn renumbered(&mut self, thread: ThreadIndex, at: Stamp<Reference>, tid: Tid) {
        self.of(thread).tids.push((at, tid));
    }

    fn succeeded(&mut self, thread: ThreadIndex, by: ThreadIndex) {
        self.of(thread).successor = Some(by);
    }

    fn moved(&mut self, thread: ThreadIndex, at: Stamp<Reference>, cgroup: CgroupId, cpu_cgroup: CgroupId) {
        self.of(thread).cgroups.push((at, cgroup, cpu_cgroup));
    }

    fn exited(&mut self, thread: ThreadIndex, at: Stamp<Reference>) {
        self.of(thread).exited = Some(at);
    }

    fn span(&mut self, thread: ThreadIndex, from: Stamp<Reference>, to: Stamp<Reference>, state: State<'_>) {
        let doing = match state {
            State::Running { cpu, interrupts_ns } => Doing::Running { cpu, interrupts_ns },
            State::Runnable { cpu } => Doing::Runnable { cpu },
            State::Throttled { cpu } => Doing::Throttled { cpu },
            State::Blocked(wait) => Doing::Blocked(self.graph.waits.push(wait, to)),
            State::Unknown(seen) => Doing::Unknown(seen),
        };
        let growing = &mut self.growing[thread.0 as usize];
        debug_assert!(growing.spans.is_empty() || growing.last == from, "spans have no gaps");
        growing.spans.push(Packed::new(from, doing));
        growing.last = to;
    }

    fn acquired(&mut self, thread: ThreadIndex, at: Stamp<Reference>, lock: u64) {
        self.graph.acquisitions.push((lock, at, thread));
    }

    fn occupant(&mut self, cpu: Cpu, at: Stamp<Reference>, occupant: Occupant) {
        let index = usize::from(cpu.0);
        if index >= self.graph.lanes.len() {
            self.graph.lanes.resize_with(index + 1, Lane::default);
        }
        self.graph.lanes[index].push(at, occupant);
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
