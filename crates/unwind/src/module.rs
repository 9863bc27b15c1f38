//! A mapped file: its code and its table.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use object::ReadCache;

use crate::code::ends_in_call;
use crate::elf_file::{Elf, LoadedPart};
use crate::rule::Rule;
use crate::table::Table;
use crate::walk::Place;

/// A file with mapped code. Nothing is read from it until an address needs it.
#[derive(Debug)]
pub struct Module {
    file: File,
    content: OnceLock<Content>,
    /// Whether it is the C library, or the program that loads it.
    pub library: bool,
}

#[derive(Debug, Default)]
struct Content {
    table: Option<Table>,
    parts: Vec<LoadedPart>,
}

impl Module {
    /// A file.
    pub const fn new(file: File, library: bool) -> Self {
        Self { file, content: OnceLock::new(), library }
    }

    /// Its size in memory, bytes.
    pub fn bytes(&self) -> usize {
        let table = self.content.get().and_then(|content| content.table.as_ref());
        size_of::<Self>() + table.map_or(0, Table::bytes)
    }

    /// Whether its table was read.
    pub fn is_read(&self) -> bool {
        self.content.get().is_some()
    }

    /// The place at an offset in the file. `stands`: a thread stands at this instruction; otherwise it is a return
    /// address, whose call lies before it.
    pub fn place(&self, offset: u64, stands: bool) -> Place {
        let called = stands || self.is_called(offset);
        let offset = if stands { offset } else { offset.wrapping_sub(1) };
        let Content { table, parts } = self.content.get_or_init(|| Content::of(&self.file));
        let address = parts.iter().find_map(|part| {
            let behind = offset.checked_sub(part.offset).filter(|&behind| behind < part.bytes)?;
            part.address.checked_add(behind)
        });
        let rule = match (table, address) {
            (Some(table), Some(address)) => table.rule(address),
            _ => Rule::NoTable,
        };
        Place { rule, called }
    }

    fn is_called(&self, offset: u64) -> bool {
        let mut code = [0; 8];
        let Some(from) = offset.checked_sub(8) else { return false };
        self.file.read_exact_at(&mut code, from).is_ok() && ends_in_call(u64::from_le_bytes(code))
    }
}

impl Content {
    fn of(file: &File) -> Self {
        let Ok(file) = file.try_clone() else { return Self::default() };
        let cache = ReadCache::new(file);
        let Some(elf) = Elf::parse(&cache) else { return Self::default() };
        Self { table: Table::from_elf(&elf), parts: elf.parts() }
    }
}
