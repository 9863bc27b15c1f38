//! A window over a source of bytes, read in blocks.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes readable at any offset. A file may shrink while it is read; then reads come short.
pub trait Source {
    /// The number of bytes, as far as known.
    ///
    /// # Errors
    /// The operating system's errors.
    fn size(&self) -> io::Result<u64>;

    /// Fills `into` from `offset` on, as far as there are bytes; returns their number.
    ///
    /// # Errors
    /// The operating system's errors.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize>;
}

impl Source for File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < into.len() {
            match FileExt::read_at(self, &mut into[done..], offset.saturating_add(done as u64)) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(done)
    }
}

impl Source for &File {
    fn size(&self) -> io::Result<u64> {
        (**self).size()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        Source::read_at(*self, offset, into)
    }
}

impl Source for &[u8] {
    fn size(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.get(offset..)).unwrap_or_default();
        let n = rest.len().min(into.len());
        into[..n].copy_from_slice(&rest[..n]);
        Ok(n)
    }
}

/// A view over a source's range that moves forward in blocks.
///
/// Blocks are read, not mapped: when another process truncates a mapped file, the reader dies of SIGBUS, and a copy
/// out of the page cache costs a twentieth of the decoding.
#[derive(Debug, Default)]
pub struct Window {
    buffer: Vec<u8>,
    /// The unconsumed part of `buffer`.
    from: usize,
    to: usize,
    /// The source offset for `buffer[to]`, and the range's end.
    next: u64,
    end: u64,
}

impl Window {
    /// Goes to another range.
    pub fn set(&mut self, from: u64, end: u64) {
        (self.from, self.to, self.next, self.end) = (0, 0, from, end.max(from));
    }

    /// The bytes in the buffer.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.from..self.to]
    }

    /// The source offset of [`Window::bytes`].
    #[inline]
    pub const fn offset(&self) -> u64 {
        self.next - (self.to - self.from) as u64
    }

    /// The unconsumed bytes in the range, in sight or not.
    #[inline]
    pub const fn left(&self) -> u64 {
        self.end - self.offset()
    }

    /// Moves forward by `n` bytes in sight.
    #[inline]
    pub fn consume(&mut self, n: usize) {
        self.from = self.to.min(self.from.saturating_add(n));
    }

    /// Reads on until `most` bytes are in sight or the range ends; returns whether bytes were read. If the source
    /// ends before the range, the range ends there.
    ///
    /// # Errors
    /// The operating system's errors.
    pub fn fill(&mut self, source: &impl Source, most: usize) -> io::Result<bool> {
        self.buffer.copy_within(self.from..self.to, 0);
        (self.from, self.to) = (0, self.to - self.from);
        let wanted = (most.saturating_sub(self.to) as u64).min(self.end - self.next) as usize;
        if self.buffer.len() < self.to + wanted {
            self.buffer.resize(self.to + wanted, 0);
        }
        let read = source.read_at(self.next, &mut self.buffer[self.to..self.to + wanted])?;
        self.to += read;
        self.next += read as u64;
        if read < wanted {
            self.end = self.next;
        }
        Ok(read > 0)
    }
}
