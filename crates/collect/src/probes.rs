//! Probes on user functions: `bpf/function.bpf.h`.

use std::path::Path;

use libbpf_rs::{Link, MapCore, MapFlags, Object, UprobeOpts};
use wakepath_functions::{Probe, Return, Runtime};

use crate::error::Error;
use crate::libbpf::{into_io, load_error, program_mut, word};

/// `WP_GO` of `bpf/function.bpf.h`: a flag in a probe's cookie, beside the target.
pub(crate) const GO: u64 = 1 << 32;
/// `WP_SWITCHES`.
const SWITCHES: u64 = 1 << 34;
/// `WP_CALLERS`.
const CALLERS: u64 = 1 << 35;
/// `WP_NEVER`.
pub(crate) const NEVER: u64 = 1 << 33;

/// Attaches `object`'s programs to all places of a target, in whichever process has the file mapped: the kernel
/// removes a probe for a single process from the processes that it forks, which are targets too.
pub(crate) fn attach(
    object: &Object,
    target: usize,
    probe: &Probe,
    pid: Option<u32>,
) -> Result<Vec<Link>, Error> {
    // Returns first: a return without its entry is ignored, an entry without its return is not.
    let leaves = match &probe.returns {
        Return::ReturnProbe => vec![("function_return", probe.offset)],
        Return::AtInstructions(places) => places.iter().map(|&place| ("function_leave", place)).collect(),
        // Places come as their calls come.
        Return::AtCallers | Return::Never => Vec::new(),
    };
    let cookie = cookie(target, probe);
    let places = leaves.into_iter().chain([("function_enter", probe.offset)]);
    let pid = pid.map_or(-1, |pid| pid as i32);
    places.map(|(program, offset)| attach_one(object, program, pid, cookie, (&probe.file, offset))).collect()
}

/// The cookie of a target's probes.
pub(crate) fn cookie(target: usize, probe: &Probe) -> u64 {
    let flag = |flag: u64, set: bool| if set { flag } else { 0 };
    target as u64
        | flag(NEVER, probe.returns == Return::Never)
        | flag(GO, probe.runtime == Runtime::Go)
        | flag(SWITCHES, probe.switches)
        | flag(CALLERS, probe.returns == Return::AtCallers)
}

/// Detaches programs in reverse order. The kernel takes tens of milliseconds for each probe: an entry seen meanwhile
/// without its return would look like an unwound call.
pub(crate) fn detach<L>(links: &mut Vec<L>) {
    while links.pop().is_some() {}
}

/// Attaches a program at a byte offset in a file, in one process, or (`pid` -1) in all that have the file mapped.
pub(crate) fn attach_one(
    object: &Object,
    program: &'static str,
    pid: i32,
    cookie: u64,
    (file, offset): (&Path, u64),
) -> Result<Link, Error> {
    let retprobe = program == "function_return";
    let program = program_mut(object, program)?;
    let opts = UprobeOpts { cookie, retprobe, ..UprobeOpts::default() };
    let link = program.attach_uprobe_with_opts(pid, file, offset as usize, opts);
    link.map_err(|source| Error::Probe { file: file.to_owned(), offset, source: into_io(source) })
}

/// Makes programs see the calls in a process and in those that it starts. The value in the map of `bpf/calls.bpf.h`
/// is a process's start time; 0 marks target processes.
pub(crate) fn follow(followed: &impl MapCore, pid: u32) -> Result<(), Error> {
    followed.update(&pid.to_ne_bytes(), &[0; 8], MapFlags::ANY).map_err(load_error)
}

/// A call without an end so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpenCall {
    pub target: u32,
    /// The thread; `None` for a goroutine, which stays in no thread for long.
    pub thread: Option<u32>,
    /// The call's beginning, ns.
    pub from: u64,
}

/// Bytes of `struct open_call`.
const OPEN_CALL: u64 = 24;

/// The calls in the map `open_functions`, which holds `struct open_calls` by `struct begun_key`.
pub(crate) fn open_calls(map: &impl MapCore) -> Vec<OpenCall> {
    let mut open = Vec::new();
    for key in map.keys() {
        let Ok(Some(value)) = map.lookup(&key, MapFlags::ANY) else { continue };
        let depth = word(&value, 0).min(value.len() as u64 / OPEN_CALL);
        // The upper half is a goroutine's process.
        let (target, process) = (word(&key, 8) as u32, word(&key, 8) >> 32);
        let place = |call: usize| 8 + OPEN_CALL as usize * call;
        // A kernel function's key is a task.
        let thread = |call: usize| {
            let thread = u32::try_from(word(&key, 0)).unwrap_or(word(&value, place(call) + 16) as u32);
            (process == 0).then_some(thread)
        };
        open.extend((0..depth as usize).map(|call| OpenCall {
            target,
            thread: thread(call),
            from: word(&value, place(call)),
        }));
    }
    open
}
