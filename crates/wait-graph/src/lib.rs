//! The execution graph: who ran, who waited, who woke whom (G15 §4.3, §5.3.2).
//!
//! [`Builder`] takes events in time order and gives a [`Graph`]. The graph is G15's two-dimensional
//! mesh, stored as what it is: a thread's horizontal edges are a vector of intervals, 16 bytes each, in
//! time order and without gap, so that any moment is found by binary search; a vertical edge is
//! part of the wait that it ended. Who had a CPU when is a vector per CPU, 12 bytes a switch.
//!
//! The graph draws no conclusion beyond what `wakepath-timeline` says; the walk over it is
//! `wakepath-critical-path`.

mod bookmarks;
mod builder;
mod chunks;
mod graph;
mod losses;
mod occupancy;
mod samples;
mod stacks;
mod state_interval;
mod stolen;
mod thread;
mod wait;

pub use bookmarks::Bookmarks;
pub use builder::Builder;
pub use graph::{Bytes, Graph};
pub use losses::Losses;
pub use occupancy::Occupancy;
pub use samples::Sample;
pub use stacks::{Frames, StackAt, StackIndex};
pub use state_interval::{StateInterval, StateIntervals, ThreadState};
pub use stolen::Stolen;
pub use thread::Thread;
pub use wait::WaitIndex;
pub use wakepath_timeline::{
    Completion, ContendedLock, Counts, Evidence, EvidenceIndex, Loss, Occupant, Received, Sender, Sent,
    ThreadIndex, UnknownReason, Wait, Waker,
};
