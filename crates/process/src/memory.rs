//! A process's memory.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::error::Error;

/// The most bytes read at once.
const PIECE_BYTES: usize = 1 << 20;

/// A process's memory. The kernel lets a debugger write code that the process itself may only execute, into the
/// process's own copy of the page.
///
/// The memory belongs to the program that ran when it was opened: after an exec, reads fail with
/// [`Kind::Gone`](crate::Kind::Gone). A read or write is an error if any byte is not mapped, or the process has
/// ended.
#[derive(Debug)]
pub struct Memory {
    pid: u32,
    file: File,
}

impl Memory {
    pub(crate) fn of(pid: u32, file: File) -> Self {
        Self { pid, file }
    }

    /// Fills `into` with the bytes at an address.
    pub fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Error> {
        // The kernel takes addresses above half the number range for negative, and refuses them.
        self.file.read_exact_at(into, at).map_err(|source| Error::memory_access(self.pid, at, source))
    }

    /// Writes bytes at an address. After an error, a part may be written.
    pub fn write(&self, at: u64, bytes: &[u8]) -> Result<(), Error> {
        self.file.write_all_at(bytes, at).map_err(|source| Error::memory_access(self.pid, at, source))
    }

    /// The `length` bytes at an address. A length past the process's memory costs no more than its memory.
    pub fn bytes(&self, at: u64, length: u64) -> Result<Vec<u8>, Error> {
        let (mut bytes, length) = (Vec::new(), usize::try_from(length).unwrap_or(usize::MAX));
        while bytes.len() < length {
            let there = bytes.len();
            bytes.resize(length.min(there + PIECE_BYTES), 0);
            self.read(at.saturating_add(there as u64), &mut bytes[there..])?;
        }
        Ok(bytes)
    }

    /// The 8 bytes at an address, as a number.
    pub fn word(&self, at: u64) -> Result<u64, Error> {
        let mut bytes = [0; 8];
        self.read(at, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Writes an 8-byte number.
    pub fn set_word(&self, at: u64, value: u64) -> Result<(), Error> {
        self.write(at, &value.to_le_bytes())
    }
}
