//! Reasons why a thread leaves its CPU.

/// The reason for which a thread left its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SwitchOut {
    /// The thread could go on running: preempted, or it yielded.
    Runnable,
    /// A cgroup's CPU limit took the thread off.
    Throttled,
    /// The thread waits for a wake-up.
    Blocked(BlockedState),
    /// The thread will not run again.
    Dead,
}

/// The kind of a thread's wait: the kernel's task state bits, decoded for the kernel that wrote them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BlockedState {
    /// Any signal ends the wait.
    Interruptible,
    /// No signal ends the wait, except fatal signals if the kernel calls it killable.
    Uninterruptible,
    /// Uninterruptible, and not counted as load: kernel threads without work.
    Idle,
    /// Stopped by a signal.
    Stopped,
    /// Stopped by its tracer.
    Traced,
    /// A parked kernel thread.
    Parked,
    /// Frozen, by suspend or a cgroup.
    Frozen,
    /// A sleeping spin lock of a real-time kernel.
    RtLockWait,
    /// Bits without a known meaning.
    Other(u32),
}

impl BlockedState {
    /// All known states.
    pub const KNOWN: [Self; 8] = [
        Self::Interruptible,
        Self::Uninterruptible,
        Self::Idle,
        Self::Stopped,
        Self::Traced,
        Self::Parked,
        Self::Frozen,
        Self::RtLockWait,
    ];
}
