//! Goroutines: threads of a second level, which the threads of a Go program run in turns.
//!
//! [`Goroutines`] turns the steps that a recorder saw into states: a goroutine runs on a thread, waits in a queue of Go's
//! scheduler, is parked, or is in no known state. [`path`] explains a window of a goroutine's time: the active path (G15 Algorithm
//! 5) on two levels. The thread's time while it ran the goroutine is that thread's own path; a park is replaced by what
//! the goroutine did that ended it.
//!
//! # Evidence and rules
//!
//! * A goroutine leaves a thread by a step: it parks, yields or ends. Where a thread is seen to run another one without
//!   such a step, the first one's state is unknown from the last step that proves it.
//! * A park ends where another goroutine makes the parked one ready. Where a thread runs it without that, Go's poller
//!   found it ready, or the scheduler did by itself; when, is not known, so that all of that time is the park's.
//! * Behind a loss of records, no state is known until a step proves it.
//! * A goroutine that is first seen where a thread takes it from a queue was started by its parent; it was in a queue while
//!   the parent was in no state to start it.

#[cfg(test)]
mod drawn;
mod path;
mod states;

pub use path::{GoPath, GoWait, GoWindow, path};
pub use states::{
    Goroutine, GoroutineIndex, Goroutines, Interval, Park, ParkEnd, Process, State, Step, ThreadOf,
};
