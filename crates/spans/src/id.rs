//! The identities of traces and spans.

use std::fmt;

/// The identity of a trace: of one request of a user, with all that services did for it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceId(pub [u8; 16]);

/// The identity of a span within its trace.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanId(pub [u8; 8]);

impl TraceId {
    /// The identity of these bytes; `None` if there are not 16 of them, or all are zero.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.try_into().ok()?;
        (bytes != [0; 16]).then_some(Self(bytes))
    }

    /// The identity with these hex digits: 32, or fewer (Jaeger writes no leading zeros).
    pub fn from_hex(text: &str) -> Option<Self> {
        Self::from_bytes(&from_hex::<16>(text)?)
    }
}

impl SpanId {
    /// The identity of these bytes; `None` if there are not 8 of them, or all are zero.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.try_into().ok()?;
        (bytes != [0; 8]).then_some(Self(bytes))
    }

    /// The identity with these hex digits: 16, or fewer (Jaeger writes no leading zeros).
    pub fn from_hex(text: &str) -> Option<Self> {
        Self::from_bytes(&from_hex::<8>(text)?)
    }
}

fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.is_empty() || digits.len() > 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (place, digit) in digits.iter().rev().enumerate() {
        let value = u8::try_from(char::from(*digit).to_digit(16)?).ok()?;
        bytes[N - 1 - place / 2] |= value << (4 * (place % 2));
    }
    Some(bytes)
}

fn write_hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Debug for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_read_as_it_is_written_also_without_leading_zeros() {
        let id = SpanId::from_hex("0a1b2c3d4e5f6071").expect("an id");
        assert_eq!(id.to_string(), "0a1b2c3d4e5f6071");
        assert_eq!(SpanId::from_hex("a1b2c3d4e5f6071"), Some(id));
        assert_eq!(id.0[0], 0x0a);
        assert_eq!(format!("{id:?}"), id.to_string());
        let trace = TraceId::from_hex("1F").expect("an id");
        assert_eq!(trace.to_string(), "0000000000000000000000000000001f");
        assert_eq!(format!("{trace:?}"), trace.to_string());
    }

    #[test]
    fn zero_too_many_digits_and_what_is_no_digit_are_no_identity() {
        for text in ["", "0", "0000000000000000", "g", "0a1b2c3d4e5f60711", "+1", "é"] {
            assert_eq!(SpanId::from_hex(text), None, "{text}");
        }
        assert_eq!(SpanId::from_bytes(&[1; 7]), None);
        assert_eq!(SpanId::from_bytes(&[0; 8]), None);
        assert_eq!(TraceId::from_bytes(&[0; 16]), None);
        assert_eq!(TraceId::from_bytes(&[1; 17]), None);
    }
}
