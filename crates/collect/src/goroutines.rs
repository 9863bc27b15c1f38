//! Probes on Go programs' schedulers: `bpf/goroutine.bpf.c`.

mod probes;
mod started;

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use wakepath_clock::{Local, Stamp};
use wakepath_event::NameSpace;
use wakepath_functions::{FileError, GoFault, GoProgram, GoSite, go_program, is_go_program};
use wakepath_process::{Process, processes};

use crate::child::program_of;
use crate::clocks;
use crate::names::Name;
use crate::options::{Goroutines, Options};

pub(crate) use probes::{GoProbes, Way, link, perf_link};
pub use started::GoStarted;
pub(crate) use started::{GoWatch, Started};

/// The BPF programs, each with the step that it sees.
const PROGRAMS: [(GoSite, &str); 6] = [
    (GoSite::Park, "go_park"),
    (GoSite::Ready, "go_ready"),
    (GoSite::Run, "go_run"),
    (GoSite::Yield, "go_yield"),
    (GoSite::End, "go_end"),
    (GoSite::Span, "go_span"),
];

/// Whether a BPF program has this name.
pub(crate) fn is_program(name: &str) -> bool {
    PROGRAMS.iter().any(|(_, one)| *one == name)
}

/// The most probed programs, the first ones found: `go_programs` of `bpf/goroutine.bpf.c` has as many places.
const MAX_PROGRAMS: usize = 256;

/// A Go program, and its open file: the process whose executable it was may end.
pub(crate) struct GoFile {
    path: PathBuf,
    file: File,
    program: GoProgram,
}

impl GoFile {
    /// The same program, as refused: its goroutines are not seen.
    pub(crate) fn refused(&self, why: &impl ToString) -> GoRefused {
        GoRefused { path: self.path.clone(), why: why.to_string() }
    }
}

/// A Go program whose goroutines are not seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoRefused {
    /// The path of the program's file.
    pub path: PathBuf,
    /// The reason.
    pub why: String,
}

/// Whether a process, by its number, is a target.
pub type IsAsked = Box<dyn Fn(u32) -> bool + Send>;

/// The Go programs among the command and the running processes.
#[derive(Default)]
pub struct GoFound {
    pub(crate) probed: Vec<GoFile>,
    refused: Vec<GoRefused>,
    left_alone: Vec<PathBuf>,
    /// The question about programs that start later; `None` where no goroutines are recorded.
    pub(crate) later: Option<Later>,
}

/// The question about Go programs that start later.
pub(crate) struct Later {
    /// The programs and places that get probes.
    goroutines: Goroutines,
    /// The command's programs are recorded.
    of_command: bool,
    /// These processes' programs are recorded, with those that they start.
    of: Vec<u32>,
    /// Further target processes.
    is_asked: Option<IsAsked>,
    /// The time of the question.
    since: Stamp<Local>,
    /// The files looked at so far.
    seen: HashMap<FileId, Seen>,
}

/// A file: device and inode.
type FileId = (u64, u64);

/// A file's state after a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// A Go program outside the question so far.
    LeftAlone,
    /// Not a Go program, or probed, or refused.
    Settled,
}

impl GoFound {
    /// Whether goroutines are recorded, or may be in programs that start later.
    pub(crate) fn may_be_recorded(&self) -> bool {
        let is_asked = |later: &Later| {
            later.goroutines.is_for_all()
                || later.of_command
                || !later.of.is_empty()
                || later.is_asked.is_some()
        };
        !self.probed.is_empty() || self.later.as_ref().is_some_and(is_asked)
    }

    /// The files of programs with recorded goroutines; all processes that run them are recorded.
    pub fn probed(&self) -> impl Iterator<Item = &Path> {
        self.probed.iter().map(|file| file.path.as_path())
    }

    /// Programs that should be recorded and cannot be.
    pub fn refused(&self) -> &[GoRefused] {
        &self.refused
    }

    /// The files of running programs left out, since the question is about others.
    pub fn left_alone(&self) -> &[PathBuf] {
        &self.left_alone
    }
}

/// Looks for the Go programs to record with these options. `further` marks further target processes; a command's
/// process number is not known yet.
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
    let mut processes: Vec<_> = processes().into_iter().map(|pid| (!is_asked(pid), pid)).collect();
    // Target processes first: a file is looked at only once.
    processes.sort_unstable();
    // A process may have ended, and kernel threads have no file.
    let files = processes.iter().filter_map(|(others, pid)| {
        let exe = Process::open(*pid).and_then(|process| process.exe()).ok()?;
        Some((!others, exe))
    });
    let command = command.and_then(|path| File::open(path).ok()).map(|file| (true, file));
    let mut seen = HashMap::new();
    for (asked, file) in command.into_iter().chain(files) {
        let Ok(metadata) = file.metadata() else { continue };
        let id = (metadata.dev(), metadata.ino());
        if !metadata.is_file() || seen.insert(id, Seen::Settled).is_some() {
            continue;
        }
        let by_descriptor = by_descriptor(&file);
        // The process's link may be gone later; our descriptor's link stays.
        let path = by_descriptor.read_link().unwrap_or_else(|_| by_descriptor.clone());
        if !asked && options.goroutines == Goroutines::Asked {
            if is_go_program(&by_descriptor) {
                found.left_alone.push(path);
                seen.insert(id, Seen::LeftAlone);
            }
            continue;
        }
        match probed_program(&by_descriptor, options.goroutines) {
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
        goroutines: options.goroutines,
        of_command: !options.command.is_empty(),
        of: options.targets.clone(),
        is_asked: further,
        since,
        seen,
    });
    found
}

/// A program with the places for probes: `None` where Go did not make it, or where it lacks these places.
fn probed_program(
    path: &Path,
    goroutines: Goroutines,
) -> Result<Option<Result<GoProgram, GoFault>>, FileError> {
    let mut found = go_program(path)?;
    if goroutines == Goroutines::Spans
        && let Some(Ok(program)) = &mut found
    {
        program.sites.retain(|(site, _)| *site == GoSite::Span);
        if program.sites.is_empty() {
            return Ok(None);
        }
    }
    Ok(found)
}

/// A path to an open file that stays valid when its name goes.
fn by_descriptor(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// The names of the reasons for which these programs' goroutines park.
pub(crate) fn all_reasons(go: &[GoFile]) -> impl Iterator<Item = Name> {
    (0..).zip(go).flat_map(|(number, go)| reasons(number, go.program.reasons.clone()))
}

/// The names of the park reasons in the program with this number.
fn reasons(number: u32, names: Vec<String>) -> impl Iterator<Item = Name> {
    let named = (0..).zip(names).filter(|(_, name)| !name.is_empty());
    named.map(move |(reason, name)| {
        (NameSpace::GoWait, u64::from(number) << 8 | reason, name.into_bytes().into())
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fs::File;
    use std::mem::MaybeUninit;
    use std::os::unix::fs::FileExt;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use wakepath_functions::GoOffsets;
    use wakepath_kernel_records::{Header, Kind};

    use super::*;
    use crate::programs::Programs;

    std::arch::global_asm!(
        ".globl wakepath_test_step",
        "wakepath_test_step:",
        "push %rbp",
        "pop %rbp",
        "ret",
        options(att_syntax)
    );

    unsafe extern "C" {
        fn wakepath_test_step();
    }

    /// Behind any file's end: the kernel refuses a probe there.
    const NOWHERE: u64 = 1 << 40;

    /// The file offset of this program's stand-in for a scheduler function.
    fn place() -> u64 {
        let address = wakepath_test_step as *const () as u64;
        let mappings = Process::own().and_then(|own| own.mappings()).expect("its mappings");
        let place = mappings.iter().find_map(|mapping| mapping.offset_of(address)).expect("its code");
        let mut code = [0; 3];
        let file = File::open("/proc/self/exe").expect("its file");
        file.read_exact_at(&mut code, place).expect("its code");
        assert_eq!(code, [0x55, 0x5d, 0xc3]);
        place
    }

    /// For a running program whose places are being probed: the number of recorded steps, the number of steps made
    /// meanwhile, and whether it is reported as refused; `None` where nothing can be loaded.
    fn recorded(sites: Vec<(GoSite, u64)>) -> Option<(u64, u64, bool)> {
        let options = Options { goroutines: Goroutines::Asked, ..Options::default() };
        let mut storage = MaybeUninit::uninit();
        let mut programs = match Programs::load(&mut storage, &options, true, 64) {
            Ok(programs) => programs,
            Err(error) => {
                eprintln!(
                    "skipped: {error}; would show that steps of a program with a part of its probes are not recorded"
                );
                return None;
            }
        };
        let offsets = GoOffsets { goid: 8, m: 16, curg: 24, birth: None };
        let program = GoProgram { sites, offsets, reasons: Vec::new() };
        let path = PathBuf::from("/proc/self/exe");
        let file = File::open(&path).expect("its file");
        let go = GoFound { probed: vec![GoFile { path, file, program }], ..GoFound::default() };
        let (steps, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    // SAFETY: a function without arguments and without effect.
                    unsafe { wakepath_test_step() };
                    steps.fetch_add(1, Ordering::Relaxed);
                }
            });
            let attached = programs.attach(&options, &go);
            // A refused program's later steps count as well.
            let until = steps.load(Ordering::Relaxed) + 1000;
            while steps.load(Ordering::Relaxed) < until {
                std::thread::yield_now();
            }
            is_over.store(true, Ordering::Relaxed);
            attached
        })
        .expect("the programs that every recording needs");
        let seen = Cell::new(0);
        let of_this = |record: &[u8]| {
            let tgid = record.get(16..).and_then(<[u8]>::first_chunk).copied().map(u32::from_le_bytes);
            let kind = Header::read(record).and_then(|header| Kind::from_number(header.kind));
            if kind == Some(Kind::Goroutine) && tgid == Some(std::process::id()) {
                seen.set(seen.get() + 1);
            }
        };
        let life = programs.life(of_this).expect("the ring");
        life.consume().expect("its records");
        drop(life);
        Some((seen.get(), steps.load(Ordering::Relaxed), !programs.go_refused.is_empty()))
    }

    #[test]
    fn needs_root_no_step_is_recorded_of_a_program_on_which_the_kernel_refuses_one_of_the_probes() {
        let place = place();
        let all = [GoSite::Park, GoSite::Ready, GoSite::Run, GoSite::Yield, GoSite::End];
        let there: Vec<_> = all.into_iter().map(|site| (site, place)).collect();
        let Some((seen, steps, is_refused)) = recorded(there.clone()) else { return };
        assert!(seen >= 1000 && !is_refused, "with all probes its steps are seen: {seen} of {steps}");
        // The first five probes exist for a while, and the last is refused.
        let partly = [there, vec![(GoSite::Span, NOWHERE)]].concat();
        let (seen, steps, is_refused) = recorded(partly).expect("the programs that loaded before");
        assert!(is_refused && seen == 0, "{seen} of {steps}, refused: {is_refused}");
    }
}
