//! Writing spans from applications during a recording.

use std::fs::File;
use std::io::IoSlice;
use std::path::PathBuf;
use std::sync::Arc;

use super::WriteError;
use super::beside::Beside;
use super::stream::StreamFiles;
use crate::Place;
use crate::spans::{LENGTH_BYTES, MAX_FRAME_BYTES};

/// The spans' part of a recording's largest size: a sender of spans must not end the recording of kernel events.
const PART_OF_MOST: u64 = 4;

/// Writes a recording's spans, in any thread. They take at most a quarter of the room shared with the streams.
#[derive(Debug)]
pub struct SpanWriter(Beside);

impl SpanWriter {
    pub(super) fn new(file: File, path: PathBuf, files: Arc<StreamFiles>, place: Place) -> Self {
        Self(Beside::new(file, path, files, place, PART_OF_MOST, u64::MAX))
    }

    /// Appends a message as a frame, in a single system call. An empty message leaves no frame.
    ///
    /// # Errors
    /// When there is no room ([`WriteError::is_out_of_room`]) or the file cannot be written: the frame is taken back
    /// whole. When the message is longer than [`MAX_FRAME_BYTES`].
    pub fn append(&mut self, message: &[u8]) -> Result<(), WriteError> {
        let length = match u32::try_from(message.len()) {
            Ok(0) => return Ok(()),
            Ok(length) if message.len() <= MAX_FRAME_BYTES => length.to_be_bytes(),
            _ => return Err(WriteError::LargeFrame { path: self.0.path.clone(), bytes: message.len() }),
        };
        let frame = (LENGTH_BYTES + message.len()) as u64;
        let mut slices = [IoSlice::new(&length), IoSlice::new(message)];
        self.0.append(&mut slices, frame, |limit| WriteError::SpansLimit { limit })
    }

    /// The bytes written.
    pub const fn bytes(&self) -> u64 {
        self.0.bytes()
    }
}
