//! The records among which some were lost.

/// The records among which some were lost: all of them, or those of one kind, where the kernel skipped the program that records them. It does
/// so where an interrupt comes while the program runs on that CPU, and meets the same tracepoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(u8)]
pub enum LostRecords {
    /// Any.
    #[default]
    Any = 0,
    /// Task switches.
    Switches = 1,
    /// Wake-ups.
    WakeUps = 2,
    /// Moves of runnable threads to other CPUs.
    Moves = 3,
    /// The interrupts in which wake-ups and packets were.
    Interrupts = 4,
    /// Packets.
    Packets = 5,
    /// The sockets for which packets woke threads. The wake-up itself is recorded, without its socket.
    Sockets = 6,
    /// Requests of disks.
    DiskRequests = 7,
    /// Births, ends, names and cgroups of threads.
    Threads = 8,
    /// Signals.
    Signals = 9,
    /// The times at which CPU limits hand out time.
    Limits = 10,
    /// Samples.
    Samples = 11,
    /// Calls of functions, and steps of goroutines.
    Calls = 12,
}

impl LostRecords {
    /// All of them, by number.
    pub const ALL: [Self; 13] = [
        Self::Any,
        Self::Switches,
        Self::WakeUps,
        Self::Moves,
        Self::Interrupts,
        Self::Packets,
        Self::Sockets,
        Self::DiskRequests,
        Self::Threads,
        Self::Signals,
        Self::Limits,
        Self::Samples,
        Self::Calls,
    ];

    /// The word for it in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Switches => "switches",
            Self::WakeUps => "wake_ups",
            Self::Moves => "moves",
            Self::Interrupts => "interrupts",
            Self::Packets => "packets",
            Self::Sockets => "sockets",
            Self::DiskRequests => "disk_requests",
            Self::Threads => "threads",
            Self::Signals => "signals",
            Self::Limits => "limits",
            Self::Samples => "samples",
            Self::Calls => "calls",
        }
    }

    /// Whether such a loss hides no state of a thread and no wake-up, but at most which socket or disk request was behind a wake-up by an
    /// interrupt.
    pub const fn is_evidence_alone(self) -> bool {
        matches!(self, Self::Sockets | Self::DiskRequests)
    }
}
