//! The damages in a recording: unreadable or doubtful parts.

use std::path::Path;

/// An unreadable or doubtful part of a recording that was read nonetheless.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file's path within the recording's directory; for the whole recording, the directory itself.
    pub file: String,
    /// The packet's index in the file, from 0, in files with packets.
    pub packet: Option<u64>,
    /// The offset in the file, bytes.
    pub offset: Option<u64>,
    /// The kind of damage.
    pub kind: DamageKind,
}

/// The kinds of damage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DamageKind {
    /// Damaged bytes: what is wrong with them, as the reader says it.
    Fault(String),
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
    /// CPUs without a stream, to which threads were woken.
    CpusUnrecorded {
        /// The CPUs, in order.
        cpus: Vec<u32>,
        /// The number of wake-ups of threads there.
        wakings: u64,
    },
    /// A CPU's first records are gone, or were never recorded.
    BeginMissing {
        /// The CPU.
        cpu: u32,
        /// The time from the trace's begin to the CPU's first packet, ns.
        late_ns: u64,
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
    /// Text lines without a tracepoint, or with two readings.
    LinesUnreadable {
        /// Their number.
        count: u64,
        /// The number of the first such line, from 1 on.
        first: u64,
    },
    /// Text lines too far behind later lines.
    LinesLate {
        /// Their number.
        count: u64,
        /// The number of the first such line, from 1 on.
        first: u64,
    },
    /// The stamps have microseconds only.
    RoundedStamps,
    /// Programs' traces, without a kernel trace beside them.
    ProgramsAlone,
    /// Programs' traces are not joined to the kernel's: their clocks are not known to be the same.
    ProgramsApart,
    /// A programs' trace notes no thread with its marks.
    MarksWithoutThread,
    /// Programs' own marks are missing: their stretches across the loss are not measured.
    MarksLost {
        /// The number, if the tracer counted all of them.
        count: Option<u64>,
    },
}

impl Damage {
    /// A damage to the whole file.
    pub fn in_file(path: &Path, kind: DamageKind) -> Self {
        Self { file: path.display().to_string(), packet: None, offset: None, kind }
    }

    /// A damage to the bytes at an offset in a file.
    pub fn at(path: &Path, offset: u64, fault: &impl ToString) -> Self {
        Self { offset: Some(offset), ..Self::in_file(path, DamageKind::Fault(fault.to_string())) }
    }
}
