//! Reasons why a thread leaves its CPU.

/// Why a thread left its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SwitchOut {
    /// It could go on running: preempted, or gave way.
    Runnable,
    /// A cgroup's CPU limit took it off.
    Throttled,
    /// It waits to be woken.
    Blocked(BlockedState),
    /// It will not run again.
    Dead,
}

/// How a thread waits. The kernel's task state bits, decoded for the kernel that wrote them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BlockedState {
    /// Any signal ends it.
    Interruptible,
    /// No signal ends it, but for fatal ones where the kernel says killable.
    Uninterruptible,
    /// Uninterruptible, and not counted as load: kernel threads without work.
    Idle,
    /// Stopped by a signal.
    Stopped,
    /// Stopped by its tracer.
    Traced,
    /// A kernel thread put aside.
    Parked,
    /// Frozen, by suspend or a cgroup.
    Frozen,
    /// A sleeping spin lock of a real-time kernel.
    RtLockWait,
    /// Bits that we do not know.
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
