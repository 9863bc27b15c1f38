//! A CPU's context: a thread's own work or an interrupt.

/// A CPU's context: a thread's own work, or an interrupt that uses the thread's time.
///
/// Interrupts nest (G15 §4.4); this is the innermost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Context {
    /// The current thread's own work.
    #[default]
    Task,
    /// A softirq, in an interrupt's tail, in a section that re-enabled softirqs, or in ksoftirqd.
    Softirq(Softirq),
    /// The local timer's interrupt: ticks and high-resolution timers.
    LocalTimer,
    /// The inter-processor interrupt that asks for a reschedule.
    Reschedule,
    /// The inter-processor interrupt that runs a function.
    CallFunction,
    /// Deferred work in interrupt context.
    IrqWork,
    /// A device's interrupt.
    Device,
    /// An interrupt of a kind that the tracer did not see.
    UnknownInterrupt,
    /// An interrupt that the tracer was not asked to record: only its presence was noted.
    Unrecorded,
    /// Likewise, and a hard interrupt while device interrupts were recorded: by elimination, the local
    /// timer's.
    UnrecordedTimer,
    /// The current thread's own work, or an interrupt that the tracer was not asked to record.
    TaskOrUnrecorded,
}

/// A softirq vector, in the kernel's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the kernel's names say it")]
#[repr(u8)]
pub enum Softirq {
    Hi,
    Timer,
    NetTx,
    NetRx,
    Block,
    IrqPoll,
    Tasklet,
    Sched,
    Hrtimer,
    Rcu,
}

impl Softirq {
    /// All vectors, by number.
    pub const ALL: [Self; 10] = [
        Self::Hi,
        Self::Timer,
        Self::NetTx,
        Self::NetRx,
        Self::Block,
        Self::IrqPoll,
        Self::Tasklet,
        Self::Sched,
        Self::Hrtimer,
        Self::Rcu,
    ];

    /// The kernel's name for this vector.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hi => "HI",
            Self::Timer => "TIMER",
            Self::NetTx => "NET_TX",
            Self::NetRx => "NET_RX",
            Self::Block => "BLOCK",
            Self::IrqPoll => "IRQ_POLL",
            Self::Tasklet => "TASKLET",
            Self::Sched => "SCHED",
            Self::Hrtimer => "HRTIMER",
            Self::Rcu => "RCU",
        }
    }
}

impl Context {
    /// All contexts but the softirqs.
    pub const OTHERS: [Self; 10] = [
        Self::Task,
        Self::LocalTimer,
        Self::Reschedule,
        Self::CallFunction,
        Self::IrqWork,
        Self::Device,
        Self::Unrecorded,
        Self::UnrecordedTimer,
        Self::TaskOrUnrecorded,
        Self::UnknownInterrupt,
    ];

    /// Whether an interrupt certainly had the CPU.
    pub const fn is_interrupt(self) -> bool {
        !matches!(self, Self::Task | Self::TaskOrUnrecorded)
    }
}
