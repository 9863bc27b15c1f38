//! A window over a source of bytes that is read piece by piece.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes that can be read at any offset. A file may shrink while it is read; then reads come short.
pub trait Source {
    /// Bytes that there are, as far as is known.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn size(&self) -> io::Result<u64>;

    /// Fills `into` from `offset` on, as far as there are bytes; returns their number.
    ///
    /// # Errors
    /// Errors of the operating system.
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

/// A view of a range of a source that moves forward in blocks.
///
/// Reading in blocks and not by mapping: a mapped file that another process truncates kills the
/// reader with SIGBUS, and copying out of the page cache costs a twentieth of what decoding does.
#[derive(Debug, Default)]
pub struct Window {
    buffer: Vec<u8>,
    /// The part of `buffer` that is read and not consumed.
    from: usize,
    to: usize,
    /// Where in the source `buffer[to]` would come from, and where the range ends.
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

    /// Where in the source [`Window::bytes`] begin.
    #[inline]
    pub const fn offset(&self) -> u64 {
        self.next - (self.to - self.from) as u64
    }

    /// Bytes of the range that are not consumed, seen or not.
    #[inline]
    pub const fn left(&self) -> u64 {
        self.end - self.offset()
    }

    /// Moves forward by `n` of the bytes that can be seen.
    #[inline]
    pub fn consume(&mut self, n: usize) {
        self.from = self.to.min(self.from.saturating_add(n));
    }

    /// Reads on until `most` bytes can be seen or the range ends; returns whether any were read. When the
    /// source ends before the range does, the range ends there.
    ///
    /// # Errors
    /// Errors of the operating system.
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
