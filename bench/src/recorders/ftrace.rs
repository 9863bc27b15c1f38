//! ftrace with a reader for each CPU, through tracefs: what trace-cmd does, without trace-cmd.
//!
//! Readers splice whole pages from `trace_pipe_raw` through a pipe into a file, so that no event is
//! copied through user space.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};

use super::{Recorded, Recorder, Recording};
use crate::{machine, processes, tracepoints};

/// For each CPU; large enough that nothing is lost at a million events a second.
const BUFFER_KIB: u32 = 65536;

/// How long a reader rests when its CPU's buffer had no full page. It never wakes for an event.
const REST: Duration = Duration::from_millis(20);

pub struct Ftrace {
    folder: PathBuf,
}

struct Running {
    instance: Instance,
    stop: Arc<AtomicBool>,
    readers: Vec<JoinHandle<io::Result<u64>>>,
    folder: PathBuf,
}

/// A buffer of our own in tracefs; removing it stops its events.
struct Instance(PathBuf);

impl Ftrace {
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_path_buf() }
    }
}

impl Recorder for Ftrace {
    fn name(&self) -> String {
        "ftrace with readers".to_owned()
    }

    fn command(&self) -> String {
        format!("tracefs instance, {} MiB a CPU, EVENTS; splice of trace_pipe_raw", BUFFER_KIB / 1024)
    }

    fn start(&mut self) -> Result<Box<dyn Recording>> {
        let instance = Instance::new()?;
        instance.write("buffer_size_kb", &BUFFER_KIB.to_string())?;
        let stop = Arc::new(AtomicBool::new(false));
        let readers = (0..machine::cpus()).map(|cpu| {
            let raw = OpenOptions::new()
                .read(true)
                .custom_flags(libc::O_NONBLOCK)
                .open(instance.0.join(format!("per_cpu/cpu{cpu}/trace_pipe_raw")))?;
            let file = File::create(self.folder.join(format!("ftrace.{cpu}")))?;
            let stop = Arc::clone(&stop);
            Ok(std::thread::spawn(move || drain(&raw, &file, &stop)))
        });
        let readers = readers.collect::<io::Result<Vec<_>>>().context("cannot start the readers")?;
        for event in tracepoints::here() {
            instance.write(&format!("events/{}/enable", event.replace(':', "/")), "1")?;
        }
        Ok(Box::new(Running { instance, stop, readers, folder: self.folder.clone() }))
    }
}

impl Recording for Running {
    fn consumer_cpu(&mut self) -> Result<Duration> {
        // The readers are threads of this process, which does nothing else meanwhile.
        processes::cpu_time(std::process::id())
    }

    fn stop(self: Box<Self>) -> Result<Recorded> {
        self.instance.write("tracing_on", "0")?;
        self.stop.store(true, Ordering::Relaxed);
        let mut recorded = Recorded { events: Some(0), lost: Some(0), bytes: Some(0), ..Recorded::default() };
        for (cpu, reader) in self.readers.into_iter().enumerate() {
            let bytes =
                reader.join().map_err(|_| anyhow!("a reader panicked"))?.context("a reader failed")?;
            let stats = fs::read_to_string(self.instance.0.join(format!("per_cpu/cpu{cpu}/stats")))?;
            // Events in the last, half-filled page count: they were recorded and could be read.
            let events = field(&stats, "entries") + field(&stats, "read events");
            let lost = field(&stats, "overrun") + field(&stats, "dropped events");
            recorded.events = recorded.events.map(|sum| sum + events);
            recorded.lost = recorded.lost.map(|sum| sum + lost);
            recorded.bytes = recorded.bytes.map(|sum| sum + bytes);
            fs::remove_file(self.folder.join(format!("ftrace.{cpu}")))?;
        }
        Ok(recorded)
    }
}

impl Instance {
    fn new() -> Result<Self> {
        let path =
            Path::new(tracepoints::TRACEFS).join(format!("instances/wakepath-bench-{}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }

    fn write(&self, file: &str, text: &str) -> Result<()> {
        let path = self.0.join(file);
        fs::write(&path, text).with_context(|| format!("cannot write {text} to {}", path.display()))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // It cannot be removed while a reader has a file of it open; readers end before this.
        let _ = fs::remove_dir(&self.0);
    }
}

/// Moves pages until `stop` is set and nothing is left; returns the bytes moved.
fn drain(raw: &File, file: &File, stop: &AtomicBool) -> io::Result<u64> {
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
        if stopping {
            return Ok(bytes);
        }
        std::thread::sleep(REST);
    }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: pipe2 writes two descriptors into the array, which it is given whole.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: both descriptors are new and owned by nobody else.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

fn splice(from: i32, to: i32, len: usize) -> io::Result<usize> {
    let (nowhere, flags) = (std::ptr::null_mut(), libc::SPLICE_F_MOVE);
    // SAFETY: null offsets mean the descriptors' own positions; no memory of ours is touched.
    let moved = unsafe { libc::splice(from, nowhere, to, nowhere, len, flags) };
    usize::try_from(moved).map_err(|_| io::Error::last_os_error())
}

/// A figure of a CPU's `stats` file; 0 if it is not there.
fn field(stats: &str, name: &str) -> u64 {
    let line = stats.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|figure| figure.trim().parse().ok()).unwrap_or(0)
}
