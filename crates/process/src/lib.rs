//! The reader of `/proc/PID`: mappings, memory, threads and states of other processes, for all crates.
//!
//! A [`Process`] holds its process's directory open. When the process ends and another gets its number, reads fail
//! with [`Kind::Gone`] instead of answers about a stranger.
//!
//! Programs choose the names in these files: a mapped file or a thread may have any name. So all parsers here work
//! on bytes, accept any input, and believe no number. The `procfs` crate (0.18) does not fit: it reads lines as
//! UTF-8, so a mapped file with a name in other bytes hides all mappings in a process; it panics on a mapped file called
//! `/SYSV`; it trims names, and it neither writes memory nor opens `map_files`. It would add chrono, flate2 and hex
//! for files that wakepath does not read.

mod directory;
mod error;
mod mapping;
mod memory;
mod opened;
mod script;
mod seen;
mod stat;
mod text;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use directory::Directory;
pub use error::{Error, Kind};
pub use mapping::{FileId, Mapping, path_through};
pub use memory::{Memory, PresentMemory};
pub use opened::{Access, EpollMember, Opened, OpenedObject};
pub use script::{MAX_SCRIPT_BYTES, script};
pub use seen::SeenFile;
pub use stat::{Stat, Status, cgroup_paths};

/// The existing processes, by their numbers.
pub fn processes() -> Vec<u32> {
    Directory::open("/proc", 0).and_then(|all| all.numbers(".")).unwrap_or_default()
}

/// Whether this process sees all others: it is in the first PID namespace, which has a fixed name.
pub fn sees_all_processes() -> bool {
    std::fs::read_link("/proc/self/ns/pid").is_ok_and(|name| name.as_os_str() == "pid:[4026531836]")
}

/// A process's root folder as a path, for opening files below it later. It belongs to whichever process has the
/// number then.
pub fn root_of(pid: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/root"))
}

/// A process, by its open directory.
///
/// Each read is an error when the process has ended. Its memory, mappings, program, environment, namespaces and
/// descriptors ask for a debugger's rights.
#[derive(Debug)]
pub struct Process(Directory);

impl Process {
    /// Opens a process's directory; an error if there is no such process.
    pub fn open(pid: u32) -> Result<Self, Error> {
        Directory::open(&format!("/proc/{pid}"), pid).map(Self)
    }

    /// Opens this process's directory; an error if `/proc` is not mounted.
    pub fn own() -> Result<Self, Error> {
        Directory::open("/proc/self", std::process::id()).map(Self)
    }

    /// The process's number.
    pub fn pid(&self) -> u32 {
        self.0.pid
    }

    /// The mappings, in address order. A process that has ended and was not waited for has none, nor has a kernel
    /// thread. The kernel writes some 4 kB at a time: a mapping that changes meanwhile may be missing, or be there
    /// twice in parts.
    pub fn mappings(&self) -> Result<Vec<Mapping>, Error> {
        Mapping::parse_all(&self.0.read("maps")?).map_err(|line| self.0.malformed("maps", line))
    }

    /// The file mapped at these addresses, which must be a whole mapping, also if its path is gone or belongs to
    /// another mount namespace.
    ///
    /// # Errors
    /// When the mapping is gone, or rights are lacking (CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE).
    pub fn mapped_file(&self, addresses: &Range<u64>) -> Result<File, Error> {
        self.0.file(&mapping::name_in_map_files(addresses))
    }

    /// The memory, for reading.
    pub fn memory(&self) -> Result<Memory, Error> {
        Ok(Memory::of(self.pid(), self.0.file("mem")?))
    }

    /// The memory, for reading without another process's help.
    pub fn present_memory(&self) -> Result<PresentMemory, Error> {
        Ok(PresentMemory::of(self.memory()?, self.0.file("pagemap")?))
    }

    /// The memory, for reading and writing.
    pub fn writable_memory(&self) -> Result<Memory, Error> {
        Ok(Memory::of(self.pid(), self.0.writable_file("mem")?))
    }

    /// The program's file; an error for a kernel thread.
    pub fn exe(&self) -> Result<File, Error> {
        self.0.file("exe")
    }

    /// The program's path in the process's view, with ` (deleted)` behind it if no path leads there.
    pub fn program(&self) -> Result<PathBuf, Error> {
        self.0.link("exe")
    }

    /// The file at an absolute path in the process's view: in a container, or after `chroot`, another than here.
    ///
    /// # Errors
    /// When the process sees no such file, or rights are lacking, or the kernel is older than 5.6.
    pub fn seen(&self, path: &Path) -> Result<SeenFile, Error> {
        seen::inside(&self.0, path)
    }

    /// The main thread's name.
    pub fn comm(&self) -> Result<Vec<u8>, Error> {
        self.0.comm()
    }

    /// The process's numbers: its start, the times that it used.
    pub fn stat(&self) -> Result<Stat, Error> {
        Stat::parse(&self.0.read("stat")?).ok_or_else(|| self.0.malformed("stat", 1))
    }

    /// The main thread's named values.
    pub fn status(&self) -> Result<Status, Error> {
        self.0.read("status").map(Status::new)
    }

    /// The paths of its cgroups, a path for each hierarchy.
    pub fn cgroups(&self) -> Result<Vec<Vec<u8>>, Error> {
        Ok(cgroup_paths(&self.0.read("cgroup")?).map(<[u8]>::to_vec).collect())
    }

    /// The command line, each word with a zero byte behind it; empty for a kernel thread.
    pub fn command_line(&self) -> Result<Vec<u8>, Error> {
        self.0.read("cmdline")
    }

    /// The script's name, if the program is an interpreter: [`script`].
    pub fn script(&self) -> Result<Option<Box<[u8]>>, Error> {
        let program = self.program()?;
        let name = program.file_name().map(OsStr::as_bytes).unwrap_or_default();
        // Most programs run none: their words, which take longer to read than the rest, are not read.
        if !script::may_run_scripts(name) {
            return Ok(None);
        }
        Ok(script(name, &self.command_line()?))
    }

    /// The environment with which the program was started. An entry without `=` is left out.
    pub fn environment(&self) -> Result<Vec<(OsString, OsString)>, Error> {
        let text = self.0.read("environ")?;
        let pairs = text.split(|&byte| byte == 0).filter_map(|pair| {
            let at = pair.iter().position(|&byte| byte == b'=')?;
            Some((OsStr::from_bytes(&pair[..at]).into(), OsStr::from_bytes(&pair[at + 1..]).into()))
        });
        Ok(pairs.collect())
    }

    /// A value in the auxiliary vector with which a 64-bit program was started (`AT_HWCAP2` and the like).
    pub fn auxiliary(&self, kind: u64) -> Result<Option<u64>, Error> {
        let text = self.0.read("auxv")?;
        let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
        let found = text.chunks_exact(16).find(|pair| word(&pair[..8]) == kind);
        Ok(found.map(|pair| word(&pair[8..])))
    }

    /// The namespace of this kind, such as `net`: an open file whose inode number identifies it.
    pub fn namespace(&self, kind: &str) -> Result<File, Error> {
        self.0.file(&format!("ns/{kind}"))
    }

    /// The kernel's descriptions of the open descriptors. Descriptors closed meanwhile are left out.
    pub fn descriptors(&self) -> Result<Vec<Vec<u8>>, Error> {
        let numbers = self.0.numbers("fdinfo")?;
        Ok(numbers.iter().filter_map(|number| self.0.read(&format!("fdinfo/{number}")).ok()).collect())
    }

    /// The number of open descriptors.
    pub fn descriptor_count(&self) -> Result<usize, Error> {
        Ok(self.0.numbers("fd")?.len())
    }

    /// The descriptors in a set for epoll.
    pub fn epoll_set(&self, set: u32) -> Result<Vec<EpollMember>, Error> {
        Ok(opened::epoll_members(&self.0.read(&format!("fdinfo/{set}"))?))
    }

    /// Its open pipes and sockets, with `named` also FIFOs. Descriptors closed meanwhile are left out, and the rest after `is_enough`.
    pub fn opened(&self, named: bool, is_enough: &dyn Fn() -> bool) -> Result<Vec<Opened>, Error> {
        opened::opened(&self.0, named, is_enough)
    }

    /// The pipe, FIFO or socket behind a descriptor; `None` if it is something else, or closed.
    pub fn object(&self, descriptor: u32) -> Option<OpenedObject> {
        opened::object(&self.0, descriptor)
    }

    /// Whether it answers for a file system in user space (FUSE).
    pub fn serves_files(&self, is_enough: &dyn Fn() -> bool) -> Result<bool, Error> {
        opened::serves_files(&self.0, is_enough)
    }

    /// Whether it has a lock on this file, named as in the kernel's list: `00:13:11691`.
    pub fn has_lock(&self, file: &str, is_enough: &dyn Fn() -> bool) -> Result<bool, Error> {
        opened::has_lock(&self.0, file, is_enough)
    }

    /// Whether its own timers may end a wait: it has a timer, or handles timer signals.
    pub fn has_timers(&self) -> Result<bool, Error> {
        // SIGALRM, SIGVTALRM, SIGPROF: a bit each, from bit 0 for signal 1.
        const TIMER_SIGNALS: u64 = 1 << 13 | 1 << 25 | 1 << 26;
        let status = Status::new(self.0.read("status")?);
        let handled = status.field("SigCgt").and_then(|mask| text::number(mask, 16)).unwrap_or(TIMER_SIGNALS);
        Ok(handled & TIMER_SIGNALS != 0 || !self.0.read("timers")?.is_empty())
    }

    /// Its threads' living children; empty where the kernel does not list them.
    pub fn children(&self) -> Vec<u32> {
        let tasks = self.tasks().unwrap_or_default().into_iter();
        let texts = tasks.filter_map(|tid| self.0.read(&format!("task/{tid}/children")).ok());
        let numbers = texts.flat_map(|text| {
            let words = text.split(|&byte| byte == b' ').map(<[u8]>::to_vec).collect::<Vec<_>>();
            words.into_iter().filter_map(|word| u32::try_from(text::number(&word, 10)?).ok())
        });
        numbers.collect()
    }

    /// Whether a descriptor reads and writes; `None` if its text has no flags.
    pub fn access(&self, descriptor: u32) -> Result<Option<Access>, Error> {
        Ok(opened::access(&self.0.read(&format!("fdinfo/{descriptor}"))?))
    }

    /// The kernel's tables with the TCP sockets in its network namespace, as text: for IPv4, and for IPv6.
    pub fn tcp_sockets(&self) -> [Result<Vec<u8>, Error>; 2] {
        ["net/tcp", "net/tcp6"].map(|name| self.0.read(name))
    }

    /// The threads, by their numbers.
    pub fn tasks(&self) -> Result<Vec<u32>, Error> {
        self.0.numbers("task")
    }

    /// A thread in the process; an error if it has none with this number.
    pub fn task(&self, tid: u32) -> Result<Task, Error> {
        self.0.directory(&format!("task/{tid}")).map(Task)
    }
}

/// A thread of a process, by its open directory. Each read is an error when the thread has ended.
#[derive(Debug)]
pub struct Task(Directory);

impl Task {
    /// The thread's name.
    pub fn comm(&self) -> Result<Vec<u8>, Error> {
        self.0.comm()
    }

    /// The thread's named values.
    pub fn status(&self) -> Result<Status, Error> {
        self.0.read("status").map(Status::new)
    }

    /// The thread's current system call: its number and arguments as text, or `running`.
    pub fn system_call(&self) -> Result<String, Error> {
        let text = self.0.read("syscall")?;
        String::from_utf8(text).map_err(|_| self.0.malformed("syscall", 1))
    }

    /// The kernel's functions in which the thread is blocked, innermost first. Root alone sees them.
    pub fn kernel_stack(&self) -> Result<Vec<String>, Error> {
        // `[<0>] wait_for_partner+0x5c/0x100`
        let text = String::from_utf8_lossy(&self.0.read("stack")?).into_owned();
        let names = text.lines().filter_map(|line| line.split_whitespace().nth(1)?.split('+').next());
        Ok(names.map(str::to_owned).collect())
    }
}
