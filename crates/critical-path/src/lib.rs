//! Walks the execution graph and says what a window of a thread's time went to.

mod path;

pub use path::{
    Algorithm, Basis, Cause, Kind, LockCause, Path, Problem, Rule, Segment, Severity, Via, Wait, WaitId,
    Window,
};
