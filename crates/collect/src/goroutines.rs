//! Probes on the schedulers of Go programs: `bpf/goroutine.bpf.c`.

use std::collections::HashSet;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use libbpf_rs::{Link, MapCore, MapFlags, Object};
use wakepath_functions::{GoOffsets, GoProgram, GoSite, go_program, is_go_program};

use crate::child::program_of;
use crate::error::Error;
use crate::libbpf::load_error;
use crate::options::{Goroutines, Options};
use crate::probes::attach_one;

/// The BPF programs.
pub(crate) const PROGRAMS: [&str; 6] = ["go_park", "go_ready", "go_run", "go_yield", "go_end", "go_span"];

/// The number of programs that are probed at most, the first ones found: `go_programs` of `bpf/goroutine.bpf.c` has as many places.
const MAX_PROGRAMS: usize = 256;

/// A Go program, and its file: the process that led there may end.
pub(crate) struct GoFile {
    path: PathBuf,
    file: File,
    program: GoProgram,
}

/// A Go program whose goroutines are not seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoRefused {
    /// The path of its file.
    pub path: PathBuf,
    /// Why.
    pub why: String,
}

/// The Go programs among the command and the processes that run now.
#[derive(Default)]
pub struct GoFound {
    pub(crate) probed: Vec<GoFile>,
    refused: Vec<GoRefused>,
    left_alone: Vec<PathBuf>,
}

impl GoFound {
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
/// explained.
pub fn find_go(options: &Options, is_asked: impl Fn(u32) -> bool) -> GoFound {
    let mut found = GoFound::default();
    if options.goroutines == Goroutines::None {
        return found;
    }
    let identity = options.caller.as_ref().filter(|_| !options.as_root);
    let command = program_of(&options.command, identity);
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_asked = |pid| options.targets.contains(&pid) || is_asked(pid);
    let mut processes: Vec<_> = processes.map(|pid| (!is_asked(pid), pid)).collect();
    // Those that are asked about first: a file is looked at once.
    processes.sort_unstable();
    let files = processes.iter().map(|(others, pid)| (!others, PathBuf::from(format!("/proc/{pid}/exe"))));
    let mut seen = HashSet::new();
    for (asked, path) in command.into_iter().map(|path| (true, path)).chain(files) {
        // A process may have ended, and one of the kernel has no file.
        let Ok(file) = File::open(&path) else { continue };
        let Ok(metadata) = file.metadata() else { continue };
        if !metadata.is_file() || !seen.insert((metadata.dev(), metadata.ino())) {
            continue;
        }
        // A link of `/proc` says nothing later.
        let path = path.read_link().unwrap_or(path);
        let by_descriptor = by_descriptor(&file);
        if !asked && options.goroutines == Goroutines::Asked {
            if is_go_program(&by_descriptor) {
                found.left_alone.push(path);
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
    found
}

/// A path to an open file that stays when its name goes.
fn by_descriptor(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// The names of the reasons for which goroutines wait, by `program << 8 | reason`.
pub(crate) fn reasons(go: &[GoFile]) -> impl Iterator<Item = (u64, &str)> {
    (0..).zip(go).flat_map(|(number, GoFile { program, .. })| {
        let named = (0..).zip(&program.reasons).filter(|(_, name)| !name.is_empty());
        named.map(move |(reason, name)| (number << 8 | reason, name.as_str()))
    })
}

/// Attaches the BPF programs to all places in these programs, in whichever process has the file mapped. Where the kernel
/// refuses one, the program is left alone, and it is said.
pub(crate) fn attach(
    object: &Object,
    programs: &impl MapCore,
    go: &[GoFile],
) -> Result<(Vec<Link>, Vec<GoRefused>), Error> {
    let (mut links, mut refused) = (Vec::new(), Vec::new());
    for (number, GoFile { path, file, program }) in (0_u32..).zip(go) {
        let GoOffsets { goid, m, curg, birth } = program.offsets;
        let birth = birth.map_or([0; 3], |birth| [birth.parent, birth.start_pc, birth.pc]);
        let words = [goid, m, curg].into_iter().chain(birth);
        let value: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
        programs.update(&number.to_ne_bytes(), &value, MapFlags::ANY).map_err(load_error)?;
        let file = by_descriptor(file);
        let of_site =
            |&(site, offset)| attach_one(object, bpf_program(site), -1, number.into(), (&file, offset));
        match program.sites.iter().map(of_site).collect::<Result<Vec<_>, _>>() {
            Ok(all) => links.extend(all),
            Err(error) => refused.push(GoRefused { path: path.clone(), why: error.to_string() }),
        }
    }
    Ok((links, refused))
}

fn bpf_program(site: GoSite) -> &'static str {
    match site {
        GoSite::Park => "go_park",
        GoSite::Ready => "go_ready",
        GoSite::Run => "go_run",
        GoSite::Yield => "go_yield",
        GoSite::End => "go_end",
        GoSite::Span => "go_span",
    }
}
