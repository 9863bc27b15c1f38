//! Requests by their spans alone, as JSON: `wakepath.requests_alone/1`.

use std::io::{self, Write};

use serde::Serialize;
use wakepath_engine::requests::{AloneAnswer, OwnTime, RequestIndex, Traced, own_times_alone};

use super::left_out::LeftOutJson;
use super::{NameJson, OperationJson};
use crate::json::write;

pub(super) const SCHEMA: &str = "wakepath.requests_alone/1";

/// Writes the document about the answer's operations and these requests.
pub fn requests_alone(
    answer: &AloneAnswer<'_>,
    requests: &[RequestIndex],
    out: &mut dyn Write,
) -> io::Result<()> {
    let traced = answer.traced;
    let document = AloneJson {
        schema: SCHEMA,
        spans: traced.spans.spans.len(),
        left_out: LeftOutJson::new(traced),
        operations: answer.operations.iter().map(|one| OperationJson::new(traced, one)).collect(),
        requests: requests.iter().map(|&request| RequestJson::new(traced, request)).collect(),
    };
    write(out, &document)
}

#[derive(Serialize)]
struct AloneJson<'a> {
    schema: &'static str,
    spans: usize,
    #[serde(flatten)]
    left_out: LeftOutJson,
    operations: Vec<OperationJson<'a>>,
    requests: Vec<RequestJson<'a>>,
}

#[derive(Serialize)]
struct RequestJson<'a> {
    trace_id: String,
    span_id: String,
    #[serde(flatten)]
    name: NameJson<'a>,
    /// Since 1970, decimal.
    from_realtime_ns: String,
    total_ns: u64,
    failed: bool,
    /// They add up to the request's time.
    own_times: Vec<OwnTimeJson<'a>>,
}

#[derive(Serialize)]
struct OwnTimeJson<'a> {
    #[serde(flatten)]
    name: NameJson<'a>,
    spans: u64,
    total_ns: u64,
    /// Spans say how long, never for what.
    basis: &'static str,
}

impl<'a> RequestJson<'a> {
    fn new(traced: &'a Traced, request: RequestIndex) -> Self {
        let root = traced.root(request);
        let own_time = |own: &OwnTime| OwnTimeJson {
            name: NameJson::for_operation(traced, own.operation),
            spans: own.spans,
            total_ns: own.total_ns,
            basis: "inferred",
        };
        Self {
            trace_id: root.trace.to_string(),
            span_id: root.id.to_string(),
            name: NameJson::for_operation(traced, root.operation),
            from_realtime_ns: root.from.ns().to_string(),
            total_ns: root.length_ns(),
            failed: root.failed,
            own_times: own_times_alone(traced, request).iter().map(own_time).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use wakepath_engine::requests as engine;

    use super::*;
    use crate::json::shape;

    #[test]
    fn spans_alone_give_each_request_its_own_times() {
        let span = |id: char, parent: &str, name: &str, (from, to): (u64, u64)| {
            format!(
                r#"{{"traceId": "{0}", "spanId": "{1}", "parentSpanId": "{parent}", "name": "{name}",
                "startTimeUnixNano": "{from}", "endTimeUnixNano": "{to}"}}"#,
                "a".repeat(32),
                id.to_string().repeat(16),
            )
        };
        let spans = [
            span('b', "", "GET /cart", (1_000, 1_600)),
            span('c', &"b".repeat(16), "SELECT", (1_100, 1_500)),
        ];
        let file =
            format!(r#"{{"resourceSpans": [{{"scopeSpans": [{{"spans": [{}]}}]}}]}}"#, spans.join(","));
        let (spans, dropped) = engine::read_spans(&file.into()).expect("spans");
        let traced = Traced::new(spans, dropped);
        let answer = engine::requests_alone(&traced, &engine::RequestsQuery::default()).expect("a request");
        let contract = include_str!("../../../contract/requests_alone.txt");
        let document = shape::document(contract, |out| requests_alone(&answer, &answer.requests, out));
        let request = &document["requests"][0];
        assert_eq!((&request["from_realtime_ns"], &request["total_ns"]), (&"1000".into(), &600.into()));
        let own: Vec<_> = request["own_times"].as_array().expect("a list").iter().collect();
        let name_and_time = |one: &serde_json::Value| (one["operation"].clone(), one["total_ns"].clone());
        let own: Vec<_> = own.into_iter().map(name_and_time).collect();
        assert_eq!(own, [("SELECT".into(), 400.into()), ("GET /cart".into(), 200.into())]);
        assert_eq!(document["operations"][0]["max_ns"], 600);
    }
}
