//! OTLP in JSON, also as Tempo answers it, Jaeger's JSON, and Zipkin's: the fields that are needed.
//!
//! Writers differ: null stands for a missing value, numbers are texts or have a decimal point, enumerations are numbers or names,
//! identities are hex or base64. So a value below a span is kept as its text, and read where it is used: an invalid value costs
//! its own meaning, at most its span, and never the file. The lists down to the spans are strict: a document with other values
//! there is refused, and the error has the position.

mod cut;
mod jaeger;
mod scalar;
mod zipkin;

use std::borrow::Cow;
use std::iter::repeat_n;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::ReadError;
use super::collect::{Collector, Described, EXPLAINS, QUEUED, READY, TID, TURNS, is_peer_port};
use crate::{Language, Service};
use jaeger::JaegerTrace;
use scalar::Scalar;

/// A document: OTLP's `TracesData`, or an answer from Jaeger's query service.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    #[serde(borrow, default, alias = "resource_spans", alias = "batches", deserialize_with = "there")]
    resource_spans: Option<List<ResourceSpans<'a>>>,
    /// An answer to `/api/traces`.
    #[serde(borrow)]
    data: Option<Vec<JaegerTrace<'a>>>,
    /// An answer to `/api/v3/traces`.
    #[serde(borrow)]
    result: Option<TracesData<'a>>,
    /// An answer by Tempo to `/api/v2/traces/ID`.
    #[serde(borrow)]
    trace: Option<TracesData<'a>>,
    /// A Collector's file may have other signals between its spans.
    #[serde(alias = "resource_metrics")]
    resource_metrics: Option<IgnoredAny>,
    #[serde(alias = "resource_logs")]
    resource_logs: Option<IgnoredAny>,
    #[serde(alias = "resource_profiles")]
    resource_profiles: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TracesData<'a> {
    #[serde(borrow, default, alias = "resource_spans", alias = "batches", deserialize_with = "there")]
    resource_spans: Option<List<ResourceSpans<'a>>>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct ResourceSpans<'a> {
    #[serde(borrow)]
    resource: Option<Resource<'a>>,
    #[serde(borrow, alias = "scope_spans")]
    scope_spans: List<ScopeSpans<'a>>,
    /// The name of `scope_spans` before OTLP 0.15.
    #[serde(borrow, alias = "instrumentation_library_spans")]
    instrumentation_library_spans: List<ScopeSpans<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Resource<'a> {
    #[serde(borrow)]
    attributes: List<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ScopeSpans<'a> {
    #[serde(borrow)]
    spans: List<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Span<'a> {
    #[serde(borrow, alias = "trace_id")]
    trace_id: Scalar<'a>,
    #[serde(borrow, alias = "span_id")]
    span_id: Scalar<'a>,
    #[serde(borrow, alias = "parent_span_id")]
    parent_span_id: Scalar<'a>,
    #[serde(borrow)]
    name: Scalar<'a>,
    #[serde(borrow)]
    kind: Scalar<'a>,
    #[serde(borrow, alias = "start_time_unix_nano")]
    start_time_unix_nano: Scalar<'a>,
    #[serde(borrow, alias = "end_time_unix_nano")]
    end_time_unix_nano: Scalar<'a>,
    #[serde(borrow)]
    attributes: List<&'a RawValue>,
    #[serde(borrow)]
    status: Scalar<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Status<'a> {
    #[serde(borrow)]
    code: Scalar<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct KeyValue<'a> {
    #[serde(borrow)]
    key: Scalar<'a>,
    #[serde(borrow)]
    value: Scalar<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct AnyValue<'a> {
    #[serde(borrow, alias = "string_value")]
    string_value: Scalar<'a>,
    #[serde(borrow, alias = "int_value")]
    int_value: Scalar<'a>,
}

/// A list; null has no elements.
struct List<T>(Vec<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(Option::deserialize(deserializer)?.unwrap_or_default()))
    }
}

/// A value whose key is present, also if it is null.
fn there<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// Takes all documents in a file, one behind the other.
pub(super) fn take(file: &[u8], collector: &mut Collector) -> Result<(), ReadError> {
    let text = text(file);
    let mut documents = serde_json::Deserializer::from_str(&text).into_iter::<Document<'_>>();
    let mut has_spans = false;
    loop {
        let at = documents.byte_offset();
        let document = match documents.next() {
            Some(Ok(document)) => document,
            Some(Err(error)) => return Err(take_whole_part(&text, at, &error, |part| take(part, collector))),
            None if has_spans => return Ok(()),
            // A file with other signals alone is no span file.
            None => return Err(ReadError::Unknown),
        };
        let is_other_signal = document.is_other_signal();
        let inner = document.result.or(document.trace).and_then(|it| it.resource_spans);
        let resource_spans = document.resource_spans.or(inner);
        match (resource_spans, document.data) {
            (None, None) if is_other_signal => continue,
            (None, None) if has_spans => {
                let what = String::from("a document that is neither OTLP nor Jaeger's");
                return Err(ReadError::Damaged { at, what });
            }
            (None, None) => return Err(ReadError::Unknown),
            (resource_spans, data) => {
                let of_otlp = resource_spans.into_iter().flat_map(|list| list.0);
                of_otlp.for_each(|spans| take_otlp(spans, collector));
                data.iter().flatten().for_each(|trace| jaeger::take(trace, collector));
            }
        }
        has_spans = true;
    }
}

/// Takes all Zipkin arrays in a file, one behind the other.
pub(super) fn take_zipkin(file: &[u8], collector: &mut Collector) -> Result<(), ReadError> {
    let text = text(file);
    let mut arrays = serde_json::Deserializer::from_str(&text).into_iter::<Vec<&RawValue>>();
    let mut has_spans = false;
    loop {
        let at = arrays.byte_offset();
        match arrays.next() {
            Some(Ok(elements)) => match zipkin::take(&elements, collector) {
                Err(ReadError::Unknown) if has_spans => {
                    return Err(ReadError::Damaged { at, what: String::from("an array without spans") });
                }
                taken => has_spans |= taken?,
            },
            Some(Err(error)) => {
                return Err(take_whole_part(&text, at, &error, |part| take_zipkin(part, collector)));
            }
            None if has_spans => return Ok(()),
            // Any program may have written empty arrays.
            None => return Err(ReadError::Unknown),
        }
    }
}

/// Takes the whole spans in the document at `at`, if it is cut off. Returns the error, with the place behind these.
fn take_whole_part(
    text: &str,
    at: usize,
    error: &serde_json::Error,
    take: impl FnOnce(&[u8]) -> Result<(), ReadError>,
) -> ReadError {
    let cut = text.get(at..).filter(|_| error.is_eof()).and_then(cut::whole_part);
    let kept =
        cut.and_then(|(part, close)| take((part.to_owned() + &close).as_bytes()).ok().map(|()| part.len()));
    ReadError::Damaged { at: at + kept.unwrap_or(0), what: error.to_string() }
}

/// The file as text. A Collector passes on invalid UTF-8 within a value: each such byte becomes a `?`, so that all positions in
/// the file stay.
fn text(file: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = str::from_utf8(file) {
        return text.into();
    }
    let mut text = String::with_capacity(file.len());
    for chunk in file.utf8_chunks() {
        text += chunk.valid();
        text.extend(repeat_n('?', chunk.invalid().len()));
    }
    text.into()
}

impl Document<'_> {
    fn is_other_signal(&self) -> bool {
        let signals = [&self.resource_metrics, &self.resource_logs, &self.resource_profiles];
        signals.iter().any(|signal| signal.is_some())
    }
}

fn take_otlp(spans: ResourceSpans<'_>, collector: &mut Collector) {
    let mut service = Service::default();
    for (key, value) in spans.resource.iter().flat_map(|resource| attributes(&resource.attributes)) {
        let AnyValue { string_value, int_value } = value.object().unwrap_or_default();
        let text = || string_value.text().map(Into::into);
        match &*key {
            "service.name" => service.name = text().unwrap_or_default(),
            "service.instance.id" => service.instance = text(),
            "host.name" => service.host = text(),
            "telemetry.sdk.language" => {
                service.language = text().and_then(|name: Box<str>| Language::named(&name));
            }
            "process.pid" => service.pid = int_value.small(),
            _ => {}
        }
    }
    let service = collector.service(service);
    let ResourceSpans { scope_spans, instrumentation_library_spans, .. } = spans;
    let scopes = scope_spans.0.into_iter().chain(instrumentation_library_spans.0);
    for span in scopes.flat_map(|scope| scope.spans.0) {
        let span: Span<'_> = Scalar::from(span).object().unwrap_or_default();
        let (mut turns, mut ready) = (None, None);
        let mut described = Described {
            trace: span.trace_id.trace(),
            id: span.span_id.span(),
            parent: span.parent_span_id.span(),
            kind: span.kind.kind(),
            from_ns: span.start_time_unix_nano.number().unwrap_or(0),
            to_ns: span.end_time_unix_nano.number().unwrap_or(0),
            failed: span.status.object().is_some_and(|status: Status<'_>| status.code.is_error()),
            ..Described::default()
        };
        for (key, value) in attributes(&span.attributes) {
            let value = || value.object::<AnyValue<'_>>().unwrap_or_default();
            match &*key {
                TID => described.tid = value().int_value.small(),
                EXPLAINS => described.explains = true,
                key if is_peer_port(key) => described.peer_port = value().int_value.small(),
                QUEUED => described.queued_ns = value().int_value.number(),
                TURNS => turns = value().string_value.text(),
                READY => ready = value().string_value.text(),
                _ => {}
            }
        }
        let name = span.name.text().unwrap_or_default();
        collector.span(
            service,
            &Described { name: &name, turns: turns.as_deref(), ready: ready.as_deref(), ..described },
        );
    }
}

/// The attributes with their names, without malformed attributes.
fn attributes<'a>(list: &List<&'a RawValue>) -> impl Iterator<Item = (Cow<'a, str>, Scalar<'a>)> {
    list.0.iter().filter_map(|attribute| {
        let KeyValue { key, value } = Scalar::from(*attribute).object()?;
        Some((key.text()?, value))
    })
}
