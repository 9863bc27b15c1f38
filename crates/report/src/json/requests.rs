//! Requests, as JSON: `wakepath.requests/1`.

mod alone;
mod by_cause;
mod called;
mod clock;
mod group;
mod headline;
mod left_out;
#[cfg(test)]
mod values;

use std::borrow::Cow;
use std::io::{self, Write};

use serde::Serialize;
use wakepath_engine::Head;
use wakepath_engine::requests::{
    BlockingRequest, JoinedBy, OperationAnswer, OperationIndex, RequestAnswer, RequestIndex, RequestsAnswer,
    SaidAttribute, SpanIndex, SpanTime, StateSum, Traced,
};
use wakepath_event::HostIndex;

use super::goroutine::GoroutineJson;
use super::head::{HeadJson, since_origin};
use super::latency::{BucketJson, PeakJson, buckets, peaks};
use super::path::body;
use super::write;
use crate::escape::escape;
use called::CalledJson;
use clock::{SpanClockJson, span_clocks};
use left_out::LeftOutJson;

pub use alone::requests_alone;
pub use by_cause::requests_by_cause;
pub use group::request_group;
pub use headline::Named;

const SCHEMA: &str = "wakepath.requests/1";

/// Writes the document about all requests.
pub fn requests(answer: &RequestsAnswer, out: &mut dyn Write) -> io::Result<()> {
    let RequestsAnswer { head, traced, .. } = answer;
    let operations = answer.operations.iter().map(|one| OperationJson::new(traced, one));
    let requests = answer.requests.iter().map(|&request| {
        let (from, to) = answer.times(request);
        RequestJson::new(head, traced, request, (from, to), (answer.host(request), answer.joined_by(request)))
    });
    let document = RequestsJson {
        head: HeadJson::new(SCHEMA, head),
        spans: traced.spans.spans.len(),
        left_out: LeftOutJson::new(traced),
        span_clocks: span_clocks(head, traced, &answer.contexts.clocks),
        operations: operations.collect(),
        requests: requests.collect(),
    };
    write(out, &document)
}

/// Writes the document about a single request; `named` are the words that name the inputs in a command.
pub fn request(answer: &RequestAnswer, named: Named<'_>, out: &mut dyn Write) -> io::Result<()> {
    let RequestAnswer { head, traced, request, from, to, .. } = answer;
    let spans = answer.by_span.iter().map(|part| SpanJson {
        name: NameJson::for_span(traced, part.span),
        host: host(head, part.host),
        span_id: traced.spans.span(part.span).id.to_string(),
        from_ns: part.from.since_origin(head.origin),
        to_ns: part.to.since_origin(head.origin),
    });
    let path = answer.path.as_ref();
    let blocked_by = path.iter().flat_map(|path| &path.blocked_by).map(|blocked| {
        let root = traced.root(blocked.request);
        BlockedByJson {
            trace_id: root.trace.to_string(),
            span_id: Some(root.id.to_string()),
            service: Some(Cow::Borrowed(&traced.operation(blocked.request).service)),
            operation: Some(&traced.operation(blocked.request).name),
            service_instance: None,
            attributes: Vec::new(),
            sampled: true,
            total_ns: blocked.total_ns,
            through: blocked.through.iter().map(|&(of, ns)| ThroughJson::new(traced, of, ns)).collect(),
            collection_ns: path.map_or(0, |path| path.collections_by(blocked.request).1),
        }
    });
    let by_missing = path.iter().flat_map(|path| &path.blocked_by_missing);
    let by_missing = by_missing.map(|blocked| {
        let mut services = blocked.services.iter();
        let only = services.next().filter(|_| services.next().is_none());
        let instance = only.and_then(|one| one.instance.as_ref());
        BlockedByJson {
            trace_id: blocked.trace.to_string(),
            span_id: None,
            service: only.map(|one| Cow::Owned(escape(one.name.bytes()))),
            operation: None,
            service_instance: instance.map(|instance| escape(instance.bytes())),
            attributes: blocked.attributes.iter().map(AttributeJson::new).collect(),
            sampled: blocked.sampled,
            total_ns: blocked.total_ns,
            through: Vec::new(),
            collection_ns: 0,
        }
    });
    let mut blocked_by: Vec<_> = blocked_by.chain(by_missing).collect();
    blocked_by.sort_by_key(|blocked| std::cmp::Reverse(blocked.total_ns));
    let pieces = path.iter().flat_map(|path| &path.pieces).map(|piece| {
        let root = piece.request.map(|request| traced.root(request));
        PieceJson {
            segment: piece.segment,
            from_ns: since_origin(head, piece.from),
            to_ns: since_origin(head, piece.to),
            trace_id: root.map(|root| root.trace).or(piece.missing).map(|trace| trace.to_string()),
            span_id: root.map(|root| root.id.to_string()),
            join: piece.by.name(),
            basis: match piece.by {
                JoinedBy::None => None,
                _ if piece.measured => Some("measured"),
                _ => Some("inferred"),
            },
            waits_for: piece.waits_for.iter().map(|&of| WaitsForJson::new(traced, of)).collect(),
        }
    });
    let states = match path {
        Ok(path) => path.states.iter().map(StateJson::new).collect(),
        // Nothing is known about the request's time.
        Err(_) => vec![StateJson { state: "unknown", total_ns: to.since(*from), measured_ns: 0 }],
    };
    let disk = path.ok().and_then(|path| path.disk).map(|disk| DiskJson {
        count: disk.count,
        open: disk.open,
        bytes: disk.bytes,
        total_ns: disk.total_ns,
    });
    let document = OneJson {
        head: HeadJson::new(SCHEMA, head),
        request: RequestJson::new(head, traced, *request, (*from, *to), (answer.host, answer.joined_by)),
        spans: spans.collect(),
        left_out: LeftOutJson::new(traced),
        blocked_by,
        perhaps_blocked_by: path
            .iter()
            .flat_map(|path| &path.perhaps_blocked_by)
            .map(|&(other, at_most_ns)| PerhapsBlockedByJson {
                trace_id: traced.root(other).trace.to_string(),
                span_id: traced.root(other).id.to_string(),
                name: NameJson::for_span(traced, traced.request(other).root),
                at_most_ns,
            })
            .collect(),
        called: path.iter().flat_map(|path| &path.called).map(|one| CalledJson::new(traced, one)).collect(),
        pieces: pieces.collect(),
        goroutine: path.ok().and_then(|path| GoroutineJson::new(traced, path.goroutine.as_ref()?)),
        states,
        before_span: answer.arrival.as_ref().map(|arrival| BeforeSpanJson {
            arrived_ns: since_origin(head, arrival.at),
            total_ns: from.since(arrival.at.into()),
            worked_for: arrival
                .worked_for
                .iter()
                .map(|&(request, total_ns)| WorkedForJson {
                    trace_id: traced.root(request).trace.to_string(),
                    span_id: traced.root(request).id.to_string(),
                    name: NameJson::for_span(traced, traced.request(request).root),
                    total_ns,
                })
                .collect(),
        }),
        disk,
        span_clocks: span_clocks(head, traced, &answer.clocks),
        no_path: path.err().map(|why| why.name()),
        screen: headline::first_screen(answer, named),
        path: path.ok().map(|path| body(&path.answer)),
    };
    write(out, &document)
}

#[derive(Serialize)]
struct RequestsJson<'a> {
    #[serde(flatten)]
    head: HeadJson,
    spans: usize,
    #[serde(flatten)]
    left_out: LeftOutJson,
    span_clocks: Vec<SpanClockJson<'a>>,
    operations: Vec<OperationJson<'a>>,
    requests: Vec<RequestJson<'a>>,
}

#[derive(Serialize)]
struct OneJson<'a, F: Serialize, P: Serialize> {
    #[serde(flatten)]
    head: HeadJson,
    request: RequestJson<'a>,
    /// The spans for which the request's end waited, by span times alone: they tile its time.
    spans: Vec<SpanJson<'a>>,
    #[serde(flatten)]
    left_out: LeftOutJson,
    blocked_by: Vec<BlockedByJson<'a>>,
    perhaps_blocked_by: Vec<PerhapsBlockedByJson<'a>>,
    /// Its called requests for which its path waited, each behind its caller.
    called: Vec<CalledJson<'a>>,
    /// The request for which each segment's thread worked: the pieces tile the path's window.
    pieces: Vec<PieceJson>,
    /// The states add up to the request's time.
    states: Vec<StateJson>,
    /// Null unless the request waited before its span.
    before_span: Option<BeforeSpanJson<'a>>,
    /// Null if disk accesses are not known.
    disk: Option<DiskJson>,
    /// The span clocks of its services.
    span_clocks: Vec<SpanClockJson<'a>>,
    /// The reason why there is no path; null with a path.
    no_path: Option<&'static str>,
    /// If a goroutine did its work.
    goroutine: Option<GoroutineJson<'a>>,
    #[serde(flatten)]
    screen: F,
    #[serde(flatten)]
    path: Option<P>,
}

#[derive(Serialize)]
struct NameJson<'a> {
    service: &'a str,
    operation: &'a str,
}

#[derive(Serialize)]
struct OperationJson<'a> {
    #[serde(flatten)]
    name: NameJson<'a>,
    count: u64,
    failed: u64,
    p50_ns: u64,
    p99_ns: u64,
    max_ns: u64,
    /// Decimal: it passes 2^53 after 104 days.
    sum: String,
    buckets: Vec<BucketJson>,
    peaks: Vec<PeakJson>,
}

#[derive(Serialize)]
struct RequestJson<'a> {
    trace_id: String,
    span_id: String,
    #[serde(flatten)]
    name: NameJson<'a>,
    from_ns: i64,
    to_ns: i64,
    failed: bool,
    /// Its host's boot id; null if not recorded.
    host: Option<&'a str>,
    /// The way in which its thread is known.
    join: &'static str,
}

#[derive(Serialize)]
struct SpanJson<'a> {
    span_id: String,
    #[serde(flatten)]
    name: NameJson<'a>,
    /// Its host's boot id, as for a request.
    host: Option<&'a str>,
    from_ns: i64,
    to_ns: i64,
}

/// The time between a request's arrival and its span.
#[derive(Serialize)]
struct BeforeSpanJson<'a> {
    arrived_ns: i64,
    total_ns: u64,
    /// The requests for which its thread worked meanwhile.
    worked_for: Vec<WorkedForJson<'a>>,
}

#[derive(Serialize)]
struct WorkedForJson<'a> {
    trace_id: String,
    span_id: String,
    #[serde(flatten)]
    name: NameJson<'a>,
    total_ns: u64,
}

#[derive(Serialize)]
struct PerhapsBlockedByJson<'a> {
    trace_id: String,
    span_id: String,
    #[serde(flatten)]
    name: NameJson<'a>,
    at_most_ns: u64,
}

#[derive(Serialize)]
struct BlockedByJson<'a> {
    trace_id: String,
    /// Null, like the operation, if its spans are not among the spans.
    span_id: Option<String>,
    /// Without spans, its process's service, if the process states it in its memory.
    service: Option<Cow<'a, str>>,
    operation: Option<&'a str>,
    /// Without spans, its process's instance, in the same way.
    service_instance: Option<String>,
    /// Without spans, the attributes that its threads have in memory beside its span.
    attributes: Vec<AttributeJson>,
    /// Whether its trace is sampled.
    sampled: bool,
    total_ns: u64,
    /// The requests that waited for it, and for which the explained request waited.
    through: Vec<ThroughJson>,
    /// The part in garbage collections at its call.
    collection_ns: u64,
}

#[derive(Serialize)]
struct AttributeJson {
    name: String,
    value: String,
    /// The value is longer.
    cut: bool,
}

impl AttributeJson {
    fn new(said: &SaidAttribute) -> Self {
        let [name, value] = [&said.name, &said.value].map(|text| escape(text.bytes()));
        Self { name, value, cut: said.is_cut }
    }
}

#[derive(Serialize)]
struct ThroughJson {
    #[serde(flatten)]
    of: WaitsForJson,
    total_ns: u64,
}

#[derive(Serialize)]
struct WaitsForJson {
    trace_id: String,
    /// Null if its spans are not among the spans.
    span_id: Option<String>,
}

impl WaitsForJson {
    fn new(traced: &Traced, of: BlockingRequest) -> Self {
        match of {
            BlockingRequest::Request(request) => {
                let root = traced.root(request);
                Self { trace_id: root.trace.to_string(), span_id: Some(root.id.to_string()) }
            }
            BlockingRequest::Missing(trace, _) => Self { trace_id: trace.to_string(), span_id: None },
        }
    }
}

impl ThroughJson {
    fn new(traced: &Traced, of: BlockingRequest, total_ns: u64) -> Self {
        Self { of: WaitsForJson::new(traced, of), total_ns }
    }
}

#[derive(Serialize)]
struct PieceJson {
    /// The segment's index in `segments`.
    segment: usize,
    from_ns: i64,
    to_ns: i64,
    /// Null if no request is known.
    trace_id: Option<String>,
    span_id: Option<String>,
    join: &'static str,
    /// Null if the thread's work is not known.
    basis: Option<&'static str>,
    /// The requests that blocked the path's own: it waited for the first, the first for the second, and so on.
    waits_for: Vec<WaitsForJson>,
}

#[derive(Serialize)]
struct StateJson {
    state: &'static str,
    total_ns: u64,
    /// The part timed at both ends.
    measured_ns: u64,
}

/// A host's boot id.
fn host(head: &Head, host: Option<HostIndex>) -> Option<&str> {
    let host = match usize::from(host?.0).checked_sub(1) {
        None => &head.host,
        Some(other) => head.others.get(other)?,
    };
    Some(&host.boot_id)
}

#[derive(Serialize)]
struct DiskJson {
    count: u64,
    open: u64,
    bytes: u64,
    total_ns: u64,
}

impl StateJson {
    fn new(sum: &StateSum) -> Self {
        Self { state: sum.state.name(), total_ns: sum.total_ns, measured_ns: sum.basis.measured }
    }
}

impl<'a> OperationJson<'a> {
    fn new(traced: &'a Traced, one: &OperationAnswer) -> Self {
        Self {
            name: NameJson::for_operation(traced, one.operation),
            count: one.histogram.calls(),
            failed: one.failed,
            p50_ns: one.p50_ns,
            p99_ns: one.p99_ns,
            max_ns: one.max_ns,
            sum: one.histogram.sum().to_string(),
            buckets: buckets(&one.histogram),
            peaks: peaks(&one.histogram),
        }
    }
}

impl<'a> NameJson<'a> {
    fn for_operation(traced: &'a Traced, operation: OperationIndex) -> Self {
        let operation = &traced.spans.operations[operation.0 as usize];
        Self { service: &operation.service, operation: &operation.name }
    }

    fn for_span(traced: &'a Traced, span: SpanIndex) -> Self {
        Self::for_operation(traced, traced.spans.span(span).operation)
    }
}

impl<'a> RequestJson<'a> {
    fn new(
        head: &'a Head,
        traced: &'a Traced,
        request: RequestIndex,
        (from, to): (SpanTime, SpanTime),
        (of, joined_by): (Option<HostIndex>, JoinedBy),
    ) -> Self {
        let root = traced.root(request);
        Self {
            trace_id: root.trace.to_string(),
            span_id: root.id.to_string(),
            name: NameJson::for_operation(traced, root.operation),
            from_ns: from.since_origin(head.origin),
            to_ns: to.since_origin(head.origin),
            failed: root.failed,
            host: host(head, of),
            join: joined_by.name(),
        }
    }
}

#[cfg(test)]
mod tests;
