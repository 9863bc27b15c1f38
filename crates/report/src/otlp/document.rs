//! OTLP's `TracesData` in JSON, as far as it is written here: ids as hex digits, 64-bit numbers as texts.

use serde::Serialize;
use wakepath_engine::requests::{SpanId, TraceId};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TracesData {
    pub resource_spans: Vec<ResourceSpans>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSpans {
    pub resource: Resource,
    pub scope_spans: Vec<ScopeSpans>,
}

#[derive(Serialize)]
pub struct Resource {
    pub attributes: Vec<Attribute>,
}

#[derive(Serialize)]
pub struct ScopeSpans {
    pub scope: Scope,
    pub spans: Vec<Span>,
}

#[derive(Serialize, Default)]
pub struct Scope {
    pub name: &'static str,
    pub version: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Span {
    pub trace_id: String,
    pub span_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_span_id: Option<String>,
    pub name: String,
    /// `SpanKind`.
    pub kind: u32,
    pub start_time_unix_nano: String,
    pub end_time_unix_nano: String,
    pub attributes: Vec<Attribute>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<Link>,
    pub status: Status,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Link {
    pub trace_id: String,
    pub span_id: String,
    pub attributes: Vec<Attribute>,
}

#[derive(Serialize, Default)]
pub struct Status {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<u32>,
}

#[derive(Serialize)]
pub struct Attribute {
    key: String,
    value: Value,
}

#[derive(Serialize)]
enum Value {
    #[serde(rename = "stringValue")]
    Text(String),
    #[serde(rename = "intValue")]
    Number(String),
    #[serde(rename = "doubleValue")]
    Ratio(f64),
}

/// A text.
pub fn text(key: impl Into<String>, value: impl Into<String>) -> Attribute {
    Attribute { key: key.into(), value: Value::Text(value.into()) }
}

/// A whole number.
pub fn number(key: impl Into<String>, value: impl Into<u64>) -> Attribute {
    Attribute { key: key.into(), value: Value::Number(value.into().to_string()) }
}

/// A share, 0 to 1.
pub fn ratio(key: impl Into<String>, part: u64, whole: u64) -> Attribute {
    let value = if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
    Attribute { key: key.into(), value: Value::Ratio(value) }
}

/// An id for a span in a trace, the same each time: by the explained span, and the new span's place among its
/// explanations.
pub fn made_id(trace: TraceId, explained: SpanId, place: u64) -> SpanId {
    // FNV-1a over all input, then the last steps of SplitMix64: neighbouring places differ in all digits.
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let place = place.to_be_bytes();
    let all = b"wakepath".iter().chain(&trace.0).chain(&explained.0).chain(&place);
    let mut hash = all.fold(BASIS, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME));
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    SpanId((hash ^ (hash >> 31)).max(1).to_be_bytes())
}
