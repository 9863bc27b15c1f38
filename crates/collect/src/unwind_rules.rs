//! The table with the unwinding rules, in memory shared with the BPF programs: `unwind_rules` of `bpf/unwind.bpf.h`.

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use wakepath_unwind::{Place, RULE_SETS, RULE_WAYS, Rule, entry, hash, rule_in};

use crate::rings;

const WORDS: usize = RULE_SETS * RULE_WAYS;

/// `WP_QUIET_ADDRESS`: a rule at this address stops all copies from its address space.
const QUIET_ADDRESS: u64 = 0;

/// The mapped table.
pub(crate) struct UnwindRules {
    base: NonNull<u8>,
    /// Each word's address space and address.
    owners: Vec<(u64, u64)>,
    /// The word that is replaced next in a full set.
    next: usize,
}

// SAFETY: the mapping is owned by this value and reached through atomics alone.
unsafe impl Send for UnwindRules {}

impl UnwindRules {
    /// Maps the array map behind `fd`, which has [`RULE_SETS`] elements.
    pub(crate) fn map(fd: BorrowedFd<'_>) -> io::Result<Self> {
        rings::map(WORDS * 8, libc::MAP_SHARED, fd.as_raw_fd()).map(Self::at)
    }

    /// A table that no program reads.
    #[cfg(test)]
    pub(crate) fn own() -> io::Result<Self> {
        rings::map(WORDS * 8, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1).map(Self::at)
    }

    fn at(base: NonNull<u8>) -> Self {
        Self { base, owners: vec![(0, 0); WORDS], next: 0 }
    }

    fn word(&self, number: usize) -> &AtomicU64 {
        assert!(number < WORDS);
        // SAFETY: in bounds by the assertion, 8-aligned, and only ever accessed as an atomic from this side.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(number * 8).cast()) }
    }

    /// The word numbers in a hash's set.
    fn set_of(hash: u64) -> Range<usize> {
        let first = (hash as usize & (RULE_SETS - 1)) * RULE_WAYS;
        first..first + RULE_WAYS
    }

    /// The place of an address, if it is in the table.
    pub(crate) fn get(&self, space: u64, address: u64, stands: bool) -> Option<Place> {
        let hash = hash(space, address, stands);
        let (rule, called) =
            Self::set_of(hash).find_map(|number| rule_in(self.word(number).load(Ordering::Relaxed), hash))?;
        Some(Place { rule, called })
    }

    /// Adds the place of an address. `library`: it is in the C library.
    pub(crate) fn set(&mut self, space: u64, address: u64, stands: bool, place: Place, library: bool) {
        let hash = hash(space, address, stands);
        let word = |number| self.word(number).load(Ordering::Relaxed);
        let known = Self::set_of(hash).find(|&number| rule_in(word(number), hash).is_some());
        let free = || Self::set_of(hash).find(|&number| word(number) == 0);
        let number = known.or_else(free).unwrap_or_else(|| {
            self.next = self.next.wrapping_add(1);
            Self::set_of(hash).start + self.next % RULE_WAYS
        });
        self.owners[number] = (space, address);
        self.word(number).store(entry(hash, place.rule.bits(library, place.called)), Ordering::Relaxed);
    }

    /// Forgets an address space's places in these ranges.
    pub(crate) fn forget(&self, space: u64, ranges: &[Range<u64>]) {
        for (number, &(of, address)) in self.owners.iter().enumerate() {
            if of == space && ranges.iter().any(|range| range.contains(&address)) {
                self.word(number).store(0, Ordering::Relaxed);
            }
        }
    }

    /// From now on no stack in an address space is copied.
    pub(crate) fn silence(&mut self, space: u64) {
        self.set(space, QUIET_ADDRESS, true, Place { rule: Rule::NoTable, called: true }, false);
    }

    /// The address space's stacks are copied again.
    pub(crate) fn listen(&self, space: u64) {
        self.forget(space, std::slice::from_ref(&(QUIET_ADDRESS..QUIET_ADDRESS + 1)));
    }

    /// Whether no stack in an address space is copied.
    pub(crate) fn is_silent(&self, space: u64) -> bool {
        self.get(space, QUIET_ADDRESS, true).is_some()
    }
}

impl Drop for UnwindRules {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length, and no reference outlives `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), WORDS * 8) };
    }
}

#[cfg(test)]
mod tests {
    use wakepath_unwind::{Base, SavedBp};

    use super::*;

    fn place(words: u16) -> Place {
        Place { rule: Rule::frame(Base::Sp, words, SavedBp::Unchanged), called: true }
    }

    #[test]
    fn addresses_of_one_set_have_room_beside_each_other_and_a_new_one_takes_the_place_of_one() {
        let mut rules = UnwindRules::own().expect("memory");
        let set = UnwindRules::set_of(hash(7, 0x1000, false));
        let alike: Vec<u64> =
            (0x1000..).filter(|&at| UnwindRules::set_of(hash(7, at, false)) == set).take(6).collect();
        for (words, &at) in (1..).zip(&alike[..4]) {
            rules.set(7, at, false, place(words), false);
        }
        // A known address is replaced in its own place.
        rules.set(7, alike[0], false, place(9), false);
        let found = |rules: &UnwindRules, at| rules.get(7, at, false);
        assert_eq!(found(&rules, alike[0]), Some(place(9)));
        assert!((2..).zip(&alike[1..4]).all(|(words, &at)| found(&rules, at) == Some(place(words))));
        rules.set(7, alike[4], false, place(5), false);
        assert_eq!(found(&rules, alike[4]), Some(place(5)));
        // Another address is replaced each time.
        rules.set(7, alike[5], false, place(6), false);
        assert_eq!([found(&rules, alike[4]), found(&rules, alike[5])], [Some(place(5)), Some(place(6))]);
        assert_eq!(alike.iter().filter(|&&at| found(&rules, at).is_some()).count(), 4);
    }

    #[test]
    fn a_range_is_forgotten_in_its_own_address_space_alone() {
        let mut rules = UnwindRules::own().expect("memory");
        for (space, address) in [(7, 0xfff), (7, 0x1000), (7, 0x1fff), (7, 0x2000), (8, 0x1000)] {
            rules.set(space, address, false, place(1), false);
        }
        rules.forget(7, std::slice::from_ref(&(0x1000..0x2000)));
        let kept = |space, address| rules.get(space, address, false).is_some();
        assert_eq!([kept(7, 0x1000), kept(7, 0x1fff)], [false; 2]);
        assert_eq!([kept(7, 0xfff), kept(7, 0x2000), kept(8, 0x1000)], [true; 3]);
    }

    #[test]
    fn an_address_space_is_silent_until_it_is_listened_to() {
        let mut rules = UnwindRules::own().expect("memory");
        rules.silence(7);
        assert!(rules.is_silent(7) && !rules.is_silent(8));
        rules.listen(7);
        assert!(!rules.is_silent(7));
    }
}
