//! Other tracers' traces, as events.
//!
//! [`Lttng`] is a directory from LTTng, [`PerfData`] a file from `perf record`, [`TraceDat`] a file from `trace-cmd`,
//! [`PerfettoTrace`] a trace from Perfetto,
//! [`TextTrace`] the text that these two print, or ftrace.
//! A reader has two independent layers: the tracer's format, read into [`tracepoint::Record`]s, and the
//! [`normalise::Normaliser`], which converts any tracer's tracepoints into events: it follows each CPU's thread and
//! interrupts, and adds facts that kernel tracers do not note. perf and trace-cmd share the steps in between:
//! `formats` reads the kernel's description of its tracepoints, `plan` reads their fields, `loopback` follows packets
//! by their buffers. `kind` lists the tracepoints to read, for all three.
//!
//! A new format implements [`wakepath_event::RecordingFormat`] in its own module, and joins the list of formats in
//! `crates/engine/src/source.rs`.

mod damage;
mod error;
mod formats;
mod kind;
mod loopback;
mod lttng;
mod newborn;
pub mod normalise;
pub mod perf;
pub mod perfetto;
mod plan;
mod synthetic;
mod text;
mod thread_names;
pub mod trace_cmd;
pub mod tracepoint;

pub use damage::Fault;
pub use error::OpenError;
pub use lttng::{Lttng, wanted};
pub use perf::PerfData;
pub use perfetto::PerfettoTrace;
pub use text::TextTrace;
pub use trace_cmd::TraceDat;

/// Whether the file at `path` begins with these bytes.
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
