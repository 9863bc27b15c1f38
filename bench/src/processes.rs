//! Processes: where they run, what they use, how they end.

use std::fs;
use std::process::Child;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Keeps this process, its threads to come and its children on one CPU, unless they choose another.
pub fn pin_this_process(cpu: usize) -> Result<()> {
    // SAFETY: a cpu_set_t of zeros is an empty set, and CPU_SET stays within it for this small index;
    // sched_setaffinity only reads the set.
    let result = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
    };
    if result != 0 {
        return Err(std::io::Error::last_os_error()).context("cannot choose a CPU for the recorders");
    }
    Ok(())
}

/// The CPU time that a process and its threads have used.
pub fn cpu_time(pid: u32) -> Result<Duration> {
    let stat =
        fs::read_to_string(format!("/proc/{pid}/stat")).with_context(|| format!("process {pid} is gone"))?;
    // Fields are counted after the name, which may hold anything but ends at the last parenthesis.
    let fields = stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect::<Vec<_>>());
    let ticks = |index: usize| fields.as_ref()?.get(index)?.parse::<u64>().ok();
    let (Some(user), Some(system)) = (ticks(11), ticks(12)) else {
        bail!("cannot read /proc/{pid}/stat");
    };
    // USER_HZ is 100 on every Linux that BPF runs on.
    Ok(Duration::from_millis((user + system) * 10))
}

/// Asks a process to end as Ctrl-C would and waits until it has.
pub fn interrupt(mut child: Child, patience: Duration) -> Result<std::process::Output> {
    let pid = libc::pid_t::try_from(child.id())?;
    // SAFETY: kill takes no memory; the process is our own child and not yet waited for.
    unsafe { libc::kill(pid, libc::SIGINT) };
    let end = Instant::now() + patience;
    while child.try_wait()?.is_none() {
        if Instant::now() > end {
            child.kill()?;
            bail!("did not end within {} s of Ctrl-C", patience.as_secs());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(child.wait_with_output()?)
}

/// Lets writes that are under way reach the disk.
pub fn settle(at_least: Duration) {
    // SAFETY: sync takes nothing and returns nothing.
    unsafe { libc::sync() };
    std::thread::sleep(at_least);
}
