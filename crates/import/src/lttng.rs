//! LTTng's traces: CTF 1.8, a directory for the kernel and one for each user's programs.

mod cursor;
mod fields;
mod open;

pub use fields::wanted;
pub use open::Lttng;
