//! A mapped file: its code and its table.

use std::cell::OnceCell;
use std::fs::File;
use std::os::unix::fs::FileExt;

use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Endianness, ReadCache, elf};

use crate::code::ends_in_call;
use crate::rule::Rule;
use crate::table::Table;
use crate::walk::Place;

/// A file whose code is mapped.
#[derive(Debug)]
pub struct Module {
    file: File,
    /// Read when the first address needs it.
    table: OnceCell<Option<Table>>,
    /// The parts that are loaded: where they stand in the file, how long they are, and the address they are for.
    loaded: Vec<(u64, u64, u64)>,
    /// It is the C library, or the program that loads it.
    pub library: bool,
}

impl Module {
    /// A file, of which only the beginning is read now.
    pub fn new(file: File, library: bool) -> Self {
        let loaded = loaded(&file).unwrap_or_default();
        Self { file, table: OnceCell::new(), loaded, library }
    }

    /// The bytes that it takes in memory.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.table.get().and_then(Option::as_ref).map_or(0, Table::bytes)
    }

    /// The place at an offset in the file. `stands`: a thread stands at this instruction; otherwise it is a return
    /// address, whose call lies before it.
    pub fn place(&self, offset: u64, stands: bool) -> Place {
        let called = stands || self.is_called(offset);
        let offset = if stands { offset } else { offset.wrapping_sub(1) };
        let address = self.loaded.iter().find_map(|&(from, length, address)| {
            let behind = offset.checked_sub(from).filter(|&behind| behind < length)?;
            address.checked_add(behind)
        });
        let table = self.table.get_or_init(|| Table::of(&self.file));
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

/// The loaded parts of a file.
fn loaded(file: &File) -> Option<Vec<(u64, u64, u64)>> {
    let cache = ReadCache::new(file.try_clone().ok()?);
    let parsed = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
    let endian = parsed.endian();
    let parts = parsed.elf_program_headers().iter().filter(|part| part.p_type(endian) == elf::PT_LOAD);
    Some(parts.map(|part| (part.p_offset(endian), part.p_filesz(endian), part.p_vaddr(endian))).collect())
}
