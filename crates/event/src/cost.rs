//! The recording's time in the kernel, by the kind of work.

/// The kinds of work by the recorder's programs in the kernel, each with a separate cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CostKind {
    /// A task switch record, with the stack if stacks are recorded.
    Switch,
    /// A wake-up record, likewise.
    Waking,
    /// A packet record, and the search for the packet's socket.
    Packet,
    /// Softirqs: they leave no record, but programs note their beginning and end.
    Softirq,
    /// Hard interrupts, likewise.
    Interrupt,
    /// A running thread's sample.
    Sample,
    /// A function call record.
    Call,
    /// Any other record: disk requests, waits for kernel locks, forks, names. Recorders with a count of them count their programs' runs, including
    /// runs that find nothing to record.
    Other,
}

impl CostKind {
    /// Every kind, in order.
    pub const ALL: [Self; 8] = [
        Self::Switch,
        Self::Waking,
        Self::Packet,
        Self::Softirq,
        Self::Interrupt,
        Self::Sample,
        Self::Call,
        Self::Other,
    ];
}

/// The cost of a kind of work, as a range measured on the recording host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelCost {
    /// The kind of work.
    pub kind: CostKind,
    /// The number of times since the recording began; `None`: once per such record.
    pub count: Option<u64>,
    /// The minimum time, once, ns.
    pub from_ns: u64,
    /// The maximum time, once, ns; `None` if it could not be measured.
    pub to_ns: Option<u64>,
}
