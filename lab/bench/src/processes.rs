//! Processes: their CPUs, their CPU time, their end.

use std::process::Child;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use wakepath_runner::ended;

/// Keeps this process, its future threads and its children on a single CPU, unless they choose
/// another.
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

/// The CPU time used by a process and its threads.
pub fn cpu_time(pid: u32) -> Result<Duration> {
    let stat = wakepath_process::Process::open(pid)?.stat()?;
    // USER_HZ is 100 on every Linux with BPF.
    Ok(Duration::from_millis(stat.cpu_ticks.iter().sum::<u64>() * 10))
}

/// The same to the nanosecond; ended threads count too.
pub fn exact_cpu_time(pid: u32) -> Result<Duration> {
    let mut clock = 0;
    // SAFETY: the clock's number is written to a variable of ours.
    let error = unsafe { libc::clock_getcpuclockid(libc::pid_t::try_from(pid)?, &raw mut clock) };
    if error != 0 {
        return Err(std::io::Error::from_raw_os_error(error))
            .with_context(|| format!("process {pid} is gone"));
    }
    read(clock)
}

/// The CPU time of this process and its threads, to the nanosecond.
pub fn own_cpu_time() -> Result<Duration> {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// The calling thread's CPU time, to the nanosecond.
pub fn thread_cpu_time() -> Result<Duration> {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn read(clock: libc::clockid_t) -> Result<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock is written to a timespec of ours.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return Err(std::io::Error::last_os_error()).context("cannot read the CPU clock");
    }
    Ok(Duration::new(u64::try_from(time.tv_sec)?, u32::try_from(time.tv_nsec)?))
}

/// Asks a process to end like Ctrl-C, and waits for its end.
pub fn interrupt(mut child: Child, patience: Duration) -> Result<std::process::Output> {
    let pid = libc::pid_t::try_from(child.id())?;
    // SAFETY: kill takes no memory; the process is our own child and not yet waited for.
    unsafe { libc::kill(pid, libc::SIGINT) };
    ensure!(ended(&mut child, patience)?.is_some(), "did not end within {} s of Ctrl-C", patience.as_secs());
    Ok(child.wait_with_output()?)
}

/// Lets pending writes reach the disk.
pub fn settle(at_least: Duration) {
    // SAFETY: sync takes nothing and returns nothing.
    unsafe { libc::sync() };
    std::thread::sleep(at_least);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{exact_cpu_time, own_cpu_time, thread_cpu_time};

    #[test]
    fn threads_that_have_ended_count() {
        const USED: Duration = Duration::from_millis(5);
        let before = exact_cpu_time(std::process::id()).expect("this process");
        let busy = || while thread_cpu_time().expect("the clock") < USED {};
        std::thread::spawn(busy).join().expect("a thread");
        let after = exact_cpu_time(std::process::id()).expect("this process");
        assert!(after - before >= USED, "{:?}", after - before);
        assert!(own_cpu_time().expect("the clock") >= after);
    }

    #[test]
    fn a_process_that_is_gone_has_no_clock() {
        let mut child = std::process::Command::new("true").spawn().expect("true");
        child.wait().expect("its end");
        assert!(exact_cpu_time(child.id()).is_err());
    }
}
