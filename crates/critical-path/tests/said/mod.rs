//! A path in the words of the small scheduler that made its events.

use wakepath_critical_path::{Cause, Kind, Segment};
use wakepath_scenario::simulate::{At, tid};
use wakepath_wait_graph::Graph;

/// What a segment says; `None` where it says that it does not know.
pub fn said(graph: &Graph, segment: &Segment) -> Option<At> {
    let thread = segment.thread.map(|thread| (graph.thread(thread).tid().number() - tid(0).0) as usize);
    Some(match (segment.kind, thread, &segment.cause) {
        (Kind::Running | Kind::Interrupted, Some(thread), _) => At::Running(thread),
        (Kind::Runnable, Some(thread), _) => At::Runnable(thread),
        (Kind::Timer, Some(thread), _) => At::Timer(thread),
        (Kind::BlockDevice, Some(thread), _) => At::Disk(thread),
        (Kind::Network, None, _) => At::InFlight,
        (Kind::Unknown, Some(thread), Cause::StillWaiting) => At::Open(thread),
        (Kind::Unknown, Some(thread), Cause::NotAlive) => At::NotAlive(thread),
        _ => return None,
    })
}
