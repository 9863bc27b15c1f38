//! An ELF file's facts for finding its names: its symbols, the files with more symbols, and its addresses. Any bytes
//! give facts or `None`.

use std::fs::File;

use object::elf::{FileHeader64, PT_LOAD, SHT_NOBITS, SHT_SYMTAB};
use object::read::elf::{FileHeader as _, ProgramHeader as _, SectionHeader as _};
use object::{Endianness, ReadCache, ReadRef};

/// The maximum size for a small section, bytes.
const MAX_SECTION_BYTES: u64 = 4096;

/// The maximum size for the sections' names, bytes: beyond it a section counts as nameless.
const MAX_NAMES_BYTES: u64 = 1 << 20;

/// A file's facts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The file has a symbol table, not just its dynamic symbols.
    pub has_symbols: bool,
    /// Its debug file's name and checksum (`.gnu_debuglink`).
    pub link: Option<(Vec<u8>, u32)>,
    /// The build id for the data shared with other debug files (`.gnu_debugaltlink`).
    pub shared: Option<Vec<u8>>,
    /// The compressed file with its symbols (`.gnu_debugdata`): offset and size, bytes.
    pub packed: Option<(u64, u64)>,
    /// The loaded parts: offset and size in the file, and address.
    loads: Vec<(u64, u64, u64)>,
}

impl Facts {
    /// Reads a file's facts; `None` for anything but a 64-bit ELF file.
    pub fn read(file: &File) -> Option<Self> {
        let cache = ReadCache::new(file);
        let data = &cache;
        let header = FileHeader64::<Endianness>::parse(data).ok()?;
        let endian = header.endian().ok()?;
        let mut facts = Self::default();
        for segment in header.program_headers(endian, data).ok()? {
            if segment.p_type(endian) == PT_LOAD {
                let (offset, size) = segment.file_range(endian);
                facts.loads.push((offset, size, segment.p_vaddr(endian)));
            }
        }
        let sections = header.section_headers(endian, data).ok()?;
        let names = header.section_strings_index(endian, data).ok().and_then(|index| sections.get(index.0));
        let names = names.map(|names| (names.sh_offset(endian), names.sh_size(endian).min(MAX_NAMES_BYTES)));
        let names =
            names.and_then(|(offset, size)| data.read_bytes_at(offset, size).ok()).unwrap_or_default();
        for section in sections {
            let kind = section.sh_type(endian);
            let (offset, size) = (section.sh_offset(endian), section.sh_size(endian));
            let name = names.get(section.sh_name(endian) as usize..).unwrap_or_default();
            let small = || data.read_bytes_at(offset, size.min(MAX_SECTION_BYTES)).ok();
            match name.split(|&byte| byte == 0).next() {
                _ if kind == SHT_NOBITS => (),
                _ if kind == SHT_SYMTAB => facts.has_symbols |= size > 0,
                Some(b".gnu_debuglink") => facts.link = small().and_then(debug_link),
                Some(b".gnu_debugaltlink") => facts.shared = small().and_then(shared),
                Some(b".gnu_debugdata") => facts.packed = Some((offset, size)),
                _ => (),
            }
        }
        Some(facts)
    }

    /// A byte's address, as symbols count addresses; `None` if it is not loaded.
    pub fn address(&self, at: u64) -> Option<u64> {
        let holds =
            |&&(offset, size, _): &&(u64, u64, u64)| at.checked_sub(offset).is_some_and(|at| at < size);
        let &(offset, _, address) = self.loads.iter().find(holds)?;
        address.checked_add(at - offset)
    }
}

/// The name and the checksum in a `.gnu_debuglink`: a name, a NUL, padding to four bytes, and the checksum.
pub fn debug_link(section: &[u8]) -> Option<(Vec<u8>, u32)> {
    let end = section.iter().position(|&byte| byte == 0)?;
    let checksum = section.get((end + 4) & !3..)?.first_chunk::<4>()?;
    (end > 0).then(|| (section[..end].to_vec(), u32::from_le_bytes(*checksum)))
}

/// A path that ends with a zero, and a build id.
fn shared(section: &[u8]) -> Option<Vec<u8>> {
    let end = section.iter().position(|&byte| byte == 0)?;
    Some(section[end + 1..].to_vec()).filter(|id| !id.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_of_a_debug_file_stands_at_the_next_word_behind_its_name() {
        for length in 1..=8 {
            let mut section = vec![b'a'; length];
            section.push(0);
            section.resize(section.len().next_multiple_of(4), 0);
            section.extend([1, 2, 3, 4]);
            assert_eq!(debug_link(&section), Some((vec![b'a'; length], 0x0403_0201)), "{length}");
            assert_eq!(debug_link(&section[..section.len() - 1]), None, "{length}");
        }
        assert_eq!(debug_link(&[0, 0, 0, 0, 1, 2, 3, 4]), None, "a link without a name");
    }
}
