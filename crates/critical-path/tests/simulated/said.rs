//! A path in the words of the small scheduler that made its events.

use wakepath_critical_path::{Cause, Segment, SegmentKind};
use wakepath_scenario::simulate::{At, tid};
use wakepath_wait_graph::Graph;

/// The explanation of a segment; `None` where it is unknown.
pub fn said(graph: &Graph, segment: &Segment) -> Option<At> {
    let thread = segment.thread.map(|thread| (graph.thread(thread).tid().number() - tid(0).0) as usize);
    Some(match (segment.kind, thread, &segment.cause) {
        (SegmentKind::Running | SegmentKind::Interrupted, Some(thread), _) => At::Running(thread),
        (SegmentKind::Runnable, Some(thread), _) => At::Runnable(thread),
        (SegmentKind::Timer, Some(thread), _) => At::Timer(thread),
        (SegmentKind::BlockDevice, Some(thread), _) => At::Disk(thread),
        (SegmentKind::Network, None, _) => At::InFlight,
        (SegmentKind::Unknown, Some(thread), Cause::StillWaiting) => At::Open(thread),
        (SegmentKind::Unknown, Some(thread), Cause::NotAlive) => At::NotAlive(thread),
        _ => return None,
    })
}
