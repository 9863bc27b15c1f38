//! Requests: each operation's latencies, and a request's explanation.

mod alone;
mod by_cause;
mod find;
pub(crate) mod goroutine;
mod group;
mod headline;
mod one;
mod parts;
mod read;
mod span_time;
#[cfg(test)]
mod tests;
mod within;
mod without_path;

use wakepath_distribution::{Histogram, Unit};
use wakepath_event::HostIndex;
pub use wakepath_joining::{
    Arrival, BlockedBy, BlockedByMissing, Blocker as BlockingRequest, CalledRequest, Connections, Contexts,
    DiskAccesses, Joined, JoinedBy, Piece, Places, RequestState, SaidAttribute, SaidService, SpanClock,
    SpanGoroutines, SpanOffset, StateSum, Traced,
};
use wakepath_joining::{NoTimeOfDay, joined_by, noted_turns};
pub use wakepath_spans::{
    EXPLAINS, Kind, Language, Operation, OperationIndex, Request, RequestIndex, Service, Span, SpanId,
    SpanIndex, TraceId, read as read_spans,
};

pub use alone::{AloneAnswer, own_times_alone, requests_alone};
pub use by_cause::{ByCauseAnswer, CauseGroup, RequestCause, requests_by_cause, requests_by_cause_alone};
pub use find::{find_request, request_id};
pub use goroutine::{Parked, Reason, RequestGoroutine};
pub use group::{Blocker, BlockerOf, GroupAnswer, GroupQuery, request_group};
pub use headline::{Blocking, RequestHeadline};
pub use one::{
    FromArrival, Next, NoPath, OwnTime, RequestAnswer, RequestPath, SpanPart, from_arrival, request,
};
pub use parts::RequestPart;
pub use read::{SpansError, traced};
pub use span_time::SpanTime;
pub use within::TimeRange;
pub use without_path::WithoutPath;

use crate::head::head;
use crate::{Head, Recorded};
use find::matching;

/// A selection of requests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestsQuery {
    /// The service; `None` for all.
    pub service: Option<String>,
    /// The operation; `None` for all.
    pub operation: Option<String>,
}

/// How long an operation's requests took.
#[derive(Debug, Clone)]
pub struct OperationAnswer {
    /// The operation.
    pub operation: OperationIndex,
    /// The requests' latencies.
    pub histogram: Histogram,
    /// The number of requests with an error status.
    pub failed: u64,
    /// Half of the requests took no longer, ns.
    pub p50_ns: u64,
    /// 99 of 100 requests took no longer, ns.
    pub p99_ns: u64,
    /// The longest request.
    pub slowest: RequestIndex,
    /// The longest request's length, ns.
    pub max_ns: u64,
}

/// All requests in question.
#[derive(Debug)]
pub struct RequestsAnswer<'a> {
    /// The recording's head.
    pub head: Head,
    /// The spans and their requests.
    pub traced: &'a Traced,
    /// The spans' hosts and clocks.
    pub places: Places,
    /// The operations, most total time first.
    pub operations: Vec<OperationAnswer>,
    /// The requests in question, the longest first; requests without a recorded moment are last.
    pub requests: Vec<RequestIndex>,
    /// How many requests have no recorded moment.
    pub outside: u64,
    /// The threads' contexts.
    pub contexts: Contexts,
    /// The goroutines.
    pub goroutines: SpanGoroutines,
    /// The threads found by connection and time.
    pub connections: Connections,
}

/// The error for a question about requests.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum RequestsError {
    #[error("there are no spans")]
    NoSpans,
    #[error("the recording does not say what time of day it was made: spans have no place in it")]
    NoRealtime,
    #[error("no request is {asked}; there are {there}")]
    NoneSo { asked: String, there: String },
    #[error("the time asked about is empty: it ends where it begins, or before")]
    EmptyTime,
    #[error("none of {} was under way at this time", match there { 1 => "1 request".into(), n => format!("{n} requests") })]
    NoneWithin { there: usize },
    #[error("requests of several operations: {there}")]
    SeveralOperations { there: String },
    #[error("there is no peak {asked}: the histogram has {there}")]
    NoPeak { asked: usize, there: usize },
    #[error("{}", match .why.total() {
        1 => format!("this request has no path: {why}"),
        count => format!("none of these {count} requests has a path: {why}"),
    })]
    NoPaths { why: WithoutPath },
    #[error("no request has the id `{0}`")]
    NoId(String),
    #[error(
        "`{0}` is no id: write 4 to 32 hex digits of a trace, and behind a `/` those of a span, if it is not the first"
    )]
    IllFormed(String),
    #[error("{count} traces have ids that begin with `{asked}`")]
    Several { asked: String, count: usize },
    #[error("{count} requests have an id with `{asked}` in it")]
    SeveralParts { asked: String, count: usize },
    #[error("{count} spans of this trace have ids that begin with `{asked}`")]
    SeveralSpans { asked: String, count: usize },
    #[error("{count} services have a request with the id `{asked}`: {there}")]
    SeveralServices { asked: String, count: usize, there: String },
}

impl From<NoTimeOfDay> for RequestsError {
    fn from(NoTimeOfDay: NoTimeOfDay) -> Self {
        Self::NoRealtime
    }
}

/// Joins a recording with spans.
///
/// # Errors
/// When the recording has no time of day.
pub fn join<'r>(recorded: &'r Recorded, traced: &'r Traced) -> Result<Joined<'r>, RequestsError> {
    Ok(wakepath_joining::join(recorded, traced)?)
}

/// The requests in question: how long they took.
///
/// # Errors
/// When no request matches.
pub fn requests<'a>(
    recorded: &Recorded,
    traced: &'a Traced,
    query: &RequestsQuery,
) -> Result<RequestsAnswer<'a>, RequestsError> {
    requests_within(recorded, traced, query, TimeRange::default())
}

/// The same for the requests under way in a time range.
///
/// # Errors
/// When no request matches, or the part is empty.
pub fn requests_within<'a>(
    recorded: &Recorded,
    traced: &'a Traced,
    query: &RequestsQuery,
    range: TimeRange,
) -> Result<RequestsAnswer<'a>, RequestsError> {
    let places = Places::new(recorded, traced)?;
    let requests = matching(traced, query)?;
    let mut requests = range.overlapping(recorded, traced, &places, requests)?;
    let operations = operation_answers(traced, &requests);
    let times = |request: &RequestIndex| span_time::times(&places, traced, traced.request(*request).root);
    let is_outside = |request: &RequestIndex| one::is_outside(recorded, times(request));
    let outside = requests.iter().filter(|request| is_outside(request)).count() as u64;
    // No path explains them: a program sends the spans of its start as the recording begins.
    requests.sort_by_cached_key(is_outside);
    let (from, to) = (recorded.from(), recorded.to());
    let turns = noted_turns(recorded, traced, &places);
    let contexts = Contexts::new(recorded, traced, &places, &turns);
    let goroutines = SpanGoroutines::new(recorded, traced, &places);
    let connections = Connections::new(recorded, traced, &places, &contexts, &goroutines);
    let head = head(recorded, from, to);
    Ok(RequestsAnswer {
        head,
        traced,
        places,
        operations,
        requests,
        outside,
        contexts,
        goroutines,
        connections,
    })
}

/// These requests' operations, most total time first. `requests` are sorted, the longest first.
fn operation_answers(traced: &Traced, requests: &[RequestIndex]) -> Vec<OperationAnswer> {
    let mut by_operation: Vec<Vec<RequestIndex>> = vec![Vec::new(); traced.spans.operations.len()];
    for &request in requests {
        by_operation[traced.root(request).operation.0 as usize].push(request);
    }
    let all = (0..).map(OperationIndex).zip(by_operation);
    let mut operations: Vec<_> =
        all.filter_map(|(operation, requests)| operation_answer(traced, operation, &requests)).collect();
    operations.sort_by_key(|one| std::cmp::Reverse(one.histogram.sum()));
    operations
}

/// An operation's latencies. `requests` are sorted, the longest first.
fn operation_answer(
    traced: &Traced,
    operation: OperationIndex,
    requests: &[RequestIndex],
) -> Option<OperationAnswer> {
    let length = |request: &RequestIndex| traced.root(*request).length_ns();
    let slowest = *requests.first()?;
    let mut histogram = Histogram::new(Unit::Nanoseconds);
    requests.iter().for_each(|request| histogram.add(length(request)));
    // The nearest rank: of n values, the smallest with at least the share p at or below it.
    let rank = |percent: usize| (requests.len() * percent).div_ceil(100).max(1);
    let quantile = |percent| length(&requests[requests.len() - rank(percent)]);
    Some(OperationAnswer {
        operation,
        histogram,
        failed: requests.iter().filter(|request| traced.root(**request).failed).count() as u64,
        p50_ns: quantile(50),
        p99_ns: quantile(99),
        slowest,
        max_ns: length(&slowest),
    })
}

impl RequestsAnswer<'_> {
    /// A request's beginning and end, on the recording's clock.
    pub fn times(&self, request: RequestIndex) -> (SpanTime, SpanTime) {
        span_time::times(&self.places, self.traced, self.traced.request(request).root)
    }

    /// A request's host; `None` if it was not recorded.
    pub fn host(&self, request: RequestIndex) -> Option<HostIndex> {
        self.places.host(self.traced, self.traced.request(request).root)
    }

    /// The way in which a request's thread is known.
    pub fn joined_by(&self, request: RequestIndex) -> JoinedBy {
        joined_by(self.traced, &self.contexts, &self.goroutines, &self.connections, request)
    }
}
