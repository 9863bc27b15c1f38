//! Reads numbers from bytes.

/// A place in bytes.
#[derive(Debug, Clone)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// The most bytes in a number: 64 bits, seven a byte.
const MAX_NUMBER_BYTES: usize = 10;

impl<'a> Cursor<'a> {
    pub(crate) const fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    /// The offset of the next byte.
    pub(crate) const fn offset(&self) -> usize {
        self.at
    }

    pub(crate) const fn is_at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    /// A number of variable length: seven bits a byte, the lowest first. `None` at the end, and for a number of more than 64 bits.
    pub(crate) fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for place in 0..MAX_NUMBER_BYTES {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if place == MAX_NUMBER_BYTES - 1 && byte > 1 {
                return None;
            }
            number |= bits << (7 * place);
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    /// The next `length` bytes, if there are as many.
    pub(crate) fn take(&mut self, length: u64) -> Option<&'a [u8]> {
        let end = self.at.checked_add(usize::try_from(length).ok()?)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_at_most_64_bits() {
        let largest = [[0xff; 9].as_slice(), &[1]].concat();
        let too_large = [[0xff; 9].as_slice(), &[2]].concat();
        let endless = [0x80; 20];
        // The runtime pads a batch's size to ten bytes.
        let padded = [[0x98].as_slice(), &[0x80; 8], &[0]].concat();
        for (bytes, expected) in [
            (&[5][..], Some(5)),
            (&[0x80, 1], Some(128)),
            (&largest, Some(u64::MAX)),
            (&padded, Some(0x18)),
            (&too_large, None),
            (&endless, None),
            (&[0x80], None),
            (&[], None),
        ] {
            assert_eq!(Cursor::new(bytes, 0).number(), expected, "{bytes:x?}");
        }
    }

    #[test]
    fn no_more_bytes_are_taken_than_there_are() {
        let mut cursor = Cursor::new(b"abc", 1);
        assert_eq!((cursor.take(3), cursor.take(u64::MAX)), (None, None));
        assert_eq!((cursor.take(2), cursor.offset(), cursor.is_at_end()), (Some(&b"bc"[..]), 3, true));
    }
}
