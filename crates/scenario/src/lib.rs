//! Made-up machines with known truth, for tests of the code that explains real machines.
//!
//! * [`event`], [`identity`], [`packet`] and [`request`]: an event, a thread, a packet, a disk request;
//! * [`arbitrary`]: any event that a record can hold, for property tests;
//! * [`draw`]: a drawing of threads in ASCII, a column per time step;
//! * [`text`]: a trace in lines that a person can write and read, as in `cases/`;
//! * [`simulate`]: programs run by a small scheduler.
//!
//! All give events as a recorder would: this crate knows nothing about graphs and paths, so a test's truth
//! never comes from the tested code.

pub mod arbitrary;
mod drawing;
mod event;
pub mod simulate;
pub mod text;

pub use drawing::{Drawing, STEP, draw};
pub use event::{event, identity, packet, request};
