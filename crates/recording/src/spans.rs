//! Reading a recording's spans: the file `spans`, in the protobuf format written by the OpenTelemetry Collector's
//! file exporter.
//!
//! A frame is a length, 4 bytes, big endian, then a `TracesData` message with this length. This crate does not read
//! the messages.

use std::fs::File;
use std::io::{self, BufReader, Read};

/// The file name, beside the directory `kernel`.
pub(crate) const SPANS: &str = "spans";
/// The length before each message, bytes.
pub(crate) const LENGTH_BYTES: usize = 4;
/// The largest message in a frame, bytes. A receiver accepts a quarter.
pub const MAX_FRAME_BYTES: usize = 16 << 20;

/// The frames in a file of spans, in the order of writing.
#[derive(Debug)]
pub struct SpanFrames<R = BufReader<File>> {
    input: R,
    /// The next frame's offset, bytes.
    offset: u64,
    end: Option<FramesEnd>,
}

/// The end of a file of spans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FramesEnd {
    /// Behind a whole frame.
    Whole,
    /// Within a frame, or before bytes that are no frame. Nothing behind can be read, since frames are not
    /// recognisable by their content.
    Torn {
        /// The offset of the first broken frame, bytes.
        offset: u64,
        /// Its fault.
        why: TornFrame,
    },
}

/// A broken frame's fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum TornFrame {
    #[error("a length needs {LENGTH_BYTES} bytes, found {found}")]
    Length { found: usize },
    #[error("the frame says it has {claimed} bytes, found {found}")]
    Short { claimed: usize, found: usize },
    /// No writer writes an empty frame; a file system may fill a file's end with zeros after a crash.
    #[error("the frame says it has no bytes")]
    Empty,
    #[error("the frame says it has {claimed} bytes, more than the largest, {MAX_FRAME_BYTES}")]
    TooLarge { claimed: u32 },
    #[error("cannot be read: {0}")]
    Io(String),
}

impl SpanFrames<BufReader<File>> {
    pub(crate) fn from_file(file: File) -> Self {
        Self::new(BufReader::new(file))
    }
}

impl<R: Read> SpanFrames<R> {
    /// Reads frames from these bytes: the same code reads files.
    pub fn new(input: R) -> Self {
        Self { input, offset: 0, end: None }
    }

    /// The file's end; `None` until all frames are read.
    pub fn end(&self) -> Option<&FramesEnd> {
        self.end.as_ref()
    }

    /// Whether the file ended within a frame, as after a killed writer; `false` until all frames are read.
    pub fn torn(&self) -> bool {
        matches!(self.end, Some(FramesEnd::Torn { .. }))
    }

    fn read(&mut self) -> Result<Option<Vec<u8>>, TornFrame> {
        let io = |error: io::Error| TornFrame::Io(error.to_string());
        let length = self.up_to(LENGTH_BYTES).map_err(io)?;
        let claimed = match *length.as_slice() {
            [] => return Ok(None),
            [a, b, c, d] => u32::from_be_bytes([a, b, c, d]),
            _ => return Err(TornFrame::Length { found: length.len() }),
        };
        if claimed == 0 {
            return Err(TornFrame::Empty);
        }
        let claimed = match usize::try_from(claimed) {
            Ok(bytes) if bytes <= MAX_FRAME_BYTES => bytes,
            _ => return Err(TornFrame::TooLarge { claimed }),
        };
        let message = self.up_to(claimed).map_err(io)?;
        if message.len() < claimed {
            return Err(TornFrame::Short { claimed, found: message.len() });
        }
        self.offset += (LENGTH_BYTES + claimed) as u64;
        Ok(Some(message))
    }

    /// Reads up to `bytes`; fewer at the file's end. Memory grows with the bytes read, not with the claim.
    fn up_to(&mut self, bytes: usize) -> io::Result<Vec<u8>> {
        let mut found = Vec::new();
        self.input.by_ref().take(bytes as u64).read_to_end(&mut found)?;
        Ok(found)
    }
}

/// The messages.
impl<R: Read> Iterator for SpanFrames<R> {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        if self.end.is_some() {
            return None;
        }
        match self.read() {
            Ok(Some(message)) => return Some(message),
            Ok(None) => self.end = Some(FramesEnd::Whole),
            Err(why) => self.end = Some(FramesEnd::Torn { offset: self.offset, why }),
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More than any test file has.
    const MAX_FRAMES: usize = 10;

    fn read(bytes: &[u8]) -> (Vec<Vec<u8>>, FramesEnd) {
        let mut frames = SpanFrames::new(bytes);
        let messages = frames.by_ref().take(MAX_FRAMES).collect();
        assert_eq!(frames.next(), None, "an end stays one");
        let end = frames.end().expect("an end").clone();
        assert_eq!(frames.torn(), end != FramesEnd::Whole);
        (messages, end)
    }

    fn torn(offset: u64, why: TornFrame) -> FramesEnd {
        FramesEnd::Torn { offset, why }
    }

    #[test]
    fn a_file_that_is_cut_anywhere_gives_its_whole_frames_and_says_so() {
        let bytes = [&[0, 0, 0, 3][..], b"abc", &[0, 0, 0, 1], b"d"].concat();
        for cut in 0..=bytes.len() {
            let (messages, end) = read(&bytes[..cut]);
            let whole: &[&[u8]] = match cut {
                0..7 => &[],
                7..12 => &[b"abc"],
                _ => &[b"abc", b"d"],
            };
            assert_eq!(messages, whole, "cut at {cut}");
            let expected = match cut {
                0 | 7 | 12 => FramesEnd::Whole,
                1..4 => torn(0, TornFrame::Length { found: cut }),
                4..7 => torn(0, TornFrame::Short { claimed: 3, found: cut - 4 }),
                8..=10 => torn(7, TornFrame::Length { found: cut - 7 }),
                _ => torn(7, TornFrame::Short { claimed: 1, found: 0 }),
            };
            assert_eq!(end, expected, "cut at {cut}");
        }
    }

    #[test]
    fn a_length_is_not_believed() {
        let largest = u32::try_from(MAX_FRAME_BYTES).expect("a length");
        let claims = |length: u32| read(&[&length.to_be_bytes()[..], b"x"].concat()).1;
        assert_eq!(claims(largest), torn(0, TornFrame::Short { claimed: MAX_FRAME_BYTES, found: 1 }));
        assert_eq!(claims(largest + 1), torn(0, TornFrame::TooLarge { claimed: largest + 1 }));
        assert_eq!(claims(u32::MAX), torn(0, TornFrame::TooLarge { claimed: u32::MAX }));
        assert_eq!(claims(0), torn(0, TornFrame::Empty), "zeros behind the end are no frames");
    }

    #[test]
    fn an_error_of_the_disk_is_an_end_with_its_place() {
        struct Bad;
        impl Read for Bad {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("bad sector"))
            }
        }
        let mut frames = SpanFrames::new((&[0, 0, 0, 1, 7][..]).chain(Bad));
        assert_eq!(frames.next(), Some(vec![7]));
        assert_eq!(frames.next(), None);
        assert_eq!(frames.end(), Some(&torn(5, TornFrame::Io("bad sector".to_owned()))));
    }
}
