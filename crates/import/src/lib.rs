//! What other tracers recorded, as events.
//!
//! [`open`] takes a directory that LTTng wrote, [`PerfData`] a file by `perf record`, [`TraceDat`] one by
//! `trace-cmd`. Behind them are two layers that know nothing of each other's business: a reader of one
//! tracer's format, which gives [`tracepoint::Record`]s, and the [`normalise::Normaliser`], which makes events
//! of the tracepoints of any: it follows who runs where and in which interrupt, and says what the tracers of a
//! kernel leave unsaid. What perf and trace-cmd share lies between: `formats` reads how the kernel describes
//! its tracepoints, `plan` how their fields are read, `loopback` follows packets by their buffers.

mod clock;
mod damage;
mod formats;
mod loopback;
mod lttng;
pub mod normalise;
pub mod perf;
mod plan;
mod synthetic;
pub mod trace_cmd;
pub mod tracepoint;

pub use clock::Clock;
pub use damage::{Damage, DamageKind, Fault};
pub use lttng::{Host, OpenError, Trace, open, wanted};
pub use perf::{PerfData, PerfDataError};
pub use trace_cmd::{TraceDat, TraceDatError};
