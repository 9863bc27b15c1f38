//! The interface of every recording, in any format: a description, and events by time.

use std::path::{Path, PathBuf};

use wakepath_clock::{Local, Stamp};

use crate::Event;

/// A recording of any format, opened for reading.
pub trait EventSource {
    /// Something that could not be read, or is doubtful, in a recording that was read nonetheless.
    type Damage;

    /// The description of the recording.
    fn description(&self) -> &Description;

    /// Emits all events in the order of their stamps, and calls `progress` now and then with the part of
    /// [`Description::size`] that is read. Returns the damages; lost records are events.
    ///
    /// Memory does not grow with the size of the recording.
    fn read(&self, emit: impl FnMut(&Event), progress: impl FnMut(u64)) -> Vec<Self::Damage>;

    /// Emits all events, as [`EventSource::read`] does.
    fn for_each(&self, emit: impl FnMut(&Event)) -> Vec<Self::Damage> {
        self.read(emit, |_| {})
    }
}

/// A format of recordings on disk.
pub trait RecordingFormat: EventSource + Sized {
    /// Why a recording cannot be read at all.
    type Error;

    /// Whether what is at `path` looks like this format: [`RecordingFormat::open`] then reads it, or says
    /// why not.
    fn recognises(path: &Path) -> bool;

    /// Opens the recording at `path`.
    ///
    /// # Errors
    /// When it is of another format, of an unknown version, or cannot be read at all. Damage behind its
    /// metadata is no error: see [`EventSource::read`].
    fn open(path: &Path) -> Result<Self, Self::Error>;
}

/// The description of a recording, known before its events are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// The file or the directory.
    pub path: PathBuf,
    /// The host that was recorded.
    pub host: HostIdentity,
    /// The other tracer that wrote it, with its version; `None` for a recording of ours.
    pub tracer: Option<String>,
    /// The clock of the stamps.
    pub clock: ClockId,
    /// Realtime (ns since 1970) less that clock; `None` where the recorder did not note it.
    pub realtime_offset_ns: Option<i128>,
    /// The stamps of the first and the last event; `None` where only reading finds them.
    pub extent: Option<(Stamp<Local>, Stamp<Local>)>,
    /// The amount to read, in the unit of progress: records or bytes.
    pub size: u64,
    /// The cgroup, unit or container that the recording was made to ask about, if it was one.
    pub cgroup: Option<String>,
    /// How a recording of ours was written; `None` for those of other tracers.
    pub format: Option<Format>,
}

/// A host. One host is one boot: names are reused, and a reboot starts its clocks and ids anew. An unknown
/// value is empty, or 0.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostIdentity {
    /// Its name.
    pub name: String,
    /// The id of this boot, as `/proc/sys/kernel/random/boot_id` has it.
    pub boot_id: String,
    /// Its kernel's release, as `uname -r` prints it.
    pub kernel_release: String,
    /// Its kind of machine, as `uname -m` prints it.
    pub machine: String,
    /// One more than the largest number of a CPU that it may have.
    pub cpus: u32,
}

/// A clock of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockId {
    /// `CLOCK_MONOTONIC`, which our own recordings use.
    Monotonic,
    /// Another clock of `clock_gettime`: its number.
    Numbered(u32),
    /// The clock of perf, which is the scheduler's: about the time since the boot, and no other clock.
    Perf,
    /// The clock of ftrace, which is the scheduler's on each CPU: those of two CPUs can differ.
    Local,
    /// The same, made to agree between CPUs.
    Global,
    /// The time since the boot, which advances with each timer tick.
    Uptime,
    /// The CPU's time stamp counter, converted to ns as the file says.
    Tsc,
}

impl ClockId {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Monotonic => "monotonic",
            Self::Numbered(0) => "realtime",
            Self::Numbered(4) => "monotonic_raw",
            Self::Numbered(7) => "boottime",
            Self::Numbered(11) => "tai",
            Self::Numbered(_) => "unknown",
            Self::Perf => "perf",
            Self::Local => "local",
            Self::Global => "global",
            Self::Uptime => "uptime",
            Self::Tsc => "x86-tsc",
        }
    }
}

/// How a recording of ours was written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Format {
    /// The number of the format.
    pub number: i64,
    /// The version of wakepath that wrote it.
    pub writer: String,
    /// The options of the recorder.
    pub options: String,
    /// Bytes of its streams.
    pub bytes: u64,
    /// The number of its streams.
    pub streams: usize,
    /// Records that the recorder lost, by its own count.
    pub discarded: u64,
    /// Bytes of the spans that were received; `None` where they were not asked for.
    pub span_bytes: Option<u64>,
}
