//! The answer of counting live on this machine. `live` counts.

use std::time::Duration;

use super::Distribution;
use crate::Host;

/// The reason why counting ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// The command, or all processes asked about, ended.
    Ended,
    /// The requested time was over.
    Duration,
    /// A signal asked to stop.
    Interrupted,
}

/// The counted latencies.
#[derive(Debug, Clone)]
pub struct LiveLatency {
    /// The machine.
    pub host: Host,
    /// When counting began, ns since 1970 UTC; `None` where the clock is before that.
    pub began_realtime_ns: Option<u64>,
    /// The counted time.
    pub elapsed: Duration,
    /// The reason why counting ended.
    pub reason: EndReason,
    /// The distributions, in the order in which their targets were asked for.
    pub targets: Vec<Distribution>,
}
