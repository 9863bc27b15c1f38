//! The fragments' sequence (RFC 7464): each begins with a record separator and ends with a line feed.

use serde_json::{Map, Value};

/// Why CTF 2 metadata cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("fragment {fragment}: {text}")]
pub struct JsonError {
    /// The fragment, from 1.
    pub fragment: usize,
    /// The error.
    pub text: String,
}

/// The record separator.
const SEPARATOR: u8 = 0x1e;

/// The limit on a fragment's size, bytes: JSON takes some multiples of its text in memory.
const MAX_FRAGMENT_BYTES: usize = 4 << 20;

/// Whether metadata is CTF 2's: no TSDL text begins like a JSON fragment.
pub fn begins(bytes: &[u8]) -> bool {
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    matches!(first, Some(&(SEPARATOR | b'[' | b'{')))
}

/// The fragments, each with its number.
pub(super) fn fragments(
    bytes: &[u8],
) -> impl Iterator<Item = (usize, Result<Map<String, Value>, JsonError>)> + '_ {
    let mut parts = bytes.split(|&byte| byte == SEPARATOR);
    let before = parts.next().unwrap_or_default();
    let outside = (!before.trim_ascii().is_empty()).then(|| {
        let text = "no record separator, byte 0x1e, stands in front of it".to_owned();
        (1, Err(JsonError { fragment: 1, text }))
    });
    // Separators in a row count once.
    let parts = parts.filter(|part| !part.is_empty()).zip(1..);
    outside.into_iter().chain(
        parts.map(|(part, fragment)| (fragment, object(part).map_err(|text| JsonError { fragment, text }))),
    )
}

fn object(part: &[u8]) -> Result<Map<String, Value>, String> {
    if part.len() > MAX_FRAGMENT_BYTES {
        return Err(format!("it has more than {MAX_FRAGMENT_BYTES} bytes"));
    }
    match serde_json::from_slice(part) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err("it is not an object".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}
