//! Goroutines: threads of a second level, which the threads of a Go program run in turns.
//!
//! [`Goroutines`] turns recorded steps into states: a goroutine runs on a thread, waits in a queue of Go's scheduler, is parked, or is in no known
//! state. [`path`] explains a window of a goroutine's time: the active path (G15 Algorithm 5) on two levels. The thread's time while it ran the
//! goroutine is the thread's own path; a park is replaced by the activity of the goroutine that ended it, or by the request that it called.
//!
//! # Evidence and rules
//!
//! * A goroutine leaves a thread by a step: it parks, yields or ends. If records show the thread running another goroutine without such a step, the
//!   first goroutine's state is unknown from the last step that proves it.
//! * A park ends when another goroutine makes the parked goroutine ready. If a thread runs it without that, Go's poller found it ready, or the
//!   scheduler did by itself; the time is not known, so all of that time is the park's.
//! * Behind a loss of records, no state is known until a step proves it.
//! * A goroutine whose first record is a thread taking it from a queue was started by its parent; it was in a queue while the parent was in no state
//!   to start it.

mod called;
#[cfg(test)]
mod drawn;
mod path;
mod states;

pub use called::{Called, Callee, Calls, NoCalls};
pub use path::{GoPath, GoWait, GoWindow, path};
pub use states::{
    Goroutine, GoroutineIndex, Goroutines, Interval, Park, ParkEnd, Process, State, Step, ThreadOf, Unseen,
};
