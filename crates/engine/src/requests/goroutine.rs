//! Requests that goroutines worked for, with probes that saw their spans begin.

use std::collections::{BTreeMap, BTreeSet};

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::{Algorithm, Segment, Timeouts, Wait};
use wakepath_event::Tid;
use wakepath_goroutines::{
    Calls, GoPath, GoWait, GoWindow, GoroutineIndex, Goroutines, ParkEnd, State, path,
};
use wakepath_joining::{RequestStint, Turn, Worked, blame, turns};
use wakepath_loaded::Name;
use wakepath_spans::{RequestIndex, SpanIndex, WorksFor};

use super::one::{RequestPath, question};
use super::{Joined, JoinedBy};
use crate::Recorded;
use crate::code_names::code_names;
use crate::path::answer;

/// The most spans of a request searched for later goroutines.
const MAX_SPANS: usize = 1024;

/// A request's goroutine: facts beside the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestGoroutine {
    /// The number, in its process, of the goroutine in which the request began.
    pub number: u64,
    /// For each path segment, the number of the running or waiting goroutine.
    pub segments: Vec<Option<u64>>,
    /// The time in which the request's goroutines (the first and any later goroutine) did not run, by reason, the most first.
    pub parked: Vec<Parked>,
    /// A handed-over request's spans not searched for later goroutines: all beyond the first 1024.
    pub spans_left_out: u64,
}

/// The time for which a goroutine was parked, by reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parked<Other = RequestIndex> {
    /// The reason.
    pub reason: Reason,
    /// The sum, ns.
    pub total_ns: u64,
    /// The number of times that it was parked for this reason.
    pub times: u64,
    /// The request whose goroutines ended most of this time, or the goroutine itself; and the ended time, ns.
    pub ended_by: Option<(Other, u64)>,
}

/// The same, with the time ended by each other request or goroutine, ns.
pub(crate) struct ParkedBy<Other> {
    pub(crate) reason: Reason,
    pub(crate) total_ns: u64,
    pub(crate) times: u64,
    pub(crate) by: BTreeMap<Other, u64>,
}

/// The reason why a goroutine did not run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// Parked, for this reason in the words of Go's runtime.
    Named(Name),
    /// Parked, for the reason with this number, whose name the recording lacks.
    Numbered(u8),
    /// In a Go scheduler's queue.
    Queued,
    /// Not known.
    Unknown,
}

/// The path of a request's goroutine, and the blocking requests.
pub(super) fn path_of<'r>(
    joined: &Joined<'r>,
    request: RequestIndex,
    algorithm: Algorithm,
) -> Option<RequestPath<'r>> {
    let Joined { recorded, traced, goroutines: spans, goroutine_work: work, .. } = joined;
    let (from, to) = joined.times(request);
    let goroutine = spans.by_request(traced, request)?;
    let goroutines = &spans.all;
    let (windows, spans_left_out) = windows(joined, request, GoWindow { goroutine, from, to });
    let found = path_of_windows(recorded, goroutines, &windows, algorithm, joined)?;
    let graph = &recorded.graph;
    let go: BTreeSet<Tid> = goroutines.iter().map(|(_, one)| graph.thread(one.process).tid()).collect();
    // A called service in another language.
    let is_foreign = |thread| graph.thread(thread).tgid().is_some_and(|process| !go.contains(&process));
    let work_of = |place: usize, segment: &Segment| {
        let Some(goroutine) = found.goroutines.get(place).copied().flatten() else {
            let thread = segment.thread.filter(|thread| is_foreign(*thread))?;
            return Some(joined.work_of(thread, segment.from, segment.to));
        };
        let worked = |(from, to, span): (_, _, Option<SpanIndex>)| match span {
            Some(span) => Worked {
                works_for: WorksFor::Span(span),
                by: JoinedBy::Goroutine,
                ..Worked::unknown(from, to)
            },
            None => Worked::unknown(from, to),
        };
        Some(work.between(&goroutine, segment.from, segment.to).into_iter().map(worked).collect())
    };
    let of_wait = |_, wait: &Wait, at| match is_foreign(wait.thread) {
        true => joined.works_for(wait.thread, at),
        // Its wait has a thread, and no goroutine.
        false => WorksFor::Unknown,
    };
    let blame = blame(traced, request, &found.path, work_of, of_wait, |_, _, _| (None, Vec::new()));
    let number = |index: GoroutineIndex| goroutines.get(index).number;
    let segments = found.goroutines.iter().map(|index| index.map(number)).collect();
    let other = |by: GoroutineIndex, at: Stamp<Reference>| {
        let (_, _, span) = work.between(&by, at.minus(1), at).pop()?;
        let other = traced.requests.containing(span?);
        let is_other = !traced.requests.is_part(other, request) && !traced.requests.is_part(request, other);
        is_other.then_some(other)
    };
    let named =
        |ParkedBy { reason, total_ns, times, by }| Parked { reason, total_ns, times, ended_by: most(by) };
    let parked = parked_by(recorded, goroutines, &windows, other).into_iter().map(named).collect();
    let of_goroutine = RequestGoroutine { number: number(goroutine), segments, parked, spans_left_out };
    let answer = answer(recorded, found.path, question(traced, request, true), &mut code_names(recorded));
    Some(RequestPath::new(joined, request, answer, blame, Some(of_goroutine)))
}

/// The path over windows in goroutines' time; `None` without a path. `calls` knows the requests for which goroutines wait.
pub(crate) fn path_of_windows(
    recorded: &Recorded,
    goroutines: &Goroutines,
    windows: &[GoWindow],
    algorithm: Algorithm,
    calls: &dyn Calls,
) -> Option<GoPath> {
    let timeouts = Timeouts::of(algorithm);
    let names = &recorded.survey.names;
    let reasons = |program, reason| {
        names.go_wait(program, reason).map_or(GoWait::Other, |name| GoWait::of(name.bytes()))
    };
    path(&recorded.graph, goroutines, windows, timeouts, &reasons, calls)
}

/// The times in which goroutines had a request, one after the other: the goroutine of its root span, and after `wakepath.queued_ns` the
/// later goroutines, found by the spans begun in them. Each includes the time before it in which no goroutine had the request. Also
/// returns the number of spans not searched.
fn windows(joined: &Joined<'_>, request: RequestIndex, whole: GoWindow) -> (Vec<GoWindow>, u64) {
    let Joined { traced, goroutines, goroutine_work: work, .. } = joined;
    let GoWindow { from, to, .. } = whole;
    let spans = &traced.request(request).spans;
    // Without a hand-over, the request's own goroutine may wait for a part in another goroutine.
    if spans.iter().all(|span| traced.spans.span(*span).queued.is_none()) {
        return (vec![whole], 0);
    }
    let left_out = spans.len().saturating_sub(MAX_SPANS) as u64;
    let spans = spans.iter().take(MAX_SPANS);
    let begun: BTreeSet<GoroutineIndex> = spans.filter_map(|&span| goroutines.by_span(span)).collect();
    let mut stints = Vec::new();
    for goroutine in begun {
        let worked = work.between(&goroutine, from, to).into_iter();
        let own =
            worked.filter(|(.., span)| span.is_some_and(|span| traced.requests.containing(span) == request));
        stints.extend(own.map(|(from, to, _)| RequestStint { from, to, thread: goroutine }));
    }
    let turns = turns(&stints, from, to);
    if turns.first().is_none_or(|first| first.thread != whole.goroutine) {
        return (vec![whole], left_out);
    }
    let window = |turn: &Turn<GoroutineIndex>| GoWindow {
        goroutine: turn.thread,
        from: turn.waits_since,
        to: turn.to,
    };
    (turns.iter().map(window).collect(), left_out)
}

/// The time in which goroutines did not run in these windows, by reason. `other` maps the goroutine that ended a park to the request it
/// worked for at that time.
pub(crate) fn parked_by<Other: Ord + Copy>(
    recorded: &Recorded,
    goroutines: &Goroutines,
    windows: &[GoWindow],
    other: impl Fn(GoroutineIndex, Stamp<Reference>) -> Option<Other>,
) -> Vec<ParkedBy<Other>> {
    let mut sums: BTreeMap<Reason, (u64, u64, BTreeMap<Other, u64>)> = BTreeMap::new();
    for window in windows {
        let goroutine = goroutines.get(window.goroutine);
        let intervals = goroutine.intervals[goroutine.interval_after(window.from)..].iter();
        for interval in intervals.take_while(|interval| interval.from < window.to) {
            let ns = interval.to.min(window.to).since(interval.from.max(window.from));
            let (reason, ended_by) = match interval.state {
                State::Running(_) => continue,
                State::Queued => (Reason::Queued, None),
                State::Unknown => (Reason::Unknown, None),
                State::Parked(park) => {
                    let name = recorded.survey.names.go_wait(goroutine.program, park.reason);
                    let by = if let ParkEnd::By(by) = park.end { other(by, interval.to) } else { None };
                    (name.map_or(Reason::Numbered(park.reason), |name| Reason::Named(name.clone())), by)
                }
            };
            let sum = sums.entry(reason).or_default();
            sum.0 += ns;
            sum.1 += 1;
            if let Some(by) = ended_by {
                *sum.2.entry(by).or_default() += ns;
            }
        }
    }
    let sums = sums.into_iter();
    let mut parked: Vec<_> =
        sums.map(|(reason, (total_ns, times, by))| ParkedBy { reason, total_ns, times, by }).collect();
    parked.sort_by_key(|one| std::cmp::Reverse(one.total_ns));
    parked
}

/// The key with the most time, and its time; the first among equals.
pub(crate) fn most<K: Ord + Copy>(sums: BTreeMap<K, u64>) -> Option<(K, u64)> {
    sums.into_iter().max_by_key(|&(key, ns)| (ns, std::cmp::Reverse(key)))
}
