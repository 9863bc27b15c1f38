//! The signature of a trace's packets, for searches.

use std::io;

use memchr::memmem::Finder;

use crate::window::Source;

/// The first bytes in all a trace's packets, for searches.
#[derive(Debug)]
pub(crate) struct Signature {
    finder: Finder<'static>,
    bytes: Vec<u8>,
}

impl Signature {
    pub fn new(bytes: &[u8]) -> Self {
        Self { finder: Finder::new(bytes).into_owned(), bytes: bytes.to_owned() }
    }

    /// Whether a packet begins at `offset`, or, at the file's end, its remains.
    pub fn begins(&self, source: &impl Source, size: u64, offset: u64) -> io::Result<bool> {
        if offset >= size {
            return Ok(false);
        }
        let mut bytes = [0; 32];
        let bytes = &mut bytes[..self.bytes.len().min(32)];
        let n = source.read_at(offset, bytes)?;
        Ok(bytes[..n] == self.bytes[..n])
    }

    /// The offset of the first packet at or after `from`.
    pub fn find(&self, source: &impl Source, from: u64) -> io::Result<Option<u64>> {
        let overlap = self.bytes.len().saturating_sub(1);
        // A small read first: the next packet is near, or else anywhere.
        let mut buffer = vec![0; 1024];
        let mut at = from;
        loop {
            let n = source.read_at(at, &mut buffer)?;
            if let Some(i) = self.finder.find(&buffer[..n]) {
                return Ok(Some(at + i as u64));
            }
            if n < buffer.len() {
                return Ok(None);
            }
            at += (n - overlap) as u64;
            if buffer.len() < 256 * 1024 {
                buffer.resize(2 * buffer.len(), 0);
            }
        }
    }
}
