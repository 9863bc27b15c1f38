//! Waits with two readings in a program's log, and the choice between them.
//!
//! A program that polls in short time-outs does not know how the last poll of a series ended. The poll may have slept until the
//! event, or it may have found the event as it timed out, or at once, without sleeping: then a trace has all polls of the series
//! as time-outs, and no event says that they were a single wait. Only the kernel knows, and the recorder asks it. So the log has
//! both readings for each series that the program's stamps do not decide, and a path must have either: it is compared with the
//! nearer reading. This excuses no path without either reading, nor a path that differs where the stamps decide.

use std::collections::BTreeMap;

use crate::document::{Either, PathDocument, Segment, Truth, TruthPart, clip, length};

/// The longest time with two readings in the log, as a fraction of the window. With more, a path with all time-outs
/// alike, right or wrong, would be compared with its own choice for most of the window.
pub(crate) const MAX_EITHER: f64 = 0.5;

/// In each time with two readings, gives the truth the contributors of the reading nearer to the path. Returns the sum of
/// these times, ns.
pub(crate) fn choose(truth: &mut Truth, path: &PathDocument, origin: i64) -> i64 {
    let eithers = std::mem::take(&mut truth.either);
    for either in &eithers {
        let clipped = clip(&path.segments, either.from_ns - origin, either.to_ns - origin);
        if distance(&either.timed_out, &clipped) < distance(&either.ended, &clipped) {
            either.ended.iter().for_each(|part| add(&mut truth.contributors, part, -1));
            either.timed_out.iter().for_each(|part| add(&mut truth.contributors, part, 1));
        }
    }
    truth.contributors.retain(|part| part.total_ns != Some(0));
    let total = eithers.iter().map(|either| either.to_ns - either.from_ns).sum();
    truth.either = eithers;
    total
}

/// The contradictions between the two readings and their time, in sentences; each may be off by `tolerance` ns.
pub(crate) fn contradictions(eithers: &[Either], tolerance: f64) -> Vec<String> {
    let sum = |parts: &[TruthPart]| parts.iter().filter_map(|part| part.total_ns).sum::<i64>();
    let readings = eithers.iter().flat_map(|either| [(either, &either.ended), (either, &either.timed_out)]);
    readings
        .map(|(either, parts)| (either.to_ns - either.from_ns, sum(parts)))
        .filter(|(length, sum)| (sum - length).abs() as f64 > tolerance)
        .map(|(length, sum)| format!("a reading of {length} ns of the program's account sums to {sum} ns"))
        .collect()
}

/// The sum of the absolute differences over all contributors, ns.
fn distance(parts: &[TruthPart], segments: &[Segment]) -> i64 {
    let mut sums: BTreeMap<(u32, &str), i64> = BTreeMap::new();
    for part in parts {
        *sums.entry((part.thread.tid, &part.kind)).or_default() += part.total_ns.unwrap_or(0);
    }
    for segment in segments {
        let kind = match segment.kind.as_str() {
            "interrupted" | "stolen" => "running",
            kind => kind,
        };
        *sums.entry((segment.tid.unwrap_or(0), kind)).or_default() -= length(segment);
    }
    sums.values().map(|ns| ns.abs()).sum()
}

fn add(contributors: &mut Vec<TruthPart>, part: &TruthPart, sign: i64) {
    let ns = sign * part.total_ns.unwrap_or(0);
    let same = |known: &&mut TruthPart| {
        (known.thread.tid, &known.kind, &known.call) == (part.thread.tid, &part.kind, &part.call)
    };
    match contributors.iter_mut().find(same) {
        Some(known) => known.total_ns = known.total_ns.map(|total| total + ns),
        None => contributors.push(TruthPart { total_ns: Some(ns), ..part.clone() }),
    }
}
