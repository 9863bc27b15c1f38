//! `trace.dat`: the file that `trace-cmd record` writes.
//!
//! The file holds the kernel's description of its tracepoints (from tracefs), and for each CPU the pages of its
//! ring buffer as they were. Version 6 has its contents in a row; version 7 has them in sections, which options
//! at its end lead to and which may be compressed. They are read by:
//!
//! - `container`: the places of things, in either version, and what options say of the machine;
//! - `head_reader`: the bytes of that, none of whose sizes is trusted; `compression`: compressed ones;
//! - `pages`: the pages of one CPU; `ring`: one page of the kernel's ring buffer, event by event;
//! - `cpu_reader`: the events and losses of one CPU in order, and the merge of all CPUs by time;
//! - `formats`, `plan`: which tracepoints are read, and how; perf's files use them, too;
//! - `convert`: from tracepoints to events; `open`: the file as a recording.
//!
//! Sources: the pages trace-cmd.dat.v6(5) and trace-cmd.dat.v7(5) of trace-cmd describe the file. The following
//! was found in files: the size of a section has 8 bytes, a buffer's option has the size of its
//! pages in front of its CPUs, and a file of version 6 has the clock behind the table of its CPUs.
//! `include/linux/ring_buffer.h` of Linux describes an event, `events/header_page` and `events/header_event`
//! of tracefs the fields of a page.

mod compression;
mod container;
mod convert;
mod cpu_reader;
mod head_reader;
mod open;
mod pages;
mod ring;
pub mod synthetic;

pub use open::TraceDat;
