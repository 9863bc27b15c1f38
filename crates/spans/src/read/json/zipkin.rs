//! Zipkin's JSON, version 2: an array with spans, as `/api/v2/trace/ID` answers, or an array with such arrays, as
//! `/api/v2/traces` does.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::scalar::Scalar;
use crate::read::ReadError;
use crate::read::collect::{Collector, Described, EXPLAINS, PEER_PORTS, QUEUED, READY, TID, TURNS};
use crate::{Kind, Service};

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct ZipkinSpan<'a> {
    #[serde(borrow)]
    trace_id: Scalar<'a>,
    #[serde(borrow)]
    id: Scalar<'a>,
    #[serde(borrow)]
    parent_id: Scalar<'a>,
    #[serde(borrow)]
    name: Scalar<'a>,
    #[serde(borrow)]
    kind: Scalar<'a>,
    /// µs since 1970.
    #[serde(borrow)]
    timestamp: Scalar<'a>,
    /// µs; missing for a span that had not ended.
    #[serde(borrow)]
    duration: Scalar<'a>,
    #[serde(borrow)]
    local_endpoint: Scalar<'a>,
    #[serde(borrow)]
    tags: Scalar<'a>,
    #[serde(borrow)]
    annotations: Scalar<'a>,
    /// Only version 1 has them.
    #[serde(borrow)]
    binary_annotations: Scalar<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Endpoint<'a> {
    #[serde(borrow)]
    service_name: Scalar<'a>,
}

/// An annotation; version 1 has the endpoint in it.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Annotation<'a> {
    #[serde(borrow)]
    endpoint: Scalar<'a>,
}

/// Takes an array's spans. Returns whether the array has elements.
///
/// # Errors
/// When no element is a span, or a span is version 1's.
pub(super) fn take(elements: &[&RawValue], collector: &mut Collector) -> Result<bool, ReadError> {
    // Not parsed all at once: a parsed span is a hundred times larger than `{}`.
    let spans = || {
        elements.iter().flat_map(|element| Scalar::from(*element).list().unwrap_or_else(|| vec![*element]))
    };
    let has_id = |span: &RawValue| {
        let span: ZipkinSpan<'_> = Scalar::from(span).object().unwrap_or_default();
        span.trace_id.is_there() || span.id.is_there()
    };
    if !elements.is_empty() && !spans().any(has_id) {
        return Err(ReadError::Unknown);
    }
    spans().try_for_each(|span| take_span(span, collector))?;
    Ok(!elements.is_empty())
}

fn take_span(element: &RawValue, collector: &mut Collector) -> Result<(), ReadError> {
    let span: ZipkinSpan<'_> = Scalar::from(element).object().unwrap_or_default();
    let annotations = span.annotations.list().unwrap_or_default();
    let has_endpoint = |one: &RawValue| {
        Scalar::from(one).object::<Annotation<'_>>().is_some_and(|one| one.endpoint.is_there())
    };
    if span.binary_annotations.is_there() || annotations.into_iter().any(has_endpoint) {
        return Err(ReadError::ZipkinV1);
    }
    collector.measured_in(1000);
    let tags: BTreeMap<Cow<'_, str>, &RawValue> = span.tags.object().unwrap_or_default();
    let tag = |key: &str| tags.get(key).map(|value| Scalar::from(*value)).unwrap_or_default();
    let endpoint: Endpoint<'_> = span.local_endpoint.object().unwrap_or_default();
    let service = Service {
        name: endpoint.service_name.text().unwrap_or_default().into(),
        instance: tag("service.instance.id").text().map(Into::into),
        host: tag("host.name").text().map(Into::into),
        pid: tag("process.pid").small(),
        ..Service::default()
    };
    let service = collector.service(service);
    let from_ns = span.timestamp.number().unwrap_or(0).saturating_mul(1000);
    let length_ns = span.duration.number().map(|length| length.saturating_mul(1000));
    let (name, turns) = (span.name.text().unwrap_or_default(), tag(TURNS).text());
    let ready = tag(READY).text();
    let described = Described {
        trace: span.trace_id.trace(),
        id: span.id.span(),
        parent: span.parent_id.span(),
        name: &name,
        kind: if span.kind.is_there() { span.kind.kind() } else { Kind::Internal },
        from_ns,
        to_ns: length_ns.map_or(0, |length_ns| from_ns.saturating_add(length_ns)),
        // The tag has the error's text.
        failed: tag("error").is_there(),
        tid: tag(TID).small(),
        peer_port: PEER_PORTS.iter().find_map(|key| tag(key).small()),
        explains: tag(EXPLAINS).is_there(),
        queued_ns: tag(QUEUED).number(),
        turns: turns.as_deref(),
        ready: ready.as_deref(),
    };
    collector.span(service, &described);
    Ok(())
}
