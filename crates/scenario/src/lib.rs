//! Made-up machines whose truth is known, for tests of what explains real ones.
//!
//! * [`event`], [`identity`], [`packet`] and [`request`]: one event, one thread, one packet, one disk request;
//! * [`arbitrary`]: any event that a record can hold, for property tests;
//! * [`draw`]: a drawing of threads in ASCII, one column a step of time;
//! * [`text`]: a trace in lines that a person can write and read, as `cases/` has them;
//! * [`simulate`]: programs run by a small scheduler.
//!
//! All give events as a recorder would: this crate knows nothing of graphs and paths, so that a
//! test's truth never comes from what it tests.

pub mod arbitrary;
mod drawing;
mod event;
pub mod simulate;
pub mod text;

pub use drawing::{Drawing, STEP, draw};
pub use event::{event, identity, packet, request};
