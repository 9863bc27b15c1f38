//! The sums of a path's segments by thread, kind and cause.

use std::cmp::Reverse;

use foldhash::{HashMap, HashMapExt};
use wakepath_event::Comm;
use wakepath_wait_graph::{Graph, ThreadIndex};

use crate::{Cause, Path, Responsible, SegmentKind};

/// Similar segments of a window's path, added up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contributor {
    /// The thread that ran or waited; `None` for a packet in flight.
    pub thread: Option<ThreadIndex>,
    /// The thread's name at that time.
    pub comm: Comm,
    /// The kind of time.
    pub kind: SegmentKind,
    /// The cause of the first segment.
    pub what: Cause,
    /// The number of the system call in which the thread was blocked.
    pub call: Option<u32>,
    /// The sum, ns.
    pub total_ns: u64,
    /// The segment count.
    pub segments: u64,
}

/// A path's segments, added up by thread, name, kind, responsible cause and system call, the largest sum
/// first; equal sums are in the order of those five. A segment in which the thread's name changes counts for
/// both names.
pub fn contributors(graph: &Graph, path: &Path) -> Vec<Contributor> {
    let mut sums: HashMap<_, Contributor> = HashMap::new();
    for segment in &path.segments {
        let call = segment.call.map(|call| call.number);
        for (comm, from, to) in segment.names(graph) {
            let sum = sums
                .entry((segment.thread, comm, segment.kind, Responsible::from(&segment.cause), call))
                .or_insert_with(|| Contributor {
                    thread: segment.thread,
                    comm,
                    kind: segment.kind,
                    what: segment.cause.clone(),
                    call,
                    total_ns: 0,
                    segments: 0,
                });
            sum.total_ns += to.since(from);
            sum.segments += 1;
        }
    }
    let mut all: Vec<_> = sums.into_iter().collect();
    all.sort_unstable_by_key(|(who, contributor)| (Reverse(contributor.total_ns), *who));
    all.into_iter().map(|(_, contributor)| contributor).collect()
}
