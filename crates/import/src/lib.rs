//! What other tracers recorded, as events.
//!
//! [`open`] takes a directory that LTTng wrote, [`PerfData`] a file by `perf record`. Behind them are two
//! layers that know nothing of each other's business: a reader of one tracer's format, which gives
//! [`tracepoint::Record`]s, and the [`normalise::Normaliser`], which makes events of the tracepoints of any:
//! it follows who runs where and in which interrupt, and says what the tracers of a kernel leave unsaid.

mod damage;
mod lttng;
pub mod normalise;
pub mod perf;
pub mod tracepoint;

pub use damage::Damage;
pub use lttng::{Host, OpenError, Trace, open, wanted};
pub use perf::{Clock, PerfData, PerfDataError};
