//! The recorders: each is a whole tool, started and stopped as a user would.

mod floor;
pub mod ftrace;
pub mod perf;
pub mod wakepath;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Recorders by name, in table order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Name {
    /// Empty BPF programs on the same tracepoints.
    Floor,
    /// `wakepath record`.
    Wakepath,
    /// ftrace, with a reader for each CPU.
    Ftrace,
    /// `perf record`.
    Perf,
}

/// A recorder of system events.
pub trait Recorder {
    /// For people.
    fn name(&self) -> String;
    /// The command line, so that a reader can run it again.
    fn command(&self) -> String;
    /// Begins, and returns once events are being recorded.
    fn start(&mut self) -> Result<Box<dyn Recording>>;
}

/// A recording under way.
pub trait Recording {
    /// CPU time used so far to fetch and write events, outside the load.
    fn consumer_cpu(&mut self) -> Result<Duration>;
    /// Ends it, counts its events, and removes it.
    fn stop(self: Box<Self>) -> Result<Recorded>;
}

/// A recording's result. `None` is unknown, or does not exist for this recorder.
#[derive(Debug, Clone, Copy, Default)]
pub struct Recorded {
    /// Events.
    pub events: Option<u64>,
    /// Events known to be lost.
    pub lost: Option<u64>,
    /// Bytes written.
    pub bytes: Option<u64>,
    /// The stacks at waits and wake-ups.
    pub stacks: Option<Stacks>,
}

/// Stacks that were read or repeated.
#[derive(Debug, Clone, Copy)]
pub struct Stacks {
    /// Read.
    pub taken: u64,
    /// Assumed to be the same as before.
    pub repeated: u64,
    /// The time to read the stacks in `taken`, ns.
    pub taken_ns: u64,
}

/// The chosen recorders; all by default.
pub fn chosen(names: &[Name], program: &Path, output: &Path) -> Vec<Box<dyn Recorder>> {
    let every = [Name::Floor, Name::Wakepath, Name::Ftrace, Name::Perf];
    let names = if names.is_empty() { &every[..] } else { names };
    let mut recorders: Vec<Box<dyn Recorder>> = Vec::new();
    for name in names {
        match name {
            Name::Floor => recorders.push(Box::new(floor::Floor)),
            Name::Wakepath => recorders.extend(wakepath::rows(program, output)),
            Name::Ftrace => recorders.push(Box::new(ftrace::Ftrace::new(output))),
            Name::Perf => recorders.push(Box::new(perf::Perf::new(output))),
        }
    }
    recorders
}

/// A build's `wakepath record -a`, with default options.
pub fn by_default(program: &Path, output: &Path) -> Box<dyn Recorder> {
    wakepath::by_default(program, output)
}

/// A build's `wakepath record -a` with these options.
pub fn with(options: &'static [&'static str], program: &Path, output: &Path) -> Box<dyn Recorder> {
    wakepath::with("wakepath", options, program, output)
}

/// The time for the rest of a recorder's start after it seems ready.
pub const AFTER_READY: Duration = Duration::from_millis(200);

/// A start that takes longer has failed.
const MAX_START: Duration = Duration::from_secs(20);

/// Starts the recorder called `name`, and returns soon after `is_ready` returns true for its process.
fn started(command: &mut Command, name: &str, is_ready: impl Fn(u32) -> bool) -> Result<Child> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let program = command.get_program().to_owned();
    let mut child = command.spawn().with_context(|| format!("cannot run {}", program.display()))?;
    let end = Instant::now() + MAX_START;
    while !is_ready(child.id()) {
        if child.try_wait()?.is_some() {
            break;
        }
        if Instant::now() > end {
            child.kill()?;
            child.wait()?;
            bail!("{name} did not begin to record within {} s", MAX_START.as_secs());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(AFTER_READY);
    if child.try_wait()?.is_some() {
        let output = child.wait_with_output()?;
        bail!("{name} ended at once: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(child)
}
