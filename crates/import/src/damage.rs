//! The damages of another tracer's trace: what cannot be read, or is doubtful.

use std::path::Path;

use wakepath_ctf::stream::FaultKind;

/// Something that could not be read, or that is doubtful, in a trace that was read nonetheless.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file, from the trace's directory on; the directory itself for a damage of the whole trace.
    pub file: String,
    /// The packet of the file, from 0, where the file has packets.
    pub packet: Option<u64>,
    /// The place in the file, bytes.
    pub offset: Option<u64>,
    /// The kind of damage.
    pub kind: DamageKind,
}

/// The kinds of damage of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DamageKind {
    /// Bytes that cannot be read as they were written.
    Fault(Fault),
    /// The number of further faults in the same file.
    More(u64),
    /// Events whose fields make no sense were skipped.
    EventsSkipped {
        /// Their number.
        count: u64,
        /// The reason for the first of them, where the reader knows it.
        first: Option<&'static str>,
    },
    /// There are no wake-ups.
    NoWakings,
    /// There is no `sched_waking`: wake-ups are those of `sched_wakeup`.
    LateWakings,
    /// The number of interrupt entries without exit, and of exits without entry.
    UnmatchedInterrupts(u64),
    /// The thread states are not described: they are read as the kernel's release defines them.
    StatesUndescribed,
    /// The tracepoints of which perf recorded only some hits.
    SampledTracepoints(Vec<String>),
    /// perf recorded some threads, not the machine.
    SomeThreads,
    /// The trace buffers that are not read.
    OtherBuffers(Vec<String>),
    /// A CPU's buffer had no room for some events; when is not known.
    BufferFull {
        /// The CPU.
        cpu: u32,
        /// The number of events.
        count: u64,
    },
    /// The stream of a CPU ends long before the others.
    EndMissing {
        /// The CPU.
        cpu: u32,
        /// The time from its end to the last event of the trace, ns.
        early_ns: u64,
    },
    /// The clock advances only with the timer tick.
    CoarseClock,
}

/// Why bytes cannot be read as they were written.
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
    /// A damage of the whole file.
    pub(crate) fn of_file(path: &Path, kind: DamageKind) -> Self {
        Self { file: path.display().to_string(), packet: None, offset: None, kind }
    }

    /// A damage of the bytes at an offset of a file.
    pub(crate) fn at(path: &Path, (offset, fault): (u64, Fault)) -> Self {
        Self { offset: Some(offset), ..Self::of_file(path, DamageKind::Fault(fault)) }
    }
}
