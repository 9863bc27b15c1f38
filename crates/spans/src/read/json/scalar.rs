//! A JSON value, read where it is used, in each form that a writer may give it.

use std::borrow::Cow;
use std::fmt::{self, Formatter};

use base64::Engine;
use base64::alphabet::{Alphabet, STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::super::protobuf::kind;
use crate::{Kind, SpanId, TraceId};

/// The number of the error status code.
const ERROR: u64 = 2;

/// An identity's bytes in base64: with either alphabet, with or without padding, as the rules for protobuf in JSON allow.
/// OTLP's identities are hex, and some writers follow these rules instead.
fn base64(text: &str) -> Option<Vec<u8>> {
    const fn by(alphabet: &Alphabet) -> GeneralPurpose {
        let padding = DecodePaddingMode::Indifferent;
        GeneralPurpose::new(alphabet, GeneralPurposeConfig::new().with_decode_padding_mode(padding))
    }
    const EITHER: [GeneralPurpose; 2] = [by(&STANDARD), by(&URL_SAFE)];
    EITHER.iter().find_map(|engine| engine.decode(text).ok())
}

/// A value's text in the document; `None` for null and for a missing value.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(transparent)]
pub(super) struct Scalar<'a>(#[serde(borrow)] Option<&'a RawValue>);

impl<'a> From<&'a RawValue> for Scalar<'a> {
    fn from(value: &'a RawValue) -> Self {
        Self(Some(value))
    }
}

impl<'a> Scalar<'a> {
    /// The value as an object; `None` for another type, or where a key has an impossible value.
    pub(super) fn object<T: Deserialize<'a>>(self) -> Option<T> {
        let text = self.0?.get();
        text.starts_with('{').then(|| serde_json::from_str(text).ok())?
    }

    /// The value as a list; `None` for another type.
    pub(super) fn list(self) -> Option<Vec<&'a RawValue>> {
        let text = self.0?.get();
        text.starts_with('[').then(|| serde_json::from_str(text).ok())?
    }

    pub(super) fn is_there(self) -> bool {
        self.0.is_some()
    }

    /// The value as a text; `None` for another type.
    pub(super) fn text(self) -> Option<Cow<'a, str>> {
        let quoted = self.0?.get().strip_prefix('"')?.strip_suffix('"')?;
        if !quoted.contains('\\') {
            return Some(quoted.into());
        }
        serde_json::Deserializer::from_str(self.0?.get()).deserialize_bytes(Text).ok().map(Cow::Owned)
    }

    /// The value as a number; `None` for another type, a negative number or a fraction. OTLP's JSON writes 64-bit numbers as texts, and
    /// some writers have no whole numbers.
    pub(super) fn number(self) -> Option<u64> {
        let text = self.text().or_else(|| Some(self.0?.get().into()))?;
        let rounded = || {
            let number: f64 = text.parse().ok()?;
            // The bound 2^64, which is also accepted, rounds down to `u64::MAX`.
            let is_whole = number.fract() == 0.0 && (0.0..=u64::MAX as f64).contains(&number);
            is_whole.then_some(number as u64)
        };
        text.parse().ok().or_else(rounded)
    }

    /// A thread or process number; 0 is `None`.
    pub(super) fn small(self) -> Option<u32> {
        u32::try_from(self.number()?).ok().filter(|number| *number > 0)
    }

    /// A trace identity.
    pub(super) fn trace(self) -> Option<TraceId> {
        let text = self.text()?;
        TraceId::from_hex(&text).or_else(|| TraceId::from_bytes(&base64(&text)?))
    }

    /// A span identity.
    pub(super) fn span(self) -> Option<SpanId> {
        let text = self.text()?;
        SpanId::from_hex(&text).or_else(|| SpanId::from_bytes(&base64(&text)?))
    }

    /// A span kind, from its number or name.
    pub(super) fn kind(self) -> Kind {
        match self.number() {
            Some(number) => i32::try_from(number).map_or(Kind::Unspecified, kind),
            None => self.text().map_or(Kind::Unspecified, |name| named_kind(&name)),
        }
    }

    /// Whether a status code is the error code, from its number or name.
    pub(super) fn is_error(self) -> bool {
        self.number() == Some(ERROR) || self.text().is_some_and(|name| name == "STATUS_CODE_ERROR")
    }

    /// Whether the value is true, also as a text.
    pub(super) fn is_true(self) -> bool {
        self.0.is_some_and(|value| matches!(value.get(), "true" | "\"true\""))
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
    let name = name.strip_prefix("SPAN_KIND_").unwrap_or(name);
    kinds
        .into_iter()
        .find(|(known, _)| name.eq_ignore_ascii_case(known))
        .map_or(Kind::Unspecified, |(_, kind)| kind)
}

/// Reads a text with escapes. JavaScript cuts texts within a character, and then writes half a surrogate pair, which is no character:
/// it is replaced.
struct Text;

impl Visitor<'_> for Text {
    type Value = String;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<String, E> {
        Ok(String::from_utf8_lossy(bytes).into())
    }
}
