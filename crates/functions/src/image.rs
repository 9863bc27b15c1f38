//! A file with code: which parts of it are code, and its symbols.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use object::elf;
use object::read::ReadCache;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, SectionTable};
use object::{Endianness, ReadRef};

use crate::error::FileError;
use crate::go_table::{self, GoTable};
use crate::symbols::Symbols;

/// Most bytes of one function that are decoded. The biggest that compilers make are smaller.
const MAX_BODY_BYTES: u64 = 1 << 20;

/// A part of the file that is mapped to be executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Segment {
    pub addresses: Range<u64>,
    /// Where its first byte stands in the file.
    pub offset: u64,
}

/// A file with code.
#[derive(Debug)]
pub(crate) struct Image {
    pub path: PathBuf,
    file: File,
    /// Where its code is; in order of address.
    segments: Vec<Segment>,
    pub symbols: Symbols,
    /// The note that names this build; empty if there is none.
    pub build_id: Vec<u8>,
    /// The separate debug file's name and checksum.
    pub debug_link: Option<(Vec<u8>, u32)>,
    /// Whether Go's linker made it.
    pub go: bool,
    /// Whether it was Go 1.17 or an older one.
    pub old_go: bool,
    /// Tables that contradict themselves and were left out.
    pub damaged: Vec<&'static str>,
    debug_sections: Vec<DebugSection>,
    /// The table for unwinding: its address, and where it stands in the file.
    frame_table: Option<(u64, Range<u64>)>,
}

/// A section of debug information.
#[derive(Debug)]
struct DebugSection {
    name: &'static str,
    /// Where in the file, bytes.
    range: Range<u64>,
    /// Whether a header and a zlib stream stand there.
    compressed: bool,
}

/// The sections of debug information that names of functions are in, and two without which no unit of
/// it is opened.
const DEBUG_SECTIONS: [&str; 7] = [
    ".debug_info",
    ".debug_abbrev",
    ".debug_str",
    ".debug_line_str",
    ".debug_str_offsets",
    ".debug_line",
    ".debug_addr",
];

impl Image {
    /// Opens a file and reads its tables.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let unreadable = |source| FileError::Unreadable { path: path.to_owned(), source };
        let metadata = std::fs::metadata(path).map_err(unreadable)?;
        // Opening a pipe would wait for its other end.
        if !metadata.is_file() {
            return Err(FileError::NotRegular { path: path.to_owned() });
        }
        let file = File::open(path).map_err(unreadable)?;
        check_kind(path, &file)?;
        let cache = ReadCache::new(file.try_clone().map_err(unreadable)?);
        let mut image = Self {
            path: path.to_owned(),
            file,
            segments: Vec::new(),
            symbols: Symbols::default(),
            build_id: Vec::new(),
            debug_link: None,
            go: false,
            old_go: false,
            damaged: Vec::new(),
            debug_sections: Vec::new(),
            frame_table: None,
        };
        image
            .read(&cache)
            .map_err(|error| FileError::Damaged { path: path.to_owned(), what: error.to_string() })?;
        Ok(image)
    }

    fn read<'data, R: ReadRef<'data>>(&mut self, data: R) -> object::Result<()> {
        let header = elf::FileHeader64::<Endianness>::parse(data)?;
        let endian = header.endian()?;
        for segment in header.program_headers(endian, data)? {
            let executable = segment.p_flags(endian) & elf::PF_X != 0;
            if segment.p_type(endian) != elf::PT_LOAD || !executable {
                continue;
            }
            let start = segment.p_vaddr(endian);
            if let Some(end) = start.checked_add(segment.p_filesz(endian)) {
                self.segments.push(Segment { addresses: start..end, offset: segment.p_offset(endian) });
            }
        }
        self.segments.sort_by_key(|segment| segment.addresses.start);
        let sections = header.sections(endian, data)?;
        (self.symbols, self.damaged) = Symbols::read(&sections, endian, data);
        self.read_marks(&sections, endian, data);
        self.read_go_table(&sections, endian, data);
        Ok(())
    }

    /// Reads the names that Go keeps where the linker's are stripped.
    fn read_go_table<'data, R: ReadRef<'data>>(
        &mut self,
        sections: &SectionTable<'data, elf::FileHeader64<Endianness>, R>,
        endian: Endianness,
        data: R,
    ) {
        let find = |name: &str| sections.section_by_name(endian, name.as_bytes()).map(|(_, section)| section);
        let table = find(".gopclntab").or_else(|| find(".data.rel.ro.gopclntab"));
        let Some(table) = table.and_then(|section| section.data(endian, data).ok()) else { return };
        self.old_go = go_table::is_old(table);
        let Some(table) = GoTable::of(table).filter(|_| !self.symbols.full) else { return };
        let module = find(".go.module").and_then(|section| section.data(endian, data).ok());
        let module = module.and_then(go_table::text_of_module);
        let text = find(".text").map(|section| section.sh_addr(endian));
        let code = |address| self.code(address..address.saturating_add(4)).ok()?.first_chunk().copied();
        let places = [Some(table.text), module, text];
        if let Some(text) = table.text(places.into_iter().flatten(), code) {
            self.symbols.add_go(&table, text);
        }
    }

    fn read_marks<'data, R: ReadRef<'data>>(
        &mut self,
        sections: &SectionTable<'data, elf::FileHeader64<Endianness>, R>,
        endian: Endianness,
        data: R,
    ) {
        for section in sections.iter() {
            match sections.section_name(endian, section).unwrap_or_default() {
                b".gopclntab" | b".go.buildinfo" | b".data.rel.ro.gopclntab" => self.go = true,
                b".note.gnu.build-id" if self.build_id.is_empty() => {
                    let Ok(Some(mut notes)) = section.notes(endian, data) else { continue };
                    while let Ok(Some(note)) = notes.next() {
                        if note.name() == elf::ELF_NOTE_GNU && note.n_type(endian) == elf::NT_GNU_BUILD_ID {
                            self.build_id = note.desc().to_vec();
                        }
                    }
                }
                b".gnu_debuglink" => {
                    self.debug_link = section.data(endian, data).ok().and_then(debug_link);
                }
                b".eh_frame" => {
                    let place = section.file_range(endian);
                    self.frame_table = place
                        .map(|(start, size)| (section.sh_addr(endian), start..start.saturating_add(size)));
                }
                name => self.read_debug_section(name, section, endian),
            }
        }
    }

    fn read_debug_section(
        &mut self,
        name: &[u8],
        section: &elf::SectionHeader64<Endianness>,
        endian: Endianness,
    ) {
        let Some(name) = DEBUG_SECTIONS.iter().find(|known| known.as_bytes() == name) else { return };
        let Some((start, size)) = section.file_range(endian) else { return };
        let compressed = section.sh_flags(endian) & u64::from(elf::SHF_COMPRESSED) != 0;
        let range = start..start.saturating_add(size);
        self.debug_sections.push(DebugSection { name, range, compressed });
    }

    /// How much debug information there is, bytes in the file.
    pub fn debug_bytes(&self) -> u64 {
        let sizes = self.debug_sections.iter().map(|section| section.range.end - section.range.start);
        sizes.fold(0, u64::saturating_add)
    }

    /// A section of debug information; empty if there is none, or it cannot be read, or it is longer
    /// than `most` bytes.
    pub fn debug_section(&self, name: &str, most: usize) -> Vec<u8> {
        self.debug_sections
            .iter()
            .find(|section| section.name == name)
            .and_then(|section| self.read_section(section, most))
            .unwrap_or_default()
    }

    /// The table for unwinding and its address.
    pub fn frame_table(&self) -> Option<(u64, Vec<u8>)> {
        let (address, range) = self.frame_table.as_ref()?;
        self.read_range(range).map(|bytes| (*address, bytes))
    }

    /// Bytes of the file, if it holds them all.
    fn read_range(&self, range: &Range<u64>) -> Option<Vec<u8>> {
        let held = self.file.metadata().ok()?.len();
        if range.end > held {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(range.end - range.start).ok()?];
        self.file.read_exact_at(&mut bytes, range.start).ok()?;
        Some(bytes)
    }

    fn read_section(&self, section: &DebugSection, most: usize) -> Option<Vec<u8>> {
        let raw = self.read_range(&section.range)?;
        if !section.compressed {
            return (raw.len() <= most).then_some(raw);
        }
        // The kind, a word left free, the size when unpacked, the alignment.
        let (header, stream) = raw.split_at_checked(24)?;
        if u32::from_le_bytes(*header.first_chunk()?) != elf::ELFCOMPRESS_ZLIB {
            return None;
        }
        let mut unpacked = Vec::new();
        let unpack = flate2::read::ZlibDecoder::new(stream);
        unpack.take(most as u64 + 1).read_to_end(&mut unpacked).ok()?;
        (unpacked.len() <= most).then_some(unpacked)
    }

    /// Whether its code throws exceptions, or lets them pass: it is of C++, or of Rust.
    pub fn unwinds(&self) -> bool {
        let marks = ["__gxx_personality_v0", "rust_eh_personality", "_Unwind_RaiseException", "__cxa_throw"];
        self.symbols.iter().any(|symbol| marks.contains(&self.symbols.name(symbol)))
    }

    /// Whether its code goes from one stack of a thread to another: it calls or holds what does. Code that
    /// switches by itself, without a symbol, is not known to.
    pub fn switches_stacks(&self) -> bool {
        let of_c = ["swapcontext", "makecontext"];
        let others = [
            "jump_fcontext",
            "make_fcontext",
            "ontop_fcontext",
            "coro_transfer",
            "coroutine_transfer",
            "qemu_coroutine_switch",
            "co_switch",
        ];
        // C's library has them for others; in a program they are since it calls them.
        let is_program = self.symbols.iter().any(|symbol| self.symbols.name(symbol) == "main");
        self.symbols.iter().any(|symbol| {
            let name = self.symbols.name(symbol);
            others.contains(&name) || of_c.contains(&name) && (symbol.imported || is_program)
        })
    }

    /// Where the byte at an address stands in the file, if it is code.
    pub fn offset(&self, address: u64) -> Option<u64> {
        let segment = self.segment(address)?;
        segment.offset.checked_add(address - segment.addresses.start)
    }

    fn segment(&self, address: u64) -> Option<&Segment> {
        self.segments.iter().find(|segment| segment.addresses.contains(&address))
    }

    /// The end of the code around an address.
    pub fn end_of_code(&self, address: u64) -> Option<u64> {
        self.segment(address).map(|segment| segment.addresses.end)
    }

    /// How many bytes of the file may be code, as it says.
    pub fn code_bytes(&self) -> u64 {
        let stated = self
            .segments
            .iter()
            .fold(0_u64, |sum, segment| sum.saturating_add(segment.addresses.end - segment.addresses.start));
        stated.min(self.file.metadata().map_or(0, |metadata| metadata.len()))
    }

    /// The code of `addresses`, as much of it as the file holds, and of one segment.
    pub fn code(&self, addresses: Range<u64>) -> io::Result<Vec<u8>> {
        let (Some(offset), Some(end)) = (self.offset(addresses.start), self.end_of_code(addresses.start))
        else {
            return Ok(Vec::new());
        };
        let wanted = addresses.end.min(end).saturating_sub(addresses.start).min(MAX_BODY_BYTES);
        let held = self.file.metadata()?.len().saturating_sub(offset);
        let mut code = vec![0; wanted.min(held) as usize];
        self.file.read_exact_at(&mut code, offset)?;
        Ok(code)
    }
}

/// Refuses what is not a 64-bit little-endian ELF file for x86, and says what it is.
fn check_kind(path: &Path, file: &File) -> Result<(), FileError> {
    let mut start = Vec::new();
    file.take(256)
        .read_to_end(&mut start)
        .map_err(|source| FileError::Unreadable { path: path.to_owned(), source })?;
    if let Some(line) = start.strip_prefix(b"#!") {
        let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line);
        let interpreter = line.split_whitespace().next().unwrap_or("an interpreter").to_owned();
        return Err(FileError::Script { path: path.to_owned(), interpreter });
    }
    if !start.starts_with(&elf::ELFMAG) {
        return Err(FileError::NotElf { path: path.to_owned() });
    }
    let (Some(class), Some(order), Some(machine)) = (start.get(4), start.get(5), start.get(18..20)) else {
        return Err(FileError::Damaged { path: path.to_owned(), what: "its header is cut off".to_owned() });
    };
    let machine = match *order {
        elf::ELFDATA2MSB => u16::from_be_bytes([machine[0], machine[1]]),
        _ => u16::from_le_bytes([machine[0], machine[1]]),
    };
    let machine = match (machine, *class) {
        (elf::EM_X86_64, elf::ELFCLASS64) => return Ok(()),
        (elf::EM_X86_64, _) => "x86-64 with 32-bit addresses (x32)".to_owned(),
        (elf::EM_386, _) => "32-bit x86".to_owned(),
        (elf::EM_AARCH64, _) => "64-bit ARM (aarch64)".to_owned(),
        (elf::EM_ARM, _) => "32-bit ARM".to_owned(),
        (elf::EM_RISCV, _) => "RISC-V".to_owned(),
        (elf::EM_S390, _) => "IBM Z".to_owned(),
        (elf::EM_PPC64, _) => "64-bit POWER".to_owned(),
        (other, _) => format!("a machine that ELF numbers {other}"),
    };
    Err(FileError::Machine { path: path.to_owned(), machine })
}

/// A file's name, a NUL, padding to four bytes, and the checksum of that file.
fn debug_link(section: &[u8]) -> Option<(Vec<u8>, u32)> {
    let end = section.iter().position(|&byte| byte == 0)?;
    let checksum = section.get((end + 4) & !3..)?.first_chunk::<4>()?;
    (end > 0).then(|| (section[..end].to_vec(), u32::from_le_bytes(*checksum)))
}

#[cfg(test)]
mod tests {
    use super::debug_link;

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
