use foldhash::{HashMap, HashMapExt};
use wakepath_clock::{Reference, Stamp};
use wakepath_event::Cpu;

use crate::{Graph, Occupancy, ThreadIndex};

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

    /// As [`StateIntervals::find`](crate::StateIntervals::find), in a thread's intervals.
    pub fn find(&mut self, thread: ThreadIndex, at: Stamp<Reference>) -> usize {
        let bookmark = self.threads.entry(thread).or_default();
        *bookmark = self.graph.state_intervals(thread).find_near(*bookmark, at);
        *bookmark
    }

    /// As [`Graph::stays`].
    pub fn occupancies(
        &mut self,
        cpu: Cpu,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
    ) -> impl Iterator<Item = Occupancy> + use<'a> {
        let (occupancies, bookmark) = (self.graph.occupancies_of(cpu), self.cpus.entry(cpu).or_default());
        *bookmark = occupancies.next_near(*bookmark, from);
        occupancies.tiles_until(*bookmark, from, to)
    }
}
