//! A recording and its spans, brought together: which thread worked for which request, at every moment.
//!
//! [`join`] reads all facts about spans' threads: their hosts and clocks ([`Places`]), the contexts published by threads
//! ([`Contexts`]), the goroutines in which spans began ([`SpanGoroutines`]), and connections ([`Connections`]). A path then leads through
//! requests: [`task_path`] follows a request's turns in an event loop, [`InServices`] knows the handed-over work, and [`Joined::blame`] the
//! requests that blocked the path's own request; [`Joined::perhaps_blocked_by`] is for undecided time. [`Joined::arrival`] is when its data came, before its span.
//!
//! It makes no text, and opens no file.

mod arrival;
mod begun;
mod blame;
mod called;
mod calls;
mod connection;
mod contexts;
mod facts;
mod hand_over;
mod join;
mod meanwhile;
mod model;
mod noted;
mod operations;
mod places;
mod process;
mod readings;
mod span_clock;
mod tasks;
#[cfg(any(test, feature = "testing"))]
#[allow(missing_docs, clippy::missing_panics_doc, reason = "for tests")]
pub mod testing;

pub use arrival::Arrival;
pub use begun::{SpanGoroutines, goroutines};
pub use blame::{Blame, BlockedBy, BlockedByMissing, Blocker, Piece, blame};
pub use called::CalledRequest;
pub use connection::Connections;
pub use contexts::Contexts;
pub use facts::{DiskAccesses, RequestState, StateSum};
pub use hand_over::{InServices, Turn, path_handed_over, turns};
pub use join::{Joined, join, joined_by};
pub use model::{JoinedBy, NoTimeOfDay, RequestStint, Traced, Worked};
pub use noted::noted_turns;
pub use places::Places;
pub use process::{SaidAttribute, SaidService};
pub use span_clock::{SpanClock, SpanOffset};
pub use tasks::{InLoop, TaskPath, task_path};
