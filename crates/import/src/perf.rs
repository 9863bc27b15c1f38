//! `perf.data`: the file that `perf record` writes.
//!
//! A header leads to three things: the attributes of the events that were asked for, the records in the
//! order in which CPUs' buffers were emptied, and sections that describe the machine and the tracepoints'
//! fields. They are read by:
//!
//! - `container`: header, attributes, sections;
//! - `formats`: the tracepoints' fields, as this file describes them, and the names of its kernel's thread
//!   states; no layout of a tracepoint is assumed;
//! - `records`: one record;
//! - `runs`: the order of the records. Those of each CPU are in order of time, but for a few; those of the file
//!   are not. A first pass notes the places of stretches in order (*runs*), 32 bytes each, and the second merges
//!   those that are due. So memory does not grow with what was recorded, a file without the marks of finished
//!   rounds is read as well as one with them, and a run costs no more memory than it has bytes;
//! - `contents`: the first pass, and what converting the records needs to know;
//! - `plan`: which tracepoints are read, and their fields as [`crate::tracepoint`]s;
//! - `convert`: from records to events; `open`: the file as a recording.

mod container;
mod contents;
mod convert;
mod open;
#[cfg(test)]
mod oracle;
mod records;
mod runs;
pub mod synthetic;

pub use open::PerfData;
