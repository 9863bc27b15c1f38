//! Paths over simulated machines, whose scheduler knows the truth: a single machine, and the same machine as two hosts.

mod explanation;
mod flight;
mod hosts;
mod schedules;

use wakepath_clock::Stamp;
use wakepath_critical_path::Window;
use wakepath_event::Tid;
use wakepath_wait_graph::{Graph, ThreadIndex};

fn index(graph: &Graph, tid: Tid) -> Option<ThreadIndex> {
    graph.with_tid(tid).next().map(|(index, _)| index)
}

fn window(thread: ThreadIndex, from: u64, to: u64) -> Window {
    Window { thread, from: Stamp::from_ns(from), to: Stamp::from_ns(to) }
}
