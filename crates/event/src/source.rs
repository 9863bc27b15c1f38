//! The interface to every recording, in any format: a description, and events by time.

use std::path::{Path, PathBuf};

use wakepath_clock::{Local, Stamp};

use crate::Event;

/// A recording in any format, opened for reading.
pub trait EventSource {
    /// An unreadable or doubtful part in a recording that was read nonetheless.
    type Damage;

    /// The recording's description.
    fn description(&self) -> &Description;

    /// Emits all events in stamp order, and calls `progress` now and then with the part of
    /// [`Description::size`] read so far. Returns the damages; lost records are events.
    ///
    /// Memory does not grow with the recording's size.
    fn read(&self, emit: impl FnMut(&Event), progress: impl FnMut(u64)) -> Vec<Self::Damage>;

    /// Emits all events, as [`EventSource::read`] does.
    fn for_each(&self, emit: impl FnMut(&Event)) -> Vec<Self::Damage> {
        self.read(emit, |_| {})
    }
}

/// An on-disk format for recordings.
pub trait RecordingFormat: EventSource + Sized {
    /// The reason for which a recording cannot be read at all.
    type Error;

    /// Whether the file or directory at `path` looks like this format: [`RecordingFormat::open`] then reads
    /// it, or returns the reason why not.
    fn recognises(path: &Path) -> bool;

    /// Opens the recording at `path`.
    ///
    /// # Errors
    /// If the recording has another format or an unknown version, or cannot be read at all. Damage behind its
    /// metadata is no error: see [`EventSource::read`].
    fn open(path: &Path) -> Result<Self, Self::Error>;
}

/// A recording's description, known before its events are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// The file or the directory.
    pub path: PathBuf,
    /// The recorded host.
    pub host: HostIdentity,
    /// The writing tracer, with its version; `None` for wakepath's own recordings.
    pub tracer: Option<String>,
    /// The stamps' clock.
    pub clock: ClockId,
    /// Realtime (ns since 1970) minus that clock; `None` if the recorder did not note it.
    pub realtime_offset_ns: Option<i128>,
    /// The first and the last event's stamps; `None` if only reading finds them.
    pub extent: Option<(Stamp<Local>, Stamp<Local>)>,
    /// The amount to read, in units of progress: records or bytes.
    pub size: u64,
    /// The cgroup, unit or container for which the recording was made, if any.
    pub cgroup: Option<String>,
    /// The writer and format of wakepath's own recordings; `None` for other tracers.
    pub format: Option<Format>,
}

/// A host. A host is a boot: names are reused, and a reboot starts its clocks and ids anew. An unknown value
/// is empty, or 0.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostIdentity {
    /// The host name.
    pub name: String,
    /// The id of this boot, as in `/proc/sys/kernel/random/boot_id`.
    pub boot_id: String,
    /// The kernel release, as `uname -r` prints it.
    pub kernel_release: String,
    /// The machine type, as `uname -m` prints it.
    pub machine: String,
    /// The largest possible CPU number, plus 1.
    pub cpus: u32,
}

/// A host's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockId {
    /// `CLOCK_MONOTONIC`, used by wakepath's own recordings.
    Monotonic,
    /// Another `clock_gettime` clock: its number.
    Numbered(u32),
    /// Perf's clock, which is the scheduler's: about the time since boot, and no other clock.
    Perf,
    /// Ftrace's clock, which is the scheduler's on each CPU: two CPUs' clocks can differ.
    Local,
    /// Ftrace's clock, made to agree between CPUs.
    Global,
    /// The time since boot, which advances with each timer tick.
    Uptime,
    /// The CPU's time-stamp counter, converted to ns by the file's parameters.
    Tsc,
    /// A clock without a name in the file.
    Unknown,
}

impl ClockId {
    /// The clock's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Monotonic => "monotonic",
            Self::Numbered(0) => "realtime",
            Self::Numbered(4) => "monotonic_raw",
            Self::Numbered(7) => "boottime",
            Self::Numbered(11) => "tai",
            Self::Numbered(_) | Self::Unknown => "unknown",
            Self::Perf => "perf",
            Self::Local => "local",
            Self::Global => "global",
            Self::Uptime => "uptime",
            Self::Tsc => "x86-tsc",
        }
    }
}

/// The writer and format of a wakepath recording.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Format {
    /// The format number.
    pub number: i64,
    /// The wakepath version that wrote the recording.
    pub writer: String,
    /// The recorder's options.
    pub options: String,
    /// The streams' size, bytes.
    pub bytes: u64,
    /// The number of streams.
    pub streams: usize,
    /// Lost records, by the recorder's own count.
    pub discarded: u64,
    /// The received spans' size, bytes; `None` if no spans were asked for.
    pub span_bytes: Option<u64>,
}
