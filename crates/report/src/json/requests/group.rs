//! Many requests with the same operation, as JSON: the keys of `path --call`, and request keys beside them.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;
use wakepath_engine::requests::{Blocker, BlockerOf, GroupAnswer, WithoutPath};

use super::clock::{SpanClockJson, span_clocks};
use super::left_out::LeftOutJson;
use super::{Named, SCHEMA};
use crate::escape::escape;
use crate::json::calls::{CallsJson, document};
use crate::json::write;
use crate::text::{NextStep, other_warnings};

/// Writes the document about a peak's requests, or about all requests compared with another recording's; `named`
/// are the words that name the inputs in a command.
pub fn request_group(answer: &GroupAnswer, named: Named<'_>, out: &mut dyn Write) -> io::Result<()> {
    let longest = answer.explained.first().map(|&longest| NextStep::request(answer.traced, longest));
    let next = longest.and_then(|step| named.command(step));
    let mut blocked_by = Vec::new();
    let mut blocked_by_missing = Vec::new();
    for one in &answer.blocked_by {
        let sums = BlockedJson::new(answer, one);
        match &one.of {
            BlockerOf::Operation(operation) => {
                blocked_by.push(BlockerJson {
                    service: &operation.service,
                    operation: &operation.name,
                    sums,
                });
            }
            BlockerOf::WithoutSpans { service, sampled } => {
                let service = service.as_ref().map(|service| escape(service.bytes()));
                blocked_by_missing.push(MissingBlockerJson { service, sampled: *sampled, sums });
            }
        }
    }
    let requests = answer.explained.iter().map(|request| {
        let root = answer.traced.root(*request);
        IdJson { trace_id: root.trace.to_string(), span_id: root.id.to_string() }
    });
    let group = GroupJson {
        calls: document(&answer.calls, SCHEMA, next),
        requests: requests.collect(),
        asked_without_path: answer.without_path.asked.total(),
        usual_without_path: answer.without_path.usual.total(),
        asked_no_path: reasons(&answer.without_path.asked),
        usual_no_path: reasons(&answer.without_path.usual),
        blocked_by,
        blocked_by_missing,
        left_out: LeftOutJson::new(answer.traced),
        span_clocks: span_clocks(&answer.calls.head, answer.traced, &answer.clocks),
        other_warnings: answer.other.as_ref().map(|_| other_warnings(answer)),
    };
    write(out, &group)
}

#[derive(Serialize)]
struct GroupJson<'a> {
    #[serde(flatten)]
    calls: CallsJson,
    /// The ids for `calls`, in the same order.
    requests: Vec<IdJson>,
    asked_without_path: u64,
    usual_without_path: u64,
    /// These numbers by reason.
    asked_no_path: BTreeMap<&'static str, u64>,
    usual_no_path: BTreeMap<&'static str, u64>,
    blocked_by: Vec<BlockerJson<'a>>,
    blocked_by_missing: Vec<MissingBlockerJson>,
    #[serde(flatten)]
    left_out: LeftOutJson,
    /// The span clocks of their service.
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
    #[serde(flatten)]
    sums: BlockedJson,
}

/// Blocking requests whose spans are not among the spans.
#[derive(Serialize)]
struct MissingBlockerJson {
    /// Their process's service, if all state the same in their memory.
    service: Option<String>,
    sampled: bool,
    #[serde(flatten)]
    sums: BlockedJson,
}

#[derive(Serialize)]
struct BlockedJson {
    asked_ns: f64,
    usual_ns: f64,
    asked_requests: u64,
    usual_requests: u64,
}

impl BlockedJson {
    fn new(answer: &GroupAnswer, one: &Blocker) -> Self {
        let mean = |ns: u64, count: u64| ns as f64 / count.max(1) as f64;
        Self {
            asked_ns: mean(one.total_ns.asked, answer.paths.asked),
            usual_ns: mean(one.total_ns.usual, answer.paths.usual),
            asked_requests: one.blocked.asked,
            usual_requests: one.blocked.usual,
        }
    }
}

pub(super) fn reasons(without: &WithoutPath) -> BTreeMap<&'static str, u64> {
    without.by_reason().into_iter().map(|(why, count)| (why.name(), count)).collect()
}
