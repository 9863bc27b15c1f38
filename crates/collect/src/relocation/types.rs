//! Reads BTF, the kernel's format for types: `Documentation/bpf/btf.rst` in the kernel's sources.
//!
//! A file has a header, the types end to end, and their names. Numbers follow from the order: the first type is
//! number 1, and number 0 is `void`. A module's file continues the kernel's names, and its numbers, which nothing here needs. No length
//! in a file is believed: whatever lies outside makes the file unreadable.

use std::ops::Range;

const MAGIC: u16 = 0xeb9f;
const VERSION: u8 = 1;
/// The header's length in every version so far, bytes.
pub(super) const HEADER_BYTES: usize = 24;
/// A type's first three words, bytes: its name, its kind, and its size or another type.
pub(super) const HEAD_BYTES: usize = 12;

/// The kinds that matter here, by their numbers.
pub(super) mod kind {
    pub const POINTER: u8 = 2;
    pub const STRUCT: u8 = 4;
    pub const UNION: u8 = 5;
    pub const ENUM: u8 = 6;
    pub const FORWARD: u8 = 7;
    pub const FUNCTION: u8 = 12;
    pub const DATA_SECTION: u8 = 15;
    pub const DECLARATION_TAG: u8 = 17;
    pub const ENUM64: u8 = 19;
}

/// A word within a type that refers to something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reference {
    /// Where a name begins among the names.
    Name,
    /// A type's number.
    Type,
}

/// A file's types and names.
#[derive(Debug)]
pub(super) struct Types<'a> {
    section: &'a [u8],
    /// Where each type begins in `section`.
    begins: Vec<u32>,
    names: &'a [u8],
    /// The kernel's types, below a module's.
    base: Option<&'a Types<'a>>,
}

/// A type's bytes, which are as long as its kind says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Type<'a>(&'a [u8]);

impl<'a> Types<'a> {
    /// The types in a file, or in a module's file whose names go on behind the kernel's (`base`). `None` for an unreadable file.
    pub(super) fn read(file: &'a [u8], base: Option<&'a Types<'a>>) -> Option<Self> {
        let magic = u16::from_ne_bytes(*file.first_chunk()?);
        let header_bytes = word(file, 4)? as usize;
        if magic != MAGIC || *file.get(2)? != VERSION || header_bytes < HEADER_BYTES {
            return None;
        }
        let section_at = |at| {
            let begin = header_bytes.checked_add(word(file, at)? as usize)?;
            file.get(begin..begin.checked_add(word(file, at + 4)? as usize)?)
        };
        let (section, names) = (section_at(8)?, section_at(16)?);
        // The shortest type is a head alone.
        let mut begins = Vec::with_capacity(section.len() / HEAD_BYTES / 2);
        let mut at = 0;
        while at < section.len() {
            begins.push(at as u32);
            at += Type::at(section, at)?.0.len();
        }
        Some(Self { section, begins, names, base })
    }

    /// The number behind the last type's.
    pub(super) fn end(&self) -> u32 {
        1 + self.begins.len() as u32
    }

    /// This file's own types with their numbers, in order.
    pub(super) fn own(&self) -> impl Iterator<Item = (u32, Type<'a>)> {
        (1..self.end()).filter_map(|number| Some((number, self.get(number)?)))
    }

    /// The type with this number.
    pub(super) fn get(&self, number: u32) -> Option<Type<'a>> {
        let at = *self.begins.get(number.checked_sub(1)? as usize)?;
        Type::at(self.section, at as usize)
    }

    /// The name that begins at a place among the names.
    pub(super) fn name(&self, at: u32) -> Option<&'a [u8]> {
        let below = self.base.map_or(0, |base| base.names.len());
        if let Some(base) = self.base.filter(|_| (at as usize) < below) {
            return base.name(at);
        }
        let rest = self.names.get(at as usize - below..)?;
        Some(&rest[..rest.iter().position(|&byte| byte == 0)?])
    }
}

impl<'a> Type<'a> {
    /// The type that begins at a place in a file's types.
    fn at(section: &'a [u8], at: usize) -> Option<Self> {
        let rest = section.get(at..)?;
        let head = Type(rest.get(..HEAD_BYTES)?);
        let entries = head.entries();
        let length = HEAD_BYTES + entries.len() * head.entry_bytes()?;
        Some(Type(rest.get(..length)?))
    }

    pub(super) fn bytes(self) -> &'a [u8] {
        self.0
    }

    pub(super) fn kind(self) -> u8 {
        (self.word(4) >> 24) as u8 & 0x1f
    }

    /// Where the type's name begins; 0 without a name.
    pub(super) fn name(self) -> u32 {
        self.word(0)
    }

    pub(super) fn word(self, at: usize) -> u32 {
        word(self.0, at).unwrap_or(0)
    }

    /// The numbers of the entries behind the head: members, values, parameters. Some kinds have a single entry without counting it.
    fn entries(self) -> Range<usize> {
        match self.kind() {
            4..=6 | 13 | 15 | 19 => 0..(self.word(4) & 0xffff) as usize,
            1 | 3 | 14 | 17 => 0..1,
            _ => 0..0,
        }
    }

    /// An entry's length, bytes; `None` for an unknown kind.
    fn entry_bytes(self) -> Option<usize> {
        match self.kind() {
            1 | 14 | 17 => Some(4),
            6 | 13 => Some(8),
            3..=5 | 15 | 19 => Some(12),
            2 | 7..=12 | 16 | 18 => Some(0),
            _ => None,
        }
    }

    /// All words that refer to something else, with their places.
    pub(super) fn references(self) -> impl Iterator<Item = (usize, Reference)> {
        use Reference::{Name, Type};
        let in_head: &[_] = match self.kind() {
            2 | 8..=14 | 17 | 18 => &[(0, Name), (8, Type)],
            _ => &[(0, Name)],
        };
        let in_entry: &[_] = match self.kind() {
            3 => &[(0, Type), (4, Type)],
            4 | 5 | 13 => &[(0, Name), (4, Type)],
            6 | 19 => &[(0, Name)],
            15 => &[(0, Type)],
            _ => &[],
        };
        let entry_bytes = self.entry_bytes().unwrap_or(0);
        let entries = self.entries().map(move |entry| HEAD_BYTES + entry * entry_bytes);
        let in_entries = entries.flat_map(|begin| in_entry.iter().map(move |&(at, what)| (begin + at, what)));
        in_head.iter().copied().chain(in_entries)
    }
}

/// A file's header, from its sections' lengths in bytes.
pub(super) fn header(types: u32, names: u32) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..2].copy_from_slice(&MAGIC.to_ne_bytes());
    bytes[2] = VERSION;
    let words = [HEADER_BYTES as u32, 0, types, types, names];
    for (to, word) in bytes[4..].as_chunks_mut().0.iter_mut().zip(words) {
        *to = word.to_ne_bytes();
    }
    bytes
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}
