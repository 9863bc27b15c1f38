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
use wakepath_event::Flow;
use wakepath_spans::{Kind, Language, RequestIndex, WorksFor};
use wakepath_wait_graph::{Exchange, Graph, Question, ThreadIndex};

use crate::connection::{LATE_NS, NEAR_NS, is_called_on, is_clear};
use crate::join::Joined;
use crate::model::JoinedBy;
use crate::tasks::is_loop_wait;

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Answered {
    /// The answer's time.
    pub answered: Stamp<Reference>,
    /// The question's.
    pub asked: Stamp<Reference>,
    /// The client's port.
    pub port: u16,
}

/// JavaScript's spans begin at whole milliseconds, and last as long as they did, ns.
const WHOLE_MS: u64 = 1_000_000;

/// The most, ns, by which a language's spans may begin and end too early.
pub(crate) fn early_ns(language: Option<Language>) -> u64 {
    if language == Some(Language::Node) { WHOLE_MS } else { 0 }
}

/// The longest time, ns, in which a loop accepts a connection: its data come behind.
pub(crate) const ACCEPTS_NS: u64 = 3_000_000;

/// The most intervals searched for a loop's wait before a span.
const MAX_BEFORE: usize = 64;

/// The most answers searched behind a time for requests that were open then.
const MAX_OPEN: usize = 4096;

/// The exchanges on all connections, for many requests' arrival.
#[derive(Debug, Default)]
pub(crate) struct Exchanges {
    /// Each answering thread's answers, in time order.
    by_thread: HashMap<ThreadIndex, Vec<Answered>>,
    /// Each thread's questions to others, in time order: connections on which it is the caller.
    questions: HashMap<ThreadIndex, Vec<(Stamp<Reference>, Flow)>>,
}

impl Exchanges {
    /// All exchanges in a graph.
    fn new(graph: &Graph) -> Self {
        let mut by_thread: HashMap<_, Vec<_>> = HashMap::new();
        for Exchange { thread, answered, asked, flow, opened } in graph.exchanges() {
            if !is_called_on(&flow, opened) {
                continue;
            }
            let port = flow.target.port();
            by_thread.entry(thread).or_default().push(Answered { answered, asked, port });
        }
        by_thread.values_mut().for_each(|all| all.sort_unstable());
        let mut questions: HashMap<_, Vec<_>> = HashMap::new();
        for Question { thread, at, flow, opened } in graph.questions() {
            if !is_called_on(&flow, opened) {
                questions.entry(thread).or_default().push((at, flow));
            }
        }
        questions.values_mut().for_each(|all| all.sort_unstable_by_key(|(at, _)| *at));
        Self { by_thread, questions }
    }

    /// The connections on which a thread asked others in this time, the end included.
    pub(crate) fn asked_on(
        &self,
        thread: ThreadIndex,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
    ) -> impl Iterator<Item = Flow> {
        let all = self.questions.get(&thread).map_or(&[][..], Vec::as_slice);
        let rest = &all[all.partition_point(|(at, _)| *at < from)..];
        rest.iter().take_while(move |(at, _)| *at <= to).map(|(_, flow)| *flow)
    }

    /// When a thread sent its answer nearest to `at`, at most `within_ns` away.
    pub(crate) fn answer_near(
        &self,
        thread: ThreadIndex,
        at: Stamp<Reference>,
        within_ns: u64,
    ) -> Option<Stamp<Reference>> {
        let near = self.answered(thread, at.minus(within_ns), at.plus(within_ns));
        near.iter().map(|it| it.answered).min_by_key(|answered| answered.ns().abs_diff(at.ns()))
    }

    /// A thread's other exchanges that were open in this time, at its end or before.
    pub(crate) fn others(
        &self,
        thread: ThreadIndex,
        own: Option<Answered>,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
    ) -> Vec<Answered> {
        let all = self.by_thread.get(&thread).map_or(&[][..], Vec::as_slice);
        let first = all.partition_point(|it| it.answered < from);
        let within = all.partition_point(|it| it.answered <= to);
        let last = within.saturating_add(MAX_OPEN).min(all.len());
        all[first..last].iter().filter(|it| Some(**it) != own).copied().collect()
    }

    /// A thread's exchanges answered in this time, the end included.
    fn answered(&self, thread: ThreadIndex, from: Stamp<Reference>, to: Stamp<Reference>) -> &[Answered] {
        let all = self.by_thread.get(&thread).map_or(&[][..], Vec::as_slice);
        let first = all.partition_point(|it| it.answered < from);
        let rest = &all[first..];
        &rest[..rest.partition_point(|it| it.answered <= to)]
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
        self.exchange(request, thread).map(|own| own.asked)
    }

    /// A request's exchange, if this thread sent its answer; `None` unless a single one fits.
    pub(crate) fn exchange(&self, request: RequestIndex, thread: ThreadIndex) -> Option<Answered> {
        let (from, to) = self.times(request);
        let language = self.traced.spans.service(self.traced.request(request).root).language;
        let slack_ns = early_ns(language);
        // A longer span's answer may be a twentieth of its length away.
        let near = (LATE_NS + slack_ns).max(to.since(from) / 20);
        // A second exchange this much further away makes the first unclear.
        let around_ns = 2 * (near + slack_ns) + NEAR_NS;
        let (first, last) = (to.minus(around_ns), to.plus(around_ns));
        let around = self.exchanges().answered(thread, first, last);
        let peer = self.traced.root(request).peer_port;
        let fits = around.iter().filter(|it| it.asked <= from.plus(slack_ns) && from <= it.answered);
        let mut fits: Vec<_> = fits.map(|it| (it.answered.ns().abs_diff(to.ns()), it)).collect();
        // A proxy may hide its client: then no connection has the port.
        if fits.iter().any(|(_, it)| Some(it.port) == peer) {
            fits.retain(|(_, it)| Some(it.port) == peer);
        }
        fits.sort_unstable();
        let is_server = self.traced.root(request).kind == Kind::Server;
        let &(gap, own) = fits.first().filter(|(gap, _)| is_server && *gap <= near)?;
        let unclear = fits.iter().take_while(|(other, _)| !is_clear(gap + slack_ns, *other, NEAR_NS));
        match unclear.count() {
            0 | 1 => Some(*own),
            count => self.just_come(thread, from, &fits[..count]),
        }
    }

    /// Among answers about as near: the single one whose data came since the loop was idle last before the span. The loop took all
    /// others up before, so that their spans began then.
    fn just_come(
        &self,
        thread: ThreadIndex,
        began: Stamp<Reference>,
        fits: &[(u64, &Answered)],
    ) -> Option<Answered> {
        let graph = &self.recorded.graph;
        let intervals = graph.state_intervals(thread);
        let last = intervals.find_before(began)?;
        let mut before =
            (last.saturating_sub(MAX_BEFORE)..=last).rev().filter_map(|place| intervals.get(place));
        let idle = before.find(|interval| is_loop_wait(graph, interval))?.from;
        let mut just_come = fits.iter().filter(|(_, it)| idle <= it.asked);
        just_come.next().filter(|_| just_come.next().is_none()).map(|(_, own)| **own)
    }

    /// The requests for which a thread worked in this time.
    fn worked_for(
        &self,
        thread: ThreadIndex,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
    ) -> Vec<(RequestIndex, u64)> {
        let mut sums: BTreeMap<RequestIndex, u64> = BTreeMap::new();
        // A loop that was idle takes the data up at once; what was open before had nothing to do. The connections show no more.
        let graph = &self.recorded.graph;
        let before = graph.state_intervals(thread).overlapping(from.minus(ACCEPTS_NS), from.plus(1));
        let idle = before.filter(|interval| is_loop_wait(graph, interval)).last().map(|wait| wait.from);
        for worked in self.work_of(thread, from, to) {
            let WorksFor::Span(span) = worked.works_for else { continue };
            let other = self.traced.requests.containing(span);
            if worked.by == JoinedBy::Connection && idle.is_some_and(|idle| self.times(other).0 < idle) {
                continue;
            }
            *sums.entry(other).or_default() += worked.to.since(worked.from);
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_by_key(|(request, ns)| (Reverse(*ns), *request));
        sums
    }
}
