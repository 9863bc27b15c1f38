//! The part of a message with spans that is written to disk: listed fields and attributes, and no others.
//!
//! A message is copied field by field. A field without a name here is dropped, as are unknown fields, the attributes of scopes and
//! links, events, trace states and status texts. OTLP's own counts of dropped parts are raised.
//! The result always decodes as `TracesData`, and is longer than the message by at most a few bytes per part.

use opentelemetry_proto::tonic::common::v1::AnyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Attribute;
use prost::Message as _;

use crate::allow::AllowList;
use crate::wire::{Fields, Malformed, put_bytes, put_fixed32, put_fixed64, put_number};

/// The largest kept attribute, its key and value together, bytes.
const MAX_ATTRIBUTE_BYTES: usize = 4 << 10;

/// The kept part of a message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Kept {
    /// `TracesData`; empty without spans.
    pub message: Vec<u8>,
    /// The number of spans in `message`.
    pub spans: u64,
    /// The number of dropped spans, which have an invalid id.
    pub invalid: u64,
    /// The service name for each resource with spans, in order and with repetitions.
    pub services: Vec<String>,
}

/// The field numbers in `opentelemetry/proto/trace/v1/trace.proto` and the files beside it.
mod number {
    pub const RESOURCE_SPANS: u64 = 1;

    pub const RESOURCE: u64 = 1;
    pub const SCOPE_SPANS: u64 = 2;

    pub const RESOURCE_ATTRIBUTES: u64 = 1;
    pub const RESOURCE_DROPPED: u64 = 2;

    pub const SCOPE: u64 = 1;
    pub const SPANS: u64 = 2;

    pub const SCOPE_NAME: u64 = 1;
    pub const SCOPE_VERSION: u64 = 2;

    pub const TRACE_ID: u64 = 1;
    pub const SPAN_ID: u64 = 2;
    pub const PARENT: u64 = 4;
    pub const NAME: u64 = 5;
    pub const KIND: u64 = 6;
    pub const START: u64 = 7;
    pub const END: u64 = 8;
    pub const ATTRIBUTES: u64 = 9;
    pub const DROPPED_ATTRIBUTES: u64 = 10;
    pub const EVENTS: u64 = 11;
    pub const DROPPED_EVENTS: u64 = 12;
    pub const LINKS: u64 = 13;
    pub const DROPPED_LINKS: u64 = 14;
    pub const STATUS: u64 = 15;
    pub const FLAGS: u64 = 16;

    pub const LINK_ATTRIBUTES: u64 = 4;
    pub const LINK_DROPPED: u64 = 5;
    pub const LINK_FLAGS: u64 = 6;

    pub const STATUS_CODE: u64 = 3;

    pub const KEY: u64 = 1;
    pub const VALUE: u64 = 2;
}

/// Keeps the allowed parts of `TracesData`, or of a request to export it.
pub(crate) fn filter(message: &[u8], allowed: &AllowList) -> Result<Kept, Malformed> {
    let mut kept = Kept::default();
    for field in Fields::of(message) {
        let (number, value) = field?;
        if number == number::RESOURCE_SPANS {
            resource_spans(value.bytes(number)?, allowed, &mut kept)?;
        }
    }
    Ok(kept)
}

fn resource_spans(message: &[u8], allowed: &AllowList, kept: &mut Kept) -> Result<(), Malformed> {
    let mut out = Vec::new();
    let before = kept.spans;
    let mut service = String::new();
    for field in Fields::of(message) {
        let (number, value) = field?;
        match number {
            number::RESOURCE => {
                let resource = resource(value.bytes(number)?, allowed, &mut service)?;
                put_bytes(number::RESOURCE, &resource, &mut out);
            }
            number::SCOPE_SPANS => {
                scope_spans(value.bytes(number)?, allowed, kept, &mut out)?;
            }
            _ => {}
        }
    }
    if kept.spans > before {
        put_bytes(number::RESOURCE_SPANS, &out, &mut kept.message);
        kept.services.push(service);
    }
    Ok(())
}

fn resource(message: &[u8], allowed: &AllowList, service: &mut String) -> Result<Vec<u8>, Malformed> {
    let mut out = Vec::new();
    let mut dropped = 0_u64;
    for field in Fields::of(message) {
        let (number, value) = field?;
        match number {
            number::RESOURCE_ATTRIBUTES => match attribute(value.bytes(number)?, allowed)? {
                Some(kept) => {
                    put_bytes(number::RESOURCE_ATTRIBUTES, &kept.message, &mut out);
                    if let ("service.name", Some(Attribute::StringValue(name))) = (kept.key, kept.value) {
                        *service = name;
                    }
                }
                None => dropped += 1,
            },
            number::RESOURCE_DROPPED => dropped += value.varint(number)?.min(u32::MAX.into()),
            _ => {}
        }
    }
    put_count(number::RESOURCE_DROPPED, dropped, &mut out);
    Ok(out)
}

fn scope_spans(
    message: &[u8],
    allowed: &AllowList,
    kept: &mut Kept,
    out: &mut Vec<u8>,
) -> Result<(), Malformed> {
    let mut spans = Vec::new();
    let before = kept.spans;
    for field in Fields::of(message) {
        let (number, value) = field?;
        match number {
            number::SCOPE => put_bytes(number::SCOPE, &scope(value.bytes(number)?)?, &mut spans),
            number::SPANS => match span(value.bytes(number)?, allowed)? {
                Some(span) => {
                    put_bytes(number::SPANS, &span, &mut spans);
                    kept.spans += 1;
                }
                None => kept.invalid += 1,
            },
            _ => {}
        }
    }
    if kept.spans > before {
        put_bytes(number::SCOPE_SPANS, &spans, out);
    }
    Ok(())
}

/// The name and version of the library that made the spans.
fn scope(message: &[u8]) -> Result<Vec<u8>, Malformed> {
    let mut out = Vec::new();
    for field in Fields::of(message) {
        let (number, value) = field?;
        if let number::SCOPE_NAME | number::SCOPE_VERSION = number {
            put_bytes(number, value.text(number)?.as_bytes(), &mut out);
        }
    }
    Ok(out)
}

/// A span's kept fields; the last value for each counts.
#[derive(Default)]
struct Span<'a> {
    trace_id: &'a [u8],
    span_id: &'a [u8],
    parent: &'a [u8],
    name: &'a str,
    kind: u64,
    start: u64,
    end: u64,
    flags: u32,
    status: u64,
    /// Attributes and links, as fields.
    parts: Vec<u8>,
    dropped_attributes: u64,
    dropped_events: u64,
    dropped_links: u64,
}

/// The span's kept fields; `None` if an id is invalid, its parent's included.
fn span(message: &[u8], allowed: &AllowList) -> Result<Option<Vec<u8>>, Malformed> {
    let mut span = Span::default();
    for field in Fields::of(message) {
        let (number, value) = field?;
        match number {
            number::TRACE_ID => span.trace_id = value.bytes(number)?,
            number::SPAN_ID => span.span_id = value.bytes(number)?,
            number::PARENT => span.parent = value.bytes(number)?,
            number::NAME => span.name = value.text(number)?,
            number::KIND => span.kind = value.varint(number)?,
            number::START => span.start = value.fixed64(number)?,
            number::END => span.end = value.fixed64(number)?,
            number::FLAGS => span.flags = value.fixed32(number)?,
            number::ATTRIBUTES => match attribute(value.bytes(number)?, allowed)? {
                Some(kept) => put_bytes(number::ATTRIBUTES, &kept.message, &mut span.parts),
                None => span.dropped_attributes += 1,
            },
            number::EVENTS => span.dropped_events += 1,
            number::LINKS => match link(value.bytes(number)?)? {
                Some(link) => put_bytes(number::LINKS, &link, &mut span.parts),
                None => span.dropped_links += 1,
            },
            number::STATUS => span.status = status(value.bytes(number)?)?,
            number::DROPPED_ATTRIBUTES => {
                span.dropped_attributes += value.varint(number)?.min(u32::MAX.into())
            }
            number::DROPPED_EVENTS => span.dropped_events += value.varint(number)?.min(u32::MAX.into()),
            number::DROPPED_LINKS => span.dropped_links += value.varint(number)?.min(u32::MAX.into()),
            _ => {}
        }
    }
    if !is_id(span.trace_id, 16) || !is_id(span.span_id, 8) || !matches!(span.parent.len(), 0 | 8) {
        return Ok(None);
    }
    let mut out = Vec::new();
    put_bytes(number::TRACE_ID, span.trace_id, &mut out);
    put_bytes(number::SPAN_ID, span.span_id, &mut out);
    if !span.parent.is_empty() {
        put_bytes(number::PARENT, span.parent, &mut out);
    }
    put_bytes(number::NAME, span.name.as_bytes(), &mut out);
    put_number(number::KIND, span.kind, &mut out);
    put_fixed64(number::START, span.start, &mut out);
    put_fixed64(number::END, span.end, &mut out);
    out.append(&mut span.parts);
    put_count(number::DROPPED_ATTRIBUTES, span.dropped_attributes, &mut out);
    put_count(number::DROPPED_EVENTS, span.dropped_events, &mut out);
    put_count(number::DROPPED_LINKS, span.dropped_links, &mut out);
    if span.status != 0 {
        let mut status = Vec::new();
        put_number(number::STATUS_CODE, span.status, &mut status);
        put_bytes(number::STATUS, &status, &mut out);
    }
    put_fixed32(number::FLAGS, span.flags, &mut out);
    Ok(Some(out))
}

/// A status code, without the text.
fn status(message: &[u8]) -> Result<u64, Malformed> {
    let mut code = 0;
    for field in Fields::of(message) {
        let (number, value) = field?;
        if number == number::STATUS_CODE {
            code = value.varint(number)?;
        }
    }
    Ok(code)
}

/// A link's ids and flags; `None` without valid ids.
fn link(message: &[u8]) -> Result<Option<Vec<u8>>, Malformed> {
    let (mut trace_id, mut span_id, mut flags, mut dropped) = (&[][..], &[][..], 0, 0_u64);
    for field in Fields::of(message) {
        let (number, value) = field?;
        match number {
            number::TRACE_ID => trace_id = value.bytes(number)?,
            number::SPAN_ID => span_id = value.bytes(number)?,
            number::LINK_ATTRIBUTES => dropped += 1,
            number::LINK_DROPPED => dropped += value.varint(number)?.min(u32::MAX.into()),
            number::LINK_FLAGS => flags = value.fixed32(number)?,
            _ => {}
        }
    }
    if !is_id(trace_id, 16) || !is_id(span_id, 8) {
        return Ok(None);
    }
    let mut out = Vec::new();
    put_bytes(number::TRACE_ID, trace_id, &mut out);
    put_bytes(number::SPAN_ID, span_id, &mut out);
    put_count(number::LINK_DROPPED, dropped, &mut out);
    put_fixed32(number::LINK_FLAGS, flags, &mut out);
    Ok(Some(out))
}

/// A kept attribute.
struct KeptAttribute<'a> {
    key: &'a str,
    value: Option<Attribute>,
    /// `KeyValue` with only these two fields.
    message: Vec<u8>,
}

/// `None` for an attribute that is not on the list, is too large, or has attributes inside, which no list names.
fn attribute<'a>(message: &'a [u8], allowed: &AllowList) -> Result<Option<KeptAttribute<'a>>, Malformed> {
    let (mut key, mut bytes) = ("", &[][..]);
    for field in Fields::of(message) {
        let (number, value) = field?;
        match number {
            number::KEY => key = value.text(number)?,
            number::VALUE => bytes = value.bytes(number)?,
            _ => {}
        }
    }
    if key.len() + bytes.len() > MAX_ATTRIBUTE_BYTES || !allowed.has(key) {
        return Ok(None);
    }
    let value = AnyValue::decode(bytes).map_err(|_| Malformed::NoValue)?.value;
    if value.as_ref().is_some_and(has_attributes) {
        return Ok(None);
    }
    let mut message = Vec::new();
    put_bytes(number::KEY, key.as_bytes(), &mut message);
    // Encoded anew, so that no unknown field passes.
    put_bytes(number::VALUE, &AnyValue { value: value.clone() }.encode_to_vec(), &mut message);
    Ok(Some(KeptAttribute { key, value, message }))
}

/// Whether a value is a list of attributes, or contains one. Decoding limits its depth.
fn has_attributes(value: &Attribute) -> bool {
    match value {
        Attribute::KvlistValue(_) => true,
        Attribute::ArrayValue(array) => {
            array.values.iter().any(|value| value.value.as_ref().is_some_and(has_attributes))
        }
        _ => false,
    }
}

fn is_id(bytes: &[u8], length: usize) -> bool {
    bytes.len() == length && bytes.iter().any(|&byte| byte != 0)
}

/// A number of parts, capped at the protocol's 32 bits.
fn put_count(number: u64, count: u64, out: &mut Vec<u8>) {
    put_number(number, count.min(u32::MAX.into()), out);
}

#[cfg(test)]
mod tests;
