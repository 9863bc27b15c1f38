//! Latency distributions: the latencies that a function, system call, lock or device has.
//!
//! - [`Histogram`]: exact counts in buckets of a factor of two (OSprof; Traeger 2008, chapter 2).
//! - [`peaks`]: the humps that a person sees in one on log scales (section 3.2).
//! - [`Measure`]: how far apart two profiles are (chapter 9), with [`evaluation`] of how often each errs.
//! - [`watch`]: whether a distribution changes while it is counted.
//!
//! Data in, data out: this crate knows no probe, no file and no clock. A latency is a number in the
//! [`Unit`] of its histogram.

mod compare;
pub mod evaluation;
mod groups;
mod histogram;
mod peak_changes;
mod peaks;
pub mod watch;

pub use compare::{Measure, alike};
pub use groups::{GroupBy, MAX_GROUP_SLICES, MAX_GROUPS};
pub use histogram::{BUCKETS, Histogram, MismatchError, Unit, average_latency, bounds, bucket_of};
pub use peak_changes::{PeakChange, peak_changes, peak_to_explain};
pub use peaks::{Peak, peaks};
