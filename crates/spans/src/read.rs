//! Reads spans from files and messages.

mod collect;
mod json;
mod protobuf;

use bytes::Bytes;

use collect::Collector;
pub use collect::{Dropped, EXPLAINS};

use crate::Spans;

/// The longest protobuf message in a file, bytes.
const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// Why spans could not be read, or not all of them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum ReadError {
    #[error(
        "neither OTLP (JSON or protobuf, as the Collector's file exporter writes them) nor Jaeger's JSON"
    )]
    Unknown,
    #[error("cannot be read from byte {at} on: {what}")]
    Damaged { at: usize, what: String },
}

/// Collects spans, message by message.
#[derive(Debug, Default)]
pub struct Reader {
    collector: Collector,
}

impl Reader {
    /// Names the recording, among several, that received the messages from here on; `None` for files.
    pub fn received_by(&mut self, recording: Option<u16>) {
        self.collector.received_by(recording);
    }

    /// Takes an OTLP message in protobuf: `TracesData`, or an export request, which has the same form.
    ///
    /// # Errors
    /// When the bytes are no such message; spans before the damage are kept.
    pub fn take_protobuf(&mut self, message: Bytes) -> Result<(), ReadError> {
        protobuf::take(message, &mut self.collector)
            .map_err(|error| ReadError::Damaged { at: 0, what: error.to_string() })
    }

    /// Takes a whole file: OTLP in protobuf, each message behind its length (4 bytes, big endian), as the
    /// OpenTelemetry Collector writes it; OTLP in JSON, with one or more documents; or Jaeger's JSON.
    ///
    /// # Errors
    /// When the file has another format, or is damaged; spans before the damage are kept.
    pub fn take_file(&mut self, file: &Bytes) -> Result<(), ReadError> {
        let first = file.iter().find(|byte| !byte.is_ascii_whitespace());
        match first {
            None => Ok(()),
            Some(b'{') => json::take(file, &mut self.collector),
            Some(_) => self.take_messages(file),
        }
    }

    fn take_messages(&mut self, file: &Bytes) -> Result<(), ReadError> {
        let mut at = 0;
        while at < file.len() {
            let damaged = |what: &str| match at {
                0 => ReadError::Unknown,
                at => ReadError::Damaged { at, what: what.to_owned() },
            };
            let Some(length) = file.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()) else {
                return Err(damaged("the length of a message is cut off"));
            };
            let length = u32::from_be_bytes(length) as usize;
            let body = at + 4;
            if length > MAX_MESSAGE_BYTES || length > file.len() - body {
                return Err(damaged("a message is cut off, or its length is no length"));
            }
            protobuf::take(file.slice(body..body + length), &mut self.collector)
                .map_err(|error| damaged(&error.to_string()))?;
            at = body + length;
        }
        Ok(())
    }

    /// The spans, each once, in time order; and the numbers of dropped spans.
    pub fn finish(self) -> (Spans, Dropped) {
        self.collector.finish()
    }
}

/// A file's spans: [`Reader::take_file`].
///
/// # Errors
/// When the file has another format, or is damaged.
pub fn read(file: &Bytes) -> Result<(Spans, Dropped), ReadError> {
    let mut reader = Reader::default();
    reader.take_file(file)?;
    Ok(reader.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with a message of `length` bytes: an unknown field full of zeros.
    fn file_of(length: usize) -> Bytes {
        // Behind the message length stand the field's key (number 15, bytes) and its length in base 128.
        let mut file = vec![0; 4 + length];
        file[..4].copy_from_slice(&(length as u32).to_be_bytes());
        file[4] = 15 << 3 | 2;
        let mut rest = length - 6;
        for byte in &mut file[5..10] {
            *byte = 0x80 | (rest & 0x7f) as u8;
            rest >>= 7;
        }
        file[9] &= 0x7f;
        file.into()
    }

    #[test]
    fn a_message_may_be_as_long_as_the_limit_and_no_longer() {
        assert_eq!(read(&file_of(MAX_MESSAGE_BYTES)).map(|(_, dropped)| dropped), Ok(Dropped::default()));
        for more in 1..3 {
            assert_eq!(read(&file_of(MAX_MESSAGE_BYTES + more)), Err(ReadError::Unknown), "{more} more");
        }
    }
}
