//! Turns a stream of events into thread states and the links between them (G15 §4.4, §5.3.2).
//!
//! [`Timeline`] is a state machine. Events go in, in time order; [`Sink`] calls come out: threads when they
//! first appear, *state intervals* (a thread was in the same state from one time to another), each CPU's
//! occupants, and the evidence for each wait's end. A thread's state intervals follow each other without gap
//! or overlap, from its first record to its death or the end.
//!
//! An interval goes out only when it is closed and no later event can change it. So a wake-up that ran before
//! its own switch-out, or a loss found later, never needs a correction of earlier output.
//!
//! # Evidence and rules
//!
//! * Every tracepoint record names the current thread on its CPU. This is evidence of the same worth as a
//!   switch.
//! * A thread leaves a CPU by a switch. When a record shows another thread on a CPU than the last switch
//!   there, at least one switch is missing. Both threads are then [`State::Unknown`], each from the last
//!   fitting record to the next record that proves its state.
//! * A wake-up makes a blocked thread runnable. A wake-up of a running thread is kept until the thread is
//!   next switched in. If the thread left its CPU blocked and nothing else woke it, the kept wake-up ended
//!   the wait before the switch-out was recorded; otherwise it was spurious.
//! * A CPU limit keeps a thread off its CPU until the limit last hands out time before the thread runs; from
//!   then on the thread waits for a CPU.
//! * Entries and exits of interrupts have no records; each record within has the interrupt's context.
//!   [`Evidence`] defines which records count as the same instance of an interrupt.
//!
//! A timeline is for a single host, or for several hosts whose events [`Numbering`] renumbered as a single
//! host's. Its memory grows only with threads and flows, not with time.

mod cpu;
mod held_requests;
mod hosts;
mod instance;
mod locks;
mod merge;
mod outgoing;
mod recent;
mod sink;
mod tcp_timers;
mod thread;
mod tids;
mod timeline;
mod timer_files;
mod traffic;
mod unseen;
mod waits;
mod windows;

pub use hosts::Numbering;
pub use merge::merge;
pub use sink::{
    Completion, ContendedLock, Cut, Evidence, EvidenceIndex, HeldBack, Late, Loss, Occupant, PacketTimer,
    QueueExit, Received, Sender, Sent, Sink, State, ThreadIndex, TimerPurpose, UnknownReason, Wait, WakeUp,
    Waker,
};
pub use timeline::{Counts, Timeline};
