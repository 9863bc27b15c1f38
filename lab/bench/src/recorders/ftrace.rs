//! ftrace with a reader for each CPU, through tracefs: like trace-cmd, without trace-cmd.
//!
//! Readers splice whole pages from `trace_pipe_raw` through a pipe into a file, so no event is copied through user space.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use wakepath_process::Process;

use super::{Recorded, Recorder, Recording};
use crate::{machine, processes, tracepoints};

/// For each CPU; large enough for a million events a second without loss.
const BUFFER_KIB: u32 = 65536;

/// The time for which a reader rests when its CPU's buffer had no full page. It never wakes for an event.
const REST: Duration = Duration::from_millis(20);

/// The system call by which a traced program names its current request (L19 §4.4.1), as an event with the call's arguments: the getpid event
/// itself has no arguments, so all calls are checked, and calls with this number recorded.
const CALLS: &str = "raw_syscalls/sys_enter";
const IS_GETPID: &str = "id == 39";

pub struct Ftrace {
    folder: PathBuf,
    with_calls: bool,
    to: Destination,
}

/// The events' destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// To the disk, as they come.
    Disk,
    /// Into memory, where new events replace old events without being read.
    Memory,
}

struct Running {
    instance: Instance,
    to: Destination,
    stop: Arc<AtomicBool>,
    readers: Vec<JoinHandle<io::Result<u64>>>,
    /// Each reader's CPU time so far, ns.
    used: Vec<Arc<AtomicU64>>,
    folder: PathBuf,
}

/// Our own buffer in tracefs; removing it stops its events.
struct Instance(PathBuf);

impl Ftrace {
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_path_buf(), with_calls: false, to: Destination::Disk }
    }

    /// With the system call for a program's spans beside the events of all recorders.
    pub fn with_calls(to: Destination, folder: &Path) -> Self {
        Self { folder: folder.to_path_buf(), with_calls: true, to }
    }
}

impl Recorder for Ftrace {
    fn name(&self) -> String {
        "ftrace with readers".to_owned()
    }

    fn command(&self) -> String {
        let calls = if self.with_calls { format!(" and {CALLS} if {IS_GETPID}") } else { String::new() };
        let read = match self.to {
            Destination::Disk => "; splice of trace_pipe_raw",
            Destination::Memory => "; nothing reads them",
        };
        format!("tracefs instance, {} MiB a CPU, EVENTS{calls}{read}", BUFFER_KIB / 1024)
    }

    fn start(&mut self) -> Result<Box<dyn Recording>> {
        let instance = Instance::new()?;
        instance.write("buffer_size_kb", &BUFFER_KIB.to_string())?;
        let stop = Arc::new(AtomicBool::new(false));
        let read = match self.to {
            Destination::Disk => machine::cpus(),
            Destination::Memory => 0,
        };
        let used: Vec<_> = (0..read).map(|_| Arc::new(AtomicU64::new(0))).collect();
        let readers = used.iter().enumerate().map(|(cpu, used)| {
            let raw = OpenOptions::new()
                .read(true)
                .custom_flags(libc::O_NONBLOCK)
                .open(instance.0.join(format!("per_cpu/cpu{cpu}/trace_pipe_raw")))?;
            let file = File::create(self.folder.join(format!("ftrace.{cpu}")))?;
            let (stop, used) = (Arc::clone(&stop), Arc::clone(used));
            Ok(std::thread::spawn(move || drain(&raw, &file, &stop, &used)))
        });
        let readers = readers.collect::<io::Result<Vec<_>>>().context("cannot start the readers")?;
        for event in tracepoints::here() {
            instance.write(&format!("events/{}/enable", event.replace(':', "/")), "1")?;
        }
        if self.with_calls {
            instance.write(&format!("events/{CALLS}/filter"), IS_GETPID)?;
            instance.write(&format!("events/{CALLS}/enable"), "1")?;
        }
        Ok(Box::new(Running { instance, to: self.to, stop, readers, used, folder: self.folder.clone() }))
    }
}

impl Recording for Running {
    fn consumer_cpu(&mut self) -> Result<Duration> {
        Ok(self.used.iter().map(|used| Duration::from_nanos(used.load(Ordering::Relaxed))).sum())
    }

    fn stop(self: Box<Self>) -> Result<Recorded> {
        self.instance.write("tracing_on", "0")?;
        self.stop.store(true, Ordering::Relaxed);
        let (mut events, mut bytes, mut replaced) = (0, 0, 0);
        for (cpu, reader) in self.readers.into_iter().enumerate() {
            bytes += reader.join().map_err(|_| anyhow!("a reader panicked"))?.context("a reader failed")?;
            fs::remove_file(self.folder.join(format!("ftrace.{cpu}")))?;
        }
        for cpu in 0..machine::cpus() {
            let stats = fs::read_to_string(self.instance.0.join(format!("per_cpu/cpu{cpu}/stats")))?;
            // Events in the last, half-filled page count: they were recorded and could be read.
            events += field(&stats, "entries") + field(&stats, "read events");
            replaced += field(&stats, "overrun") + field(&stats, "dropped events");
        }
        let recorded = match self.to {
            Destination::Disk => Recorded {
                events: Some(events),
                lost: Some(replaced),
                bytes: Some(bytes),
                ..Recorded::default()
            },
            Destination::Memory => Recorded { events: Some(events + replaced), ..Recorded::default() },
        };
        Ok(recorded)
    }
}

impl Instance {
    fn new() -> Result<Self> {
        let folder = Path::new(tracepoints::TRACEFS).join("instances");
        remove_left(&folder, |pid| pid.parse().is_ok_and(|pid| Process::open(pid).is_ok()));
        let path = folder.join(format!("{OURS}{}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }

    fn write(&self, file: &str, text: &str) -> Result<()> {
        let path = self.0.join(file);
        fs::write(&path, text).with_context(|| format!("cannot write {text} to {}", path.display()))
    }
}

/// The prefix of our buffers' names; the pid follows.
const OURS: &str = "wakepath-bench-";

/// Removes our buffers without a process: it ended before it could remove them, and they would record on, at the cost of all later
/// measurements. A buffer that cannot be removed stays.
fn remove_left(folder: &Path, is_there: impl Fn(&str) -> bool) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let left = name.to_str().and_then(|name| name.strip_prefix(OURS)).is_some_and(|pid| !is_there(pid));
        if left {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // It cannot be removed while a reader has a file in it open; readers end before this.
        let _ = fs::remove_dir(&self.0);
    }
}

/// Moves pages until `stop` is set and nothing is left; returns the moved bytes. `used`: this thread's CPU time, updated at each rest.
fn drain(raw: &File, file: &File, stop: &AtomicBool, used: &AtomicU64) -> io::Result<u64> {
    const CHUNK: usize = 1 << 16;
    let (from, to) = pipe()?;
    let mut bytes = 0;
    loop {
        let stopping = stop.load(Ordering::Relaxed);
        match splice(raw.as_raw_fd(), to.as_raw_fd(), CHUNK) {
            Ok(0) => {}
            Ok(moved) => {
                let mut left = moved;
                while left > 0 {
                    left -= splice(from.as_raw_fd(), file.as_raw_fd(), left)?;
                }
                bytes += moved as u64;
                continue;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        if let Ok(time) = processes::thread_cpu_time() {
            used.store(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
        if stopping {
            return Ok(bytes);
        }
        std::thread::sleep(REST);
    }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: pipe2 writes two descriptors into the array, which has room for two.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: both descriptors are new and have no other owner.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

fn splice(from: i32, to: i32, len: usize) -> io::Result<usize> {
    let (nowhere, flags) = (std::ptr::null_mut(), libc::SPLICE_F_MOVE);
    // SAFETY: null offsets mean the descriptors' own positions; no memory of ours is touched.
    let moved = unsafe { libc::splice(from, nowhere, to, nowhere, len, flags) };
    usize::try_from(moved).map_err(|_| io::Error::last_os_error())
}

/// A figure in a CPU's `stats` file; 0 if it is missing.
fn field(stats: &str, name: &str) -> u64 {
    let line = stats.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|figure| figure.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::remove_left;

    #[test]
    fn only_buffers_of_processes_that_have_gone_are_removed() {
        let folder = std::env::temp_dir().join(format!("wakepath-bench-left-{}", std::process::id()));
        for name in ["wakepath-bench-1", "wakepath-bench-2", "of-others"] {
            fs::create_dir_all(folder.join(name)).expect("a folder");
        }
        remove_left(&folder, |pid| pid == "1");
        assert!(!folder.join("wakepath-bench-2").exists());
        assert!(folder.join("wakepath-bench-1").exists() && folder.join("of-others").exists());
        fs::remove_dir_all(&folder).expect("removed");
    }
}
