//! Trace and span identities.

use std::fmt;
use std::ops::RangeInclusive;

/// A trace's identity. A trace is a user's request, with all that services did for it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceId(pub [u8; 16]);

/// A span's identity within its trace.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanId(pub [u8; 8]);

impl TraceId {
    /// The identity with these bytes; `None` unless they are 16, not all zero.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.try_into().ok()?;
        (bytes != [0; 16]).then_some(Self(bytes))
    }

    /// The identity with these hex digits: 32, or fewer (Jaeger writes no leading zeros).
    pub fn from_hex(text: &str) -> Option<Self> {
        Self::from_bytes(&from_hex::<16>(text)?)
    }

    /// The identities that begin with these hex digits, at least one; `None` for other digits.
    pub fn beginning_with(digits: &str) -> Option<RangeInclusive<Self>> {
        let (first, last) = beginning_with::<16>(digits)?;
        Some(Self(first)..=Self(last))
    }
}

impl SpanId {
    /// The identity with these bytes; `None` unless they are 8, not all zero.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.try_into().ok()?;
        (bytes != [0; 8]).then_some(Self(bytes))
    }

    /// The identity with these hex digits: 16, or fewer (Jaeger writes no leading zeros).
    pub fn from_hex(text: &str) -> Option<Self> {
        Self::from_bytes(&from_hex::<8>(text)?)
    }

    /// The identities that begin with these hex digits, at least one; `None` for other digits.
    pub fn beginning_with(digits: &str) -> Option<RangeInclusive<Self>> {
        let (first, last) = beginning_with::<8>(digits)?;
        Some(Self(first)..=Self(last))
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

/// The first and the last value that begin with these digits.
fn beginning_with<const N: usize>(digits: &str) -> Option<([u8; N], [u8; N])> {
    if digits.is_empty() || digits.len() > 2 * N {
        return None;
    }
    let (mut first, mut last) = ([0; N], [0xff; N]);
    for (place, digit) in digits.bytes().enumerate() {
        let value = u8::try_from(char::from(digit).to_digit(16)?).ok()?;
        let shift = if place % 2 == 0 { 4 } else { 0 };
        first[place / 2] |= value << shift;
        last[place / 2] &= value << shift | 0xf0 >> shift;
    }
    Some((first, last))
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

    #[test]
    fn the_identities_that_begin_with_some_digits_are_those_whose_text_does() {
        let ids = [0x00, 0x0a, 0x1f, 0xa0, 0xab, 0xaf, 0xb0, 0xff]
            .map(|byte| SpanId([byte, 0xc3, 0, 0, 0, 0, 0, 7]));
        for digits in ["0", "a", "ab", "AB", "abc", "abc3", "ff", "0ac3000000000007", "b", "1e"] {
            let range = SpanId::beginning_with(digits).expect("digits");
            for id in ids {
                let begins = id.to_string().starts_with(&digits.to_ascii_lowercase());
                assert_eq!(range.contains(&id), begins, "{id} begins with {digits}");
            }
        }
        let traces = TraceId::beginning_with("f").expect("a digit");
        assert!(traces.contains(&TraceId([0xff; 16])) && !traces.contains(&TraceId([0xef; 16])));
        for digits in ["", "0ac30000000000071", "g", "é", "+1"] {
            assert_eq!(SpanId::beginning_with(digits), None, "{digits}");
        }
    }
}
