//! The clocks by which processes stamp their spans, beside the realtime clock of their host.
//!
//! Some SDKs read the realtime clock once and count on by another clock, which may drift. A thread that says that it works for a span does so
//! while that is open, and the kernel's clock says when it was seen:
//!
//! ```text
//! thread    .....aaaaaaaa.....     seen to work for `a`, by the host's clock
//! span        |------------|      the beginning and the end of `a`, by the SDK's clock
//! ```
//!
//! So as the thread was first seen, the SDK's clock did not stand before the span's beginning, and as it was last seen, not behind its end. Two
//! packets say the same of the clocks of two hosts, and the corridor between all of them bounds both clocks, also where one drifts
//! (Giraldeau 2015, section 5.3.1): the same solver is used.
//!
//! A program may end a span before the thread has left it, and some stamp spans with times of their own. Then the threads contradict each
//! other, and one bound alone is left: no thread works for a span that has not begun.

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use wakepath_clock::{ErrorBound, Local, Peer, Quality, Reference, Solver, Stamp, Wall};
use wakepath_event::{Comm, Tid};
use wakepath_loaded::Recorded;
use wakepath_spans::{Hold, Said, ServiceIndex, SpanIndex};

use crate::model::Traced;
use crate::places::Places;
use crate::readings::{OfOneThread, Readings};

/// A clock that is off by more than this is said to be, ns: some SDKs stamp spans in whole milliseconds.
const MAX_OFF_NS: i64 = 1_000_000;

/// The number of spans from which on a clock is said to be behind.
const MIN_SPANS: u64 = 8;

/// The clock of a process's spans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpanClock {
    /// The process.
    pub process: Tid,
    /// Its name.
    pub comm: Option<Comm>,
    /// The service of the spans.
    pub service: ServiceIndex,
    /// The spans for which its threads were seen to work.
    pub spans: u64,
    /// Those of them that were seen before they began, by the clocks as they are.
    pub early: u64,
    /// Those of them that were seen after they had ended, by the clocks as they are.
    pub late: u64,
    /// How far its clock is ahead of its host's, at the beginning, in the middle and at the end of the time for which that is known. Where
    /// the threads contradict each other, where it was ahead most.
    pub offsets: Vec<SpanOffset>,
}

/// How far a clock is ahead of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanOffset {
    /// When.
    pub at: Stamp<Reference>,
    /// At least so far, ns; below 0 where it may be behind.
    pub least_ns: i64,
    /// At most so far, ns; `None` where nothing bounds it.
    pub most_ns: Option<i64>,
}

impl SpanClock {
    /// Whether it is off for certain, and so far that it matters. One that seems to be behind is so only where many spans agree: threads may
    /// keep the context of a span that has ended, as a process does that was forked within one.
    pub fn is_off(&self) -> bool {
        let is_ahead = |offset: &SpanOffset| offset.least_ns > MAX_OFF_NS;
        let is_behind = |offset: &SpanOffset| offset.most_ns.is_some_and(|most| most < -MAX_OFF_NS);
        self.offsets.iter().any(is_ahead) || (self.spans >= MIN_SPANS && self.offsets.iter().any(is_behind))
    }
}

/// The clocks of all processes whose threads were seen to work for their spans, as they are being found.
#[derive(Debug, Default)]
pub(crate) struct Sightings {
    of: HashMap<(Tid, ServiceIndex), OfProcess>,
}

#[derive(Debug)]
struct OfProcess {
    solver: Solver,
    /// One of its spans.
    span: SpanIndex,
    first: Stamp<Reference>,
    last: Stamp<Reference>,
    /// Each span, and whether it was seen too early and too late.
    spans: HashMap<SpanIndex, (bool, bool)>,
    /// The most by which it was ahead for certain, ns, and when.
    least: (i64, Stamp<Reference>),
}

impl Sightings {
    /// Adds the spans for which a thread was seen to work.
    pub(crate) fn add(
        &mut self,
        traced: &Traced,
        places: &Places,
        readings: &Readings<'_>,
        thread: &OfOneThread,
    ) {
        let Some(process) = thread.process else { return };
        for hold in &thread.holds {
            let Said::Span { trace, span, .. } = hold.said else { continue };
            let mut own = readings.by_id.all(trace, span);
            if let Some(span) = own.find(|one| readings.may_be_own(traced, Some(process), *one)) {
                let key = (process, traced.spans.span(span).service);
                let new = || OfProcess::new(span, hold.from);
                self.of.entry(key).or_insert_with(new).add(traced, places, span, hold);
            }
        }
    }

    /// The clocks, by process and service.
    pub(crate) fn clocks(self, recorded: &Recorded, traced: &Traced, places: &Places) -> Vec<SpanClock> {
        let clocks = self.of.into_iter().map(|((process, service), seen)| SpanClock {
            process,
            comm: recorded.process_comm(process, seen.last),
            service,
            spans: seen.spans.len() as u64,
            early: seen.spans.values().filter(|(early, _)| *early).count() as u64,
            late: seen.spans.values().filter(|(_, late)| *late).count() as u64,
            offsets: seen.offsets(traced, places),
        });
        let mut clocks: Vec<_> = clocks.collect();
        clocks.sort_by_key(|clock| (clock.process, clock.service));
        clocks
    }
}

impl OfProcess {
    fn new(span: SpanIndex, at: Stamp<Reference>) -> Self {
        let least = (i64::MIN, at);
        Self { solver: Solver::default(), span, first: at, last: at, spans: HashMap::new(), least }
    }

    fn add(&mut self, traced: &Traced, places: &Places, span: SpanIndex, hold: &Hold<Reference>) {
        let wall = |at| places.wall_within(traced, span, at);
        let ((from, from_error), (to, to_error)) = (wall(hold.from), wall(hold.to));
        let of_span = traced.spans.span(span);
        let begin = of_span.from.minus(from_error);
        // Where times are written in whole µs, the end is too early by less than a reading of clocks takes.
        let end = of_span.to.plus(to_error);
        self.solver.backward(as_peer(begin), as_local(from));
        self.solver.forward(as_local(to), as_peer(end));
        let (early, late) = self.spans.entry(span).or_default();
        *early |= from < begin;
        *late |= end < to;
        self.first = self.first.min(hold.from);
        self.last = self.last.max(hold.to);
        let ahead = distance(from, begin);
        if ahead > self.least.0 {
            self.least = (ahead, hold.from);
        }
    }

    fn offsets(&self, traced: &Traced, places: &Places) -> Vec<SpanOffset> {
        let wall = |at| places.wall(traced, self.span, at);
        let solution = self.solver.solve(as_local(wall(self.first)), as_local(wall(self.last)));
        let (Quality::Exact, Some(transform)) = (solution.quality, solution.transform) else {
            let (least_ns, at) = self.least;
            return vec![SpanOffset { at, least_ns, most_ns: None }];
        };
        let middle = self.first.plus(self.last.since(self.first) / 2);
        let mut moments = vec![self.first, middle, self.last];
        moments.dedup();
        let offset = |at| {
            let here = wall(at);
            let (there, error) = transform.convert(as_local(here));
            let ahead = distance(here, Stamp::from_ns(there.ns()));
            let error = match error {
                ErrorBound::Within(ns) => i64::try_from(ns).ok(),
                ErrorBound::Unbounded => None,
            };
            let least_ns = error.map_or(i64::MIN, |error| ahead.saturating_sub(error));
            SpanOffset { at, least_ns, most_ns: error.map(|error| ahead.saturating_add(error)) }
        };
        moments.into_iter().map(offset).collect()
    }
}

/// Realtime, as the clock that the solver takes for this host's.
fn as_local(wall: Stamp<Wall>) -> Stamp<Local> {
    Stamp::from_ns(wall.ns())
}

/// The clock of the spans, as the one that the solver takes for the other host's.
fn as_peer(wall: Stamp<Wall>) -> Stamp<Peer> {
    Stamp::from_ns(wall.ns())
}

/// From one time to another, ns.
fn distance(from: Stamp<Wall>, to: Stamp<Wall>) -> i64 {
    let ns = i128::from(to.ns()) - i128::from(from.ns());
    ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}
