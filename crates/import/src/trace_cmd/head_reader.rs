//! The bytes in front of a `trace.dat`'s pages, with no trust in their sizes.

use std::path::Path;

use wakepath_ctf::Source;

use super::compression::{DecompressError, MAX_BYTES, decompress};
use crate::OpenError;

/// Reads the bytes in front of a file's pages, item by item.
pub(super) struct HeadReader<'a, S> {
    source: &'a S,
    pub path: &'a Path,
    /// The file's size, bytes.
    pub size: u64,
    /// The next byte's place.
    pub at: u64,
}

/// The largest name, version or tag, bytes.
const MAX_TEXT_BYTES: usize = 4096;

impl<'a, S: Source> HeadReader<'a, S> {
    pub fn new(source: &'a S, path: &'a Path) -> Result<Self, OpenError> {
        let size = source.size().map_err(OpenError::io(path))?;
        Ok(Self { source, path, size, at: 0 })
    }

    pub fn damaged(&self, offset: u64, what: impl Into<String>) -> OpenError {
        OpenError::Damaged { path: self.path.to_owned(), offset, what: what.into() }
    }

    fn cut_short(&self, count: u64, what: &str) -> OpenError {
        let text = format!(
            "{what} should take {count} bytes from here on, and the file ends at byte {}: it was cut short",
            self.size
        );
        self.damaged(self.at, text)
    }

    /// The next bytes without passing them: at most `limit`, fewer at the file's end.
    pub fn peek(&self, limit: u64) -> Result<Vec<u8>, OpenError> {
        let left = self.size.saturating_sub(self.at);
        let mut bytes = vec![0; limit.min(left).min(MAX_BYTES) as usize];
        let read = self.source.read_at(self.at, &mut bytes).map_err(OpenError::io(self.path))?;
        bytes.truncate(read);
        Ok(bytes)
    }

    /// The next `count` bytes. `what` names them in errors, here and below.
    pub fn take(&mut self, count: u64, what: &str) -> Result<Vec<u8>, OpenError> {
        if count > MAX_BYTES {
            return Err(self.damaged(self.at, format!("{what} cannot be of {count} bytes")));
        }
        let bytes = self.peek(count)?;
        if (bytes.len() as u64) < count {
            return Err(self.cut_short(count, what));
        }
        self.at += count;
        Ok(bytes)
    }

    /// Passes the next `count` bytes.
    pub fn skip(&mut self, count: u64, what: &str) -> Result<(), OpenError> {
        let to = self.at.checked_add(count).filter(|&to| to <= self.size);
        self.at = to.ok_or_else(|| self.cut_short(count, what))?;
        Ok(())
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], OpenError> {
        let bytes = self.take(N as u64, what)?;
        Ok(*bytes.first_chunk().unwrap_or(&[0; N]))
    }

    pub fn byte(&mut self, what: &str) -> Result<u8, OpenError> {
        Ok(self.array::<1>(what)?[0])
    }

    pub fn u16(&mut self, what: &str) -> Result<u16, OpenError> {
        self.array(what).map(u16::from_le_bytes)
    }

    pub fn u32(&mut self, what: &str) -> Result<u32, OpenError> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub fn u64(&mut self, what: &str) -> Result<u64, OpenError> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// A text up to its NUL.
    pub fn text(&mut self, what: &str) -> Result<String, OpenError> {
        let bytes = self.peek(MAX_TEXT_BYTES as u64)?;
        let Some(end) = bytes.iter().position(|&byte| byte == 0) else {
            return Err(self.damaged(self.at, format!("{what} has no end")));
        };
        self.at += end as u64 + 1;
        Ok(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }

    /// The content of a version 7 section that begins here, decompressed, and its first byte's place.
    pub fn section(&mut self, id: u16, what: &str, method: &str) -> Result<(u64, Vec<u8>), OpenError> {
        let (compressed, size) = self.section_head(id, what)?;
        let from = self.at;
        if !compressed {
            return Ok((from, self.take(size, what)?));
        }
        let (size, whole) = (self.u32(what)?, self.u32(what)?);
        let bytes = self.take(size.into(), what)?;
        match decompress(&bytes, whole, method) {
            Ok(bytes) => Ok((from, bytes)),
            Err(DecompressError::UnknownMethod) => Err(self.unknown_method(method)),
            Err(DecompressError::Damaged) => {
                Err(self.damaged(from, format!("{what} cannot be decompressed")))
            }
        }
    }

    /// Whether the file ends within the section at this place, or before it.
    pub fn is_section_cut(&self, at: u64) -> Result<bool, OpenError> {
        let mut head = [0; 16];
        if self.read_at(at, &mut head)? < head.len() {
            return Ok(true);
        }
        let size = head[8..].first_chunk().map_or(0, |&size| u64::from_le_bytes(size));
        Ok(at.checked_add(16).and_then(|from| from.checked_add(size)).is_none_or(|end| end > self.size))
    }

    /// Reads bytes anywhere; fewer at the file's end.
    pub fn read_at(&self, at: u64, into: &mut [u8]) -> Result<usize, OpenError> {
        if at >= self.size {
            return Ok(0);
        }
        self.source.read_at(at, into).map_err(OpenError::io(self.path))
    }

    /// The error for a file with an unsupported compression method.
    pub fn unknown_method(&self, method: &str) -> OpenError {
        OpenError::unsupported(
            self.path,
            format!(
                "is compressed by {method}, which is not read: convert it \
                 (trace-cmd convert --compression none -i FILE -o NEW)"
            ),
        )
    }

    /// Whether the section that begins here is compressed, and its size in bytes.
    pub fn section_head(&mut self, id: u16, what: &str) -> Result<(bool, u64), OpenError> {
        const COMPRESSED: u16 = 1;
        let from = self.at;
        let (found, flags) = (self.u16(what)?, self.u16(what)?);
        if found != id {
            return Err(self.damaged(from, format!("{what} should begin here, and section {found} does")));
        }
        // Its name.
        self.u32(what)?;
        Ok((flags & COMPRESSED != 0, self.u64(what)?))
    }
}
