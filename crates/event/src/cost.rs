//! The time that recording takes in the kernel, by the kind of work.

/// The kinds of work of the recorder's programs in the kernel, each with a cost of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CostKind {
    /// The record of a task switch, with the stack where stacks are recorded.
    Switch,
    /// The record of a wake-up, likewise.
    Waking,
    /// The record of a packet, and the search for the socket that it is for.
    Packet,
    /// Softirqs: they leave no record, but programs note their beginning and end.
    Softirq,
    /// Hard interrupts, likewise.
    Interrupt,
    /// A sample of a running thread.
    Sample,
    /// The record of a call of a function.
    Call,
    /// Any other record: disk requests, waits for kernel locks, forks, names. Recorders that count them count the runs of
    /// their programs, also those that find nothing to record.
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

/// The cost of one kind of work, as a range that was measured on the recording host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelCost {
    /// The kind of work.
    pub kind: CostKind,
    /// How often it was done since the recording began; `None`: as often as there are such records.
    pub count: Option<u64>,
    /// The least time that it takes once, ns.
    pub from_ns: u64,
    /// The most time that it takes once, ns; `None` where it could not be measured.
    pub to_ns: Option<u64>,
}
