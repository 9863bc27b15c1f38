//! A file with code: its code's parts, and its symbols.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use object::elf;
use object::read::ReadCache;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, SectionTable};
use object::{Endianness, ReadRef};
use wakepath_symbols::debug_link;

use crate::error::FileError;
use crate::frames::LazyFrames;
use crate::go_table::{self, GoTable};
use crate::symbols::{Symbol, Symbols};

/// The maximum size of a function to decode, bytes. The biggest functions from compilers are smaller.
const MAX_BODY_BYTES: u64 = 1 << 20;

/// A part of the file that is mapped to be executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Segment {
    pub addresses: Range<u64>,
    /// Its first byte's offset in the file.
    pub offset: u64,
}

/// A file with code.
#[derive(Debug)]
pub(crate) struct Image {
    pub path: PathBuf,
    file: File,
    /// The code's parts, by address.
    segments: Vec<Segment>,
    /// The data's parts.
    pub data: Vec<Segment>,
    pub symbols: Symbols,
    /// The note that names this build; empty if there is none.
    pub build_id: Vec<u8>,
    /// The separate debug file's name and checksum.
    pub debug_link: Option<(Vec<u8>, u32)>,
    /// Whether Go's linker made it.
    pub go: bool,
    /// Whether its Go is 1.17 or older.
    pub old_go: bool,
    /// Tables left out because they contradict themselves.
    pub damaged: Vec<&'static str>,
    debug_sections: Vec<DebugSection>,
    /// The table for unwinding: its address, and its range in the file.
    frame_table: Option<(u64, Range<u64>)>,
    /// The pieces of code in the table for unwinding.
    pub frames: LazyFrames,
    /// The section with Go's build information.
    pub build_info: Option<Range<u64>>,
}

/// A debug section.
#[derive(Debug)]
struct DebugSection {
    name: &'static str,
    /// Its range in the file, bytes.
    range: Range<u64>,
    /// Whether it holds a header and a zlib stream.
    compressed: bool,
}

/// The debug sections with function names, and two sections without which no unit can be opened.
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
            data: Vec::new(),
            symbols: Symbols::default(),
            build_id: Vec::new(),
            debug_link: None,
            go: false,
            old_go: false,
            damaged: Vec::new(),
            debug_sections: Vec::new(),
            frame_table: None,
            frames: LazyFrames::default(),
            build_info: None,
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
            if segment.p_type(endian) != elf::PT_LOAD {
                continue;
            }
            let start = segment.p_vaddr(endian);
            if let Some(end) = start.checked_add(segment.p_filesz(endian)) {
                let list = if executable { &mut self.segments } else { &mut self.data };
                list.push(Segment { addresses: start..end, offset: segment.p_offset(endian) });
            }
        }
        self.segments.sort_by_key(|segment| segment.addresses.start);
        let sections = header.sections(endian, data)?;
        (self.symbols, self.damaged) = Symbols::read(&sections, endian, data);
        self.read_marks(&sections, endian, data);
        self.read_go_table(&sections, endian, data);
        Ok(())
    }

    /// Reads Go's own names where the linker's are stripped.
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
                b".go.buildinfo" => {
                    self.go = true;
                    let place = section.file_range(endian);
                    self.build_info = place.map(|(start, size)| start..start.saturating_add(size));
                }
                b".gopclntab" | b".data.rel.ro.gopclntab" => self.go = true,
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

    /// The size of the debug information in the file, bytes.
    pub fn debug_bytes(&self) -> u64 {
        let sizes = self.debug_sections.iter().map(|section| section.range.end - section.range.start);
        sizes.fold(0, u64::saturating_add)
    }

    /// A debug section; empty if there is none, or it cannot be read, or it is longer than `most` bytes.
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

    /// Bytes from the file, if it holds them all.
    pub fn read_range(&self, range: &Range<u64>) -> Option<Vec<u8>> {
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
        // The kind, a word left free, the unpacked size, the alignment.
        let (header, stream) = raw.split_at_checked(24)?;
        if u32::from_le_bytes(*header.first_chunk()?) != elf::ELFCOMPRESS_ZLIB {
            return None;
        }
        let mut unpacked = Vec::new();
        let unpack = flate2::read::ZlibDecoder::new(stream);
        unpack.take(most as u64 + 1).read_to_end(&mut unpacked).ok()?;
        (unpacked.len() <= most).then_some(unpacked)
    }

    /// Whether its code throws exceptions, or lets them pass: it is C++ or Rust code.
    pub fn unwinds(&self) -> bool {
        let marks = ["__gxx_personality_v0", "rust_eh_personality", "_Unwind_RaiseException", "__cxa_throw"];
        self.symbols.iter().any(|symbol| marks.contains(&self.symbols.name(symbol)))
    }

    /// Whether its code lets exceptions pass although no symbol is left to say so: C++ or Rust, linked without libraries
    /// and stripped. C has such places too, for a thread's end: in the C library, and where the symbol says it.
    pub fn hides_personalities(&self) -> bool {
        let marks = ["__gcc_personality_v0", "__libc_start_main"];
        let is_c = |symbol: &Symbol| {
            let name = self.symbols.name(symbol);
            name == marks[0] || name == marks[1] && !symbol.imported
        };
        !self.symbols.full && !self.symbols.iter().any(is_c) && self.frames.get(self).has_personality
    }

    /// Whether its code moves a thread from one stack to another: it calls or holds a function for it. Code that
    /// switches by itself, without a symbol, is not recognized.
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
        // C's library has them for others; a program has them because it calls them.
        let is_program = self.symbols.iter().any(|symbol| self.symbols.name(symbol) == "main");
        self.symbols.iter().any(|symbol| {
            let name = self.symbols.name(symbol);
            others.contains(&name) || of_c.contains(&name) && (symbol.imported || is_program)
        })
    }

    /// The file offset of the byte at an address, if it is code.
    pub fn offset(&self, address: u64) -> Option<u64> {
        let segment = self.segment(address)?;
        segment.offset.checked_add(address - segment.addresses.start)
    }

    /// The address of the byte at a file offset, if it is code.
    pub fn address(&self, offset: u64) -> Option<u64> {
        let address =
            |segment: &Segment| segment.addresses.start.checked_add(offset.checked_sub(segment.offset)?);
        self.segments.iter().find_map(|segment| address(segment).filter(|it| segment.addresses.contains(it)))
    }

    fn segment(&self, address: u64) -> Option<&Segment> {
        self.segments.iter().find(|segment| segment.addresses.contains(&address))
    }

    /// The end of the code around an address.
    pub fn end_of_code(&self, address: u64) -> Option<u64> {
        self.segment(address).map(|segment| segment.addresses.end)
    }

    /// The stated size of the file's code, at most the file's length, bytes.
    pub fn code_bytes(&self) -> u64 {
        let stated = self
            .segments
            .iter()
            .fold(0_u64, |sum, segment| sum.saturating_add(segment.addresses.end - segment.addresses.start));
        stated.min(self.file.metadata().map_or(0, |metadata| metadata.len()))
    }

    /// The code at `addresses`, as far as the file and the segment hold it, at most 1 MiB.
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

/// Refuses all files but 64-bit little-endian ELF for x86, with an error that names the kind found.
fn check_kind(path: &Path, file: &File) -> Result<(), FileError> {
    let mut start = Vec::new();
    file.take(256)
        .read_to_end(&mut start)
        .map_err(|source| FileError::Unreadable { path: path.to_owned(), source })?;
    if let Some(line) = start.strip_prefix(b"#!") {
        let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line);
        let interpreter = line.split_whitespace().next().unwrap_or("an interpreter").to_owned();
        return Err(FileError::Script { path: path.to_owned(), interpreter, runs: None });
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

#[cfg(test)]
mod tests {
    use std::io::Write;

    use object::elf;

    use crate::testing::{CODE, Elf, Section};

    #[test]
    fn code_is_what_is_mapped_to_be_executed() {
        let bytes: Vec<u8> = (0..16).collect();
        let elf = Elf::default()
            .segment(elf::PT_LOAD, elf::PF_R, 0x1000, &bytes)
            .segment(elf::PT_NOTE, elf::PF_R | elf::PF_X, 0x2000, &bytes)
            .segment(elf::PT_LOAD, elf::PF_X, 0x4000, &bytes)
            .segment(elf::PT_LOAD, elf::PF_R | elf::PF_X, 0x3000, &bytes[..8]);
        let made = elf.write();
        let image = made.image();
        for (address, end) in [
            (0x1000, None),
            (0x1fff, None),
            (0x2000, None),
            (0x2fff, None),
            (0x3000, Some(0x3008)),
            (0x3007, Some(0x3008)),
            (0x3008, None),
            (0x3fff, None),
            (0x4000, Some(0x4010)),
            (0x400f, Some(0x4010)),
            (0x4010, None),
        ] {
            assert_eq!(image.end_of_code(address), end, "{address:#x}");
            assert_eq!(image.offset(address), end.map(|_| elf.offset(address)), "{address:#x}");
        }
        assert_eq!(image.code_bytes(), 24);
        for (start, end, code) in [
            (0x4002, 0x4005, &bytes[2..5]),
            (0x4002, 0x5000, &bytes[2..]),
            (0x4005, 0x4005, &[]),
            (0x4005, 0x4002, &[]),
            (0x3002, 0x4002, &bytes[2..8]),
            (0x1002, 0x1005, &[]),
        ] {
            assert_eq!(image.code(start..end).unwrap(), code, "{start:#x} to {end:#x}");
        }
    }

    #[test]
    fn no_more_code_is_read_than_the_file_holds() {
        let elf = Elf::default().code(CODE, &[0x90; 16]);
        let mut bytes = elf.bytes();
        // The size of its code, in the file and in memory.
        bytes[64 + 32..][..8].copy_from_slice(&(1_u64 << 40).to_le_bytes());
        bytes[64 + 40..][..8].copy_from_slice(&(1_u64 << 40).to_le_bytes());
        let made = elf.write();
        std::fs::write(&made.path, &bytes).unwrap();
        let image = made.image();
        assert_eq!(image.end_of_code(CODE), Some(CODE + (1 << 40)));
        assert_eq!(image.code_bytes(), bytes.len() as u64);
        assert_eq!(image.code(CODE..CODE + 0x10_0000).unwrap(), bytes[elf.offset(CODE) as usize..]);
        assert_eq!(image.code(CODE + 0x10_0000..CODE + 0x10_0008).unwrap(), [], "behind the end of the file");
    }

    /// A note with an owner and a kind, and four bytes.
    fn note(owner: &[u8; 4], kind: u32, bytes: [u8; 4]) -> Vec<u8> {
        let head = [4, 4, kind].map(u32::to_le_bytes).concat();
        [&head, &owner[..], &bytes].concat()
    }

    #[test]
    fn the_build_is_named_by_the_first_section_for_it_in_gnus_note_of_that_kind() {
        let notes = |kind: u32, notes: &[Vec<u8>]| Section {
            kind,
            ..Section::new(".note.gnu.build-id", &notes.concat())
        };
        let (build, abi) = (elf::NT_GNU_BUILD_ID, elf::NT_GNU_ABI_TAG);
        let first = notes(
            elf::SHT_NOTE,
            &[
                note(b"GNU\0", build, *b"this"),
                note(b"GNU\0", abi, *b"abi."),
                note(b"Go\0\0", build, *b"go.."),
            ],
        );
        let second = notes(elf::SHT_NOTE, &[note(b"GNU\0", build, *b"that")]);
        let none = notes(elf::SHT_PROGBITS, &[note(b"GNU\0", build, *b"none")]);
        for (sections, id) in [
            (vec![first.clone()], &b"this"[..]),
            (vec![first.clone(), second.clone()], b"this"),
            (vec![none.clone(), second], b"that"),
            (vec![none], b""),
            (vec![Section { name: ".note.other", ..first }], b""),
        ] {
            let made = sections.iter().cloned().fold(Elf::default(), Elf::section).write();
            assert_eq!(made.image().build_id, id, "{sections:?}");
        }
    }

    #[test]
    fn a_section_marks_what_go_linked() {
        for (name, go) in [
            (".gopclntab", true),
            (".go.buildinfo", true),
            (".data.rel.ro.gopclntab", true),
            (".go.module", false),
            (".text", false),
        ] {
            let made = Elf::default().section(Section::new(name, &[0; 8])).write();
            assert_eq!((made.image().go, made.image().old_go), (go, false), "{name}");
        }
    }

    #[test]
    fn the_table_for_unwinding_is_read_if_the_file_holds_it() {
        let table = Section { address: 0x5000, ..Section::new(".eh_frame", b"table") };
        let made = Elf::default().section(table.clone()).write();
        assert_eq!(made.image().frame_table(), Some((0x5000, b"table".to_vec())));
        let longer = Section { stated: Some(1 << 40), ..table.clone() };
        assert_eq!(Elf::default().section(longer).write().image().frame_table(), None);
        let of_debug_file = Section { kind: elf::SHT_NOBITS, ..table };
        assert_eq!(Elf::default().section(of_debug_file).write().image().frame_table(), None);
    }

    #[test]
    fn bytes_up_to_the_end_of_the_file_are_read_and_none_beyond() {
        let made = Elf::default().write();
        let bytes = std::fs::read(&made.path).unwrap();
        let (image, end) = (made.image(), bytes.len() as u64);
        assert_eq!(image.read_range(&(end - 4..end)).unwrap(), bytes[bytes.len() - 4..]);
        assert_eq!(image.read_range(&(end - 4..end + 1)), None);
        assert_eq!(image.read_range(&(end - 4..u64::MAX)), None);
        assert_eq!(image.read_range(&(end + 4..end + 8)), None);
    }

    #[test]
    fn a_section_of_debug_information_is_read_whole_or_not_at_all() {
        let text = b"forty-two bytes, forty-two bytes, no more.";
        let packed = |kind: u32| {
            let mut bytes = [kind, 0].map(u32::to_le_bytes).concat();
            bytes.extend([text.len() as u64, 1].map(u64::to_le_bytes).concat());
            let mut packer = flate2::write::ZlibEncoder::new(bytes, flate2::Compression::default());
            packer.write_all(text).unwrap();
            packer.finish().unwrap()
        };
        let flags = u64::from(elf::SHF_COMPRESSED);
        let sections = [
            Section {
                flags: u64::from(elf::SHF_MERGE | elf::SHF_STRINGS),
                ..Section::new(".debug_str", text)
            },
            Section { flags, ..Section::new(".debug_info", &packed(elf::ELFCOMPRESS_ZLIB)) },
            Section { flags, ..Section::new(".debug_abbrev", &packed(elf::ELFCOMPRESS_ZSTD)) },
            Section { flags, ..Section::new(".debug_line", &packed(elf::ELFCOMPRESS_ZLIB)[..23]) },
            Section { stated: Some(1 << 62), ..Section::new(".debug_addr", text) },
            Section { kind: elf::SHT_NOBITS, ..Section::new(".debug_line_str", text) },
            Section::new(".debug_ranges", text),
        ];
        let made = sections.iter().cloned().fold(Elf::default(), Elf::section).write();
        let image = made.image();
        for name in [".debug_str", ".debug_info"] {
            assert_eq!(image.debug_section(name, text.len()), text, "{name}");
            assert_eq!(image.debug_section(name, 1 << 20), text, "{name}");
            assert_eq!(image.debug_section(name, text.len() - 1), [], "{name} is too long");
        }
        for name in [".debug_abbrev", ".debug_line", ".debug_addr", ".debug_line_str", ".debug_ranges", "x"] {
            assert_eq!(image.debug_section(name, 1 << 20), [], "{name}");
        }
        let sizes: usize = sections[..4].iter().map(|section| section.bytes.len()).sum();
        assert_eq!(image.debug_bytes(), sizes as u64 + (1 << 62));
    }

    #[test]
    fn a_file_whose_code_throws_names_what_throwing_needs() {
        for (name, unwinds) in [
            ("__gxx_personality_v0", true),
            ("rust_eh_personality", true),
            ("_Unwind_RaiseException", true),
            ("__cxa_throw", true),
            ("__cxa_throws", false),
            ("main", false),
        ] {
            let made =
                Elf::default().imported("puts", elf::STT_FUNC, 0).imported(name, elf::STT_FUNC, 0).write();
            assert_eq!(made.image().unwinds(), unwinds, "{name}");
        }
        assert!(!Elf::default().write().image().unwinds());
    }

    #[test]
    fn stacks_are_switched_by_the_program_that_calls_or_holds_what_does() {
        let file = |own: &[&str], imported: &[&str]| {
            let elf = own.iter().fold(Elf::default(), |elf, name| elf.function(name, CODE, 1));
            let made = imported.iter().fold(elf, |elf, name| elf.imported(name, elf::STT_FUNC, 0)).write();
            made.image().switches_stacks()
        };
        for (own, imported, switches) in [
            (&["main"][..], &["swapcontext"][..], true),
            (&["work"], &["makecontext"], true),
            (&["main", "swapcontext"], &[], true),
            // C's library has it for others.
            (&["work", "swapcontext"], &[], false),
            (&["main", "work"], &["puts"], false),
            (&["work"], &["puts"], false),
            (&["jump_fcontext"], &[], true),
            (&["work"], &["co_switch"], true),
            (&["work"], &["main"], false),
            (&[], &[], false),
        ] {
            assert_eq!(file(own, imported), switches, "{own:?} {imported:?}");
        }
    }

    #[test]
    fn a_link_to_a_debug_file_is_a_section_of_its_own() {
        let link = b"app.debug\0\0\0\x01\x02\x03\x04";
        let image = |name| Elf::default().section(Section::new(name, link)).write().image();
        assert_eq!(image(".gnu_debuglink").debug_link, Some((b"app.debug".to_vec(), 0x0403_0201)));
        assert_eq!(image(".gnu_debugaltlink").debug_link, None);
    }
}
