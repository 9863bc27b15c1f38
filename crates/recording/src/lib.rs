//! A recording on disk: a directory whose kernel streams are CTF 1.8.
//!
//! ```text
//! REC/kernel/metadata    what the streams are made of, and whose they are: TSDL text
//! REC/kernel/sched_0     switches and wakings of CPU 0, and so on for each CPU
//! REC/kernel/net_0       packets of CPU 0
//! REC/kernel/life        everything rarer, of all CPUs
//! REC/kernel/life_late   records that came too late for the order of `life`
//! REC/spans              spans that applications sent; only if they were asked for
//! ```
//!
//! A packet is written in one piece and never touched again, so that a writer that is killed
//! leaves all packets but perhaps the last whole, and that one readable as far as it came.

pub mod flight;
mod identity;
mod metadata;
mod place;
mod read;
mod rotate;
mod spans;
mod stream_name;
pub mod synthetic;
mod write;

pub use identity::{ClockReading, this_host};
pub use metadata::FORMAT;
pub use place::Place;
pub use read::{OpenError, ReadFault, ReadProblem, Recording, StreamInfo, read_stream};
pub use rotate::{RotateError, rotate};
pub use spans::{FramesEnd, MAX_FRAME_BYTES, SpanFrames, TornFrame};
pub use wakepath_caller::Caller;
pub use wakepath_event::HostIdentity;
pub use write::{Life, Options, Space, SpanWriter, Stream, WriteError, Writer};
