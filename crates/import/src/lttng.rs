//! LTTng traces: CTF 1.8, with a directory for the kernel and another for each user's programs.

mod cursor;
mod fields;
mod items;
mod joined;
mod mark_fields;
mod mark_stream;
mod marks;
mod open;

pub use fields::wanted;
pub use open::Lttng;
