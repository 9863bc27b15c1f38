//! Checks on a single document, before its comparison with another.

use std::collections::BTreeMap;

use crate::document::{PathDocument, Truth};
use crate::either;

/// The largest difference between a truth's window and its contributors' sum, as a fraction. They are cut out of the
/// window, but a figure from another source (a cgroup's throttled time) is read a little earlier or later.
const MAX_GAP: f64 = 0.002;

/// The largest difference between the main thread's running time by its log and by its CPU clock, as a fraction of the
/// window. The clock leaves out stolen time, which the log has as running.
const MAX_CLOCK_DIFFERENCE: f64 = 0.005;

/// The longest blocked time that the threads' log has as work, as a fraction of the window.
const MAX_UNAWARE: f64 = 0.001;

/// The longest time without an order in the log, as a fraction of the window: as much may be charged to another
/// contributor, and it is half of a path's limit.
const MAX_UNORDERED: f64 = 0.005;

/// A truth's contradictions with itself, in sentences. A truth with any contradiction cannot judge a path: on a very
/// busy machine the program did other things than it measures. On a machine slower by `slowness`, the program and its
/// clock are read further apart by that factor.
pub fn truth(truth: &Truth, slowness: f64) -> Vec<String> {
    let mut violations = Vec::new();
    for part in truth.contributors.iter().filter(|part| part.total_ns.is_some_and(|ns| ns < 0)) {
        violations.push(format!("the truth has a negative time of {} for {}", part.kind, part.thread.comm));
    }
    let Some(to_ns) = truth.window.to_ns else { return violations };
    let window = (to_ns - truth.window.from_ns) as f64;
    let sum: i64 = truth.contributors.iter().filter_map(|part| part.total_ns).sum();
    if (sum as f64 - window).abs() > MAX_GAP * window {
        violations.push(format!("the truth's parts sum to {sum} ns, its window is {window} ns"));
    }
    violations.extend(either::contradictions(&truth.either, MAX_GAP * window));
    if truth.clocks.unawares_ns as f64 > MAX_UNAWARE * window {
        violations.push(format!(
            "the program was blocked for {} ns that its account has as work",
            truth.clocks.unawares_ns
        ));
    }
    if truth.clocks.unordered_ns as f64 > MAX_UNORDERED * window {
        violations.push(format!(
            "{} ns of the program's account are in no certain order",
            truth.clocks.unordered_ns
        ));
    }
    // Stolen time during a wait for a disk counts as the disk's, so the first step of the coarse stolen-time clock is
    // too much.
    if truth.clocks.stolen_ns > 0 && truth.contributors.iter().any(|part| part.kind == "block_device") {
        violations.push(format!("the hypervisor stole {} ns during disk waits", truth.clocks.stolen_ns));
    }
    // A server also ran beside its requests.
    let ran = truth.contributors.iter().filter(|part| ["running", "beside"].contains(&part.kind.as_str()));
    let ran = ran.filter(|part| part.thread.tid == truth.window.thread.tid);
    let (account, clock) = (ran.filter_map(|part| part.total_ns).sum::<i64>(), truth.clocks.running_ns);
    if (account - clock).abs() as f64 > MAX_CLOCK_DIFFERENCE * slowness * window {
        violations.push(format!(
            "the main thread ran for {account} ns by its account, for {clock} ns by its clock"
        ));
    }
    violations
}

/// The same check on the program's waits for a CPU that the kernel did not count; `None` if they are short enough.
pub fn uncounted(ns: i64, window_ns: i64) -> Option<String> {
    let is_too_much = ns as f64 > MAX_UNORDERED * window_ns as f64;
    is_too_much.then(|| {
        format!("the kernel did not count {ns} ns for which the program's threads waited for a CPU as they were about to sleep")
    })
}

/// A path's errors in itself: parts that do not add up to the nanosecond, and records lost by its recorder. A switch
/// unreported by the kernel is no error: some kernels hide the switches of some threads.
pub fn path(path: &PathDocument) -> Vec<String> {
    let mut violations = Vec::new();
    let mut at = path.window.from_ns;
    for segment in &path.segments {
        if segment.from_ns != at || segment.to_ns < segment.from_ns {
            violations.push(format!(
                "the segments do not tile the window: one ends at {at} and the next is {}..{}",
                segment.from_ns, segment.to_ns
            ));
            break;
        }
        at = segment.to_ns;
    }
    if violations.is_empty() && at != path.window.to_ns {
        violations.push(format!("the segments end at {at}, the window at {}", path.window.to_ns));
    }
    let mut sums: BTreeMap<(Option<u32>, &str), i64> = BTreeMap::new();
    for segment in &path.segments {
        *sums.entry((segment.tid, &segment.kind)).or_default() += segment.to_ns - segment.from_ns;
    }
    for part in &path.contributors {
        *sums.entry((part.tid, &part.kind)).or_default() -= part.total_ns;
    }
    for ((tid, kind), ns) in sums.into_iter().filter(|&(_, ns)| ns != 0) {
        violations.push(format!("segments and contributors differ by {ns} ns in {kind} of {tid:?}"));
    }
    let shares: f64 = path.contributors.iter().map(|part| part.share).sum();
    if (shares - 1.0).abs() > 1e-9 {
        violations.push(format!("the shares sum to {shares}"));
    }
    let reported = path.losses.iter().filter(|loss| loss.reported).count();
    if reported > 0 {
        violations.push(format!(
            "the recorder lost records in {reported} places; it must not under so little load"
        ));
    }
    violations
}
