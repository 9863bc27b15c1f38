//! The memory of a process.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::error::Error;

/// The most bytes that are read at once.
const PIECE_BYTES: usize = 1 << 20;

/// The memory of a process. The kernel lets a debugger write code that the process itself may only execute, into a copy of the
/// page that belongs to the process.
///
/// It is that of the program that ran when it was opened: after an exec, reads say that it is gone. A read or write is an error when
/// one of its bytes is not mapped, or the process has ended.
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
        // The kernel refuses addresses above half of all numbers, which it takes for negative ones.
        self.file.read_exact_at(into, at).map_err(|source| Error::of_memory(self.pid, at, source))
    }

    /// Writes bytes at an address. After an error, a part may be written.
    pub fn write(&self, at: u64, bytes: &[u8]) -> Result<(), Error> {
        self.file.write_all_at(bytes, at).map_err(|source| Error::of_memory(self.pid, at, source))
    }

    /// The `length` bytes at an address. A length that leads past the memory of the process costs no more than that memory.
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

    /// Writes a number of 8 bytes.
    pub fn set_word(&self, at: u64, value: u64) -> Result<(), Error> {
        self.write(at, &value.to_le_bytes())
    }
}
