//! One function per question: what the command line, and every other shell, asks for.
//!
//! The engine never prints and never serialises: it returns data ([`PathAnswer`] and its siblings)
//! that `report` turns into text, JSON or a Perfetto trace.

mod answer;
mod contributors;
mod name;
mod names;
mod survey;

pub use answer::{Cost, Head, Host, PathAnswer, Question};
pub use contributors::{Contributor, Responsible, contributors};
pub use name::Name;
pub use names::{CallName, CpuLimit, Names, Object, Peer, Unit, waits_for_work};
pub use survey::{Command, Counts, Loss, Sample, Session, Survey};
