//! The machine, in a line, so that a table can be read later and on other machines.

use std::fs;

use crate::peers::version;

/// The number of online CPUs, including those that this process may not use.
pub fn cpus() -> usize {
    // SAFETY: sysconf takes a number and returns a number.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    usize::try_from(online).unwrap_or(1)
}

/// Whether this process is root.
pub fn is_root() -> bool {
    // SAFETY: geteuid takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Processor, kernel and peers.
pub fn describe() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = cpuinfo.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let model = field("model name").unwrap_or_else(|| "unknown processor".to_owned());
    let guest = if field("flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")) {
        ", a virtual machine"
    } else {
        ""
    };
    format!("Machine: {model}, {} CPUs{guest}; Linux {}; {}", cpus(), kernel(), version("perf"))
}

/// The kernel's release.
pub fn kernel() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned()
}
