//! The requests for a question: by service and operation, or by an id.

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
/// request the same identity, its number among them, from 1 on, behind another `/`. An id may be cut to its first digits.
///
/// # Errors
/// When no request has it, or several traces or spans begin with these digits.
pub fn find_request(traced: &Traced, id: &str) -> Result<RequestIndex, RequestsError> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requests::read_spans;

    /// Spans by their ids: trace, span, parent, beginning; a later span is longer.
    fn traced(spans: &[(&str, &str, &str, u64)]) -> Traced {
        let spans: Vec<_> = spans
            .iter()
            .map(|(trace, id, parent, from)| {
                format!(
                    r#"{{"traceId": "{trace:0>32}", "spanId": "{id:0>16}", "parentSpanId": "{parent}", "kind": 2,
                    "startTimeUnixNano": {from}, "endTimeUnixNano": {}}}"#,
                    100 + 2 * from
                )
            })
            .collect();
        let file =
            format!(r#"{{"resourceSpans": [{{"scopeSpans": [{{"spans": [{}]}}]}}]}}"#, spans.join(","));
        let (spans, dropped) = read_spans(&file.into()).expect("spans");
        Traced::new(spans, dropped)
    }

    #[test]
    fn an_id_or_its_first_digits_mean_the_request_that_a_trace_began_with() {
        let [one, two, three] = ["ab".repeat(16), "abab".to_owned() + &"cd".repeat(14), "ffff".repeat(8)];
        let traced = traced(&[
            (&one, "1111222233334444", "", 10),
            (&one, "1111222233335555", "1111222233334444", 40),
            (&one, "1111222233336666", "", 11),
            (&two, "2222", "", 6),
            (&three, "ffffffffffffffff", "", 7),
            ("ee", "3333", "", 8),
        ]);
        let found = |id: &str| match find_request(&traced, id) {
            Ok(request) => traced.root(request).from.ns().to_string(),
            Err(error) => error.to_string(),
        };
        let zeros = "0".repeat(30);
        for (id, expected) in [
            // Not the first in time, which is a part of another request; and the longest of the others.
            (one.as_str(), "11"),
            (&one[..5], "11"),
            (&one.to_uppercase()[..6], "11"),
            (&(one.clone() + "/1111222233335555"), "40"),
            ("ababa/11112222333355", "40"),
            // A part's span means the part.
            ("ababa/1111222233335", "40"),
            ("ababa/1111", "3 spans of this trace have ids that begin with `1111`"),
            ("ababa/111122223333", "3 spans of this trace have ids that begin with `111122223333`"),
            ("ababa/1111222233334", "10"),
            (&two, "6"),
            (&two[..5], "6"),
            ("abab", "2 traces have ids that begin with `abab`"),
            ("ABAB", "2 traces have ids that begin with `abab`"),
            // Only one trace has this span.
            ("abab/0000000000002222", "6"),
            (&three, "7"),
            ("ffff/ffff", "7"),
            ("ffff/fffe", "no request has the id `ffff/fffe`"),
            (&format!("{zeros}ee"), "8"),
            (&zeros, "8"),
            ("abad", "no request has the id `abad`"),
        ] {
            assert_eq!(found(id), expected, "{id}");
        }
        let long = "a".repeat(33);
        for id in ["aba", "abab/111", "abab/", "", "/", "abag", long.as_str(), "abab/11112222333344445"] {
            assert!(found(id).starts_with(&format!("`{id}` is no id")), "{id}: {}", found(id));
        }
    }

    #[test]
    fn an_id_of_64_bits_is_printed_as_jaeger_prints_it_and_found_in_each_way_to_write_it() {
        let other = "0abc7dbc6d6cfeb6".repeat(2);
        let traced =
            traced(&[("abc7dbc6d6cfeb6", "2222", "", 6), (&other, "3333", "", 7), ("1f", "4444", "", 8)]);
        let found = |id: &str| match find_request(&traced, id) {
            Ok(request) => traced.root(request).from.ns().to_string(),
            Err(error) => error.to_string(),
        };
        let padded = format!("{:0>32}", "abc7dbc6d6cfeb6");
        for (id, expected) in [
            ("abc7dbc6d6cfeb6", "6"),
            // A whole id, and the beginning of another.
            ("0abc7dbc6d6cfeb6", "6"),
            ("0ABC7DBC6D6CFEB6", "6"),
            (&padded, "6"),
            ("0abc7dbc6d6cfeb6/2222", "6"),
            (&other, "7"),
            ("0abc7dbc6d6cfeb60", "7"),
            ("0abc", "2 traces have ids that begin with `0abc`"),
            ("1f", "8"),
            ("000000000000001F", "8"),
            (
                "1e",
                "`1e` is no id: write 4 to 32 hex digits of a trace, and behind a `/` those of a span, if it is not the first",
            ),
        ] {
            assert_eq!(found(id), expected, "{id}");
        }
        let ids: Vec<_> = (0..3).map(|request| request_id(&traced, RequestIndex(request))).collect();
        assert_eq!(ids, ["0abc7dbc6d6cfeb6", other.as_str(), "000000000000001f"]);
        for (request, id) in (0..).map(RequestIndex).zip(&ids) {
            assert_eq!(find_request(&traced, id), Ok(request), "{id}");
        }
    }

    /// The services `a` to `c`, and their spans by service number, id, parent, kind and length: all in the same trace.
    fn traced_services(spans: &[(usize, &str, &str, u64, u64)]) -> Traced {
        let of_service = |service: usize| {
            let own = spans.iter().filter(|(of, ..)| *of == service);
            let own: Vec<_> = own
                .map(|(_, id, parent, kind, length)| {
                    format!(
                        r#"{{"traceId": "77770000000000000000000000000000", "spanId": "{id:0<16}", "parentSpanId": "{parent:0<16}",
                        "kind": {kind}, "startTimeUnixNano": 100, "endTimeUnixNano": {}}}"#,
                        100 + length
                    )
                })
                .collect();
            let name = ["a", "b", "c"][service];
            format!(
                r#"{{"resource": {{"attributes": [{{"key": "service.name", "value": {{"stringValue": "{name}"}}}}]}},
                "scopeSpans": [{{"spans": [{}]}}]}}"#,
                own.join(",")
            )
        };
        let services: Vec<_> = (0..3).map(of_service).collect();
        let (spans, dropped) =
            read_spans(&format!(r#"{{"resourceSpans": [{}]}}"#, services.join(",")).into()).expect("spans");
        Traced::new(spans, dropped)
    }

    #[test]
    fn each_of_several_requests_with_one_identity_can_be_asked_for() {
        let found = |traced: &Traced, id: &str| match find_request(traced, id) {
            Ok(request) => {
                format!("{} {}", traced.operation(request).service, traced.root(request).length_ns())
            }
            Err(error) => error.to_string(),
        };
        // Two services gave the same identity, and a third service's call shares the identity of the request that answers it.
        let (server, client) = (2, 3);
        let traced = traced_services(&[
            (0, "1111", "", server, 50),
            (1, "1111", "", server, 30),
            (0, "22223", "1111", client, 20),
            (2, "22223", "1111", server, 10),
            (0, "22224", "1111", client, 5),
        ]);
        let trace = "7777";
        let several = "2 services have a request with the id `77770000000000000000000000000000/1111000000000000`: \
                       `77770000000000000000000000000000/1111000000000000/1` of `a`, \
                       `77770000000000000000000000000000/1111000000000000/2` of `b`";
        for (id, expected) in [
            ("", "a 50"),
            ("/1111", several),
            ("/1111000000000000", several),
            ("/1111/1", "a 50"),
            ("/1111/2", "b 30"),
            ("/1111/3", "no request has the id `7777/1111/3`"),
            ("/1111/0", "no request has the id `7777/1111/0`"),
            ("/22223", "c 10"),
            ("/22223/1", "c 10"),
            ("/22223/2", "no request has the id `7777/22223/2`"),
            ("/22224", "a 50"),
            ("/2222", "2 spans of this trace have ids that begin with `2222`"),
        ] {
            assert_eq!(found(&traced, &format!("{trace}{id}")), expected, "{id}");
        }
        for id in ["7777/1111/", "7777/1111/x", "7777/1111/-1", "7777/1111/1/1", "7777//1"] {
            assert!(found(&traced, id).starts_with(&format!("`{id}` is no id")), "{id}");
        }
        for request in (0..traced.requests.requests.len() as u32).map(RequestIndex) {
            let id = request_id(&traced, request);
            assert_eq!(find_request(&traced, &id), Ok(request), "{id}");
        }
        let ids: Vec<_> = (0..3).map(|request| request_id(&traced, RequestIndex(request))).collect();
        let [of_a, of_b] = ["7777000000000000", "7777000000000000/1111000000000000/2"];
        assert_eq!(ids, [of_a, of_b, "7777000000000000/2222300000000000"]);
        // All the given digits belong to the same request's spans.
        let one = traced_services(&[(0, "1111", "", server, 50), (0, "1112", "1111", client, 20)]);
        assert_eq!(found(&one, "7777/1110"), "no request has the id `7777/1110`");
        assert_eq!(found(&one, "7777/1111"), "a 50");
        let many = traced_services(&[(0, "33331", "", server, 50), (0, "33332", "33331", client, 20)]);
        assert_eq!(found(&many, "7777/3333"), "a 50");
    }
}
