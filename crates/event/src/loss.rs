//! The kinds of lost records.

/// The kind of the lost records: any, or a single kind, if the kernel skipped the program that records it. The kernel does so if an interrupt comes
/// while the program runs on the CPU, and meets the same tracepoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(u8)]
pub enum LostRecords {
    /// Any kind.
    #[default]
    Any = 0,
    /// Task switches.
    Switches = 1,
    /// Wake-ups.
    WakeUps = 2,
    /// Runnable threads' moves to other CPUs.
    Moves = 3,
    /// The interrupts around wake-ups and packets.
    Interrupts = 4,
    /// Packets.
    Packets = 5,
    /// The sockets for which packets woke threads. The wake-up itself is recorded, without its socket.
    Sockets = 6,
    /// Disk requests.
    DiskRequests = 7,
    /// Threads' forks, ends, names and cgroups.
    Threads = 8,
    /// Signals.
    Signals = 9,
    /// The times at which CPU limits hand out time.
    Limits = 10,
    /// Samples.
    Samples = 11,
    /// Function calls, and goroutine steps.
    Calls = 12,
}

impl LostRecords {
    /// All kinds, by number.
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

    /// The kind's word in documents.
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

    /// Whether such a loss hides no thread state and no wake-up, but at most the socket or disk request behind a wake-up by an interrupt.
    pub const fn is_evidence_alone(self) -> bool {
        matches!(self, Self::Sockets | Self::DiskRequests)
    }
}
