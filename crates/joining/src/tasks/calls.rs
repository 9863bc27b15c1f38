//! Waits for calls to other services: a gap between two turns within a client's span is a wait for the call.

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::{Basis, Cause, Rule, SegmentKind};
use wakepath_spans::RequestIndex;
use wakepath_wait_graph::ThreadIndex;

use super::{MAX_DEPTH, Place, Turns, Walk};
use crate::connection::LATE_NS;

impl Walk<'_, '_> {
    /// The time between two turns up to `place.to`, if the request waited for a service with spans. Returns whether it did.
    pub(super) fn call(&mut self, request: RequestIndex, thread: ThreadIndex, place: Place) -> bool {
        let Place { from, to, .. } = place;
        let Some(callee) =
            self.joined.call_within(request, from, to, |_| true).and_then(|call| self.joined.callee(call))
        else {
            return false;
        };
        let times = self.joined.times(callee);
        let [began, ended] = <[_; 2]>::from(times).map(|at| at.clamp(from, to));
        let is_new = self.followed.insert(callee, (began, ended)) != Some((began, ended));
        let Some(by) =
            self.joined.thread_of(callee).filter(|_| began < ended && is_new && place.depth < MAX_DEPTH)
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

    /// The time in which a call or its answer was on its way, or the called service had not begun with it.
    fn in_flight(&mut self, callee: RequestIndex, by: ThreadIndex, place: Place) {
        self.own(callee, by, place, SegmentKind::Network, Cause::Network { flow: None }, Basis::Ambiguous);
    }
}
