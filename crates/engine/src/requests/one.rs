//! One request: the spans that its end waited for, and the path of the thread that worked for it.

use std::collections::{BTreeMap, HashMap};

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::{Algorithm, SegmentKind, Window};
use wakepath_event::Tid;
use wakepath_spans::{OperationIndex, RequestIndex, SpanIndex, span_path};

use super::{Joined, Traced};
use crate::code_names::code_names;
use crate::head::head;
use crate::path::explain;
use crate::query::thread_between;
use crate::{Head, PathAnswer, Question};

/// A part of a request's time in which one span's own work was waited for, by the times of spans alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfSpan {
    /// The span.
    pub span: SpanIndex,
    /// The beginning.
    pub from: Stamp<Reference>,
    /// The end.
    pub to: Stamp<Reference>,
}

/// The own time of an operation's spans on the path of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnTime {
    /// The operation.
    pub operation: OperationIndex,
    /// The sum, ns.
    pub total_ns: u64,
    /// The number of spans.
    pub spans: u64,
}

/// The time for which a request was blocked by another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockedBy {
    /// The other request.
    pub request: RequestIndex,
    /// The sum, ns.
    pub total_ns: u64,
}

/// A part of a segment of a thread's path in which the segment's thread worked for one request, or for none that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The segment, by its place in the path.
    pub segment: usize,
    /// The beginning.
    pub from: Stamp<Reference>,
    /// The end.
    pub to: Stamp<Reference>,
    /// The request for which the segment's thread worked.
    pub request: Option<RequestIndex>,
}

/// The path of the thread that worked for a request.
#[derive(Debug)]
pub struct RequestPath<'r> {
    /// The path, over the time of the request.
    pub answer: PathAnswer<'r>,
    /// The requests that its threads worked for: pieces that tile the window.
    pub pieces: Vec<Piece>,
    /// The requests that blocked it, the one with most time first.
    pub blocked_by: Vec<BlockedBy>,
}

/// Why a request took its time.
#[derive(Debug)]
pub struct RequestAnswer<'r> {
    /// The head of the answer.
    pub head: Head,
    /// The spans.
    pub traced: &'r Traced,
    /// The request.
    pub request: RequestIndex,
    /// Its beginning.
    pub from: Stamp<Reference>,
    /// Its end.
    pub to: Stamp<Reference>,
    /// The spans that its end waited for: parts that tile its time.
    pub by_span: Vec<OfSpan>,
    /// Their own time by operation, the largest first.
    pub own: Vec<OwnTime>,
    /// The path of its thread; `None` where no plug-in noted the thread, or it was not recorded.
    pub path: Option<RequestPath<'r>>,
}

/// Explains one request.
pub fn request<'r>(joined: &Joined<'r>, request: RequestIndex, algorithm: Algorithm) -> RequestAnswer<'r> {
    let Joined { recorded, traced, clock, .. } = joined;
    let root = traced.request(request).root;
    let span = traced.spans.span(root);
    let (from, to) = joined.times(request);
    let mut at = from;
    let mut by_span = Vec::new();
    for segment in span_path(&traced.spans, &traced.requests, root) {
        // Where the clock was set within the request, its parts would overlap.
        let until = clock.stamp(segment.to).clamp(at, to);
        if at < until {
            by_span.push(OfSpan { span: segment.span, from: at, to: until });
        }
        at = until;
    }
    let own = own_times(traced, &by_span);
    let path = span
        .tid
        .and_then(|tid| thread_between(recorded, Tid(tid), from, to))
        .filter(|_| from < to && recorded.from() <= from && to <= recorded.to())
        .map(|thread| path_of(joined, request, Window { thread, from, to }, algorithm));
    RequestAnswer { head: head(recorded, from, to), traced, request, from, to, by_span, own, path }
}

fn own_times(traced: &Traced, by_span: &[OfSpan]) -> Vec<OwnTime> {
    let mut sums: BTreeMap<OperationIndex, BTreeMap<SpanIndex, u64>> = BTreeMap::new();
    for part in by_span {
        let operation = traced.spans.span(part.span).operation;
        *sums.entry(operation).or_default().entry(part.span).or_default() += part.to.since(part.from);
    }
    let mut own: Vec<_> = sums
        .into_iter()
        .map(|(operation, spans)| OwnTime {
            operation,
            total_ns: spans.values().sum(),
            spans: spans.len() as u64,
        })
        .collect();
    own.sort_by_key(|one| (std::cmp::Reverse(one.total_ns), one.operation));
    own
}

fn path_of<'r>(
    joined: &Joined<'r>,
    request: RequestIndex,
    window: Window,
    algorithm: Algorithm,
) -> RequestPath<'r> {
    let Joined { recorded, traced, work, .. } = joined;
    let operation = traced.operation(request);
    let question = Question::Request {
        service: operation.service.as_bytes().into(),
        operation: operation.name.as_bytes().into(),
    };
    let answer = explain(recorded, algorithm, window, question, &mut code_names(recorded));
    let mut pieces = Vec::new();
    let mut blocked: HashMap<RequestIndex, u64> = HashMap::new();
    // Its parts in other services are no blockers, and neither are the requests that it is a part of. A tree of requests
    // may be deep: the answer for each is kept.
    let mut is_other: HashMap<RequestIndex, bool> = HashMap::new();
    for (place, segment) in answer.path.segments.iter().enumerate() {
        let of_thread = match &segment.thread {
            // Where it is not known what a thread did, nobody is blamed.
            Some(thread) if segment.kind != SegmentKind::Unknown => {
                work.between(thread, segment.from, segment.to)
            }
            Some(_) | None => vec![(segment.from, segment.to, None)],
        };
        for (from, to, span) in of_thread {
            let worked_for = span.map(|span| traced.requests.of_span(span));
            pieces.push(Piece { segment: place, from, to, request: worked_for });
            let blocker = worked_for.filter(|&other| {
                *is_other.entry(other).or_insert_with(|| {
                    !traced.requests.is_part(other, request) && !traced.requests.is_part(request, other)
                })
            });
            if let Some(other) = blocker {
                *blocked.entry(other).or_default() += to.since(from);
            }
        }
    }
    let mut blocked_by: Vec<_> =
        blocked.into_iter().map(|(request, total_ns)| BlockedBy { request, total_ns }).collect();
    blocked_by.sort_by_key(|one| (std::cmp::Reverse(one.total_ns), one.request));
    RequestPath { answer, pieces, blocked_by }
}
