//! The host's clocks, read together, and the total stolen time.

use std::fs;
use std::mem::MaybeUninit;

use wakepath_clock::{Local, Stamp};
use wakepath_event::Clocks;

/// Nanoseconds on a kernel clock.
pub(crate) fn read(clock: libc::clockid_t) -> u64 {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: the kernel fills the timespec; were the clock unknown it would stay zero, which is valid.
    let time = unsafe {
        libc::clock_gettime(clock, time.as_mut_ptr());
        time.assume_init()
    };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Now, on the clock for all records.
pub(crate) fn now() -> Stamp<Local> {
    Stamp::from_ns(read(libc::CLOCK_MONOTONIC))
}

/// All clocks at the same time: of a few readings, the reading during which monotonic time moved least.
pub(crate) fn together() -> (Stamp<Local>, Clocks) {
    let mut best: Option<(u64, Stamp<Local>, Clocks)> = None;
    for _ in 0..4 {
        let before = now();
        let (boottime_ns, realtime_ns) = (read(libc::CLOCK_BOOTTIME), read(libc::CLOCK_REALTIME));
        let width = now().since(before);
        if best.as_ref().is_none_or(|(least, ..)| width < *least) {
            let clocks = Clocks { boottime_ns, realtime_ns, steal_ns: 0 };
            best = Some((width, before.plus(width / 2), clocks));
        }
    }
    let (_, at, mut clocks) =
        best.unwrap_or_else(|| (0, now(), Clocks { boottime_ns: 0, realtime_ns: 0, steal_ns: 0 }));
    clocks.steal_ns = steal_ns(&fs::read_to_string("/proc/stat").unwrap_or_default());
    (at, clocks)
}

/// All CPUs' stolen time in `/proc/stat`, ns; the file counts in ticks of 10 ms.
fn steal_ns(stat: &str) -> u64 {
    let ticks = stat.lines().next().and_then(|line| line.split_whitespace().nth(8)?.parse::<u64>().ok());
    ticks.unwrap_or(0).saturating_mul(10_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_is_the_eighth_number_of_the_first_line() {
        assert_eq!(steal_ns("cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 2 3"), 80_000_000);
        assert_eq!(steal_ns(""), 0);
    }

    #[test]
    fn clocks_read_together_are_not_zero() {
        let (at, clocks) = together();
        assert!(at.ns() > 0 && clocks.realtime_ns > 0);
        assert!(
            clocks.boottime_ns + 1_000_000 > at.ns(),
            "boottime is never behind, but for the time between two reads"
        );
    }
}
