//! A file beside a recording's streams, in which whole parts are appended during the recording.

use std::fs::File;
use std::io::{IoSlice, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;

use super::stream::{StreamFiles, write_all};
use super::{WriteError, space};
use crate::Place;

/// Appends to a file, in any thread.
#[derive(Debug)]
pub(super) struct Beside {
    file: File,
    pub(super) path: PathBuf,
    bytes: u64,
    most: u64,
    files: Arc<StreamFiles>,
    /// Keeps other recorders from deleting the recording.
    place: Place,
}

impl Beside {
    /// A file that takes at most `most` bytes, and at most its part in the room shared with the streams.
    pub(super) fn new(
        file: File,
        path: PathBuf,
        files: Arc<StreamFiles>,
        place: Place,
        part_of_most: u64,
        most: u64,
    ) -> Self {
        let most = (files.budget.most() / part_of_most).min(most);
        Self { file, path, bytes: 0, most, files, place }
    }

    /// Appends a part of `length` bytes, in a single system call; `full` is the error without room in the file's own limit.
    ///
    /// # Errors
    /// When there is no room ([`WriteError::is_out_of_room`]) or the file cannot be written: the part is taken back whole.
    pub(super) fn append(
        &mut self,
        slices: &mut [IoSlice<'_>],
        length: u64,
        full: fn(limit: u64) -> WriteError,
    ) -> Result<(), WriteError> {
        if self.bytes + length > self.most {
            return Err(full(self.most));
        }
        space(&self.files.kernel, self.place.asked(), &self.files.budget)?;
        self.files.budget.take(length)?;
        if let Err(e) = write_all(&mut self.file, slices) {
            self.files.budget.give_back(length);
            // Half a part would end the file for every reader, as it does if even this fails.
            let _ = self.file.set_len(self.bytes);
            let _ = self.file.seek(SeekFrom::Start(self.bytes));
            return Err(WriteError::from_io(&self.path, e));
        }
        self.bytes += length;
        Ok(())
    }

    /// The bytes written.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The most bytes.
    pub(super) const fn most(&self) -> u64 {
        self.most
    }
}
