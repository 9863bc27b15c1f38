//! The word that points to a thread's context, in an ELF file: its place by the file itself, and the slots where the
//! loader writes its place. A file is foreign input: all sizes are bounded, and all reads checked.

use std::fs::File;

use object::elf::{
    DF_1_PIE, DT_FLAGS_1, EM_X86_64, ET_EXEC, FileHeader64, PF_X, PT_DYNAMIC, PT_LOAD, PT_TLS,
    ProgramHeader64, R_X86_64_DTPMOD64, R_X86_64_DTPOFF64, R_X86_64_TLSDESC, R_X86_64_TPOFF64, Rela64,
    SHN_UNDEF, SHT_DYNSYM, SHT_RELA, SHT_SYMTAB, STT_TLS, SectionHeader64, Sym64,
};
use object::read::elf::{
    Dyn as _, FileHeader as _, ProgramHeader as _, Rela as _, SectionHeader as _, Sym as _,
};
use object::{Endianness, ReadCache, ReadRef};

/// The word's name.
const NAME: &[u8] = b"otel_thread_ctx_v1";
/// The word's size, bytes.
const WORD_BYTES: u64 = 8;
/// The largest symbol, name or relocation table to read, bytes.
const MAX_TABLE_BYTES: u64 = 128 << 20;
/// The most slots in a file: the places to which the loader writes the word's place.
const MAX_SLOTS: usize = 16;
const PAGE: u64 = 4096;

/// The word in a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Symbol {
    /// The word's offset in the file's thread-local memory, if the file defines it; other files only use it.
    pub(super) offset: Option<u64>,
    /// Bytes from the beginning of this memory to the thread pointer, if the file is the program.
    pub(super) block: u64,
    /// Whether the file declares itself a program.
    pub(super) is_program: bool,
    /// The slots where the loader writes the word's place, by addresses in the file.
    pub(super) slots: Vec<Slot>,
    /// The file's code parts: offset in the file, bytes, address.
    code: Vec<(u64, u64, u64)>,
}

/// A slot where the loader writes the word's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slot {
    /// The word's distance from the thread pointer.
    Distance(u64),
    /// A function and its argument: a descriptor.
    Descriptor(u64),
    /// The module number, and behind it the offset in the module's memory.
    ModuleAndOffset(u64),
    /// The number of the file's own module.
    Module(u64),
}

impl Symbol {
    /// The word in a file; `None` if the file does not name it, or is no ELF file for this machine.
    pub(super) fn find(file: File) -> Option<Self> {
        let cache = ReadCache::new(file);
        Self::read(&cache)
    }

    fn read<'data>(data: impl ReadRef<'data>) -> Option<Self> {
        let header = FileHeader64::<Endianness>::parse(data).ok()?;
        let endian = header.endian().ok()?;
        // Without this number, the section count would be unbounded.
        if header.e_machine(endian) != EM_X86_64 || header.e_shnum(endian) == 0 {
            return None;
        }
        let sections = header.section_headers(endian, data).ok()?;
        let tables = Tables { endian, data, sections };
        // A program without libraries has only the other table.
        let (place, symbols) =
            tables.section_of_type(SHT_DYNSYM).or_else(|| tables.section_of_type(SHT_SYMTAB))?;
        let names = tables.bytes(sections.get(symbols.sh_link(endian) as usize)?)?;
        if !contains(names, NAME) {
            return None;
        }
        let symbols: &[Sym64<Endianness>] = tables.array(symbols)?;
        let is_it = |symbol: &Sym64<Endianness>| {
            let name = names.get(symbol.st_name(endian) as usize..).unwrap_or_default();
            symbol.st_type() == STT_TLS
                && name.strip_prefix(NAME).is_some_and(|rest| rest.first() == Some(&0))
        };
        let numbers: Vec<u32> =
            (0..).zip(symbols).filter(|(_, symbol)| is_it(symbol)).map(|(number, _)| number).collect();
        let own = symbols.iter().find(|symbol| is_it(symbol) && symbol.st_shndx(endian) != SHN_UNDEF);
        if numbers.is_empty() || own.is_some_and(|own| own.st_size(endian) != WORD_BYTES) {
            return None;
        }
        let segments = header.program_headers(endian, data).ok()?;
        let segment = |kind| segments.iter().find(|segment| segment.p_type(endian) == kind);
        let offset = own.map(|own| own.st_value(endian));
        let block = segment(PT_TLS).map_or(Some(0), |tls| block_bytes(tls, endian))?;
        // The word lies within the thread-local memory.
        if offset.is_some_and(|offset| offset.checked_add(WORD_BYTES).is_none_or(|end| end > block)) {
            return None;
        }
        let code =
            segments.iter().filter(|one| one.p_type(endian) == PT_LOAD && one.p_flags(endian) & PF_X != 0);
        Some(Self {
            offset,
            block,
            is_program: header.e_type(endian) == ET_EXEC || is_pie(&tables, segment(PT_DYNAMIC)),
            slots: slots(&tables, place, &numbers, offset),
            code: code.map(|one| (one.p_offset(endian), one.p_filesz(endian), one.p_vaddr(endian))).collect(),
        })
    }

    /// The distance between the file's addresses in memory and in the file, from a mapping of its code: the mapping's
    /// first address and its offset in the file.
    pub(super) fn bias(&self, from: u64, offset: u64) -> Option<u64> {
        let down = |at: u64| at & !(PAGE - 1);
        let (begins, _, address) = self.code.iter().copied().find(|&(begins, bytes, _)| {
            down(begins) <= offset && offset < begins.saturating_add(bytes.max(1))
        })?;
        Some(from.wrapping_sub(down(address).wrapping_add(offset - down(begins))))
    }
}

/// A file's tables.
struct Tables<'data, R> {
    endian: Endianness,
    data: R,
    sections: &'data [SectionHeader64<Endianness>],
}

impl<'data, R: ReadRef<'data>> Tables<'data, R> {
    fn section_of_type(&self, kind: u32) -> Option<(usize, &'data SectionHeader64<Endianness>)> {
        self.sections.iter().enumerate().find(|(_, section)| section.sh_type(self.endian) == kind)
    }

    fn bytes(&self, section: &'data SectionHeader64<Endianness>) -> Option<&'data [u8]> {
        let is_small = section.sh_size(self.endian) <= MAX_TABLE_BYTES;
        is_small.then(|| section.data(self.endian, self.data).ok()).flatten()
    }

    fn array<T: object::Pod>(&self, section: &'data SectionHeader64<Endianness>) -> Option<&'data [T]> {
        let is_small = section.sh_size(self.endian) <= MAX_TABLE_BYTES;
        is_small.then(|| section.data_as_array(self.endian, self.data).ok()).flatten()
    }
}

/// Whether a name table contains a name. Some tables have megabytes, and all processes' files are looked at.
fn contains(names: &[u8], name: &[u8]) -> bool {
    // SAFETY: both are slices, passed with their lengths; the call only reads them.
    let found = unsafe { libc::memmem(names.as_ptr().cast(), names.len(), name.as_ptr().cast(), name.len()) };
    !found.is_null()
}

/// Bytes from the beginning of a program's thread-local memory to the thread pointer, to which its end is aligned.
fn block_bytes(tls: &ProgramHeader64<Endianness>, endian: Endianness) -> Option<u64> {
    let (from, bytes, align) = (tls.p_vaddr(endian), tls.p_memsz(endian), tls.p_align(endian).max(1));
    if !align.is_power_of_two() || align > 1 << 20 || bytes > 1 << 31 {
        return None;
    }
    Some(from.checked_add(bytes)?.checked_add(align - 1)? / align * align - from)
}

fn is_pie<'data, R: ReadRef<'data>>(
    tables: &Tables<'data, R>,
    dynamic: Option<&'data ProgramHeader64<Endianness>>,
) -> bool {
    let endian = tables.endian;
    let entries = || {
        let dynamic = dynamic.filter(|one| one.p_filesz(endian) <= 1 << 16)?;
        dynamic.dynamic(endian, tables.data).ok().flatten()
    };
    let is_flag = |entry: &&object::elf::Dyn64<Endianness>| entry.d_tag(endian) == u64::from(DT_FLAGS_1);
    entries().is_some_and(|entries| {
        entries.iter().find(is_flag).is_some_and(|entry| entry.d_val(endian) & u64::from(DF_1_PIE) != 0)
    })
}

/// The slots for the symbols with these numbers in the table at `place`.
fn slots<'data, R: ReadRef<'data>>(
    tables: &Tables<'data, R>,
    place: usize,
    numbers: &[u32],
    own: Option<u64>,
) -> Vec<Slot> {
    let endian = tables.endian;
    let mut slots = Vec::new();
    let sections = tables
        .sections
        .iter()
        .filter(|section| section.sh_type(endian) == SHT_RELA && section.sh_link(endian) as usize == place);
    let tables: Vec<&[Rela64<Endianness>]> = sections.filter_map(|section| tables.array(section)).collect();
    let all = || tables.iter().copied().flatten();
    let is_named = |rela: &Rela64<Endianness>| numbers.contains(&rela.r_sym(endian, false));
    // The linker leaves the symbol number 0 for the file's own symbol, if no other file can replace it.
    let is_own = |rela: &Rela64<Endianness>| {
        rela.r_sym(endian, false) == 0 && own == u64::try_from(rela.r_addend(endian)).ok() && own.is_some()
    };
    for rela in all() {
        let at = rela.r_offset(endian);
        let slot = match rela.r_type(endian, false) {
            R_X86_64_TPOFF64 if is_named(rela) || is_own(rela) => Slot::Distance(at),
            R_X86_64_TLSDESC if is_named(rela) || is_own(rela) => Slot::Descriptor(at),
            R_X86_64_DTPMOD64 if is_named(rela) => {
                let is_pair = |other: &Rela64<Endianness>| {
                    other.r_type(endian, false) == R_X86_64_DTPOFF64
                        && is_named(other)
                        && Some(other.r_offset(endian)) == at.checked_add(8)
                };
                match all().any(is_pair) {
                    true => Slot::ModuleAndOffset(at),
                    false => continue,
                }
            }
            R_X86_64_DTPMOD64 if rela.r_sym(endian, false) == 0 && own.is_some() => Slot::Module(at),
            _ => continue,
        };
        if slots.len() < MAX_SLOTS {
            slots.push(slot);
        }
    }
    slots
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::process::Command;

    use object::{U32, U64};

    use super::*;

    /// A library with the word and a function for it, compiled with these options; `None` without a compiler.
    fn compiled(options: &[&str]) -> Option<Vec<u8>> {
        let folder = tempfile::tempdir().expect("a folder");
        let text = "static __thread long other = 5;\n\
                    __thread void *otel_thread_ctx_v1;\n\
                    long *also(void) { return &other; }\n\
                    void set(void *to) { otel_thread_ctx_v1 = to; }\n\
                    int main(void) { return 0; }\n";
        let to = compiled_in(folder.path(), text, options)?;
        Some(std::fs::read(&to).expect("a file"))
    }

    /// The file made by a C compiler from this text in a folder; `None` without a compiler.
    fn compiled_in(folder: &Path, text: &str, options: &[&str]) -> Option<PathBuf> {
        let (source, to) = (folder.join("word.c"), folder.join("word.so"));
        std::fs::write(&source, text).expect("a file");
        let compiled = Command::new("cc").args(options).arg("-o").arg(&to).arg(&source).status();
        if !compiled.is_ok_and(|status| status.success()) {
            eprintln!("skipped: no C compiler; would show that the word is found in a file with {options:?}");
            return None;
        }
        Some(to)
    }

    fn found(options: &[&str]) -> Option<Symbol> {
        compiled(options).map(|bytes| Symbol::read(&bytes[..]).expect("the word"))
    }

    #[test]
    fn the_word_is_found_where_the_loader_writes_its_place_in_each_model() {
        let library = ["-O1", "-shared", "-fPIC"];
        let with = |option| found(&[&library[..], &[option]].concat());
        if let Some(symbol) = with("-ftls-model=initial-exec") {
            assert!(!symbol.is_program && matches!(symbol.slots[..], [Slot::Distance(_)]), "{symbol:?}");
            assert!(symbol.offset.is_some_and(|offset| offset < 16));
        }
        if let Some(symbol) = with("-mtls-dialect=gnu") {
            assert!(symbol.slots.iter().any(|slot| matches!(slot, Slot::ModuleAndOffset(_))), "{symbol:?}");
        }
        if let Some(symbol) = with("-mtls-dialect=gnu2") {
            // The library's other word has a descriptor too.
            assert!(matches!(symbol.slots[..], [Slot::Descriptor(_)]), "{symbol:?}");
        }
        // No other file can replace it: the linker leaves its name out.
        if let Some(symbol) = with("-Wl,-Bsymbolic") {
            assert!(symbol.slots.iter().any(|slot| matches!(slot, Slot::Module(_))), "{symbol:?}");
        }
    }

    #[test]
    fn the_word_of_a_program_has_a_distance_from_the_end_of_its_block() {
        for options in [&["-O1", "-rdynamic"][..], &["-O1", "-rdynamic", "-no-pie"], &["-O1", "-static"]] {
            if let Some(symbol) = found(options) {
                assert!(symbol.is_program, "{options:?}");
                let offset = symbol.offset.expect("its own");
                assert!(symbol.block >= offset + 8 && symbol.block < 4096, "{options:?}: {symbol:?}");
            }
        }
        if let Some(bytes) = compiled(&["-O1"]) {
            assert_eq!(Symbol::read(&bytes[..]), None, "its table for other files has no such name");
        }
    }

    #[test]
    fn the_end_of_a_programs_thread_local_memory_is_aligned_to_the_thread_pointer() {
        let endian = Endianness::Little;
        let block = |vaddr, memsz, align| {
            let [filesz, offset, paddr] = [0; 3].map(|none| U64::new(endian, none));
            let [vaddr, memsz, align] = [vaddr, memsz, align].map(|number| U64::new(endian, number));
            let (kind, flags) = (U32::new(endian, PT_TLS), U32::new(endian, 0));
            let header = ProgramHeader64 {
                p_type: kind,
                p_flags: flags,
                p_offset: offset,
                p_vaddr: vaddr,
                p_paddr: paddr,
                p_filesz: filesz,
                p_memsz: memsz,
                p_align: align,
            };
            block_bytes(&header, endian)
        };
        for (vaddr, bytes, align, expected) in [
            (0x1000, 8, 8, Some(8)),
            (0x1000, 9, 8, Some(16)),
            (0x1000, 15, 1, Some(15)),
            (0x1000, 15, 0, Some(15)),
            (0x1000, 0, 16, Some(0)),
            (0x1000, 8, 64, Some(64)),
            (0x1000, 64, 64, Some(64)),
            (0x1000, 65, 64, Some(128)),
            // The memory begins inside a 64-byte line; the thread pointer is at a line's end.
            (0x1010, 8, 64, Some(48)),
            (0x1010, 48, 64, Some(48)),
            (0x1010, 49, 64, Some(112)),
            // No honest file has such sizes.
            (0x1000, 8, 24, None),
            (0x1000, 8, 1 << 20, Some(0xf_f000)),
            (0x1000, 8, 1 << 21, None),
            (0x1000, 1 << 31, 1, Some(1 << 31)),
            (0x1000, (1 << 31) + 1, 1, None),
            (u64::MAX, 8, 8, None),
            (u64::MAX - 8, 8, 64, None),
        ] {
            assert_eq!(block(vaddr, bytes, align), expected, "{bytes} bytes at {vaddr:#x}, by {align}");
        }
    }

    #[test]
    fn a_program_has_the_word_where_its_file_says() {
        // Odd sizes and large alignments move the word away from the memory's ends.
        let text = "#include <stdio.h>\n\
                    static __thread char odd[13] __attribute__((aligned(64))) = {1};\n\
                    __thread void *otel_thread_ctx_v1;\n\
                    static __thread char later[5];\n\
                    int main(void) {\n\
                        odd[1] = later[1];\n\
                        printf(\"%ld\", (long)((char *)__builtin_thread_pointer() - (char *)&otel_thread_ctx_v1));\n\
                        return 0;\n\
                    }\n";
        for options in [&["-O1", "-rdynamic"][..], &["-O1", "-rdynamic", "-no-pie"], &["-O1", "-static"]] {
            let folder = tempfile::tempdir().expect("a folder");
            let Some(program) = compiled_in(folder.path(), text, options) else { continue };
            let bytes = std::fs::read(&program).expect("a file");
            let symbol = Symbol::read(&bytes[..]).expect("the word");
            let printed = Command::new(&program).output().expect("a program").stdout;
            let distance = symbol.block - symbol.offset.expect("its own");
            assert_eq!(distance.to_string(), String::from_utf8_lossy(&printed), "{options:?}: {symbol:?}");
        }
    }

    #[test]
    fn a_mapping_of_the_code_shows_where_a_file_lies() {
        let code = vec![(0x1040, 0x2000, 0x5040)];
        let symbol = Symbol { offset: None, block: 0, is_program: false, slots: Vec::new(), code };
        assert_eq!(symbol.bias(0x7f00_0000_1000, 0x1000), Some(0x7f00_0000_1000 - 0x5000));
        // The second page of the same mapping.
        assert_eq!(symbol.bias(0x7f00_0000_2000, 0x2000), Some(0x7f00_0000_1000 - 0x5000));
        assert_eq!(symbol.bias(0x7f00_0000_0000, 0x0), None);
        assert_eq!(symbol.bias(0x7f00_0000_0000, 0x4000), None);
    }

    #[test]
    fn no_byte_of_a_file_makes_the_reader_fail() {
        let Some(bytes) = compiled(&["-O1", "-shared", "-fPIC", "-s"]) else { return };
        let sections = bytes.len() - 64 * 40;
        for at in (0..0x400).chain(sections..bytes.len()) {
            for value in [0, 1, 0x7f, 0xff] {
                let mut changed = bytes.clone();
                changed[at] = value;
                let _ = Symbol::read(&changed[..]);
            }
        }
        for length in (0..bytes.len()).step_by(97) {
            assert_eq!(Symbol::read(&bytes[..length]), None, "the sections are at the end");
        }
    }
}
