//! A process's memory.

use std::fs::File;
use std::ops::RangeInclusive;
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

/// A process's memory, as far as its pages are in RAM or swapped out. To bring another page, the kernel may ask a FUSE daemon,
/// a userfaultfd's handler or a file server, and these may never answer.
#[derive(Debug)]
pub struct PresentMemory {
    memory: Memory,
    /// A word for each page.
    pages: File,
}

/// A word's bits: the page is in RAM; it is swapped out; userfaultfd watches its writes, and a swapped page may be a mark
/// without content.
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const WATCHED: u64 = 1 << 57;
const PAGE_BYTES: u64 = 4096;

impl PresentMemory {
    pub(crate) fn of(memory: Memory, pages: File) -> Self {
        Self { memory, pages }
    }

    /// Fills `into` with the bytes at an address; `None` if a page is neither in RAM nor swapped out, or cannot be read. A
    /// page lost between the look and the reading is waited for.
    pub fn read(&self, at: u64, into: &mut [u8]) -> Option<()> {
        let mut words = pages(at, into.len())?;
        let is_here = words.all(|page| {
            let mut word = [0; 8];
            self.pages.read_exact_at(&mut word, page * 8).is_ok_and(|()| is_here(u64::from_le_bytes(word)))
        });
        is_here.then(|| self.memory.read(at, into).ok()).flatten()
    }
}

/// The page numbers for such bytes; `None` past the last address.
fn pages(at: u64, length: usize) -> Option<RangeInclusive<u64>> {
    let last = at.checked_add(length.saturating_sub(1) as u64)?;
    Some(at / PAGE_BYTES..=last / PAGE_BYTES)
}

fn is_here(word: u64) -> bool {
    word & PRESENT != 0 || word & (SWAPPED | WATCHED) == SWAPPED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_here_in_ram_or_swapped_out_with_its_content() {
        for (word, here) in [
            (PRESENT, true),
            (SWAPPED, true),
            (SWAPPED | WATCHED, false),
            (PRESENT | WATCHED, true),
            (0, false),
            (WATCHED, false),
            // The bits for a file's page, and for a page written since the last reset.
            (1 << 61 | 1 << 55, false),
        ] {
            assert_eq!(is_here(word), here, "{word:#x}");
        }
    }

    #[test]
    fn bytes_lie_in_all_the_pages_that_they_touch() {
        assert_eq!(pages(0x1000, 1), Some(1..=1));
        assert_eq!(pages(0x1000, 4096), Some(1..=1));
        assert_eq!(pages(0x1fff, 1), Some(1..=1));
        assert_eq!(pages(0x1fff, 2), Some(1..=2));
        assert_eq!(pages(0x1000, 4097), Some(1..=2));
        assert_eq!(pages(0x1000, 0), Some(1..=1));
        assert_eq!(pages(u64::MAX, 2), None);
    }
}
