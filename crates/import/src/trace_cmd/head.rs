use std::io;
use std::path::Path;

use wakepath_ctf::Source;

use super::TraceDatError;
use super::packed::{Unpack, unpack};

/// Reads what stands in front of a file's pages, from some place on.
pub(super) struct Head<'a, S> {
    source: &'a S,
    pub path: &'a Path,
    /// Bytes of the file.
    pub size: u64,
    /// Where the next byte is read.
    pub at: u64,
}

/// Nothing in a file's head is larger: the largest, the symbols of a kernel, take some 15 MiB.
pub(super) const MAX_BYTES: u64 = 64 << 20;
/// A name, a version, a tag.
const MAX_TEXT_BYTES: usize = 4096;

impl<'a, S: Source> Head<'a, S> {
    pub fn new(source: &'a S, path: &'a Path) -> Result<Self, TraceDatError> {
        let size = source.size().map_err(|source| TraceDatError::Io { path: path.to_owned(), source })?;
        Ok(Self { source, path, size, at: 0 })
    }

    pub fn damaged(&self, offset: u64, what: impl Into<String>) -> TraceDatError {
        TraceDatError::Damaged { path: self.path.to_owned(), offset, what: what.into() }
    }

    fn io(&self, source: io::Error) -> TraceDatError {
        TraceDatError::Io { path: self.path.to_owned(), source }
    }

    /// So many bytes, fewer at the end of the file; where to read on stays as it is.
    pub fn ahead(&self, most: u64) -> Result<Vec<u8>, TraceDatError> {
        let left = self.size.saturating_sub(self.at);
        let mut bytes = vec![0; most.min(left).min(MAX_BYTES) as usize];
        let read = self.source.read_at(self.at, &mut bytes).map_err(|error| self.io(error))?;
        bytes.truncate(read);
        Ok(bytes)
    }

    /// The next bytes, which are called `what`.
    pub fn take(&mut self, count: u64, what: &str) -> Result<Vec<u8>, TraceDatError> {
        if count > MAX_BYTES {
            return Err(self.damaged(self.at, format!("{what} cannot be of {count} bytes")));
        }
        let bytes = self.ahead(count)?;
        if (bytes.len() as u64) < count {
            let text = format!(
                "{what} should take {count} bytes from here on, and the file ends at byte {}: it was cut short",
                self.size
            );
            return Err(self.damaged(self.at, text));
        }
        self.at += count;
        Ok(bytes)
    }

    /// Goes on behind so many bytes.
    pub fn pass(&mut self, count: u64, what: &str) -> Result<(), TraceDatError> {
        let to = self.at.checked_add(count).filter(|&to| to <= self.size);
        self.at = to.ok_or_else(|| {
            let text = format!(
                "{what} should take {count} bytes from here on, and the file ends at byte {}: it was cut short",
                self.size
            );
            self.damaged(self.at, text)
        })?;
        Ok(())
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], TraceDatError> {
        let bytes = self.take(N as u64, what)?;
        Ok(*bytes.first_chunk().unwrap_or(&[0; N]))
    }

    pub fn byte(&mut self, what: &str) -> Result<u8, TraceDatError> {
        Ok(self.array::<1>(what)?[0])
    }

    pub fn u16(&mut self, what: &str) -> Result<u16, TraceDatError> {
        self.array(what).map(u16::from_le_bytes)
    }

    pub fn u32(&mut self, what: &str) -> Result<u32, TraceDatError> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub fn u64(&mut self, what: &str) -> Result<u64, TraceDatError> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// A text up to its NUL.
    pub fn text(&mut self, what: &str) -> Result<String, TraceDatError> {
        let bytes = self.ahead(MAX_TEXT_BYTES as u64)?;
        let Some(end) = bytes.iter().position(|&byte| byte == 0) else {
            return Err(self.damaged(self.at, format!("{what} has no end")));
        };
        self.at += end as u64 + 1;
        Ok(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }

    /// The content of a section of version 7 that begins here, with where it begins: as it is in the file, or
    /// behind what is unpacked.
    pub fn section(&mut self, id: u16, what: &str, by: &str) -> Result<(u64, Vec<u8>), TraceDatError> {
        let (packed, size) = self.section_head(id, what)?;
        let from = self.at;
        if !packed {
            return Ok((from, self.take(size, what)?));
        }
        let (packed, whole) = (self.u32(what)?, self.u32(what)?);
        let bytes = self.take(packed.into(), what)?;
        match unpack(&bytes, whole, by) {
            Ok(bytes) => Ok((from, bytes)),
            Err(Unpack::Unknown) => {
                Err(TraceDatError::Compressed { path: self.path.to_owned(), by: by.to_owned() })
            }
            Err(Unpack::Damaged) => Err(self.damaged(from, format!("{what} cannot be unpacked"))),
        }
    }

    /// Whether a section that begins here is compressed, and its bytes.
    pub fn section_head(&mut self, id: u16, what: &str) -> Result<(bool, u64), TraceDatError> {
        const COMPRESSED: u16 = 1;
        let from = self.at;
        let (found, flags) = (self.u16(what)?, self.u16(what)?);
        if found != id {
            return Err(self.damaged(from, format!("{what} should begin here, and section {found} does")));
        }
        // What it is called.
        self.u32(what)?;
        Ok((flags & COMPRESSED != 0, self.u64(what)?))
    }
}
