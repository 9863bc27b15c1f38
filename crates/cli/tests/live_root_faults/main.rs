//! Failures while `wakepath record` runs: each ends with a documented exit code and a clear message, and what was
//! written before can be read.

mod buffers;
mod crowd;
mod interrupt;
mod kill;
mod question;
mod room;
