//! A file's lines, in bounded memory.

use std::io;

use wakepath_ctf::Source;

/// The longest line to read, bytes: a program's longest path, and room for the rest.
pub(super) const MAX_LINE_BYTES: usize = 8192;

const READ_BYTES: usize = if cfg!(test) { 16 } else { 1 << 18 };

/// Reads a source line by line.
pub(super) struct Lines<'a, S> {
    source: &'a S,
    /// The bytes to read next: their offset.
    offset: u64,
    read: Vec<u8>,
    /// The place in `read` behind the last line.
    at: usize,
    line: Vec<u8>,
    number: u64,
}

/// A line without its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Numbered<'a> {
    /// From 1 on.
    pub number: u64,
    /// Its size with its end, bytes.
    pub size: u64,
    /// `None`: it is too long.
    pub text: Option<&'a [u8]>,
}

impl<'a, S: Source> Lines<'a, S> {
    pub const fn new(source: &'a S) -> Self {
        Self { source, offset: 0, read: Vec::new(), at: 0, line: Vec::new(), number: 0 }
    }

    /// The next line.
    pub fn next(&mut self) -> io::Result<Option<Numbered<'_>>> {
        self.line.clear();
        let (mut size, mut ended) = (0, false);
        while !ended {
            if self.at == self.read.len() {
                self.read.resize(READ_BYTES, 0);
                let read = self.source.read_at(self.offset, &mut self.read)?;
                self.read.truncate(read);
                (self.offset, self.at) = (self.offset + read as u64, 0);
                if read == 0 {
                    break;
                }
            }
            let rest = &self.read[self.at..];
            let end = rest.iter().position(|&byte| byte == b'\n');
            let part = &rest[..end.unwrap_or(rest.len())];
            ended = end.is_some();
            // A further byte marks it as too long.
            let room = (MAX_LINE_BYTES + 1).saturating_sub(self.line.len());
            self.line.extend_from_slice(&part[..part.len().min(room)]);
            let taken = part.len() + usize::from(ended);
            self.at += taken;
            size += taken as u64;
        }
        if size == 0 {
            return Ok(None);
        }
        self.number += 1;
        let text = (self.line.len() <= MAX_LINE_BYTES).then_some(&*self.line);
        Ok(Some(Numbered { number: self.number, size, text }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_wherever_the_reads_end_and_too_long_ones_are_counted() {
        let long = "x".repeat(MAX_LINE_BYTES);
        let text = format!("one\n\na line of more than sixteen bytes\r\n{long}\n{long}y\nno end");
        let bytes: &[u8] = text.as_bytes();
        let (mut lines, mut found, mut sizes) = (Lines::new(&bytes), Vec::new(), 0);
        while let Some(line) = lines.next().expect("memory has no errors") {
            assert_eq!(line.number, found.len() as u64 + 1);
            sizes += line.size;
            found.push(line.text.map(|text| String::from_utf8_lossy(text).into_owned()));
        }
        let some = |text: &str| Some(text.to_owned());
        let third = some("a line of more than sixteen bytes\r");
        assert_eq!(found, [some("one"), some(""), third, some(&long), None, some("no end")]);
        assert_eq!(sizes, bytes.len() as u64);
    }
}
