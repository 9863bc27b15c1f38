//! Finds functions without a symbol in the table for unwinding (`.eh_frame`).

use std::cell::OnceCell;
use std::ops::Range;

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameOffset, EndianSlice, FrameDescriptionEntry, LittleEndian,
    UnwindContext, UnwindSection, X86_64,
};

use crate::image::Image;

type Reader<'a> = EndianSlice<'a, LittleEndian>;

/// The table for unwinding, and the pieces of code in it.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    address: u64,
    section: Vec<u8>,
    /// By address: a piece's range, and its entry's offset in the table.
    pieces: Vec<(Range<u64>, usize)>,
    /// Whether exceptions call a function as they pass a piece.
    pub has_personality: bool,
}

impl Frames {
    /// Reads the table. A function entry that cannot be parsed is skipped; a malformed table is read up to the fault.
    pub fn of(image: &Image) -> Self {
        let Some((address, section)) = image.frame_table() else { return Self::default() };
        let mut pieces = Vec::new();
        let mut has_personality = false;
        let bases = BaseAddresses::default().set_eh_frame(address);
        let table = table(&section);
        let mut entries = table.entries(&bases);
        while let Ok(Some(entry)) = entries.next() {
            let partial = match entry {
                gimli::CieOrFde::Fde(partial) => partial,
                gimli::CieOrFde::Cie(cie) => {
                    has_personality |= cie.personality().is_some();
                    continue;
                }
            };
            let Ok(fde) = partial.parse(EhFrame::cie_from_offset) else { continue };
            let start = fde.initial_address();
            pieces.push((start..start.saturating_add(fde.len()), fde.offset()));
        }
        pieces.sort_by_key(|(range, _)| range.start);
        Self { address, section, pieces, has_personality }
    }

    /// The piece beginning at an address.
    pub fn at(&self, address: u64) -> Option<Range<u64>> {
        self.around(address).filter(|range| range.start == address)
    }

    /// The piece around an address.
    pub fn around(&self, address: u64) -> Option<Range<u64>> {
        self.piece(address).map(|(range, _)| range.clone())
    }

    /// The piece around an address, unless a call could begin it: a function's part that the compiler put elsewhere,
    /// entered with the stack in use already.
    pub fn part_around(&self, address: u64) -> Option<Range<u64>> {
        let (range, _) = self.piece(address)?;
        self.is_amid(range.start).then(|| range.clone())
    }

    /// Whether the function has something on the stack beside its return address when it comes to an instruction: it is
    /// amid its work, neither at its entry nor leaving it.
    pub fn is_amid(&self, address: u64) -> bool {
        self.returns_at_top(address) == Some(false)
    }

    /// Whether the return address is at the top of the stack; `None` if the table does not show it.
    fn returns_at_top(&self, address: u64) -> Option<bool> {
        let (_, offset) = self.piece(address)?;
        let bases = BaseAddresses::default().set_eh_frame(self.address);
        let table = table(&self.section);
        let fde: FrameDescriptionEntry<Reader<'_>> =
            table.fde_from_offset(&bases, EhFrameOffset(*offset), EhFrame::cie_from_offset).ok()?;
        let mut context = UnwindContext::new();
        match fde.unwind_info_for_address(&table, &bases, &mut context, address).ok()?.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => Some(*register == X86_64::RSP && *offset == 8),
            CfaRule::Expression(_) => None,
        }
    }

    fn piece(&self, address: u64) -> Option<&(Range<u64>, usize)> {
        let after = self.pieces.partition_point(|(range, _)| range.start <= address);
        self.pieces[..after].last().filter(|(range, _)| range.contains(&address))
    }
}

/// The table for unwinding, read at its first use.
#[derive(Debug, Default)]
pub(crate) struct LazyFrames(OnceCell<Frames>);

impl LazyFrames {
    pub fn get(&self, image: &Image) -> &Frames {
        self.0.get_or_init(|| Frames::of(image))
    }
}

fn table(section: &[u8]) -> EhFrame<Reader<'_>> {
    let mut table = EhFrame::new(section, LittleEndian);
    table.set_address_size(8);
    table
}
