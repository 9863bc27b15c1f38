//! Timers in an event loop whose turns nobody noted: each wait's time-out shows when the loop's next timer is due.
//!
//! ```text
//! loop      a.....|b...|a     each wait ends at the next timer's due time, if nothing comes before
//! due       -| t---------|    in `a`'s stretch the next timer became `t`: `a` set it
//! path      attttttttttta     answered in the stretch in which `t` was due: `t` explains the time
//! ```
//!
//! A waiting loop has nothing else to do. So the end of its last wait before an answer, or a timer due since, made all turns up to the answer ready: if
//! another request's data or timer alone ended the wait, the answered request waited for the other request.
//!
//! A ticker hides later timers: behind a tick, the loop's next timer may have been set long before, by anybody. But where each tick sets the next tick
//! after the same time as before the request, nobody else had a turn.

use wakepath_clock::{Reference, Stamp};
use wakepath_event::{Context, Softirq, Timeout};
use wakepath_spans::{Kind, RequestIndex};
use wakepath_wait_graph::{Evidence, Received, StateInterval, ThreadIndex, WakeUp, Waker};

use super::asked::Stretch;
use super::{TAKES_UP_NS, Walk, is_blocked};
use crate::arrival::{ACCEPTS_NS, Answered, early_ns};

/// Time-outs are whole milliseconds, counted from the loop's own clock, which may stand a little before the wait, ns.
const NEAR_NS: u64 = 2_000_000;

/// A shorter timer is confused with others due at about its time, ns.
const MIN_TIMER_NS: u64 = 10 * NEAR_NS;

/// Behind each time.
const NEVER: Stamp<Reference> = Stamp::from_ns(u64::MAX);

/// The most intervals searched for ticks before a request.
const MAX_BEFORE: usize = 256;

/// The last ends of a loop's waits by timers searched for ticks.
const MAX_TIMERS: usize = 8;

/// A ticker has at least as many ticks with the same time between them.
const MIN_TICKS: usize = 3;

/// The other request whose turn made a request ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MadeReady {
    pub(super) by: RequestIndex,
    /// The beginning of the first wait behind the request's own turn.
    pub(super) from: Stamp<Reference>,
    /// The last wait's end.
    pub(super) to: Stamp<Reference>,
}

impl Walk<'_, '_> {
    /// The time at which a loop's wait ends if nothing comes: its next timer is due then, or up to a millisecond before.
    fn due(&self, wait: &StateInterval) -> Option<Stamp<Reference>> {
        match self.joined.recorded.graph.wait(wait)?.timeout? {
            Timeout::Never => Some(NEVER),
            Timeout::Ms(ms) => Some(wait.from.plus(u64::from(ms) * 1_000_000)),
        }
    }

    /// The due time for a timer set between two waits, if it is the loop's next timer.
    pub(super) fn timer_set(
        &self,
        before: &StateInterval,
        after: &StateInterval,
    ) -> Option<Stamp<Reference>> {
        let (old, new) = (self.due(before)?, self.due(after)?);
        // Behind a timer due meanwhile, the next timer is due later: it may have been set at any time.
        let is_long = new.since(after.from) >= MIN_TIMER_NS;
        (is_long && new.plus(NEAR_NS) < old).then_some(new)
    }

    /// Whether the timer that ended a wait was the loop's next one before `from`, the first wait behind a request's turn.
    pub(super) fn stood_before(
        &self,
        thread: ThreadIndex,
        from: Stamp<Reference>,
        last: &StateInterval,
    ) -> bool {
        let before = self.wait_before(thread, from).and_then(|wait| self.due(&wait));
        before
            .zip(self.due(last))
            .is_some_and(|(old, due)| due != NEVER && old.ns().abs_diff(due.ns()) <= NEAR_NS)
    }

    /// Whether a timer still stood in each wait: none would have lasted beyond it.
    pub(super) fn stood<'w>(
        &self,
        due: Stamp<Reference>,
        waits: impl IntoIterator<Item = &'w StateInterval>,
    ) -> bool {
        waits.into_iter().all(|wait| self.due(wait).is_some_and(|end| end <= due.plus(NEAR_NS)))
    }

    /// Whether a wait ended as a timer was due, by its time-out.
    pub(super) fn is_ended_by_timer(&self, wait: &StateInterval, due: Stamp<Reference>) -> bool {
        let Some(woken) = self.woken_up(wait) else { return false };
        let by_timer = matches!(
            woken.context,
            Context::LocalTimer | Context::Softirq(Softirq::Timer) | Context::Softirq(Softirq::Hrtimer)
        );
        let near = |at: Stamp<Reference>| at.ns().abs_diff(due.ns()) <= NEAR_NS;
        by_timer && near(woken.at) && self.due(wait).is_some_and(near)
    }

    /// The other request whose data or timer alone ended the last wait between a request's first turn and its answer; only ticks ended the waits before.
    pub(super) fn made_ready(
        &self,
        (request, thread): (RequestIndex, ThreadIndex),
        own: Answered,
        waits: &[StateInterval],
    ) -> Option<MadeReady> {
        let ([before @ .., last], first) = (waits, waits.first()?) else { return None };
        let exchanges = self.joined.exchanges();
        let others = exchanges.others(thread, Some(own), first.from, own.answered);
        let limit_ns = TAKES_UP_NS.max(last.to.since(first.from) / 20);
        let is_short = self.ran_ns(thread, last.to, own.answered) <= limit_ns;
        let helped = |by| self.ran_ns(by, last.to, own.answered) > 0;
        let asked = exchanges.asked_on(thread, own.asked, own.answered).next().is_some();
        if !is_short || asked || self.siblings(thread).any(helped) {
            return None;
        }
        // The loop accepted the other request's connection right before its data came.
        let accepted =
            before.last().filter(|wait| self.is_connection(wait) && last.to.since(wait.to) <= ACCEPTS_NS);
        let ticks = &before[..before.len() - usize::from(accepted.is_some())];
        if !self.are_ticks(thread, ticks, accepted.unwrap_or(last)) {
            return None;
        }
        let mut came = others.iter().filter(|it| last.from < it.asked && it.asked <= own.answered);
        match (came.next(), came.next()) {
            (Some(data), None) => {
                let accepts = self.is_connection(last) && last.to < data.asked;
                let alone = self.due(last)? > own.answered;
                let ended = alone && (accepts || self.is_ended_by_data(last, data));
                let begun = self.begun(thread, request, (data.asked, own.answered));
                Some(MadeReady { by: begun.filter(|_| ended)?, from: first.from, to: last.to })
            }
            (None, _) => {
                let due = self.due(last).filter(|due| self.is_ended_by_timer(last, *due))?;
                let by = others.iter().find(|it| self.has_set(thread, **it, due, last))?;
                Some(MadeReady { by: self.request_of(thread, by)?, from: first.from, to: last.to })
            }
            _ => None,
        }
    }

    /// The service's single other request begun in this time, perhaps by this thread.
    fn begun(
        &self,
        thread: ThreadIndex,
        own: RequestIndex,
        (from, to): (Stamp<Reference>, Stamp<Reference>),
    ) -> Option<RequestIndex> {
        let traced = self.joined.traced;
        let service = traced.root(own).service;
        let early = early_ns(traced.spans.service(traced.request(own).root).language);
        let requests = (0..traced.requests.requests.len() as u32).map(RequestIndex);
        let mut begun = requests.filter(|request| {
            let (began, _) = self.joined.times(*request);
            let root = traced.root(*request);
            from.minus(early) <= began
                && began <= to
                && root.kind == Kind::Server
                && root.service == service
                && self.joined.thread_of(*request).is_none_or(|other| other == thread)
        });
        begun.next().filter(|_| begun.next().is_none())
    }

    /// The request with this exchange in the loop's thread.
    fn request_of(&self, thread: ThreadIndex, exchange: &Answered) -> Option<RequestIndex> {
        let requests = (0..self.joined.traced.requests.requests.len() as u32).map(RequestIndex);
        let mut same = requests.filter(|request| self.joined.exchange(*request, thread) == Some(*exchange));
        same.next()
    }

    /// Whether a request set, in the stretch that took it up, the timer due at this time, in the loop's wait `last`.
    fn has_set(
        &self,
        thread: ThreadIndex,
        by: Answered,
        due: Stamp<Reference>,
        last: &StateInterval,
    ) -> bool {
        // Its data ended this wait, or came behind, as the loop accepted its connection.
        let Some(before) = self.wait_before(thread, by.asked).filter(|wait| self.is_loop_wait(wait)) else {
            return false;
        };
        let intervals = self.joined.recorded.graph.state_intervals(thread);
        let mut behind = intervals.overlapping(before.to, last.to).filter(|wait| self.is_loop_wait(wait));
        let Some(after) = behind.next() else { return false };
        let stretch = Stretch { thread, from: before.to, to: after.from };
        let others = self.joined.exchanges().others(thread, Some(by), before.to, after.from);
        !stretch.is_disturbed(&others)
            && self.timer_set(&before, &after).is_some_and(|set| set.ns().abs_diff(due.ns()) <= NEAR_NS)
    }

    /// Whether the network ended a wait, and no known connection's data: a new connection came.
    fn is_connection(&self, wait: &StateInterval) -> bool {
        let is_data = self.packet_of(wait).is_some_and(|packet| packet.named);
        self.woken_up(wait).is_some_and(|woken| woken.context == Context::Softirq(Softirq::NetRx)) && !is_data
    }

    /// Whether a packet of this exchange's question alone ended a wait.
    fn is_ended_by_data(&self, wait: &StateInterval, data: &Answered) -> bool {
        let Some(packet) = self.packet_of(wait) else { return false };
        let flow = self.joined.recorded.graph.flow(packet.flow);
        packet.alone && flow.is_some_and(|flow| flow.source.port() == data.port)
    }

    fn woken_up(&self, wait: &StateInterval) -> Option<WakeUp> {
        match self.joined.recorded.graph.wait(wait)?.end {
            Waker::Woken(woken) => Some(woken),
            Waker::Unseen | Waker::Open => None,
        }
    }

    /// The packet that ended a wait.
    pub(super) fn packet_of(&self, wait: &StateInterval) -> Option<Received> {
        match self.joined.recorded.graph.evidence(self.woken_up(wait)?.evidence)? {
            Evidence::Packet(packet) => Some(*packet),
            Evidence::Block(_) | Evidence::Doubtful => None,
        }
    }

    /// Whether each wait before `last` ended by a tick, which set the next tick; the ticker ran before these waits too.
    fn are_ticks(&self, thread: ThreadIndex, ticks: &[StateInterval], last: &StateInterval) -> bool {
        let Some(first) = ticks.first() else { return true };
        let Some(period_ns) = self.ticker(thread, first.from) else { return false };
        let next = ticks.iter().skip(1).chain([last]);
        ticks.iter().zip(next).all(|(tick, next)| self.is_tick(tick, next, period_ns))
    }

    /// Whether a wait ended by its time-out, and the next wait's time-out is this period.
    fn is_tick(&self, tick: &StateInterval, next: &StateInterval, period_ns: u64) -> bool {
        let ended = self.due(tick).is_some_and(|due| self.is_ended_by_timer(tick, due));
        let next = self.due(next).map(|due| due.since(tick.to));
        ended && next.is_some_and(|ns| ns.abs_diff(period_ns) <= NEAR_NS)
    }

    /// The period of a loop's ticker before a time, ns: the longest time between its last timers, if some were so far apart.
    fn ticker(&self, thread: ThreadIndex, at: Stamp<Reference>) -> Option<u64> {
        let intervals = self.joined.recorded.graph.state_intervals(thread);
        let last = intervals.find_before(at)?;
        let before = (last.saturating_sub(MAX_BEFORE)..=last).filter_map(|place| intervals.get(place));
        let waits: Vec<_> = before.filter(|wait| is_blocked(wait) && self.is_loop_wait(wait)).collect();
        let periods = waits.windows(2).rev().filter_map(|pair| {
            let due = self.due(&pair[0])?;
            let is_timer = self.is_ended_by_timer(&pair[0], due);
            Some(self.due(&pair[1])?.since(pair[0].to)).filter(|_| is_timer)
        });
        // Behind another timer, the next tick is nearer.
        let periods: Vec<_> = periods.take(MAX_TIMERS).collect();
        let period_ns = *periods.iter().max()?;
        let ticks = periods.iter().filter(|ns| ns.abs_diff(period_ns) <= NEAR_NS);
        (ticks.count() >= MIN_TICKS).then_some(period_ns)
    }
}
