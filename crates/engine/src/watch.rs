//! Whether latency distributions change while they are counted: the news, and the summary. `live` watches.

use std::error::Error;
use std::time::Duration;

pub use wakepath_distribution::watch::{Alarm, Change, Notice, NoticeCounts, Short, Stop, Stretch};
pub use wakepath_distribution::{
    Direction, Histogram, PeakChange, Unit, peak_changes, peak_to_explain, shift,
};

use crate::Host;
use crate::drill::Drilled;
use crate::latency::live::{EndReason, LiveLatency};
use crate::latency::{Distribution, LatencySource, RemovedProbes};

/// The most changes in a summary for a target: a screen.
pub const MAX_SUMMARY_CHANGES: usize = 20;

/// A watched target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedTarget {
    /// The name.
    pub name: String,
    /// The kind of latency.
    pub source: LatencySource,
    /// A function target's process; `None` for other targets, and for several processes.
    pub process: Option<u32>,
}

/// An event in a watch, to be shown.
#[derive(Debug)]
pub struct WatchNews<'a> {
    /// The machine.
    pub host: &'a Host,
    /// The target.
    pub target: &'a WatchedTarget,
    /// The origin of times, ns since 1970 UTC, by the present wall clock; `None` if it is before 1970.
    pub origin_realtime_ns: Option<u64>,
    /// The time of the reading with this news, since the origin.
    pub at: Duration,
    /// The news.
    pub what: WatchEvent<'a>,
}

/// News by kind.
#[derive(Debug, Clone, Copy)]
pub enum WatchEvent<'a> {
    /// A notice from the rule.
    Notice(&'a Notice),
    /// The target cannot be watched, while others are: the reason.
    Refused(&'a str),
    /// The target's probes were removed: it is not watched any more.
    Removed(&'a RemovedProbes),
    /// A drill-down's answer about a change's peak.
    Drilled(Result<&'a Drilled, &'a (dyn Error + 'static)>),
}

/// A watch's summary.
#[derive(Debug, Clone)]
pub struct Watched {
    /// The machine.
    pub host: Host,
    /// The origin of times, ns since 1970 UTC.
    pub origin_realtime_ns: Option<u64>,
    /// The watched time.
    pub elapsed: Duration,
    /// The number of slices.
    pub slices: u64,
    /// The number of slices left out: a drill-down's probes made their latencies longer.
    pub left_out: u64,
    /// The reason for the end.
    pub reason: EndReason,
    /// The targets, in the request's order.
    pub targets: Vec<TargetSummary>,
}

/// A target at a watch's end.
#[derive(Debug, Clone)]
pub struct TargetSummary {
    /// Its calls since the last change; its slices cover the whole time, in at most 64 parts.
    pub distribution: Distribution,
    /// The time from which on these calls count.
    pub since: Duration,
    /// These calls' counted time; the whole time without calls.
    pub counted: Duration,
    /// The number of changes, short disturbances and stops.
    pub counts: NoticeCounts,
    /// The last changes in order, at most [`MAX_SUMMARY_CHANGES`].
    pub changes: Vec<Change>,
    /// The time since which pieces differ, which is not yet a change.
    pub differs_since: Option<Duration>,
    /// The time since which no calls came.
    pub stopped_since: Option<Duration>,
}

/// A watched target's distribution for a stretch, in the form of a separate count over this time: its document can be compared.
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
        refused: Vec::new(),
    }
}
