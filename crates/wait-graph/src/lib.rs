//! The execution graph: thread states, and the wake-ups between them (G15 §4.3, §5.3.2).
//!
//! [`Builder`] takes events in time order and returns a [`Graph`]. The graph is G15's two-dimensional mesh in
//! compact form. A thread's horizontal edges are a list of state intervals, 16 bytes each, in time order and
//! without gaps, so that a binary search finds any time; a vertical edge is part of the wait that it ended. A
//! CPU's occupancies are a list too, 12 bytes a switch.
//!
//! The graph adds no conclusions to `wakepath-timeline`'s; `wakepath-critical-path` walks it.

mod bookmarks;
mod builder;
mod chunks;
mod dialogue;
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
pub use dialogue::{Dialogue, End, Exchange, Question};
pub use graph::{Graph, Release};
pub use losses::Losses;
pub use occupancy::Occupancy;
pub use samples::Sample;
pub use stacks::{StackAt, StackIndex};
pub use state_interval::{StateInterval, StateIntervals, ThreadState};
pub use stolen::Stolen;
pub use thread::Thread;
pub use wait::WaitIndex;
pub use wakepath_timeline::{
    Completion, ContendedLock, Counts, Cut, Evidence, EvidenceIndex, Late, Loss, Occupant, PacketTimer,
    QueueExit, Received, Sender, Sent, ThreadIndex, TimerPurpose, UnknownReason, Wait, WakeUp, Waker,
};
