//! The requests on a path: the work of the path's threads, and the requests that blocked the path's own request.
//!
//! A segment explains a wait in the thread above it, which may explain another wait, and so on up to the request's own thread. Each of
//! these threads works for a request: in this order, the requests wait for each other (L19 §4.3.4). The last blocks; if the segment's own
//! thread works for no known request, as kernel threads do, the last known request above it blocks.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::{Path, Segment, SegmentKind, Wait, WaitId};
use wakepath_spans::{RequestIndex, TraceId, WorksFor};
use wakepath_wait_graph::ThreadIndex;

use crate::facts::{RequestState, StateSum, States};
use crate::join::Joined;
use crate::model::{JoinedBy, Traced, Worked};
use crate::process::{SaidAttribute, SaidService, attributes, service};
use crate::tasks::TaskPath;

/// The most waits above a segment searched for requests.
const MAX_WAITS: usize = 64;

/// A blocking request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Blocker {
    /// A request among the spans.
    Request(RequestIndex),
    /// A request in this trace without spans here; and whether the trace is sampled.
    Missing(TraceId, bool),
}

/// The time for which a request was blocked by another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockedBy {
    /// The other request.
    pub request: RequestIndex,
    /// The sum, ns.
    pub total_ns: u64,
    /// The requests between the two, each waiting for the next; each with its part of the sum, the
    /// largest first.
    pub through: Vec<(Blocker, u64)>,
}

/// The time for which a request was blocked by another whose spans did not come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockedByMissing {
    /// The other request's trace.
    pub trace: TraceId,
    /// Whether the trace is sampled: its spans exist, and did not arrive.
    pub sampled: bool,
    /// The services whose threads worked for it then, as far as their processes publish their service.
    pub services: BTreeSet<SaidService>,
    /// These threads' attributes beside its span; an attribute with several values is there for each value.
    pub attributes: BTreeSet<SaidAttribute>,
    /// The sum, ns.
    pub total_ns: u64,
}

/// A part of a path's segment in which its thread worked for a single request, or for no known request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The segment's index in the path.
    pub segment: usize,
    /// The beginning.
    pub from: Stamp<Reference>,
    /// The end.
    pub to: Stamp<Reference>,
    /// The request for which the segment's thread worked.
    pub request: Option<RequestIndex>,
    /// The trace for which it worked, if its spans are missing.
    pub missing: Option<TraceId>,
    /// The source of this knowledge; also if the thread's context says that it works for no request.
    pub by: JoinedBy,
    /// Whether the context was read for all of this time.
    pub measured: bool,
    /// The requests that blocked the path's own request: it waited for the first, the first for the second, and so on.
    pub waits_for: Vec<Blocker>,
}

/// A path's requests: its threads' work, and the requests that blocked it.
#[derive(Debug, Default)]
pub struct Blame {
    /// Its threads' requests, in pieces without gap or overlap in the window.
    pub pieces: Vec<Piece>,
    /// The requests that blocked it, the longest first.
    pub blocked_by: Vec<BlockedBy>,
    /// The same for requests without spans here.
    pub blocked_by_missing: Vec<BlockedByMissing>,
    /// Its time by state, the largest first: the sums add up to the window.
    pub states: Vec<StateSum>,
}

impl Joined<'_> {
    /// The requests on the path of a request's task.
    pub fn blame_task(&self, request: RequestIndex, task: &TaskPath) -> Blame {
        let work = |place, segment: &Segment| match task.work_of_segment(place, self) {
            Some(worked) => Some(vec![worked]),
            None => Some(self.work_of(segment.thread?, segment.from, segment.to)),
        };
        let of_wait = |id, wait: &Wait, at| {
            task.work_of_wait(id, self).unwrap_or_else(|| self.works_for(wait.thread, at))
        };
        self.blamed(request, &task.path, work, of_wait)
    }

    /// The requests on the path of a request's threads. `is_handed_over` is set if these threads handed the request over to each other.
    pub fn blame(&self, request: RequestIndex, path: &Path, is_handed_over: bool) -> Blame {
        let traced = self.traced;
        let work = |_, segment: &Segment| {
            let mut worked = self.work_of(segment.thread?, segment.from, segment.to);
            // While the call was in flight, no thread held the request: the next thread's other work did not delay it.
            if is_handed_over && segment.kind == SegmentKind::Network && segment.parent.is_none() {
                let is_own = |works_for| matches!(works_for, WorksFor::Span(span) if traced.requests.containing(span) == request);
                for piece in worked.iter_mut().filter(|piece| !is_own(piece.works_for)) {
                    *piece = Worked::unknown(piece.from, piece.to);
                }
            }
            Some(worked)
        };
        let of_wait = |_, wait: &Wait, at| self.works_for(wait.thread, at);
        self.blamed(request, path, work, of_wait)
    }

    fn blamed(
        &self,
        request: RequestIndex,
        path: &Path,
        work: impl Fn(usize, &Segment) -> Option<Vec<Worked>>,
        of_wait: impl Fn(WaitId, &Wait, Stamp<Reference>) -> WorksFor,
    ) -> Blame {
        let Self { recorded, traced, .. } = self;
        let said =
            |thread, trace, at| (service(recorded, thread, at), attributes(recorded, thread, trace, at));
        blame(traced, request, path, work, of_wait, said)
    }
}

/// The requests on a path: the work of its threads, and the requests that blocked the path's own request. `work` returns a segment's work
/// by its index, in pieces without gap or overlap; `of_wait` a waiting thread's work at a time; `said` the service and attributes published by
/// a thread and its process about a trace.
pub fn blame(
    traced: &Traced,
    request: RequestIndex,
    path: &Path,
    work: impl Fn(usize, &Segment) -> Option<Vec<Worked>>,
    of_wait: impl Fn(WaitId, &Wait, Stamp<Reference>) -> WorksFor,
    said: impl Fn(ThreadIndex, TraceId, Stamp<Reference>) -> (Option<SaidService>, Vec<SaidAttribute>),
) -> Blame {
    let mut pieces = Vec::new();
    let mut states = States::default();
    let mut sums: HashMap<Blocker, (u64, HashMap<Blocker, u64>)> = HashMap::new();
    let mut all_said: HashMap<Blocker, (BTreeSet<SaidService>, BTreeSet<SaidAttribute>)> = HashMap::new();
    let mut chains = Chains { traced, request, is_other: HashMap::new() };
    for (place, segment) in path.segments.iter().enumerate() {
        // Unknown time blames no request.
        let known = (segment.kind != SegmentKind::Unknown).then(|| work(place, segment)).flatten();
        let of_thread = known.unwrap_or_else(|| vec![Worked::unknown(segment.from, segment.to)]);
        for Worked { from, to, works_for, by, measured } in of_thread {
            let own = blocker(traced, works_for);
            let above = waits_above(path, segment)
                .map(|(id, wait)| (Some(wait.thread), blocker(traced, of_wait(id, wait, from))));
            let threads = std::iter::once((segment.thread, own)).chain(above);
            let mut upwards: Vec<Blocker> = Vec::new();
            for (thread, blocker) in threads {
                let Some(blocker) = blocker else { continue };
                upwards.push(blocker);
                if let (Blocker::Missing(trace, _), Some(thread)) = (blocker, thread) {
                    let (service, attributes) = said(thread, trace, from);
                    let of_trace = all_said.entry(blocker).or_default();
                    of_trace.0.extend(service);
                    of_trace.1.extend(attributes);
                }
            }
            let waits_for = chains.chain(upwards);
            let state = match waits_for.last() {
                None => RequestState::Kind(segment.kind),
                Some(_) => RequestState::Blocked,
            };
            states.add(state, segment.basis, to.since(from));
            if let Some((last, through)) = waits_for.split_last() {
                let (total_ns, of) = sums.entry(*last).or_default();
                *total_ns += to.since(from);
                for one in through {
                    *of.entry(*one).or_default() += to.since(from);
                }
            }
            let (request, missing) = match own {
                Some(Blocker::Request(request)) => (Some(request), None),
                Some(Blocker::Missing(trace, _)) => (None, Some(trace)),
                None => (None, None),
            };
            pieces.push(Piece { segment: place, from, to, request, missing, by, measured, waits_for });
        }
    }
    let (mut blocked_by, mut blocked_by_missing) = (Vec::new(), Vec::new());
    for (blocker, (total_ns, through)) in sums {
        let mut through: Vec<_> = through.into_iter().collect();
        through.sort_by_key(|(blocker, ns)| (std::cmp::Reverse(*ns), *blocker));
        match blocker {
            Blocker::Request(request) => blocked_by.push(BlockedBy { request, total_ns, through }),
            Blocker::Missing(trace, sampled) => {
                let (services, attributes) = all_said.remove(&blocker).unwrap_or_default();
                blocked_by_missing.push(BlockedByMissing { trace, sampled, services, attributes, total_ns });
            }
        }
    }
    blocked_by.sort_by_key(|one| (std::cmp::Reverse(one.total_ns), one.request));
    blocked_by_missing.sort_by_key(|one| (std::cmp::Reverse(one.total_ns), one.trace, one.sampled));
    Blame { pieces, blocked_by, blocked_by_missing, states: states.finish() }
}

fn blocker(traced: &Traced, works_for: WorksFor) -> Option<Blocker> {
    match works_for {
        WorksFor::Span(span) => Some(Blocker::Request(traced.requests.containing(span))),
        WorksFor::Missing(trace, sampled) => Some(Blocker::Missing(trace, sampled)),
        WorksFor::None | WorksFor::Unplaced | WorksFor::Unknown => None,
    }
}

/// The waits that a segment explains, from the inside out.
fn waits_above<'p>(path: &'p Path, segment: &Segment) -> impl Iterator<Item = (WaitId, &'p Wait)> {
    let wait = |id: WaitId| Some((id, path.waits.get(id.0 as usize)?));
    std::iter::successors(segment.parent.and_then(wait), move |(_, above)| above.parent.and_then(wait))
        .take(MAX_WAITS)
}

struct Chains<'t> {
    traced: &'t Traced,
    request: RequestIndex,
    /// A tree of requests may be deep: the answer for each is kept.
    is_other: HashMap<RequestIndex, bool>,
}

impl Chains<'_> {
    /// The chain of requests waiting for each other, from the outermost to the segment's own.
    fn chain(&mut self, upwards: Vec<Blocker>) -> Vec<Blocker> {
        let mut chain: Vec<Blocker> = Vec::new();
        for one in upwards.into_iter().rev() {
            if self.is_own(one) {
                // Another request may wait for the request itself.
                chain.clear();
            } else if chain.last().is_none_or(|&last| !self.is_same(last, one)) {
                chain.push(one);
            }
        }
        chain
    }

    /// Whether a blocker belongs to the path's own request: its parts in other services are no blockers, nor are the requests around it.
    /// A missing span in its own trace may be a part.
    fn is_own(&mut self, one: Blocker) -> bool {
        let (requests, own) = (&self.traced.requests, self.request);
        match one {
            Blocker::Missing(trace, _) => trace == self.traced.root(own).trace,
            Blocker::Request(one) => {
                let is_other = || !requests.is_part(one, own) && !requests.is_part(own, one);
                !*self.is_other.entry(one).or_insert_with(is_other)
            }
        }
    }

    /// Whether both are the same request, or parts of the same request.
    fn is_same(&self, one: Blocker, other: Blocker) -> bool {
        let requests = &self.traced.requests;
        match (one, other) {
            (Blocker::Request(one), Blocker::Request(other)) => {
                requests.is_part(one, other) || requests.is_part(other, one)
            }
            (Blocker::Missing(one, _), Blocker::Missing(other, _)) => one == other,
            (Blocker::Request(one), Blocker::Missing(trace, _))
            | (Blocker::Missing(trace, _), Blocker::Request(one)) => self.traced.root(one).trace == trace,
        }
    }
}
