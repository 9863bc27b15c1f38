//! Answers as text for people.

pub(crate) mod calls;
mod comparison;
#[cfg(feature = "collect")]
mod doctor;
mod explain;
mod footer;
mod hangs;
mod info;
mod latency;
mod merged_tree;
mod overview;
mod path;
mod recorded_latency;
mod segments;
mod sync;
mod tree;

pub use calls::calls;
pub use comparison::comparison;
#[cfg(feature = "collect")]
pub use doctor::doctor;
pub use explain::explain;
pub use footer::Source;
pub use info::info;
#[cfg(feature = "collect")]
pub use latency::{elsewhere, latency};
pub use merged_tree::merged;
pub use overview::{candidate, overview};
pub use path::path;
pub use recorded_latency::recorded_latency;
pub use segments::segments;
pub use sync::sync;
pub use tree::tree;

use wakepath_clock::{Reference, Stamp};
use wakepath_engine::Head;

use crate::quantity::duration;
use crate::utc::Utc;
use crate::wording;

/// A range of time as people compare it with logs, and where.
fn when(head: &Head, from: Stamp<Reference>, to: Stamp<Reference>) -> String {
    let host = wording::name(&head.host.name);
    let on = if host.is_empty() { String::new() } else { format!(" on {host}") };
    let Some(origin) = head.origin_realtime_ns else {
        let [from, to] = [from, to].map(|at| duration(at.since(head.origin)));
        return format!("{from} to {to} after the start{on}");
    };
    // Enough decimals to tell the two ends apart by a hundredth of their distance.
    let decimals = match to.since(from) {
        0..100_000 => 9,
        100_000..100_000_000 => 6,
        _ => 3,
    };
    let [from, to] = [from, to].map(|at| Utc::from_ns(origin.saturating_add(at.since(head.origin))));
    let to_date = if from.same_day(to) { String::new() } else { format!("{} ", to.date()) };
    format!("{} {} to {to_date}{} UTC{on}", from.date(), from.time(decimals), to.time(decimals))
}
