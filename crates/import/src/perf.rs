//! `perf.data`: the file that `perf record` writes.
//!
//! A header leads to three parts: the requested events' attributes, the records in the order in which perf emptied
//! the CPUs' buffers, and sections that describe the machine and the tracepoints' fields. They are read by:
//!
//! - `container`: header, attributes, sections, and the place where a file was cut; `pipe`: the same parts of a stream;
//! - `formats`: the tracepoints' fields, as this file describes them, and the names of its kernel's thread states; no
//!   tracepoint layout is assumed;
//! - `records`: a record;
//! - `runs`: the records' order. Each CPU's records are in time order, but for a few; the file's are not. A first pass notes
//!   the places of ordered stretches (*runs*), 32 bytes each, and the second merges the due runs. So memory does not grow
//!   with the recording, a file does not need the marks of finished rounds, and a run takes no more memory than its bytes;
//! - `compressed`: compressed records, in memory;
//! - `proof`: the switches in a cut file, which lacks the descriptions;
//! - `first_pass`: the first pass over the records; `contents`: the facts for their conversion; `refusal`: why there are no switches;
//! - `parts`: the files into which `perf record --switch-output` divides a recording; `edges`: whether a part follows another;
//!   `joined`: all parts together;
//! - `plan`: the tracepoints to read, and their fields as [`crate::tracepoint`]s;
//! - `convert`: from records to events; `open`: the file as a recording.

mod compressed;
mod container;
mod contents;
mod convert;
mod edges;
mod first_pass;
mod joined;
mod open;
#[cfg(test)]
mod oracle;
mod parts;
mod pipe;
mod proof;
mod records;
mod refusal;
mod runs;
pub mod synthetic;

pub use open::PerfData;
pub use parts::by_run;
