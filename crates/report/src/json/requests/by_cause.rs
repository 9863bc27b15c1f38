//! The slowest requests by cause, as JSON: `wakepath.requests/1`, and without a recording `wakepath.requests_alone/1`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;
use wakepath_engine::requests::{BlockerOf, ByCauseAnswer, CauseGroup, OperationIndex, RequestCause, Traced};

use super::clock::{SpanClockJson, span_clocks};
use super::group::reasons;
use super::left_out::LeftOutJson;
use super::{NameJson, Named, SCHEMA, alone};
use crate::escape::escape;
use crate::json::head::HeadJson;
use crate::json::path::{HeadlineJson, share};
use crate::json::write;
use crate::text::{NextStep, by_cause_sentence, cause_words};
use crate::wording;

/// Writes the document; `named` are the words that name the inputs in a command.
pub fn requests_by_cause(answer: &ByCauseAnswer, named: Named<'_>, out: &mut dyn Write) -> io::Result<()> {
    match &answer.head {
        Some(head) => {
            let span_clocks = span_clocks(head, answer.traced, &answer.clocks);
            let body = BodyJson::new(answer, named);
            write(out, &ByCauseJson { head: HeadJson::new(SCHEMA, head), span_clocks, body })
        }
        None => write(out, &AloneJson { schema: alone::SCHEMA, body: BodyJson::new(answer, named) }),
    }
}

#[derive(Serialize)]
struct ByCauseJson<'a> {
    #[serde(flatten)]
    head: HeadJson,
    span_clocks: Vec<SpanClockJson<'a>>,
    #[serde(flatten)]
    body: BodyJson<'a>,
}

#[derive(Serialize)]
struct AloneJson<'a> {
    schema: &'static str,
    #[serde(flatten)]
    body: BodyJson<'a>,
}

#[derive(Serialize)]
struct BodyJson<'a> {
    /// All requests in question.
    count: usize,
    /// The slowest of these, in the groups.
    explained: usize,
    /// The explained requests whose cause is by spans alone, and their reasons; 0 without a recording.
    without_path: u64,
    no_path: BTreeMap<&'static str, u64>,
    #[serde(flatten)]
    left_out: LeftOutJson,
    /// About the first group; null without requests.
    headline: Option<HeadlineJson>,
    /// The first group's slowest request.
    next: Option<Vec<String>>,
    groups: Vec<GroupJson<'a>>,
}

#[derive(Serialize)]
struct GroupJson<'a> {
    code: &'static str,
    text: String,
    /// The way in which the cause is known.
    by: &'static str,
    /// Whether the requests are from another time than the recording.
    outside: bool,
    count: usize,
    /// The requests' time.
    total_ns: u64,
    /// The part due to the cause.
    cause_ns: u64,
    share: f64,
    /// Null without length.
    basis: Option<&'static str>,
    /// The blocking operation; null for other causes.
    blocked_by: Option<BlockerJson<'a>>,
    /// The called operation for which the paths waited more than half of their time; null if none is known.
    called: Option<CalledJson<'a>>,
    /// The operation with the most own time by spans; null with a path.
    span: Option<NameJson<'a>>,
    operations: Vec<OperationJson<'a>>,
    /// The slowest first.
    requests: Vec<RequestJson<'a>>,
}

/// Service and operation as for a blocking request: both null if not known.
#[derive(Serialize)]
struct BlockerJson<'a> {
    service: Option<Cow<'a, str>>,
    operation: Option<&'a str>,
    /// Whether the traces are sampled.
    sampled: bool,
}

#[derive(Serialize)]
struct CalledJson<'a> {
    #[serde(flatten)]
    name: NameJson<'a>,
    total_ns: u64,
}

#[derive(Serialize)]
struct OperationJson<'a> {
    #[serde(flatten)]
    name: NameJson<'a>,
    count: u64,
}

#[derive(Serialize)]
struct RequestJson<'a> {
    trace_id: String,
    span_id: String,
    #[serde(flatten)]
    name: NameJson<'a>,
    total_ns: u64,
}

impl<'a> BodyJson<'a> {
    fn new(answer: &'a ByCauseAnswer<'_>, named: Named<'_>) -> Self {
        let first = answer.groups.first();
        Self {
            count: answer.all,
            explained: answer.explained,
            without_path: answer.without_path.total(),
            no_path: reasons(&answer.without_path),
            left_out: LeftOutJson::new(answer.traced),
            headline: first.map(|group| headline(answer, group)),
            next: first.and_then(|group| named.command(NextStep::request(answer.traced, group.slowest()))),
            groups: answer.groups.iter().map(|group| GroupJson::new(answer, group)).collect(),
        }
    }
}

fn headline(answer: &ByCauseAnswer<'_>, group: &CauseGroup<'_>) -> HeadlineJson {
    HeadlineJson {
        code: cause_words(answer, group).0,
        text: by_cause_sentence(answer, group).into_plain(),
        row: None,
        is_most: group.is_most(),
        total_ns: group.cause_ns,
        share: share(group.cause_ns, group.total_ns),
        basis: basis(group),
        who: None,
        through: None,
        other_reading: None,
    }
}

fn basis(group: &CauseGroup<'_>) -> Option<&'static str> {
    (group.cause != RequestCause::Empty).then(|| wording::certainty_code(group.certainty()))
}

impl<'a> GroupJson<'a> {
    fn new(answer: &'a ByCauseAnswer<'_>, group: &'a CauseGroup<'_>) -> Self {
        let traced: &Traced = answer.traced;
        let name = |operation: OperationIndex| NameJson::for_operation(traced, operation);
        let (code, text) = cause_words(answer, group);
        let (blocked_by, called, span) = match &group.cause {
            RequestCause::Blocked(of) => (Some(BlockerJson::new(of)), None, None),
            RequestCause::Path { called, .. } => (None, *called, None),
            RequestCause::Spans { operation, .. } => (None, None, Some(name(*operation))),
            RequestCause::Empty => (None, None, None),
        };
        Self {
            code,
            text,
            by: match group.cause {
                RequestCause::Blocked(_) | RequestCause::Path { .. } => "path",
                RequestCause::Spans { .. } | RequestCause::Empty => "spans",
            },
            outside: group.cause.is_outside(),
            count: group.requests.len(),
            total_ns: group.total_ns,
            cause_ns: group.cause_ns,
            share: share(group.cause_ns, group.total_ns),
            basis: basis(group),
            blocked_by,
            called: called.map(|called| CalledJson { name: name(called), total_ns: group.called_ns }),
            span,
            operations: group
                .operations
                .iter()
                .map(|&(operation, count)| OperationJson { name: name(operation), count })
                .collect(),
            requests: group
                .requests
                .iter()
                .map(|&(request, total_ns)| {
                    let root = traced.root(request);
                    RequestJson {
                        trace_id: root.trace.to_string(),
                        span_id: root.id.to_string(),
                        name: name(root.operation),
                        total_ns,
                    }
                })
                .collect(),
        }
    }
}

impl<'a> BlockerJson<'a> {
    fn new(of: &'a BlockerOf) -> Self {
        match of {
            BlockerOf::Operation(operation) => Self {
                service: Some(Cow::Borrowed(&operation.service)),
                operation: Some(&operation.name),
                sampled: true,
            },
            BlockerOf::WithoutSpans { service, sampled } => Self {
                service: service.as_ref().map(|service| Cow::Owned(escape(service.bytes()))),
                operation: None,
                sampled: *sampled,
            },
        }
    }
}
