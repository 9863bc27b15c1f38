//! A file's symbol tables.

use std::collections::HashMap;

use object::elf::{self, SectionHeader64, Sym64};
use object::read::elf::{SectionHeader, SectionTable, Sym, VersionTable};
use object::{Endianness, ReadRef, SymbolIndex};

use crate::go_table::GoTable;

type Elf = elf::FileHeader64<Endianness>;

/// The maximum length of a name, bytes: longer names are taken for damage.
const MAX_NAME_BYTES: usize = 64 << 10;

/// The maximum length of a kept version, bytes.
const MAX_VERSION_BYTES: usize = 256;

/// A symbol's kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SymbolKind {
    /// A function.
    Function,
    /// A function that chooses the function for the name.
    Ifunc,
    /// A place: assembler code without more information.
    Label,
    /// Data, also thread-local.
    Data,
}

/// A symbol.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Symbol {
    pub address: u64,
    /// Bytes; 0 is unknown.
    pub size: u64,
    pub kind: SymbolKind,
    /// Whether another file defines it: here is only its name.
    pub imported: bool,
    /// The index in [`Symbols::strings`], and the offset in that table.
    name: (u32, u32),
    /// The index in [`Symbols::versions`], and whether it is hidden behind a newer default.
    version: Option<(u32, bool)>,
}

/// All symbols in a file, or in several files that belong together.
///
/// Names stay in the tables they were read from: a hostile table may give every symbol the same long name.
#[derive(Debug, Default)]
pub(crate) struct Symbols {
    strings: Vec<Vec<u8>>,
    versions: Vec<String>,
    entries: Vec<Symbol>,
    /// Whether there was a table of all symbols, beside the exported ones.
    pub full: bool,
}

impl Symbols {
    /// Reads the tables among `sections`; a table that contradicts itself is left out and named.
    pub fn read<'data, R: ReadRef<'data>>(
        sections: &SectionTable<'data, Elf, R>,
        endian: Endianness,
        data: R,
    ) -> (Self, Vec<&'static str>) {
        let mut symbols = Self::default();
        let mut damaged = Vec::new();
        // Files have one table per kind; a thousand would be read a thousand times.
        let find = |kind: u32| sections.iter().find(|section| section.sh_type(endian) == kind);
        for (kind, name) in [(elf::SHT_SYMTAB, ".symtab"), (elf::SHT_DYNSYM, ".dynsym")] {
            let Some(section) = find(kind) else { continue };
            let versions =
                (kind == elf::SHT_DYNSYM).then(|| sections.versions(endian, data).ok().flatten()).flatten();
            match symbols.add(section, sections, endian, data, versions.as_ref()) {
                Some(is_empty) => symbols.full |= kind == elf::SHT_SYMTAB && !is_empty,
                None => damaged.push(name),
            }
        }
        (symbols, damaged)
    }

    /// Adds a table's symbols, and returns whether it is empty; `None` where it contradicts itself.
    fn add<'data, R: ReadRef<'data>>(
        &mut self,
        section: &SectionHeader64<Endianness>,
        sections: &SectionTable<'data, Elf, R>,
        endian: Endianness,
        data: R,
        versions: Option<&VersionTable<'data, Elf>>,
    ) -> Option<bool> {
        let table: &[Sym64<Endianness>] = section.data_as_array(endian, data).ok()?;
        if table.is_empty() {
            // A debug file keeps the header of a table whose content the file itself has.
            return Some(true);
        }
        let strings = sections.section(section.link(endian)).ok()?.data(endian, data).ok()?;
        let which = u32::try_from(self.strings.len()).ok()?;
        self.strings.push(strings.to_vec());
        let mut known: HashMap<u16, u32> = HashMap::new();
        for (index, symbol) in table.iter().enumerate().skip(1) {
            let kind = match symbol.st_type() {
                elf::STT_FUNC => SymbolKind::Function,
                elf::STT_GNU_IFUNC => SymbolKind::Ifunc,
                elf::STT_NOTYPE => SymbolKind::Label,
                elf::STT_OBJECT | elf::STT_TLS | elf::STT_COMMON => SymbolKind::Data,
                _ => continue,
            };
            let version = versions.and_then(|table| {
                let index = table.version_index(endian, SymbolIndex(index));
                let name = table.version(index).ok().flatten()?.name();
                let at = *known.entry(index.index()).or_insert_with(|| {
                    let name = &name[..name.len().min(MAX_VERSION_BYTES)];
                    self.versions.push(String::from_utf8_lossy(name).into_owned());
                    self.versions.len() as u32 - 1
                });
                Some((at, index.is_hidden()))
            });
            self.entries.push(Symbol {
                address: symbol.st_value(endian),
                size: symbol.st_size(endian),
                kind,
                imported: symbol.st_shndx(endian) == elf::SHN_UNDEF,
                name: (which, symbol.st_name(endian)),
                version,
            });
        }
        Some(false)
    }

    /// Takes in the symbols of the file's separate debug file.
    pub fn merge(&mut self, mut other: Self) {
        let strings = self.strings.len() as u32;
        let versions = self.versions.len() as u32;
        for symbol in &mut other.entries {
            symbol.name.0 += strings;
            symbol.version = symbol.version.map(|(which, hidden)| (which + versions, hidden));
        }
        self.strings.append(&mut other.strings);
        self.versions.append(&mut other.versions);
        self.entries.append(&mut other.entries);
        self.full |= other.full;
    }

    /// Adds a stripped program's functions from Go's runtime; its Go code begins at `text`.
    pub fn add_go(&mut self, table: &GoTable<'_>, text: u64) {
        let Ok(which) = u32::try_from(self.strings.len()) else { return };
        self.strings.push(table.names.to_vec());
        self.strings.push(b"runtime.text\0runtime.etext\0".to_vec());
        let mut add = |kind, offset: u32, size: u32, name| {
            let address = text.saturating_add(offset.into());
            let size = size.into();
            self.entries.push(Symbol { address, size, kind, imported: false, name, version: None });
        };
        let ends = table.functions.iter().skip(1).map(|&(offset, _)| offset).chain([table.end]);
        for (&(offset, name), end) in table.functions.iter().zip(ends) {
            add(SymbolKind::Function, offset, end - offset, (which, name));
        }
        add(SymbolKind::Label, 0, 0, (which + 1, 0));
        add(SymbolKind::Label, table.end, 0, (which + 1, 13));
        self.full = true;
    }

    pub fn iter(&self) -> impl Iterator<Item = &Symbol> {
        self.entries.iter()
    }

    /// A symbol's name, without its version; empty if it has no name that makes sense.
    pub fn name(&self, symbol: &Symbol) -> &str {
        self.raw_name(symbol).split('@').next().unwrap_or_default()
    }

    /// A symbol's name with its version if it has one: an `@` before a version hidden behind a newer default, two
    /// before the default. Linkers write it so into the table of all symbols.
    pub fn versioned_name(&self, symbol: &Symbol) -> String {
        let raw = self.raw_name(symbol);
        match symbol.version {
            Some((which, hidden)) => {
                let at = if hidden { "@" } else { "@@" };
                format!("{raw}{at}{}", self.versions[which as usize])
            }
            None => raw.to_owned(),
        }
    }

    fn raw_name(&self, symbol: &Symbol) -> &str {
        let (which, at) = symbol.name;
        let Some(rest) = self.strings[which as usize].get(at as usize..) else { return "" };
        let rest = &rest[..rest.len().min(MAX_NAME_BYTES)];
        let Some(end) = rest.iter().position(|&byte| byte == 0) else { return "" };
        std::str::from_utf8(&rest[..end]).unwrap_or_default()
    }
}
