//! A file's table for unwinding: `.eh_frame`, or without it `.debug_frame`.

use std::fs::File;
use std::io::Read;
use std::ops::Range;

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, DebugFrame, EhFrame, EhFrameHdr, EndianSlice, FrameDescriptionEntry,
    LittleEndian, ParsedEhFrameHdr, RegisterRule, UnwindContext, UnwindSection, UnwindTableRow, X86_64,
};
use object::{ReadCache, elf};

use crate::elf_file::{Elf, MAX_READ_BYTES, SectionOf};
use crate::rule::{Base, Rule, SavedBp};

type Reader<'a> = EndianSlice<'a, LittleEndian>;

/// The maximum number of entries in a table.
const MAX_ENTRIES: usize = 1 << 20;
/// The maximum size of an entry, bytes: longer entries are left out, since each unwinding would read them again.
const MAX_ENTRY_BYTES: usize = 64 << 10;

/// A table for unwinding.
#[derive(Debug)]
pub struct Table {
    kind: TableKind,
    /// The section's address.
    address: u64,
    section: Vec<u8>,
    /// The file's own list of entries, by address (`.eh_frame_hdr`), and the list's address.
    list: Option<(u64, Vec<u8>)>,
    /// Without a list: the pieces of code, by address, each with its entry's place in `section`.
    pieces: Vec<(Range<u64>, usize)>,
    /// Go functions that change to another stack, which their entries do not show.
    switches: Vec<Range<u64>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TableKind {
    EhFrame,
    DebugFrame,
}

/// Go runtime functions that go on, or end, on another stack.
const SWITCHES: [&[u8]; 9] = [
    b"runtime.systemstack",
    b"runtime.mcall",
    b"runtime.morestack",
    b"runtime.asmcgocall",
    b"runtime.cgocallback",
    b"runtime.gogo",
    b"runtime.sigtramp",
    b"runtime.sigreturn__sigaction",
    b"runtime.asyncPreempt",
];
/// Go runtime functions that nothing calls.
const OUTERMOST: [&[u8]; 4] = [b"runtime.goexit", b"runtime.mstart", b"runtime.rt0_go", b"runtime.mstart0"];

impl Table {
    /// An ELF file's table, for x86-64; `None` without a readable table.
    pub fn of(file: &File) -> Option<Self> {
        let cache = ReadCache::new(file.try_clone().ok()?);
        Self::from_elf(&Elf::parse(&cache)?)
    }

    pub(crate) fn from_elf(elf: &Elf<'_>) -> Option<Self> {
        let frames =
            elf.section(b".eh_frame").and_then(|section| Some((section.address(), section.bytes()?)));
        // A terminator alone is no table.
        if let Some((address, bytes)) = frames.filter(|(_, bytes)| bytes.len() > 16) {
            let list =
                elf.section(b".eh_frame_hdr").and_then(|list| Some((list.address(), list.bytes()?.to_vec())));
            return Some(Self::new(TableKind::EhFrame, address, bytes.to_vec(), list));
        }
        let bytes = inflated(&elf.section(b".debug_frame")?)?;
        let mut table = Self::new(TableKind::DebugFrame, 0, bytes, None);
        if elf.section(b".gopclntab").is_some() {
            table.switches = switches(elf);
        }
        Some(table)
    }

    /// The table in the bytes of an `.eh_frame` section at an address, and of an `.eh_frame_hdr` section.
    pub fn from_eh_frame(address: u64, section: Vec<u8>, list: Option<(u64, Vec<u8>)>) -> Self {
        Self::new(TableKind::EhFrame, address, section, list)
    }

    fn new(kind: TableKind, address: u64, section: Vec<u8>, list: Option<(u64, Vec<u8>)>) -> Self {
        let mut table = Self { kind, address, section, list, pieces: Vec::new(), switches: Vec::new() };
        if table.list_of_entries().is_some() {
            return table;
        }
        let mut pieces = match kind {
            TableKind::EhFrame => pieces(&table.eh_frame(), &table.bases(), EhFrame::cie_from_offset),
            TableKind::DebugFrame => {
                pieces(&table.debug_frame(), &table.bases(), DebugFrame::cie_from_offset)
            }
        };
        pieces.sort_by_key(|(range, _)| range.start);
        table.pieces = pieces;
        table
    }

    /// Its size in memory, bytes.
    pub fn bytes(&self) -> usize {
        let list = self.list.as_ref().map_or(0, |(_, list)| list.len());
        self.section.len() + list + self.pieces.len() * size_of::<(Range<u64>, usize)>()
    }

    /// The rule for the instruction at this address in the file.
    pub fn rule(&self, address: u64) -> Rule {
        if self.switches.iter().any(|range| range.contains(&address)) {
            return Rule::NoTable;
        }
        if let Some(list) = self.list_of_entries() {
            return self.rule_by_list(&list, address);
        }
        let after = self.pieces.partition_point(|(range, _)| range.start <= address);
        let Some((_, offset)) = self.pieces[..after].last().filter(|(range, _)| range.contains(&address))
        else {
            return Rule::NoTable;
        };
        let bases = self.bases();
        let found = match self.kind {
            TableKind::EhFrame => {
                let table = self.eh_frame();
                table
                    .fde_from_offset(&bases, (*offset).into(), EhFrame::cie_from_offset)
                    .ok()
                    .and_then(|entry| row_of(&table, &bases, &entry, address))
            }
            TableKind::DebugFrame => {
                let table = self.debug_frame();
                table
                    .fde_from_offset(&bases, (*offset).into(), DebugFrame::cie_from_offset)
                    .ok()
                    .and_then(|entry| row_of(&table, &bases, &entry, address))
            }
        };
        found.unwrap_or(Rule::Unsupported)
    }

    fn rule_by_list(&self, list: &ParsedEhFrameHdr<Reader<'_>>, address: u64) -> Rule {
        let (table, bases) = (self.eh_frame(), self.bases());
        // The list may lead anywhere: the place is checked here, since the library's own step from it may overflow.
        let entry = list.table().and_then(|list| {
            let place = list.lookup(address, &bases).ok()?.direct().ok()?.checked_sub(self.address)?;
            let place = usize::try_from(place).ok().filter(|place| *place < self.section.len())?;
            table.fde_from_offset(&bases, place.into(), EhFrame::cie_from_offset).ok()
        });
        match entry.filter(|entry| entry.contains(address)) {
            Some(entry) if entry.entry_len() <= MAX_ENTRY_BYTES => {
                row_of(&table, &bases, &entry, address).unwrap_or(Rule::Unsupported)
            }
            Some(_) => Rule::Unsupported,
            None => Rule::NoTable,
        }
    }

    /// The list of entries, if it can be searched.
    fn list_of_entries(&self) -> Option<ParsedEhFrameHdr<Reader<'_>>> {
        let (_, list) = self.list.as_ref()?;
        // The form that all linkers write. In others the number of entries may be so large that the library overflows.
        if !list.starts_with(&[1, 0x1b, 0x03, 0x3b]) {
            return None;
        }
        let list = EhFrameHdr::new(list, LittleEndian).parse(&self.bases(), 8).ok()?;
        list.table().is_some().then_some(list)
    }

    fn bases(&self) -> BaseAddresses {
        let bases = BaseAddresses::default().set_eh_frame(self.address);
        match &self.list {
            Some((address, _)) => bases.set_eh_frame_hdr(*address),
            None => bases,
        }
    }

    fn eh_frame(&self) -> EhFrame<Reader<'_>> {
        let mut table = EhFrame::new(&self.section, LittleEndian);
        table.set_address_size(8);
        table
    }

    fn debug_frame(&self) -> DebugFrame<Reader<'_>> {
        let mut table = DebugFrame::new(&self.section, LittleEndian);
        table.set_address_size(8);
        table
    }
}

/// A table's pieces of code. An entry that cannot be parsed is skipped; a malformed table is read up to the fault.
fn pieces<'a, S: UnwindSection<Reader<'a>>>(
    table: &S,
    bases: &BaseAddresses,
    mut cie: impl FnMut(&S, &BaseAddresses, S::Offset) -> gimli::Result<gimli::CommonInformationEntry<Reader<'a>>>,
) -> Vec<(Range<u64>, usize)> {
    let mut pieces = Vec::new();
    let mut entries = table.entries(bases);
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        let Ok(entry) = partial.parse(&mut cie) else { continue };
        let start = entry.initial_address();
        if entry.entry_len() > MAX_ENTRY_BYTES || pieces.len() >= MAX_ENTRIES {
            continue;
        }
        pieces.push((start..start.saturating_add(entry.len()), entry.offset()));
    }
    pieces
}

fn row_of<'a, S: UnwindSection<Reader<'a>>>(
    table: &S,
    bases: &BaseAddresses,
    entry: &FrameDescriptionEntry<Reader<'a>>,
    address: u64,
) -> Option<Rule> {
    // A signal's frame holds all registers of the interrupted code, in another form.
    if entry.is_signal_trampoline() {
        return Some(Rule::Unsupported);
    }
    let mut context = UnwindContext::new();
    entry.unwind_info_for_address(table, bases, &mut context, address).ok().map(rule_of)
}

fn rule_of(row: &UnwindTableRow<usize>) -> Rule {
    let CfaRule::RegisterAndOffset { register, offset } = *row.cfa() else { return Rule::Unsupported };
    match row.register(X86_64::RA) {
        Some(RegisterRule::Offset(-8)) => {}
        None | Some(RegisterRule::Undefined) => return Rule::Outermost,
        Some(_) => return Rule::Unsupported,
    }
    let base = match register {
        X86_64::RSP => Base::Sp,
        X86_64::RBP => Base::Bp,
        _ => return Rule::Unsupported,
    };
    let words = |bytes: i64| u16::try_from(bytes / 8).ok().filter(|_| bytes % 8 == 0);
    let Some(distance) = words(offset) else { return Rule::Unsupported };
    let bp = match row.register(X86_64::RBP) {
        None | Some(RegisterRule::Undefined | RegisterRule::SameValue) => SavedBp::Unchanged,
        Some(RegisterRule::Offset(bytes)) => match bytes.checked_neg().and_then(words) {
            Some(at) => SavedBp::At(at),
            None => SavedBp::Lost,
        },
        Some(_) => SavedBp::Lost,
    };
    Rule::frame(base, distance, bp)
}

/// The functions at which Go's entries end.
fn switches(elf: &Elf<'_>) -> Vec<Range<u64>> {
    let mut found = Vec::new();
    for (name, addresses) in elf.symbols() {
        let name = name.strip_suffix(b".abi0").unwrap_or(name);
        if SWITCHES.contains(&name) || OUTERMOST.contains(&name) {
            found.push(addresses);
        }
    }
    found
}

/// A section's bytes, which may be compressed.
fn inflated(section: &SectionOf<'_>) -> Option<Vec<u8>> {
    let bytes = section.bytes()?;
    if !section.is_compressed() {
        return Some(bytes.to_vec());
    }
    // Elf64_Chdr: type, reserved, size, alignment.
    let kind = u32::from_le_bytes(*bytes.first_chunk()?);
    if kind != elf::ELFCOMPRESS_ZLIB {
        return None;
    }
    let mut inflated = Vec::new();
    // A few bytes may unpack to many: their claimed size is not used.
    flate2::read::ZlibDecoder::new(bytes.get(24..)?).take(MAX_READ_BYTES).read_to_end(&mut inflated).ok()?;
    Some(inflated)
}
