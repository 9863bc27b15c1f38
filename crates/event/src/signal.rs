//! Signals that threads take.

use wakepath_clock::{Local, Stamp};

use crate::{MemoryLimit, Tid};

/// A signal that a thread took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Signal {
    /// The signal number; 0 for the end of the process without a signal: another thread called `exit_group`
    /// or `execve`.
    pub number: u32,
    /// The `si_code`; 0 if not known.
    pub code: i32,
    /// The disposition.
    pub action: SignalAction,
    /// The number of the system call that the signal cut short.
    pub cut_call: Option<u32>,
    /// The sending, just after the target's wake-up: the time, and the current thread.
    pub sent: Option<(Stamp<Local>, Tid)>,
}

/// A signal's disposition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum SignalAction {
    /// The kernel's default for this signal.
    Default = 0,
    /// Nothing.
    Ignored = 1,
    /// A handler in the process runs.
    Handled = 2,
    /// The process is ending, and this thread with it.
    ProcessEnds = 3,
}

impl SignalAction {
    /// All dispositions, by number.
    pub const ALL: [Self; 4] = [Self::Default, Self::Ignored, Self::Handled, Self::ProcessEnds];
}

/// A signal asking a process to end, at its sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SignalSent {
    /// The signal number.
    pub number: u32,
    /// The `si_code`.
    pub code: i32,
    /// A thread in the process.
    pub target: Tid,
    /// The process's disposition then.
    pub effect: SentEffect,
    /// For [`SentEffect::NoMemory`], the cgroup's limit, if it was found.
    pub limit: Option<MemoryLimit>,
}

/// A sent signal's effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum SentEffect {
    /// The process ends when a thread takes it.
    Default = 0,
    /// None: the process ignores it.
    Ignored = 1,
    /// A handler runs when a thread takes it.
    Handled = 2,
    /// None: the first process in a PID namespace has no handler for it.
    Dropped = 3,
    /// The kernel kills the process for want of memory.
    NoMemory = 4,
}

impl SentEffect {
    /// All effects, by number.
    pub const ALL: [Self; 5] = [Self::Default, Self::Ignored, Self::Handled, Self::Dropped, Self::NoMemory];
}

/// A signal's effect on the thread that takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SignalEffect {
    /// The signal ends the thread.
    Kills,
    /// The signal stops the thread.
    Stops,
    /// The thread goes on.
    GoesOn,
}

impl Signal {
    /// The effect on the thread.
    pub const fn effect(&self) -> SignalEffect {
        match (self.action, self.number) {
            (SignalAction::ProcessEnds, _) => SignalEffect::Kills,
            // CHLD CONT URG WINCH
            (SignalAction::Default, 17 | 18 | 23 | 28) => SignalEffect::GoesOn,
            // STOP TSTP TTIN TTOU
            (SignalAction::Default, 19..=22) => SignalEffect::Stops,
            (SignalAction::Default, _) => SignalEffect::Kills,
            (SignalAction::Ignored | SignalAction::Handled, _) => SignalEffect::GoesOn,
        }
    }
}
