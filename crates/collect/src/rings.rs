//! The consumer's side of the per-CPU rings that `bpf/ring.bpf.h` fills.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use wakepath_kernel_records::record_length;

/// Where records begin in a ring, bytes; `WP_RING_DATA` in `bpf/ring.h`.
pub(crate) const DATA: usize = 128;
/// Room behind a ring's end; `WP_RING_SLACK` in `bpf/ring.h`.
pub(crate) const SLACK: usize = 64;

// Offsets in `struct wp_ring`; the test below holds them against the header.
const HEAD: usize = 0;
const LOST: usize = 8;
const KSOFTIRQD: usize = 48;
const TAIL: usize = 64;

/// All rings of one class, one a CPU, in memory shared with the kernel.
pub(crate) struct Rings {
    base: NonNull<u8>,
    mapped: usize,
    stride: usize,
    size: usize,
    cpus: usize,
}

// SAFETY: the mapping is owned by this value and reached through atomics and through slices that
// the kernel does not write while they are borrowed; no thread-bound state is involved.
unsafe impl Send for Rings {}

/// Bytes of one array element that holds a ring of `size` data bytes.
pub(crate) const fn value_size(size: usize) -> usize {
    (DATA + size + SLACK).next_multiple_of(64)
}

impl Rings {
    /// Maps the array map behind `fd`, whose `cpus` elements each hold `size` data bytes.
    pub(crate) fn map(fd: BorrowedFd<'_>, cpus: usize, size: usize) -> io::Result<Self> {
        let stride = value_size(size);
        let mapped = stride * cpus;
        // SAFETY: a fresh mapping at an address of the kernel's choosing; nothing of ours is replaced.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                mapped,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mmap returned null"))?;
        Ok(Self { base, mapped, stride, size, cpus })
    }

    pub(crate) fn cpus(&self) -> usize {
        self.cpus
    }

    /// Bytes that a ring holds.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    fn word(&self, cpu: usize, offset: usize) -> &AtomicU64 {
        assert!(cpu < self.cpus && offset + 8 <= DATA);
        // SAFETY: in bounds by the assertion, 8-aligned because stride and offsets are multiples of
        // 8, and only ever accessed as an atomic from this side.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(cpu * self.stride + offset).cast()) }
    }

    /// Records that found no room on `cpu` so far.
    pub(crate) fn lost(&self, cpu: usize) -> u64 {
        self.word(cpu, LOST).load(Ordering::Relaxed)
    }

    /// Names `cpu`'s softirq thread, so that its own work is not counted as interruption.
    pub(crate) fn set_ksoftirqd(&self, cpu: usize, tid: u32) {
        assert!(cpu < self.cpus);
        // SAFETY: inside the ring's head, 4-aligned, an atomic from this side.
        let word =
            unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(cpu * self.stride + KSOFTIRQD).cast()) };
        word.store(tid, Ordering::Relaxed);
    }

    /// Hands what `cpu`'s ring holds to `write`, as one or two runs of whole records in order, and
    /// frees it when `write` succeeds. Returns the number of bytes.
    pub(crate) fn drain<E>(
        &self,
        cpu: usize,
        write: impl FnOnce([&[u8]; 2]) -> Result<(), E>,
    ) -> Result<usize, E> {
        // Acquire pairs with the program's store of the head after the record (x86 keeps stores in
        // order; the program has a compiler barrier between them).
        let head = self.word(cpu, HEAD).load(Ordering::Acquire);
        let tail = self.word(cpu, TAIL).load(Ordering::Relaxed);
        let used = head.wrapping_sub(tail) as usize;
        if used == 0 || used > self.size {
            return Ok(0);
        }
        let from = tail as usize & (self.size - 1);
        // SAFETY: the ring's data and slack lie inside the mapping, and the program never writes
        // between tail and head, which is all that is read below.
        let data = unsafe {
            std::slice::from_raw_parts(
                self.base.as_ptr().add(cpu * self.stride + DATA).cast_const(),
                self.size + SLACK,
            )
        };
        let runs = if from + used < self.size {
            [&data[from..from + used], &[][..]]
        } else {
            // The record that runs over the end continues in the slack, and as much of the ring's
            // start is left out.
            let over = overrun(data, from, self.size);
            let rest = (from + used).saturating_sub(self.size);
            [&data[from..self.size + over], &data[over.min(rest)..rest]]
        };
        write(runs)?;
        self.word(cpu, TAIL).store(head, Ordering::Release);
        Ok(used)
    }
}

/// How far the last record that begins before `end` runs over it. Records begin at `from`.
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
