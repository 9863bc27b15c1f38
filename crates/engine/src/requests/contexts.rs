//! The spans that threads say they work for: their contexts as they were read, as times in which each held.

use std::collections::HashMap;
use std::iter;

use wakepath_clock::{Reference, Stamp};
use wakepath_event::{ThreadContext, Tid};
use wakepath_spans::{
    ById, ContextWork, Hold, Named, RequestIndex, Said, SpanId, TraceId, Turns, Work, WorksFor,
};
use wakepath_wait_graph::{Graph, ThreadIndex, ThreadState};

use super::process::Processes;
use super::{Places, Traced};
use crate::Recorded;

/// How it is known for which request a thread works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinedBy {
    /// The thread says so: its context was read.
    Context,
    /// A span was seen to begin in the goroutine.
    Goroutine,
    /// A span names the thread in which it began.
    Thread,
    /// It sent the answer on the connection on which the request came, by the time alone: approximate.
    Connection,
    /// It is not known.
    None,
}

impl JoinedBy {
    /// The word for it in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Context => "context",
            Self::Goroutine => "goroutine",
            Self::Thread => "thread",
            Self::Connection => "connection",
            Self::None => "none",
        }
    }
}

/// A time in which a thread works for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OfThread {
    pub(super) from: Stamp<Reference>,
    pub(super) to: Stamp<Reference>,
    pub(super) thread: ThreadIndex,
}

/// The work of the threads that say for which span they work.
#[derive(Debug, Default)]
pub struct Contexts {
    /// The work of each thread.
    pub work: ContextWork<ThreadIndex, Reference>,
    /// The thread of each request that such threads work for.
    threads: HashMap<RequestIndex, ThreadIndex>,
    /// The times in which threads work for each request, by their beginnings.
    stints: HashMap<RequestIndex, Vec<OfThread>>,
}

impl Contexts {
    /// The work of the threads of a recording. `noted` is their work by the spans that name them, `turns` what is noted of their turns.
    pub fn new(
        recorded: &Recorded,
        traced: &Traced,
        places: &Places,
        noted: &Work<ThreadIndex, Reference>,
        turns: &Turns<ThreadIndex, Reference>,
    ) -> Self {
        let tids = recorded.survey.contexts.threads();
        let mut work = ContextWork::default();
        if tids.is_empty() {
            return Self::default();
        }
        let by_id = ById::new(&traced.spans);
        let times = |index| places.times(traced, index);
        let queued = |index| {
            let queued = traced.spans.span(index).queued;
            queued.map(|queued| places.stamp(traced, index, queued))
        };
        let named = Named { spans: &traced.spans, by_id: &by_id, requests: &traced.requests, times, queued };
        let lives = tids.into_iter().flat_map(|tid| recorded.with_tid(tid).iter().zip(iter::repeat(tid)));
        let all = lives.clone().flat_map(|(&thread, tid)| {
            let readings = readings(recorded, thread, tid);
            readings.filter_map(move |(at, said)| match said {
                Said::Span { trace, span, .. } => Some((thread, at, trace, span)),
                Said::None | Said::Unknown => None,
            })
        });
        let processes = Processes::new(recorded, &traced.spans, &by_id, all);
        for (&thread, tid) in lives {
            let readings: Vec<_> = readings(recorded, thread, tid).collect();
            let process = recorded.graph.thread(thread).tgid();
            let may_be_own = |span| processes.may_be(process, traced.spans.span(span).service);
            work.add(thread, &holds(&recorded.graph, thread, &readings), &named, may_be_own, noted, turns);
        }
        let threads = threads(traced, &work);
        let stints = stints(traced, &work);
        Self { work, threads, stints }
    }

    /// The times in which threads work for a request, by their beginnings.
    pub(super) fn stints(&self, request: RequestIndex) -> &[OfThread] {
        self.stints.get(&request).map_or(&[], Vec::as_slice)
    }

    /// The thread that a request begins in: the one that worked for its local root span first; else the first one that
    /// worked for any of its spans.
    pub fn thread(&self, request: RequestIndex) -> Option<ThreadIndex> {
        self.threads.get(&request).copied()
    }
}

/// The contexts of a thread that were read while it had this number, in order of time.
fn readings(
    recorded: &Recorded,
    thread: ThreadIndex,
    tid: Tid,
) -> impl Iterator<Item = (Stamp<Reference>, Said)> {
    let life = recorded.graph.thread(thread);
    let all = recorded.survey.contexts.of(tid);
    all.map(|(at, context)| (at.on_reference_host(), said(context)))
        .filter(move |(at, _)| life.first <= *at && *at <= life.last && life.tid_at(*at) == tid)
}

/// The times in which threads work for each request.
fn stints(
    traced: &Traced,
    work: &ContextWork<ThreadIndex, Reference>,
) -> HashMap<RequestIndex, Vec<OfThread>> {
    let mut stints: HashMap<RequestIndex, Vec<OfThread>> = HashMap::new();
    for (&thread, pieces) in work.threads() {
        for piece in pieces {
            let WorksFor::Span(span) = piece.works_for else { continue };
            let of_request = stints.entry(traced.requests.of_span(span)).or_default();
            match of_request.last_mut() {
                Some(last) if (last.thread, last.to) == (thread, piece.from) => last.to = piece.to,
                _ => of_request.push(OfThread { from: piece.from, to: piece.to, thread }),
            }
        }
    }
    stints.values_mut().for_each(|of_request| of_request.sort_unstable());
    stints
}

fn said(context: ThreadContext) -> Said {
    match context {
        ThreadContext::None => Said::None,
        ThreadContext::Unknown => Said::Unknown,
        ThreadContext::Span { trace, span, flags } => {
            Said::Span { trace: TraceId(trace), span: SpanId(span), sampled: flags & 1 != 0 }
        }
    }
}

/// The times in which a thread had one context, by its readings in order of time: none before the first, but for a thread that is new.
///
/// A context is read as the thread leaves a CPU, and recorded where it is another one than before: where none is recorded
/// then, the last one holds. Where records may be missing, it does not.
fn holds(graph: &Graph, thread: ThreadIndex, readings: &[(Stamp<Reference>, Said)]) -> Vec<Hold<Reference>> {
    let (Some(&(first, _)), mut holds) = (readings.first(), Vec::new()) else { return Vec::new() };
    let until = graph.thread(thread).last;
    holds.extend(new(graph, thread, first));
    let latest = |at| &readings[..readings.partition_point(|(read, _)| *read <= at)];
    for interval in graph.state_intervals(thread).overlapping(first, until) {
        let (from, to) = (interval.from, interval.to);
        match interval.state {
            ThreadState::Running { .. } => {
                let within = readings.partition_point(|(read, _)| *read <= from)
                    ..readings.partition_point(|(read, _)| *read < to);
                // The thread wakes another one there, or sends a packet.
                let read = readings.get(within).unwrap_or_default();
                holds.extend(read.iter().map(|&(at, said)| Hold { from: at, to: at, said }));
            }
            ThreadState::Unknown(_) => holds.push(Hold { from, to, said: Said::Unknown }),
            _ => {
                if let Some(&(read, said)) = latest(from).last() {
                    let said = if is_certain(graph, read, from) { said } else { Said::Unknown };
                    holds.push(Hold { from, to, said });
                }
            }
        }
    }
    // The recording may end with it.
    if let Some(&(at, said)) = readings.last()
        && holds.last().is_none_or(|last: &Hold<Reference>| last.to < at)
    {
        holds.push(Hold { from: at, to: at, said });
    }
    holds
}

/// The time from the birth of a thread until it runs: its variables are new, so that it works for nothing. Not so for the first thread of
/// a process, which has those of the thread that forked it; and not where its first reading comes later than its first switch, because
/// the recorder did not know its process by then: what it did meanwhile was not read.
fn new(graph: &Graph, thread: ThreadIndex, first: Stamp<Reference>) -> Option<Hold<Reference>> {
    let life = graph.thread(thread);
    let identity = life.identity.as_ref()?;
    if life.forker().is_none() || identity.tid == identity.tgid {
        return None;
    }
    let intervals = graph.state_intervals(thread).overlapping(life.first, first);
    let mut known = intervals
        .skip_while(|one| !matches!(one.state, ThreadState::Running { .. } | ThreadState::Unknown(_)));
    let runs = known.next().filter(|one| matches!(one.state, ThreadState::Running { .. }))?;
    (first <= runs.to).then_some(Hold { from: life.first, to: runs.from, said: Said::None })
}

/// Whether a context that was recorded then still held at a later switch, at which none was recorded. A ring without room
/// loses records at that time only: the context is recorded at the next event. A record that a damaged file lost does not come again.
fn is_certain(graph: &Graph, read: Stamp<Reference>, at: Stamp<Reference>) -> bool {
    if read == at || !graph.losses().touch_reported(read, at) {
        return true;
    }
    let is_harmful = |loss: &&wakepath_wait_graph::Loss| {
        let is_of_file = loss.count == 0;
        loss.reported && (is_of_file || loss.to >= at)
    };
    !graph.losses().overlapping(read, at).any(|loss| is_harmful(&loss))
}

/// The thread that each request begins in.
fn threads(
    traced: &Traced,
    work: &ContextWork<ThreadIndex, Reference>,
) -> HashMap<RequestIndex, ThreadIndex> {
    let mut first: HashMap<RequestIndex, (bool, Stamp<Reference>, ThreadIndex)> = HashMap::new();
    for (&thread, pieces) in work.threads() {
        for piece in pieces.iter().filter(|piece| !piece.noted) {
            let WorksFor::Span(span) = piece.works_for else { continue };
            let request = traced.requests.of_span(span);
            let found = (traced.request(request).root != span, piece.from, thread);
            let known = first.entry(request).or_insert(found);
            *known = found.min(*known);
        }
    }
    first.into_iter().map(|(request, (.., thread))| (request, thread)).collect()
}
