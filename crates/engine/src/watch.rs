//! Whether latency distributions change while they are counted: the news, and the summary. `live` watches.

use std::error::Error;
use std::time::Duration;

pub use wakepath_distribution::watch::{Change, Notice, NoticeCounts, Short, Stop, Stretch};
pub use wakepath_distribution::{Histogram, PeakChange, Unit, peak_changes, peak_to_explain};

use crate::Host;
use crate::drill::Drilled;
use crate::latency::live::{EndReason, LiveLatency};
use crate::latency::{Distribution, LatencySource};

/// The most changes in a summary for a target: a screen.
pub const MAX_SUMMARY_CHANGES: usize = 20;

/// A target that is watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedTarget {
    /// Its name.
    pub name: String,
    /// The kind of thing that is counted.
    pub source: LatencySource,
    /// The one process whose function it is; `None` for other targets, and for several processes.
    pub process: Option<u32>,
}

/// A moment of a watch that is worth showing.
#[derive(Debug)]
pub struct WatchNews<'a> {
    /// The machine.
    pub host: &'a Host,
    /// The target.
    pub target: &'a WatchedTarget,
    /// The moment from which times count, ns since 1970 UTC, by what the clock on the wall shows now; `None` where that
    /// is before 1970.
    pub origin_realtime_ns: Option<u64>,
    /// When the counts were read from which it is known.
    pub at: Duration,
    /// The news.
    pub what: WatchEvent<'a>,
}

/// The news of a moment.
#[derive(Debug, Clone, Copy)]
pub enum WatchEvent<'a> {
    /// The rule's.
    Notice(&'a Notice),
    /// The answer of a drill-down into a change's peak.
    Drilled(Result<&'a Drilled, &'a (dyn Error + 'static)>),
}

/// The summary of a watch.
#[derive(Debug, Clone)]
pub struct Watched {
    /// The machine.
    pub host: Host,
    /// The moment from which times count, ns since 1970 UTC.
    pub origin_realtime_ns: Option<u64>,
    /// The time that was watched.
    pub elapsed: Duration,
    /// The number of slices.
    pub slices: u64,
    /// Those that were left out: the probes of a drill-down made their latencies longer.
    pub left_out: u64,
    /// The reason why it ended.
    pub reason: EndReason,
    /// The targets, in the order in which they were asked for.
    pub targets: Vec<TargetSummary>,
}

/// A target at the end of a watch.
#[derive(Debug, Clone)]
pub struct TargetSummary {
    /// Its calls since the last change; its slices are the whole time, at most 64 parts.
    pub distribution: Distribution,
    /// The beginning of these calls.
    pub since: Duration,
    /// The time of these calls that was counted; all time where there were none.
    pub counted: Duration,
    /// The number of changes, short disturbances and stops.
    pub counts: NoticeCounts,
    /// The last changes in order, at most [`MAX_SUMMARY_CHANGES`].
    pub changes: Vec<Change>,
    /// Pieces differ since then, which is not yet a change.
    pub differs_since: Option<Duration>,
    /// There are no calls since then.
    pub stopped_since: Option<Duration>,
}

/// A distribution of a watched target like one that was counted for this time alone: its document can be compared.
pub fn as_latency(news: &WatchNews<'_>, stretch: &Stretch) -> LiveLatency {
    let WatchedTarget { name, source, .. } = news.target;
    let from = u64::try_from(stretch.from.as_nanos()).ok();
    LiveLatency {
        host: news.host.clone(),
        began_realtime_ns: news
            .origin_realtime_ns
            .zip(from)
            .and_then(|(origin, from)| origin.checked_add(from)),
        elapsed: stretch.counted,
        reason: EndReason::Duration,
        targets: vec![Distribution::new(name.clone(), *source, stretch.histogram.clone())],
    }
}
