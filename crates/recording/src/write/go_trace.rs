//! Writing a Go program's execution trace during a recording.

use std::fs::File;
use std::io::IoSlice;
use std::path::PathBuf;
use std::sync::Arc;

use super::stream::{StreamFiles, write_all};
use super::{WriteError, space};
use crate::Place;
use crate::go_traces::MAX_GO_TRACE_BYTES;

/// A trace's largest part in a recording's largest size.
const PART_OF_MOST: u64 = 8;

/// Writes a Go program's execution trace, in any thread.
#[derive(Debug)]
pub struct GoTraceWriter {
    file: File,
    path: PathBuf,
    bytes: u64,
    most: u64,
    files: Arc<StreamFiles>,
    /// Keeps other recorders from deleting the recording.
    place: Place,
}

impl GoTraceWriter {
    pub(super) fn new(file: File, path: PathBuf, files: Arc<StreamFiles>, place: Place) -> Self {
        let most = (files.budget.most() / PART_OF_MOST).min(MAX_GO_TRACE_BYTES);
        Self { file, path, bytes: 0, most, files, place }
    }

    /// Appends bytes to the trace.
    ///
    /// # Errors
    /// When there is no room ([`WriteError::is_out_of_room`]) or the file cannot be written: a reader leaves out the generation cut there.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        let length = bytes.len() as u64;
        if self.bytes + length > self.most {
            return Err(WriteError::GoTraceLimit { limit: self.most });
        }
        space(&self.files.kernel, self.place.asked(), &self.files.budget)?;
        self.files.budget.take(length)?;
        write_all(&mut self.file, &mut [IoSlice::new(bytes)])
            .map_err(|error| WriteError::from_io(&self.path, error))?;
        self.bytes += length;
        Ok(())
    }

    /// The bytes written.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether more than three quarters of the trace's room are taken: it should end while its end still has room.
    pub const fn is_nearly_full(&self) -> bool {
        self.bytes > self.most / 4 * 3
    }
}
