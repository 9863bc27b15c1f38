//! Requests with their causes as OpenTelemetry spans, so that a tracing backend shows why a span was slow: OTLP in
//! JSON.
//!
//! A span in a backend cannot be changed. So an explanation is a further span below the request's, over its whole
//! time, with the cause's sentence; below that are spans for the path's parts. All have [`EXPLAINS`], by which
//! wakepath does not take them for requests when it reads them again, and the service name `wakepath`, so that they
//! do not count as the service's work.

mod document;
mod explanation;

use std::collections::BTreeMap;
use std::io::{self, Write};

use wakepath_engine::requests::{
    EXPLAINS, Joined, Kind, RequestAnswer, Service, Span as Known, SpanIndex, TraceId,
};

use document::{
    Attribute, Resource, ResourceSpans, Scope, ScopeSpans, Span, Status, TracesData, number, text,
};

use crate::text::request_sentence;

/// The service and scope name of explaining spans.
const WAKEPATH: &str = "wakepath";

/// The spans written beside the explanations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beside {
    /// None: a backend has them.
    None,
    /// All spans in the requests' traces, with the fields that wakepath keeps; an explained request's own span has
    /// its cause's sentence.
    Trace,
}

/// Writes these requests' explanations: a JSON line for each trace, as the OpenTelemetry Collector's file exporter
/// writes them.
pub fn otlp(
    joined: &Joined<'_>,
    answers: &[RequestAnswer],
    beside: Beside,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut by_trace: BTreeMap<TraceId, Vec<&RequestAnswer>> = BTreeMap::new();
    for answer in answers {
        by_trace.entry(joined.traced.root(answer.request).trace).or_default().push(answer);
    }
    for (trace, answers) in by_trace {
        let mut resource_spans = match beside {
            Beside::None => Vec::new(),
            Beside::Trace => known_spans(joined, trace, &answers),
        };
        let spans = answers.iter().flat_map(|answer| explanation::spans(joined, answer)).collect();
        let scope = Scope { name: WAKEPATH, version: env!("CARGO_PKG_VERSION") };
        resource_spans.push(ResourceSpans {
            resource: Resource { attributes: vec![text("service.name", WAKEPATH)] },
            scope_spans: vec![ScopeSpans { scope, spans }],
        });
        serde_json::to_writer(&mut *out, &TracesData { resource_spans })?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// A trace's spans by service.
fn known_spans(joined: &Joined<'_>, trace: TraceId, answers: &[&RequestAnswer]) -> Vec<ResourceSpans> {
    let traced = joined.traced;
    let causes: BTreeMap<SpanIndex, String> = answers
        .iter()
        .map(|answer| (traced.request(answer.request).root, request_sentence(answer).into_plain()))
        .collect();
    let mut by_service: BTreeMap<_, Vec<SpanIndex>> = BTreeMap::new();
    for &index in traced.requests.spans_in_traces(&traced.spans, &(trace..=trace)) {
        by_service.entry(traced.spans.span(index).service).or_default().push(index);
    }
    let of_service = |(_, spans): (_, Vec<SpanIndex>)| {
        let resource = spans.first().map(|index| resource(traced.spans.service(*index)));
        let spans = spans.into_iter().map(|index| {
            let mut attributes = Vec::new();
            let span = traced.spans.span(index);
            attributes.extend(span.tid.map(|tid| number("wakepath.tid", tid)));
            attributes.extend(causes.get(&index).map(|cause| text("wakepath.cause", cause)));
            known_span(span, &traced.spans.operation(index).name, attributes)
        });
        ResourceSpans {
            resource: resource.unwrap_or(Resource { attributes: Vec::new() }),
            scope_spans: vec![ScopeSpans { scope: Scope::default(), spans: spans.collect() }],
        }
    };
    by_service.into_iter().map(of_service).collect()
}

fn resource(service: &Service) -> Resource {
    let mut attributes = Vec::new();
    if !service.name.is_empty() {
        attributes.push(text("service.name", &*service.name));
    }
    attributes.extend(service.instance.as_deref().map(|instance| text("service.instance.id", instance)));
    attributes.extend(service.host.as_deref().map(|host| text("host.name", host)));
    attributes.extend(service.pid.map(|pid| number("process.pid", pid)));
    Resource { attributes }
}

fn known_span(span: &Known, name: &str, attributes: Vec<Attribute>) -> Span {
    const ERROR: u32 = 2;
    Span {
        trace_id: span.trace.to_string(),
        span_id: span.id.to_string(),
        parent_span_id: span.parent.map(|parent| parent.to_string()),
        name: name.to_owned(),
        kind: kind(span.kind),
        start_time_unix_nano: span.from.ns().to_string(),
        end_time_unix_nano: span.to.ns().to_string(),
        attributes,
        links: Vec::new(),
        status: Status { code: span.failed.then_some(ERROR) },
    }
}

/// `SpanKind`.
const fn kind(kind: Kind) -> u32 {
    match kind {
        Kind::Unspecified => 0,
        Kind::Internal => 1,
        Kind::Server => 2,
        Kind::Client => 3,
        Kind::Producer => 4,
        Kind::Consumer => 5,
    }
}
