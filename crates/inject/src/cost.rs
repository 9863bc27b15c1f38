//! A measured call's cost, tried in our own process.

use std::arch::x86_64::_rdtsc;
use std::io;
use std::ptr;

use crate::data;
use crate::stub;

/// Calls per trial, and trials; the quickest trial counts.
const CALLS: u64 = 20_000;
const TRIALS: usize = 5;

/// The time that measuring adds to a call, ticks of the time stamp counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallCost {
    /// The whole addition.
    pub whole: u64,
    /// The part between the two stamps, which counts as the callee's time.
    pub inside: u64,
}

/// Memory of our own.
struct Mapped {
    at: *mut u8,
    bytes: usize,
}

impl Mapped {
    fn new(bytes: u64, protection: i32) -> io::Result<Self> {
        let bytes = bytes as usize;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: new memory at an address that the kernel chooses.
        let at = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if at == libc::MAP_FAILED {
            Err(io::Error::last_os_error())
        } else {
            Ok(Self { at: at.cast(), bytes })
        }
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        let at = at as usize;
        assert!(at + bytes.len() <= self.bytes);
        // SAFETY: within the mapping, which is writable, as the line above says.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.at.add(at), bytes.len()) };
    }

    fn word(&self, at: u64) -> u64 {
        assert!(at as usize + 8 <= self.bytes);
        // SAFETY: within the mapping.
        unsafe { ptr::read_volatile(self.at.add(at as usize).cast()) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing points into it any more.
        unsafe { libc::munmap(self.at.cast(), self.bytes) };
    }
}

#[inline(never)]
extern "C" fn nothing() {
    std::hint::black_box(());
}

/// Measures the cost: the quickest trial's.
///
/// # Errors
/// When the process may not map executable memory.
pub fn call_cost() -> io::Result<CallCost> {
    let data = Mapped::new(data::BYTES, libc::PROT_READ | libc::PROT_WRITE)?;
    let shared = Mapped::new(data::SHARED_BYTES, libc::PROT_READ | libc::PROT_WRITE)?;
    let code = Mapped::new(0x1000, libc::PROT_READ | libc::PROT_WRITE)?;
    let (base, states, region) = (data.at as u64, shared.at as u64, code.at as u64);
    let stub_at = region + stub::STUBS_AT;
    code.put(0, &stub::shared(base, states));
    let callee: extern "C" fn() = nothing;
    code.put(stub::STUBS_AT, &stub::stub(region, stub_at, 1, callee as usize as u64));
    // SAFETY: the mapping is ours; from here on it is code.
    if unsafe { libc::mprotect(code.at.cast(), code.bytes, libc::PROT_READ | libc::PROT_EXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let thread = thread_pointer();
    let index = (thread >> 12 ^ thread >> 23) % data::MAX_THREADS;
    let state = data::STATES + (index << data::STATE_BITS);
    shared.put(data::KEYS + 8 * index, &thread.to_le_bytes());
    data.put(data::DEADLINE, &u64::MAX.to_le_bytes());
    let site = data::SITES + data::SITE_BYTES;
    // Node 1 below f0 (0), with any frame.
    data.put(site + data::SITE_NODE, &1_u32.to_le_bytes());
    data.put(site + data::SITE_FRAME, &2_u32.to_le_bytes());
    let own = state + data::STATE_FRAMES;
    shared.put(own + data::CALL_SLOT, &u64::MAX.to_le_bytes());
    shared.put(state + data::STATE_THREAD, &thread.to_le_bytes());
    shared.put(state + data::STATE_INNERMOST, &(states + own).to_le_bytes());
    // SAFETY: the stub keeps all registers and calls `nothing`; its code and data live until the end of this function.
    let stub: extern "C" fn() = unsafe { std::mem::transmute::<usize, extern "C" fn()>(stub_at as usize) };
    let (mut plain, mut whole, mut inside) = (u64::MAX, u64::MAX, u64::MAX);
    for trial in 1..=TRIALS as u64 {
        shared.put(state + data::STATE_OF, &0_u64.to_le_bytes());
        plain = plain.min(ticks_of(callee));
        shared.put(state + data::STATE_OF, &trial.to_le_bytes());
        whole = whole.min(ticks_of(stub));
        let node = state + data::NODES + data::NODE_BYTES;
        debug_assert_eq!(shared.word(node + 24), CALLS);
        inside = inside.min(shared.word(node + 16));
    }
    Ok(CallCost {
        whole: whole.saturating_sub(plain).div_ceil(CALLS),
        inside: inside.saturating_sub(plain / 2) / CALLS,
    })
}

/// The time stamp counter of this CPU, which stubs read.
pub fn ticks() -> u64 {
    // SAFETY: reads a counter that every x86-64 CPU has.
    unsafe { _rdtsc() }
}

fn ticks_of(call: extern "C" fn()) -> u64 {
    let call = std::hint::black_box(call);
    let began = ticks();
    for _ in 0..CALLS {
        call();
    }
    ticks().saturating_sub(began)
}

/// The thread's own address, which the C library keeps in its first word.
fn thread_pointer() -> u64 {
    let pointer: u64;
    // SAFETY: reads the first word of the thread's own block, where its address stands.
    unsafe { std::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, readonly, preserves_flags)) };
    pointer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stub_costs_less_than_a_microsecond_and_counts_each_call() {
        let cost = call_cost().expect("memory");
        assert!(cost.inside <= cost.whole && cost.whole > 0, "{cost:?}");
        println!("{cost:?}");
    }
}
