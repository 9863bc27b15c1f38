//! Peaks: the humps that a person sees in a histogram drawn on log scales.
//!
//! Traeger 2008, section 3.2: peaks are found from the changes between buckets, on the logarithm of the counts,
//! "mimicking the way a human might identify peaks". The paper gives no rules; these are ours. A peak matters because
//! it has a cause: a path through the code that some calls take and others do not.
//!
//! **A valley between their tops separates two peaks.** Bars that only fall, or only rise, are a single flank. So a
//! shoulder is no peak, though it may have its own cause: nothing in the picture shows its end. A plateau is a single
//! top. A run of buckets is a valley when both hold:
//!
//! - *It is seen.* Its mean count is at most half of the lower top. This is a step on the log2 scale, the other axis's
//!   unit, and about a terminal row for six decades. A bucket with 10% fewer calls than its neighbours is in the same
//!   row.
//! - *It is not noise.* Counts scatter: 4 calls beside 9 mean nothing, 4000 beside 9000 a lot. With a single hump, the
//!   run would be expected to hold at least as many calls per bucket as the lower top (on a hump, everything between
//!   two places is at least as high as the lower place; so this holds for a run with any width). The counts' likelihood
//!   with a valley, divided by their likelihood without, is the likelihood ratio of two Poisson rates against one. Its
//!   logarithm has to be at least [`EVIDENCE`].
//!
//! The second rule covers few calls, too. A call alone in a far bucket is an outlier, however far: were the hump's tail
//! a flat line with a single call, it had to fall somewhere. Thirty calls among a million come again at the next run,
//! wherever the buckets beside them are empty: they are a peak. In between, beside a single empty bucket 13 calls are
//! needed; beside nine, 4; beside twenty, 3.
//!
//! **With a handful of calls, the gap decides.** Three calls with 1 ms and three with 1 s are two kinds of calls to any
//! viewer, though no test can exclude that they are the same kind. So a gap of [`GAP`] empty buckets parts humps with
//! similar standing: neither side may vanish beside the other, as a bar does when it is less than half as tall, drawn
//! on a log scale with one unit for a single call. The limit is 2 × c² < m for c calls beside m: 1 beside 3, 2 beside
//! 9, 3 beside 19.
//!
//! **A peak's end.** Two touching peaks are cut at the lowest bucket between their tops, which goes with the higher
//! flank beside it: if two flanks fall alike, the higher flank left more calls there. Beyond two empty buckets, calls
//! that vanish beside the peak are strays, and in no peak; a single empty bucket is a hole in the tail.

use std::cmp::Reverse;

use crate::histogram::{BUCKETS, Histogram};

/// The logarithm of the likelihood ratio that a valley has to reach: e⁹ is about 8000.
///
/// A noise peak sends the user after a cause that does not exist; more than e⁹ would hide visible peaks, such as 13
/// calls beyond an empty bucket. By Wilks' theorem noise reaches a ratio of e⁹ with a chance of 1 in 90 000 (half the
/// chance of χ² ≥ 18 with one degree of freedom). The histogram with the most chances for it has a long flat tail of
/// few calls beside a high hump: in ten buckets there are 165 runs with a bar behind them, so at most 1 such histogram
/// in 500 shows a noise peak. On a plateau or a round top both sides have to pass, which is far rarer.
const EVIDENCE: f64 = 9.0;

/// The number of empty buckets that separate humps with similar height, for any number of calls: latencies more than a
/// factor of sixteen apart.
const GAP: usize = 4;

/// The number of empty buckets after which a peak ends, if the calls beyond are few beside it.
const HOLE: usize = 2;

/// Calls whose latencies make a hump in the histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Peak {
    /// The first bucket.
    pub from_bucket: usize,
    /// The last bucket, included.
    pub to_bucket: usize,
    /// The calls in these buckets. With strays, the sum over all peaks is less than the histogram's calls.
    pub count: u64,
}

type Counts = [u64; BUCKETS];

/// A histogram's peaks, by latency; this module's text defines a peak.
///
/// A histogram with any calls has at least one peak, and both ends of a peak hold calls. Peaks do not overlap.
pub fn peaks(histogram: &Histogram) -> Vec<Peak> {
    let counts = histogram.counts();
    let humps = humps(counts);
    let mut peaks = Vec::with_capacity(humps.len());
    let mut from = 0;
    for (i, hump) in humps.iter().enumerate() {
        let cut = humps.get(i + 1).map(|next| cut(counts, hump.top, next.top));
        let to = cut.unwrap_or(BUCKETS);
        peaks.push(without_strays(counts, hump.top, from, to));
        from = to;
    }
    peaks
}

/// Buckets up to the next hump, by the highest bucket.
#[derive(Clone, Copy)]
struct Hump {
    top: usize,
    calls: u128,
}

/// The humps that valleys separate, in order. Begins with every place where bars rise and fall again, and joins the two
/// humps with the least valley between them, until there is a valley between any two. Among equal valleys it takes the
/// valley between the smallest humps: on which side the larger humps stand does not matter.
///
/// Humps separated by a valley stay separate in any order: tops only grow, and the valley stays between them.
fn humps(counts: &Counts) -> Vec<Hump> {
    let tops: Vec<usize> = tops(counts);
    let mut humps = Vec::with_capacity(tops.len());
    let mut from = 0;
    for (i, &top) in tops.iter().enumerate() {
        let to = tops.get(i + 1).map_or(BUCKETS, |&next| cut(counts, top, next));
        humps.push(Hump { top, calls: sum(&counts[from..to]) });
        from = to;
    }
    loop {
        let joined = humps.windows(2).enumerate().filter_map(|(i, pair)| {
            let found = evidence_between(counts, pair[0].top, pair[1].top);
            let parted = found >= EVIDENCE || gap_parts(counts, pair[0], pair[1]);
            (!parted).then_some((found, pair[0].calls.max(pair[1].calls), i))
        });
        let least = joined.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let Some((_, _, i)) = least else { return humps };
        let right = humps.remove(i + 1);
        let left = &mut humps[i];
        left.calls += right.calls;
        if counts[right.top] > counts[left.top] {
            left.top = right.top;
        }
    }
}

/// The first bucket in each run of equal buckets higher than both sides.
fn tops(counts: &Counts) -> Vec<usize> {
    let mut tops = Vec::new();
    let mut rising = Some(0);
    for i in 0..BUCKETS {
        if i > 0 && counts[i] > counts[i - 1] {
            rising = Some(i);
        }
        if counts.get(i + 1).is_none_or(|&next| next < counts[i]) && counts[i] > 0 {
            tops.extend(rising.take());
        }
    }
    tops
}

/// The first bucket that is no longer the left hump's: between two tops, the longest run at the lowest count goes to
/// the side that is higher beside it.
fn cut(counts: &Counts, left: usize, right: usize) -> usize {
    let between = &counts[left..right];
    let lowest = between.iter().min();
    let mut end = left;
    let runs = between.chunk_by(|a, b| a == b).map(|run| {
        end += run.len();
        (run, end - run.len()..end)
    });
    // The first among the longest; the left top is higher, so that no run begins there.
    let longest = runs.filter(|(run, _)| run.first() == lowest).min_by_key(|(run, _)| Reverse(run.len()));
    let Some((_, longest)) = longest else { return right };
    if counts[longest.start - 1] >= counts[longest.end] { longest.end } else { longest.start }
}

/// The logarithm of the counts' likelihood ratio between two tops, with the best valley there against none; 0 where no
/// valley is deep enough to be seen.
fn evidence_between(counts: &Counts, left: usize, right: usize) -> f64 {
    let lower = counts[left].min(counts[right]);
    let mut best = 0f64;
    for from in left + 1..right {
        let mut inside = 0u128;
        for (width, &count) in (1u32..).zip(&counts[from..right]) {
            inside += u128::from(count);
            if 2 * inside <= u128::from(lower) * u128::from(width) {
                best = best.max(evidence(lower as f64, inside as f64, f64::from(width)));
            }
        }
    }
    best
}

/// The logarithm of the likelihood ratio of two Poisson rates against one, for `top` calls in one bucket and `inside`
/// in `width` others.
fn evidence(top: f64, inside: f64, width: f64) -> f64 {
    let one_rate = (top + inside) / (width + 1.0);
    let of = |calls: f64, buckets: f64| {
        if calls > 0.0 { calls * (calls / (one_rate * buckets)).ln() } else { 0.0 }
    };
    of(top, 1.0) + of(inside, width)
}

/// Whether a gap between two tops parts humps with similar standing.
fn gap_parts(counts: &Counts, left: Hump, right: Hump) -> bool {
    let gap = counts[left.top..right.top].split(|&count| count > 0).map(<[u64]>::len).max();
    gap.is_some_and(|gap| gap >= GAP) && stands_beside(left.calls, right.calls)
}

/// Whether the fewer calls do not vanish beside the more.
fn stands_beside(a: u128, b: u128) -> bool {
    a.min(b).saturating_pow(2).saturating_mul(2) >= a.max(b)
}

/// The peak around a top within these buckets: outwards until calls are strays.
fn without_strays(counts: &Counts, top: usize, from: usize, to: usize) -> Peak {
    let (mut first, mut last) = (top, top);
    // Left and right by turns until neither grows: calls added on one side raise the standard for the other's next
    // group.
    for _ in from..to {
        let before = (first, last);
        let held = sum(&counts[first..=last]);
        first -= beyond(counts[from..first].iter().rev(), held);
        let held = sum(&counts[first..=last]);
        last += beyond(counts[last + 1..to].iter(), held);
        if (first, last) == before {
            break;
        }
    }
    let count = counts[first..=last].iter().fold(0, |calls: u64, &count| calls.saturating_add(count));
    Peak { from_bucket: first, to_bucket: last, count }
}

/// The number of further buckets reached by a peak with `held` calls: to the end of the next calls without a hole,
/// unless they are strays; 0 if there are none.
fn beyond<'a>(outwards: impl Iterator<Item = &'a u64>, held: u128) -> usize {
    let (mut reach, mut calls, mut empty, mut gap) = (0, 0u128, 0, 0);
    for (i, &count) in outwards.enumerate() {
        if count == 0 {
            empty += 1;
            if calls > 0 && empty >= HOLE {
                break;
            }
            continue;
        }
        if calls == 0 {
            gap = empty;
        }
        (reach, empty) = (i + 1, 0);
        calls += u128::from(count);
    }
    if gap < HOLE || stands_beside(calls, held) { reach } else { 0 }
}

fn sum(counts: &[u64]) -> u128 {
    counts.iter().map(|&count| u128::from(count)).sum()
}
