//! This host and its clocks.

use std::fs;

use rustix::time::{ClockId, clock_gettime};
use wakepath_event::HostIdentity;

/// This host. Unreadable values are empty, or 0.
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

/// The largest number plus one: 9 for `0-3,8`.
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
    /// The clocks now: from a few tries, the pair with the least time in between, so that an interruption does not
    /// show as an offset.
    pub fn now() -> Self {
        let read = |clock| {
            let t = clock_gettime(clock);
            u64::try_from(t.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(t.tv_nsec).unwrap_or(0)
        };
        let once = || {
            let before = read(ClockId::Monotonic);
            let realtime_ns = read(ClockId::Realtime);
            let after = read(ClockId::Monotonic);
            let monotonic_ns = u64::midpoint(before, after);
            (after.saturating_sub(before), Self { monotonic_ns, realtime_ns })
        };
        let tries: [_; 5] = std::array::from_fn(|_| once());
        tries.iter().min_by_key(|(apart, _)| *apart).unwrap_or(&tries[0]).1
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

    #[test]
    fn the_clocks_are_those_of_now() {
        let since_1970 = || {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            u64::try_from(now.expect("after 1970").as_nanos()).expect("before 2554")
        };
        let since_boot = || {
            let uptime = fs::read_to_string("/proc/uptime").expect("Linux's uptime");
            let seconds: f64 = uptime.split(' ').next().and_then(|text| text.parse().ok()).expect("seconds");
            (seconds * 1e9) as u64
        };
        let (realtime, uptime) = (since_1970(), since_boot());
        let now = ClockReading::now();
        assert!((realtime..=since_1970()).contains(&now.realtime_ns), "{now:?}");
        // The uptime has hundredths of a second, and includes suspended time.
        assert!(now.monotonic_ns > 0 && now.monotonic_ns < since_boot() + 20_000_000, "{now:?}");
        let again = ClockReading::now();
        let passed = since_boot() - uptime + 20_000_000;
        assert!((now.monotonic_ns..=now.monotonic_ns + passed).contains(&again.monotonic_ns), "{again:?}");
    }
}
