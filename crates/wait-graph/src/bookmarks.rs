//! Faster look-ups for walks whose next time is close to the last.

use foldhash::{HashMap, HashMapExt};
use wakepath_clock::{Reference, Stamp};
use wakepath_event::Cpu;

use crate::{Graph, Occupancy, ThreadIndex};

/// The positions at which a walk over a graph last looked, by thread and by CPU. The next look-up is mostly
/// close to the last, and a search from there is faster than a binary search over everything.
#[derive(Debug)]
pub struct Bookmarks<'a> {
    graph: &'a Graph,
    threads: HashMap<ThreadIndex, usize>,
    cpus: HashMap<Cpu, usize>,
}

impl<'a> Bookmarks<'a> {
    /// Bookmarks for a graph, none set.
    pub fn new(graph: &'a Graph) -> Self {
        Self { graph, threads: HashMap::new(), cpus: HashMap::new() }
    }

    /// [`StateIntervals::find`](crate::StateIntervals::find) in a thread's state intervals.
    pub fn find(&mut self, thread: ThreadIndex, at: Stamp<Reference>) -> usize {
        let bookmark = self.threads.entry(thread).or_default();
        *bookmark = self.graph.state_intervals(thread).find_near(*bookmark, at);
        *bookmark
    }

    /// [`Graph::occupancies`], from the CPU's bookmark on.
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
