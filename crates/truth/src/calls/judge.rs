//! What was told of calls, held against the server's own books.

use std::collections::{BTreeMap, BTreeSet};

use crate::calls::books::{BookedCall, Books, CallsDocument, Cause, Peak};

/// What the time of a cause may differ by: a hundredth of the calls' time.
///
/// Probes see a call begin and end a microsecond or two outside of the server's own stamps, and that is told
/// as running; who waits runs for some microseconds more until it sleeps. No more is allowed for either. What
/// interrupts take is told apart, and in the books it is running of whom they interrupted: the figure of who
/// runs may lie anywhere up to both together. And who waits for a disk cannot know that it waits for another
/// process, which the file system serves first: where that is told, the figure may lie anywhere up to both.
///
/// A server that is ahead of its neighbours preempts them where it is woken. To the kernel's clocks it has the
/// CPU from the waking on, although the other runs on until the interrupt comes, some 15 to 30 us later
/// (docs/truth.md), so that its books are wrong by as much in what it ran and in what it was runnable: there only
/// the times of what was planted are judged. What a call waited for a disk is what else is left of it.
pub const WITHIN: f64 = 0.01;

/// Of calls that meet nothing, what their probes cost is no hundredth but a tenth: entry and return take a trap
/// each, of a microsecond or less here, whose half lies within the call. No planted cause is allowed this.
const PROBES_NS: f64 = 3000.0;

/// Of the slow calls at least so many have to be told right.
pub const RIGHT: f64 = 0.99;

/// Of the slow calls so many may have met something that the books know nothing of, like an hour of the
/// hypervisor's; with more of them a run judges nothing.
const UNKNOWN_TO_BOOKS: f64 = 0.01;

/// A peak, judged.
#[derive(Debug)]
pub struct PeakVerdict {
    /// Its number, from 1 on, and where it lies.
    pub number: usize,
    /// See above.
    pub peak: Peak,
    /// What most of its calls met.
    pub whose: Cause,
    /// What the largest difference to the books is of...
    pub worst: Cause,
    /// ...with its share of the calls' time by the books...
    pub booked: f64,
    /// ...and as it is told.
    pub told: f64,
    /// How far it is outside of what it may be, less [`WITHIN`].
    pub differs: f64,
    /// What interrupts are told to have taken, as a share.
    pub interrupted: f64,
    /// What is told to be unknown since events are missing.
    pub unknown: f64,
    /// What neighbours of ours are told to have taken, by name.
    pub by_noise: f64,
    /// What is told first.
    pub first: String,
    /// What is wrong, in sentences.
    pub violations: Vec<String>,
    /// Why it cannot be judged.
    pub void: Vec<String>,
}

type Shares = BTreeMap<Cause, f64>;

/// Holds what was told of a peak against the books of the same calls. Nobody is `ahead` of neighbours: then
/// what is first is whatever is by the books, else it is what most of the calls met.
pub fn peak(books: &Books, document: &CallsDocument, origin: u64, number: usize, ahead: bool) -> PeakVerdict {
    let (mut violations, mut void) = (Vec::new(), Vec::new());
    let found: Vec<_> = document.calls.iter().filter_map(|call| books.find(call, origin)).collect();
    if found.len() < document.calls.len() {
        violations.push(format!("{} calls were never made", document.calls.len() - found.len()));
    }
    let mean = document.asked.mean_ns as f64;
    let sum: f64 = document.causes.iter().map(|cause| cause.asked_ns).sum();
    // Means are whole ns.
    let parts =
        || document.tree.iter().flat_map(|node| node.own.iter().map(|part| (node.who.as_deref(), part)));
    let of_tree: f64 = parts().map(|(_, part)| part.asked_ns).sum();
    for (what, sum) in [("causes", sum), ("parts of the tree", of_tree)] {
        if (sum - mean).abs() > 1.0 + mean * 1e-9 {
            violations.push(format!("the {what} sum to {sum:.1} ns, the calls take {mean} ns"));
        }
    }

    let booked = booked(&found);
    let share = |is: &dyn Fn(&str) -> bool| {
        let told = document.causes.iter().filter(|cause| is(&cause.what));
        // The sum of nothing is -0.
        (0.0 + told.map(|cause| cause.asked_ns).sum::<f64>()) / mean.max(1.0)
    };
    let interrupted = share(&|what| what == "interrupted");
    let unknown = share(&is_missing);
    let neighbours = |what: &str| Cause::Neighbour.is_named(what);
    let preempting = share(&neighbours) - booked.get(&Cause::Neighbour).copied().unwrap_or(0.0);
    let outside = |cause: Cause| {
        let (booked, told) =
            (booked.get(&cause).copied().unwrap_or(0.0), share(&|what| cause.is_named(what)));
        let most = match cause {
            Cause::Fsync => told + share(&|what| is_process(what)) + preempting.max(0.0),
            _ if cause.runs() => told + interrupted,
            _ => told,
        };
        (booked - most).max(told - booked).max(0.0)
    };
    let met: BTreeSet<Cause> = found.iter().map(|(call, _)| call.cause.doing()).collect();
    let all = Cause::PLANTED.into_iter().chain([Cause::Neighbour]);
    let judged = all.filter(|cause| !ahead || met.contains(cause));
    let worst = judged.max_by(|&a, &b| outside(a).total_cmp(&outside(b))).unwrap_or(Cause::None);
    let differs = outside(worst);
    let whose = whose(&found);
    let within = if whose == Cause::None { WITHIN + PROBES_NS / mean.max(1.0) } else { WITHIN };
    if differs > within + unknown {
        violations.push(format!("{} differs by {:.2} points", worst.name(), differs * 100.0));
    } else if differs > within {
        void.push(format!("{:.2}% is unknown where events are missing", unknown * 100.0));
    }

    let first = document.causes.first().map(|cause| cause.what.clone()).unwrap_or_default();
    let most = booked.values().copied().fold(0.0, f64::max);
    let is_first = |cause: Cause| booked.get(&cause).is_some_and(|&share| share >= most - WITHIN);
    if ahead && !is_first(whose.doing()) {
        void.push(format!("by the books it is not mostly {}", whose.name()));
    } else if !booked.keys().any(|&cause| is_first(cause) && cause.is_named(&first)) {
        violations.push(format!("what is told first is `{first}`"));
    }
    // Among neighbours one part of the tree may be the largest although all of them together are not.
    let largest =
        parts().max_by(|(_, a), (_, b)| (a.asked_ns - a.usual_ns).total_cmp(&(b.asked_ns - b.usual_ns)));
    if let Some((who, part)) =
        largest.filter(|(who, part)| ahead && void.is_empty() && !whose.doing().is_part(*who, &part.kind))
    {
        violations.push(format!(
            "the tree's first cause is `{}` of {}",
            part.what,
            who.unwrap_or("the caller")
        ));
    }
    let by_noise = parts().filter(|(_, part)| part.kind == "runnable" && part.what.contains(" noise-"));
    let by_noise = (0.0 + by_noise.map(|(_, part)| part.asked_ns).sum::<f64>()) / mean.max(1.0);
    PeakVerdict {
        number,
        by_noise,
        peak: document.peaks.get(number - 1).copied().unwrap_or(Peak {
            from_bucket: 0,
            to_bucket: 0,
            count: 0,
        }),
        whose,
        worst,
        booked: booked.get(&worst).copied().unwrap_or(0.0),
        told: share(&|what| worst.is_named(what)),
        differs,
        interrupted,
        unknown,
        first,
        violations,
        void,
    }
}

/// `waiting for dd (4711)`, `waiting for dd (2 processes)`.
fn is_process(what: &str) -> bool {
    let number = what.strip_suffix(')').and_then(|what| what.rsplit_once(" ("));
    number.is_some_and(|(_, number)| number.starts_with(|first: char| first.is_ascii_digit()))
}

/// What the calls met, as shares of their time.
fn booked(calls: &[(&BookedCall, u64)]) -> Shares {
    let took: u64 = calls.iter().map(|&(_, window)| window).sum();
    let mut sums: BTreeMap<Cause, u64> = BTreeMap::new();
    for &(call, window) in calls {
        *sums.entry(Cause::Compute).or_default() += call.cpu_ns;
        *sums.entry(Cause::Neighbour).or_default() += call.runnable_of(window);
        if call.cause.doing() != Cause::Compute {
            *sums.entry(call.cause).or_default() += call.planted_ns;
        }
    }
    sums.into_iter().map(|(cause, ns)| (cause, ns as f64 / took.max(1) as f64)).collect()
}

fn whose(calls: &[(&BookedCall, u64)]) -> Cause {
    let mut counts: BTreeMap<Cause, usize> = BTreeMap::new();
    for (call, _) in calls {
        *counts.entry(call.cause).or_default() += 1;
    }
    counts.into_iter().max_by_key(|&(_, count)| count).map_or(Cause::None, |(cause, _)| cause)
}

/// Which causes have to have a peak of their own: those whose calls, but for one in twenty at either end, lie
/// in buckets that no other's do, with a bucket on either side that is empty but for one in twenty as many. Beside
/// neighbours who take most of the CPUs they may not.
pub fn apart(books: &Books) -> Vec<Cause> {
    let bucket = |ns: u64| ns.max(1).ilog2();
    let mut lengths: BTreeMap<Cause, Vec<u64>> = BTreeMap::new();
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for call in books.all() {
        lengths.entry(call.cause).or_default().push(call.took());
        *counts.entry(bucket(call.took())).or_default() += 1;
    }
    let ranges: Vec<(Cause, usize, u32, u32)> = lengths
        .into_iter()
        .map(|(cause, mut lengths)| {
            lengths.sort_unstable();
            let few = lengths.len() / 20;
            (cause, few, bucket(lengths[few]), bucket(lengths[lengths.len() - 1 - few]))
        })
        .collect();
    let clear = |&&(cause, few, from, to): &&(Cause, usize, u32, u32)| {
        let beside = [from.saturating_sub(1), to + 1];
        let are_empty = beside.iter().all(|bucket| counts.get(bucket).copied().unwrap_or(0) <= few);
        let alone = |&(other, _, first, last): &(Cause, usize, u32, u32)| {
            other == cause || last + 1 < from || to + 1 < first
        };
        are_empty && ranges.iter().all(alone)
    };
    ranges.iter().filter(clear).map(|&(cause, ..)| cause).collect()
}

/// The slow calls, judged one by one.
#[derive(Debug, Default)]
pub struct CallsVerdict {
    /// Those to which something was planted.
    pub slow: usize,
    /// Of which the first cause is the right one.
    pub right: usize,
    /// Of those that are not: of which events are missing.
    pub missing: usize,
    /// That met something the books know nothing of.
    pub unknown_to_books: usize,
    /// That were mostly a neighbour's doing.
    pub by_neighbours: usize,
    /// Some that were told wrong.
    pub examples: Vec<String>,
}

/// Wrong calls that are told one by one.
const EXAMPLES: usize = 5;

/// Judges each call to which something was planted. What it met is what took more of it by the books: what was
/// planted, or neighbours; where these are as long to within [`WITHIN`], either.
pub fn calls(books: &Books, document: &CallsDocument, origin: u64) -> CallsVerdict {
    let mut verdict = CallsVerdict {
        slow: books.all().filter(|call| call.cause != Cause::None).count(),
        ..CallsVerdict::default()
    };
    for call in &document.calls {
        let Some((met, took)) = books.find(call, origin) else { continue };
        if met.cause == Cause::None {
            continue;
        }
        let (planted, runnable) = (met.planted_ns, met.runnable_of(took));
        let close = (took as f64 * WITHIN) as u64;
        verdict.by_neighbours += usize::from(runnable > planted);
        if took.saturating_sub(planted + runnable) > planted.max(runnable) {
            verdict.unknown_to_books += 1;
            continue;
        }
        let what = call.first.as_ref().map_or("", |first| first.what.as_str());
        let is_planted = met.cause.is_named(what) && planted + close >= runnable;
        let is_neighbour = Cause::Neighbour.is_named(what) && runnable + close >= planted;
        if is_planted || is_neighbour {
            verdict.right += 1;
            continue;
        }
        if is_missing(what) {
            verdict.missing += 1;
        }
        if verdict.examples.len() < EXAMPLES {
            verdict.examples.push(format!(
                "thread {} at {:.6} s: {} for {planted} ns, neighbours for {runnable} ns of {took}, told `{what}`",
                call.tid,
                call.from_ns as f64 / 1e9,
                met.cause.name(),
            ));
        }
    }
    verdict
}

/// Whether a time is unknown since events are missing.
fn is_missing(what: &str) -> bool {
    ["unknown: records lost", "unknown: task switch not recorded"].iter().any(|cause| what.starts_with(cause))
}

impl CallsVerdict {
    /// Whether enough are right, or could be, were no events missing.
    pub fn is_right(&self) -> bool {
        self.are_enough(self.right + self.missing)
    }

    /// Whether the books know too little, or too many events are missing.
    pub fn is_void(&self) -> bool {
        !self.are_enough(self.right) || self.unknown_to_books as f64 > UNKNOWN_TO_BOOKS * self.slow as f64
    }

    fn are_enough(&self, right: usize) -> bool {
        right as f64 >= RIGHT * self.slow.saturating_sub(self.unknown_to_books) as f64 && self.slow > 0
    }
}

#[cfg(test)]
mod tests;
