//! The traces of other tracers, as events.
//!
//! [`Lttng`] is a directory that LTTng wrote, [`PerfData`] a file of `perf record`, [`TraceDat`] a file of
//! `trace-cmd`. A reader has two layers that do not know each other: one for the tracer's format, which makes
//! [`tracepoint::Record`]s, and the [`normalise::Normaliser`], which makes events of the tracepoints of any
//! tracer: it follows which thread runs on which CPU and in which interrupt, and adds what the tracers of a
//! kernel do not note. perf and trace-cmd share what lies between: `formats` reads the kernel's description of
//! its tracepoints, `plan` reads their fields, `loopback` follows packets by their buffers. `kind` lists the
//! tracepoints that are read, for all three.
//!
//! A new format implements [`wakepath_event::RecordingFormat`] in a module of its own, and is named in the list
//! of formats in `crates/engine/src/source.rs`.

mod damage;
mod error;
mod formats;
mod kind;
mod loopback;
mod lttng;
pub mod normalise;
pub mod perf;
mod plan;
mod synthetic;
pub mod trace_cmd;
pub mod tracepoint;

pub use damage::{Damage, DamageKind, Fault};
pub use error::OpenError;
pub use lttng::{Lttng, wanted};
pub use perf::PerfData;
pub use trace_cmd::TraceDat;

/// Whether the first bytes of the file at `path` are these.
fn file_begins_with(path: &std::path::Path, magic: &[u8]) -> bool {
    let mut begin = vec![0; magic.len()];
    // Opening a pipe would wait for its writer.
    if !path.is_file() {
        return false;
    }
    let file = std::fs::File::open(path);
    let read = file.and_then(|file| wakepath_ctf::Source::read_at(&file, 0, &mut begin));
    read.is_ok_and(|read| begin[..read] == *magic)
}
