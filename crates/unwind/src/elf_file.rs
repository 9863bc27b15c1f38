//! The parts of an ELF file for unwinding. Its writer is not trusted: at most [`MAX_READ_BYTES`] are read at once.

use std::fs::File;
use std::ops::Range;

use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, SectionTable};
use object::{Endianness, ReadCache, ReadRef, elf};

/// The maximum number of bytes to read at once: a browser's largest table has a quarter of it. The sizes in a file may
/// be as large as a sparse file can be.
pub(crate) const MAX_READ_BYTES: u64 = 64 << 20;
/// The maximum number of sections to look at.
const MAX_SECTIONS: usize = 4096;
/// The maximum number of loaded parts.
const MAX_PARTS: usize = 256;

type Header = elf::FileHeader64<Endianness>;
type Section = elf::SectionHeader64<Endianness>;

/// The file behind a cache.
#[derive(Clone, Copy)]
pub(crate) struct Bounded<'a>(&'a ReadCache<File>);

impl<'a> ReadRef<'a> for Bounded<'a> {
    fn len(self) -> Result<u64, ()> {
        self.0.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        if size > MAX_READ_BYTES {
            return Err(());
        }
        self.0.read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        self.0.read_bytes_at_until(range, delimiter)
    }
}

/// A loaded part: its offset in the file, its size, bytes, and its address.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoadedPart {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) address: u64,
}

/// A file for x86-64.
pub(crate) struct Elf<'a> {
    data: Bounded<'a>,
    header: &'a Header,
    endian: Endianness,
    sections: SectionTable<'a, Header, Bounded<'a>>,
}

impl<'a> Elf<'a> {
    /// Reads the headers; `None` unless it is an ELF file for x86-64.
    pub(crate) fn parse(cache: &'a ReadCache<File>) -> Option<Self> {
        let data = Bounded(cache);
        let header = Header::parse(data).ok()?;
        let endian = header.endian().ok()?;
        if header.e_machine(endian) != elf::EM_X86_64 {
            return None;
        }
        // A file without sections can still be mapped.
        let sections = header.sections(endian, data).unwrap_or_default();
        Some(Self { data, header, endian, sections })
    }

    /// Its loaded parts.
    pub(crate) fn parts(&self) -> Vec<LoadedPart> {
        let (endian, all) = (self.endian, self.header.program_headers(self.endian, self.data));
        let loaded = all.unwrap_or_default().iter().filter(|part| part.p_type(endian) == elf::PT_LOAD);
        let part = |part: &elf::ProgramHeader64<Endianness>| LoadedPart {
            offset: part.p_offset(endian),
            bytes: part.p_filesz(endian),
            address: part.p_vaddr(endian),
        };
        loaded.take(MAX_PARTS).map(part).collect()
    }

    /// The section with this name.
    pub(crate) fn section(&self, name: &[u8]) -> Option<SectionOf<'a>> {
        let named =
            |section: &&Section| self.sections.section_name(self.endian, section).is_ok_and(|it| it == name);
        let section = self.sections.iter().take(MAX_SECTIONS).find(named)?;
        Some(SectionOf { section, endian: self.endian, data: self.data })
    }

    /// Its symbols' names, each with its addresses.
    pub(crate) fn symbols(&self) -> impl Iterator<Item = (&'a [u8], Range<u64>)> {
        let endian = self.endian;
        let table = self.sections.symbols(endian, self.data, elf::SHT_SYMTAB).unwrap_or_default();
        let names = self.sections.section(table.string_section()).ok();
        // All at once: there may be a hundred thousand.
        let names = names.and_then(|names| names.data(endian, self.data).ok()).unwrap_or_default();
        table.symbols().iter().filter_map(move |symbol| {
            let name = names.get(symbol.st_name.get(endian) as usize..)?;
            let name = &name[..name.iter().position(|&b| b == 0)?];
            let from = symbol.st_value.get(endian);
            Some((name, from..from.saturating_add(symbol.st_size.get(endian))))
        })
    }
}

/// A section.
pub(crate) struct SectionOf<'a> {
    section: &'a Section,
    endian: Endianness,
    data: Bounded<'a>,
}

impl<'a> SectionOf<'a> {
    /// Its address.
    pub(crate) fn address(&self) -> u64 {
        self.section.sh_addr(self.endian)
    }

    /// Its bytes in the file; `None` if it has none there, or too many.
    pub(crate) fn bytes(&self) -> Option<&'a [u8]> {
        self.section.data(self.endian, self.data).ok().filter(|bytes| !bytes.is_empty())
    }

    /// Whether its bytes are compressed.
    pub(crate) fn is_compressed(&self) -> bool {
        self.section.sh_flags(self.endian) & u64::from(elf::SHF_COMPRESSED) != 0
    }
}
