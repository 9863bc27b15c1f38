//! CPUs' perf events: the CPU-clock timer behind samples; and the lists of CPUs.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use libbpf_rs::{Link, ProgramMut, libbpf_sys};

/// The rate that the kernel allows, per second, up to `per_second`. On machines whose interrupts take long, the kernel lowers its limit by itself.
pub(crate) fn allowed(per_second: u32) -> u32 {
    let limit = std::fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate");
    within(per_second, limit.as_deref().unwrap_or_default())
}

/// The rate within a limit as the kernel prints it; without a limit that can be read, the rate itself.
fn within(per_second: u32, limit: &str) -> u32 {
    limit.trim().parse().map_or(per_second, |limit| per_second.min(limit))
}

/// Opens a CPU-clock event with `per_second` samples on every online CPU and attaches `program` to each.
///
/// # Errors
/// When perf events are not allowed, or a CPU has none.
pub(crate) fn attach(program: &ProgramMut<'_>, per_second: u32) -> io::Result<Vec<Link>> {
    let mut links = Vec::new();
    for cpu in online_cpus()? {
        let event = cpu_clock(cpu, per_second)?;
        // The link keeps its own reference to the event.
        links.push(program.attach_perf_event(event.as_raw_fd()).map_err(io::Error::other)?);
        std::mem::forget(event);
    }
    Ok(links)
}

fn cpu_clock(cpu: usize, per_second: u32) -> io::Result<OwnedFd> {
    let mut attributes = libbpf_sys::perf_event_attr {
        type_: libbpf_sys::PERF_TYPE_SOFTWARE,
        size: size_of::<libbpf_sys::perf_event_attr>() as u32,
        config: u64::from(libbpf_sys::PERF_COUNT_SW_CPU_CLOCK),
        ..Default::default()
    };
    attributes.set_freq(1);
    attributes.__bindgen_anon_1.sample_freq = u64::from(per_second);
    event(cpu, &attributes)
}

/// Opens a perf event on a CPU, for all processes.
pub(crate) fn event(cpu: usize, attributes: &libbpf_sys::perf_event_attr) -> io::Result<OwnedFd> {
    // SAFETY: the attributes live across the call and carry their own size; the other arguments are plain numbers:
    // any process (-1), this CPU, no group, close-on-exec.
    let fd = unsafe {
        libc::syscall(libc::SYS_perf_event_open, std::ptr::from_ref(attributes), -1, cpu as i32, -1, 8u64)
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just opened this descriptor for us, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// The online CPUs.
pub(crate) fn online_cpus() -> io::Result<Vec<usize>> {
    cpu_list(&std::fs::read_to_string("/sys/devices/system/cpu/online")?)
}

/// The most CPUs this machine may ever have, also the number of rings.
pub(crate) fn possible_cpus() -> io::Result<usize> {
    let last = cpu_list(&std::fs::read_to_string("/sys/devices/system/cpu/possible")?)?.pop();
    last.map(|cpu| cpu + 1).ok_or_else(|| io::Error::other("the kernel lists no CPU"))
}

/// The CPUs in a list such as `0-3,6`.
pub(crate) fn cpu_list(text: &str) -> io::Result<Vec<usize>> {
    let bad = |_| io::Error::other(format!("not a list of CPUs: `{}`", text.trim()));
    let mut cpus = Vec::new();
    for range in text.trim().split(',').filter(|range| !range.is_empty()) {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        cpus.extend(from.parse::<usize>().map_err(bad)?..=to.parse::<usize>().map_err(bad)?);
    }
    Ok(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_limit_lowers_a_rate() {
        assert_eq!(
            [(99, "100000\n"), (5000, "1250\n"), (5000, "")].map(|(rate, limit)| within(rate, limit)),
            [99, 1250, 5000]
        );
    }

    #[test]
    fn a_cpu_list_has_single_numbers_and_ranges() {
        assert_eq!(cpu_list("0-2,5\n").unwrap(), [0, 1, 2, 5]);
        assert_eq!(cpu_list("0").unwrap(), [0]);
        assert!(cpu_list("a-b").is_err());
    }
}
