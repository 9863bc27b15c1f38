//! Reads spans from files and messages.

mod collect;
mod json;
mod packed;
mod protobuf;

use bytes::Bytes;

use collect::Collector;
pub use collect::{Dropped, EXPLAINS};
use packed::{Cut, Unpacked, unpack};

use crate::Spans;

/// The longest protobuf message in a file, bytes.
const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// The most bytes to which a compressed file may unpack.
const MAX_UNPACKED_BYTES: usize = 1 << 30;

/// Why spans could not be read, or not all of them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum ReadError {
    #[error(
        "neither OTLP (JSON or protobuf, as the Collector's file exporter writes them) nor Jaeger's JSON, Tempo's or Zipkin's (version 2)"
    )]
    Unknown,
    #[error("spans in version 1 of Zipkin's JSON, which is not read: version 2 is")]
    ZipkinV1,
    #[error("cannot be read from byte {at} on: {what}")]
    Damaged { at: usize, what: String },
    #[error("unpacks to more than {} MiB, the most that is read", MAX_UNPACKED_BYTES >> 20)]
    TooLarge,
    #[error("the compressed data is damaged or cut off: {what}")]
    Packed { what: String },
    #[error("unpacked, {0}")]
    Unpacked(Box<ReadError>),
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

    /// How many spans were read so far, repeated spans too: a file may repeat another's.
    pub fn count(&self) -> u64 {
        self.collector.count()
    }

    /// Takes a whole file: OTLP in protobuf, each message behind its length (4 bytes, big endian), as the
    /// OpenTelemetry Collector writes it, also with each message compressed; OTLP in JSON, with one or more documents;
    /// Tempo's, Jaeger's or Zipkin's JSON; each also in gzip or Zstandard.
    ///
    /// # Errors
    /// When the file has another format, or is damaged; spans before the damage are kept.
    pub fn take_file(&mut self, file: &Bytes) -> Result<(), ReadError> {
        match unpack(file, MAX_UNPACKED_BYTES) {
            Some(Unpacked { bytes, cut }) => {
                let read = self.take_plain(&bytes, MAX_UNPACKED_BYTES);
                // The cut explains a document that does not end.
                cut.map_or(read.map_err(|error| ReadError::Unpacked(Box::new(error))), |cut| Err(cut.into()))
            }
            None => self.take_plain(file, MAX_UNPACKED_BYTES),
        }
    }

    fn take_plain(&mut self, file: &Bytes, bound: usize) -> Result<(), ReadError> {
        const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
        let marked = if file.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        let file = file.slice(marked..);
        let first = file.iter().find(|byte| !byte.is_ascii_whitespace());
        let read = match first {
            None => Ok(()),
            Some(b'{') => json::take(&file, &mut self.collector),
            Some(b'[') => json::take_zipkin(&file, &mut self.collector),
            Some(_) => self.take_messages(&file, bound),
        };
        read.map_err(|error| match error {
            ReadError::Damaged { at, what } => ReadError::Damaged { at: marked + at, what },
            other => other,
        })
    }

    /// `bound` is the most bytes to which the messages may unpack together.
    fn take_messages(&mut self, file: &Bytes, mut bound: usize) -> Result<(), ReadError> {
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
            let mut message = file.slice(body..body + length);
            if let Some(Unpacked { bytes, cut }) = unpack(&message, bound.min(MAX_MESSAGE_BYTES)) {
                if let Some(cut) = cut {
                    return Err(cut.into());
                }
                bound -= bytes.len();
                message = bytes;
            }
            match message.first() {
                // No message in protobuf begins so.
                Some(b'{') => json::take(&message, &mut self.collector)
                    .map_err(|error| ReadError::Unpacked(Box::new(error)))?,
                _ => protobuf::take(message, &mut self.collector)
                    .map_err(|error| damaged(&error.to_string()))?,
            }
            at = body + length;
        }
        Ok(())
    }

    /// The spans, each once, in time order; and the numbers of dropped spans.
    pub fn finish(self) -> (Spans, Dropped) {
        self.collector.finish()
    }
}

impl From<Cut> for ReadError {
    fn from(cut: Cut) -> Self {
        match cut {
            Cut::TooLarge => Self::TooLarge,
            Cut::Damaged(what) => Self::Packed { what },
        }
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

    #[test]
    fn the_messages_of_a_file_share_one_bound() {
        use ruzstd::encoding::{CompressionLevel, compress_to_vec};
        let text = |id: u8| {
            format!(
                r#"{{"resourceSpans": [{{"scopeSpans": [{{"spans": [{{"traceId": "07", "spanId": "{id}", "startTimeUnixNano": 5, "endTimeUnixNano": 9}}]}}]}}]}}"#
            )
        };
        let framed = |id| {
            let message = compress_to_vec(text(id).as_bytes(), CompressionLevel::Fastest);
            [&(message.len() as u32).to_be_bytes()[..], &message].concat()
        };
        let file = Bytes::from([framed(1), framed(2), framed(3)].concat());
        let length = text(1).len();
        for (bound, count) in [(length - 1, 0), (length, 1), (3 * length - 1, 2), (3 * length, 3)] {
            let mut reader = Reader::default();
            let read = reader.take_plain(&file, bound);
            let expected = if count < 3 { Err(ReadError::TooLarge) } else { Ok(()) };
            assert_eq!((reader.count(), read), (count, expected), "{bound}");
        }
    }
}
