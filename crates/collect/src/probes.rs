//! Probes on user functions: `bpf/function.bpf.h`.

use std::path::{Path, PathBuf};

use libbpf_rs::{Link, MapCore, MapFlags, Object, UprobeOpts};

use crate::Error;
use crate::latency::Entry;
use crate::programs::into_io;

/// Where a function begins and is left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// The file that is mapped.
    pub file: PathBuf,
    /// Where in the file the probe of its entry is, bytes.
    pub offset: u64,
    /// What the kernel does there.
    pub entry: Entry,
    /// How it is seen to return.
    pub returns: Returns,
    /// It is one of Go's: calls are told apart by goroutine.
    pub go: bool,
}

/// How a function is seen to return.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Returns {
    /// By the return address, which a probe replaces.
    Probe,
    /// At its return instructions, at these bytes of the file.
    At(Vec<u64>),
    /// Never.
    Never,
}

/// In a probe's cookie, beside the target: `WP_GO` of `bpf/latency.h`.
const GO: u64 = 1 << 32;
/// `WP_NEVER`.
const NEVER: u64 = 1 << 33;

/// Attaches the programs of `object` to all places of one target: into one process where only one is asked
/// about, so that others pay nothing for it; else into all that have the files mapped.
pub(crate) fn attach(
    object: &Object,
    target: usize,
    probes: &[Probe],
    processes: &[u32],
) -> Result<Vec<Link>, Error> {
    let pid = match processes {
        &[only] => only as i32,
        _ => -1,
    };
    let mut links = Vec::new();
    for probe in probes {
        // Returns first: one without its entry is left alone, an entry without its return is not.
        let leaves = match &probe.returns {
            Returns::Probe => vec![("function_return", probe.offset)],
            Returns::At(places) => places.iter().map(|&place| ("function_leave", place)).collect(),
            Returns::Never => Vec::new(),
        };
        let never = if probe.returns == Returns::Never { NEVER } else { 0 };
        let cookie = target as u64 | never | if probe.go { GO } else { 0 };
        for (name, offset) in leaves.into_iter().chain([("function_enter", probe.offset)]) {
            let program = object.progs_mut().find(|found| found.name() == name);
            let program = program.ok_or(Error::Skeleton("no program for functions"))?;
            let opts = UprobeOpts { cookie, retprobe: name == "function_return", ..UprobeOpts::default() };
            let link = program.attach_uprobe_with_opts(pid, &probe.file, offset as usize, opts);
            let failed = |source| Error::Probe { file: probe.file.clone(), offset, source: into_io(source) };
            links.push(link.map_err(failed)?);
        }
    }
    Ok(links)
}

/// Attaches one program at a byte of a file, in one process, or in all that have the file mapped: -1.
pub(crate) fn attach_one(
    object: &Object,
    program: &str,
    pid: i32,
    cookie: u64,
    (file, offset): (&Path, u64),
) -> Result<Link, Error> {
    let retprobe = program == "function_return";
    let program = object.progs_mut().find(|found| found.name() == program);
    let program = program.ok_or(Error::Skeleton("no program for functions"))?;
    let opts = UprobeOpts { cookie, retprobe, ..UprobeOpts::default() };
    let link = program.attach_uprobe_with_opts(pid, file, offset as usize, opts);
    link.map_err(|source| Error::Probe { file: file.to_owned(), offset, source: into_io(source) })
}

/// A call that has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpenCall {
    pub target: u32,
    /// A thread, or a goroutine.
    pub whose: u64,
    /// When it began, ns.
    pub from: u64,
}

/// What `open_functions` holds: `struct open_calls` by `struct begun_key`.
pub(crate) fn open_calls(map: &impl MapCore) -> Vec<OpenCall> {
    let word = |bytes: &[u8], at: usize| {
        bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u64::from_ne_bytes(*word))
    };
    let mut open = Vec::new();
    for key in map.keys() {
        let Ok(Some(value)) = map.lookup(&key, MapFlags::ANY) else { continue };
        let depth = word(&value, 0).min(value.len() as u64 / 16);
        open.extend((0..depth as usize).map(|call| OpenCall {
            target: word(&key, 8) as u32,
            whose: word(&key, 0),
            from: word(&value, 8 + 16 * call),
        }));
    }
    open
}
