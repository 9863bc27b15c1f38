//! The answer from counting live on this machine. `live` counts.

use std::time::Duration;

use super::{Distribution, RefusedTarget};
use crate::Host;

/// The reason why counting ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// The command, or all target processes, ended.
    Ended,
    /// The requested time was over.
    Duration,
    /// A signal asked to stop.
    Interrupted,
    /// No target had probes any more: they took more than their budget.
    OverBudget,
}

/// The counted latencies.
#[derive(Debug, Clone)]
pub struct LiveLatency {
    /// The machine.
    pub host: Host,
    /// The start of counting, ns since 1970 UTC; `None` if the clock is before 1970.
    pub began_realtime_ns: Option<u64>,
    /// The counted time.
    pub elapsed: Duration,
    /// The reason why counting ended.
    pub reason: EndReason,
    /// The distributions, in the request's order.
    pub targets: Vec<Distribution>,
    /// The refused targets; a pattern's functions separately.
    pub refused: Vec<RefusedTarget>,
}
