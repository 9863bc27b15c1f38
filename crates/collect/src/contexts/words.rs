//! The table with the words' places, in memory shared with the BPF programs: `word_sets` and `word_count` of
//! `bpf/thread_context.bpf.h`.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use crate::rings;

/// `WP_WORD_WAYS`, `WP_WORD_SETS` and the size of `struct wp_word_set` in `bpf/thread_context.h`.
const WAYS: usize = 4;
const SETS: usize = 1024;
const SET_BYTES: usize = 320;
/// The size of `struct wp_word`.
const WORD_BYTES: usize = 64;
/// The words' offset in their set, bytes.
const WORDS_AT: usize = 64;
/// The field (8 bytes each) where a word's keys begin; the load counter follows them.
const KEYS_AT: usize = 3;
const LOADS_AT: usize = 7;
const PAGE: usize = 4096;

/// The place of a process's word: `struct wp_word`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word {
    /// Where the process's first stack begins.
    pub(crate) start_stack: u64,
    /// The distance from the thread pointer, or within the module's block, bytes.
    pub(crate) offset: i64,
    /// The library's number among those with thread-local memory; 0: the word has a fixed place.
    pub(crate) module: u64,
}

/// The mapped table.
pub(crate) struct Words {
    sets: NonNull<u8>,
    count: NonNull<u8>,
}

// SAFETY: the mappings are owned by this value and reached through atomics alone.
unsafe impl Send for Words {}

impl Words {
    /// Maps the array maps behind these descriptors: the sets, and their count.
    pub(crate) fn map(sets: BorrowedFd<'_>, count: BorrowedFd<'_>) -> io::Result<Self> {
        Ok(Self {
            sets: rings::map(SETS * SET_BYTES, libc::MAP_SHARED, sets.as_raw_fd())?,
            count: rings::map(PAGE, libc::MAP_SHARED, count.as_raw_fd())?,
        })
    }

    /// A table that no program reads.
    #[cfg(test)]
    fn own() -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        Ok(Self { sets: rings::map(SETS * SET_BYTES, flags, -1)?, count: rings::map(PAGE, flags, -1)? })
    }

    /// The number of known processes.
    fn count(&self) -> &AtomicU64 {
        // SAFETY: the first word of a mapped page, and only ever accessed as an atomic from this side.
        unsafe { AtomicU64::from_ptr(self.count.as_ptr().cast()) }
    }

    fn tgid(&self, set: usize, way: usize) -> &AtomicU32 {
        assert!(set < SETS && way < WAYS);
        // SAFETY: in bounds by the assertion, 4-aligned, and only ever accessed as an atomic from this side.
        unsafe { AtomicU32::from_ptr(self.sets.as_ptr().add(set * SET_BYTES + 4 * way).cast()) }
    }

    fn field(&self, set: usize, way: usize, field: usize) -> &AtomicU64 {
        assert!(set < SETS && way < WAYS && field < WORD_BYTES / 8);
        let at = set * SET_BYTES + WORDS_AT + WORD_BYTES * way + 8 * field;
        // SAFETY: in bounds by the assertion, 8-aligned, and only ever accessed as an atomic from this side.
        unsafe { AtomicU64::from_ptr(self.sets.as_ptr().add(at).cast()) }
    }

    /// A process's way in its set, or for `tgid` 0 a free way.
    fn way(&self, set: usize, tgid: u32) -> Option<usize> {
        (0..WAYS).find(|&way| self.tgid(set, way).load(Ordering::Relaxed) == tgid)
    }

    /// Sets the place of a process's word. False where there is no room for it.
    pub(crate) fn set(&self, tgid: u32, word: Word) -> bool {
        let set = tgid as usize & (SETS - 1);
        let known = self.way(set, tgid);
        let Some(way) = known.or_else(|| self.way(set, 0)) else { return false };
        let fields = [word.start_stack, word.offset as u64, word.module];
        let is_same =
            |(field, value): (usize, u64)| self.field(set, way, field).load(Ordering::Relaxed) == value;
        if known.is_some() && fields.into_iter().enumerate().all(is_same) {
            return true;
        }
        // Without a number, the place is not read while it is written.
        self.tgid(set, way).store(0, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        // Another program has other keys.
        let is_same_program = known.is_some() && is_same((0, word.start_stack));
        for (field, value) in fields.into_iter().enumerate() {
            self.field(set, way, field).store(value, Ordering::Relaxed);
        }
        for field in (KEYS_AT..LOADS_AT).filter(|_| !is_same_program) {
            self.field(set, way, field).store(0, Ordering::Relaxed);
        }
        self.tgid(set, way).store(tgid, Ordering::Release);
        if known.is_none() {
            self.count().fetch_add(1, Ordering::Release);
        }
        true
    }

    /// Sets a known process's recorded attributes, by key: a bit for each, the lowest first.
    pub(crate) fn set_keys(&self, tgid: u32, keys: [u64; 4]) {
        let set = tgid as usize & (SETS - 1);
        let Some(way) = self.way(set, tgid).filter(|_| tgid != 0) else { return };
        for (place, keys) in keys.into_iter().enumerate() {
            self.field(set, way, KEYS_AT + place).store(keys, Ordering::Release);
        }
    }

    /// Notes that a known process has loaded a library with the word: blocks found before may belong to another
    /// library.
    pub(crate) fn note_load(&self, tgid: u32) {
        let set = tgid as usize & (SETS - 1);
        if let Some(way) = self.way(set, tgid).filter(|_| tgid != 0) {
            self.field(set, way, LOADS_AT).fetch_add(1, Ordering::Release);
        }
    }

    /// Forgets the place of a process's word.
    pub(crate) fn remove(&self, tgid: u32) {
        let set = tgid as usize & (SETS - 1);
        if let Some(way) = self.way(set, tgid).filter(|_| tgid != 0) {
            self.tgid(set, way).store(0, Ordering::Release);
            self.count().fetch_sub(1, Ordering::Release);
        }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        // SAFETY: the mappings made with this value, which nothing else refers to.
        unsafe {
            libc::munmap(self.sets.as_ptr().cast(), SETS * SET_BYTES);
            libc::munmap(self.count.as_ptr().cast(), PAGE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(module: u64) -> Word {
        Word { start_stack: 0x7ff0_0000_1000, offset: -16, module }
    }

    #[test]
    fn a_set_has_room_for_four_processes_and_for_others_where_they_end() {
        let words = Words::own().expect("memory");
        let beside = |n: u32| 7 + n * SETS as u32;
        assert!((0..4).all(|n| words.set(beside(n), word(0))));
        assert!(!words.set(beside(4), word(0)), "no room");
        assert!(words.set(beside(2), word(3)), "its own room");
        assert_eq!(words.field(7, 2, 2).load(Ordering::Relaxed), 3);
        assert_eq!(words.count().load(Ordering::Relaxed), 4);
        words.remove(beside(9));
        words.remove(beside(1));
        assert_eq!(words.count().load(Ordering::Relaxed), 3);
        assert!(words.set(beside(4), word(5)));
        assert_eq!(words.tgid(7, 1).load(Ordering::Relaxed), beside(4));
        words.remove(0);
        assert_eq!(words.count().load(Ordering::Relaxed), 4);
    }

    #[test]
    fn the_keys_of_a_process_are_no_longer_there_for_another_program_or_process() {
        let words = Words::own().expect("memory");
        let keys = || [3, 4, 5, 6].map(|field| words.field(7, 0, field).load(Ordering::Relaxed));
        words.set_keys(7, [9; 4]);
        assert_eq!(keys(), [0; 4], "no such process");
        assert!(words.set(7, word(0)));
        words.set_keys(7, [1, 2, 3, 4]);
        assert_eq!(keys(), [1, 2, 3, 4]);
        assert!(words.set(7, word(5)), "the same program, by another library");
        assert_eq!(keys(), [1, 2, 3, 4]);
        assert!(words.set(7, Word { start_stack: 0x7ff0_0000_2000, ..word(5) }));
        assert_eq!(keys(), [0; 4], "another program");
        words.set_keys(7, [1, 2, 3, 4]);
        words.remove(7);
        assert!(words.set(7 + SETS as u32, word(5)));
        assert_eq!(keys(), [0; 4], "another process in its room");
        words.set_keys(0, [9; 4]);
        assert_eq!(words.field(0, 0, 3).load(Ordering::Relaxed), 0);
    }

    #[test]
    fn the_table_has_the_layout_of_the_header() {
        let words = Words::own().expect("memory");
        assert!(words.set(1024 + 5, word(2)));
        words.set_keys(1024 + 5, [7, 0, 0, 8]);
        for tgid in [1024 + 5, 1024 + 5, 5, 0] {
            words.note_load(tgid);
        }
        // SAFETY: the mapping has this many bytes, and nothing writes there now.
        let bytes = unsafe { std::slice::from_raw_parts(words.sets.as_ptr(), SETS * SET_BYTES) };
        let set = &bytes[5 * SET_BYTES..6 * SET_BYTES];
        assert_eq!(set[..4], 1029_u32.to_le_bytes());
        assert_eq!(set[64..72], 0x7ff0_0000_1000_u64.to_le_bytes());
        assert_eq!(set[72..80], (-16_i64).to_le_bytes());
        assert_eq!(set[80..88], 2_u64.to_le_bytes());
        assert_eq!(set[88..96], 7_u64.to_le_bytes());
        assert_eq!(set[112..120], 8_u64.to_le_bytes());
        assert_eq!(set[120..128], 2_u64.to_le_bytes());
        let header = include_str!("../../../../bpf/thread_context.h");
        for line in
            ["#define WP_WORD_WAYS 4\n", "#define WP_WORD_SETS 1024\n", "sizeof(struct wp_word_set) == 320"]
        {
            assert!(header.contains(line), "{line}");
        }
    }
}
