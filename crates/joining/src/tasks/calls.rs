//! Waits for calls to other services: a gap between two turns within a client's span is a wait for the call.

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::{Basis, Cause, Rule, SegmentKind};
use wakepath_spans::{Kind, RequestIndex, SpanIndex};
use wakepath_wait_graph::ThreadIndex;

use super::{MAX_DEPTH, MAX_SPANS, Place, Turns, Walk};
use crate::connection::LATE_NS;

impl Walk<'_, '_> {
    /// The time between two turns up to `place.to`, if the request waited for a service with spans. Returns whether it did.
    pub(super) fn call(&mut self, request: RequestIndex, thread: ThreadIndex, place: Place) -> bool {
        let Place { from, to, .. } = place;
        let Some(callee) = self.call_within(request, from, to).and_then(|call| self.callee(call)) else {
            return false;
        };
        let times = self.joined.times(callee);
        let [began, ended] = <[_; 2]>::from(times).map(|at| at.clamp(from, to));
        let is_new = self.followed.insert(callee, (began, ended)) != Some((began, ended));
        let Some(by) = self.thread_of(callee).filter(|_| began < ended && is_new && place.depth < MAX_DEPTH)
        else {
            return false;
        };
        // From then on the answer was there, and the loop had other work.
        let answered = self.answered(thread, by, times).map(|at| at.clamp(began, to));
        let over = answered.unwrap_or(to);
        let ended = ended.min(over);
        let below = self.wait(request, thread, by, place.until(over), Rule::CalledRequest);
        self.in_flight(callee, by, below.until(began));
        let worked = below.since(began).until(ended);
        match Turns::of(self.joined, callee, by) {
            Some(turns) => self.task(callee, &turns, worked),
            None if self.without_turns(callee, by, worked).is_some() => {}
            None => self.thread(by, worked, Some(callee)),
        }
        self.in_flight(callee, by, below.since(ended));
        self.thread(thread, place.since(over), None);
        true
    }

    /// The time at which a thread answered, if it did so at about the end of its request and on the same host, where the answer is there at once.
    fn answered(
        &self,
        thread: ThreadIndex,
        by: ThreadIndex,
        (began, ended): (Stamp<Reference>, Stamp<Reference>),
    ) -> Option<Stamp<Reference>> {
        let graph = &self.joined.recorded.graph;
        let [own, other] = [thread, by].map(|thread| graph.thread(thread).tid().host());
        let near = self.joined.exchanges().answer_near(by, ended, LATE_NS.max(ended.since(began) / 20));
        near.filter(|at| own == other && *at >= began)
    }

    /// A request's client span, open all this time; among several, the first to end behind it.
    fn call_within(
        &self,
        request: RequestIndex,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
    ) -> Option<SpanIndex> {
        let traced = self.joined.traced;
        let spans = traced.request(request).spans.iter().take(MAX_SPANS).copied();
        let open = spans.filter(|span| traced.spans.span(*span).kind == Kind::Client).filter_map(|span| {
            let (began, ended) = self.joined.span_times(span);
            (began <= from && to <= ended).then_some((ended, span))
        });
        open.min().map(|(_, span)| span)
    }

    /// The request made by a client's span; `None` unless there is exactly one.
    fn callee(&self, call: SpanIndex) -> Option<RequestIndex> {
        let requests = &self.joined.traced.requests;
        let own = requests.containing(call);
        let mut called =
            requests.children(call).iter().map(|span| requests.containing(*span)).filter(|it| *it != own);
        let callee = called.next()?;
        called.all(|other| other == callee).then_some(callee)
    }

    /// A request's first thread, however it is known.
    fn thread_of(&self, request: RequestIndex) -> Option<ThreadIndex> {
        let super::Joined { recorded, traced, places, contexts, connections, .. } = self.joined;
        let root = traced.request(request).root;
        let named = || places.thread(recorded, traced, root).or_else(|| connections.thread(request));
        contexts.thread(request).or_else(named)
    }

    /// The time in which a call or its answer was on its way, or the called service had not begun with it.
    fn in_flight(&mut self, callee: RequestIndex, by: ThreadIndex, place: Place) {
        self.own(callee, by, place, SegmentKind::Network, Cause::Network { flow: None }, Basis::Ambiguous);
    }
}
