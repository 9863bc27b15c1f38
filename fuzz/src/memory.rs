//! Counts a thread's allocations, so that a decoder that trusts a size is caught.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, with an account for each thread.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    /// Bytes allocated by this thread, minus the bytes it freed.
    static LIVE: Cell<isize> = const { Cell::new(0) };
    /// The peak of `LIVE`.
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// The largest number of bytes for a thread, far above any decoder's need. A larger request is refused, which ends
/// the process, before the machine gives the memory.
const MAX_PROCESS_BYTES: isize = 1 << 30;

/// The largest number of bytes that a decoder may have at a time for an input with this length.
///
/// 64 MiB for any input: a block for each read stream, and tables by CPU and by thread id, whose size the kernel's own
/// limits bound. 2 KiB for each byte: the shortest record has 16 bytes, and every kind of row that comes from it (a
/// thread, a state interval, a wait, a segment under it, a text line in each view) takes less than a kilobyte or
/// two, and some rows exist twice while they grow.
pub const fn bound(input: usize) -> usize {
    (64 << 20) + (2 << 10) * input
}

/// Runs `work`, and returns the peak of this thread's additional memory, bytes.
pub fn peak(work: impl FnOnce()) -> usize {
    let before = LIVE.get();
    PEAK.set(before);
    work();
    usize::try_from(PEAK.get() - before).unwrap_or(0)
}

/// Runs `work`.
///
/// # Panics
/// When its additional memory exceeded `most` bytes.
pub fn bounded(most: usize, work: impl FnOnce()) {
    let peak = peak(work);
    assert!(peak <= most, "had {peak} bytes of memory, of {most} that the input's size allows");
}

/// Counts allocated or freed bytes; returns false, without a count, if they would exceed the limit.
fn count(bytes: isize) -> bool {
    let live = LIVE.get().saturating_add(bytes);
    if live > MAX_PROCESS_BYTES && bytes > 0 {
        return false;
    }
    LIVE.set(live);
    PEAK.set(PEAK.get().max(live));
    true
}

const fn signed(bytes: usize) -> isize {
    // No allocation is larger than `isize::MAX`, by the contract of `Layout`.
    bytes as isize
}

// SAFETY: every call that is not refused goes to the system's allocator with the caller's arguments. The account
// beside it never unwinds, and touches thread-locals that need neither memory nor a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !count(signed(layout.size())) {
            return std::ptr::null_mut();
        }
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !count(signed(layout.size())) {
            return std::ptr::null_mut();
        }
        // SAFETY: as the caller promised.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-signed(layout.size()));
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !count(signed(size) - signed(layout.size())) {
            return std::ptr::null_mut();
        }
        // SAFETY: as the caller promised.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_what_was_there_at_a_time_and_not_what_is_left() {
        let found = peak(|| {
            drop(std::hint::black_box(vec![1_u8; 1 << 20]));
            let mut grown = Vec::with_capacity(1 << 10);
            grown.resize(1 << 21, 0_u8);
            drop(std::hint::black_box(grown));
        });
        assert!((1 << 21..1 << 22).contains(&found), "{found}");
    }

    #[test]
    fn memory_beyond_the_bound_is_a_panic() {
        bounded(1 << 21, || drop(std::hint::black_box(vec![0_u8; 1 << 20])));
        let result = std::panic::catch_unwind(|| {
            bounded(1 << 19, || drop(std::hint::black_box(vec![0_u8; 1 << 20])));
        });
        assert!(result.is_err());
    }
}
