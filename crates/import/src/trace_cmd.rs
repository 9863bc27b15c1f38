//! `trace.dat`: the file that `trace-cmd record` writes.
//!
//! The file holds the kernel's description of its tracepoints (from tracefs), and each CPU's ring buffer pages
//! unchanged. Version 6 has its contents in a fixed order; version 7 has them in sections, which may be compressed,
//! and to which options at its end lead. They are read by:
//!
//! - `container`: the layout in either version, and the options' facts about the machine;
//! - `cut`: the pages in a version 7 file without their places;
//! - `head_reader`: the bytes in front of the pages, with no trust in their sizes; `compression`: compressed bytes;
//! - `pages`: a CPU's pages; `ring`: a page of the kernel's ring buffer, event by event;
//! - `cpu_reader`: a CPU's events and losses in order, and the merge of all CPUs by time;
//! - `formats`, `plan`: the tracepoints to read, and their fields; perf's files use them, too;
//! - `convert`: from tracepoints to events; `open`: the file as a recording.
//!
//! Sources: trace-cmd's pages trace-cmd.dat.v6(5) and trace-cmd.dat.v7(5) describe the file. Files show the following
//! beyond them: a section's size has 8 bytes, a buffer's option has its page size in front of its CPUs, and a version
//! 6 file has the clock behind its CPU table. Linux's `include/linux/ring_buffer.h` describes an event, tracefs's
//! `events/header_page` and `events/header_event` a page's fields.

mod compression;
mod container;
mod convert;
mod cpu_reader;
mod cut;
mod head_reader;
mod open;
mod pages;
mod ring;
pub mod synthetic;

pub use open::TraceDat;
