//! Latency distributions for a function, system call, lock or device.
//!
//! - [`Histogram`]: exact counts in buckets by factors of two (OSprof; Traeger 2008, chapter 2).
//! - [`peaks`]: the humps that a person sees in a histogram on log scales (section 3.2).
//! - [`percentiles`], with their rank intervals.
//! - [`Measure`]: the distance between two profiles (chapter 9), with an [`evaluation`] of each measure's errors.
//! - [`watch`]: whether a distribution changes while it is counted.
//!
//! Data in, data out: this crate knows no probe, no file and no clock. A latency is a number in its histogram's
//! [`Unit`].

mod by_time;
mod compare;
pub mod evaluation;
mod groups;
mod histogram;
mod peak_changes;
mod peaks;
mod percentiles;
mod shift;
pub mod watch;

pub use by_time::{Sums, estimated_times, slow_strays, slowest_by_time};
pub use compare::{Measure, alike};
pub use groups::{GroupBy, MAX_GROUP_SLICES, MAX_GROUPS};
pub use histogram::{BUCKETS, Histogram, MismatchError, Unit, average_latency, bounds, bucket_of};
pub use peak_changes::{PeakChange, peak_changes, peak_to_explain};
pub use peaks::{Peak, peaks};
pub use percentiles::{Percentile, percentiles};
pub use shift::{Direction, Shift, shift};
