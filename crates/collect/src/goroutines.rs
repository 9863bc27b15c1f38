//! Probes on the schedulers of Go programs: `bpf/goroutine.bpf.c`.

mod probes;
mod started;

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use wakepath_clock::{Local, Stamp};
use wakepath_functions::{GoProgram, GoSite, go_program, is_go_program};

use crate::child::program_of;
use crate::clocks;
use crate::options::{Goroutines, Options};

pub(crate) use probes::{GoProbes, Way};
pub use started::GoStarted;
pub(crate) use started::{GoWatch, Started};

/// The BPF programs, by the step that each sees.
const PROGRAMS: [(GoSite, &str); 6] = [
    (GoSite::Park, "go_park"),
    (GoSite::Ready, "go_ready"),
    (GoSite::Run, "go_run"),
    (GoSite::Yield, "go_yield"),
    (GoSite::End, "go_end"),
    (GoSite::Span, "go_span"),
];

/// Whether this is the name of one of the BPF programs.
pub(crate) fn is_program(name: &str) -> bool {
    PROGRAMS.iter().any(|(_, one)| *one == name)
}

/// The number of programs that are probed at most, the first ones found: `go_programs` of `bpf/goroutine.bpf.c` has as many places.
const MAX_PROGRAMS: usize = 256;

/// A Go program, and its file: the process that led there may end.
pub(crate) struct GoFile {
    path: PathBuf,
    file: File,
    program: GoProgram,
}

impl GoFile {
    /// The same, whose goroutines are not seen.
    pub(crate) fn refused(&self, why: &impl ToString) -> GoRefused {
        GoRefused { path: self.path.clone(), why: why.to_string() }
    }
}

/// A Go program whose goroutines are not seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoRefused {
    /// The path of its file.
    pub path: PathBuf,
    /// Why.
    pub why: String,
}

/// Says of a process, by its number, whether it is to be explained.
pub type IsAsked = Box<dyn Fn(u32) -> bool + Send>;

/// The Go programs among the command and the processes that run now.
#[derive(Default)]
pub struct GoFound {
    pub(crate) probed: Vec<GoFile>,
    refused: Vec<GoRefused>,
    left_alone: Vec<PathBuf>,
    /// Those that start later; `None` where no goroutines are recorded.
    pub(crate) later: Option<Later>,
}

/// The question about Go programs that start later.
pub(crate) struct Later {
    /// All of them are to be recorded.
    all: bool,
    /// Those that the command starts.
    of_command: bool,
    /// Those that these processes start, and their own.
    of: Vec<u32>,
    /// Those of further processes.
    is_asked: Option<IsAsked>,
    /// When this was asked.
    since: Stamp<Local>,
    /// The files that were looked at.
    seen: HashMap<FileId, Seen>,
}

/// A file: its device and its inode.
type FileId = (u64, u64);

/// A file that was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// A Go program that nobody asked about so far.
    LeftAlone,
    /// Another program, one whose goroutines are recorded, or one whose cannot be.
    Settled,
}

impl GoFound {
    /// Whether goroutines are recorded, or may be of programs that start later.
    pub(crate) fn may_be_recorded(&self) -> bool {
        let is_asked =
            |later: &Later| later.all || later.of_command || !later.of.is_empty() || later.is_asked.is_some();
        !self.probed.is_empty() || self.later.as_ref().is_some_and(is_asked)
    }

    /// The files of those whose goroutines are recorded: in all processes that run them.
    pub fn probed(&self) -> impl Iterator<Item = &Path> {
        self.probed.iter().map(|file| file.path.as_path())
    }

    /// Those that were to be recorded and cannot be.
    pub fn refused(&self) -> &[GoRefused] {
        &self.refused
    }

    /// The files of those that run and are not recorded, since only others are asked about.
    pub fn left_alone(&self) -> &[PathBuf] {
        &self.left_alone
    }
}

/// Looks for the Go programs of a recording with these options. `is_asked` says of further processes whether they are to be
/// explained; where there is a command, its number is not known yet.
pub fn find_go(options: &Options, further: Option<IsAsked>) -> GoFound {
    let mut found = GoFound::default();
    if options.goroutines == Goroutines::None {
        return found;
    }
    let identity = options.caller.as_ref().filter(|_| !options.as_root);
    let command = program_of(&options.command, identity);
    let since = clocks::now();
    let is_asked =
        |pid| options.targets.contains(&pid) || further.as_ref().is_some_and(|is_asked| is_asked(pid));
    let mut processes: Vec<_> = processes().map(|pid| (!is_asked(pid), pid)).collect();
    // Those that are asked about first: a file is looked at once.
    processes.sort_unstable();
    let files = processes.iter().map(|(others, pid)| (!others, PathBuf::from(format!("/proc/{pid}/exe"))));
    let mut seen = HashMap::new();
    for (asked, path) in command.into_iter().map(|path| (true, path)).chain(files) {
        // A process may have ended, and one of the kernel has no file.
        let Ok(file) = File::open(&path) else { continue };
        let Ok(metadata) = file.metadata() else { continue };
        let id = (metadata.dev(), metadata.ino());
        if !metadata.is_file() || seen.insert(id, Seen::Settled).is_some() {
            continue;
        }
        // A link of `/proc` says nothing later.
        let path = path.read_link().unwrap_or(path);
        let by_descriptor = by_descriptor(&file);
        if !asked && options.goroutines == Goroutines::Asked {
            if is_go_program(&by_descriptor) {
                found.left_alone.push(path);
                seen.insert(id, Seen::LeftAlone);
            }
            continue;
        }
        match go_program(&by_descriptor) {
            Ok(Some(Ok(program))) if found.probed.len() < MAX_PROGRAMS => {
                found.probed.push(GoFile { path, file, program });
            }
            Ok(Some(Ok(_))) => {
                found.refused.push(GoRefused { path, why: String::from("too many Go programs run") });
            }
            Ok(Some(Err(fault))) => found.refused.push(GoRefused { path, why: fault.to_string() }),
            Ok(None) | Err(_) => {}
        }
    }
    found.later = Some(Later {
        all: options.goroutines == Goroutines::All,
        of_command: !options.command.is_empty(),
        of: options.targets.clone(),
        is_asked: further,
        since,
        seen,
    });
    found
}

/// The processes that run now.
fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// A path to an open file that stays when its name goes.
fn by_descriptor(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// The names of the reasons for which the goroutines of these programs wait, by `program << 8 | reason`.
pub(crate) fn all_reasons(go: &[GoFile]) -> impl Iterator<Item = (u64, String)> {
    (0..).zip(go).flat_map(|(number, go)| reasons(number, go.program.reasons.clone()))
}

/// The names of the reasons for which the goroutines of the program with this number wait, with the same keys.
fn reasons(number: u32, names: Vec<String>) -> impl Iterator<Item = (u64, String)> {
    let named = (0..).zip(names).filter(|(_, name)| !name.is_empty());
    named.map(move |(reason, name)| (u64::from(number) << 8 | reason, name))
}
