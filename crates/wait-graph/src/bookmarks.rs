use foldhash::{HashMap, HashMapExt};
use wakepath_clock::{Reference, Stamp};
use wakepath_event::Cpu;

use crate::{Graph, Stay, ThreadIndex};

/// Where a walk over a graph last looked, thread by thread and CPU by CPU: it mostly looks next a
/// little further on, and finds that sooner than by halving all that there is.
#[derive(Debug)]
pub struct Bookmarks<'a> {
    graph: &'a Graph,
    threads: HashMap<ThreadIndex, usize>,
    cpus: HashMap<Cpu, usize>,
}

impl<'a> Bookmarks<'a> {
    /// None yet.
    pub fn new(graph: &'a Graph) -> Self {
        Self { graph, threads: HashMap::new(), cpus: HashMap::new() }
    }

    /// As [`Spans::find`](crate::Spans::find), in a thread's spans.
    pub fn find(&mut self, thread: ThreadIndex, at: Stamp<Reference>) -> usize {
        let bookmark = self.threads.entry(thread).or_default();
        *bookmark = self.graph.spans(thread).find_near(*bookmark, at);
        *bookmark
    }

    /// As [`Graph::stays`].
    pub fn stays(
        &mut self,
        cpu: Cpu,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
    ) -> impl Iterator<Item = Stay> + use<'a> {
        let (lane, bookmark) = (self.graph.lane(cpu), self.cpus.entry(cpu).or_default());
        *bookmark = lane.next_near(*bookmark, from);
        lane.stays_before(*bookmark, from, to)
    }
}
