//! Protocol buffers, as far as writing a Perfetto trace takes: a message is bytes, a field is a tag and a value, a
//! nested message is bytes after their length.

use prost::encoding::{WireType, encode_key, encode_varint, fixed64, uint64};

/// A message under construction.
#[derive(Debug, Default, Clone)]
pub struct Message(Vec<u8>);

impl Message {
    /// An empty message.
    pub fn new() -> Self {
        Self::default()
    }

    /// The message's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// A number: `uint64`, `uint32`, `bool` or an enum.
    pub fn number(mut self, field: u32, value: u64) -> Self {
        uint64::encode(field, &value, &mut self.0);
        self
    }

    /// `fixed64`.
    pub fn fixed(mut self, field: u32, value: u64) -> Self {
        fixed64::encode(field, &value, &mut self.0);
        self
    }

    /// `bytes`.
    pub fn blob(mut self, field: u32, blob: &[u8]) -> Self {
        encode_key(field, WireType::LengthDelimited, &mut self.0);
        encode_varint(blob.len() as u64, &mut self.0);
        self.0.extend_from_slice(blob);
        self
    }

    /// `string`.
    pub fn text(self, field: u32, text: &str) -> Self {
        self.blob(field, text.as_bytes())
    }

    /// A message within.
    pub fn message(self, field: u32, message: &Self) -> Self {
        self.blob(field, &message.0)
    }

    /// `repeated` numbers, packed. Without values, the field is left out.
    pub fn packed(mut self, field: u32, values: impl IntoIterator<Item = u64>) -> Self {
        uint64::encode_packed(field, &values.into_iter().collect::<Vec<_>>(), &mut self.0);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_as_the_encoding_says() {
        // The examples in the encoding's own description, and the ends of the ranges.
        assert_eq!(Message::new().number(1, 150).bytes(), [0x08, 0x96, 0x01]);
        assert_eq!(Message::new().text(2, "testing").bytes(), b"\x12\x07testing");
        let inner = Message::new().number(1, 150);
        assert_eq!(Message::new().message(3, &inner).bytes(), [0x1a, 0x03, 0x08, 0x96, 0x01]);
        assert_eq!(Message::new().packed(6, [3, 270, 86_942]).bytes(), b"\x32\x06\x03\x8e\x02\x9e\xa7\x05");
        assert_eq!(
            Message::new().number(16, u64::MAX).bytes(),
            b"\x80\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
        );
        assert_eq!(Message::new().fixed(47, 5).bytes(), b"\xf9\x02\x05\0\0\0\0\0\0\0");
        assert_eq!(Message::new().packed(6, []).bytes(), b"");
    }
}
