//! The Common Trace Format, version 1.8: metadata as data and as TSDL text, packets in files.
//!
//! Knows no kernel: only clocks, streams, event classes and fields. [`schema`] is a trace's metadata, as data.
//! [`tsdl`] is its text form. [`packet`] frames the events of our own streams, and [`Packets`] finds them again in
//! a damaged file. [`trace`] is a directory
//! that any tracer wrote, and [`stream`] reads one file of it, event by event, by [`plan`]s that are made
//! once from the metadata.
//!
//! Reads no number from a file without a bound, and never panics on what it reads.

pub mod packet;
mod packets;
pub mod plan;
pub mod schema;
mod signature;
pub mod stream;
pub mod trace;
pub mod tsdl;
mod window;

pub use packets::{Fault, FaultKind, Finding, PacketAt, Packets};
pub use window::{Source, Window};
