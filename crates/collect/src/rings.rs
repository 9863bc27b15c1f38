//! The consumer's side of the per-CPU rings that `bpf/ring.bpf.h` fills.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use wakepath_kernel_records::record_length;

/// The records' offset in a ring, bytes; `WP_RING_DATA` in `bpf/ring.h`.
pub(crate) const DATA: usize = 128;
/// Room behind a ring's end, bytes; `WP_RING_SLACK` in `bpf/ring.h`.
pub(crate) const SLACK: usize = 128;

// Offsets in `struct wp_ring`; the test below holds them against the header.
const HEAD: usize = 0;
const LOST: usize = 72;
const KSOFTIRQD: usize = 48;
const TAIL: usize = 64;
const TIMED: usize = 88;
const TIMED_NS: usize = 96;
const SWITCHES: usize = 104;
const WAKINGS: usize = 112;
const LIMITS: usize = 120;

/// All rings in a class, a ring for each CPU, in memory shared with the kernel.
pub(crate) struct Rings {
    base: NonNull<u8>,
    mapped: usize,
    stride: usize,
    size: usize,
    cpus: usize,
    /// Each CPU's number of lost records when its ring was last discarded.
    lost_before: Vec<AtomicU64>,
}

// SAFETY: the mapping is owned by this value and reached through atomics and through slices that the kernel does not
// write while they are borrowed; no thread-bound state is involved.
unsafe impl Send for Rings {}

/// The size of an array element that holds a ring with `size` data bytes.
pub(crate) const fn value_size(size: usize) -> usize {
    (DATA + size + SLACK).next_multiple_of(64)
}

/// Maps memory to read and write.
pub(crate) fn map(bytes: usize, flags: libc::c_int, fd: libc::c_int) -> io::Result<NonNull<u8>> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a fresh mapping at an address chosen by the kernel; nothing of ours is replaced.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, flags, fd, 0) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mmap returned null"))
}

impl Rings {
    /// Maps the array map behind `fd`, whose `cpus` elements each hold `size` data bytes.
    pub(crate) fn map(fd: BorrowedFd<'_>, cpus: usize, size: usize) -> io::Result<Self> {
        let stride = value_size(size);
        let mapped = stride * cpus;
        let base = map(mapped, libc::MAP_SHARED, fd.as_raw_fd())?;
        let lost_before = (0..cpus).map(|_| AtomicU64::new(0)).collect();
        Ok(Self { base, mapped, stride, size, cpus, lost_before })
    }

    pub(crate) fn cpus(&self) -> usize {
        self.cpus
    }

    /// A ring's capacity, bytes.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    fn word(&self, cpu: usize, offset: usize) -> &AtomicU64 {
        assert!(cpu < self.cpus && offset + 8 <= DATA);
        // SAFETY: in bounds by the assertion, 8-aligned because stride and offsets are multiples of 8, and only ever
        // accessed as an atomic from this side.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(cpu * self.stride + offset).cast()) }
    }

    /// The records lost by `cpu` so far since its ring was full, without losses before the last discard.
    pub(crate) fn lost(&self, cpu: usize) -> u64 {
        let before = self.lost_before[cpu].load(Ordering::Relaxed);
        self.word(cpu, LOST).load(Ordering::Relaxed).wrapping_sub(before)
    }

    /// The timed switches on all CPUs: their number, and the sum of their program times, ns.
    pub(crate) fn timed(&self) -> (u64, u64) {
        (self.sum(TIMED), self.sum(TIMED_NS))
    }

    /// The numbers of switch and wake-up records on all CPUs, where stacks are recorded.
    pub(crate) fn counted(&self) -> (u64, u64) {
        (self.sum(SWITCHES), self.sum(WAKINGS))
    }

    /// The number of CPU-limit events on all CPUs: a switch left a throttled thread, or a limit handed out time.
    pub(crate) fn limits(&self) -> u64 {
        self.sum(LIMITS)
    }

    fn sum(&self, offset: usize) -> u64 {
        let words = (0..self.cpus).map(|cpu| self.word(cpu, offset).load(Ordering::Relaxed));
        words.fold(0, u64::wrapping_add)
    }

    /// Drops the rings' contents.
    pub(crate) fn discard(&self) {
        for cpu in 0..self.cpus {
            let head = self.word(cpu, HEAD).load(Ordering::Acquire);
            self.word(cpu, TAIL).store(head, Ordering::Release);
            self.lost_before[cpu].store(self.word(cpu, LOST).load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Names `cpu`'s softirq thread, whose own work then does not count as interruption.
    pub(crate) fn set_ksoftirqd(&self, cpu: usize, tid: u32) {
        assert!(cpu < self.cpus);
        // SAFETY: inside the ring's head, 4-aligned, an atomic from this side.
        let word =
            unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(cpu * self.stride + KSOFTIRQD).cast()) };
        word.store(tid, Ordering::Relaxed);
    }

    /// Moves the records in `cpu`'s ring, whole and in order, to the end of `taken`.
    pub(crate) fn drain(&self, cpu: usize, taken: &mut Vec<u8>) {
        // Acquire pairs with the program's store of the head after the record (x86 keeps stores in order; the program
        // has a compiler barrier between them).
        let head = self.word(cpu, HEAD).load(Ordering::Acquire);
        let tail = self.word(cpu, TAIL).load(Ordering::Relaxed);
        let used = head.wrapping_sub(tail) as usize;
        if used == 0 || used > self.size {
            return;
        }
        let from = tail as usize & (self.size - 1);
        // SAFETY: the ring's data and slack lie inside the mapping, and the program never writes between tail and
        // head, the only part read below.
        let data = unsafe {
            std::slice::from_raw_parts(
                self.base.as_ptr().add(cpu * self.stride + DATA).cast_const(),
                self.size + SLACK,
            )
        };
        let runs = if from + used < self.size {
            [&data[from..from + used], &[][..]]
        } else {
            // The record that crosses the end continues in the slack, and as many bytes at the ring's start are
            // skipped.
            let over = overrun(data, from, self.size);
            let rest = (from + used).saturating_sub(self.size);
            [&data[from..self.size + over], &data[over.min(rest)..rest]]
        };
        for run in runs {
            taken.extend_from_slice(run);
        }
        self.word(cpu, TAIL).store(head, Ordering::Release);
    }
}

/// The number of bytes by which the last record that begins before `end` crosses it. Records begin at `from`.
fn overrun(data: &[u8], from: usize, end: usize) -> usize {
    let mut at = from;
    while at < end {
        match record_length(&data[at..]) {
            Ok(len) => at += len,
            Err(_) => return 0,
        }
    }
    at - end
}

impl Drop for Rings {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map` with this length, and no slice outlives `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.mapped) };
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_head_of_a_ring_is_as_the_c_header_says() {
        let source = r#"
            #include <stddef.h>
            #include <stdio.h>
            #include <stdint.h>
            #include "records.h"
            #include "ring.h"
            int main(void) {
                printf("%zu %zu %zu %zu %zu %zu %zu %zu %zu %d %d", offsetof(struct wp_ring, head),
                       offsetof(struct wp_ring, lost),
                       offsetof(struct wp_ring, ksoftirqd), offsetof(struct wp_ring, tail),
                       offsetof(struct wp_ring, timed), offsetof(struct wp_ring, timed_ns),
                       offsetof(struct wp_ring, switches), offsetof(struct wp_ring, wakings),
                       offsetof(struct wp_ring, limits), WP_RING_DATA, WP_RING_SLACK);
            }"#;
        let folder = std::env::temp_dir().join(format!("wakepath-ring-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (c, program) = (folder.join("ring.c"), folder.join("ring"));
        std::fs::write(&c, source).unwrap();
        let bpf = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bpf");
        let compiled = Command::new("cc").arg("-I").arg(bpf).arg("-o").arg(&program).arg(&c).status();
        assert!(compiled.unwrap().success(), "the C compiler refused bpf/ring.h");
        let printed = Command::new(&program).output().unwrap().stdout;
        std::fs::remove_dir_all(&folder).unwrap();
        let expected = format!(
            "{HEAD} {LOST} {KSOFTIRQD} {TAIL} {TIMED} {TIMED_NS} {SWITCHES} {WAKINGS} {LIMITS} {DATA} {SLACK}"
        );
        assert_eq!(String::from_utf8(printed).unwrap(), expected);
    }

    /// A ring in ordinary memory, written as the programs write it.
    struct Producer {
        rings: Rings,
        size: usize,
    }

    impl Producer {
        fn new(size: usize) -> Self {
            let mapped = value_size(size);
            let base = map(mapped, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1).unwrap();
            let lost_before = vec![AtomicU64::new(0)];
            Self { rings: Rings { base, mapped, stride: mapped, size, cpus: 1, lost_before }, size }
        }

        /// Puts a record of `kind` there; false when the ring is full.
        fn put(&self, kind: u8, len: usize, number: u64) -> bool {
            let head = self.rings.word(0, HEAD).load(Ordering::Relaxed);
            let tail = self.rings.word(0, TAIL).load(Ordering::Relaxed);
            if head + SLACK as u64 - tail > self.size as u64 {
                return false;
            }
            let at = DATA + (head as usize & (self.size - 1));
            let mut record = vec![0; len];
            record[..8].copy_from_slice(&number.to_le_bytes());
            record[8] = kind;
            // SAFETY: within the mapping: the data and the slack behind it.
            unsafe { std::ptr::copy_nonoverlapping(record.as_ptr(), self.rings.base.as_ptr().add(at), len) };
            self.rings.word(0, HEAD).store(head + len as u64, Ordering::Release);
            true
        }

        fn taken(&self) -> Vec<u64> {
            let (mut numbers, mut taken) = (Vec::new(), Vec::new());
            self.rings.drain(0, &mut taken);
            let mut rest = taken.as_slice();
            while !rest.is_empty() {
                numbers.push(u64::from_le_bytes(*rest.first_chunk().unwrap()));
                rest = &rest[record_length(rest).unwrap()..];
            }
            numbers
        }
    }

    #[test]
    fn records_come_out_as_they_went_in_however_they_meet_the_end_of_the_ring() {
        // Switch records with 32 bytes, with a call 48, with a lock 64; wake-up records with 24.
        let kinds = [(1, 32), (2, 48), (4, 24), (3, 64), (4, 24), (4, 24)];
        let producer = Producer::new(1024);
        let (mut put, mut next) = (0, 0);
        for round in 0..2000u64 {
            for _ in 0..round % 17 {
                let (kind, len) = kinds[(put % kinds.len() as u64) as usize];
                if producer.put(kind, len, put) {
                    put += 1;
                }
            }
            for number in producer.taken() {
                assert_eq!(number, next);
                next += 1;
            }
        }
        assert_eq!(next, put);
        assert!(put > 5_000, "the ring went round many times");
    }
}
