//! What a path must be beside close in its sums: about the right window, under the right names, in the
//! right system calls, and true to the truth's sentences.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::assertion::{self, BadAssertion};
use crate::compare::{clip, length};
use crate::document::{PathDocument, Segment, Truth};

/// For how much longer than the truth's window the thread may run at its two ends: exec, loader, the
/// truth's writing down and exit take 1 to 3 ms. How long it waits there, for a disk from which it is
/// loaded or for a CPU, is the machine's affair.
const ENDS_NS: i64 = 50_000_000;

/// A part smaller than this need not be named right to be called right: 0.5% of the window.
pub(crate) const WORTH_NAMING: f64 = 0.005;

pub(crate) fn window(truth: &Truth, path: &PathDocument, from: i64, to: i64, slowness: f64) -> Vec<String> {
    let mut violations = Vec::new();
    let (thread, window) = (&truth.window.thread, &path.window);
    if window.tid != Some(thread.tid) || window.comm.as_deref() != Some(thread.comm.as_str()) {
        violations.push(format!(
            "the window is of {:?} ({:?}), not of {} ({})",
            window.comm, window.tid, thread.comm, thread.tid
        ));
    }
    if window.from_ns > from || window.to_ns < to {
        violations.push(format!(
            "the window begins {} ns and ends {} ns inside of the program's own",
            (window.from_ns - from).max(0),
            (to - window.to_ns).max(0)
        ));
    }
    // The thread itself: a program that sets up a link waits there for the kernel's own threads.
    let its = |segment: &&Segment| segment.kind == "running" && segment.tid == path.window.tid;
    let ran: i64 = path.segments.iter().filter(its).map(length).sum();
    let inside = clip(&path.segments, from, to);
    let ran_inside: i64 = inside.iter().filter(its).map(length).sum();
    if (ran - ran_inside) as f64 > ENDS_NS as f64 * slowness {
        violations.push(format!(
            "the window has {} ms of running before the program's first line and after its last",
            (ran - ran_inside) / 1_000_000
        ));
    }
    violations
}

pub(crate) fn sentences(truth: &Truth, document: &Value) -> Result<Vec<String>, BadAssertion> {
    let mut violations = Vec::new();
    for sentence in &truth.must {
        if assertion::count(document, sentence)? == 0 {
            violations.push(format!("must be, and is not: {sentence}"));
        }
    }
    for sentence in &truth.never {
        let count = assertion::count(document, sentence)?;
        if count > 0 {
            violations.push(format!("must never be, and is {count} times: {sentence}"));
        }
    }
    Ok(violations)
}

fn worth_naming(ns: Option<i64>, worth_ns: f64) -> bool {
    ns.is_none_or(|ns| ns as f64 > worth_ns)
}

/// A thread that the truth finds worth naming is called so somewhere: before it has named itself it is
/// called as who made it, or as what it executed.
pub(crate) fn names(truth: &Truth, segments: &[Segment], worth_ns: f64) -> Vec<String> {
    let mut violations = BTreeSet::new();
    for part in truth.contributors.iter().filter(|part| worth_naming(part.total_ns, worth_ns)) {
        let mut names = segments.iter().filter(|segment| segment.tid == Some(part.thread.tid));
        let Some(first) = names.next() else { continue };
        let is_right = |segment: &Segment| segment.comm.as_deref() == Some(part.thread.comm.as_str());
        if !is_right(first) && !names.any(is_right) {
            let found = first.comm.as_deref().unwrap_or("nothing");
            violations.insert(format!(
                "thread {} is called `{found}`, never `{}`",
                part.thread.tid, part.thread.comm
            ));
        }
    }
    violations.into_iter().collect()
}

/// A wait that the truth finds worth naming is in the truth's system call: for as long, give or take
/// what is not worth naming; for a disk, whose wait may be resolved into kernel threads, at all.
pub(crate) fn calls(
    truth: &Truth,
    segments: &[Segment],
    document: &Value,
    worth_ns: f64,
) -> Result<Vec<String>, BadAssertion> {
    let mut violations = Vec::new();
    for part in truth.contributors.iter().filter(|part| worth_naming(part.total_ns, worth_ns)) {
        let (Some(call), tid) = (&part.call, part.thread.tid) else { continue };
        if part.kind == "block_device" {
            let said = |list| assertion::count(document, &format!("{list} tid={tid} call={call}"));
            if said("segments")? + said("waits")? == 0 {
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
        if worth_naming(Some((found - expected).abs()), worth_ns) || found == 0 {
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
