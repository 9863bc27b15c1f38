//! Writing spans from applications during a recording.

use std::fs::File;
use std::io::{IoSlice, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;

use super::stream::{StreamFiles, write_all};
use super::{WriteError, space};
use crate::Place;
use crate::spans::{LENGTH_BYTES, MAX_FRAME_BYTES};

/// The spans' part of a recording's largest size: a sender of spans must not end the recording of kernel events.
const PART_OF_MOST: u64 = 4;

/// Writes a recording's spans, in any thread. They take at most a quarter of the room shared with the streams.
#[derive(Debug)]
pub struct SpanWriter {
    file: File,
    path: PathBuf,
    bytes: u64,
    most: u64,
    files: Arc<StreamFiles>,
    /// Keeps other recorders from deleting the recording.
    place: Place,
}

impl SpanWriter {
    pub(super) fn new(file: File, path: PathBuf, files: Arc<StreamFiles>, place: Place) -> Self {
        let most = files.budget.most() / PART_OF_MOST;
        Self { file, path, bytes: 0, most, files, place }
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
            _ => return Err(WriteError::LargeFrame { path: self.path.clone(), bytes: message.len() }),
        };
        let frame = (LENGTH_BYTES + message.len()) as u64;
        if self.bytes + frame > self.most {
            return Err(WriteError::SpansLimit { limit: self.most });
        }
        space(&self.files.kernel, self.place.asked(), &self.files.budget)?;
        self.files.budget.take(frame)?;
        let mut slices = [IoSlice::new(&length), IoSlice::new(message)];
        if let Err(e) = write_all(&mut self.file, &mut slices) {
            self.files.budget.give_back(frame);
            // Half a frame would end the file for every reader, as it does if even this fails.
            let _ = self.file.set_len(self.bytes);
            let _ = self.file.seek(SeekFrom::Start(self.bytes));
            return Err(WriteError::from_io(&self.path, e));
        }
        self.bytes += frame;
        Ok(())
    }

    /// The bytes written.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }
}
