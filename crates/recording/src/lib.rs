//! A recording on disk: a directory whose kernel streams are CTF 1.8.
//!
//! ```text
//! REC/kernel/metadata    the streams' layouts, and the host: TSDL text
//! REC/kernel/sched_0     switches and wake-ups on CPU 0, and so on for each CPU
//! REC/kernel/net_0       packets on CPU 0
//! REC/kernel/life        all rarer records, for all CPUs
//! REC/kernel/life_late   records that came too late for the order in `life`
//! REC/spans              spans from applications; only on request
//! REC/go_trace_0         a Go program's execution trace, and so on for each program; only on request
//! ```
//!
//! A packet is written in one piece and never touched again: after a killed writer, all packets but perhaps the last
//! are whole, and the last is readable up to its break.

pub mod flight;
mod go_traces;
mod identity;
mod metadata;
mod place;
mod read;
mod rotate;
mod spans;
mod stream_name;
pub mod synthetic;
mod write;

pub use go_traces::{GoTraceFile, MAX_GO_TRACE_BYTES, MAX_GO_TRACES};
pub use identity::{ClockReading, this_host};
pub use metadata::FORMAT;
pub use place::Place;
pub use read::{OpenError, ReadFault, ReadProblem, Recording, StreamInfo, read_stream};
pub use rotate::{RotateError, rotate};
pub use spans::{FramesEnd, MAX_FRAME_BYTES, SpanFrames, TornFrame};
pub use wakepath_caller::Caller;
pub use wakepath_event::HostIdentity;
pub use write::{GoTraceWriter, Life, Options, Space, SpanWriter, Stream, WriteError, Writer};
