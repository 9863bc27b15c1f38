//! One function per question: what the command line, and every other shell, asks for.
//!
//! The engine never prints and never serialises: it returns data ([`PathAnswer`] and its siblings)
//! that `report` turns into text, JSON or a Perfetto trace.

mod answer;
mod moment;
mod name;
mod names;
mod recorded;
mod responsible;
mod survey;
#[cfg(test)]
mod testing;

pub use answer::{Cost, Head, Host, PathAnswer, Question};
pub use moment::{Moment, NoMoment, NoRealtime, duration};
pub use name::Name;
pub use names::{CallName, CpuLimit, Names, Object, Peer, Unit, waits_for_work};
pub use recorded::{Recorded, Who};
pub use responsible::Responsible;
pub use survey::{Command, Counts, Session, Survey};
