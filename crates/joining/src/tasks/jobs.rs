//! Waits for a job in the runtime's pool: the loop's thread handed the job over and woke a thread in the pool, a worker, which then ran until it
//! was idle again.
//!
//! Another worker may have woken the loop: other jobs end its waits too. And a loop already awake as the job ends is not woken for it.

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::Rule;
use wakepath_event::{Call, Context};
use wakepath_spans::{RequestIndex, WorksFor};
use wakepath_wait_graph::{Occupant, StateInterval, ThreadIndex, ThreadState, Wait, WakeUp, Waker};

use super::{Joined, Place, Turned, Turns, Walk, is_blocked};

/// The most turns, back from a wait for a job, in which the job may have been handed over.
const MAX_TURNS: usize = 16;

/// The most intervals to look back for a worker's last idle wait.
const MAX_INTERVALS: usize = 4096;

/// The most intervals between a worker's waking and its job.
const MAX_BEFORE_JOB: usize = 16;

/// The most, ns, for which a woken worker runs before it waits for its queue's lock.
const BEFORE_LOCK_NS: u64 = 20_000;

/// The size of both words, bytes, at which threads wait for a condition variable in glibc. Its lock may lie right behind them.
const CONDITION_BYTES: u64 = 8;

/// The most, ns, by which a program notes a turn's end too early.
const NOTES_NS: u64 = 100_000;

/// A job in the pool.
#[derive(Debug, Clone, Copy)]
struct Job {
    /// The worker.
    by: ThreadIndex,
    /// It had done the job, perhaps only right behind the callback's beginning as the program notes it.
    done: Stamp<Reference>,
    /// Before, it had worked for another request, up to this time.
    before: Option<(RequestIndex, Stamp<Reference>)>,
}

/// A worker that the loop's thread woke.
#[derive(Debug, Clone, Copy)]
struct Woken {
    by: ThreadIndex,
    /// The ended wait.
    idle: StateInterval,
}

impl Walk<'_, '_> {
    /// The time up to a job's callback: the worker ran, then the loop had other work.
    pub(super) fn job(&mut self, request: RequestIndex, turns: &Turns, place: Place) {
        let Place { from, to, .. } = place;
        if from >= to || self.call(request, turns.thread, place) {
            return;
        }
        let Some(job) = self.job_until(request, turns, place) else {
            return self.undecided(request, turns.thread, place);
        };
        let done = job.done.clamp(from, to);
        if from < done {
            let below = self.wait(request, turns.thread, job.by, place.until(done), Rule::NotedReady);
            let (other, began) = job.before.map_or((None, from), |(other, until)| (Some(other), until));
            let began = began.clamp(from, done);
            self.thread(job.by, below.until(began), other);
            self.thread(job.by, below.since(began), None);
        }
        self.thread(turns.thread, place.since(done), None);
    }

    /// The job for which a request waited over this time: alone done by then among the jobs handed over in the request's last turn with jobs.
    fn job_until(&self, request: RequestIndex, turns: &Turns, place: Place) -> Option<Job> {
        let before = turns.turns.partition_point(|turn| turn.from < place.from);
        let last = turns.turns[..before].iter().rev().take(MAX_TURNS);
        let woken_in = |turn: &Turned| {
            let until = turn.to.plus(NOTES_NS).min(place.to);
            self.took_up(turns.thread, self.woken_between(turns.thread, turn.from, until), place.to)
        };
        let mut woken = last.map(woken_in);
        let Some(woken) = woken.find(|woken| !woken.is_empty()) else {
            return self.queued_job(request, turns.thread, place);
        };
        let done = |Woken { by, idle }: &Woken| {
            let done = self.done(turns.thread, *by, idle, place.to)?;
            Some(Job { by: *by, done, before: None })
        };
        let mut done = woken.iter().filter_map(done);
        match (done.next(), done.next()) {
            (None, _) => self.queued_job(request, turns.thread, place),
            (job, None) => job,
            _ => None,
        }
    }

    /// A job for which the loop's thread woke no worker, since all had work: the worker that ended the loop's last wait had it, unless it waited
    /// for the loop meanwhile, or the loop did not turn to the request right behind.
    fn queued_job(&self, request: RequestIndex, thread: ThreadIndex, place: Place) -> Option<Job> {
        let graph = &self.joined.recorded.graph;
        let Place { from, to, .. } = place;
        let last = graph.state_intervals(thread).overlapping(from, to).filter(is_blocked).last()?;
        let by = graph.wait(&last).and_then(waker)?;
        let [own, other] = [thread, by].map(|thread| graph.thread(thread));
        let is_sibling = other.tgid().is_some() && other.tgid() == own.tgid();
        let mut waits = graph.state_intervals(by).overlapping(from, last.to).filter(is_blocked);
        let is_busy = waits.all(|wait| graph.wait(&wait).and_then(waker) != Some(thread));
        let is_next = last.to <= to && self.turns_right_behind(request, thread, place, last.to);
        (is_sibling && is_next && is_busy).then(|| {
            let before = self.worked_before(request, thread, by, (from, last.to));
            Job { by, done: last.to, before }
        })
    }

    /// The request for which a busy worker worked as this time began, and until when: the loop woke it for the request's job, and it woke the loop
    /// as it went on with the next. `None` where nothing shows this.
    fn worked_before(
        &self,
        request: RequestIndex,
        thread: ThreadIndex,
        by: ThreadIndex,
        (from, done): (Stamp<Reference>, Stamp<Reference>),
    ) -> Option<(RequestIndex, Stamp<Reference>)> {
        let Joined { recorded, traced, .. } = self.joined;
        let graph = &recorded.graph;
        let woke = |wait: &StateInterval| is_blocked(wait) && graph.wait(wait).and_then(waker) == Some(by);
        let ends = graph.state_intervals(thread).overlapping(from, done).filter(woke).map(|wait| wait.to);
        let until = ends.take_while(|end| *end < done).last()?;
        let intervals = graph.state_intervals(by);
        let back = (0..=intervals.find(from)).rev().take(MAX_INTERVALS);
        let idle =
            back.filter_map(|index| intervals.get(index)).find(|wait| self.is_handed_a_job(wait, thread))?;
        let WorksFor::Span(span) = self.joined.works_for(thread, idle.to) else { return None };
        let other = traced.requests.containing(span);
        let is_open = self.joined.times(other).1 >= from;
        (other != request && is_open).then_some((other, until))
    }

    /// The threads in its process which the loop's thread woke in this time, each with the ended wait.
    fn woken_between(
        &self,
        thread: ThreadIndex,
        from: Stamp<Reference>,
        until: Stamp<Reference>,
    ) -> Vec<Woken> {
        let graph = &self.joined.recorded.graph;
        let own = graph.thread(thread);
        let others =
            graph.threads().filter(|(_, other)| other.tgid().is_some() && other.tgid() == own.tgid());
        let woken = others.filter_map(|(by, _)| {
            let mut waits = graph.state_intervals(by).overlapping(from, until);
            let idle = waits.find(|wait| wait.to < until && self.is_handed_a_job(wait, thread))?;
            Some(Woken { by, idle })
        });
        woken.collect()
    }

    /// The workers that took up the jobs for which the loop's thread woke `woken`. Jobs wait in a queue: a worker that was woken for a later job
    /// takes the first job if it has the queue first.
    fn took_up(&self, thread: ThreadIndex, woken: Vec<Woken>, to: Stamp<Reference>) -> Vec<Woken> {
        let at = |one: &Woken| self.takes_up(one, to);
        let began = woken.iter().map(|one| one.idle.to).min();
        let (Some(began), Some(last)) = (began, woken.iter().map(at).max()) else { return woken };
        let jobs = woken.len();
        let mut later = self.woken_between(thread, began, last);
        later.retain(|one| woken.iter().any(|other| self.is_same_queue(one, other)));
        let mut all: Vec<_> = woken.iter().copied().chain(later).collect();
        all.sort_by_key(at);
        all.truncate(jobs);
        all
    }

    /// The time at which a woken worker has its queue: it first waits for the queue's lock if another thread has it.
    fn takes_up(&self, Woken { by, idle }: &Woken, to: Stamp<Reference>) -> Stamp<Reference> {
        let graph = &self.joined.recorded.graph;
        let (mut since, mut ran) = (None, 0);
        for interval in graph.state_intervals(*by).overlapping(idle.to, to).take(MAX_BEFORE_JOB) {
            let wait = graph.wait(&interval).filter(|_| is_blocked(&interval));
            match wait {
                Some(wait) if condition(&wait).is_some() && ran <= BEFORE_LOCK_NS => (since, ran) = (None, 0),
                Some(_) => break,
                None if matches!(interval.state, ThreadState::Running { .. }) => {
                    since.get_or_insert(interval.from);
                    ran += interval.to.since(interval.from);
                }
                None => {}
            }
        }
        since.unwrap_or(to)
    }

    /// Whether both workers were idle at the same condition.
    fn is_same_queue(&self, one: &Woken, other: &Woken) -> bool {
        let graph = &self.joined.recorded.graph;
        let condition = |woken: &Woken| graph.wait(&woken.idle).as_ref().and_then(condition);
        condition(one).zip(condition(other)).is_some_and(|(one, other)| is_same(one, other))
    }

    /// Whether the loop's thread ended an interval, a wait at a futex, as it does for a job.
    fn is_handed_a_job(&self, interval: &StateInterval, thread: ThreadIndex) -> bool {
        let wait = self.joined.recorded.graph.wait(interval).filter(|_| is_blocked(interval));
        wait.is_some_and(|wait| condition(&wait).is_some() && waker(wait) == Some(thread))
    }

    /// The time at which a worker, woken for a job from its wait `idle`, had done the job. `None` if the job was not done as the loop called
    /// a callback.
    fn done(
        &self,
        thread: ThreadIndex,
        by: ThreadIndex,
        idle: &StateInterval,
        called: Stamp<Reference>,
    ) -> Option<Stamp<Reference>> {
        let graph = &self.joined.recorded.graph;
        let at = graph.wait(idle).as_ref().and_then(condition)?;
        let until = called.plus(NOTES_NS);
        let waits_again = graph.state_intervals(by).overlapping(idle.to, until).find(|wait| {
            let condition = || graph.wait(wait).as_ref().and_then(condition);
            is_blocked(wait) && condition().is_some_and(|it| is_same(at, it))
        });
        let done = waits_again.map_or(called, |wait| wait.from);
        let waits = || graph.state_intervals(thread).overlapping(idle.to, called).filter(is_blocked);
        // It woke the loop as the first job was done; it may have gone on with another one.
        let woke = waits().find(|wait| wait.to <= done && graph.wait(wait).and_then(waker) == Some(by));
        let done = match woke {
            Some(wait) => wait.to,
            None if waits_again.is_some() => done,
            // It still works: the job's end is not known.
            None => return None,
        };
        // A waiting loop is woken at once, and a loop with a callback to call waits for locks alone.
        let is_lock = |wait: &StateInterval| graph.wait(wait).as_ref().and_then(condition).is_some();
        waits().all(|wait| wait.to <= done || is_lock(&wait)).then_some(done)
    }
}

/// A futex wait's address.
fn condition(wait: &Wait) -> Option<u64> {
    wait.call.filter(|call| call.number == Call::FUTEX).map(|call| call.arg0)
}

fn is_same(one: u64, other: u64) -> bool {
    one / CONDITION_BYTES == other / CONDITION_BYTES
}

/// The thread by which a wait was ended.
fn waker(wait: Wait) -> Option<ThreadIndex> {
    match wait.end {
        Waker::Woken(WakeUp { current: Occupant::Thread(by), context: Context::Task, .. }) => Some(by),
        _ => None,
    }
}
