//! OTLP in JSON, and Jaeger's JSON: the fields that are needed.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Deserializer;

use super::ReadError;
use super::collect::{Collector, Described, EXPLAINS, QUEUED, TID, TURNS};
use super::protobuf::kind;
use crate::{Kind, Service, ServiceIndex, SpanId, TraceId};

/// One document: OTLP's `TracesData`, or an answer of Jaeger's query service.
#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow, rename = "resourceSpans")]
    resource_spans: Option<Vec<ResourceSpans<'a>>>,
    /// The answer of `/api/traces`.
    #[serde(borrow)]
    data: Option<Vec<JaegerTrace<'a>>>,
    /// The answer of `/api/v3/traces`.
    #[serde(borrow)]
    result: Option<TracesData<'a>>,
}

#[derive(Deserialize)]
struct TracesData<'a> {
    #[serde(borrow, rename = "resourceSpans")]
    resource_spans: Vec<ResourceSpans<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ResourceSpans<'a> {
    #[serde(borrow)]
    resource: Option<Resource<'a>>,
    #[serde(borrow, rename = "scopeSpans")]
    scope_spans: Vec<ScopeSpans<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Resource<'a> {
    #[serde(borrow)]
    attributes: Vec<KeyValue<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ScopeSpans<'a> {
    #[serde(borrow)]
    spans: Vec<Span<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Span<'a> {
    #[serde(borrow)]
    trace_id: Cow<'a, str>,
    #[serde(borrow)]
    span_id: Cow<'a, str>,
    #[serde(borrow)]
    parent_span_id: Cow<'a, str>,
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    kind: Number<'a>,
    #[serde(borrow)]
    start_time_unix_nano: Number<'a>,
    #[serde(borrow)]
    end_time_unix_nano: Number<'a>,
    #[serde(borrow)]
    attributes: Vec<KeyValue<'a>>,
    #[serde(borrow)]
    status: Option<Status<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Status<'a> {
    #[serde(borrow)]
    code: Number<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct KeyValue<'a> {
    #[serde(borrow)]
    key: Cow<'a, str>,
    #[serde(borrow)]
    value: AnyValue<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct AnyValue<'a> {
    #[serde(borrow)]
    string_value: Option<Cow<'a, str>>,
    #[serde(borrow)]
    int_value: Option<Number<'a>>,
}

/// A number: JSON of OTLP writes those of 64 bits as texts, and enumerations as numbers; some writers use names.
#[derive(Deserialize)]
#[serde(untagged)]
enum Number<'a> {
    Number(u64),
    #[serde(borrow)]
    Text(Cow<'a, str>),
}

impl Default for Number<'_> {
    fn default() -> Self {
        Self::Number(0)
    }
}

impl Number<'_> {
    /// The number; 0, which is no time and no thread, where it is none.
    fn value(&self) -> u64 {
        match self {
            Self::Number(number) => *number,
            Self::Text(text) => text.parse().unwrap_or(0),
        }
    }

    fn small(&self) -> Option<u32> {
        u32::try_from(self.value()).ok().filter(|number| *number > 0)
    }

    fn kind(&self) -> Kind {
        match self {
            Self::Number(number) => i32::try_from(*number).map_or(Kind::Unspecified, kind),
            Self::Text(text) => named_kind(text.strip_prefix("SPAN_KIND_").unwrap_or(text)),
        }
    }

    fn is_error(&self) -> bool {
        match self {
            Self::Number(number) => *number == 2,
            Self::Text(text) => text == "STATUS_CODE_ERROR",
        }
    }
}

#[derive(Deserialize)]
struct JaegerTrace<'a> {
    #[serde(borrow, default)]
    spans: Vec<JaegerSpan<'a>>,
    #[serde(borrow, default)]
    processes: HashMap<Cow<'a, str>, JaegerProcess<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct JaegerSpan<'a> {
    #[serde(borrow, rename = "traceID")]
    trace_id: Cow<'a, str>,
    #[serde(borrow, rename = "spanID")]
    span_id: Cow<'a, str>,
    #[serde(borrow, rename = "operationName")]
    operation_name: Cow<'a, str>,
    #[serde(borrow)]
    references: Vec<Reference<'a>>,
    /// µs since 1970.
    #[serde(rename = "startTime")]
    start_time: u64,
    /// µs.
    duration: u64,
    #[serde(borrow)]
    tags: Vec<Tag<'a>>,
    #[serde(borrow, rename = "processID")]
    process_id: Cow<'a, str>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Reference<'a> {
    #[serde(borrow, rename = "refType")]
    kind: Cow<'a, str>,
    #[serde(borrow, rename = "traceID")]
    trace_id: Cow<'a, str>,
    #[serde(borrow, rename = "spanID")]
    span_id: Cow<'a, str>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct JaegerProcess<'a> {
    #[serde(borrow, rename = "serviceName")]
    service_name: Cow<'a, str>,
    #[serde(borrow)]
    tags: Vec<Tag<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Tag<'a> {
    #[serde(borrow)]
    key: Cow<'a, str>,
    value: serde_json::Value,
}

impl Tag<'_> {
    fn text(&self) -> Option<Box<str>> {
        self.value.as_str().map(Into::into)
    }

    fn small(&self) -> Option<u32> {
        let number = self.value.as_u64().or_else(|| self.value.as_str()?.parse().ok())?;
        u32::try_from(number).ok().filter(|number| *number > 0)
    }
}

/// Takes all documents of a file, one behind the other.
pub(super) fn take(file: &[u8], collector: &mut Collector) -> Result<(), ReadError> {
    let mut documents = Deserializer::from_slice(file).into_iter::<Document<'_>>();
    loop {
        let at = documents.byte_offset();
        match documents.next() {
            None => return Ok(()),
            Some(Ok(Document { resource_spans: None, data: None, result: None })) => {
                return Err(ReadError::Unknown);
            }
            Some(Ok(Document { resource_spans, data, result })) => {
                let resource_spans = resource_spans.into_iter().chain(result.map(|it| it.resource_spans));
                resource_spans.flatten().for_each(|spans| take_otlp(&spans, collector));
                data.unwrap_or_default().iter().for_each(|trace| take_jaeger(trace, collector));
            }
            Some(Err(error)) => return Err(ReadError::Damaged { at, what: error.to_string() }),
        }
    }
}

fn take_otlp(spans: &ResourceSpans<'_>, collector: &mut Collector) {
    let mut service = Service::default();
    for KeyValue { key, value } in spans.resource.iter().flat_map(|resource| &resource.attributes) {
        let text = || value.string_value.as_deref().map(Into::into);
        match &**key {
            "service.name" => service.name = text().unwrap_or_default(),
            "service.instance.id" => service.instance = text(),
            "host.name" => service.host = text(),
            "process.pid" => service.pid = value.int_value.as_ref().and_then(Number::small),
            _ => {}
        }
    }
    let service = collector.service(service);
    for span in spans.scope_spans.iter().flat_map(|scope| &scope.spans) {
        let attribute = |key| span.attributes.iter().find(|attribute| attribute.key == key);
        let described = Described {
            trace: TraceId::from_hex(&span.trace_id),
            id: SpanId::from_hex(&span.span_id),
            parent: SpanId::from_hex(&span.parent_span_id),
            name: &span.name,
            kind: span.kind.kind(),
            from_ns: span.start_time_unix_nano.value(),
            to_ns: span.end_time_unix_nano.value(),
            failed: span.status.as_ref().is_some_and(|status| status.code.is_error()),
            tid: attribute(TID).and_then(|attribute| attribute.value.int_value.as_ref()?.small()),
            explains: attribute(EXPLAINS).is_some(),
            queued_ns: attribute(QUEUED)
                .and_then(|attribute| Some(attribute.value.int_value.as_ref()?.value())),
            turns: attribute(TURNS).and_then(|attribute| attribute.value.string_value.as_deref()),
        };
        collector.span(service, &described);
    }
}

fn take_jaeger(trace: &JaegerTrace<'_>, collector: &mut Collector) {
    collector.measured_in(1000);
    let mut services: HashMap<&str, Option<ServiceIndex>> = HashMap::new();
    for (id, process) in &trace.processes {
        let mut service = Service { name: (*process.service_name).into(), ..Service::default() };
        for tag in &process.tags {
            match &*tag.key {
                "service.instance.id" => service.instance = tag.text(),
                "host.name" | "hostname" => service.host = tag.text(),
                "process.pid" | "pid" => service.pid = tag.small(),
                _ => {}
            }
        }
        services.insert(id, collector.service(service));
    }
    let unknown = collector.service(Service::default());
    for span in &trace.spans {
        let tag = |key: &str| span.tags.iter().find(|tag| tag.key == key);
        let id = TraceId::from_hex(&span.trace_id);
        let parent = span
            .references
            .iter()
            .find(|reference| reference.kind == "CHILD_OF" && TraceId::from_hex(&reference.trace_id) == id);
        let is_error = |tag: &Tag<'_>| tag.value == serde_json::Value::Bool(true) || tag.value == "true";
        let from_ns = span.start_time.saturating_mul(1000);
        let described = Described {
            trace: id,
            id: SpanId::from_hex(&span.span_id),
            parent: parent.and_then(|parent| SpanId::from_hex(&parent.span_id)),
            name: &span.operation_name,
            kind: tag("span.kind").and_then(|tag| tag.value.as_str()).map_or(Kind::Internal, named_kind),
            from_ns,
            to_ns: from_ns.saturating_add(span.duration.saturating_mul(1000)),
            failed: tag("error").is_some_and(is_error),
            tid: tag(TID).and_then(Tag::small),
            explains: tag(EXPLAINS).is_some(),
            queued_ns: tag(QUEUED)
                .and_then(|tag| tag.value.as_u64().or_else(|| tag.value.as_str()?.parse().ok())),
            turns: tag(TURNS).and_then(|tag| tag.value.as_str()),
        };
        let service = services.get(&*span.process_id).copied().unwrap_or(unknown);
        collector.span(service, &described);
    }
}

/// The kind with this name, in any case.
fn named_kind(name: &str) -> Kind {
    let kinds = [
        ("internal", Kind::Internal),
        ("server", Kind::Server),
        ("client", Kind::Client),
        ("producer", Kind::Producer),
        ("consumer", Kind::Consumer),
    ];
    kinds
        .into_iter()
        .find(|(known, _)| name.eq_ignore_ascii_case(known))
        .map_or(Kind::Unspecified, |(_, kind)| kind)
}
