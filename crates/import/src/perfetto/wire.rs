//! Protocol buffers' encoding, as far as reading takes: fields from any bytes, or an end.

/// A field's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value<'a> {
    /// A number; negative numbers have their 64 bits.
    Number(u64),
    /// A text, a message or packed numbers.
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    pub const fn number(self) -> u64 {
        match self {
            Self::Number(number) => number,
            Self::Bytes(_) => 0,
        }
    }

    pub const fn bytes(self) -> &'a [u8] {
        match self {
            Self::Number(_) => &[],
            Self::Bytes(bytes) => bytes,
        }
    }
}

/// Reads a number and moves `bytes` behind it; `None` if it does not end there or is too long.
#[inline]
pub(super) fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for place in 0..10 {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << (7 * place);
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// A message's fields.
#[derive(Debug, Clone)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
    /// The bytes made no sense from some place on.
    pub damaged: bool,
}

impl<'a> Fields<'a> {
    pub const fn new(message: &'a [u8]) -> Self {
        Self { rest: message, damaged: false }
    }

    fn read(&mut self) -> Option<(u32, Value<'a>)> {
        let tag = varint(&mut self.rest)?;
        let field = u32::try_from(tag >> 3).ok().filter(|&field| field > 0)?;
        let mut take = |size: usize| {
            let (taken, rest) = self.rest.split_at_checked(size)?;
            self.rest = rest;
            Some(taken)
        };
        let value = match tag & 7 {
            0 => Value::Number(varint(&mut self.rest)?),
            1 => Value::Number(u64::from_le_bytes(*take(8)?.first_chunk()?)),
            5 => Value::Number(u32::from_le_bytes(*take(4)?.first_chunk()?).into()),
            2 => {
                let size = varint(&mut self.rest)?;
                let (taken, rest) = self.rest.split_at_checked(usize::try_from(size).ok()?)?;
                self.rest = rest;
                Value::Bytes(taken)
            }
            _ => return None,
        };
        Some((field, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u32, Value<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() || self.damaged {
            return None;
        }
        let read = self.read();
        self.damaged = read.is_none();
        read
    }
}

/// The limit on a repeated field's numbers: a small file unpacks to many bytes, and a bundle has some thousand events.
pub(super) const MAX_NUMBERS: usize = 1 << 18;

/// Adds a repeated field's numbers, packed or not; returns whether all could be read.
pub(super) fn numbers(value: Value<'_>, into: &mut Vec<u64>) -> bool {
    let mut packed = match value {
        Value::Number(number) => {
            into.push(number);
            return true;
        }
        Value::Bytes(packed) => packed,
    };
    while !packed.is_empty() {
        if into.len() == MAX_NUMBERS {
            return false;
        }
        let Some(number) = varint(&mut packed) else { return false };
        into.push(number);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples in the encoding's own description, and its ends.
    #[test]
    fn fields_are_read_as_the_encoding_says() {
        let read = |bytes| {
            let mut fields = Fields::new(bytes);
            (fields.by_ref().collect::<Vec<_>>(), fields.damaged)
        };
        assert_eq!(read(&[0x08, 0x96, 0x01]), (vec![(1, Value::Number(150))], false));
        assert_eq!(read(b"\x12\x07testing"), (vec![(2, Value::Bytes(b"testing"))], false));
        assert_eq!(
            read(b"\x0d\x01\0\0\0\x11\x02\0\0\0\0\0\0\0").0,
            [(1, Value::Number(1)), (2, Value::Number(2))]
        );
        assert_eq!(read(b"\x08\x05\x12\x07test"), (vec![(1, Value::Number(5))], true), "cut");
        for cut in [
            &b"\x08"[..],
            b"\x08\xff",
            b"\x0b",
            b"\x00\x01",
            &[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
        ] {
            assert_eq!(read(cut), (vec![], true), "{cut:?}");
        }
        let mut packed = Vec::new();
        assert!(numbers(Value::Bytes(b"\x03\x8e\x02\x9e\xa7\x05"), &mut packed));
        assert!(!numbers(Value::Bytes(b"\x80"), &mut packed));
        assert_eq!(packed, [3, 270, 86_942]);
    }
}
