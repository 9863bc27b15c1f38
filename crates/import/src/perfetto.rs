//! Perfetto's traces, with the kernel's events from ftrace.
//!
//! A trace is a sequence of packets, as protocol buffers. A bundle in a packet has a CPU's events, by time;
//! bundles of several CPUs overlap, and may come late. The first pass makes an index of the bundles; the second reads
//! each bundle when its first event is due, so that memory grows by some bytes for each bundle.
//!
//! - `wire`: protocol buffers' encoding;
//! - `container`: a file's packets, compressed or not;
//! - `bundle`: a bundle's events, by time; `fields`: an event's fields, as a tracepoint;
//! - `survey`: the first pass; `merge`: the bundles by time; `convert`: from items to events; `open`: the file as a recording.
//!
//! Source: the field numbers in Perfetto's `protos/perfetto/trace`.

mod bundle;
mod container;
mod convert;
mod fields;
#[cfg(test)]
mod limits;
mod merge;
mod open;
mod survey;
pub mod synthetic;
mod wire;

pub use open::PerfettoTrace;
