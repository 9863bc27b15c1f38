//! Reads any record's fields by the layout table.

use crate::layout::{Element, FieldType, Layout};
use crate::length::number;
use crate::{DecodeError, Header, Kind, record_length};

/// A record's field, undecoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value<'a> {
    /// A number.
    Number(u64),
    /// Bytes: a text with its padding, or anything else.
    Bytes(&'a [u8]),
    /// Addresses.
    Addresses(Vec<u64>),
}

/// The fields behind the header of the first record in `bytes`, by their names in [`Layout`]: for
/// readers that show a record undecoded. [`crate::Decoder`] gives the meaning.
///
/// # Errors
/// If there is no whole record.
pub fn fields(bytes: &[u8]) -> Result<Vec<(&'static str, Value<'_>)>, DecodeError> {
    let record = bytes.get(..record_length(bytes)?).unwrap_or_default();
    let kind = Header::read(record).map_or(0, |header| header.kind);
    let layout = Layout::of(Kind::from_number(kind).ok_or(DecodeError::UnknownKind(kind))?);
    let mut found = Vec::with_capacity(layout.fields.len() + layout.tail.len());
    for field in layout.fields {
        let value = match field.ty {
            FieldType::Number(width) | FieldType::Bits(width) | FieldType::Choice(width, _) => {
                Value::Number(number(record, field.offset, width))
            }
            FieldType::Text(width) | FieldType::Octets(width) => {
                Value::Bytes(record.get(field.offset..field.offset + width).unwrap_or_default())
            }
        };
        found.push((field.name, value));
    }
    let mut at = layout.bytes;
    for tail in layout.tail {
        // Checked by `record_length`: all counted elements are there.
        let count = layout.field(tail.count).map_or(0, |field| number(record, field.offset, 4)) as usize;
        let end = at.saturating_add(count.saturating_mul(tail.element.bytes()));
        let bytes = record.get(at..end).unwrap_or_default();
        let value = match tail.element {
            Element::Address => Value::Addresses(bytes.chunks_exact(8).map(|a| number(a, 0, 8)).collect()),
            Element::Text | Element::Octet => Value::Bytes(bytes),
        };
        found.push((tail.name, value));
        at = end;
    }
    Ok(found)
}
