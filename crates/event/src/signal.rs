//! Signals that threads take.

use wakepath_clock::{Local, Stamp};

use crate::Tid;

/// A signal that a thread took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Signal {
    /// Its number; 0 if the process ends by no signal: another thread called `exit_group` or `execve`.
    pub number: u32,
    /// Its `si_code`; 0 where it is not known.
    pub code: i32,
    /// Its disposition.
    pub action: SignalAction,
    /// The number of the system call that it cut short.
    pub cut_call: Option<u32>,
    /// Where it was sent, just after the wake-up of its target: the time, and the thread that was current there.
    pub sent: Option<(Stamp<Local>, Tid)>,
}

/// The disposition of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum SignalAction {
    /// The default of the kernel for this signal.
    Default = 0,
    /// Nothing.
    Ignored = 1,
    /// A handler of the process runs.
    Handled = 2,
    /// The process is ending, and this thread with it.
    ProcessEnds = 3,
}

impl SignalAction {
    /// All of them, by number.
    pub const ALL: [Self; 4] = [Self::Default, Self::Ignored, Self::Handled, Self::ProcessEnds];
}

/// The effect of a signal on the thread that takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SignalEffect {
    /// It ends the thread.
    Kills,
    /// It stops the thread.
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
