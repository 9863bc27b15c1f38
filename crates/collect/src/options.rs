//! The options of a recording session.

use std::ffi::OsString;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use wakepath_functions::Probe;

use crate::kernel_probes::KernelFunction;

/// The options of recording.
#[derive(Debug, Clone)]
pub struct Options {
    /// Size of each CPU's ring for switches and wake-ups, bytes; a power of two.
    pub sched_ring_bytes: usize,
    /// Size of each CPU's ring for packets, bytes; a power of two.
    pub net_ring_bytes: usize,
    /// Size of the ring buffer for rare records of all CPUs, bytes; a power of two and a multiple of the page size.
    pub life_bytes: usize,
    /// Record the system call, its first argument and futex words of threads that begin to wait.
    pub calls: bool,
    /// Stacks of running threads on each CPU, per second; 0 for none.
    pub samples_per_second: u32,
    /// Stacks where threads begin to wait, and where threads wake others.
    pub stacks: Stacks,
    /// How the callers in stacks and samples are found.
    pub callers: Callers,
    /// User functions whose calls are recorded, with their names.
    pub functions: Vec<(String, Probe)>,
    /// Functions of the kernel whose calls are recorded, with their names as targets.
    pub kernel_functions: Vec<(String, KernelFunction)>,
    /// The Go programs whose goroutines are recorded.
    pub goroutines: Goroutines,
    /// Put each probe on a Go program by an event of its own, as before Linux 6.6, also where one link can hold all of them: to measure the
    /// difference.
    pub single_probes: bool,
    /// The attributes beside the spans that threads work for which are recorded.
    pub attributes: KeptAttributes,
    /// Measure the cost of the programs before the recording begins: some 60 ms.
    pub calibrate: bool,
    /// Stop after this long.
    pub duration: Option<Duration>,
    /// The command to run, with its arguments; without one, recording lasts until the duration ends or a signal comes.
    pub command: Vec<OsString>,
    /// A variable that the command gets, unless it has one of its own.
    pub variable: Option<DefaultVariable>,
    /// The processes to explain.
    pub targets: Vec<u32>,
    /// The user who called sudo: the command runs as that user, and so does the recorder once it is attached.
    pub caller: Option<wakepath_caller::Caller>,
    /// Run the command as root nevertheless.
    pub as_root: bool,
}

/// The attributes that are recorded, by their names; by default none.
#[derive(Clone, Default)]
pub struct KeptAttributes(Option<AreKept>);

/// Whether an attribute of this name is kept.
type AreKept = Arc<dyn Fn(&str) -> bool + Send + Sync>;

impl KeptAttributes {
    /// Those of which this is true.
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

/// A variable for the environment of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefaultVariable {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// Where the command has a variable of one of these names, it does not get this one.
    pub unless: &'static [&'static str],
}

/// The Go programs whose goroutines are recorded: each step of a goroutine costs its thread a microsecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goroutines {
    /// None.
    None,
    /// The command, if it is a Go program itself, those of the processes to explain, and those that these start.
    Asked,
    /// All, also those that start meanwhile.
    All,
}

/// The stacks that are taken at switch-outs and wake-ups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stacks {
    /// None.
    None,
    /// All, but a stack that looks as before is assumed to be the same, which is checked now and then.
    Remembered,
    /// All, each read anew, at many times the cost.
    Each,
}

/// How the callers of the innermost function of a stack are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Callers {
    /// By the tables for unwinding of the files. Where a table was not looked up yet, parts of a stack pass through memory.
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
            kernel_functions: Vec::new(),
            goroutines: Goroutines::None,
            single_probes: false,
            attributes: KeptAttributes::default(),
            calibrate: true,
            duration: None,
            command: Vec::new(),
            variable: None,
            targets: Vec::new(),
            caller: None,
            as_root: false,
        }
    }
}

impl Options {
    /// The sizes that [`Self::set_buffer`] accepts, bytes for each CPU.
    pub const BUFFER: std::ops::RangeInclusive<usize> = 16 << 10..=1 << 30;

    /// Sets the sizes of all buffers, given that of each CPU's ring for switches and wake-ups, bytes. Returns that
    /// size rounded up to a power of two. The rings for packets get half of it, the ring buffer of all CPUs as much.
    pub fn set_buffer(&mut self, bytes: usize) -> usize {
        let bytes = bytes.clamp(*Self::BUFFER.start(), *Self::BUFFER.end()).next_power_of_two();
        self.sched_ring_bytes = bytes;
        self.net_ring_bytes = bytes / 2;
        self.life_bytes = bytes;
        bytes
    }

    /// Whether stacks are taken, at waits or in samples.
    pub(crate) fn takes_stacks(&self) -> bool {
        self.stacks != Stacks::None || self.samples_per_second > 0
    }

    /// Whether calls of functions are recorded in all processes.
    pub(crate) fn everyone(&self) -> bool {
        self.targets.is_empty() && self.command.is_empty()
    }

    /// Whether calls of any functions are recorded.
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
