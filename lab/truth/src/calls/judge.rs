//! Compares the tool's answers about calls with the server's own log.

use std::collections::{BTreeMap, BTreeSet};

use crate::calls::log::{
    CallCause, CallLog, CallsDocument, CauseName, LoggedCall, OwnPart, Peak, ReportedCause,
};

/// The largest error in a cause's time: a hundredth of the calls' time.
///
/// Probes see a call begin and end a microsecond or two outside the server's own stamps, and the tool reports that time
/// as running; a waiting thread runs for some microseconds until it sleeps. No more is allowed for either. The tool
/// reports interrupts separately, while the log has them as the interrupted thread's running: a running time may lie
/// anywhere up to both together. A thread waiting for a disk cannot know that the file system serves another process
/// first: if the tool reports that, the disk's time may lie anywhere up to both.
///
/// An idle CPU is no neighbour. From a wake-up by another CPU until the interrupt reaches an idle CPU (up to some 50 us
/// on this guest), the tool reports the thread as runnable beside that CPU; the kernel's own count, used in the log,
/// starts with the interrupt. So the neighbours' time may lie anywhere between the tool's runnable time without and
/// with the idle CPU, and the disk's time, which is the rest of the call, up to both together.
///
/// A server with a higher priority than its neighbours preempts them at its wake-up. By the kernel's clocks it has the
/// CPU from the wake-up on, although the other thread runs until the interrupt comes, some 15 to 30 us later
/// (lab/results/truth.md). So the log's running and runnable times are wrong by that much, and only the planted times
/// are judged there. A disk's waiting time is the rest of the call.
pub const MAX_DIFFERENCE: f64 = 0.01;

/// The largest cost of a call's probes, ns, allowed only for calls without a planted cause: a tenth of their time.
/// Entry and return take a trap each, a microsecond or less here, half of it within the call.
const MAX_PROBES_NS: f64 = 3000.0;

/// The smallest share of slow calls that must have the right cause.
pub const MIN_RIGHT: f64 = 0.99;

/// The largest share of slow calls with a cause missing from the log, such as stolen time; a run with more cannot be
/// judged.
const MAX_UNKNOWN_TO_LOG: f64 = 0.01;

/// The verdict on a peak.
#[derive(Debug)]
pub struct PeakVerdict {
    /// Its number, from 1 on.
    pub number: usize,
    /// Its buckets.
    pub peak: Peak,
    /// The most frequent cause of its calls by the log.
    pub main_cause: CallCause,
    /// The cause with the largest error.
    pub worst: CallCause,
    /// The worst cause's share of the calls' time by the log.
    pub logged: f64,
    /// The worst cause's share by the tool.
    pub reported: f64,
    /// The interrupts' share by the tool.
    pub interrupted: f64,
    /// The unknown share caused by missing events.
    pub unknown: f64,
    /// The share that the tool charges to the judge's neighbours by name.
    pub by_noise: f64,
    /// The tool's first cause.
    pub first: String,
    /// The errors, in sentences.
    pub violations: Vec<String>,
    /// The reasons why it cannot be judged.
    pub void: Vec<String>,
}

type Shares = BTreeMap<CallCause, f64>;

/// Compares the tool's answer about a peak with the log of the same calls. With `ahead`, the first cause must be the
/// most frequent cause; without it, the largest cause by the log.
pub fn peak(log: &CallLog, document: &CallsDocument, origin: u64, number: usize, ahead: bool) -> PeakVerdict {
    let (mut violations, mut void) = (Vec::new(), Vec::new());
    let found: Vec<_> = document.calls.iter().filter_map(|call| log.find(call, origin)).collect();
    if found.len() < document.calls.len() {
        violations.push(format!("{} calls are not in the log", document.calls.len() - found.len()));
    }
    let mean = document.asked.mean_ns as f64;
    let sum: f64 = document.causes.iter().map(|cause| cause.asked_ns).sum();
    // Averages are whole ns.
    let parts =
        || document.tree.iter().flat_map(|node| node.own.iter().map(|part| (node.who.as_deref(), part)));
    let of_tree: f64 = parts().map(|(_, part)| part.asked_ns).sum();
    for (what, sum) in [("causes", sum), ("parts of the tree", of_tree)] {
        if (sum - mean).abs() > 1.0 + mean * 1e-9 {
            violations.push(format!("the {what} sum to {sum:.1} ns, the calls take {mean} ns"));
        }
    }

    let logged = logged(&found);
    let activities: Vec<_> = document.causes.iter().flat_map(ReportedCause::activities).collect();
    let share = |is: &dyn Fn(&CauseName) -> bool| {
        let reported = activities.iter().filter(|(name, _)| is(name));
        // An empty sum is -0.
        (0.0 + reported.map(|(_, ns)| ns).sum::<f64>()) / mean.max(1.0)
    };
    let interrupted = share(&|name| name.kind == "interrupts");
    let unknown = share(&CauseName::is_missing);
    let preempting = share(&|name| CallCause::Neighbour.is_named(name))
        - logged.get(&CallCause::Neighbour).copied().unwrap_or(0.0);
    let cpus = document.causes.iter().filter(|cause| CallCause::Neighbour.is_named(&cause.name));
    let idle =
        cpus.flat_map(|cause| &cause.parts).filter(|part| part.responsible.as_deref() == Some("idle_cpu"));
    let idle = (0.0 + idle.map(|part| part.asked_ns).sum::<f64>()) / mean.max(1.0);
    // A cause's shortfall and its excess.
    let outside = |cause: CallCause| {
        let (logged, reported) =
            (logged.get(&cause).copied().unwrap_or(0.0), share(&|name| cause.is_named(name)));
        let (least, most) = match cause {
            CallCause::Fsync => {
                let others = share(&|name| name.kind == "process") + preempting.max(idle);
                (reported, reported + others)
            }
            CallCause::Neighbour => (reported - idle, reported),
            _ if cause.runs() => (reported, reported + interrupted),
            _ => (reported, reported),
        };
        ((logged - most).max(0.0), (least - logged).max(0.0))
    };
    let met: BTreeSet<CallCause> = found.iter().map(|(call, _)| call.cause.activity()).collect();
    let all = CallCause::PLANTED.into_iter().chain([CallCause::Neighbour]);
    let judged: Vec<CallCause> = all.filter(|cause| !ahead || met.contains(cause)).collect();
    // Unknown time may be a cause's missing time, never its excess.
    let beyond = |&cause: &CallCause| {
        let (lacks, has) = outside(cause);
        has.max(lacks - unknown)
    };
    let either = |&cause: &CallCause| {
        let (lacks, has) = outside(cause);
        has.max(lacks)
    };
    let largest_of = |size: &dyn Fn(&CallCause) -> f64| {
        judged.iter().copied().max_by(|a, b| size(a).total_cmp(&size(b))).unwrap_or(CallCause::None)
    };
    let main_cause = main_cause(&found);
    let within = if main_cause == CallCause::None {
        MAX_DIFFERENCE + MAX_PROBES_NS / mean.max(1.0)
    } else {
        MAX_DIFFERENCE
    };
    let mut worst = largest_of(&either);
    let wrong = largest_of(&beyond);
    if beyond(&wrong) > within {
        worst = wrong;
        violations.push(format!("{} differs by {:.2} points", worst.name(), either(&worst) * 100.0));
    }
    if either(&worst) > within && unknown > 0.0 {
        void.push(format!("{:.2}% is unknown where events are missing", unknown * 100.0));
    }

    let first = document.causes.first().map(|cause| cause.name.clone()).unwrap_or_default();
    let most = logged.values().copied().fold(0.0, f64::max);
    let is_first = |cause: CallCause, excused: f64| {
        logged.get(&cause).is_some_and(|&share| share >= most - MAX_DIFFERENCE - excused)
    };
    // An awaited thread is a cause with all its activity, and it may mostly have been kept from its CPU.
    let neighbours = logged.get(&CallCause::Neighbour).copied().unwrap_or(0.0);
    let is_waited_for = |cause: CallCause, excused: f64| {
        let waited = logged.get(&cause).map(|share| share + neighbours);
        let is_long = waited.is_some_and(|waited| waited >= most - MAX_DIFFERENCE - excused);
        first.is_thread() && cause == main_cause && is_long
    };
    let names_first = |excused: f64| {
        let is_right = |cause: CallCause| is_first(cause, excused) || is_waited_for(cause, excused);
        logged.keys().any(|&cause| cause.is_named(&first) && is_right(cause))
    };
    let is_planted_first = is_first(main_cause.activity(), 0.0);
    if ahead && !is_planted_first {
        void.push(format!("by the log, {} is not the largest cause", main_cause.name()));
    }
    if !names_first(0.0) {
        if first.is_missing() || names_first(unknown) {
            void.push(format!("the first cause is `{}` beside {:.2}% unknown", first.what, unknown * 100.0));
        } else {
            violations.push(format!("the first cause is `{}`", first.what));
        }
    }
    // Beside neighbours, a part of the tree may be the largest although its cause is not.
    let excess = |part: &OwnPart| part.asked_ns - part.usual_ns;
    let largest = parts().max_by(|(_, a), (_, b)| excess(a).total_cmp(&excess(b)));
    let is_planted = |who: Option<&str>, part: &OwnPart| main_cause.activity().is_part(who, &part.kind);
    let planted = parts().filter(|(who, part)| is_planted(*who, part)).map(|(_, part)| excess(part));
    let planted = planted.fold(0.0, f64::max);
    if let Some((who, part)) =
        largest.filter(|(who, part)| ahead && is_planted_first && !is_planted(*who, part))
    {
        let what = format!("the tree's first cause is `{}` of {}", part.what, who.unwrap_or("the caller"));
        if unknown > 0.0 && excess(part) - planted <= unknown * mean {
            void.push(format!("{what} beside {:.2}% unknown", unknown * 100.0));
        } else {
            violations.push(what);
        }
    }
    let by_noise = parts().filter(|(_, part)| part.kind == "runnable" && part.what.contains(" noise-"));
    let by_noise = (0.0 + by_noise.map(|(_, part)| part.asked_ns).sum::<f64>()) / mean.max(1.0);
    PeakVerdict {
        number,
        by_noise,
        peak: document.peaks.get(number - 1).copied().unwrap_or_default(),
        main_cause,
        worst,
        logged: logged.get(&worst).copied().unwrap_or(0.0),
        reported: share(&|name| worst.is_named(name)),
        interrupted,
        unknown,
        first: first.what,
        violations,
        void,
    }
}

/// The calls' causes by the log, as shares of their time.
fn logged(calls: &[(&LoggedCall, u64)]) -> Shares {
    let took: u64 = calls.iter().map(|&(_, window)| window).sum();
    let mut sums: BTreeMap<CallCause, u64> = BTreeMap::new();
    for &(call, window) in calls {
        *sums.entry(CallCause::Compute).or_default() += call.cpu_ns;
        // A neighbour that ran between the probe and the server's own stamp is not in the log: the time there, less the
        // probes' cost, is the neighbour's.
        let outside = window.saturating_sub(call.took()).saturating_sub(MAX_PROBES_NS as u64);
        *sums.entry(CallCause::Neighbour).or_default() += call.runnable_of(window - outside) + outside;
        if call.cause.activity() != CallCause::Compute {
            *sums.entry(call.cause).or_default() += call.planted_ns;
        }
    }
    sums.into_iter().map(|(cause, ns)| (cause, ns as f64 / took.max(1) as f64)).collect()
}

fn main_cause(calls: &[(&LoggedCall, u64)]) -> CallCause {
    let mut counts: BTreeMap<CallCause, usize> = BTreeMap::new();
    for (call, _) in calls {
        *counts.entry(call.cause).or_default() += 1;
    }
    counts.into_iter().max_by_key(|&(_, count)| count).map_or(CallCause::None, |(cause, _)| cause)
}

/// The causes that must have a peak of their own. Without their shortest and longest twentieth, their calls' buckets
/// neither overlap nor touch the buckets of another cause, and the buckets on either side have at most a twentieth as
/// many calls. Neighbours that use most of the CPUs can mix the other causes.
pub fn separate_causes(log: &CallLog) -> Vec<CallCause> {
    let bucket = |ns: u64| ns.max(1).ilog2();
    let mut lengths: BTreeMap<CallCause, Vec<u64>> = BTreeMap::new();
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for call in log.all() {
        lengths.entry(call.cause).or_default().push(call.took());
        *counts.entry(bucket(call.took())).or_default() += 1;
    }
    let ranges: Vec<(CallCause, usize, u32, u32)> = lengths
        .into_iter()
        .map(|(cause, mut lengths)| {
            lengths.sort_unstable();
            let few = lengths.len() / 20;
            (cause, few, bucket(lengths[few]), bucket(lengths[lengths.len() - 1 - few]))
        })
        .collect();
    let clear = |&&(cause, few, from, to): &&(CallCause, usize, u32, u32)| {
        let beside = [from.saturating_sub(1), to + 1];
        let are_empty = beside.iter().all(|bucket| counts.get(bucket).copied().unwrap_or(0) <= few);
        let alone = |&(other, _, first, last): &(CallCause, usize, u32, u32)| {
            other == cause || last + 1 < from || to + 1 < first
        };
        are_empty && ranges.iter().all(alone)
    };
    ranges.iter().filter(clear).map(|&(cause, ..)| cause).collect()
}

/// The verdict on the slow calls.
#[derive(Debug, Default)]
pub struct CallsVerdict {
    /// The number of calls with a planted cause.
    pub slow: usize,
    /// The number of slow calls with the right first cause.
    pub right: usize,
    /// The number of other slow calls with missing events.
    pub missing: usize,
    /// The number of slow calls whose largest cause the log lacks.
    pub unknown_to_log: usize,
    /// The number of slow calls in which neighbours took longer than the planted cause.
    pub by_neighbours: usize,
    /// Some calls with a wrong cause.
    pub examples: Vec<String>,
}

/// The largest number of wrong calls to print.
const MAX_EXAMPLES: usize = 5;

/// Judges each call with a planted cause. The right cause is the longer by the log: the planted cause or a neighbour;
/// either, if their lengths differ by at most [`MAX_DIFFERENCE`] of the call, or if the tool names the awaited thread,
/// which may have waited for a CPU meanwhile.
pub fn calls(log: &CallLog, document: &CallsDocument, origin: u64) -> CallsVerdict {
    let mut verdict = CallsVerdict {
        slow: log.all().filter(|call| call.cause != CallCause::None).count(),
        ..CallsVerdict::default()
    };
    for call in &document.calls {
        let Some((met, took)) = log.find(call, origin) else { continue };
        if met.cause == CallCause::None {
            continue;
        }
        let (planted, runnable) = (met.planted_ns, met.runnable_of(took));
        let close = (took as f64 * MAX_DIFFERENCE) as u64;
        verdict.by_neighbours += usize::from(runnable > planted);
        if took.saturating_sub(planted + runnable) > planted.max(runnable) {
            verdict.unknown_to_log += 1;
            continue;
        }
        let first = call.first.clone().unwrap_or_default();
        // An awaited thread is the first cause with all the wait, on a CPU or kept from it.
        let is_planted = met.cause.is_named(&first) && (planted + close >= runnable || first.is_thread());
        let is_neighbour = CallCause::Neighbour.is_named(&first) && runnable + close >= planted;
        if is_planted || is_neighbour {
            verdict.right += 1;
            continue;
        }
        verdict.missing += usize::from(first.is_missing());
        if verdict.examples.len() < MAX_EXAMPLES {
            verdict.examples.push(format!(
                "thread {} at {:.6} s: {} for {planted} ns, neighbours for {runnable} ns of {took}; the tool has `{}`",
                call.tid,
                call.from_ns as f64 / 1e9,
                met.cause.name(),
                first.what,
            ));
        }
    }
    verdict
}

impl CallsVerdict {
    /// Whether enough calls are right or have missing events.
    pub fn is_right(&self) -> bool {
        self.are_enough(self.right + self.missing)
    }

    /// Whether too few calls are right without those with missing events, or the log lacks the cause of too many.
    pub fn is_void(&self) -> bool {
        !self.are_enough(self.right) || self.unknown_to_log as f64 > MAX_UNKNOWN_TO_LOG * self.slow as f64
    }

    fn are_enough(&self, right: usize) -> bool {
        right as f64 >= MIN_RIGHT * self.slow.saturating_sub(self.unknown_to_log) as f64 && self.slow > 0
    }
}

#[cfg(test)]
mod tests;
