//! A segment's explanation, in the terms of a simulated run's truth.

use wakepath_critical_path::{Cause, Segment, SegmentKind};
use wakepath_scenario::simulate::{Explanation, tid};
use wakepath_wait_graph::Graph;

/// A segment's explanation; `None` if unknown.
pub fn explanation(graph: &Graph, segment: &Segment) -> Option<Explanation> {
    let thread = segment.thread.map(|thread| (graph.thread(thread).tid().number() - tid(0).0) as usize);
    Some(match (segment.kind, thread, &segment.cause) {
        (SegmentKind::Running | SegmentKind::Interrupted, Some(thread), _) => Explanation::Running(thread),
        (SegmentKind::Runnable, Some(thread), _) => Explanation::Runnable(thread),
        (SegmentKind::Timer, Some(thread), _) => Explanation::Timer(thread),
        (SegmentKind::BlockDevice, Some(thread), _) => Explanation::Disk(thread),
        (SegmentKind::Network, None, _) => Explanation::InFlight,
        (SegmentKind::Unknown, Some(thread), Cause::StillWaiting) => Explanation::Open(thread),
        (SegmentKind::Unknown, Some(thread), Cause::NotAlive) => Explanation::NotAlive(thread),
        _ => return None,
    })
}
