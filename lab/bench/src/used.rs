//! The time and memory that a program uses from its beginning to its end.
//!
//! The kernel's figure for a process's peak memory (`ru_maxrss`) outlives `exec`, and `exec` adds the memory it replaces, which
//! is the parent's until then: a child of a process with 300 MiB has a peak of 300 MiB in any case. The bench holds graphs
//! this large. So it starts itself once more, and this second, empty process starts the program. A program that uses less than
//! this process (some MiB) has its figure.

use std::ffi::{OsStr, OsString};
use std::hint::black_box;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;

/// The bench itself, even after its file was replaced.
const ITSELF: &str = "/proc/self/exe";

#[derive(Debug, Args)]
pub struct Options {
    /// Allocate this much memory meanwhile: it is not in the figures.
    #[arg(long, value_name = "MIB", default_value_t = 0)]
    hold: usize,
    /// Start the program from this process itself.
    #[arg(long, hide = true)]
    here: bool,
    /// The program and its arguments.
    #[arg(last = true, required = true)]
    words: Vec<OsString>,
}

/// A process's resources from its beginning to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceUse {
    /// CPU time, its own and the kernel's for it.
    pub cpu: Duration,
    /// The time from its start to its end.
    pub wall: Duration,
    /// The peak memory, bytes.
    pub memory: u64,
    /// Whether it ended with code 0.
    pub succeeded: bool,
}

/// Runs a program and prints its resources.
pub fn run(options: &Options) -> Result<()> {
    // Each page is written, so that it exists.
    let held = vec![1_u8; options.hold << 20];
    let used = if options.here { here(&options.words)? } else { used(&options.words)? };
    black_box(held);
    println!("{}", line(&used));
    Ok(())
}

/// Runs a program to its end, without input or output.
pub fn used(words: &[impl AsRef<OsStr>]) -> Result<ResourceUse> {
    let mut itself = Command::new(ITSELF);
    itself.args(["used", "--here", "--"]).args(words).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = itself.output().context("cannot start the bench once more")?;
    let printed = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "`{}` was not measured", words[0].as_ref().display());
    parse(&printed).with_context(|| format!("not the figures of a process: `{}`", printed.trim()))
}

/// The same, from this process.
fn here(words: &[OsString]) -> Result<ResourceUse> {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let begun = Instant::now();
    let child = command.spawn().with_context(|| format!("cannot run {}", words[0].display()))?;
    let pid = libc::pid_t::try_from(child.id())?;
    let mut status = 0;
    // SAFETY: a rusage is plain numbers, for which zeros will do; wait4 writes it and the status, both ours. The child is not
    // waited for a second time: dropping a `Child` does not.
    let (waited, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        (libc::wait4(pid, &raw mut status, 0, &raw mut usage), usage)
    };
    let wall = begun.elapsed();
    if waited != pid {
        return Err(std::io::Error::last_os_error()).context("cannot wait for a child");
    }
    let time = |it: libc::timeval| -> Result<Duration> {
        Ok(Duration::new(u64::try_from(it.tv_sec)?, u32::try_from(it.tv_usec)? * 1000))
    };
    Ok(ResourceUse {
        cpu: time(usage.ru_utime)? + time(usage.ru_stime)?,
        wall,
        memory: u64::try_from(usage.ru_maxrss)? * 1024,
        succeeded: libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0,
    })
}

/// The figures as a line.
fn line(used: &ResourceUse) -> String {
    let ResourceUse { cpu, wall, memory, succeeded } = used;
    format!(
        "cpu_ns {} wall_ns {} memory_bytes {memory} succeeded {succeeded}",
        cpu.as_nanos(),
        wall.as_nanos()
    )
}

fn parse(line: &str) -> Option<ResourceUse> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let ["cpu_ns", cpu, "wall_ns", wall, "memory_bytes", memory, "succeeded", succeeded] = words[..] else {
        return None;
    };
    let time = |ns: &str| Some(Duration::from_nanos(ns.parse().ok()?));
    Some(ResourceUse {
        cpu: time(cpu)?,
        wall: time(wall)?,
        memory: memory.parse().ok()?,
        succeeded: succeeded.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_are_read_as_they_are_printed() {
        let used = ResourceUse {
            cpu: Duration::from_millis(3),
            wall: Duration::from_secs(7),
            memory: 1 << 20,
            succeeded: false,
        };
        assert_eq!(parse(&line(&used)), Some(used));
        assert_eq!(parse("cpu_ns 1 wall_ns 2 memory_bytes -3 succeeded true"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn a_program_is_measured_with_what_it_did() {
        let words = |script: &str| ["sh", "-c", script].map(OsString::from);
        let busy = here(&words("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.05")).unwrap();
        assert!(busy.succeeded && busy.cpu > Duration::from_millis(1), "{busy:?}");
        assert!(
            busy.wall >= busy.cpu.min(Duration::from_millis(50)) && busy.wall >= Duration::from_millis(50)
        );
        assert!(!here(&words("exit 3")).unwrap().succeeded);
        assert!(!here(&words("kill -9 $$")).unwrap().succeeded);
        assert!(here(&[OsString::from("/nonesuch/program")]).is_err());
    }
}
