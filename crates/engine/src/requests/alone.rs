//! Requests by their spans alone, without a recording: how long they took, and for which spans their ends waited.

use std::collections::BTreeMap;

use wakepath_spans::{OperationIndex, RequestIndex, SpanIndex, span_path};

use super::one::sorted;
use super::{OperationAnswer, OwnTime, RequestsError, RequestsQuery, Traced, find, operation_answers};

/// The requests in question, without a recording.
#[derive(Debug)]
pub struct AloneAnswer<'a> {
    /// The spans and their requests.
    pub traced: &'a Traced,
    /// The operations, most total time first.
    pub operations: Vec<OperationAnswer>,
    /// The requests in question, the longest first.
    pub requests: Vec<RequestIndex>,
}

/// The requests in question: how long they took.
///
/// # Errors
/// When no request matches.
pub fn requests_alone<'a>(
    traced: &'a Traced,
    query: &RequestsQuery,
) -> Result<AloneAnswer<'a>, RequestsError> {
    let requests = find::matching(traced, query)?;
    Ok(AloneAnswer { traced, operations: operation_answers(traced, &requests), requests })
}

/// The own time by operation of the spans that a request's end waited for, the largest first: the sums add up to its length.
pub fn own_times_alone(traced: &Traced, request: RequestIndex) -> Vec<OwnTime> {
    let mut sums: BTreeMap<OperationIndex, BTreeMap<SpanIndex, u64>> = BTreeMap::new();
    for segment in span_path(&traced.spans, &traced.requests, traced.request(request).root) {
        let operation = traced.spans.span(segment.span).operation;
        let length = segment.to.since(segment.from);
        *sums.entry(operation).or_default().entry(segment.span).or_default() += length;
    }
    sorted(sums)
}
