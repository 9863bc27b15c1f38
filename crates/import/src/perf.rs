//! `perf.data`: what `perf record` writes into a file.
//!
//! A header leads to three things: the attributes of the events that were asked for, the records in the
//! order in which CPUs' buffers were emptied, and sections that describe the machine and the tracepoints'
//! fields. They are read by:
//!
//! - `container`: header, attributes, sections;
//! - `formats`: the tracepoints' fields, as this file describes them, and what its kernel's thread
//!   states are called; nothing of a tracepoint's layout is taken for granted;
//! - `records`: one record;
//! - `runs`: the records' order. Each CPU's are by time, but for a few; the file's are not. A first pass
//!   notes where stretches in order (*runs*) lie, 32 bytes each, and the second merges those that are due.
//!   So memory does not grow with what was recorded, a file without the marks of finished rounds is read
//!   as well as one with them, and a run costs no more memory than it has bytes;
//! - `plan`: which tracepoints are read, and their fields as [`crate::tracepoint`]s;
//! - `tell`: from records to events.

mod container;
mod error;
mod open;
#[cfg(test)]
mod oracle;
mod records;
mod runs;
pub mod synthetic;
mod tell;

pub use crate::Clock;
pub use error::PerfDataError;
pub use open::PerfData;
