//! The requests that a question is about: by service and operation, or by an id.

use std::cmp::Reverse;

use wakepath_spans::{OperationIndex, RequestIndex, SpanId, TraceId};

use super::{RequestsError, RequestsQuery, Traced};

impl Traced {
    /// The requests that a query is about, the longest first.
    pub(super) fn matching(&self, query: &RequestsQuery) -> Result<Vec<RequestIndex>, RequestsError> {
        if self.requests.requests.is_empty() {
            return Err(RequestsError::NoSpans);
        }
        let fits = |wanted: &Option<String>, name: &str| wanted.as_ref().is_none_or(|wanted| wanted == name);
        let is_meant: Vec<bool> = self
            .spans
            .operations
            .iter()
            .map(|one| fits(&query.service, &one.service) && fits(&query.operation, &one.name))
            .collect();
        let all = (0..self.requests.requests.len() as u32).map(RequestIndex);
        let mut requests: Vec<_> =
            all.filter(|request| is_meant[self.root(*request).operation.0 as usize]).collect();
        if requests.is_empty() {
            return Err(self.none_so(query));
        }
        requests.sort_by_key(|request| (Reverse(self.root(*request).length_ns()), *request));
        Ok(requests)
    }

    /// The requests that a query is about, where all are of one operation; the longest first.
    pub(super) fn of_one_operation(&self, query: &RequestsQuery) -> Result<Vec<RequestIndex>, RequestsError> {
        let requests = self.matching(query)?;
        let operation = |request: &RequestIndex| self.root(*request).operation;
        match requests.iter().all(|request| operation(request) == operation(&requests[0])) {
            true => Ok(requests),
            false => {
                Err(RequestsError::SeveralOperations { there: self.named(requests.iter().map(operation)) })
            }
        }
    }

    fn none_so(&self, query: &RequestsQuery) -> RequestsError {
        let asked = [("to ", &query.service), ("of ", &query.operation)];
        let asked: Vec<_> =
            asked.iter().filter_map(|(word, name)| Some(format!("{word}`{}`", name.as_ref()?))).collect();
        RequestsError::NoneSo { asked: asked.join(" and "), there: self.there() }
    }

    /// The operations of all requests, as text.
    pub(crate) fn there(&self) -> String {
        let requests = (0..self.requests.requests.len() as u32).map(RequestIndex);
        self.named(requests.map(|request| self.root(request).operation))
    }

    fn named(&self, operations: impl Iterator<Item = OperationIndex>) -> String {
        let mut there: Vec<OperationIndex> = operations.collect();
        there.sort_unstable();
        there.dedup();
        let mut there: Vec<_> = there
            .into_iter()
            .map(|operation| &self.spans.operations[operation.0 as usize])
            .map(|operation| format!("`{}` of `{}`", operation.name, operation.service))
            .collect();
        there.sort();
        const MAX_NAMED: usize = 8;
        let more = there.len().saturating_sub(MAX_NAMED);
        there.truncate(MAX_NAMED);
        let mut there = there.join(", ");
        if more > 0 {
            there += &format!(" and {more} more");
        }
        there
    }

    /// The request with this id: of a trace its first one, or behind a `/` that of a span. The digits may be the first
    /// ones only.
    ///
    /// # Errors
    /// When none has it, or several traces begin so.
    pub fn find(&self, id: &str) -> Result<RequestIndex, RequestsError> {
        const MIN_DIGITS: usize = 4;
        let (trace, span) = id.split_once('/').map_or((id, None), |(trace, span)| (trace, Some(span)));
        let ill_formed = || RequestsError::IllFormed(id.to_owned());
        let is_long = |digits: &str| digits.len() >= MIN_DIGITS;
        let traces = TraceId::beginning_with(trace).filter(|_| is_long(trace)).ok_or_else(ill_formed)?;
        let ids = span
            .map(|span| SpanId::beginning_with(span).filter(|_| is_long(span)).ok_or_else(ill_formed))
            .transpose()?;
        let is_meant = |found: SpanId| ids.as_ref().is_none_or(|ids| ids.contains(&found));
        let found: Vec<_> = self
            .requests
            .of_traces(&self.spans, &traces)
            .iter()
            .map(|&index| (self.spans.span(index), index))
            .filter(|(one, _)| is_meant(one.id))
            .map(|(one, index)| (one.trace, self.requests.of_span(index)))
            .collect();
        // They are in the order of their traces.
        let count = found.chunk_by(|a, b| a.0 == b.0).count();
        if count > 1 {
            return Err(RequestsError::Several { asked: trace.to_ascii_lowercase(), count });
        }
        // A trace means the request that it began with; where that is not known, the longest.
        let first = found.into_iter().map(|(_, request)| request).min_by_key(|request| {
            let has_parent = span.is_none() && self.requests.parent(*request).is_some();
            (has_parent, Reverse(self.root(*request).length_ns()), *request)
        });
        first.ok_or_else(|| RequestsError::NoId(id.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requests::read_spans;

    /// Spans by their ids: trace, span, parent, beginning; a later one is longer.
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
        let found = |id: &str| match traced.find(id) {
            Ok(request) => traced.root(request).from.ns().to_string(),
            Err(error) => error.to_string(),
        };
        let zeros = "0".repeat(30);
        for (id, expected) in [
            // Not the first in time, which is a part of another one; and the longest of those that are none.
            (one.as_str(), "11"),
            (&one[..5], "11"),
            (&one.to_uppercase()[..6], "11"),
            (&(one.clone() + "/1111222233335555"), "40"),
            ("ababa/11112222333355", "40"),
            // A span of a part of a request means that part.
            ("ababa/1111", "40"),
            ("ababa/1111222233334", "10"),
            (&two, "6"),
            (&two[..5], "6"),
            ("abab", "2 traces have ids that begin with `abab`"),
            ("ABAB", "2 traces have ids that begin with `abab`"),
            // One of them alone has such a span.
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
}
