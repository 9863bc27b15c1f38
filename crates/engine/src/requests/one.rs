//! A request: the spans that its end waited for, and the path of its worker thread.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use wakepath_critical_path::{Algorithm, Cause, HandOvers, Segment, Timeouts, WaitId, Window};
use wakepath_event::{HostIndex, Tid};
use wakepath_joining::{Arrival, Blame, InLoop, path_handed_over, task_path};
use wakepath_spans::{Language, OperationIndex, RequestIndex, SpanIndex, span_path};
use wakepath_wait_graph::ThreadIndex;

use super::goroutine::{self, RequestGoroutine};
use super::headline::is_most;
use super::span_time::times;
use super::{
    BlockedBy, BlockedByMissing, BlockingRequest, CalledRequest, DiskAccesses, Joined, JoinedBy, Piece,
    SpanClock, SpanTime, StateSum, Traced,
};
use crate::code_names::code_names;
use crate::head::head;
use crate::path::{answer, explain_with, path_with};
use crate::{Head, PathAnswer, Question, Recorded};

/// A part of a request's time in which a span's own work was waited for, by the spans' times alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanPart {
    /// The span.
    pub span: SpanIndex,
    /// Its host; `None` if it was not recorded, so that another clock gives its times.
    pub host: Option<HostIndex>,
    /// The beginning.
    pub from: SpanTime,
    /// The end.
    pub to: SpanTime,
}

/// The own time by operation on a request's path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnTime {
    /// The operation.
    pub operation: OperationIndex,
    /// The sum, ns.
    pub total_ns: u64,
    /// The number of spans.
    pub spans: u64,
    /// The span with the most own time.
    pub longest: SpanIndex,
}

/// The path of a request's worker thread.
#[derive(Debug)]
pub struct RequestPath<'r> {
    /// The path, over the request's time.
    pub answer: PathAnswer<'r>,
    /// Its threads' requests, in pieces without gap or overlap in the window.
    pub pieces: Vec<Piece>,
    /// The requests blocking it, most time first.
    pub blocked_by: Vec<BlockedBy>,
    /// The same for requests without spans here.
    pub blocked_by_missing: Vec<BlockedByMissing>,
    /// The requests which may have blocked it where nothing shows for what it waited in its event loop, each with the longest possible time, ns.
    pub perhaps_blocked_by: Vec<(RequestIndex, u64)>,
    /// Its called requests for which it waited, each behind its caller.
    pub called: Vec<CalledRequest>,
    /// The goroutine's facts, for a goroutine's path.
    pub goroutine: Option<RequestGoroutine>,
    /// Its time by state, the largest first: the sums add up to the window.
    pub states: Vec<StateSum>,
    /// Its threads' disk accesses while they worked for it or its parts; `None` if the recording would not show them.
    pub disk: Option<DiskAccesses>,
}

impl<'r> RequestPath<'r> {
    /// A request's path, around its `answer`.
    pub(super) fn new(
        joined: &Joined<'r>,
        request: RequestIndex,
        answer: PathAnswer<'r>,
        blame: Blame,
        goroutine: Option<RequestGoroutine>,
    ) -> Self {
        let Blame { pieces, blocked_by, blocked_by_missing, states } = blame;
        let called = joined.called(request, &answer.path);
        let disk = joined.disk(request);
        let perhaps_blocked_by = Vec::new();
        Self {
            answer,
            pieces,
            blocked_by,
            blocked_by_missing,
            perhaps_blocked_by,
            called,
            goroutine,
            states,
            disk,
        }
    }

    /// The number and the time, ns, on the path: garbage collections at a blocking request's call.
    pub fn collections_by(&self, blocker: RequestIndex) -> (usize, u64) {
        let evidence = self.answer.evidence();
        let collection = |mut parent: Option<WaitId>| loop {
            let id = parent?;
            if evidence.stacks.is_collection(id) {
                return Some(id);
            }
            parent = evidence.wait(id)?.parent;
        };
        let (mut waits, mut ns) = (BTreeSet::new(), 0);
        for piece in &self.pieces {
            if piece.waits_for.last() != Some(&BlockingRequest::Request(blocker)) {
                continue;
            }
            let Some(segment) = self.answer.path.segments.get(piece.segment) else { continue };
            if let Some(wait) = collection(segment.parent) {
                waits.insert(wait);
                ns += piece.to.since(piece.from);
            }
        }
        (waits.len(), ns)
    }

    /// The innermost called request for which it waited more than half its time.
    pub fn called_most(&self) -> Option<&CalledRequest> {
        let most = self.called.iter().filter(|one| is_most(one.total_ns, self.answer.window_ns()));
        most.max_by_key(|one| (one.depth, one.total_ns))
    }

    /// The segments in which its event loop waited, and nothing shows for what.
    fn undecided_in_loop(&self) -> impl Iterator<Item = &Segment> {
        self.answer.path.segments.iter().filter(|segment| matches!(segment.cause, Cause::LoopEvent))
    }

    /// The time in which its event loop waited, and nothing shows for what, ns.
    pub fn undecided_in_loop_ns(&self) -> u64 {
        self.undecided_in_loop().map(|segment| segment.to.since(segment.from)).sum()
    }

    /// Looks for the requests that may have blocked it in its own event loop, for a twentieth of its time or longer.
    fn look_for_blockers(&mut self, joined: &Joined<'_>, request: RequestIndex) {
        let Window { thread, from, to } = self.answer.path.window;
        let own = self.undecided_in_loop().filter(|segment| segment.thread == Some(thread));
        let times: Vec<_> = own.map(|segment| (segment.from, segment.to)).collect();
        if !times.is_empty() {
            let mut perhaps = joined.perhaps_blocked_by(request, thread, times);
            perhaps.retain(|(_, ns)| ns * 20 >= to.since(from));
            self.perhaps_blocked_by = perhaps;
        }
    }
}

/// The reason for a request without a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoPath {
    /// The spans do not name the thread.
    NoThread,
    /// It is a Go program's, and its goroutines were not recorded.
    NoGoroutines,
    /// The spans name an unrecorded host.
    OtherHost,
    /// The recording has no thread with this number.
    NotRecorded(u32),
    /// The request began before the recording, or ended after it.
    Outside,
    /// The request has no length.
    Empty,
}

impl NoPath {
    /// Its name in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoThread => "no_thread",
            Self::NoGoroutines => "no_goroutines",
            Self::OtherHost => "other_host",
            Self::NotRecorded(_) => "not_recorded",
            Self::Outside => "outside",
            Self::Empty => "empty",
        }
    }
}

/// The next step for a request without a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// This part's path: the part took most of its time.
    Part(RequestIndex),
    /// The threads of the process named by its spans, in the request's time.
    Process(u32),
    /// Also record its host.
    RecordHost,
    /// Record again, with all threads.
    RecordAll,
    /// Look at the recorded time.
    Times,
    /// Also record the goroutines.
    RecordGoroutines,
    /// Get spans that name their thread.
    Thread,
}

/// An explanation for a request's time.
#[derive(Debug)]
pub struct RequestAnswer<'r> {
    /// The answer's head.
    pub head: Head,
    /// The spans and their requests.
    pub traced: &'r Traced,
    /// The request.
    pub request: RequestIndex,
    /// Its host; `None` if it was not recorded.
    pub host: Option<HostIndex>,
    /// The way in which its thread is known.
    pub joined_by: JoinedBy,
    /// The beginning.
    pub from: SpanTime,
    /// The end.
    pub to: SpanTime,
    /// Whether the recording has no moment from its time.
    pub is_outside: bool,
    /// The spans that its end waited for: parts without gap or overlap in its time.
    pub by_span: Vec<SpanPart>,
    /// The clocks of its root span's service and of these spans' services, if threads were seen to work for them.
    pub clocks: Vec<SpanClock>,
    /// The spans' own time by operation, the largest first.
    pub own: Vec<OwnTime>,
    /// Its arrival, if it waited before its span began.
    pub arrival: Option<Arrival>,
    /// The path of its thread or goroutine, or the reason for its lack.
    pub path: Result<RequestPath<'r>, NoPath>,
    /// The next step without a path.
    pub next: Next,
}

/// Requests by their time since their data came, the longest first; requests without a recorded moment are last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FromArrival {
    /// The requests.
    pub requests: Vec<RequestIndex>,
    /// How many requests have a known arrival; the others count from their span's beginning.
    pub known: usize,
}

/// Orders requests by the time since their data came.
pub fn from_arrival(joined: &Joined<'_>, requests: &[RequestIndex]) -> FromArrival {
    let lasted = |&request: &RequestIndex| {
        let (from, to) = joined.times(request);
        let arrived = match worker(joined, request) {
            Ok(Worker::Thread(thread)) => joined.arrived(request, thread),
            _ => None,
        };
        let root = joined.traced.request(request).root;
        let is_outside = is_outside(joined.recorded, times(&joined.places, joined.traced, root));
        (request, (is_outside, Reverse(to.since(arrived.unwrap_or(from)))), arrived.is_some())
    };
    let mut all: Vec<_> = requests.iter().map(lasted).collect();
    // Equally long requests stay in their spans' order.
    all.sort_by_key(|(_, rank, _)| *rank);
    let known = all.iter().filter(|(.., is_known)| *is_known).count();
    FromArrival { requests: all.into_iter().map(|(request, ..)| request).collect(), known }
}

/// Explains a request.
pub fn request<'r>(joined: &Joined<'r>, request: RequestIndex, algorithm: Algorithm) -> RequestAnswer<'r> {
    answered(joined, request, algorithm, true)
}

/// Explains a request as part of a group: by a single reading, since readings cannot be added up.
pub(super) fn request_in_group<'r>(
    joined: &Joined<'r>,
    request: RequestIndex,
    algorithm: Algorithm,
) -> RequestAnswer<'r> {
    answered(joined, request, algorithm, false)
}

fn answered<'r>(
    joined: &Joined<'r>,
    request: RequestIndex,
    algorithm: Algorithm,
    all_readings: bool,
) -> RequestAnswer<'r> {
    let Joined { recorded, traced, places, .. } = joined;
    let root = traced.request(request).root;
    let (from, to) = times(places, traced, root);
    let mut at = from;
    let mut by_span = Vec::new();
    for segment in span_path(&traced.spans, &traced.requests, root) {
        // Where the clock was set within the request, its parts would overlap.
        // A span on another host has the clock there.
        let until = match places.stamp(traced, segment.span, segment.to) {
            // It ended before the recording's clock began.
            stamp if stamp.ns() == 0 => from.plus(segment.to.since(traced.spans.span(root).from)),
            until => until.into(),
        };
        let until = until.clamp(at, to);
        if at < until {
            let host = places.host(traced, segment.span);
            by_span.push(SpanPart { span: segment.span, host, from: at, to: until });
        }
        at = until;
    }
    let own = own_times(traced, &by_span);
    let worker = worker(joined, request);
    let arrival = match worker {
        Ok(Worker::Thread(thread)) if all_readings => joined.arrival(request, thread),
        _ => None,
    };
    let path = worker.and_then(|worker| match worker {
        Worker::Goroutine => goroutine::path_of(joined, request, algorithm).ok_or(NoPath::NoThread),
        Worker::Thread(thread) => {
            let window = Window { thread, from: from.stamp(), to: to.stamp() };
            let mut path = path_of(joined, request, window, algorithm, all_readings);
            if all_readings {
                path.look_for_blockers(joined, request);
            }
            Ok(path)
        }
    });
    let next = next(joined, request, &own, is_recorded(joined, (from, to)));
    let head = head(recorded, from.stamp(), to.stamp());
    let host = places.host(traced, root);
    let joined_by = joined.joined_by(request);
    let services = by_span.iter().map(|part| part.span).chain([root]);
    let services: HashSet<_> = services.map(|span| traced.spans.span(span).service).collect();
    let clocks = joined.contexts.clocks.iter().filter(|clock| services.contains(&clock.service));
    let clocks = clocks.cloned().collect();
    let is_outside = is_outside(recorded, (from, to));
    RequestAnswer {
        head,
        traced,
        request,
        host,
        joined_by,
        from,
        to,
        is_outside,
        by_span,
        clocks,
        own,
        arrival,
        path,
        next,
    }
}

/// Whether the whole time was recorded.
fn is_recorded(joined: &Joined<'_>, (from, to): (SpanTime, SpanTime)) -> bool {
    SpanTime::from(joined.recorded.from()) <= from && to <= joined.recorded.to().into()
}

/// Whether the recording has no moment from a time.
pub(super) fn is_outside(recorded: &Recorded, (from, to): (SpanTime, SpanTime)) -> bool {
    to < SpanTime::from(recorded.from()) || SpanTime::from(recorded.to()) < from
}

/// The worker whose path is the request's: a thread or a goroutine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Worker {
    Thread(ThreadIndex),
    Goroutine,
}

/// A request's worker, found without making the path.
pub(super) fn worker(joined: &Joined<'_>, request: RequestIndex) -> Result<Worker, NoPath> {
    let Joined { recorded, traced, places, .. } = joined;
    let root = traced.request(request).root;
    let (from, to) = times(places, traced, root);
    let numbered = |thread| (recorded.graph.thread(thread).tid().number(), Some(thread));
    let said = joined.contexts.thread(request).map(numbered);
    let by_connection = || joined.connections.thread(request).map(numbered);
    let by_turns = || joined.turns.threads(root).next().map(numbered);
    let named = || {
        let tid = places.tid(traced, root)?;
        by_turns().or_else(|| Some((tid.number(), places.thread(recorded, traced, root))))
    };
    let of_goroutine = joined.joined_by(request) == JoinedBy::Goroutine;
    match said.or_else(named).or_else(by_connection) {
        _ if from >= to => Err(NoPath::Empty),
        None if !of_goroutine && places.host(traced, root).is_none() => Err(NoPath::OtherHost),
        // No context is read there, and no goroutine seen: this reason comes first.
        _ if !is_recorded(joined, (from, to)) => Err(NoPath::Outside),
        _ if of_goroutine => Ok(Worker::Goroutine),
        None if is_without_goroutines(joined, root) => Err(NoPath::NoGoroutines),
        None => Err(NoPath::NoThread),
        Some((tid, None)) => Err(NoPath::NotRecorded(tid)),
        Some((_, Some(thread))) => Ok(Worker::Thread(thread)),
    }
}

/// Whether a span is a Go program's, in a recording without its goroutines.
fn is_without_goroutines(joined: &Joined<'_>, root: SpanIndex) -> bool {
    let traced = joined.traced;
    traced.spans.service(root).language == Some(Language::Go) && traced.spans.span(root).tid.is_none()
}

/// The next step for a request without a path.
fn next(joined: &Joined<'_>, request: RequestIndex, own: &[OwnTime], is_recorded: bool) -> Next {
    let Joined { recorded, traced, places, .. } = joined;
    let root = traced.request(request).root;
    if places.host(traced, root).is_none() {
        return Next::RecordHost;
    }
    if !is_recorded {
        return Next::Times;
    }
    let is_there = |tid: Tid| !recorded.with_tid(tid).is_empty();
    let is_joined = |part| {
        let named = || places.tid(traced, traced.request(part).root);
        joined.contexts.thread(part).is_some()
            || named().is_some_and(is_there)
            || joined.connections.thread(part).is_some()
    };
    // A part in another service, with a known thread.
    let part = own.first().map(|first| traced.requests.containing(first.longest));
    if let Some(part) = part.filter(|part| *part != request && is_joined(*part)) {
        return Next::Part(part);
    }
    if is_without_goroutines(joined, root) {
        return Next::RecordGoroutines;
    }
    let is_on_first = places.host(traced, root) == Some(HostIndex::default());
    match (traced.spans.service(root).pid, traced.spans.span(root).tid) {
        (Some(pid), _) if is_on_first && is_there(Tid(pid)) => Next::Process(pid),
        (_, Some(_)) => Next::RecordAll,
        (_, None) => Next::Thread,
    }
}

fn own_times(traced: &Traced, by_span: &[SpanPart]) -> Vec<OwnTime> {
    let mut sums: BTreeMap<OperationIndex, BTreeMap<SpanIndex, u64>> = BTreeMap::new();
    for part in by_span {
        let operation = traced.spans.span(part.span).operation;
        *sums.entry(operation).or_default().entry(part.span).or_default() += part.to.since(part.from);
    }
    sorted(sums)
}

/// The own time by operation, the largest first, from each span's time.
pub(super) fn sorted(sums: BTreeMap<OperationIndex, BTreeMap<SpanIndex, u64>>) -> Vec<OwnTime> {
    let mut own: Vec<_> = sums
        .into_iter()
        .filter_map(|(operation, spans)| {
            let (&longest, _) = spans.iter().max_by_key(|(span, ns)| (**ns, std::cmp::Reverse(**span)))?;
            let total_ns = spans.values().sum();
            Some(OwnTime { operation, total_ns, spans: spans.len() as u64, longest })
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
    all_readings: bool,
) -> RequestPath<'r> {
    let Joined { recorded, traced, .. } = joined;
    let question = question(traced, request, false);
    let names = &mut code_names(recorded);
    let (graph, times) = (&recorded.graph, (window.from, window.to));
    let path = |window, hand_overs: &dyn HandOvers| path_with(graph, window, algorithm, hand_overs);
    let task = (algorithm != Algorithm::Exact)
        .then(|| task_path(joined, request, window, Timeouts::of(algorithm)))
        .flatten();
    if let Some(task) = task {
        let blame = joined.blame_task(request, &task);
        let answer = answer(recorded, task.path, question, names);
        return RequestPath::new(joined, request, answer, blame, None);
    }
    let handed_over = path_handed_over(joined, request, times, algorithm, path);
    let is_handed_over = handed_over.is_some();
    let in_loop = InLoop::new(joined, request, window.thread);
    let answer = match handed_over {
        Some(path) => answer(recorded, path, question, names),
        None if !all_readings => answer(recorded, path(window, &in_loop), question, names),
        None => explain_with(recorded, algorithm, window, question, names, &in_loop),
    };
    let blame = joined.blame(request, &answer.path, is_handed_over);
    RequestPath::new(joined, request, answer, blame, None)
}

pub(super) fn question(traced: &Traced, request: RequestIndex, goroutine: bool) -> Question {
    let operation = traced.operation(request);
    Question::Request {
        service: operation.service.as_bytes().into(),
        operation: operation.name.as_bytes().into(),
        goroutine,
    }
}
