//! The clocks of processes' spans, compared with their host's realtime clock.
//!
//! Some SDKs read the realtime clock once and count on by another clock, which may drift. A thread's context holds a span while the span is
//! open, and the kernel's clock gives the time of the reading:
//!
//! ```text
//! thread    .....aaaaaaaa.....     seen to work for `a`, by the host's clock
//! span        |------------|      the beginning and the end of `a`, by the SDK's clock
//! ```
//!
//! So at the first reading, the SDK's clock did not stand before the span's beginning, and at the last, not behind its end. Two packets give
//! the same bounds for two hosts' clocks, and the corridor between all of them bounds both clocks, also if one drifts (Giraldeau 2015, section
//! 5.3.1): the same solver is used.
//!
//! A thread may keep an ended span's context, which looks like a clock behind its host's: an event loop's task behind its
//! answer, or a pool's thread behind its work. The spans' own threads decide: a thread runs when it begins a span. If spans
//! seem to begin while their threads sleep, the clock is behind; if they begin while these run, it is the host's own.
//!
//! A program may end a span before the thread has left it, and some programs stamp spans with their own times. Then the threads contradict
//! each other, and a single bound is left: no thread works for a span that has not begun.

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use wakepath_clock::{ErrorBound, Local, Peer, Quality, Reference, Solver, Stamp, Wall};
use wakepath_event::{Comm, Tid};
use wakepath_loaded::Recorded;
use wakepath_spans::{Hold, Said, ServiceIndex, SpanIndex};

use crate::model::Traced;
use crate::places::Places;
use crate::readings::{Readings, ThreadContexts};

/// The offset above which a clock counts as off, ns: some SDKs stamp spans in whole milliseconds.
const MAX_OFF_NS: i64 = 1_000_000;

/// The fewest spans for a clock to count as behind.
const MIN_SPANS: u64 = 8;

/// A process's span clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpanClock {
    /// The process.
    pub process: Tid,
    /// The process name.
    pub comm: Option<Comm>,
    /// The spans' service.
    pub service: ServiceIndex,
    /// The spans for which its threads were seen to work.
    pub spans: u64,
    /// These spans seen before their beginning, by the uncorrected clocks.
    pub early: u64,
    /// These spans seen after their end, by the uncorrected clocks.
    pub late: u64,
    /// The spans with a beginning, by their stamps, while their own thread ran.
    pub awake: u64,
    /// The spans with a beginning, by their stamps, while their own thread did not run.
    pub asleep: u64,
    /// Its clock's offset ahead of its host's, at the beginning, middle and end of the time in which it is known. If the threads contradict
    /// each other, the largest certain offset.
    pub offsets: Vec<SpanOffset>,
}

/// How far a clock is ahead of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanOffset {
    /// The offset's time.
    pub at: Stamp<Reference>,
    /// The least offset, ns; below 0 if the clock may be behind.
    pub least_ns: i64,
    /// The largest offset, ns; `None` without a bound.
    pub most_ns: Option<i64>,
}

impl SpanClock {
    /// Whether it is certainly off, and far enough to matter. A clock counts as behind only if many spans agree, and most
    /// of their own threads: threads may keep an ended span's context, as does a process forked within a span.
    pub fn is_off(&self) -> bool {
        let is_ahead = |offset: &SpanOffset| offset.least_ns > MAX_OFF_NS;
        let is_behind = |offset: &SpanOffset| offset.most_ns.is_some_and(|most| most < -MAX_OFF_NS);
        let are_known = self.awake + self.asleep > 0;
        let agree = if are_known { self.asleep > self.awake } else { true };
        let enough = (if are_known { self.asleep } else { self.spans }) >= MIN_SPANS;
        self.offsets.iter().any(is_ahead) || (enough && agree && self.offsets.iter().any(is_behind))
    }
}

/// The clocks of all processes whose threads were seen to work for their spans, while they are being found.
#[derive(Debug, Default)]
pub(crate) struct Sightings {
    of: HashMap<(Tid, ServiceIndex), ProcessSightings>,
}

#[derive(Debug)]
struct ProcessSightings {
    solver: Solver,
    /// Any of its spans.
    span: SpanIndex,
    first: Stamp<Reference>,
    last: Stamp<Reference>,
    /// Each span, and whether it was seen too early and too late.
    spans: HashMap<SpanIndex, (bool, bool)>,
    /// How many of these spans begin while their own thread ran, and while it did not.
    awake: u64,
    asleep: u64,
    /// The largest certain offset ahead, ns, and its time.
    least: (i64, Stamp<Reference>),
}

impl Sightings {
    /// Adds the spans for which a thread was seen to work.
    pub(crate) fn add(
        &mut self,
        traced: &Traced,
        places: &Places,
        readings: &Readings<'_>,
        thread: &ThreadContexts,
    ) {
        let Some(process) = thread.process else { return };
        for hold in &thread.holds {
            let Said::Span { trace, span, .. } = hold.said else { continue };
            let mut own = readings.by_id.all(trace, span);
            if let Some(span) = own.find(|one| readings.may_be_own(traced, Some(process), *one)) {
                let key = (process, traced.spans.span(span).service);
                let new = || ProcessSightings::new(span, hold.from);
                let seen = self.of.entry(key).or_insert_with(new);
                if !seen.spans.contains_key(&span) {
                    match begins_awake(traced, places, readings, span) {
                        Some(true) => seen.awake += 1,
                        Some(false) => seen.asleep += 1,
                        None => {}
                    }
                }
                seen.add(traced, places, span, hold);
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
            awake: seen.awake,
            asleep: seen.asleep,
            offsets: seen.offsets(traced, places),
        });
        let mut clocks: Vec<_> = clocks.collect();
        clocks.sort_by_key(|clock| (clock.process, clock.service));
        clocks
    }
}

impl ProcessSightings {
    fn new(span: SpanIndex, at: Stamp<Reference>) -> Self {
        let least = (i64::MIN, at);
        Self {
            solver: Solver::default(),
            span,
            first: at,
            last: at,
            spans: HashMap::new(),
            awake: 0,
            asleep: 0,
            least,
        }
    }

    fn add(&mut self, traced: &Traced, places: &Places, span: SpanIndex, hold: &Hold<Reference>) {
        let wall = |at| places.wall_within(traced, span, at);
        let ((from, from_error), (to, to_error)) = (wall(hold.from), wall(hold.to));
        let of_span = traced.spans.span(span);
        let begin = of_span.from.minus(from_error);
        // If times are written in whole µs, the end is too early by less than the time of a clock reading.
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

/// Whether a span's own thread ran when the span began, by its stamp; `None` where the thread or its state is not known. A stamp may be cut
/// to whole milliseconds.
fn begins_awake(traced: &Traced, places: &Places, readings: &Readings<'_>, span: SpanIndex) -> Option<bool> {
    let thread = readings.noted_thread(traced, places, span)?;
    let (begin, _) = places.times(traced, span);
    readings.ran_within(thread, begin, begin.plus(MAX_OFF_NS.unsigned_abs()))
}

/// Realtime, as the solver's clock for this host.
fn as_local(wall: Stamp<Wall>) -> Stamp<Local> {
    Stamp::from_ns(wall.ns())
}

/// The spans' clock, as the solver's clock for the other host.
fn as_peer(wall: Stamp<Wall>) -> Stamp<Peer> {
    Stamp::from_ns(wall.ns())
}

/// The distance from one time to another, ns.
fn distance(from: Stamp<Wall>, to: Stamp<Wall>) -> i64 {
    let ns = i128::from(to.ns()) - i128::from(from.ns());
    ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}
