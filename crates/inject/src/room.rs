//! Finds free memory near a process's code.

use std::ops::Range;

use wakepath_process::Mapping;

/// The distance that a call reaches, less the length of the memory put there.
const REACH: u64 = (1 << 31) - (1 << 24);
/// Space left free beside other mappings: a stack or the heap may grow into it, and a stray pointer is caught.
const APART: u64 = 1 << 20;
/// Space left free behind the heap.
const HEAP_GROWS: u64 = 1 << 30;
/// Nothing is mapped below: null pointers.
const LOWEST: u64 = 1 << 20;
/// The end of the address space for programs.
const HIGHEST: u64 = 1 << 47;

/// An address for `bytes` bytes within reach of all `sites`; `None` if there is no such room.
pub(crate) fn near(mappings: &[Mapping], sites: &Range<u64>, bytes: u64) -> Option<u64> {
    let reached = sites.end.saturating_sub(REACH).max(LOWEST)..sites.start.saturating_add(REACH).min(HIGHEST);
    let begins =
        std::iter::once((0, false)).chain(mappings.iter().map(|it| (it.addresses.end, it.name == b"[heap]")));
    let ends = mappings.iter().map(|it| it.addresses.start).chain([HIGHEST]);
    let fits = begins.zip(ends).filter_map(|((from, behind_heap), to)| {
        let apart = if behind_heap { HEAP_GROWS } else { APART };
        let from = (from + apart).max(reached.start).next_multiple_of(0x1000);
        let to = to.saturating_sub(APART).min(reached.end) & !0xfff;
        // The upper end: a heap grows from below.
        (from < to && to - from >= bytes).then(|| to - bytes)
    });
    fits.min_by_key(|&at| at.abs_diff(sites.start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(addresses: Range<u64>, name: &str) -> Mapping {
        let (permissions, file, name) = (*b"r-xp", (0, 0, 0), name.as_bytes().to_vec());
        Mapping { addresses, permissions, offset: 0, file, name }
    }

    #[test]
    fn room_is_reached_and_apart_from_all_else() {
        let program = 0x5555_0000_0000..0x5555_0010_0000;
        let maps = [at(program.clone(), "/bin/a"), at(0x5555_0020_0000..0x5555_0040_0000, "[heap]")];
        let found = near(&maps, &program, 0x10000).expect("room");
        assert_eq!(found, 0x5555_0000_0000 - APART - 0x10000);
        // No memory is free below the program; the room is behind the heap, beyond its growth.
        let full = [at(0x10_0000..program.start, "x"), maps[0].clone(), maps[1].clone()];
        let found = near(&full, &program, 0x10000).expect("room");
        assert!(found >= 0x5555_0040_0000 + HEAP_GROWS && found - program.start < REACH, "{found:#x}");
        // There is no room, neither below nor above.
        let behind = at(0x5555_0040_0000..HIGHEST, "y");
        let full = [full[0].clone(), full[1].clone(), full[2].clone(), behind];
        assert_eq!(near(&full, &program, 0x10000), None);
    }

    #[test]
    fn a_program_at_a_low_address_has_room() {
        let maps = [at(0x40_0000..0x50_0000, "/bin/static"), at(0x60_0000..0x80_0000, "[heap]")];
        let found = near(&maps, &(0x40_0000..0x50_0000), 0x10000).expect("room");
        assert!(found >= LOWEST && found + 0x10000 + APART <= 0x40_0000, "{found:#x}");
    }
}
