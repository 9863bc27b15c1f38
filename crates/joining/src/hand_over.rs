//! Requests handed over from thread to thread: through the queue of a pool, an executor or an event loop.
//!
//! From the request's end, its last thread is followed back to the time at which it picked the request up. If no other thread works for the
//! request there, it was handed over:
//!
//! ```text
//! reader    aa.bbb...                 `a` and `b`: works for this request
//! worker    ccccccc.aaaaa             `a` is in the queue while the worker works for `c`
//! path      aaqqqqq.aaaaa             `q` queue, blocked by `c`; `.` what the worker does until it takes `a` up
//! ```
//!
//! A worker that was idle before it picked the request up was woken for it: the request was not in its queue before, and the path follows
//! its waker. The exception: another worker was woken for the request before, and has no CPU. Then the next wake-up is for another request,
//! and its worker takes this request, the first in the queue. The path follows the worker woken first:
//!
//! ```text
//! reader    aaw........bbw.           `w` wakes `first` while it works for `a`, and `second` while it works for `b`
//! first     .~~~~~~~~~~~~~bbb         has no CPU
//! second    ..............aaa
//! path      aa~~~~~~~~~~~~aaa
//! ```
//!
//! The same holds for a called service. The caller's thread waits there for a packet, or for a wake-up, from the worker. Before its pick-up the
//! worker did other things, and so the reader stands for the time until its hand-over:
//!
//! ```text
//! caller    aa...................aa     sends the call at the first `.`
//! reader    ~~~~~~aaa.bbb...            `~` has no CPU
//! worker    .........cccc.aaaaaaa       answers
//! path      aa~~~~aaaqqqqaaaaaaaaaa
//! ```
//!
//! A worker busy with other requests since before the hand-over stands for the time since then: an earlier hand-over would have changed nothing.

#[cfg(test)]
mod tests;

use std::cell::OnceCell;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::{
    Algorithm, Basis, EndedWait, Had, HandOvers, Path, Rule, SegmentKind, Stretch, Window, path_of_stretches,
};
use wakepath_spans::{Kind, RequestIndex, SpanIndex, WorksFor};
use wakepath_wait_graph::{StateInterval, ThreadIndex, ThreadState};

use crate::join::Joined;
use crate::model::{RequestStint, Waking, Worked};

/// The most stints of a called request. A wait for a request with more leads to the answering thread: this bounds the cost of a path
/// with many waits for it.
const MAX_STINTS_OF_CALLED: usize = 1024;

/// The most wake-ups by a thread searched for the wake-up for the request.
const MAX_WAKINGS: usize = 64;

/// The path of a request handed over between threads; `None` where a single thread has it from its beginning to its end. `path` gives a
/// single thread's path by the same algorithm.
pub fn path_handed_over(
    joined: &Joined<'_>,
    request: RequestIndex,
    (from, to): (Stamp<Reference>, Stamp<Reference>),
    algorithm: Algorithm,
    path: impl Fn(Window, &dyn HandOvers) -> Path,
) -> Option<Path> {
    let had = had(joined, request, Of::Itself, from, to)?;
    let in_services = InServices { joined };
    let stretch = |had| match had {
        Had::Thread { thread, from, to } => {
            let window = Window { thread, from, to };
            Stretch::Thread(path(window, &in_services))
        }
        Had::NoThread { next, from, to, kind, basis } => {
            Stretch::Other { thread: next, from, to, kind, basis }
        }
    };
    path_of_stretches(&joined.recorded.graph, algorithm, had.into_iter().map(stretch).collect())
}

/// The time for which a request's threads are sought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    /// The request's own time.
    Itself,
    /// The time in which the calling thread waits for it.
    Caller,
}

/// The threads that had a request between `from` and `to`, one after the other; `None` for a single thread.
fn had(
    joined: &Joined<'_>,
    request: RequestIndex,
    of: Of,
    from: Stamp<Reference>,
    to: Stamp<Reference>,
) -> Option<Vec<Had>> {
    let seen = joined.contexts.stints(request);
    (of == Of::Itself || seen.len() <= MAX_STINTS_OF_CALLED).then_some(())?;
    let mut stints = seen.to_vec();
    match of {
        Of::Itself => stints.extend(noted(joined, request, from, to)),
        Of::Caller => stints.extend(begun_in(joined, request)),
    }
    let is_one = |stint: &RequestStint| stint.thread == stints[0].thread;
    let turns = if stints.iter().all(is_one) { return None } else { turns(&stints, from, to) };
    if turns.windows(2).all(|pair| pair[0].thread == pair[1].thread) {
        return None;
    }
    let walk = Walk { joined, request, calls: OnceCell::new() };
    let mut groups = Vec::new();
    let mut end = to;
    for (place, turn) in turns.iter().enumerate().rev() {
        if turn.waits_since >= end {
            continue;
        }
        let (thread, taken, until) = (turn.thread, turn.from.min(end), turn.to.min(end));
        let mut group = Vec::new();
        let mut since = turn.waits_since;
        let is_taken_up = turn.from < end && since > from;
        if let Some(busy) = (of == Of::Caller && is_taken_up).then(|| walk.busy_since(turn, from)).flatten() {
            group.push(Had::Thread { thread, from: busy, to: since });
            since = busy;
        }
        if turn.waits_since < taken {
            let before = place.checked_sub(1).map(|before| turns[before]);
            walk.hand_over(before.as_ref(), &Turn { from: taken, ..*turn }, &mut group);
        }
        if taken < until {
            group.push(Had::Thread { thread, from: taken, to: until });
        }
        groups.push(group);
        end = since;
    }
    let had: Vec<Had> = groups.into_iter().rev().flatten().collect();
    debug_assert!(tiles(&had, from, to), "{had:?} do not tile {from:?} to {to:?}");
    Some(had)
}

/// Whether the first part begins at `from`, each other part at the end of the part before, and the last part ends at `to`.
fn tiles(had: &[Had], from: Stamp<Reference>, to: Stamp<Reference>) -> bool {
    let mut at = from;
    had.iter().all(|part| {
        let (Had::Thread { from, to, .. } | Had::NoThread { from, to, .. }) = *part;
        from == std::mem::replace(&mut at, to) && from < to
    }) && at == to
}

/// The times in which the threads named by a request's spans work for it, by the spans and their turns, where these threads' contexts are not known.
/// Empty if the program does not note the hand-over: its own thread may wait for a part in another thread.
fn noted(
    joined: &Joined<'_>,
    request: RequestIndex,
    from: Stamp<Reference>,
    to: Stamp<Reference>,
) -> Vec<RequestStint> {
    let Joined { recorded, traced, places, contexts, turns, .. } = joined;
    let spans = || traced.request(request).spans.iter();
    let is_handed_over =
        |span: &SpanIndex| traced.spans.span(*span).queued.is_some() || turns.threads(*span).next().is_some();
    if !spans().any(is_handed_over) {
        return Vec::new();
    }
    let threads: BTreeSet<ThreadIndex> = spans()
        .flat_map(|&span| places.thread(recorded, traced, span).into_iter().chain(turns.threads(span)))
        .collect();
    let mut stints = Vec::new();
    for thread in threads {
        for piece in contexts.work.between(&thread, from, to) {
            if piece.works_for != WorksFor::Unknown {
                continue;
            }
            let is_own = |works_for| matches!(works_for, WorksFor::Span(span) if traced.requests.containing(span) == request);
            let noted = joined.noted(thread, piece.from, piece.to).into_iter();
            let own = noted.filter(|(.., works_for)| is_own(*works_for));
            stints.extend(own.map(|(from, to, _)| RequestStint { from, to, thread }));
        }
    }
    stints
}

/// The time at which a request began, in its span's thread. If the thread handed it over before its context was read, nothing shows when: the
/// thread gets it for 1 ns.
fn begun_in(joined: &Joined<'_>, request: RequestIndex) -> Option<RequestStint> {
    let Joined { recorded, traced, places, .. } = joined;
    let thread = places.thread(recorded, traced, traced.request(request).root)?;
    let (from, _) = joined.times(request);
    let is_seen = joined.contexts.stints(request).iter().any(|stint| stint.thread == thread);
    (!is_seen).then_some(RequestStint { from, to: from.plus(1), thread })
}

/// Requests handed over in called services.
#[derive(Debug)]
pub struct InServices<'a, 'r> {
    /// The recording and its spans.
    pub joined: &'a Joined<'r>,
}

impl HandOvers for InServices<'_, '_> {
    fn parts_of_wait(&self, wait: &EndedWait) -> Option<Vec<Had>> {
        let request = self.called(wait)?;
        let had = had(self.joined, request, Of::Caller, wait.began, wait.at)?;
        // If another thread than the answering thread had it last, this wait is for something else.
        matches!(had.last(), Some(Had::Thread { thread, .. }) if *thread == wait.by).then_some(had)
    }

    fn since(&self, thread: ThreadIndex, at: Stamp<Reference>) -> Option<Stamp<Reference>> {
        let Joined { traced, contexts, .. } = self.joined;
        let WorksFor::Span(span) = contexts.work.at(&thread, at) else { return None };
        let stints = contexts.stints(traced.requests.containing(span));
        let is_there = |stint: &&RequestStint| stint.thread == thread && stint.from <= at && at <= stint.to;
        stints.iter().rfind(is_there).map(|stint| stint.from)
    }
}

impl InServices<'_, '_> {
    /// The call by the waiting thread's own request to another service; of several, the answering thread's last. The
    /// thread may have left this call before it sent the answer, and turned to another.
    fn called(&self, wait: &EndedWait) -> Option<RequestIndex> {
        let Joined { traced, contexts, .. } = self.joined;
        let WorksFor::Span(span) = contexts.work.at(&wait.waiter, wait.began) else { return None };
        let own = traced.requests.containing(span);
        let pieces = contexts.work.between(&wait.by, wait.began, wait.at);
        let mut requests = pieces.iter().rev().filter_map(|piece| match piece.works_for {
            WorksFor::Span(span) => Some(traced.requests.containing(span)),
            _ => None,
        });
        requests.find(|request| traced.requests.parent(*request) == Some(own))
    }
}

/// A time in which a thread or goroutine has the request, and the time before it in which none has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn<T = ThreadIndex> {
    /// The thread or the goroutine.
    pub thread: T,
    /// The time since which none has it.
    pub waits_since: Stamp<Reference>,
    /// The time from which on this thread or goroutine has it.
    pub from: Stamp<Reference>,
    /// The time up to which it has it.
    pub to: Stamp<Reference>,
}

/// The threads or goroutines with a request, in time order: with their waits they tile its time.
pub fn turns<T: Copy + Ord>(
    stints: &[RequestStint<T>],
    from: Stamp<Reference>,
    to: Stamp<Reference>,
) -> Vec<Turn<T>> {
    let mut turns: Vec<Turn<T>> = Vec::new();
    let mut at = to;
    let mut by_end: Vec<RequestStint<T>> = stints.iter().filter(|stint| stint.to > from).copied().collect();
    by_end.sort_by_key(|stint| (Reverse(stint.to), stint.thread));
    let mut by_end = by_end.into_iter().peekable();
    // The open stints at `at`, the earliest beginning on top.
    let mut open = BinaryHeap::new();
    while at > from {
        while let Some(stint) = by_end.next_if(|stint| stint.to >= at) {
            open.push(Reverse((stint.from, stint.thread)));
        }
        // The thread with the longest stint makes the fewest hand-overs.
        let covering =
            open.peek().map(|Reverse((from, thread))| RequestStint { from: *from, to: at, thread: *thread });
        let covering = covering.filter(|stint| stint.from < at);
        if covering.is_none() {
            // All begin behind it.
            open.clear();
        }
        let before = by_end.peek().copied();
        let next = turns.last_mut();
        match (covering, before, next) {
            // Its thread goes on with it after a pause for something else.
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
    calls: OnceCell<Calls>,
}

/// Notes in a request's spans, looked up at each hand-over.
struct Calls {
    /// The end and the beginning of each call to another service, ordered by end.
    times: Vec<(Stamp<Reference>, Stamp<Reference>)>,
    /// The first time at which the program noted the request as queued.
    queued: Option<Stamp<Reference>>,
}

impl Walk<'_, '_> {
    /// The time before a thread picked the request up. `before` is the previous turn.
    fn hand_over(&self, before: Option<&Turn>, turn: &Turn, had: &mut Vec<Had>) {
        let Turn { thread, waits_since, from: taken, .. } = *turn;
        let other = |from, to, kind, basis| Had::NoThread { next: thread, from, to, kind, basis };
        let mut at = waits_since;
        // A call under way was waited for, whatever the thread did.
        if let Some(answered) = self.answered(at, taken) {
            had.push(other(at, answered, SegmentKind::Network, Basis::Ambiguous));
            at = answered;
        }
        if let Some(idle) = self.idle(thread, at, taken) {
            let woken = idle.to.min(taken);
            had.push(match self.kept_by(before, at, &idle) {
                Some(other) => Had::Thread { thread: other, from: at, to: woken },
                None => other(at, woken, SegmentKind::Unknown, Basis::Ambiguous),
            });
            at = woken;
        }
        let queued = self.queued(at, taken);
        for piece in self.joined.work_of(thread, at, taken) {
            let is_other = self.is_other(piece.works_for);
            let basis = match piece.measured && queued {
                true => Basis::Measured,
                false => Basis::Inferred(Rule::HandedOver),
            };
            had.push(match is_other {
                true => other(piece.from, piece.to, SegmentKind::Queue, basis),
                false => Had::Thread { thread, from: piece.from, to: piece.to },
            });
        }
    }

    /// The time since which a thread was busy with other requests until its pick-up, if before the hand-over. It would have picked the
    /// request up no sooner after an earlier hand-over: so it kept the request waiting since then, or since `from`. A thread woken for work is
    /// not busy before it runs.
    fn busy_since(&self, turn: &Turn, from: Stamp<Reference>) -> Option<Stamp<Reference>> {
        let Turn { thread, waits_since, from: taken, .. } = *turn;
        let mut busy = self.idle(thread, from, taken).map_or(from, |idle| idle.to.max(from));
        for interval in self.joined.recorded.graph.state_intervals(thread).overlapping(busy, taken) {
            let is_idle = self.joined.works_for(thread, busy) == WorksFor::None;
            if !is_idle || !matches!(interval.state, ThreadState::Runnable { .. }) {
                break;
            }
            busy = interval.to;
        }
        let is_known = |piece: &Worked| !matches!(piece.works_for, WorksFor::Unknown | WorksFor::Unplaced);
        let is_busy = busy < waits_since && self.joined.work_of(thread, busy, taken).iter().all(is_known);
        is_busy.then_some(busy)
    }

    /// The end of the last call to another service under way at `at` and ended before `to`.
    fn answered(&self, at: Stamp<Reference>, to: Stamp<Reference>) -> Option<Stamp<Reference>> {
        let times = &self.calls().times;
        let ended_by = |at| times.partition_point(|(end, _)| *end <= at);
        let ended = times.get(ended_by(at)..ended_by(to)).unwrap_or_default();
        ended.iter().rfind(|(_, from)| *from <= at).map(|(end, _)| *end)
    }

    fn calls(&self) -> &Calls {
        self.calls.get_or_init(|| {
            let Joined { traced, places, .. } = self.joined;
            let spans = &traced.request(self.request).spans;
            let calls = spans.iter().filter(|span| traced.spans.span(**span).kind == Kind::Client);
            let times = calls.map(|&span| {
                let (from, end) = self.joined.span_times(span);
                (end, from)
            });
            let mut times: Vec<_> = times.collect();
            times.sort_unstable();
            let queued = |&span| Some(places.stamp(traced, span, traced.spans.span(span).queued?));
            Calls { times, queued: spans.iter().filter_map(queued).min() }
        })
    }

    /// Whether the program noted the request as queued at or before `at`.
    fn queued(&self, at: Stamp<Reference>, taken: Stamp<Reference>) -> bool {
        self.calls().queued.is_some_and(|queued| queued <= at && at < taken)
    }

    /// The last time before its pick-up in which a thread waited for work, and not for a lock.
    fn idle(
        &self,
        thread: ThreadIndex,
        at: Stamp<Reference>,
        taken: Stamp<Reference>,
    ) -> Option<StateInterval> {
        let intervals = self.joined.recorded.graph.state_intervals(thread);
        let is_lock = |interval: &StateInterval| {
            let wait = self.joined.recorded.graph.wait(interval);
            wait.and_then(|wait| wait.lock).is_some_and(|lock| lock.proved)
        };
        let is_idle = |interval: &StateInterval| {
            matches!(interval.state, ThreadState::Blocked(_))
                && !is_lock(interval)
                && self.joined.works_for(thread, interval.from) == WorksFor::None
        };
        intervals.overlapping(at, taken).filter(is_idle).last()
    }

    /// The thread with the request from `at` until the wake-up of the idle thread that picked it up; `before` had it before.
    /// `None` where nothing shows it.
    fn kept_by(
        &self,
        before: Option<&Turn>,
        at: Stamp<Reference>,
        idle: &StateInterval,
    ) -> Option<ThreadIndex> {
        let waker = self.waker(idle);
        // A waker did not keep it if it slept since the hand-over and woke the thread for another request.
        let slept = |waker: &ThreadIndex| {
            self.is_other(self.worked_for(*waker, idle.to)) && self.idle(*waker, at, idle.to).is_some()
        };
        let woken_first = before.and_then(|before| self.woken_for_it(before, idle.to));
        woken_first.or_else(|| waker.filter(|waker| !slept(waker)))
    }

    /// The thread woken by `before`'s thread for the request, if it did not wait for work again until then.
    fn woken_for_it(&self, before: &Turn, until: Stamp<Reference>) -> Option<ThreadIndex> {
        let wakings = self.joined.contexts.wakings(before.thread, before.from, until);
        let is_its = |waking: &Waking| {
            self.is_own(self.worked_for(before.thread, waking.at))
                && self.idle(waking.woken, waking.at.minus(1), waking.at).is_some()
                && self.idle(waking.woken, waking.at, until).is_none()
        };
        let mut latest = wakings.iter().rev().take(MAX_WAKINGS).map(|(waking, _)| *waking);
        latest.find(is_its).map(|waking| waking.woken)
    }

    /// A thread's work as it woke another: by the context read then, if any, since the thread may turn to other work at once.
    fn worked_for(&self, thread: ThreadIndex, at: Stamp<Reference>) -> WorksFor {
        match self.joined.contexts.wakings(thread, at, at.plus(1)).last() {
            Some((_, read)) if *read != WorksFor::Unknown => *read,
            _ => self.joined.works_for(thread, at),
        }
    }

    fn is_own(&self, works_for: WorksFor) -> bool {
        matches!(works_for, WorksFor::Span(span) if self.joined.traced.requests.containing(span) == self.request)
    }

    /// Whether this is work for another request.
    fn is_other(&self, works_for: WorksFor) -> bool {
        match works_for {
            WorksFor::Span(_) => !self.is_own(works_for),
            WorksFor::Missing(..) => true,
            WorksFor::None | WorksFor::Unplaced | WorksFor::Unknown => false,
        }
    }

    fn waker(&self, idle: &StateInterval) -> Option<ThreadIndex> {
        self.joined.recorded.graph.wait(idle)?.woken_by()
    }
}
