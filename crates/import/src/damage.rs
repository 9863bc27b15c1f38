//! The damages in another tracer's trace: unreadable or doubtful parts.

use std::path::Path;

use wakepath_ctf::stream::FaultKind;

/// An unreadable or doubtful part of a trace that was read nonetheless.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file's path within the trace's directory; for the whole trace, the directory itself.
    pub file: String,
    /// The packet's index in the file, from 0, in files with packets.
    pub packet: Option<u64>,
    /// The offset in the file, bytes.
    pub offset: Option<u64>,
    /// The kind of damage.
    pub kind: DamageKind,
}

/// The kinds of damage in a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DamageKind {
    /// Damaged bytes.
    Fault(Fault),
    /// The number of further faults in the same file.
    More(u64),
    /// Skipped events with meaningless fields.
    EventsSkipped {
        /// Their number.
        count: u64,
        /// The reason for the first, if known to the reader.
        first: Option<&'static str>,
    },
    /// No wake-ups.
    NoWakings,
    /// No `sched_waking`: wake-ups come from `sched_wakeup`.
    LateWakings,
    /// The number of interrupt entries without exit, and exits without entry.
    UnmatchedInterrupts(u64),
    /// The thread states are not described: the kernel release defines their meaning.
    StatesUndescribed,
    /// The tracepoints for which perf recorded only some hits.
    SampledTracepoints(Vec<String>),
    /// perf recorded some threads, not the machine.
    SomeThreads,
    /// The trace buffers that are not read.
    OtherBuffers(Vec<String>),
    /// A CPU's buffer had no room for some events, at an unknown time.
    BufferFull {
        /// The CPU.
        cpu: u32,
        /// The number of events.
        count: u64,
    },
    /// A CPU's stream ends long before the others.
    EndMissing {
        /// The CPU.
        cpu: u32,
        /// The time from its end to the trace's last event, ns.
        early_ns: u64,
    },
    /// The clock advances only with the timer tick.
    CoarseClock,
}

/// Why bytes cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum Fault {
    #[error("cannot be read: {0}")]
    Io(String),
    #[error(transparent)]
    Stream(#[from] FaultKind),
    #[error("the description of the tracepoints makes no sense from here on")]
    Formats,
    #[error("no record: {0} bytes are skipped")]
    NoRecord(u64),
    #[error("no record: {0} bytes are skipped, up to the end of the records")]
    NoMoreRecords(u64),
    #[error("no record: the file was changed while it was read")]
    Changed,
    #[error("too much is damaged: the rest is not read")]
    TooMany,
    #[error("{0} bytes should follow, and the records end before")]
    RecordsEnd(u64),
    #[error("a page ends after {0} bytes, within its head")]
    PageCut(usize),
    #[error("a page of {page} bytes should hold {used} bytes of events")]
    PageOverfull { page: usize, used: usize },
    #[error("an event goes beyond the end of its page; the rest of its page is skipped")]
    EventCut,
    #[error("an event of {0} bytes goes beyond the end of its page; the rest of its page is skipped")]
    EventOverrun(u64),
    #[error("an event cannot be of {0} bytes; the rest of its page is skipped")]
    EventSize(u64),
    #[error("{0} compressed bytes should follow, and the CPU's end before")]
    ChunkCut(u32),
    #[error("a chunk of pages has an unknown compression")]
    ChunkUnknown,
    #[error("a chunk of pages cannot be decompressed")]
    ChunkDamaged,
}

impl Damage {
    /// A damage to the whole file.
    pub(crate) fn in_file(path: &Path, kind: DamageKind) -> Self {
        Self { file: path.display().to_string(), packet: None, offset: None, kind }
    }

    /// A damage to the bytes at an offset in a file.
    pub(crate) fn at(path: &Path, (offset, fault): (u64, Fault)) -> Self {
        Self { offset: Some(offset), ..Self::in_file(path, DamageKind::Fault(fault)) }
    }
}
