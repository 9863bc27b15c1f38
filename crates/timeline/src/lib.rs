//! A stream of events becomes thread states and the links between them (G15 §4.4, §5.3.2).
//!
//! [`Timeline`] is a state machine: events go in, in time order, and come out as calls of a
//! [`Sink`]: threads as they appear, *state intervals* (a thread was in one state from here to there), who
//! had each CPU, and the evidence for what ended each wait. State intervals of a thread follow each other
//! without gap or overlap, from the first that was seen of it to its death or the end.
//!
//! An interval goes out when it is closed and nothing that comes later can change it. That is what lets
//! a waking that ran before its own switch-out, or a loss that is only noticed afterwards, be
//! settled without ever taking back what was said.
//!
//! # What is believed, and on what evidence
//!
//! * Every record made by a tracepoint names the thread that was current on its CPU. That is
//!   evidence, of the same worth as a switch.
//! * A thread leaves a CPU by a switch. When a record shows another thread than the last switch on
//!   that CPU put there, at least one switch is missing. Nothing is guessed about either thread:
//!   from the last record that fits to the next that proves something, both are [`State::Unknown`].
//! * A blocked thread becomes runnable by a waking. A waking of a running thread is kept until that
//!   thread is next switched in: if it left its CPU blocked and nothing else woke it, that waking
//!   ended the wait before its own switch-out was recorded; otherwise it was spurious.
//! * There are no records of an interrupt's entry and exit, only the context of what happened
//!   within; see [`Evidence`] for what is taken to be the same instance of an interrupt.
//!
//! A timeline is one host's, or that of several whose events [`Numbering`] made those of one. It holds what is needed to go on, and that does not grow with time
//! except by threads and flows.

mod cpu;
mod hosts;
mod instance;
mod locks;
mod merge;
mod outgoing;
mod recent;
mod sink;
mod thread;
mod tids;
mod timeline;
mod traffic;
mod unseen;
mod waits;

pub use hosts::Numbering;
pub use merge::merge;
pub use sink::{
    Completion, ContendedLock, Evidence, EvidenceIndex, Loss, Occupant, Received, Sender, Sent, Sink, State,
    ThreadIndex, UnknownReason, Wait, Waker,
};
pub use timeline::{Counts, Timeline};
