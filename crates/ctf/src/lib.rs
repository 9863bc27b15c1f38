//! The Common Trace Format, versions 1.8 and 2: metadata as data, as TSDL text and as JSON, packets in files.
//!
//! Without kernel knowledge: only clocks, streams, event classes and fields. [`schema`] is a trace's metadata, as
//! data. [`tsdl`] is its text form in CTF 1.8, [`json`] in CTF 2. [`packet`] frames the events in wakepath's own streams, and [`Packets`] finds
//! them again in a damaged file. [`trace`] is a directory from any tracer, and [`stream`] reads a file from it, event
//! by event, by [`plan`]s made once from the metadata.
//!
//! Every number from a file has a bound, and no input causes a panic.

pub mod json;
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
