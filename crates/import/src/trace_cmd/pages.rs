//! A CPU's pages in a `trace.dat`, in order, decompressed if compressed.

use wakepath_ctf::{Source, Window};

use super::compression::{DecompressError, decompress};
use super::container::{Buffer, Pages};
use crate::Fault;

/// Reads a CPU's pages.
pub(super) struct PageReader<'a, S> {
    source: &'a S,
    page_bytes: usize,
    window: Window,
    /// The first page was read.
    opened: bool,
    compressed: Option<Chunks>,
}

/// Compressed pages, several in each chunk.
struct Chunks {
    method: Box<str>,
    /// The number of chunks to come; `None` before it is read.
    left: Option<u32>,
    /// The current chunk's pages, and its passed bytes.
    bytes: Vec<u8>,
    passed: usize,
}

/// The read size, bytes.
const BLOCK_BYTES: usize = 1 << 16;

impl<'a, S: Source> PageReader<'a, S> {
    pub fn new(source: &'a S, compression: &str, buffer: &Buffer, pages: Pages) -> Self {
        let mut window = Window::default();
        window.set(pages.from, pages.to);
        let compressed = buffer.compressed.then(|| Chunks {
            method: compression.into(),
            left: None,
            bytes: Vec::new(),
            passed: 0,
        });
        Self { source, page_bytes: buffer.page_bytes as usize, window, opened: false, compressed }
    }

    /// The current page.
    pub fn page(&self) -> &[u8] {
        let bytes = match &self.compressed {
            None => self.window.bytes(),
            Some(chunks) => chunks.bytes.get(chunks.passed..).unwrap_or_default(),
        };
        &bytes[..bytes.len().min(self.page_bytes)]
    }

    /// The page's place in the file, bytes; for a compressed page, the place behind its chunk.
    pub const fn offset(&self) -> u64 {
        self.window.offset()
    }

    /// Goes to the next page and returns whether it exists.
    pub fn next_page(&mut self) -> Result<bool, (u64, Fault)> {
        let passed = if std::mem::replace(&mut self.opened, true) { self.page().len() } else { 0 };
        let Some(chunks) = &mut self.compressed else {
            self.window.consume(passed);
            self.fill(self.page_bytes)?;
            return Ok(!self.window.bytes().is_empty());
        };
        chunks.passed += passed;
        while self.compressed.as_ref().is_some_and(|chunks| chunks.bytes.len() <= chunks.passed) {
            if !self.next_chunk()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads until `least` bytes are in sight, or all.
    fn fill(&mut self, least: usize) -> Result<(), (u64, Fault)> {
        let seen = self.window.bytes().len();
        if seen < least && self.window.left() > seen as u64 {
            let offset = self.window.offset();
            let filled = self.window.fill(self.source, least.max(BLOCK_BYTES));
            if let Err(error) = filled {
                // Nothing behind it will be read, either.
                self.window.set(offset, offset);
                return Err((offset, Fault::Io(error.to_string())));
            }
        }
        Ok(())
    }

    fn word(&mut self) -> Result<Option<u32>, (u64, Fault)> {
        self.fill(4)?;
        let word = self.window.bytes().first_chunk().map(|&word| u32::from_le_bytes(word));
        self.window.consume(4);
        Ok(word)
    }

    /// Decompresses the next chunk and returns whether it exists.
    fn next_chunk(&mut self) -> Result<bool, (u64, Fault)> {
        let left = match self.compressed.as_ref().and_then(|chunks| chunks.left) {
            Some(left) => left,
            None => self.word()?.unwrap_or(0),
        };
        let from = self.window.offset();
        let (size, whole) = if left > 0 { (self.word()?, self.word()?) } else { (None, None) };
        let Some(chunks) = &mut self.compressed else { return Ok(false) };
        chunks.left = Some(left.saturating_sub(1));
        chunks.bytes.clear();
        chunks.passed = 0;
        if left == 0 && self.window.left() > 0 {
            // Once: nothing behind is read.
            let rest = self.window.left();
            self.window.set(from + rest, from + rest);
            return Err((from, Fault::ChunksEnd(rest)));
        }
        let (Some(size), Some(whole)) = (size, whole) else { return Ok(false) };
        if u64::from(size) > self.window.left() {
            chunks.left = Some(0);
            return Err((from, Fault::ChunkCut(size)));
        }
        self.fill(size as usize)?;
        let Some(chunks) = &mut self.compressed else { return Ok(false) };
        let bytes = self.window.bytes().get(..size as usize).unwrap_or_default();
        let decompressed = decompress(bytes, whole, &chunks.method);
        self.window.consume(size as usize);
        chunks.bytes = decompressed.map_err(|error| match error {
            DecompressError::UnknownMethod => (from, Fault::ChunkUnknown),
            DecompressError::Damaged => (from, Fault::ChunkDamaged),
        })?;
        Ok(true)
    }
}
