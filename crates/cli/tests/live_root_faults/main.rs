//! What goes wrong while `wakepath record` runs: each ends in a documented exit code and a clear
//! message, and what was written before can be read.

mod buffers;
mod crowd;
mod interrupt;
mod kill;
mod question;
mod room;
