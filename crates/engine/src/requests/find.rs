//! The requests for a question: by service and operation, or by an id.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;

use wakepath_spans::{OperationIndex, RequestIndex, SpanId, SpanIndex, TraceId};

use super::{RequestsError, RequestsQuery, Traced};

/// The most operations, or requests, named in an error.
const MAX_NAMED: usize = 8;

/// A query's requests, the longest first.
pub(super) fn matching(traced: &Traced, query: &RequestsQuery) -> Result<Vec<RequestIndex>, RequestsError> {
    if traced.requests.requests.is_empty() {
        return Err(RequestsError::NoSpans);
    }
    let fits = |wanted: &Option<String>, name: &str| wanted.as_ref().is_none_or(|wanted| wanted == name);
    let is_meant: Vec<bool> = traced
        .spans
        .operations
        .iter()
        .map(|one| fits(&query.service, &one.service) && fits(&query.operation, &one.name))
        .collect();
    let all = (0..traced.requests.requests.len() as u32).map(RequestIndex);
    let mut requests: Vec<_> =
        all.filter(|request| is_meant[traced.root(*request).operation.0 as usize]).collect();
    if requests.is_empty() {
        return Err(none_so(traced, query));
    }
    requests.sort_by_key(|request| (Reverse(traced.root(*request).length_ns()), *request));
    Ok(requests)
}

/// A query's requests if all have the same operation, the longest first.
pub(super) fn matching_one_operation(
    traced: &Traced,
    query: &RequestsQuery,
) -> Result<Vec<RequestIndex>, RequestsError> {
    let requests = matching(traced, query)?;
    let operation = |request: &RequestIndex| traced.root(*request).operation;
    match requests.iter().all(|request| operation(request) == operation(&requests[0])) {
        true => Ok(requests),
        false => {
            Err(RequestsError::SeveralOperations { there: named(traced, requests.iter().map(operation)) })
        }
    }
}

fn none_so(traced: &Traced, query: &RequestsQuery) -> RequestsError {
    let asked = [("to ", &query.service), ("of ", &query.operation)];
    let asked: Vec<_> =
        asked.iter().filter_map(|(word, name)| Some(format!("{word}`{}`", name.as_ref()?))).collect();
    RequestsError::NoneSo { asked: asked.join(" and "), there: there(traced) }
}

/// All requests' operations, as text.
pub(crate) fn there(traced: &Traced) -> String {
    let requests = (0..traced.requests.requests.len() as u32).map(RequestIndex);
    named(traced, requests.map(|request| traced.root(request).operation))
}

fn named(traced: &Traced, operations: impl Iterator<Item = OperationIndex>) -> String {
    let mut there: Vec<OperationIndex> = operations.collect();
    there.sort_unstable();
    there.dedup();
    let mut there: Vec<_> = there
        .into_iter()
        .map(|operation| &traced.spans.operations[operation.0 as usize])
        .map(|operation| format!("`{}` of `{}`", operation.name, operation.service))
        .collect();
    there.sort();
    let more = there.len().saturating_sub(MAX_NAMED);
    there.truncate(MAX_NAMED);
    let mut there = there.join(", ");
    if more > 0 {
        there += &format!(" and {more} more");
    }
    there
}

/// The request with this id: a trace id means its first request; a span id may follow behind a `/`; and if several services gave a
/// request the same identity, its number among them, from 1 on, behind another `/`. An id may be cut to its first digits. Where no trace begins
/// with the digits, a span's id counts too, and then any part of an id.
///
/// # Errors
/// When no request has it, or several traces or spans begin with these digits.
pub fn find_request(traced: &Traced, id: &str) -> Result<RequestIndex, RequestsError> {
    match by_trace(traced, id) {
        Err(RequestsError::NoId(_)) if !id.contains('/') => by_part(traced, id),
        found => found,
    }
}

/// The request with an id that has these digits somewhere.
fn by_part(traced: &Traced, digits: &str) -> Result<RequestIndex, RequestsError> {
    let digits = digits.to_ascii_lowercase();
    let spans = || traced.spans.iter();
    let meant = |has: &dyn Fn(&str) -> bool| {
        let by_span = spans().filter(|(_, span)| has(&span.id.to_string()));
        let mut requests: Vec<_> = by_span.map(|(index, _)| traced.requests.containing(index)).collect();
        let mut traces: Vec<_> =
            spans().filter(|(_, span)| has(&span.trace.to_string())).map(|(_, span)| span.trace).collect();
        traces.sort_unstable();
        traces.dedup();
        requests.extend(traces.iter().filter_map(|trace| by_trace(traced, &trace.to_string()).ok()));
        requests.sort_unstable();
        requests.dedup();
        requests
    };
    let mut requests = meant(&|id| id.starts_with(&digits));
    if requests.is_empty() {
        requests = meant(&|id| id.contains(&digits));
    }
    match requests[..] {
        [] => Err(RequestsError::NoId(digits)),
        [request] => Ok(request),
        _ => Err(RequestsError::SeveralParts { count: requests.len(), asked: digits }),
    }
}

fn by_trace(traced: &Traced, id: &str) -> Result<RequestIndex, RequestsError> {
    const MIN_DIGITS: usize = 4;
    let ill_formed = || RequestsError::IllFormed(id.to_owned());
    let none = || RequestsError::NoId(id.to_owned());
    let mut parts = id.splitn(3, '/');
    let (trace, span, place) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
    let is_long = |digits: &str| digits.len() >= MIN_DIGITS;
    // A whole id has any number of digits: Jaeger writes no leading zeros.
    let with_trace = |id: TraceId| traced.requests.spans_in_traces(&traced.spans, &(id..=id));
    let whole = TraceId::from_hex(trace).map(with_trace).filter(|spans| !spans.is_empty());
    let of_traces: Vec<SpanIndex> = match whole {
        Some(spans) => spans.to_vec(),
        None => beginning_with(traced, trace).filter(|_| is_long(trace)).ok_or_else(ill_formed)?,
    };
    let id_is = |index: &SpanIndex, id: SpanId| traced.spans.span(*index).id == id;
    let ids = |span: &str| {
        let whole = SpanId::from_hex(span).filter(|id| of_traces.iter().any(|index| id_is(index, *id)));
        let beginning = || SpanId::beginning_with(span).filter(|_| is_long(span));
        whole.map(|id| id..=id).or_else(beginning).ok_or_else(ill_formed)
    };
    let ids = span.map(ids).transpose()?;
    let place: Option<usize> = place.map(|place| place.parse().map_err(|_| ill_formed())).transpose()?;
    let is_meant = |found: SpanId| ids.as_ref().is_none_or(|ids| ids.contains(&found));
    let of_traces = of_traces.iter();
    let found: Vec<_> = of_traces.copied().filter(|&index| is_meant(traced.spans.span(index).id)).collect();
    // They are sorted by trace, and then by id.
    let trace_of = |index: &SpanIndex| traced.spans.span(*index).trace;
    let count = found.chunk_by(|a, b| trace_of(a) == trace_of(b)).count();
    if count > 1 {
        return Err(RequestsError::Several { asked: trace.to_ascii_lowercase(), count });
    }
    let mut requests: Vec<_> = found.iter().map(|&index| traced.requests.containing(index)).collect();
    let Some(asked) = span else {
        // A trace means its first request; if that is not known, the longest.
        let first = requests.into_iter().min_by_key(|request| {
            let has_parent = traced.requests.parent(*request).is_some();
            (has_parent, Reverse(traced.root(*request).length_ns()), *request)
        });
        return first.ok_or_else(none);
    };
    requests.sort_unstable();
    requests.dedup();
    let id_of = |index: &SpanIndex| traced.spans.span(*index).id;
    let count = found.chunk_by(|a, b| id_of(a) == id_of(b)).count();
    if count > 1 && requests.len() > 1 {
        return Err(RequestsError::SeveralSpans { asked: asked.to_ascii_lowercase(), count });
    }
    // Another service's span may have the same id: a caller's span shared with the request that answers.
    let is_root = |request: &RequestIndex| found.contains(&traced.request(*request).root);
    if requests.iter().any(is_root) {
        requests.retain(is_root);
    }
    match (place, requests.as_slice()) {
        (None, [] | [_]) => requests.first().copied().ok_or_else(none),
        (None, several) => Err(several_services(traced, several)),
        (Some(place), requests) => {
            place.checked_sub(1).and_then(|place| requests.get(place)).copied().ok_or_else(none)
        }
    }
}

/// The spans in traces whose ids begin with these digits, also if their upper 64 bits are zero and not written; sorted by
/// trace and id. `None` for other digits.
fn beginning_with(traced: &Traced, digits: &str) -> Option<Vec<SpanIndex>> {
    let traces = TraceId::beginning_with(digits)?;
    let spans_in = |traces| traced.requests.spans_in_traces(&traced.spans, traces).iter().copied();
    let short = SpanId::beginning_with(digits).map(|low| lower(*low.start())..=lower(*low.end()));
    let short = short.iter().flat_map(spans_in);
    let short = short.filter(|span| !traces.contains(&traced.spans.span(*span).trace));
    let mut spans: Vec<_> = short.chain(spans_in(&traces)).collect();
    spans.sort_by_key(|span| (traced.spans.span(*span).trace, traced.spans.span(*span).id, *span));
    Some(spans)
}

/// The trace id with these lower 64 bits, all others being zero.
fn lower(bits: SpanId) -> TraceId {
    let mut id = [0; 16];
    id[8..].copy_from_slice(&bits.0);
    TraceId(id)
}

/// An error listing some of these requests with the same identity, each with its id.
fn several_services(traced: &Traced, requests: &[RequestIndex]) -> RequestsError {
    let root = traced.root(requests[0]);
    let asked = format!("{}/{}", root.trace, root.id);
    let one = |(place, request): (usize, &RequestIndex)| {
        format!("`{asked}/{place}` of `{}`", traced.operation(*request).service)
    };
    let mut there: Vec<_> = (1..).zip(requests).take(MAX_NAMED).map(one).collect();
    let more = requests.len() - there.len();
    there.extend((more > 0).then(|| format!("{more} more")));
    RequestsError::SeveralServices { asked, count: requests.len(), there: there.join(", ") }
}

/// An id by which [`find_request`] finds a request.
pub fn request_id(traced: &Traced, request: RequestIndex) -> String {
    /// The number of a trace id's digits that usually find it again.
    const ID_DIGITS: usize = 16;
    let root = traced.root(request);
    let trace = root.trace.to_string();
    // Jaeger writes the lower half alone if the upper half is zero. Others may begin with the same digits.
    let (upper, lower) = trace.split_at(ID_DIGITS);
    let short = if upper.bytes().all(|digit| digit == b'0') { lower } else { upper };
    let is_of_trace = |found| traced.root(found).trace == root.trace;
    let trace = if find_request(traced, short).is_ok_and(is_of_trace) { short } else { &trace };
    let of_span = format!("{trace}/{}", root.id);
    let finds = |id: &str| find_request(traced, id) == Ok(request);
    if finds(trace) {
        return trace.to_owned();
    }
    let of_several = (1..).map(|place| format!("{of_span}/{place}"));
    let mut of_several = of_several.take_while(|id| find_request(traced, id).is_ok());
    if finds(&of_span) { of_span } else { of_several.find(|id| finds(id)).unwrap_or(of_span) }
}
