//! The JSON of Jaeger's query service, as `/api/traces` answers.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::List;
use super::scalar::Scalar;
use crate::read::collect::{Collector, Described, EXPLAINS, QUEUED, READY, TID, TURNS, is_peer_port};
use crate::{Kind, Service, ServiceIndex};

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct JaegerTrace<'a> {
    #[serde(borrow)]
    spans: List<&'a RawValue>,
    /// Ordered by name, so that equal files give equal answers.
    #[serde(borrow)]
    processes: Option<BTreeMap<Cow<'a, str>, &'a RawValue>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct JaegerSpan<'a> {
    #[serde(borrow, rename = "traceID")]
    trace_id: Scalar<'a>,
    #[serde(borrow, rename = "spanID")]
    span_id: Scalar<'a>,
    #[serde(borrow, rename = "operationName")]
    operation_name: Scalar<'a>,
    #[serde(borrow)]
    references: List<&'a RawValue>,
    /// µs since 1970.
    #[serde(borrow, rename = "startTime")]
    start_time: Scalar<'a>,
    /// µs.
    #[serde(borrow)]
    duration: Scalar<'a>,
    #[serde(borrow)]
    tags: List<&'a RawValue>,
    #[serde(borrow, rename = "processID")]
    process_id: Scalar<'a>,
    /// The process itself, instead of its id: Jaeger's storage has it so.
    #[serde(borrow)]
    process: Scalar<'a>,
    /// The parent in old files, which have no references.
    #[serde(borrow, rename = "parentSpanID")]
    parent_span_id: Scalar<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Reference<'a> {
    #[serde(borrow, rename = "refType")]
    kind: Scalar<'a>,
    #[serde(borrow, rename = "traceID")]
    trace_id: Scalar<'a>,
    #[serde(borrow, rename = "spanID")]
    span_id: Scalar<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct JaegerProcess<'a> {
    #[serde(borrow, rename = "serviceName")]
    service_name: Scalar<'a>,
    #[serde(borrow)]
    tags: List<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Tag<'a> {
    #[serde(borrow)]
    key: Scalar<'a>,
    #[serde(borrow)]
    value: Scalar<'a>,
}

/// Takes a trace's spans.
pub(super) fn take(trace: &JaegerTrace<'_>, collector: &mut Collector) {
    collector.measured_in(1000);
    let mut services: BTreeMap<&str, Option<ServiceIndex>> = BTreeMap::new();
    for (id, process) in trace.processes.iter().flatten() {
        let process = Scalar::from(*process).object().unwrap_or_default();
        services.insert(id, collector.service(service(&process)));
    }
    let unknown = collector.service(Service::default());
    for span in &trace.spans.0 {
        let span: JaegerSpan<'_> = Scalar::from(*span).object().unwrap_or_default();
        let process = span.process_id.text();
        let named = process.and_then(|process| services.get(&*process).copied());
        let own = || Some(collector.service(service(&span.process.object()?)));
        let service = named.or_else(own).unwrap_or(unknown);
        take_span(&span, service, collector);
    }
}

fn service(process: &JaegerProcess<'_>) -> Service {
    let name = process.service_name.text().unwrap_or_default();
    let mut service = Service { name: name.into(), ..Service::default() };
    for (key, value) in tags(&process.tags) {
        match &*key {
            "service.instance.id" => service.instance = value.text().map(Into::into),
            "host.name" | "hostname" => service.host = value.text().map(Into::into),
            "process.pid" | "pid" => service.pid = value.small(),
            _ => {}
        }
    }
    service
}

fn take_span(span: &JaegerSpan<'_>, service: Option<ServiceIndex>, collector: &mut Collector) {
    let trace = span.trace_id.trace();
    let references = span.references.0.iter().filter_map(|one| Scalar::from(*one).object::<Reference<'_>>());
    let parent = references.filter(|one| {
        one.kind.text().is_some_and(|kind| kind == "CHILD_OF") && one.trace_id.trace() == trace
    });
    // A malformed duration leaves the span without a length; a missing duration is 0 µs.
    let length = if span.duration.is_there() { span.duration.number() } else { Some(0) };
    let length_ns = length.map(|length| length.saturating_mul(1000));
    let from_ns = span.start_time.number().unwrap_or(0).saturating_mul(1000);
    let (mut turns, mut ready) = (None, None);
    let mut described = Described {
        trace,
        id: span.span_id.span(),
        parent: parent
            .map(|parent| parent.span_id.span())
            .next()
            .unwrap_or_else(|| span.parent_span_id.span()),
        kind: Kind::Internal,
        from_ns,
        to_ns: length_ns.map_or(0, |length_ns| from_ns.saturating_add(length_ns)),
        ..Described::default()
    };
    for (key, value) in tags(&span.tags) {
        match &*key {
            "span.kind" if value.text().is_some() => described.kind = value.kind(),
            "error" => described.failed |= value.is_true(),
            TID => described.tid = value.small(),
            EXPLAINS => described.explains = true,
            key if is_peer_port(key) => described.peer_port = value.small(),
            QUEUED => described.queued_ns = value.number(),
            TURNS => turns = value.text(),
            READY => ready = value.text(),
            _ => {}
        }
    }
    let name = span.operation_name.text().unwrap_or_default();
    collector.span(
        service,
        &Described { name: &name, turns: turns.as_deref(), ready: ready.as_deref(), ..described },
    );
}

/// The tags with their names, without malformed tags.
fn tags<'a>(list: &List<&'a RawValue>) -> impl Iterator<Item = (Cow<'a, str>, Scalar<'a>)> {
    list.0.iter().filter_map(|tag| {
        let Tag { key, value } = Scalar::from(*tag).object()?;
        Some((key.text()?, value))
    })
}
