//! Writing a Go program's execution trace during a recording.

use std::fs::File;
use std::io::IoSlice;
use std::path::PathBuf;
use std::sync::Arc;

use super::WriteError;
use super::beside::Beside;
use super::stream::StreamFiles;
use crate::Place;
use crate::go_traces::MAX_GO_TRACE_BYTES;

/// A trace's largest part in a recording's largest size.
const PART_OF_MOST: u64 = 8;

/// Writes a Go program's execution trace, in any thread.
#[derive(Debug)]
pub struct GoTraceWriter(Beside);

impl GoTraceWriter {
    pub(super) fn new(file: File, path: PathBuf, files: Arc<StreamFiles>, place: Place) -> Self {
        Self(Beside::new(file, path, files, place, PART_OF_MOST, MAX_GO_TRACE_BYTES))
    }

    /// Appends bytes to the trace.
    ///
    /// # Errors
    /// When there is no room ([`WriteError::is_out_of_room`]) or the file cannot be written: a reader leaves out the generation cut there.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        let slices = &mut [IoSlice::new(bytes)];
        self.0.append(slices, bytes.len() as u64, |limit| WriteError::GoTraceLimit { limit })
    }

    /// The bytes written.
    pub const fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    /// Whether more than three quarters of the trace's room are taken: it should end while its end still has room.
    pub const fn is_nearly_full(&self) -> bool {
        self.0.bytes() > self.0.most() / 4 * 3
    }
}
