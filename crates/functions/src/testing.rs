//! Small ELF files that tests write byte by byte, and searches in them.

use std::path::{Path, PathBuf};

use object::elf;
use tempfile::TempDir;

use crate::error::FindError;
use crate::find::{Finder, Found};
use crate::function::Function;
use crate::image::Image;
use crate::target::Target;

/// The address of most tests' code.
pub(crate) const CODE: u64 = 0x1000;

const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;

/// A file for x86-64, before its writing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Elf {
    segments: Vec<Segment>,
    sections: Vec<Section>,
    symbols: Vec<Symbol>,
}

/// A mapped part of the file, by its header.
#[derive(Debug, Clone)]
struct Segment {
    kind: u32,
    flags: u32,
    address: u64,
    bytes: Vec<u8>,
}

/// A section.
#[derive(Debug, Clone, Default)]
pub(crate) struct Section {
    pub name: &'static str,
    pub kind: u32,
    pub flags: u64,
    pub address: u64,
    pub bytes: Vec<u8>,
    /// The size in its header, if that differs.
    pub stated: Option<u64>,
    pub link: u32,
    pub entry: u64,
}

/// A symbol, for the table of all symbols or the table of exported ones.
#[derive(Debug, Clone)]
struct Symbol {
    name: Vec<u8>,
    kind: u8,
    address: u64,
    size: u64,
    imported: bool,
    exported: bool,
}

impl Section {
    /// A section with bytes that mean something to a program.
    pub fn new(name: &'static str, bytes: &[u8]) -> Self {
        Self { name, kind: elf::SHT_PROGBITS, bytes: bytes.to_vec(), ..Self::default() }
    }
}

impl Elf {
    /// Adds a part of the file that is mapped to an address.
    pub fn segment(mut self, kind: u32, flags: u32, address: u64, bytes: &[u8]) -> Self {
        self.segments.push(Segment { kind, flags, address, bytes: bytes.to_vec() });
        self
    }

    /// Code at an address.
    pub fn code(self, address: u64, bytes: &[u8]) -> Self {
        self.segment(elf::PT_LOAD, elf::PF_R | elf::PF_X, address, bytes)
    }

    pub fn section(mut self, section: Section) -> Self {
        self.sections.push(section);
        self
    }

    /// A function in the table of all symbols.
    pub fn function(self, name: &str, address: u64, size: u64) -> Self {
        self.symbol(name, elf::STT_FUNC, address, size)
    }

    /// Any symbol in the table of all symbols.
    pub fn symbol(mut self, name: &str, kind: u8, address: u64, size: u64) -> Self {
        let (name, imported, exported) = (name.as_bytes().to_vec(), false, false);
        self.symbols.push(Symbol { name, kind, address, size, imported, exported });
        self
    }

    /// Another file's symbol, in the table of all symbols; this file calls it by `address`.
    pub fn imported(mut self, name: &str, kind: u8, address: u64) -> Self {
        let name = name.as_bytes().to_vec();
        self.symbols.push(Symbol { name, kind, address, size: 0, imported: true, exported: false });
        self
    }

    /// The note that names its build.
    pub fn build(self, id: &[u8]) -> Self {
        let mut note = [4, id.len() as u32, elf::NT_GNU_BUILD_ID].map(u32::to_le_bytes).concat();
        note.extend(b"GNU\0");
        note.extend(id);
        self.section(Section { kind: elf::SHT_NOTE, ..Section::new(".note.gnu.build-id", &note) })
    }

    /// Its debug file's name and checksum.
    pub fn debug_link(self, name: &str, checksum: u32) -> Self {
        let mut link = name.as_bytes().to_vec();
        link.resize((name.len() + 1).next_multiple_of(4), 0);
        link.extend(checksum.to_le_bytes());
        self.section(Section::new(".gnu_debuglink", &link))
    }

    /// Puts the symbols so far into the table of exported ones.
    pub fn exported(mut self) -> Self {
        self.symbols.iter_mut().for_each(|symbol| symbol.exported = true);
        self
    }

    /// The file offset of the byte at a code address.
    pub fn offset(&self, address: u64) -> u64 {
        let mut at = (HEADER + self.segments.len() * PROGRAM_HEADER) as u64;
        for segment in &self.segments {
            let size = segment.bytes.len() as u64;
            if (segment.address..segment.address + size).contains(&address) {
                return at + (address - segment.address);
            }
            at += size;
        }
        panic!("{address:#x} is in no segment")
    }

    /// The sections with the symbols' sections, and their names.
    fn all_sections(&self) -> Vec<Section> {
        let mut sections = vec![Section::default()];
        sections.extend(self.sections.iter().cloned());
        for (exported, name, strings, kind) in
            [(false, ".symtab", ".strtab", elf::SHT_SYMTAB), (true, ".dynsym", ".dynstr", elf::SHT_DYNSYM)]
        {
            let symbols: Vec<_> = self.symbols.iter().filter(|symbol| symbol.exported == exported).collect();
            if symbols.is_empty() {
                continue;
            }
            let (mut table, mut names) = (vec![0; 24], vec![0]);
            for symbol in symbols {
                table.extend((names.len() as u32).to_le_bytes());
                table.extend([elf::STB_GLOBAL << 4 | symbol.kind, 0]);
                let section = if symbol.imported { elf::SHN_UNDEF } else { elf::SHN_ABS };
                table.extend(section.to_le_bytes());
                table.extend(symbol.address.to_le_bytes());
                table.extend(symbol.size.to_le_bytes());
                names.extend(&symbol.name);
                names.push(0);
            }
            let link = sections.len() as u32 + 1;
            sections.push(Section { name, kind, bytes: table, link, entry: 24, ..Section::default() });
            sections.push(Section {
                name: strings,
                kind: elf::SHT_STRTAB,
                bytes: names,
                ..Section::default()
            });
        }
        sections
    }

    /// The file: its header, the segments' headers, their bytes, the sections' bytes, and their headers.
    pub fn bytes(&self) -> Vec<u8> {
        let mut sections = self.all_sections();
        let names_at = sections.len();
        sections.push(Section { name: ".shstrtab", kind: elf::SHT_STRTAB, ..Section::default() });
        let mut names = Vec::new();
        let name_at: Vec<u32> = sections
            .iter()
            .map(|section| {
                let at = names.len() as u32;
                names.extend(section.name.as_bytes());
                names.push(0);
                at
            })
            .collect();
        sections[names_at].bytes = names;

        let mut content: Vec<u8> = Vec::new();
        let start = HEADER + self.segments.len() * PROGRAM_HEADER;
        let mut headers: Vec<u8> = Vec::new();
        for segment in &self.segments {
            headers.extend(segment.kind.to_le_bytes());
            headers.extend(segment.flags.to_le_bytes());
            let size = segment.bytes.len() as u64;
            let offset = (start + content.len()) as u64;
            for long in [offset, segment.address, segment.address, size, size, 1] {
                headers.extend(long.to_le_bytes());
            }
            content.extend(&segment.bytes);
        }
        let mut section_headers: Vec<u8> = Vec::new();
        for (section, name) in sections.iter().zip(name_at) {
            let offset = (start + content.len()) as u64;
            section_headers.extend(name.to_le_bytes());
            section_headers.extend(section.kind.to_le_bytes());
            let size = section.stated.unwrap_or(section.bytes.len() as u64);
            for long in [section.flags, section.address, offset, size] {
                section_headers.extend(long.to_le_bytes());
            }
            section_headers.extend(section.link.to_le_bytes());
            section_headers.extend(0_u32.to_le_bytes());
            section_headers.extend(1_u64.to_le_bytes());
            section_headers.extend(section.entry.to_le_bytes());
            content.extend(&section.bytes);
        }

        let mut file = vec![0x7f, b'E', b'L', b'F', elf::ELFCLASS64, elf::ELFDATA2LSB, elf::EV_CURRENT];
        file.resize(16, 0);
        file.extend(elf::ET_DYN.to_le_bytes());
        file.extend(elf::EM_X86_64.to_le_bytes());
        file.extend(1_u32.to_le_bytes());
        for long in [0, HEADER as u64, (start + content.len()) as u64] {
            file.extend(long.to_le_bytes());
        }
        file.extend(0_u32.to_le_bytes());
        let counts = [HEADER, PROGRAM_HEADER, self.segments.len(), 64, sections.len(), names_at];
        file.extend(counts.into_iter().flat_map(|count| (count as u16).to_le_bytes()));
        file.extend(headers);
        file.extend(content);
        file.extend(section_headers);
        file
    }

    /// Writes it into its own folder.
    pub fn write(&self) -> Made {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app");
        std::fs::write(&path, self.bytes()).unwrap();
        Made { path, _folder: folder }
    }
}

/// A file on the disk, removed with this value.
#[derive(Debug)]
pub(crate) struct Made {
    pub path: PathBuf,
    _folder: TempDir,
}

impl Made {
    pub fn image(&self) -> Image {
        Image::open(&self.path).unwrap()
    }

    pub fn find(&self, function: &str) -> Result<Found, FindError> {
        find(&self.path, function)
    }

    /// The only matching function.
    pub fn only(&self, function: &str) -> Function {
        let found = self.find(function).unwrap_or_else(|error| panic!("{function}: {error}"));
        assert!(found.functions.len() == 1 && found.refused.is_empty(), "{function}: {found:?}");
        found.functions.into_iter().next().unwrap()
    }

    /// The message about a function that is not found or not to be probed.
    pub fn refusal(&self, function: &str) -> String {
        match self.find(function) {
            Ok(found) => panic!("{function} is not refused: {found:?}"),
            Err(error) => error.to_string(),
        }
    }
}

pub(crate) fn find(file: &Path, function: &str) -> Result<Found, FindError> {
    let target = Target::parse(&format!("{}:{function}", file.display())).unwrap();
    Finder::new(&[]).find(&target)
}

/// Go's runtime table, as Go 1.20 writes it: functions, each by its distance from the beginning of Go's code, up to the
/// end of the last.
pub(crate) fn go_table(text: u64, functions: &[(u32, &str)], end: u32) -> Vec<u8> {
    let mut table = vec![0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8];
    let names: Vec<u8> = functions.iter().flat_map(|(_, name)| name.bytes().chain([0])).collect();
    for long in [functions.len() as u64, 0, text, 72, 0, 0, 0, 72 + names.len() as u64] {
        table.extend(long.to_le_bytes());
    }
    table.extend(&names);
    // The places of all functions and the end, then for each the place once more and its name's place.
    let (mut places, mut rest, mut name_at) = (Vec::new(), Vec::new(), 0);
    for (number, (offset, name)) in functions.iter().enumerate() {
        places
            .extend([*offset, (functions.len() * 8 + 4 + number * 8) as u32].map(u32::to_le_bytes).concat());
        rest.extend([*offset, name_at].map(u32::to_le_bytes).concat());
        name_at += name.len() as u32 + 1;
    }
    table.extend(places);
    table.extend(end.to_le_bytes());
    table.extend(rest);
    table
}
