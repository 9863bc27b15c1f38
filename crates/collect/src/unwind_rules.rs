//! The table of rules for unwinding, in memory that is shared with the BPF programs: `unwind_rules` of
//! `bpf/unwind.bpf.h`.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use wakepath_unwind::{Place, RULES, entry, hash, rule_in};

use crate::rings;

/// The mapped table.
pub(crate) struct UnwindRules {
    base: NonNull<u8>,
}

// SAFETY: the mapping is owned by this value and reached through atomics alone.
unsafe impl Send for UnwindRules {}

impl UnwindRules {
    /// Maps the array map behind `fd`, which has [`RULES`] words.
    pub(crate) fn map(fd: BorrowedFd<'_>) -> io::Result<Self> {
        let base = rings::map(RULES * 8, libc::MAP_SHARED, fd.as_raw_fd())?;
        Ok(Self { base })
    }

    /// A table that no program reads.
    #[cfg(test)]
    pub(crate) fn own() -> io::Result<Self> {
        let base = rings::map(RULES * 8, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)?;
        Ok(Self { base })
    }

    fn word(&self, hash: u64) -> &AtomicU64 {
        let slot = hash as usize & (RULES - 1);
        // SAFETY: in bounds of the mapping by the mask, 8-aligned, and only ever accessed as an atomic from this side.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(slot * 8).cast()) }
    }

    /// The place of an address, if it is in the table.
    pub(crate) fn get(&self, space: u64, address: u64, stands: bool) -> Option<Place> {
        let hash = hash(space, address, stands);
        let (rule, called) = rule_in(self.word(hash).load(Ordering::Relaxed), hash)?;
        Some(Place { rule, called })
    }

    /// Adds the place of an address. `library`: it is in the C library.
    pub(crate) fn set(&self, space: u64, address: u64, stands: bool, place: Place, library: bool) {
        let hash = hash(space, address, stands);
        self.word(hash).store(entry(hash, place.rule.bits(library, place.called)), Ordering::Relaxed);
    }
}

impl Drop for UnwindRules {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length, and no reference outlives `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), RULES * 8) };
    }
}
