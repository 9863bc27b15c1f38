//! Walks over the execution graph that explain a window of a thread's time.
//!
//! [`active`] replaces each wait by its waker's activity in that time (G15 §5.3.2, Algorithm 5); [`exact`]
//! goes back from the window's end along the events that determined this end (G15 §4.3.1). Both tile the window
//! to the nanosecond: time without an explanation is a segment of kind [`SegmentKind::Unknown`].
//!
//! The cost is linear: every nanosecond of the window is explained once, by a single thread. Nothing
//! recurses, so a chain of a million waits cannot overflow the stack.

mod active;
mod contributors;
mod early_end;
mod exact;
mod explain;
mod find_problems;
mod hand_over;
mod hang;
mod holders;
mod lock_turns;
mod own_segments;
mod path;
mod periodic_ticks;
mod pick_up;
mod problem;
mod responsible;
mod stretches;
mod tiles;
mod timeouts;

pub use active::{active, active_by, active_with, as_single_wait};
pub use contributors::{Contributor, contributors};
pub use early_end::timed_out;
pub use exact::exact;
pub use hand_over::{EndedWait, Had, HandOvers, NoHandOvers};
pub use hang::{Hang, Killed, deadlocks, hangs, killed, waits_at};
pub use path::{
    Algorithm, Basis, Cause, JoinedSum, LockCause, Path, Rule, Segment, SegmentKind, SignalCause,
    SignalSender, Unjoined, Via, Wait, WaitId, Window,
};
pub use problem::{Problem, ProblemKind, Severity, Share};
pub use responsible::Responsible;
pub use stretches::{Stretch, assembled, path_of_stretches};
pub use timeouts::Timeouts;
