//! The words for signals.

use std::borrow::Cow;

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::{SignalCause, SignalSender};
use wakepath_loaded::Recorded;

use super::thread;

/// Signal names from 1 on, without `SIG`.
const NAMES: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE",
    "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ",
    "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];

/// A signal's name: `SIGINT`, `signal 40`; 0 is a process's end by other means.
pub fn signal_name(number: u32) -> Cow<'static, str> {
    let Some(before) = number.checked_sub(1) else { return Cow::Borrowed("the end of the process") };
    match NAMES.get(before as usize) {
        Some(name) => Cow::Owned(format!("SIG{name}")),
        None => Cow::Owned(format!("signal {number}")),
    }
}

/// A signal and its sender: `SIGINT from bash (812)`.
pub fn signal_sent(recorded: &Recorded, signal: &SignalCause, at: Stamp<Reference>) -> String {
    let name = signal_name(signal.number);
    match signal.sender {
        SignalSender::Timer => format!("{name} from a timer"),
        // The kernel sends signals for a terminal, where a user typed Ctrl-C.
        SignalSender::Thread(by) if recorded.thread_at(by, at).kernel => format!("{name} from the kernel"),
        SignalSender::Thread(by) => format!("{name} from {}", thread(recorded, by, at)),
        SignalSender::Unknown => name.into_owned(),
    }
}
