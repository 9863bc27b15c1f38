//! Signals asking processes to end, and the kernel's kills for want of memory.

use std::collections::HashMap;

use wakepath_clock::{Local, Stamp};
use wakepath_event::{Event, EventKind, SignalAction, SignalSent, Tid};

/// A sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sending {
    /// Its time.
    pub at: Stamp<Local>,
    /// The sending thread; for want of memory, the thread that needed it. `None` if an interrupt sent it.
    pub sender: Option<Tid>,
    /// The signal.
    pub signal: SignalSent,
}

/// All sendings in a recording.
#[derive(Debug, Clone, Default)]
pub struct Signals {
    /// In time order.
    pub sent: Vec<Sending>,
    /// By thread, in time order: the signals taken by a handler.
    handled: HashMap<Tid, Vec<(Stamp<Local>, u32)>>,
}

impl Signals {
    /// Takes an event about a signal. Events come in time order.
    pub(crate) fn observe(&mut self, event: &Event) {
        match &event.kind {
            EventKind::SignalSent(signal) => {
                let sender = Some(event.current);
                let sender = sender.filter(|tid| !event.context.is_interrupt() && *tid != Tid::IDLE);
                self.sent.push(Sending { at: event.at, sender, signal: *signal });
            }
            EventKind::Signal(signal) if signal.action == SignalAction::Handled => {
                self.handled.entry(event.current).or_default().push((event.at, signal.number));
            }
            _ => {}
        }
    }

    /// Whether a handler in this thread took the signal between two times.
    pub fn is_handled(&self, thread: Tid, number: u32, from: Stamp<Local>, to: Stamp<Local>) -> bool {
        let taken = self.handled.get(&thread).map_or(&[][..], Vec::as_slice);
        taken.iter().any(|(at, taken)| *taken == number && (from..=to).contains(at))
    }
}
