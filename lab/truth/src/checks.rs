//! Checks on a path beyond its sums: its window, names, system calls, and the truth's assertions.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::assertion::{self, BadAssertion};
use crate::document::{PathDocument, Segment, Truth, clip, length};

/// The longest running time outside the truth's window, beyond the running time that the thread's own clock has before it: exec,
/// loader, writing the truth and exit take 1 to 3 ms. Its waits there, for the disk or for a CPU, do not count.
const MAX_ENDS_NS: i64 = 50_000_000;

/// The smallest part whose name and system call are checked, as a fraction of the window.
pub(crate) const WORTH_NAMING: f64 = 0.005;

/// The limits for the checks on names and system calls.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tolerance {
    /// The smallest checked part, ns.
    pub worth_ns: f64,
    /// The unknown time excused by missing events, ns: the path may lack as much.
    pub excused_ns: f64,
}

pub(crate) fn window(truth: &Truth, path: &PathDocument, from: i64, to: i64, slowness: f64) -> Vec<String> {
    let mut violations = Vec::new();
    let (thread, window) = (&truth.window.thread, &path.window);
    if window.tid != Some(thread.tid) || window.comm.as_deref() != Some(thread.comm.as_str()) {
        violations.push(format!(
            "the window belongs to {:?} ({:?}), not to {} ({})",
            window.comm, window.tid, thread.comm, thread.tid
        ));
    }
    if window.from_ns > from || window.to_ns < to {
        violations.push(format!(
            "the window begins {} ns too late and ends {} ns too early for the program's own",
            (window.from_ns - from).max(0),
            (to - window.to_ns).max(0)
        ));
    }
    // Only the thread itself counts: a program that sets up a link waits for kernel threads there.
    let its = |segment: &&Segment| segment.kind == "running" && segment.tid == path.window.tid;
    let ran = |from, to| clip(&path.segments, from, to).iter().filter(its).map(length).sum::<i64>();
    let (before, after) = (ran(path.window.from_ns, from), ran(to, path.window.to_ns));
    let by_its_clock = truth.clocks.before_ns.unwrap_or(0);
    if ((before - by_its_clock).max(0) + after) as f64 > MAX_ENDS_NS as f64 * slowness {
        violations.push(format!(
            "the window has {} ms of running before the program's first line and after its last, of which its own clock has {}",
            (before + after) / 1_000_000,
            by_its_clock / 1_000_000
        ));
    }
    violations
}

pub(crate) fn sentences(truth: &Truth, document: &Value) -> Result<Vec<String>, BadAssertion> {
    let mut violations = Vec::new();
    for sentence in &truth.must {
        if assertion::count(document, sentence)? == 0 {
            violations.push(format!("this must hold and does not: {sentence}"));
        }
    }
    for sentence in &truth.never {
        let count = assertion::count(document, sentence)?;
        if count > 0 {
            violations.push(format!("this must not hold and does {count} times: {sentence}"));
        }
    }
    Ok(violations)
}

fn worth_naming(ns: Option<i64>, worth_ns: f64) -> bool {
    ns.is_none_or(|ns| ns as f64 > worth_ns)
}

/// Checks that each thread with a large enough part has its name in at least one segment. Before a thread sets its
/// name, it has its parent's or its program's.
pub(crate) fn names(truth: &Truth, segments: &[Segment], tolerance: Tolerance) -> Vec<String> {
    let mut violations = BTreeSet::new();
    for part in truth.contributors.iter().filter(|part| worth_naming(part.total_ns, tolerance.worth_ns)) {
        let mut names = segments.iter().filter(|segment| segment.tid == Some(part.thread.tid));
        let Some(first) = names.next() else { continue };
        let is_right = |segment: &Segment| segment.comm.as_deref() == Some(part.thread.comm.as_str());
        if !is_right(first) && !names.any(is_right) {
            let found = first.comm.as_deref().unwrap_or("nothing");
            violations.insert(format!(
                "thread {} has the name `{found}` and never `{}`",
                part.thread.tid, part.thread.comm
            ));
        }
    }
    violations.into_iter().collect()
}

/// Checks that each large enough wait is in the truth's system call, for the same time within that size; it may be
/// shorter by the unknown time excused by missing events, and not longer. A wait for a disk only has to be there,
/// because the path may replace it by kernel threads.
pub(crate) fn calls(
    truth: &Truth,
    segments: &[Segment],
    document: &Value,
    tolerance: Tolerance,
) -> Result<Vec<String>, BadAssertion> {
    let Tolerance { worth_ns, excused_ns } = tolerance;
    let mut violations = Vec::new();
    for part in truth.contributors.iter().filter(|part| worth_naming(part.total_ns, worth_ns)) {
        // Whether the unknown time is long enough for the lacking time.
        let is_excused = |lacking: i64| excused_ns > 0.0 && lacking as f64 <= excused_ns + worth_ns;
        let (Some(call), tid) = (&part.call, part.thread.tid) else { continue };
        if part.kind == "block_device" {
            let count = |list| assertion::count(document, &format!("{list} tid={tid} call={call}"));
            let is_there = count("segments")? + count("waits")? > 0;
            if !is_there && !is_excused(part.total_ns.unwrap_or(0)) {
                violations.push(format!("no wait of {} in {call}", part.thread.comm));
            }
            continue;
        }
        let found: i64 = segments
            .iter()
            .filter(|segment| segment.tid == Some(tid))
            .filter(|segment| segment.kind == part.kind || part.kind == "still_waiting")
            .filter(|segment| segment.call.as_deref() == Some(call))
            .map(length)
            .sum();
        let expected = part.total_ns.unwrap_or(found);
        let differs = worth_naming(Some((found - expected).abs()), worth_ns) || found == 0;
        if differs && !(found < expected && is_excused(expected - found)) {
            violations.push(format!(
                "{} of {} in {call} is {:.3} ms, not {:.3} ms",
                part.kind,
                part.thread.comm,
                found as f64 / 1e6,
                expected as f64 / 1e6
            ));
        }
    }
    Ok(violations)
}
