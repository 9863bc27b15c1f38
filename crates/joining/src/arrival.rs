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
use std::collections::{BTreeMap, HashMap};

use wakepath_clock::{Reference, Stamp};
use wakepath_spans::{Kind, RequestIndex, WorksFor};
use wakepath_wait_graph::{Graph, ThreadIndex};

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

/// When an answer was sent, and when its question came.
type Answered = (Stamp<Reference>, Stamp<Reference>);

/// The exchanges on all connections, for many requests' arrival: each answering thread's answers, in time order.
#[derive(Debug, Default)]
pub(crate) struct Exchanges {
    by_thread: HashMap<ThreadIndex, Vec<Answered>>,
}

impl Exchanges {
    /// All exchanges in a graph.
    fn new(graph: &Graph) -> Self {
        let mut by_thread: HashMap<_, Vec<_>> = HashMap::new();
        for exchange in graph.exchanges() {
            by_thread.entry(exchange.thread).or_default().push((exchange.answered, exchange.asked));
        }
        by_thread.values_mut().for_each(|all| all.sort_unstable());
        Self { by_thread }
    }

    /// When a thread sent its answer nearest to `at`, at most `within_ns` away.
    pub(crate) fn answer_near(
        &self,
        thread: ThreadIndex,
        at: Stamp<Reference>,
        within_ns: u64,
    ) -> Option<Stamp<Reference>> {
        let near = self.answered(thread, at.minus(within_ns), at.plus(within_ns));
        near.iter().map(|(answered, _)| *answered).min_by_key(|answered| answered.ns().abs_diff(at.ns()))
    }

    /// A thread's exchanges answered in this time, the end included.
    fn answered(&self, thread: ThreadIndex, from: Stamp<Reference>, to: Stamp<Reference>) -> &[Answered] {
        let all = self.by_thread.get(&thread).map_or(&[][..], Vec::as_slice);
        let first = all.partition_point(|(answered, _)| *answered < from);
        let rest = &all[first..];
        &rest[..rest.partition_point(|(answered, _)| *answered <= to)]
    }
}

impl Joined<'_> {
    pub(crate) fn exchanges(&self) -> &Exchanges {
        self.exchanges.get_or_init(|| Exchanges::new(&self.recorded.graph))
    }

    /// The arrival of a request whose answer this thread sent; `None` unless a single exchange fits, and the request waited.
    pub fn arrival(&self, request: RequestIndex, thread: ThreadIndex) -> Option<Arrival> {
        let at = self.arrived(request, thread)?;
        let (from, to) = self.times(request);
        let waited = from.since(at);
        let is_long = waited >= MIN_WAIT_NS && waited >= to.since(at) / 20;
        is_long.then(|| Arrival { at, worked_for: self.worked_for(thread, at, from) })
    }

    /// The time at which a request's first data came, if this thread sent its answer; `None` unless a single exchange fits.
    pub fn arrived(&self, request: RequestIndex, thread: ThreadIndex) -> Option<Stamp<Reference>> {
        let (from, to) = self.times(request);
        // A longer span's answer may be a twentieth of its length away.
        let near = LATE_NS.max(to.since(from) / 20);
        // A second exchange this much further away makes the first unclear.
        let (first, last) = (to.minus(2 * near + NEAR_NS), to.plus(2 * near + NEAR_NS));
        let around = self.exchanges().answered(thread, first, last);
        let fits = around.iter().filter(|(answered, asked)| *asked <= from && from <= *answered);
        let mut fits: Vec<_> =
            fits.map(|(answered, asked)| (answered.ns().abs_diff(to.ns()), *asked)).collect();
        fits.sort_unstable();
        let is_server = self.traced.root(request).kind == Kind::Server;
        let &(gap, at) = fits.first().filter(|(gap, _)| is_server && *gap <= near)?;
        let is_single = fits.get(1).is_none_or(|(other, _)| is_clear(gap, *other, NEAR_NS));
        is_single.then_some(at)
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
