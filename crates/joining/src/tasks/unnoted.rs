//! A request's time in an event loop whose turns nobody noted: only the kernel shows something.
//!
//! ```text
//! loop      a...|b..|...|a       `a`: data or an answer of this request; `b`: of another one; `.`: waits; `|`: something ended a wait
//! path      a???????????aa       the last wait ended for this request's answer only if no other request was open
//! ```
//!
//! The loop sends an answer right behind the wait that made the request ready. If another request was open then, its turn may have come between, and
//! may be what made this one ready (a lock, a queue): nothing shows it.

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::{Basis, Cause, Rule, Segment, SegmentKind, Window, as_single_wait};
use wakepath_event::{Call, Context, WaitEnd};
use wakepath_spans::{Kind, RequestIndex};
use wakepath_wait_graph::{Graph, StateInterval, ThreadIndex, ThreadState};

use super::asked::{Explained, ExplainedBy};
use super::due::MadeReady;
use super::{COARSE_NS, MAX_SPANS, Place, TAKES_UP_NS, Walk, is_blocked, is_noted};
use crate::arrival::Answered;
use crate::model::JoinedBy;

/// The most intervals searched for the loop's wait before a request.
const MAX_BEFORE: usize = 64;

impl Walk<'_, '_> {
    /// A request's time in a thread without noted turns: where the thread waits for a set, it is an event loop, and nothing notes the turns.
    /// `None` for another thread, and for a loop without another request meanwhile: [`super::InLoop`].
    pub(super) fn without_turns(
        &mut self,
        request: RequestIndex,
        thread: ThreadIndex,
        place: Place,
    ) -> Option<()> {
        if is_noted(self.joined, request) {
            return None;
        }
        if self.joined.joined_by(request) == JoinedBy::Connection {
            return self.by_connection(request, thread, place);
        }
        let super::Joined { traced, work, .. } = self.joined;
        let waits = self.loop_waits(thread, place.from, place.to);
        if waits.is_empty() {
            return None;
        }
        let is_other = |span| {
            let other = traced.requests.containing(span);
            !traced.requests.is_part(other, request) && !traced.requests.is_part(request, other)
        };
        let open = work.open(&thread, place.from, place.to);
        let beside_others = open
            .iter()
            .filter_map(|(_, _, open)| *open)
            .any(|(last, first)| is_other(last) || is_other(first));
        if !beside_others {
            return None;
        }
        let mut at = place.from;
        for wait in waits {
            let [from, to] = [wait.from, wait.to].map(|end| end.clamp(at, place.to));
            self.thread(thread, place.since(at).until(from), Some(request));
            self.undecided(request, thread, place.since(from).until(to));
            at = to;
        }
        self.thread(thread, place.since(at), Some(request));
        Some(())
    }

    /// A loop's waits for its set in this time.
    pub(super) fn loop_waits(
        &self,
        thread: ThreadIndex,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
    ) -> Vec<StateInterval> {
        let all = self.joined.recorded.graph.state_intervals(thread).overlapping(from, to);
        all.filter(|interval| self.is_loop_wait(interval)).collect()
    }

    pub(super) fn is_loop_wait(&self, interval: &StateInterval) -> bool {
        is_loop_wait(&self.joined.recorded.graph, interval)
    }

    /// The time of a request whose thread sent its answer. `None` unless this thread also took the request up, as an event loop does, and
    /// waited or answered another request meanwhile.
    fn by_connection(&mut self, request: RequestIndex, thread: ThreadIndex, place: Place) -> Option<()> {
        if !self.is_loop(thread, place.from) {
            return None;
        }
        let joined = self.joined;
        // Two answers at about its end: either may be its own.
        let own = joined.exchange(request, thread);
        let answered = own.map_or(place.to, |own| own.answered).clamp(place.from, place.to);
        let others = joined.exchanges().others(thread, own, place.from, answered);
        let waits = self.loop_waits(thread, place.from, answered);
        let other = others.iter().map(|other| other.answered).filter(|at| *at < answered).max();
        let last = waits.last().copied();
        let since = last.map(|last| last.to).max(other)?.clamp(place.from, place.to);
        // Without a wait, another request may have had the loop from the beginning.
        let first = waits.first().map_or(place.from, |wait| wait.from).clamp(place.from, since);
        self.thread(thread, place.until(first), Some(request));
        let gap = place.since(first).until(since);
        let is_for_it = |last: &StateInterval| {
            let is_open = others.iter().any(|other| other.asked <= answered && last.to < other.answered);
            let limit_ns = TAKES_UP_NS.max(since.since(first) / 20);
            !is_open && self.ran_ns(thread, since, answered) <= limit_ns
        };
        match last.filter(is_for_it) {
            Some(_) => self.ended(request, thread, gap, (&waits, &others)),
            None => {
                // A program's clock may put the beginning into the wait before.
                let is_before =
                    |wait: &StateInterval| wait.from < place.from && wait.to.since(place.from) <= COARSE_NS;
                let waits = &waits[usize::from(waits.first().is_some_and(is_before))..];
                match own.and_then(|own| self.asked_waits(thread, own, place.from, waits)) {
                    Some(asked) => {
                        self.asked(request, thread, place.since(first), (waits, &asked));
                        return Some(());
                    }
                    None => match own.and_then(|own| self.made_ready((request, thread), own, waits)) {
                        Some(made) => {
                            let [from, to] = [made.from, made.to].map(|end| end.clamp(first, place.to));
                            self.thread(thread, place.since(first).until(from), Some(request));
                            let gap = place.since(from).until(to);
                            self.made_ready_by(request, thread, gap, made);
                            self.thread(thread, place.since(gap.to), None);
                            return Some(());
                        }
                        None => self.undecided_but_calls(request, thread, gap),
                    },
                }
            }
        }
        self.thread(thread, place.since(since), Some(request));
        Some(())
    }

    /// A request's time from its first wait on, where it waited for the answers to its questions.
    fn asked(
        &mut self,
        request: RequestIndex,
        thread: ThreadIndex,
        place: Place,
        (waits, asked): (&[StateInterval], &[Explained]),
    ) {
        let mut at = place.from;
        for Explained { first, end } in asked {
            let to = match end {
                ExplainedBy::Wait(ended) | ExplainedBy::TimeOut(ended) => waits[*ended].to,
                ExplainedBy::Thread(_, done) | ExplainedBy::Timer(done) => *done,
            };
            let [from, to] = [waits[*first].from, to].map(|end| end.clamp(at, place.to));
            self.thread(thread, place.since(at).until(from), Some(request));
            let gap = place.since(from).until(to);
            match *end {
                ExplainedBy::Thread(by, _) => {
                    let below = self.wait(request, thread, by, gap, Rule::AskedInTurn);
                    self.thread(by, below, None);
                }
                ExplainedBy::TimeOut(_) => self.own_timer(request, thread, gap),
                ExplainedBy::Timer(due) => {
                    self.own_timer(request, thread, gap);
                    // Behind it the loop ran for others or for this request: nothing shows since when.
                    return self.undecided_but_calls(request, thread, place.since(due));
                }
                ExplainedBy::Wait(_) => {
                    let graph = &self.joined.recorded.graph;
                    let window = Window { thread, from, to };
                    match as_single_wait(graph, window, self.timeouts, self.hand_overs, Rule::AskedInTurn) {
                        Some(path) => self.add(path, gap, Some(request)),
                        None => self.undecided_but_calls(request, thread, gap),
                    }
                }
            }
            at = to;
        }
        self.thread(thread, place.since(at), Some(request));
    }

    /// A wait for the request's own timer.
    fn own_timer(&mut self, request: RequestIndex, thread: ThreadIndex, gap: Place) {
        let (kind, cause) = (SegmentKind::Timer, Cause::Timer { context: Context::LocalTimer });
        self.own(request, thread, gap, kind, cause, Basis::Inferred(Rule::AskedInTurn));
    }

    /// A wait for what another request's turn did, up to the end of the loop's last wait.
    fn made_ready_by(&mut self, request: RequestIndex, thread: ThreadIndex, gap: Place, made: MadeReady) {
        let rule = Rule::ReadyInTurn;
        let below = self.wait(request, thread, thread, gap, rule);
        let window = Window { thread, from: gap.from, to: gap.to };
        let graph = &self.joined.recorded.graph;
        match as_single_wait(graph, window, self.timeouts, self.hand_overs, rule) {
            Some(path) => self.add(path, below, Some(made.by)),
            None => self.undecided(made.by, thread, below),
        }
    }

    /// Whether a thread waited in an event loop last before `at`.
    pub(super) fn is_loop(&self, thread: ThreadIndex, at: Stamp<Reference>) -> bool {
        self.wait_before(thread, at).is_some_and(|wait| self.is_loop_wait(&wait))
    }

    /// A thread's last wait before `at`.
    pub(super) fn wait_before(&self, thread: ThreadIndex, at: Stamp<Reference>) -> Option<StateInterval> {
        let intervals = self.joined.recorded.graph.state_intervals(thread);
        let last = intervals.find_before(at)?;
        let mut before =
            (last.saturating_sub(MAX_BEFORE)..=last).rev().filter_map(|place| intervals.get(place));
        before.find(is_blocked)
    }

    /// For how long a thread ran in this time, ns.
    pub(super) fn ran_ns(&self, thread: ThreadIndex, from: Stamp<Reference>, to: Stamp<Reference>) -> u64 {
        let intervals = self.joined.recorded.graph.state_intervals(thread);
        intervals.time_in(from, to, |state| matches!(state, ThreadState::Running { .. }))
    }

    /// A wait up to the end of the loop's last wait, behind which it sent the answer.
    fn ended(
        &mut self,
        request: RequestIndex,
        thread: ThreadIndex,
        gap: Place,
        (waits, others): (&[StateInterval], &[Answered]),
    ) {
        let graph = &self.joined.recorded.graph;
        let rule = Rule::NextTurn;
        let is_descriptor = |wait: &StateInterval| {
            let call = graph.wait(wait).and_then(|wait| wait.call);
            // A wake-up by a packet names no descriptor.
            self.packet_of(wait).is_some()
                || call.is_some_and(|call| matches!(call.ended_by(), WaitEnd::Ready(_)))
        };
        let window = Window { thread, from: gap.from, to: gap.to };
        let path = as_single_wait(graph, window, self.timeouts, self.hand_overs, rule);
        let is_timer = |segment: &Segment| segment.depth == 0 && segment.kind == SegmentKind::Timer;
        match path {
            Some(path) if waits.last().is_some_and(is_descriptor) || !path.segments.iter().any(is_timer) => {
                self.add(path, gap, Some(request));
            }
            // A timer from before the request is not its own.
            Some(_) if waits.last().is_some_and(|last| self.stood_before(thread, gap.from, last)) => {
                self.undecided_but_calls(request, thread, gap);
            }
            // A time-out is the request's timer. Before it there may have been an earlier turn: where the loop was busy, and where it waited
            // for what came for no other request.
            Some(_) => {
                let limit_ns = TAKES_UP_NS.max(gap.to.since(gap.from) / 20);
                let may_be_turn = |pair: &&[StateInterval]| {
                    let [wait, next] = pair else { return false };
                    next.from.since(wait.to) > limit_ns || (is_descriptor(wait) && !is_asked(wait, others))
                };
                let turn = waits.windows(2).rfind(may_be_turn).map_or(gap.from, |pair| pair[1].from);
                let turn = turn.clamp(gap.from, gap.to);
                self.undecided_but_calls(request, thread, gap.until(turn));
                let (kind, cause) = (SegmentKind::Timer, Cause::Timer { context: Context::LocalTimer });
                self.own(request, thread, gap.since(turn), kind, cause, Basis::Inferred(rule));
            }
            None => self.undecided_but_calls(request, thread, gap),
        }
    }

    /// A wait of which nothing is known but the calls to other services that were open meanwhile.
    fn undecided_but_calls(&mut self, request: RequestIndex, thread: ThreadIndex, place: Place) {
        let traced = self.joined.traced;
        let spans = traced.request(request).spans.iter().take(MAX_SPANS).copied();
        let calls = spans.filter(|span| traced.spans.span(*span).kind == Kind::Client);
        let mut calls: Vec<_> = calls.map(|span| self.joined.span_times(span)).collect();
        calls.sort_unstable();
        let mut at = place.from;
        for (began, ended) in calls {
            let [began, ended] = [began, ended].map(|end| end.clamp(at, place.to));
            if began == ended {
                continue;
            }
            self.undecided(request, thread, place.since(at).until(began));
            let call = place.since(began).until(ended);
            if !self.call(request, thread, call) {
                self.undecided(request, thread, call);
            }
            at = ended;
        }
        self.undecided(request, thread, place.since(at));
    }
}

/// Whether a thread waits for a set, as an event loop does.
pub(crate) fn is_loop_wait(graph: &Graph, interval: &StateInterval) -> bool {
    let call = graph.wait(interval).and_then(|wait| wait.call);
    is_blocked(interval) && call.is_some_and(|call| Call::EPOLLS.contains(&call.number))
}

/// Whether a loop's wait ended for another request's data, or for the connection on which they came.
fn is_asked(wait: &StateInterval, others: &[Answered]) -> bool {
    others.iter().any(|other| wait.from <= other.asked && other.asked <= wait.to.plus(TAKES_UP_NS))
}
