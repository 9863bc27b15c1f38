//! `trace.dat`: what `trace-cmd record` writes.
//!
//! The file holds what the kernel's tracefs says of its tracepoints, and of each CPU the pages of its ring
//! buffer as they were. Versions 6 and 7 differ in where things stand: the older one has them in a row, the
//! newer one in sections, which options at its end lead to and which may be compressed. They are read by:
//!
//! - `container`: where things are, of either version, and what is said of the machine;
//! - `head`: the bytes of that, none of whose sizes is believed;
//! - `ring`: a page of the kernel's ring buffer, event by event;
//! - `lane`: the pages of one CPU, whose events are in order, and what was lost among them;
//! - `formats`, `plan`: which tracepoints are read, and how; they are perf's, too;
//! - `tell`: from the lanes, merged by time, to events.
//!
//! Sources: the pages trace-cmd.dat.v6(5) and trace-cmd.dat.v7(5) of trace-cmd describe the file. What they
//! leave out was found in files: the size of a section has 8 bytes, a buffer's option tells the size of its
//! pages in front of its CPUs, and a file of version 6 has the clock behind the table of its CPUs.
//! `include/linux/ring_buffer.h` of Linux describes an event, `events/header_page` and `events/header_event`
//! of tracefs where a page has what.

mod container;
mod error;
mod head;
mod lane;
mod open;
mod packed;
mod ring;
pub mod synthetic;
mod tell;

pub use error::TraceDatError;
pub use open::TraceDat;
