//! Called requests, and the time for which a request's path waited for them.
//!
//! The caller's span is above the called request, so its times are known; the path shows whether the request waited meanwhile, and for whom:
//! a part of the path counts if it lies within the called request's time and a thread of the answering process stands in it, or if it is a wait
//! for the network.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::{Basis, Path, Rule, Segment, SegmentKind, Via, WaitId};
use wakepath_event::Tid;
use wakepath_spans::{Kind, ParentOfRequest, RequestIndex, WorksFor, descends_from};
use wakepath_wait_graph::ThreadIndex;

use crate::join::Joined;
use crate::process::line;

/// The most called requests sought in a path.
const MAX_CALLED: usize = 1024;

/// The most called requests at a time: a path may have millions of segments.
const MAX_OPEN: usize = 64;

/// The most waits above a segment.
const MAX_WAITS: usize = 64;

/// A called request: by the path's own request, or through others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CalledRequest {
    /// The called request.
    pub request: RequestIndex,
    /// Its caller.
    pub caller: RequestIndex,
    /// The number of calls in between: 0 for the path's own request's call.
    pub depth: u32,
    /// The time for which the path waited for it, ns.
    pub total_ns: u64,
}

/// A called request, as the path is searched for it.
struct Sought {
    request: RequestIndex,
    caller: RequestIndex,
    depth: u32,
    /// Its time, within its caller's span.
    from: Stamp<Reference>,
    to: Stamp<Reference>,
    worker: Worker,
    total_ns: u64,
}

/// A called request's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Worker {
    /// This process.
    Process(Tid),
    /// The path's own process: only a thread with the called request shows it.
    Own,
    /// A process with this number, on its host, or forked by it.
    Named(Tid),
    /// Not known: a wait until a packet shows enough.
    Unknown,
}

impl Joined<'_> {
    /// A request's called requests for which its path waited, each behind its caller, the longest first.
    pub fn called(&self, request: RequestIndex, path: &Path) -> Vec<CalledRequest> {
        let own = self.recorded.graph.thread(path.window.thread).tgid();
        let mut sought = self.sought(request, own);
        sought.sort_by_key(|one| (one.from, one.request));
        let mut lines = HashMap::new();
        let mut next = 0;
        let mut open: Vec<usize> = Vec::new();
        for segment in &path.segments {
            while next < sought.len() && sought[next].from < segment.to {
                open.push(next);
                next += 1;
            }
            open.retain(|&place| sought[place].to > segment.from);
            for &place in open.iter().take(MAX_OPEN) {
                let one = &sought[place];
                let within = one.to.min(segment.to).since(one.from.max(segment.from));
                if self.is_wait_for(one, path, segment, &mut lines) {
                    sought[place].total_ns += within;
                }
            }
        }
        in_order(sought)
    }

    /// A request's called requests, and theirs.
    fn sought(&self, request: RequestIndex, own: Option<Tid>) -> Vec<Sought> {
        let Joined { traced, .. } = self;
        let mut found: Vec<Sought> = Vec::new();
        let mut callers = vec![(request, 0)];
        while let Some((caller, depth)) = callers.pop() {
            for &span in &traced.request(caller).spans {
                for &child in traced.requests.children(span) {
                    let called = traced.requests.containing(child);
                    if called == caller || found.len() >= MAX_CALLED {
                        continue;
                    }
                    let (from, to) = self.within_call(called);
                    let worker = self.worker(called, own);
                    let total_ns = 0;
                    found.push(Sought { request: called, caller, depth, from, to, worker, total_ns });
                    callers.push((called, depth + 1));
                }
            }
        }
        found
    }

    /// A called request's time, in which its client's span was open too.
    fn within_call(&self, called: RequestIndex) -> (Stamp<Reference>, Stamp<Reference>) {
        let (from, to) = self.times(called);
        let traced = self.traced;
        let client = match traced.request(called).parent {
            ParentOfRequest::Span(span) => Some(span),
            ParentOfRequest::None | ParentOfRequest::Missing(_) => None,
        };
        let client = client.filter(|span| traced.spans.span(*span).kind == Kind::Client);
        let Some((began, ended)) = client.map(|span| self.span_times(span)) else { return (from, to) };
        let from = from.max(began);
        (from, to.min(ended).max(from))
    }

    fn worker(&self, request: RequestIndex, own: Option<Tid>) -> Worker {
        let Joined { recorded, traced, places, goroutines, .. } = self;
        let goroutine = goroutines.by_request(traced, request).map(|index| goroutines.all.get(index).process);
        let thread = goroutine.or_else(|| self.thread_of(request));
        let process = thread.and_then(|thread| recorded.graph.thread(thread).tgid()).map(Worker::Process);
        let root = traced.request(request).root;
        let named = || {
            let pid = traced.spans.service(root).pid?;
            Some(Worker::Named(Tid(pid).on(places.host(traced, root)?)))
        };
        match process.or_else(named) {
            Some(Worker::Process(process) | Worker::Named(process)) if Some(process) == own => Worker::Own,
            worker => worker.unwrap_or(Worker::Unknown),
        }
    }

    /// Whether a segment is a wait for a called request.
    fn is_wait_for(
        &self,
        called: &Sought,
        path: &Path,
        segment: &Segment,
        lines: &mut HashMap<ThreadIndex, Vec<u32>>,
    ) -> bool {
        let wait = |id: WaitId| path.waits.get(id.0 as usize);
        let waits = std::iter::successors(segment.parent.and_then(wait), |above| above.parent.and_then(wait));
        let waits: Vec<_> = waits.take(MAX_WAITS).collect();
        let is_network = segment.kind == SegmentKind::Network;
        let Some(first) = waits.last() else { return is_network };
        let is_call = first.via == Via::Packet || first.basis == Basis::Inferred(Rule::CalledRequest);
        if is_network && is_call {
            return true;
        }
        let mut threads = segment.thread.into_iter().chain(waits.iter().filter_map(|wait| wait.ended_by));
        let graph = &self.recorded.graph;
        match called.worker {
            Worker::Process(process) => threads.any(|thread| graph.thread(thread).tgid() == Some(process)),
            Worker::Own => threads.any(|thread| match self.works_for(thread, segment.from) {
                WorksFor::Span(span) => self.traced.requests.containing(span) == called.request,
                _ => false,
            }),
            Worker::Named(process) => threads.any(|thread| {
                let line = lines.entry(thread).or_insert_with(|| line(self.recorded, thread, segment.from));
                graph.thread(thread).tid().host() == process.host() && descends_from(line, process.number())
            }),
            Worker::Unknown => is_call,
        }
    }
}

/// The awaited requests, each behind its caller.
fn in_order(sought: Vec<Sought>) -> Vec<CalledRequest> {
    let mut by_caller: BTreeMap<RequestIndex, Vec<CalledRequest>> = BTreeMap::new();
    let mut first = Vec::new();
    for Sought { request, caller, depth, total_ns, .. } in sought {
        let one = CalledRequest { request, caller, depth, total_ns };
        match depth {
            _ if total_ns == 0 => {}
            0 => first.push(one),
            _ => by_caller.entry(caller).or_default().push(one),
        }
    }
    let longest_last = |called: &mut Vec<CalledRequest>| {
        called.sort_by_key(|one| (one.total_ns, Reverse(one.request)));
    };
    longest_last(&mut first);
    let (mut todo, mut ordered) = (first, Vec::new());
    while let Some(one) = todo.pop() {
        let mut below = by_caller.remove(&one.request).unwrap_or_default();
        longest_last(&mut below);
        todo.append(&mut below);
        ordered.push(one);
    }
    ordered
}
