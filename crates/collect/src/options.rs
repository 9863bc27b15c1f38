//! The options for a recording session.

use std::ffi::OsString;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use wakepath_functions::Probe;

use crate::kernel_probes::KernelFunction;

/// The options for recording.
#[derive(Debug, Clone)]
pub struct Options {
    /// The size of each CPU's ring for switches and wake-ups, bytes; a power of two.
    pub sched_ring_bytes: usize,
    /// The size of each CPU's ring for packets, bytes; a power of two.
    pub net_ring_bytes: usize,
    /// The size of the ring buffer for all CPUs' rare records, bytes; a power of two and a multiple of the page size.
    pub life_bytes: usize,
    /// Record waiting threads' system calls, with their first argument and futex words.
    pub calls: bool,
    /// Samples of running threads' stacks on each CPU, per second; 0 for none.
    pub samples_per_second: u32,
    /// Stacks where threads begin to wait, and where they wake others.
    pub stacks: Stacks,
    /// The method for finding callers in stacks and samples.
    pub callers: Callers,
    /// User functions whose calls are recorded, with their names.
    pub functions: Vec<(String, Probe)>,
    /// These functions' single-stepped probes are removed above this share in all CPUs' time, from 0 to 1; `None`: never.
    pub budget: Option<f64>,
    /// The only process with probes at these functions; `None`: all processes with their files.
    pub only_in: Option<u32>,
    /// Kernel functions whose calls are recorded, with their names as targets.
    pub kernel_functions: Vec<(String, KernelFunction)>,
    /// The Go programs whose goroutines are recorded.
    pub goroutines: Goroutines,
    /// Attach each probe on a Go program by an event of its own, as before Linux 6.6, even where a single link can
    /// hold them all: to measure the difference.
    pub single_probes: bool,
    /// Record the call that failed before each sleep of a target's thread, and calls that fail again and again. Puts each thread of
    /// the machine on the kernel's slow path for system calls.
    pub failed_calls: bool,
    /// The attributes recorded beside the threads' spans.
    pub attributes: KeptAttributes,
    /// Measure the programs' cost before the recording begins: some 60 ms.
    pub calibrate: bool,
    /// The time after which recording stops.
    pub duration: Option<Duration>,
    /// The command to run, with its arguments; without a command, recording lasts until the duration ends or a signal
    /// comes.
    pub command: Vec<OsString>,
    /// A default variable for the command's environment.
    pub variable: Option<DefaultVariable>,
    /// The processes to explain.
    pub targets: Vec<u32>,
    /// The user who called sudo: the command runs as this user, and so does the recorder once it is attached.
    pub caller: Option<wakepath_caller::Caller>,
    /// Run the command as root nevertheless.
    pub as_root: bool,
    /// Record the command lines of the command and its descendants, where they are the asking user's own processes.
    pub arguments: bool,
}

/// The attributes to record, by name; by default none.
#[derive(Clone, Default)]
pub struct KeptAttributes(Option<AreKept>);

/// Whether an attribute with this name is kept.
type AreKept = Arc<dyn Fn(&str) -> bool + Send + Sync>;

impl KeptAttributes {
    /// The attributes with names for which `are_kept` is true.
    pub fn new(are_kept: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(are_kept)))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.as_ref().is_some_and(|are_kept| are_kept(name))
    }
}

impl fmt::Debug for KeptAttributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "KeptAttributes(by a list)" } else { "KeptAttributes(none)" })
    }
}

/// A variable for a command's environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefaultVariable {
    /// The variable's name.
    pub name: &'static str,
    /// The variable's value.
    pub value: String,
    /// The command does not get the variable if it has one with any of these names.
    pub unless: &'static [&'static str],
}

/// The Go programs with probes: each goroutine step, or each span's beginning, costs its thread a microsecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goroutines {
    /// None.
    None,
    /// The command, if it is a Go program itself, the Go programs among the target processes, and the programs these
    /// start.
    Asked,
    /// All Go programs, also later ones.
    All,
    /// In all Go programs, also later ones, only where spans begin: the steps come from the programs' own execution traces.
    Spans,
}

impl Goroutines {
    /// Whether programs are probed that nothing asked for by name.
    pub(crate) const fn is_for_all(self) -> bool {
        matches!(self, Self::All | Self::Spans)
    }
}

/// The stacks taken at switch-outs and wake-ups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stacks {
    /// None.
    None,
    /// All; a stack that looks as before is assumed to be the same, which is checked now and then.
    Remembered,
    /// All, each read anew, at many times the cost.
    Each,
}

/// The method for finding the callers above a stack's innermost function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Callers {
    /// By the files' unwinding tables. Where a table was not looked up yet, parts of the stack pass through memory.
    ByTables,
    /// By frame pointers, and by the words on the stack.
    ByFramePointers,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            sched_ring_bytes: 8 << 20,
            net_ring_bytes: 4 << 20,
            life_bytes: 8 << 20,
            calls: true,
            samples_per_second: 99,
            stacks: Stacks::None,
            callers: Callers::ByTables,
            functions: Vec::new(),
            budget: None,
            only_in: None,
            kernel_functions: Vec::new(),
            goroutines: Goroutines::None,
            single_probes: false,
            failed_calls: false,
            attributes: KeptAttributes::default(),
            calibrate: true,
            duration: None,
            command: Vec::new(),
            variable: None,
            targets: Vec::new(),
            caller: None,
            as_root: false,
            arguments: false,
        }
    }
}

impl Options {
    /// The sizes that [`Self::set_buffer`] accepts, bytes for each CPU.
    pub const BUFFER: std::ops::RangeInclusive<usize> = 16 << 10..=1 << 30;

    /// The sampling rates that leave the CPUs to their programs, per second. At 10,000, `record` in a guest said: threads ran 4 to 15% longer.
    /// At 100,000 the CPUs did nothing else, and no signal was obeyed.
    pub const SAMPLES: std::ops::RangeInclusive<u32> = 0..=10_000;

    /// Sets all buffers' sizes, given the size of each CPU's ring for switches and wake-ups, bytes. Returns this size
    /// rounded up to a power of two. The rings for packets get half of it; the ring buffer that all CPUs share gets
    /// as much.
    pub fn set_buffer(&mut self, bytes: usize) -> usize {
        let bytes = bytes.clamp(*Self::BUFFER.start(), *Self::BUFFER.end()).next_power_of_two();
        self.sched_ring_bytes = bytes;
        self.net_ring_bytes = bytes / 2;
        self.life_bytes = bytes;
        bytes
    }

    /// The user who asked: not root, if this user called sudo.
    pub(crate) fn user(&self) -> u32 {
        self.caller.as_ref().map_or_else(|| rustix::process::getuid().as_raw(), |caller| caller.uid)
    }

    /// Whether stacks are taken, at waits or in samples.
    pub(crate) fn takes_stacks(&self) -> bool {
        self.stacks != Stacks::None || self.samples_per_second > 0
    }

    /// Whether function calls and failed calls are recorded in all processes.
    pub(crate) fn everyone(&self) -> bool {
        self.targets.is_empty() && self.command.is_empty()
    }

    /// Whether the programs must know the targets' processes, and those that these start.
    pub(crate) fn follows(&self) -> bool {
        !self.everyone() && (self.records_functions() || self.failed_calls)
    }

    /// Whether any function calls are recorded.
    pub(crate) fn records_functions(&self) -> bool {
        !self.functions.is_empty() || !self.kernel_functions.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_powers_of_two_and_no_less_than_was_asked_for() {
        for (asked, given) in [(0, 16 << 10), (16 << 10, 16 << 10), (100_000, 128 << 10), (3 << 20, 4 << 20)]
        {
            let mut options = Options::default();
            assert_eq!(options.set_buffer(asked), given);
            assert_eq!((options.sched_ring_bytes, options.net_ring_bytes), (given, given / 2));
            assert!(options.life_bytes.is_power_of_two() && options.life_bytes.is_multiple_of(4096));
        }
        let (mut options, default) = (Options::default(), Options::default());
        options.set_buffer(default.sched_ring_bytes);
        assert_eq!(options.net_ring_bytes, default.net_ring_bytes, "the default is a size like any other");
        assert_eq!(options.life_bytes, default.life_bytes);
    }
}
