//! Calls to other services: a client's span, its request, and the request's worker.

#[cfg(test)]
mod tests;

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::{Timeouts, Window};
use wakepath_goroutines::{Called, Callee, Calls, GoroutineIndex};
use wakepath_spans::{Kind, RequestIndex, SpanIndex};
use wakepath_wait_graph::ThreadIndex;

use crate::join::Joined;
use crate::tasks::task_path;

/// The most spans in a request searched for a call.
const MAX_SPANS: usize = 1024;

impl Joined<'_> {
    /// The request made by a client's span; `None` unless there is exactly one.
    pub(crate) fn callee(&self, call: SpanIndex) -> Option<RequestIndex> {
        let requests = &self.traced.requests;
        let own = requests.containing(call);
        let mut called =
            requests.children(call).iter().map(|span| requests.containing(*span)).filter(|it| *it != own);
        let callee = called.next()?;
        called.all(|other| other == callee).then_some(callee)
    }

    /// A request's first thread, however it is known.
    pub(crate) fn thread_of(&self, request: RequestIndex) -> Option<ThreadIndex> {
        let Joined { recorded, traced, places, contexts, connections, .. } = self;
        let root = traced.request(request).root;
        let named = || places.thread(recorded, traced, root).or_else(|| connections.thread(request));
        contexts.thread(request).or_else(named)
    }

    /// A request's client span, open all this time and accepted by `is_asked`: the first to end behind it.
    pub(crate) fn call_within(
        &self,
        request: RequestIndex,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
        is_asked: impl Fn(SpanIndex) -> bool,
    ) -> Option<SpanIndex> {
        let traced = self.traced;
        let spans = traced.request(request).spans.iter().take(MAX_SPANS).copied();
        let calls = spans.filter(|span| traced.spans.span(*span).kind == Kind::Client && is_asked(*span));
        let open = calls.filter_map(|span| {
            let (began, ended) = self.span_times(span);
            (began <= from && to <= ended).then_some((ended, span))
        });
        open.min().map(|(_, span)| span)
    }

    /// A request's thread, unless it is an event loop, which works for others too.
    fn own_thread(
        &self,
        request: RequestIndex,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
    ) -> Option<ThreadIndex> {
        let thread = self.thread_of(request)?;
        let window = Window { thread, from, to };
        task_path(self, request, window, Timeouts::Joined).is_none().then_some(thread)
    }
}

impl Calls for Joined<'_> {
    fn call(
        &self,
        caller: GoroutineIndex,
        reader: Option<GoroutineIndex>,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
    ) -> Option<Called> {
        let requests = &self.traced.requests;
        let request = requests.containing(self.goroutine_work.at(&caller, from)?);
        let read_for = reader.and_then(|reader| self.goroutine_work.at(&reader, to.minus(1)));
        if read_for.is_some_and(|other| requests.containing(other) != request) {
            return None;
        }
        let began_here = |span| self.goroutines.by_span(span) == Some(caller);
        let callee = self.callee(self.call_within(request, from, to, began_here)?)?;
        let (from, to) = self.times(callee);
        let goroutine = self.goroutines.by_request(self.traced, callee).map(Callee::Goroutine);
        let thread = || self.own_thread(callee, from, to).map(Callee::Thread);
        Some(Called { callee: goroutine.or_else(thread).unwrap_or(Callee::Unknown), from, to })
    }
}
