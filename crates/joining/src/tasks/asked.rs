//! Questions in a request's own turns, in an event loop whose turns nobody noted: to a connection's other end, to a thread in a pool, or to the time.
//!
//! ```text
//! loop      a...|b|....|a       `a`: in this stretch only this request's data came, and the loop sent a question, or woke an idle thread
//! asked     .ttttttttttt.       the answer, or the thread's wake-up, ends the loop's wait: the stretch behind is the request's too
//! path      atttttttttttta      what others did meanwhile explains nothing
//! ```
//!
//! So both ends show it: the request's stretch asked, and the request is answered in the stretch begun by the answer to the question. If a stretch
//! between is missing, nothing is decided: the request may have waited for something else by then.

use std::collections::HashMap;

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::Timeouts;
use wakepath_event::{Call, Flow};
use wakepath_spans::{RequestIndex, Stint, Work};
use wakepath_wait_graph::{Occupant, StateInterval, ThreadIndex};

use super::{Tiles, Walk};
use crate::arrival::Answered;
use crate::hand_over::InServices;
use crate::join::Joined;

/// The most waits searched for the answers to a request's questions.
const MAX_WAITS: usize = 4096;

/// The most open questions.
const MAX_ASKED: usize = 64;

/// A loop's time for a request between two waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stretch {
    pub(super) thread: ThreadIndex,
    pub(super) from: Stamp<Reference>,
    pub(super) to: Stamp<Reference>,
}

/// A part of a request's time explained by its question.
#[derive(Debug, Clone, Copy)]
pub(super) struct Explained {
    /// The index of the wait behind the asking stretch.
    pub(super) first: usize,
    pub(super) end: ExplainedBy,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum ExplainedBy {
    /// The answer ended the wait with this index.
    Wait(usize),
    /// The timer ended the wait with this index.
    TimeOut(usize),
    /// A thread had done its job by this time, as the loop ran.
    Thread(ThreadIndex, Stamp<Reference>),
    /// A timer was due at this time, as the loop ran.
    Timer(Stamp<Reference>),
}

/// A stretch's question.
#[derive(Debug, Clone, Copy)]
struct Asked {
    /// The number of waits before the stretch.
    stretch: usize,
    whom: Whom,
}

#[derive(Debug, Clone, Copy)]
enum Whom {
    /// This connection's other end; the flow as the loop sends on it.
    End(Flow),
    /// A thread, from this time on; until then it was idle at this condition, or there was no such thread.
    Thread(ThreadIndex, Stamp<Reference>, Option<u64>),
    /// A timer, due at this time.
    Timer(Stamp<Reference>),
}

/// Threads' work for requests known by their connections: an event loop handed it to them in the turn which took the request up.
pub(crate) fn handed_work(joined: &Joined<'_>) -> Work<ThreadIndex, Reference> {
    let in_services = InServices { joined };
    let (tiles, followed) = (Tiles::default(), HashMap::new());
    let walk = Walk { joined, hand_overs: &in_services, timeouts: Timeouts::Joined, tiles, followed };
    let requests = (0..joined.traced.requests.requests.len() as u32).map(RequestIndex);
    let stints = requests.filter_map(|request| {
        let thread = joined.connections.thread(request)?;
        Some(walk.handed_by(request, thread).unwrap_or_default())
    });
    Work::new(stints.flatten())
}

impl Walk<'_, '_> {
    /// The threads to which a request's loop handed work in its first turn, each until it was idle again.
    fn handed_by(
        &self,
        request: RequestIndex,
        thread: ThreadIndex,
    ) -> Option<Vec<Stint<ThreadIndex, Reference>>> {
        let joined = self.joined;
        let (began, _) = joined.times(request);
        let own = joined.exchange(request, thread).filter(|_| self.is_loop(thread, began))?;
        let taken_up = self.taken_up(thread, own, began)?.to;
        let first = self.loop_waits(thread, taken_up, own.answered).first()?.from;
        let stretch = Stretch { thread, from: taken_up, to: first };
        let handed: Vec<_> = self.siblings(thread).filter_map(|by| self.handed(by, stretch)).collect();
        let others = || joined.exchanges().others(thread, Some(own), taken_up, first);
        if handed.is_empty() || stretch.is_disturbed(&others()) {
            return None;
        }
        let stints = handed.into_iter().filter_map(|whom| {
            let Whom::Thread(by, from, at) = whom else { return None };
            let again = at.and_then(|at| self.idle_again(by, at, from, own.answered));
            let to = again.or_else(|| self.idle_at(by, own.answered)).unwrap_or(own.answered);
            let span = joined.traced.request(request).root;
            Some(Stint { thread: by, from, to, span })
        });
        Some(stints.collect())
    }

    /// A request's waits for the answers to its questions, up to its own answer. `None` unless they explain all this time.
    pub(super) fn asked_waits(
        &self,
        thread: ThreadIndex,
        own: Answered,
        began: Stamp<Reference>,
        waits: &[StateInterval],
    ) -> Option<Vec<Explained>> {
        let (first, last) = (waits.first()?, waits.last()?);
        let taken_up = self.taken_up(thread, own, began)?;
        let others = self.joined.exchanges().others(thread, Some(own), taken_up.to, last.to);
        let mut asked = self.asked_between(thread, &taken_up, first, 0, &others);
        let mut stretches = Vec::new();
        for (place, wait) in waits.iter().enumerate().take(MAX_WAITS) {
            let by = asked.iter().rev().find(|one| self.has_ended(thread, one, waits, wait));
            let is_timer = |one: &Asked| matches!(one.whom, Whom::Timer(_));
            let by = by.map(|one| {
                (one.stretch, if is_timer(one) { ExplainedBy::TimeOut } else { ExplainedBy::Wait })
            });
            stretches.push(by);
            if let (Some(_), Some(next)) = (by, waits.get(place + 1)) {
                asked.extend(self.asked_between(thread, wait, next, place + 1, &others));
                let too_many = asked.len().saturating_sub(MAX_ASKED);
                asked.drain(..too_many);
            }
        }
        // Back from the answer: only what made its stretch ready explains the time before.
        let (mut explained, mut at) = (Vec::new(), waits.len());
        if stretches.last().is_some_and(Option::is_none) {
            let ended = self.ended_as_it_ran(&asked, waits, own.answered)?;
            at = ended.first;
            explained.push(ended);
        }
        while let Some(ended) = at.checked_sub(1) {
            let (first, end) = (*stretches.get(ended)?)?;
            explained.push(Explained { first, end: end(ended) });
            at = first;
        }
        explained.reverse();
        Some(explained)
    }

    /// The single asked thread which ended its job since the loop's last wait began, and is idle as the request is answered; or the single timer due
    /// since this wait's end.
    fn ended_as_it_ran(
        &self,
        asked: &[Asked],
        waits: &[StateInterval],
        answered: Stamp<Reference>,
    ) -> Option<Explained> {
        let (since, ran) = waits.last().map(|last| (last.from, last.to))?;
        let mut ended = asked.iter().filter_map(|one| match one.whom {
            Whom::Timer(due) => {
                let was_due = ran <= due && due <= answered && self.stood(due, &waits[one.stretch..]);
                was_due.then_some(Explained { first: one.stretch, end: ExplainedBy::Timer(due) })
            }
            Whom::Thread(by, ..) => {
                let done = self.idle_at(by, answered).filter(|done| *done >= since)?;
                Some(Explained { first: one.stretch, end: ExplainedBy::Thread(by, done) })
            }
            Whom::End(_) => None,
        });
        ended.next().filter(|_| ended.next().is_none())
    }

    /// The time since which a thread is idle at a time.
    fn idle_at(&self, by: ThreadIndex, at: Stamp<Reference>) -> Option<Stamp<Reference>> {
        let mut now = self.joined.recorded.graph.state_intervals(by).overlapping(at, at.plus(1));
        now.find(|wait| self.condition_of(wait).is_some()).map(|wait| wait.from)
    }

    /// The wait before a request, if its data ended this wait, or came behind: it was taken up at once.
    fn taken_up(&self, thread: ThreadIndex, own: Answered, began: Stamp<Reference>) -> Option<StateInterval> {
        self.wait_before(thread, began).filter(|before| before.from < own.asked)
    }

    /// The questions in the stretch between two waits; none if another request's data came in it, or its answer went out.
    fn asked_between(
        &self,
        thread: ThreadIndex,
        before: &StateInterval,
        after: &StateInterval,
        number: usize,
        others: &[Answered],
    ) -> Vec<Asked> {
        let stretch = Stretch { thread, from: before.to, to: after.from };
        if stretch.is_disturbed(others) {
            return Vec::new();
        }
        let ends = self.joined.exchanges().asked_on(thread, stretch.from, stretch.to).map(Whom::End);
        let threads = self.siblings(thread).filter_map(|by| self.handed(by, stretch));
        let timer = self.timer_set(before, after).map(Whom::Timer);
        ends.chain(threads).chain(timer).take(MAX_ASKED).map(|whom| Asked { stretch: number, whom }).collect()
    }

    /// A thread woken by the loop in a stretch, or made.
    fn handed(&self, by: ThreadIndex, Stretch { thread, from, to }: Stretch) -> Option<Whom> {
        let graph = &self.joined.recorded.graph;
        let intervals = graph.state_intervals(by);
        let born = || {
            let born =
                intervals.get(0).map(|first| first.from).filter(|born| from <= *born && *born <= to)?;
            (graph.thread(by).forker() == Some(Occupant::Thread(thread))).then_some(born)
        };
        let was_idle = |wait: &StateInterval| {
            wait.from < from && from <= wait.to && wait.to <= to && self.is_handed_a_job(wait, thread)
        };
        let idle = intervals.overlapping(from, to).find(was_idle);
        match idle {
            Some(idle) => Some(Whom::Thread(by, idle.to, self.condition_of(&idle))),
            None => born().map(|born| Whom::Thread(by, born, None)),
        }
    }

    /// Whether a question's answer ended the loop's wait.
    fn has_ended(
        &self,
        thread: ThreadIndex,
        asked: &Asked,
        waits: &[StateInterval],
        wait: &StateInterval,
    ) -> bool {
        let graph = &self.joined.recorded.graph;
        let Some(ended) = graph.wait(wait) else { return false };
        match asked.whom {
            Whom::Timer(due) => {
                let since = waits.iter().skip(asked.stretch).take_while(|one| one.from <= wait.from);
                self.is_ended_by_timer(wait, due) && self.stood(due, since)
            }
            Whom::End(flow) => {
                let Some(packet) = self.packet_of(wait) else { return false };
                packet.alone && graph.flow(packet.flow).is_some_and(|back| back.reversed() == flow)
            }
            Whom::Thread(by, _, at) => {
                // The loop may have handed it another job since.
                let since = waits.get(asked.stretch).map_or(wait.from, |next| next.from);
                let is_other_job = |idle: &StateInterval| {
                    let same = self
                        .condition_of(idle)
                        .zip(at)
                        .is_none_or(|(it, at)| Call::is_same_condition(it, at));
                    idle.to <= wait.to && same && self.is_handed_a_job(idle, thread)
                };
                ended.woken_by() == Some(by)
                    && !graph.state_intervals(by).overlapping(since, wait.to).any(|idle| is_other_job(&idle))
            }
        }
    }
}

impl Stretch {
    /// Whether another request's data came in a stretch, or its answer went out: the stretch may be the other's.
    pub(super) fn is_disturbed(self, others: &[Answered]) -> bool {
        let is_within = |at: Stamp<Reference>| self.from <= at && at <= self.to;
        others.iter().any(|other| is_within(other.asked) || is_within(other.answered))
    }
}
