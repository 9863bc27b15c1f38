//! Many requests of one operation, as JSON: the keys of `path --call`, and beside them those of requests.

use std::io::{self, Write};

use serde::Serialize;
use wakepath_critical_path::Severity;
use wakepath_engine::requests::GroupAnswer;

use super::clock::{SpanClockJson, span_clocks};
use super::{Named, SCHEMA};
use crate::json::calls::{CallsJson, document};
use crate::json::write;
use crate::text::NextStep;

/// Writes the document of the requests of a peak, or of all beside those of another recording; `named` are the words that
/// name what was read in a command.
pub fn request_group(answer: &GroupAnswer, named: Named<'_>, out: &mut dyn Write) -> io::Result<()> {
    let longest = answer.explained.first().map(|&longest| NextStep::request(answer.traced, longest));
    let next = longest.and_then(|step| named.command(step));
    let mean = |ns: u64, count: u64| ns as f64 / count.max(1) as f64;
    let blocked_by = answer.blocked_by.iter().map(|one| BlockerJson {
        service: &one.operation.service,
        operation: &one.operation.name,
        asked_ns: mean(one.total_ns.asked, answer.paths.asked),
        usual_ns: mean(one.total_ns.usual, answer.paths.usual),
        asked_requests: one.blocked.asked,
        usual_requests: one.blocked.usual,
    });
    let requests = answer.explained.iter().map(|request| {
        let root = answer.traced.root(*request);
        IdJson { trace_id: root.trace.to_string(), span_id: root.id.to_string() }
    });
    let of_other = |head: &wakepath_engine::Head| {
        head.problems.iter().filter(|problem| problem.severity() > Severity::Note).count()
    };
    let group = GroupJson {
        calls: document(&answer.calls, SCHEMA, next),
        requests: requests.collect(),
        asked_without_path: answer.without_path.asked,
        usual_without_path: answer.without_path.usual,
        blocked_by: blocked_by.collect(),
        span_clocks: span_clocks(&answer.calls.head, answer.traced, &answer.clocks),
        other_warnings: answer.other.as_ref().map(of_other),
    };
    write(out, &group)
}

#[derive(Serialize)]
struct GroupJson<'a> {
    #[serde(flatten)]
    calls: CallsJson,
    /// Those of `calls`, in the same order.
    requests: Vec<IdJson>,
    asked_without_path: u64,
    usual_without_path: u64,
    blocked_by: Vec<BlockerJson<'a>>,
    /// Those of their service.
    span_clocks: Vec<SpanClockJson<'a>>,
    /// Null without another recording.
    other_warnings: Option<usize>,
}

#[derive(Serialize)]
struct IdJson {
    trace_id: String,
    span_id: String,
}

#[derive(Serialize)]
struct BlockerJson<'a> {
    service: &'a str,
    operation: &'a str,
    asked_ns: f64,
    usual_ns: f64,
    asked_requests: u64,
    usual_requests: u64,
}
