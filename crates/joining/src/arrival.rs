//! The time between a request's arrival and its span: in an accept queue, in the server's own queue, or before a busy event loop.
//!
//! A server's span begins as a thread takes the request up. The request's data came before, and the recording has the packet:
//!
//! ```text
//! packets   p..............      the request's data comes
//! loop      bbbbbbbbbbbaaa.      works for `b`, and takes `a` up only then
//! ```

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use wakepath_clock::{Reference, Stamp};
use wakepath_spans::{Kind, RequestIndex, WorksFor};
use wakepath_wait_graph::ThreadIndex;

use crate::connection::{LATE_NS, NEAR_NS, is_clear};
use crate::join::Joined;

/// The shortest reported wait, ns; and a twentieth of the time since the arrival.
const MIN_WAIT_NS: u64 = 1_000_000;

/// A request's arrival, long before its span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// The time at which the request's first data came.
    pub at: Stamp<Reference>,
    /// The requests for which its thread worked from then until its span began, with ns, most first.
    pub worked_for: Vec<(RequestIndex, u64)>,
}

impl Joined<'_> {
    /// The arrival of a request whose answer this thread sent; `None` unless a single exchange fits, and the request waited.
    pub fn arrival(&self, request: RequestIndex, thread: ThreadIndex) -> Option<Arrival> {
        let Self { recorded, traced, .. } = self;
        let root = traced.root(request);
        let (from, to) = self.times(request);
        // A longer span's answer may be a twentieth of its length away.
        let near = LATE_NS.max(to.since(from) / 20);
        let exchanges = recorded.graph.exchanges().filter(|exchange| {
            exchange.thread == thread && exchange.asked <= from && from <= exchange.answered
        });
        let mut fits: Vec<_> =
            exchanges.map(|exchange| (exchange.answered.ns().abs_diff(to.ns()), exchange.asked)).collect();
        fits.sort_unstable();
        let &(gap, at) = fits.first().filter(|(gap, _)| root.kind == Kind::Server && *gap <= near)?;
        let is_single = fits.get(1).is_none_or(|(other, _)| is_clear(gap, *other, NEAR_NS));
        let waited = from.since(at);
        let is_long = waited >= MIN_WAIT_NS && waited >= to.since(at) / 20;
        (is_single && is_long).then(|| Arrival { at, worked_for: self.worked_for(thread, at, from) })
    }

    /// The requests for which a thread worked in this time.
    fn worked_for(
        &self,
        thread: ThreadIndex,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
    ) -> Vec<(RequestIndex, u64)> {
        let mut sums: BTreeMap<RequestIndex, u64> = BTreeMap::new();
        for worked in self.work_of(thread, from, to) {
            let WorksFor::Span(span) = worked.works_for else { continue };
            let other = self.traced.requests.containing(span);
            *sums.entry(other).or_default() += worked.to.since(worked.from);
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_by_key(|(request, ns)| (Reverse(*ns), *request));
        sums
    }
}
