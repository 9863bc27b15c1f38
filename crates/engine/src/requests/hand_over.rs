//! Requests that one thread hands over to another: through the queue of a pool, an executor or an event loop.
//!
//! Back from the request's end, the thread that works for it then is followed to the time at which it took the request up. Where no other
//! thread works for the request there, it was handed over:
//!
//! ```text
//! reader    aa.bbb...                 `a` and `b`: works for that request
//! worker    ccccccc.aaaaa             `a` is in the queue while the worker works for `c`
//! path      aaqqqqq.aaaaa             `q` queue, blocked by `c`; `.` what the worker does until it takes `a` up
//! ```
//!
//! A worker that was idle before it took the request up was woken for it: the request was not in its queue before, and the path follows the
//! thread that woke it.

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::{Algorithm, Basis, Path, Rule, SegmentKind, Stretch, Window, path_of_stretches};
use wakepath_event::Context;
use wakepath_spans::{Kind, RequestIndex, WorksFor};
use wakepath_wait_graph::{Occupant, StateInterval, ThreadIndex, ThreadState, WakeUp, Waker};

use super::Joined;
use super::contexts::OfThread;
use crate::path::path_by;

/// A request with more stints of threads than this has the path of one thread, so that the cost stays bounded.
const MAX_STINTS: usize = 1024;

/// The path of a request that threads handed over to each other; `None` where one thread has it from its beginning to its end.
pub(super) fn path_of(
    joined: &Joined<'_>,
    request: RequestIndex,
    from: Stamp<Reference>,
    to: Stamp<Reference>,
    algorithm: Algorithm,
) -> Option<Path> {
    let stints = joined.contexts.stints(request);
    (stints.len() <= MAX_STINTS).then_some(())?;
    let is_one = |stint: &OfThread| stint.thread == stints[0].thread;
    let turns = if stints.iter().all(is_one) { return None } else { turns(stints, from, to) };
    if turns.windows(2).all(|pair| pair[0].thread == pair[1].thread) {
        return None;
    }
    let graph = &joined.recorded.graph;
    let walk = Walk { joined, request, algorithm };
    let mut stretches = Vec::new();
    for turn in turns {
        if turn.waits_since < turn.from {
            walk.hand_over(&turn, &mut stretches);
        }
        stretches.push(walk.thread(turn.thread, turn.from, turn.to));
    }
    path_of_stretches(graph, algorithm, stretches)
}

/// A time in which a thread has the request, and the time before it in which no thread has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Turn {
    thread: ThreadIndex,
    waits_since: Stamp<Reference>,
    from: Stamp<Reference>,
    to: Stamp<Reference>,
}

/// The threads that have a request one after the other: with their waits they tile its time.
fn turns(stints: &[OfThread], from: Stamp<Reference>, to: Stamp<Reference>) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    let mut at = to;
    while at > from {
        let begun = || stints.iter().filter(|stint| stint.from < at && stint.to > from);
        // The one that has it longest hands it over least.
        let covering = begun().filter(|stint| stint.to >= at).min_by_key(|stint| (stint.from, stint.thread));
        let before = begun().max_by_key(|stint| (stint.to, std::cmp::Reverse(stint.thread)));
        let next = turns.last_mut();
        match (covering, before, next) {
            // Its thread goes on with it after a pause, in which it did something else.
            (Some(stint), _, Some(next)) if next.thread == stint.thread && next.from == at => {
                next.from = stint.from.max(from);
                at = next.from;
                next.waits_since = at;
            }
            (Some(stint), ..) => {
                let begin = stint.from.max(from);
                turns.push(Turn { thread: stint.thread, waits_since: begin, from: begin, to: at });
                at = begin;
            }
            (None, Some(stint), Some(next)) if next.thread != stint.thread => {
                next.waits_since = stint.to;
                at = stint.to;
            }
            (None, Some(stint), Some(next)) => {
                (next.from, next.waits_since) = (stint.to, stint.to);
                at = stint.to;
            }
            // Behind its last stint a thread still has it.
            (None, Some(stint), None) => {
                turns.push(Turn { thread: stint.thread, waits_since: stint.to, from: stint.to, to: at });
                at = stint.to;
            }
            (None, None, Some(next)) => {
                (next.from, next.waits_since) = (from, from);
                at = from;
            }
            (None, None, None) => return Vec::new(),
        }
    }
    turns.reverse();
    turns
}

struct Walk<'a, 'r> {
    joined: &'a Joined<'r>,
    request: RequestIndex,
    algorithm: Algorithm,
}

impl Walk<'_, '_> {
    fn thread(&self, thread: ThreadIndex, from: Stamp<Reference>, to: Stamp<Reference>) -> Stretch {
        Stretch::Thread(path_by(&self.joined.recorded.graph, Window { thread, from, to }, self.algorithm))
    }

    /// The stretches of the time before a thread took the request up.
    fn hand_over(&self, turn: &Turn, stretches: &mut Vec<Stretch>) {
        let Turn { thread, waits_since, from: taken, .. } = *turn;
        let other = |from, to, kind, basis| Stretch::Other { thread, from, to, kind, basis };
        let mut at = waits_since;
        // A call that was under way was waited for, whatever the thread did.
        if let Some(answered) = self.answered(at, taken) {
            stretches.push(other(at, answered, SegmentKind::Network, Basis::Ambiguous));
            at = answered;
        }
        if let Some(idle) = self.idle(thread, at, taken) {
            let woken = idle.to.min(taken);
            stretches.push(match self.waker(&idle) {
                Some(waker) if waker != thread => self.thread(waker, at, woken),
                _ => other(at, woken, SegmentKind::Unknown, Basis::Ambiguous),
            });
            at = woken;
        }
        let queued = self.queued(at, taken);
        for piece in self.joined.work_of(thread, at, taken) {
            let is_other = match piece.works_for {
                WorksFor::Span(span) => self.joined.traced.requests.of_span(span) != self.request,
                WorksFor::Missing(..) => true,
                WorksFor::None | WorksFor::Unplaced | WorksFor::Unknown => false,
            };
            let basis = match piece.measured && queued {
                true => Basis::Measured,
                false => Basis::Inferred(Rule::HandedOver),
            };
            stretches.push(match is_other {
                true => other(piece.from, piece.to, SegmentKind::Queue, basis),
                false => self.thread(thread, piece.from, piece.to),
            });
        }
    }

    /// The end of the last call of another service that was under way at `at` and ended before `to`.
    fn answered(&self, at: Stamp<Reference>, to: Stamp<Reference>) -> Option<Stamp<Reference>> {
        let Joined { traced, .. } = self.joined;
        let spans = traced.request(self.request).spans.iter();
        let calls = spans.filter(|span| traced.spans.span(**span).kind == Kind::Client);
        let times = calls.map(|&span| self.joined.span_times(span));
        times.filter(|&(from, end)| from <= at && at < end && end <= to).map(|(_, end)| end).max()
    }

    /// Whether the program noted that the request was queued by then: at `at`, or before.
    fn queued(&self, at: Stamp<Reference>, taken: Stamp<Reference>) -> bool {
        let Joined { traced, places, .. } = self.joined;
        let mut spans = traced.request(self.request).spans.iter();
        spans.any(|&span| {
            let queued = traced.spans.span(span).queued.map(|queued| places.stamp(traced, span, queued));
            queued.is_some_and(|queued| queued <= at && at < taken)
        })
    }

    /// The last time before it took the request up in which a thread waited for work.
    fn idle(
        &self,
        thread: ThreadIndex,
        at: Stamp<Reference>,
        taken: Stamp<Reference>,
    ) -> Option<StateInterval> {
        let intervals = self.joined.recorded.graph.state_intervals(thread);
        let is_idle = |interval: &StateInterval| {
            matches!(interval.state, ThreadState::Blocked(_))
                && self.joined.contexts.work.at(&thread, interval.from) == WorksFor::None
        };
        intervals.overlapping(at, taken).filter(is_idle).last()
    }

    fn waker(&self, idle: &StateInterval) -> Option<ThreadIndex> {
        match self.joined.recorded.graph.wait(idle)?.end {
            Waker::Woken(WakeUp { current: Occupant::Thread(waker), context: Context::Task, .. }) => {
                Some(waker)
            }
            _ => None,
        }
    }
}
