//! The Common Trace Format, version 1.8: metadata as data and as TSDL text, packets in files.
//!
//! Without kernel knowledge: only clocks, streams, event classes and fields. [`schema`] is a trace's metadata, as
//! data. [`tsdl`] is its text form. [`packet`] frames the events in wakepath's own streams, and [`Packets`] finds
//! them again in a damaged file. [`trace`] is a directory from any tracer, and [`stream`] reads a file from it, event
//! by event, by [`plan`]s made once from the metadata.
//!
//! Every number from a file has a bound, and no input causes a panic.

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
