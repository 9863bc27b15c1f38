//! Failures behind sleeping and running time: a call failing before each sleep, and calls failing in quick succession.
//!
//! A sleep between two tries has no cause; the failed try has, also where a script tries and sleeps in another process. But a thread may also sleep for its own reasons behind an
//! unrelated failure. So a failure counts only for a thread that slept behind it at least twice, and explains a row only if
//! it came before two thirds of the row's sleeps. The recorder leaves out failures behind which many calls returned, and
//! failures before an earlier sleep.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use wakepath_clock::Stamp;
use wakepath_critical_path::SegmentKind;
use wakepath_event::{Attempt, AttemptObject, Comm, Tid};
use wakepath_loaded::{AttemptId, FailedCalls};
use wakepath_wait_graph::ThreadIndex;

use crate::{Certainty, Evidence, Row, RowKey};

/// A failure before fewer sleeps by the same thread may be chance.
const MIN_SLEEPS: u64 = 2;

/// A call failing before sleeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Polling {
    /// The failed call, with the lock's first seen holder.
    pub attempt: Attempt,
    /// The processes seen holding the lock.
    pub holders: BTreeSet<Tid>,
    /// The trying threads: the sleeping threads, or their waiting parents.
    pub by: BTreeSet<ThreadIndex>,
    /// The sleeps behind it, and its tries.
    pub tried: Tried,
    /// It came before two thirds of the row's sleeps.
    pub explains: bool,
}

/// A row's sleeps behind failed calls, by call and trying thread.
pub(crate) type TriedBy = BTreeMap<(AttemptId, ThreadIndex), Tried>;

/// Sleeps behind failed tries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tried {
    /// The sleep count.
    pub sleeps: u64,
    /// The tries before them.
    pub tries: u64,
    /// The time slept on the path, ns.
    pub ns: u64,
}

impl Tried {
    /// Adds other sleeps.
    pub(crate) fn add(&mut self, other: Self) {
        self.sleeps += other.sleeps;
        self.tries += other.tries;
        self.ns += other.ns;
    }
}

/// A failed call without its holder, which may change while the tries go on.
type Failure<'a> = (u32, u32, u32, &'a AttemptObject);

/// The calls failing before a row's sleeps, most time first; `sleeps` is the number of all its sleeps.
pub(crate) fn polling(failed: &FailedCalls, attempts: &TriedBy, sleeps: u64) -> Vec<Polling> {
    let mut by_thread: BTreeMap<(Failure<'_>, ThreadIndex), (&Attempt, BTreeSet<Tid>, Tried)> =
        BTreeMap::new();
    for ((id, thread), tried) in attempts {
        let attempt = failed.attempt(*id);
        let Attempt { call, error, operation, holder, object } = attempt;
        let nothing = (attempt, BTreeSet::new(), Tried::default());
        let failure = (*call, *error, *operation, object);
        let (_, holders, sum) = by_thread.entry((failure, *thread)).or_insert(nothing);
        holders.extend(holder);
        sum.add(*tried);
    }
    let mut all: BTreeMap<Failure<'_>, Polling> = BTreeMap::new();
    for ((failure, thread), (attempt, holders, tried)) in by_thread {
        if tried.sleeps < MIN_SLEEPS {
            continue;
        }
        let polling = all.entry(failure).or_insert_with(|| Polling {
            attempt: attempt.clone(),
            holders: BTreeSet::new(),
            by: BTreeSet::new(),
            tried: Tried::default(),
            explains: false,
        });
        polling.by.insert(thread);
        polling.holders.extend(holders);
        polling.tried.add(tried);
    }
    let mut all: Vec<_> = all.into_values().collect();
    for polling in &mut all {
        polling.explains = polling.tried.sleeps.saturating_mul(3) >= sleeps.saturating_mul(2);
    }
    // A stable sort: equal times stay in the order of their failures.
    all.sort_by_key(|polling| Reverse(polling.tried.ns));
    all
}

impl Row {
    /// The number of waits in the row's known calls.
    pub fn waits(&self) -> u64 {
        self.calls.values().map(|waits| waits.count).sum()
    }

    /// The certainty of the row's cause as a headline names it. The time slept may be measured; a failed call only came before
    /// the sleeps, and a rule calls it their reason.
    pub fn cause_certainty(&self) -> Certainty {
        match (self.main_polling(), self.basis.certainty()) {
            (Some(_), Certainty::Measured | Certainty::MostlyMeasured) => Certainty::Inferred,
            (_, certainty) => certainty,
        }
    }

    /// The threads trying before most of the row's sleeps and most of its time, if others slept for them.
    pub fn tried_for(&self) -> Option<&BTreeSet<ThreadIndex>> {
        Some(&self.main_polling()?.by).filter(|by| by.is_disjoint(&self.threads))
    }

    /// The call failing before most of the row's sleeps and most of its time, if any.
    pub fn main_polling(&self) -> Option<&Polling> {
        self.polling.iter().find(|polling| polling.explains && polling.tried.ns > self.total_ns / 2)
    }
}

/// A spin has at least these calls and this time, ns, and the row's time divided by the share: a program's loader fails a hundred times in a
/// millisecond, and on a slow machine in ten.
const MIN_SPIN_CALLS: u64 = 300;
const MIN_SPIN_NS: u64 = 10_000_000;
const MIN_SPIN_SHARE: u64 = 100;

/// Calls failing in quick succession, at least 1000 times a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spinning {
    /// The system call.
    pub call: u32,
    /// The errno.
    pub error: u32,
    /// The failed calls.
    pub count: u64,
    /// The time in which they failed, ns.
    pub ns: u64,
}

/// Stretches with failing calls by their ends, each with its count and its time, ns.
type Stretches = BTreeMap<u64, (u64, u64)>;

/// Stretches with failing calls on a path: by the running thread and its name at their end, by call and error.
#[derive(Debug, Default)]
pub(crate) struct Spins(BTreeMap<(ThreadIndex, Comm), BTreeMap<(u32, u32), Stretches>>);

impl Spins {
    /// The stretches that overlap running time. A stretch at the window's edge counts whole: it lasts at most a tenth of a
    /// second.
    pub(crate) fn new(evidence: &Evidence<'_>) -> Self {
        let (failed, graph) = (evidence.recorded.failed_calls(), evidence.recorded.graph());
        let mut spins = Self::default();
        for segment in evidence.segments().filter(|segment| segment.kind == SegmentKind::Running) {
            let Some(index) = segment.thread else { continue };
            let thread = graph.thread(index);
            let [from, to] = [segment.from, segment.to].map(|at| Stamp::from_ns(at.ns()));
            for (end, spin) in failed.spins(thread.tid_at(segment.from), from, to) {
                let stretch = (spin.count, end.ns().saturating_sub(spin.from.ns()));
                // The name at the stretch's end: a program's start has another name.
                let name = thread.name_at(Stamp::from_ns(end.ns()));
                let of_thread = spins.0.entry((index, name)).or_default();
                of_thread.entry((spin.call, spin.error)).or_default().insert(end.ns(), stretch);
            }
        }
        spins
    }

    /// The calls failing again and again while a row's threads ran, the most frequent first; empty for other rows.
    pub(crate) fn in_row(&self, key: &RowKey, row: &Row) -> Vec<Spinning> {
        let RowKey::Running(_) = key else { return Vec::new() };
        let mut sums: BTreeMap<(u32, u32), (u64, u64)> = BTreeMap::new();
        for ((thread, name), calls) in &self.0 {
            if !row.users.contains_key(&(*name, *thread)) {
                continue;
            }
            for (failure, stretches) in calls {
                let (count, ns) = sums.entry(*failure).or_default();
                for stretch in stretches.values() {
                    (*count, *ns) = (count.saturating_add(stretch.0), ns.saturating_add(stretch.1));
                }
            }
        }
        let spinning = |((call, error), (count, ns))| Spinning { call, error, count, ns };
        let min_ns = MIN_SPIN_NS.max(row.total_ns.div_ceil(MIN_SPIN_SHARE));
        let is_large = |spin: &Spinning| spin.count >= MIN_SPIN_CALLS && spin.ns >= min_ns;
        let mut all: Vec<_> = sums.into_iter().map(spinning).filter(is_large).collect();
        all.sort_by_key(|spin| Reverse(spin.count));
        all
    }
}

#[cfg(test)]
mod tests;
