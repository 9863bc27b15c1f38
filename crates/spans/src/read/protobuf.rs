//! OTLP in protobuf: the used fields of `opentelemetry.proto.trace.v1`.
//!
//! A message's parts stay bytes until they are used. A span of two bytes would otherwise take a hundred times its size
//! in memory, all at once.

use bytes::Bytes;
use prost::{DecodeError, Message};

use super::collect::{Collector, Described, EXPLAINS, QUEUED, READY, TID, TURNS, is_peer_port};
use crate::{Kind, Language, Service, SpanId, TraceId};

#[derive(Message)]
struct TracesData {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    resource_spans: Vec<Bytes>,
}

#[derive(Message)]
struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    scope_spans: Vec<Bytes>,
}

#[derive(Message)]
struct Resource {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    attributes: Vec<Bytes>,
}

#[derive(Message)]
struct ScopeSpans {
    #[prost(bytes = "bytes", repeated, tag = "2")]
    spans: Vec<Bytes>,
}

#[derive(Message)]
struct Span {
    #[prost(bytes = "bytes", tag = "1")]
    trace_id: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    span_id: Bytes,
    #[prost(bytes = "bytes", tag = "4")]
    parent_span_id: Bytes,
    #[prost(bytes = "bytes", tag = "5")]
    name: Bytes,
    #[prost(int32, tag = "6")]
    kind: i32,
    #[prost(fixed64, tag = "7")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    end_time_unix_nano: u64,
    #[prost(bytes = "bytes", repeated, tag = "9")]
    attributes: Vec<Bytes>,
    #[prost(message, optional, tag = "15")]
    status: Option<Status>,
}

#[derive(Message)]
struct Status {
    #[prost(int32, tag = "3")]
    code: i32,
}

#[derive(Message)]
struct KeyValue {
    #[prost(bytes = "bytes", tag = "1")]
    key: Bytes,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

#[derive(Message)]
struct AnyValue {
    #[prost(bytes = "bytes", optional, tag = "1")]
    text: Option<Bytes>,
    #[prost(int64, optional, tag = "3")]
    number: Option<i64>,
}

/// `STATUS_CODE_ERROR`.
const ERROR: i32 = 2;

/// Takes all spans in a message.
pub(super) fn take(message: Bytes, collector: &mut Collector) -> Result<(), DecodeError> {
    for resource_spans in TracesData::decode(message)?.resource_spans {
        let ResourceSpans { resource, scope_spans } = ResourceSpans::decode(resource_spans)?;
        let service = collector.service(service(resource.unwrap_or_default())?);
        for scope_spans in scope_spans {
            for span in ScopeSpans::decode(scope_spans)?.spans {
                let span = Span::decode(span)?;
                let name = String::from_utf8_lossy(&span.name);
                let Noted { tid, peer_port, explains, queued_ns, turns, ready } = noted(span.attributes)?;
                let described = Described {
                    trace: TraceId::from_bytes(&span.trace_id),
                    id: SpanId::from_bytes(&span.span_id),
                    parent: SpanId::from_bytes(&span.parent_span_id),
                    name: &name,
                    kind: kind(span.kind),
                    from_ns: span.start_time_unix_nano,
                    to_ns: span.end_time_unix_nano,
                    failed: span.status.is_some_and(|status| status.code == ERROR),
                    tid,
                    peer_port,
                    explains,
                    queued_ns,
                    turns: turns.as_deref().and_then(|text| str::from_utf8(text).ok()),
                    ready: ready.as_deref().and_then(|text| str::from_utf8(text).ok()),
                };
                collector.span(service, &described);
            }
        }
    }
    Ok(())
}

/// The kind with this `SpanKind` number, which JSON writes too.
pub(super) const fn kind(number: i32) -> Kind {
    match number {
        1 => Kind::Internal,
        2 => Kind::Server,
        3 => Kind::Client,
        4 => Kind::Producer,
        5 => Kind::Consumer,
        _ => Kind::Unspecified,
    }
}

fn service(resource: Resource) -> Result<Service, DecodeError> {
    let mut service = Service::default();
    for attribute in resource.attributes {
        let KeyValue { key, value } = KeyValue::decode(attribute)?;
        let AnyValue { text, number } = value.unwrap_or_default();
        let text = || text.as_deref().map(|text| String::from_utf8_lossy(text).into());
        match &*key {
            b"service.name" => service.name = text().unwrap_or_default(),
            b"service.instance.id" => service.instance = text(),
            b"host.name" => service.host = text(),
            b"telemetry.sdk.language" => {
                service.language = text().and_then(|name: Box<str>| Language::named(&name));
            }
            b"process.pid" => service.pid = number.and_then(|number| u32::try_from(number).ok()),
            _ => {}
        }
    }
    Ok(service)
}

/// The span attributes that wakepath or its plug-ins wrote.
#[derive(Default)]
struct Noted {
    tid: Option<u32>,
    peer_port: Option<u32>,
    explains: bool,
    queued_ns: Option<u64>,
    turns: Option<Bytes>,
    ready: Option<Bytes>,
}

fn noted(attributes: Vec<Bytes>) -> Result<Noted, DecodeError> {
    let mut noted = Noted::default();
    for attribute in attributes {
        let KeyValue { key, value } = KeyValue::decode(attribute)?;
        if &*key == TID.as_bytes() {
            noted.tid = value.and_then(|value| u32::try_from(value.number?).ok());
        } else if &*key == QUEUED.as_bytes() {
            noted.queued_ns = value.and_then(|value| u64::try_from(value.number?).ok());
        } else if &*key == TURNS.as_bytes() {
            noted.turns = value.and_then(|value| value.text);
        } else if &*key == READY.as_bytes() {
            noted.ready = value.and_then(|value| value.text);
        } else if str::from_utf8(&key).is_ok_and(is_peer_port) {
            noted.peer_port = value.and_then(|value| u32::try_from(value.number?).ok());
        }
        noted.explains |= &*key == EXPLAINS.as_bytes();
    }
    Ok(noted)
}
