//! Latencies counted live on this machine, where the collector is built in.

use std::path::Path;
use std::time::{Duration, SystemTime};

use wakepath_collect::{
    Calibration, Counted, Counts, EndReason as SessionEnd, MAX_DISKS, MAX_TARGETS, RemovedProbes as Removed,
};
use wakepath_distribution::{Histogram, Unit};
use wakepath_recording::this_host;

use wakepath_engine::Host;
use wakepath_engine::latency::live::{EndReason, LiveLatency};
use wakepath_engine::latency::{
    Distribution, LatencySource, OtherProcesses, ProbeCost, RemovedProbes, TimeSlice,
};

pub use wakepath_collect::{Error as CollectError, GRACE, LatencyOptions as Options, Running, Signals};

use crate::command::CommandEnd;

mod error;
mod groups;
mod kernel;
mod other_processes;
mod resolve;
mod target;

pub use error::{KernelRefusal, LiveLatencyError};
pub(crate) use kernel::kernel_functions;
pub(crate) use other_processes::other_processes;
use resolve::{disks, resolve};
pub(crate) use resolve::{is_function, user_functions};
pub(crate) use target::{LiveTarget, Resolved};
pub use wakepath_functions::{AbsenceReason, FindError, Interpreter};

/// The probes allowed by the user besides cheap and safe probes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AllowedProbes {
    /// Probes that the kernel has to single-step, at many times the cost, for a drill-down: whatever they take.
    pub slow_probes: bool,
    /// Return probes where an exception might pass, which would end the program: the user promises that no exception
    /// passes.
    pub no_exceptions: bool,
    /// Stubs in the process, in place of the kernel's probes, for a drill-down.
    pub stubs: bool,
}

/// A request to count latencies live.
#[derive(Debug, Clone, Default)]
pub struct LiveQuery {
    /// The targets, as users write them.
    pub targets: Vec<String>,
    /// The processes and the time; `options.targets` is filled from `targets`.
    pub options: Options,
    /// The allowed probes on functions.
    pub allowed: AllowedProbes,
}

/// The cost of a function's probes, as it was measured.
pub(crate) fn probe_cost(measured: Calibration) -> ProbeCost {
    ProbeCost::new(measured.per_call_ns, measured.shift)
}

/// A function's removed probes, as an answer has them.
pub(crate) const fn removed_probes(removed: Removed) -> RemovedProbes {
    let Removed { after, hits, per_call_ns, share, budget } = removed;
    RemovedProbes { after, calls: hits, per_call_ns, share, budget }
}

/// Counts until the command ends, the time is over or `stop` was asked.
///
/// # Errors
/// When a target cannot be counted, or counting could not begin.
pub fn live_latency(
    query: &LiveQuery,
    stop: &Signals,
) -> Result<(LiveLatency, CommandEnd), LiveLatencyError> {
    let Resolved { targets, refused } = targets(query)?;
    let counted = targets.iter().map(|target| target.counted.clone()).collect();
    let options = Options { targets: counted, ..query.options.clone() };
    let others = other_processes(&targets, &options.processes, &options.command);
    let mut readings = Vec::new();
    let outcome = wakepath_collect::count(&options, stop, &mut |reading| readings.push(reading))?;
    let last = readings.last();
    let elapsed = last.map_or(Duration::ZERO, |last| last.at);
    let unit = if query.options.in_cycles { Unit::Cycles } else { Unit::Nanoseconds };
    let targets = targets.into_iter().enumerate().map(|(index, target)| {
        let of_target = readings.iter().filter_map(|reading| Some((reading.at, reading.counts.get(index)?)));
        let calibration = outcome.calibrations.get(index).copied().flatten();
        let (mut found, slice_of_reading) = distribution(target, of_target, query.options.every, unit);
        found.groups = query.options.by.zip(outcome.groups.get(index)).map(|(by, counted)| {
            let slices = groups::slices(&found.slices, &slice_of_reading, &readings, index, unit);
            groups::groups(by, counted, unit, slices)
        });
        with_costs(&mut found, calibration, others.get(index).cloned().flatten());
        let mut removed = readings.iter().flat_map(|reading| &reading.removed);
        found.removed =
            removed.find(|(target, _)| *target as usize == index).map(|(_, probes)| removed_probes(*probes));
        found
    });
    let began = outcome.began.duration_since(SystemTime::UNIX_EPOCH).ok();
    let latency = LiveLatency {
        host: Host::from(&this_host()),
        began_realtime_ns: began.and_then(|began| u64::try_from(began.as_nanos()).ok()),
        elapsed,
        reason: end_reason(outcome.reason),
        targets: targets.collect(),
        refused,
    };
    Ok((latency, CommandEnd { running: outcome.running, status: outcome.status }))
}

/// The reason why counting ended. Counting writes no recording, so it never lacks room.
pub(crate) const fn end_reason(reason: SessionEnd) -> EndReason {
    match reason {
        SessionEnd::Ended => EndReason::Ended,
        SessionEnd::Duration | SessionEnd::OutOfRoom => EndReason::Duration,
        SessionEnd::Interrupted => EndReason::Interrupted,
        SessionEnd::OverBudget => EndReason::OverBudget,
    }
}

/// A request's targets on this machine, each once.
///
/// # Errors
/// When no target can be counted, a text means nothing, or there are too many.
pub(crate) fn targets(query: &LiveQuery) -> Result<Resolved, LiveLatencyError> {
    let disks = disks(Path::new("/sys/class/block"));
    let texts = query.targets.iter().map(String::as_str);
    let mut found =
        Resolved::all(texts, |text| resolve(text, &disks, &query.options.processes, query.allowed))?;
    let is_call = |target: &LiveTarget| matches!(target.counted, Counted::Call(_));
    let others = found.targets.iter().filter(|target| !is_call(target)).count();
    if found.targets.len() > MAX_TARGETS {
        // The collector has room for all system calls behind the other targets.
        found.targets.sort_by_key(is_call);
    }
    let targets = &found.targets;
    let of_disks = || targets.iter().filter(|target| target.source == LatencySource::DiskRequests);
    for (asked, max) in [(others, MAX_TARGETS), (of_disks().count(), MAX_DISKS)] {
        if asked > max {
            return Err(LiveLatencyError::TooMany { asked, max });
        }
    }
    if let Some(target) = of_disks().next().filter(|_| query.options.by.is_some()) {
        return Err(LiveLatencyError::NotGrouped(target.name.clone()));
    }
    Ok(found)
}

/// Adds the cost of a target's probes, for its own calls and for `others`.
pub(crate) fn with_costs(
    found: &mut Distribution,
    calibration: Option<Calibration>,
    others: Option<OtherProcesses>,
) {
    found.probe = calibration.map(probe_cost);
    let per_call_ns = calibration.map(|calibration| calibration.other_process_ns);
    found.other_processes = others.map(|others| OtherProcesses { per_call_ns, ..others });
}

/// A target's distribution, and the slice index of each reading.
fn distribution<'a>(
    target: LiveTarget,
    readings: impl Iterator<Item = (Duration, &'a Counts)>,
    every: Option<Duration>,
    unit: Unit,
) -> (Distribution, Vec<usize>) {
    let mut found = Distribution::new(target.name, target.source, Histogram::new(unit));
    found.notes = target.notes;
    let mut slice_of_reading = Vec::new();
    let mut from = Duration::ZERO;
    for (to, counts) in readings {
        let whole = Histogram::from_counters(unit, counts.buckets, counts.sum.into());
        let since = whole.minus(&found.histogram);
        // The kernel's counters never decrease.
        if let (Some(every), Ok(since)) = (every, since) {
            match found.slices.last_mut() {
                // A short rest at the end belongs to the last slice.
                Some(last) if to.saturating_sub(from) < every / 10 => {
                    last.to = to;
                    let _ = last.histogram.merge(&since);
                }
                _ => found.slices.push(TimeSlice { from, to, histogram: since }),
            }
        }
        slice_of_reading.push(found.slices.len().saturating_sub(1));
        (from, found.histogram) = (to, whole);
        (found.unwound, found.overflowed) = (counts.unwound, counts.overflowed);
        (found.open, found.unseen) = (counts.open, counts.unseen);
    }
    (found, slice_of_reading)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_the_time_add_up_to_the_whole() {
        let counts = |n: u64| Counts {
            buckets: std::array::from_fn(|bucket| if bucket == 10 { n } else { 0 }),
            sum: n * 1500,
            unwound: 0,
            overflowed: 0,
            open: n,
            unseen: 2 * n,
        };
        let readings = [(1000, counts(5)), (2000, counts(5)), (3000, counts(8)), (3010, counts(9))];
        let readings = readings.iter().map(|(at, counts)| (Duration::from_millis(*at), counts));
        let target = LiveTarget::new("disk", LatencySource::DiskRequests, Counted::Disk(None));
        let (told, of_reading) = distribution(target, readings, Some(Duration::from_secs(1)), Unit::Cycles);
        assert_eq!(of_reading, [0, 1, 2, 2]);
        let parts: Vec<_> =
            told.slices.iter().map(|slice| (slice.to.as_millis(), slice.histogram.calls())).collect();
        assert_eq!(parts, [(1000, 5), (2000, 0), (3010, 4)]);
        assert_eq!((told.histogram.calls(), told.open, told.unseen), (9, 9, 18));
    }
}
