//! Requests: how long those of each operation took, and why one of them took its time.

mod one;
mod read;

use wakepath_clock::{Reference, Stamp};
use wakepath_distribution::{Histogram, Unit};
use wakepath_names::WallClock;
pub use wakepath_spans::{
    Operation, OperationIndex, Request, RequestIndex, Span, SpanIndex, read as read_spans,
};
use wakepath_spans::{SpanId, TraceId};

pub use one::{BlockedBy, OfSpan, OwnTime, Piece, RequestAnswer, RequestPath, request};
pub use read::{SpansError, Traced, traced};

use crate::head::head;
use crate::{Head, Recorded};

/// Which requests are asked about.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestsQuery {
    /// Those to this service; `None` for all.
    pub service: Option<String>,
    /// Those of this operation; `None` for all.
    pub operation: Option<String>,
}

/// How long the requests of one operation took.
#[derive(Debug, Clone)]
pub struct OperationAnswer {
    /// The operation.
    pub operation: OperationIndex,
    /// How long they took.
    pub histogram: Histogram,
    /// The number of those whose status is an error.
    pub failed: u64,
    /// Half of them took no longer, ns.
    pub p50_ns: u64,
    /// 99 of 100 took no longer, ns.
    pub p99_ns: u64,
    /// The longest one.
    pub slowest: RequestIndex,
    /// Its length, ns.
    pub max_ns: u64,
}

/// All requests in question.
#[derive(Debug)]
pub struct RequestsAnswer<'a> {
    /// The head of the recording that they are in.
    pub head: Head,
    /// The spans.
    pub traced: &'a Traced,
    /// The clock of the spans beside that of the recording.
    pub clock: WallClock,
    /// By operation, those that took most time in all first.
    pub operations: Vec<OperationAnswer>,
    /// The requests in question, the longest first.
    pub requests: Vec<RequestIndex>,
}

/// Why there is no answer about requests.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum RequestsError {
    #[error("there are no spans")]
    NoSpans,
    #[error("the recording does not say what time of day it was made: spans have no place in it")]
    NoRealtime,
    #[error("no request is {asked}; there are {there}")]
    NoneSo { asked: String, there: String },
    #[error("no request has the id `{0}`")]
    NoId(String),
    #[error(
        "`{0}` is no id: write 4 to 32 hex digits of a trace, and behind a `/` those of a span, if it is not the first"
    )]
    IllFormed(String),
    #[error("{count} traces have ids that begin with `{asked}`")]
    Several { asked: String, count: usize },
}

/// The requests in question: how long they took.
///
/// # Errors
/// When there is none.
pub fn requests<'a>(
    recorded: &Recorded,
    traced: &'a Traced,
    query: &RequestsQuery,
) -> Result<RequestsAnswer<'a>, RequestsError> {
    let clock = recorded.wall_clock().ok_or(RequestsError::NoRealtime)?;
    let requests = traced.matching(query)?;
    let mut by_operation: Vec<Vec<RequestIndex>> = vec![Vec::new(); traced.spans.operations.len()];
    for &request in &requests {
        by_operation[traced.root(request).operation.0 as usize].push(request);
    }
    let all = (0..).map(OperationIndex).zip(by_operation);
    let mut operations: Vec<_> =
        all.filter_map(|(operation, requests)| of_operation(traced, operation, &requests)).collect();
    operations.sort_by_key(|one| std::cmp::Reverse(one.histogram.sum()));
    let (from, to) = (recorded.from(), recorded.to());
    Ok(RequestsAnswer { head: head(recorded, from, to), traced, clock, operations, requests })
}

/// `requests` are sorted, the longest first.
fn of_operation(
    traced: &Traced,
    operation: OperationIndex,
    requests: &[RequestIndex],
) -> Option<OperationAnswer> {
    let length = |request: &RequestIndex| traced.root(*request).length_ns();
    let slowest = *requests.first()?;
    let mut histogram = Histogram::new(Unit::Nanoseconds);
    requests.iter().for_each(|request| histogram.add(length(request)));
    // The nearest rank: of n values the one that has at least p of them at or below it.
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
    /// The beginning and the end of a request, on the recording's clock.
    pub fn times(&self, request: RequestIndex) -> (Stamp<Reference>, Stamp<Reference>) {
        let root = self.traced.root(request);
        (self.clock.stamp(root.from), self.clock.stamp(root.to))
    }
}

impl Traced {
    /// A request.
    pub fn request(&self, request: RequestIndex) -> &Request {
        self.requests.request(request)
    }

    /// The local root span of a request.
    pub fn root(&self, request: RequestIndex) -> &Span {
        self.spans.span(self.request(request).root)
    }

    /// The operation of a request: its service, and the name of its local root span.
    pub fn operation(&self, request: RequestIndex) -> &Operation {
        self.spans.operation(self.request(request).root)
    }

    /// The requests that a query is about, the longest first.
    fn matching(&self, query: &RequestsQuery) -> Result<Vec<RequestIndex>, RequestsError> {
        if self.requests.requests.is_empty() {
            return Err(RequestsError::NoSpans);
        }
        let fits = |wanted: &Option<String>, name: &str| wanted.as_ref().is_none_or(|wanted| wanted == name);
        let fit = |request: &RequestIndex| {
            let operation = self.operation(*request);
            fits(&query.service, &operation.service) && fits(&query.operation, &operation.name)
        };
        let all = (0..self.requests.requests.len() as u32).map(RequestIndex);
        let mut requests: Vec<_> = all.clone().filter(fit).collect();
        if requests.is_empty() {
            return Err(self.none_so(query));
        }
        requests.sort_by_key(|request| (std::cmp::Reverse(self.root(*request).length_ns()), *request));
        Ok(requests)
    }

    fn none_so(&self, query: &RequestsQuery) -> RequestsError {
        let asked = [("to ", &query.service), ("of ", &query.operation)];
        let asked: Vec<_> =
            asked.iter().filter_map(|(word, name)| Some(format!("{word}`{}`", name.as_ref()?))).collect();
        let mut there: Vec<_> = self
            .requests
            .requests
            .iter()
            .map(|request| self.spans.operation(request.root))
            .map(|operation| format!("`{}` of `{}`", operation.name, operation.service))
            .collect();
        there.sort();
        there.dedup();
        const MAX_NAMED: usize = 8;
        let more = there.len().saturating_sub(MAX_NAMED);
        there.truncate(MAX_NAMED);
        let mut there = there.join(", ");
        if more > 0 {
            there += &format!(" and {more} more");
        }
        RequestsError::NoneSo { asked: asked.join(" and "), there }
    }

    /// The request with this id: of a trace its first one, or behind a `/` that of a span. The digits may be the first
    /// ones only.
    ///
    /// # Errors
    /// When none has it, or several traces begin so.
    pub fn find(&self, id: &str) -> Result<RequestIndex, RequestsError> {
        const MIN_DIGITS: usize = 4;
        let (trace, span) = id.split_once('/').map_or((id, None), |(trace, span)| (trace, Some(span)));
        let (trace, span) = (trace.to_ascii_lowercase(), span.map(str::to_ascii_lowercase));
        let is_hex = |text: &String| text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_id = |text: &String, most: usize| (MIN_DIGITS..=most).contains(&text.len()) && is_hex(text);
        if !is_id(&trace, 32) || !span.as_ref().is_none_or(|span| is_id(span, 16)) {
            return Err(RequestsError::IllFormed(id.to_owned()));
        }
        let begins_so = |found: TraceId| found.to_string().starts_with(&trace);
        let is_span = |found: SpanId| span.as_ref().is_none_or(|span| found.to_string().starts_with(span));
        let found: Vec<_> = self
            .spans
            .iter()
            .filter(|(_, one)| begins_so(one.trace) && is_span(one.id))
            .map(|(index, one)| (one.trace, self.requests.of_span(index)))
            .collect();
        let mut traces: Vec<_> = found.iter().map(|(trace, _)| *trace).collect();
        traces.sort();
        traces.dedup();
        match traces.len() {
            0 => Err(RequestsError::NoId(id.to_owned())),
            1 => {
                let requests = found.iter().map(|(_, request)| *request);
                // A trace means the request that it began with; where that is not known, the longest.
                let first = requests.min_by_key(|request| {
                    let has_parent = span.is_none() && self.requests.parent(*request).is_some();
                    (has_parent, std::cmp::Reverse(self.root(*request).length_ns()), *request)
                });
                first.ok_or_else(|| RequestsError::NoId(id.to_owned()))
            }
            count => Err(RequestsError::Several { asked: trace, count }),
        }
    }
}
