//! Protobuf's wire format, field by field, without memory per field.
//!
//! A message with 4 MiB can hold two million spans with two bytes each. Decoded into structs they would take more than a hundred
//! times their size, so untrusted messages are filtered without decoding.

use prost::{decode_length_delimiter, encode_length_delimiter};

/// A field's value, with its bytes as in the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    /// A text, bytes, or a message.
    Bytes(&'a [u8]),
}

/// The bytes are no message of the expected kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum Malformed {
    #[error("a field is cut off")]
    Short,
    #[error("a field has no number")]
    NoNumber,
    #[error("field {0} has an unknown type")]
    UnknownType(u64),
    #[error("field {0} has another type than in the protocol")]
    OtherType(u64),
    #[error("a text is not UTF-8")]
    NotText,
    #[error("an attribute has no value that can be read")]
    NoValue,
}

/// A message's fields, in their order.
#[derive(Debug, Clone)]
pub(crate) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn of(message: &'a [u8]) -> Self {
        Self(message)
    }

    fn read(&mut self) -> Result<(u64, Value<'a>), Malformed> {
        let key = self.varint()?;
        let number = key >> 3;
        if number == 0 {
            return Err(Malformed::NoNumber);
        }
        let value = match key & 7 {
            0 => Value::Varint(self.varint()?),
            1 => Value::Fixed64(u64::from_le_bytes(*self.take(8)?.first_chunk().ok_or(Malformed::Short)?)),
            2 => {
                let length = self.varint()?;
                Value::Bytes(self.take(length)?)
            }
            5 => Value::Fixed32(u32::from_le_bytes(*self.take(4)?.first_chunk().ok_or(Malformed::Short)?)),
            // 3 and 4 were groups, which the protocol does not use.
            _ => return Err(Malformed::UnknownType(number)),
        };
        Ok((number, value))
    }

    /// A number with variable length. Lengths are such numbers.
    fn varint(&mut self) -> Result<u64, Malformed> {
        decode_length_delimiter(&mut self.0).map(|number| number as u64).map_err(|_| Malformed::Short)
    }

    fn take(&mut self, bytes: u64) -> Result<&'a [u8], Malformed> {
        let bytes = usize::try_from(bytes).map_err(|_| Malformed::Short)?;
        let (taken, rest) = self.0.split_at_checked(bytes).ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(taken)
    }
}

/// An error is the last item.
impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.read();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

impl<'a> Value<'a> {
    /// The bytes of field `number`; an error for another type.
    pub(crate) fn bytes(self, number: u64) -> Result<&'a [u8], Malformed> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(Malformed::OtherType(number)),
        }
    }

    /// The text of field `number`.
    pub(crate) fn text(self, number: u64) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes(number)?).map_err(|_| Malformed::NotText)
    }

    pub(crate) fn varint(self, number: u64) -> Result<u64, Malformed> {
        match self {
            Self::Varint(value) => Ok(value),
            _ => Err(Malformed::OtherType(number)),
        }
    }

    pub(crate) fn fixed64(self, number: u64) -> Result<u64, Malformed> {
        match self {
            Self::Fixed64(value) => Ok(value),
            _ => Err(Malformed::OtherType(number)),
        }
    }

    pub(crate) fn fixed32(self, number: u64) -> Result<u32, Malformed> {
        match self {
            Self::Fixed32(value) => Ok(value),
            _ => Err(Malformed::OtherType(number)),
        }
    }
}

/// Appends a field with bytes: a text, or a message.
pub(crate) fn put_bytes(number: u64, bytes: &[u8], out: &mut Vec<u8>) {
    put_varint(number << 3 | 2, out);
    put_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Appends a field with a variable-length number, unless it has its default.
pub(crate) fn put_number(number: u64, value: u64, out: &mut Vec<u8>) {
    if value != 0 {
        put_varint(number << 3, out);
        put_varint(value, out);
    }
}

/// Appends a field with 8 bytes, unless it has its default.
pub(crate) fn put_fixed64(number: u64, value: u64, out: &mut Vec<u8>) {
    if value != 0 {
        put_varint(number << 3 | 1, out);
        out.extend_from_slice(&value.to_le_bytes());
    }
}

/// Appends a field with 4 bytes, unless it has its default.
pub(crate) fn put_fixed32(number: u64, value: u32, out: &mut Vec<u8>) {
    if value != 0 {
        put_varint(number << 3 | 5, out);
        out.extend_from_slice(&value.to_le_bytes());
    }
}

fn put_varint(value: u64, out: &mut Vec<u8>) {
    // A vector takes any number of bytes.
    let _ = encode_length_delimiter(value as usize, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_as_they_were_written() {
        let mut out = Vec::new();
        put_bytes(1, b"text", &mut out);
        put_number(10, u64::MAX, &mut out);
        put_number(11, 0, &mut out);
        put_fixed64(7, 1, &mut out);
        put_fixed32(16, 0x0102_0304, &mut out);
        let fields: Result<Vec<_>, _> = Fields::of(&out).collect();
        let expected = [
            (1, Value::Bytes(b"text")),
            (10, Value::Varint(u64::MAX)),
            (7, Value::Fixed64(1)),
            (16, Value::Fixed32(0x0102_0304)),
        ];
        assert_eq!(fields.as_deref(), Ok(&expected[..]));
    }

    #[test]
    fn bytes_that_are_no_message_are_an_error_and_the_end() {
        for (bytes, error) in [
            (&[0x0a][..], Malformed::Short),
            (&[0x0a, 2, 1], Malformed::Short),
            (&[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], Malformed::Short),
            (&[0x09, 1, 2, 3], Malformed::Short),
            (&[0x0d, 1, 2, 3], Malformed::Short),
            (&[0x80], Malformed::Short),
            (&[0x02, 0], Malformed::NoNumber),
            (&[0x0b], Malformed::UnknownType(1)),
            (&[0x16], Malformed::UnknownType(2)),
        ] {
            let fields: Vec<_> = Fields::of(bytes).collect();
            assert_eq!(fields, [Err(error)], "{bytes:?}");
        }
        assert_eq!(Fields::of(&[]).next(), None);
    }
}
