//! The host that we run on, and its clocks.

use std::fs;

use rustix::time::{ClockId, clock_gettime};
use wakepath_event::HostIdentity;

/// The host that we run on. Values that cannot be read are empty, or 0.
pub fn this_host() -> HostIdentity {
    let uname = rustix::system::uname();
    let text = |c: &std::ffi::CStr| c.to_string_lossy().into_owned();
    HostIdentity {
        name: text(uname.nodename()),
        boot_id: first_line("/proc/sys/kernel/random/boot_id"),
        kernel_release: text(uname.release()),
        machine: text(uname.machine()),
        cpus: possible_cpus(&first_line("/sys/devices/system/cpu/possible")),
    }
}

fn first_line(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim_end().to_owned()
}

/// One more than the largest number: 9 for `0-3,8`.
fn possible_cpus(list: &str) -> u32 {
    let largest = list.split([',', '-']).filter_map(|number| number.parse::<u32>().ok()).max();
    largest.map_or(0, |largest| largest.saturating_add(1))
}

/// `CLOCK_MONOTONIC` and `CLOCK_REALTIME`, read together: they convert stamps into times of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockReading {
    /// ns.
    pub monotonic_ns: u64,
    /// ns since 1970, UTC.
    pub realtime_ns: u64,
}

impl ClockReading {
    /// The clocks now. Takes the one of a few tries with the least time between the readings, so that an
    /// interruption between them does not show as an offset.
    pub fn now() -> Self {
        let read = |clock| {
            let t = clock_gettime(clock);
            u64::try_from(t.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(t.tv_nsec).unwrap_or(0)
        };
        let once = || {
            let before = read(ClockId::Monotonic);
            let realtime_ns = read(ClockId::Realtime);
            let after = read(ClockId::Monotonic);
            (after - before, Self { monotonic_ns: before + (after - before) / 2, realtime_ns })
        };
        let mut best = once();
        for _ in 0..4 {
            let another = once();
            if another.0 < best.0 {
                best = another;
            }
        }
        best.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_has_a_kernel_a_boot_and_cpus() {
        let host = this_host();
        assert!(!host.kernel_release.is_empty() && host.boot_id.len() == 36 && host.cpus > 0, "{host:?}");
    }

    #[test]
    fn the_largest_number_of_a_cpu_decides_not_their_count() {
        for (list, cpus) in [("0", 1), ("0-1", 2), ("0-3,8", 9), ("", 0), ("nonsense", 0)] {
            assert_eq!(possible_cpus(list), cpus, "{list}");
        }
    }
}
