//! Waits for a job in the runtime's pool: the loop's thread handed the job over and woke a thread in the pool, a worker, which then ran until it
//! was idle again.
//!
//! Another worker may have woken the loop: other jobs end its waits too. And a loop already awake as the job ends is not woken for it.

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::Rule;
use wakepath_event::{Call, LockWord};
use wakepath_spans::{RequestIndex, WorksFor};
use wakepath_wait_graph::{StateInterval, ThreadIndex, ThreadState, Wait};

use super::{Joined, Place, Turned, Turns, Walk, is_blocked};

/// The most turns, back from a wait for a job, in which the job may have been handed over.
const MAX_TURNS: usize = 16;

/// The most intervals to look back for a worker's last idle wait.
const MAX_INTERVALS: usize = 4096;

/// The most intervals between a worker's waking and its job.
const MAX_BEFORE_JOB: usize = 16;

/// The most, ns, for which a woken worker runs before it waits for its queue's lock.
const BEFORE_LOCK_NS: u64 = 20_000;

/// The most bytes between a queue's condition and its lock: libuv has them beside each other.
const QUEUE_BYTES: u64 = 256;

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

/// A worker woken by the loop's thread.
#[derive(Debug)]
struct Woken {
    by: ThreadIndex,
    /// Its condition's address.
    at: u64,
    since: Stamp<Reference>,
}

/// A job among a worker's jobs until a callback.
#[derive(Debug, Clone, Copy)]
enum Which {
    First,
    Last,
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
        let mut woken = last.map(|turn| self.woken_in(turns.thread, turn, place.to));
        let Some(woken) = woken.find(|woken| !woken.is_empty()) else {
            return self.queued_job(request, turns.thread, place);
        };
        // Node has two pools, and the job is in either.
        let pools = by_condition(woken);
        let mut jobs: Vec<_> =
            pools.iter().flat_map(|woken| self.first_jobs(turns.thread, woken, place.to)).collect();
        if jobs.is_empty() {
            jobs = pools.iter().flat_map(|woken| self.last_jobs(turns.thread, woken, place.to)).collect();
        }
        match jobs[..] {
            [job] => Some(job),
            _ => self.queued_job(request, turns.thread, place),
        }
    }

    /// The first jobs, done by a callback, by the workers which the loop's thread woke, and by others which may have had the queue before them.
    fn first_jobs(&self, thread: ThreadIndex, woken: &[Woken], called: Stamp<Reference>) -> Vec<Job> {
        let job = |one: &Woken, which| self.job_of(thread, one, called, which);
        let mut jobs: Vec<_> = woken.iter().filter_map(|one| job(one, Which::First)).collect();
        let Some(first) = woken.iter().min_by_key(|one| one.since) else { return jobs };
        let taken = woken.iter().map(|one| self.takes_up(one, called)).max().unwrap_or(called);
        let others = self.siblings(thread).filter(|by| woken.iter().all(|one| one.by != *by));
        for other in others.filter_map(|by| self.awake(by, first, taken)) {
            // It had another job before: unless that job ended in time, it was not at the queue.
            let had_job = other.since <= first.since;
            if had_job && !self.ended_a_job(thread, other.by, (first.since, taken)) {
                continue;
            }
            jobs.extend(job(&other, if had_job { Which::Last } else { Which::First }));
        }
        jobs
    }

    /// Whether a worker woke the loop in this time, or waited for a lock, as it does between two jobs.
    fn ended_a_job(
        &self,
        thread: ThreadIndex,
        by: ThreadIndex,
        (from, to): (Stamp<Reference>, Stamp<Reference>),
    ) -> bool {
        let graph = &self.joined.recorded.graph;
        let is_futex = |wait: &StateInterval| self.futex(wait).is_some();
        let woke = |wait: StateInterval| {
            wait.to <= to && graph.wait(&wait).and_then(|wait| wait.woken_by()) == Some(by)
        };
        graph.state_intervals(by).overlapping(from, to).any(|wait| is_futex(&wait))
            || self.waits_of_loop(thread, from, to.plus(1)).any(woke)
    }

    /// The last jobs, done by a callback, by all workers which may have taken any job in the queue: it is empty as a worker is idle again.
    fn last_jobs(&self, thread: ThreadIndex, woken: &[Woken], called: Stamp<Reference>) -> Vec<Job> {
        let Some(first) = woken.iter().min_by_key(|one| one.since) else { return Vec::new() };
        let idle = self.siblings(thread).filter_map(|by| self.idle_again(by, first.at, first.since, called));
        let empty = idle.min().unwrap_or(called);
        let awake = self.siblings(thread).filter_map(|by| self.awake(by, first, empty));
        awake.filter_map(|one| self.job_of(thread, &one, called, Which::Last)).collect()
    }

    fn job_of(
        &self,
        thread: ThreadIndex,
        Woken { by, at, since }: &Woken,
        called: Stamp<Reference>,
        which: Which,
    ) -> Option<Job> {
        let done = self.done(thread, *by, (*at, *since), called, which)?;
        Some(Job { by: *by, done, before: None })
    }

    /// A worker at the same queue as `first`, if it is awake from `first`'s waking up to `until`.
    fn awake(&self, by: ThreadIndex, first: &Woken, until: Stamp<Reference>) -> Option<Woken> {
        let since = self.idle_until(by, first).filter(|since| *since <= until)?;
        Some(Woken { by, at: first.at, since })
    }

    /// The time behind `since` at which a worker is idle again.
    pub(super) fn idle_again(
        &self,
        by: ThreadIndex,
        at: u64,
        since: Stamp<Reference>,
        until: Stamp<Reference>,
    ) -> Option<Stamp<Reference>> {
        let is_idle =
            |wait: &StateInterval| self.condition_of(wait).is_some_and(|it| Call::is_same_condition(at, it));
        let mut waits = self.joined.recorded.graph.state_intervals(by).overlapping(since, until);
        waits.find(|wait| wait.from >= since && is_idle(wait)).map(|wait| wait.from)
    }

    /// The end of a worker's last wait for `first`'s condition which began before `first` was woken.
    fn idle_until(&self, by: ThreadIndex, first: &Woken) -> Option<Stamp<Reference>> {
        let intervals = self.joined.recorded.graph.state_intervals(by);
        let mut back = (0..=intervals.find(first.since)).rev().take(MAX_INTERVALS);
        let is_idle = |wait: &StateInterval| {
            self.condition_of(wait).is_some_and(|at| Call::is_same_condition(at, first.at))
        };
        back.find_map(|index| intervals.get(index).filter(is_idle)).map(|wait| wait.to)
    }

    /// The time at which a woken worker has the queue: before, it waits for the queue's lock if another thread has it. From then on, the jobs
    /// for which it was woken are taken.
    fn takes_up(&self, Woken { by, since, .. }: &Woken, called: Stamp<Reference>) -> Stamp<Reference> {
        let graph = &self.joined.recorded.graph;
        let (mut began, mut ran) = (None, 0);
        for interval in graph.state_intervals(*by).overlapping(*since, called).take(MAX_BEFORE_JOB) {
            match interval.state {
                ThreadState::Blocked(_) if ran <= BEFORE_LOCK_NS && self.futex(&interval).is_some() => {
                    (began, ran) = (None, 0);
                }
                ThreadState::Blocked(_) => break,
                ThreadState::Running { .. } => {
                    began.get_or_insert(interval.from);
                    ran += interval.to.since(interval.from);
                }
                _ => {}
            }
        }
        began.unwrap_or(called)
    }

    /// A job for which the loop's thread woke no worker, since all had work: the worker that ended the loop's last wait had it, unless it waited
    /// for the loop meanwhile, or the loop did not turn to the request right behind.
    fn queued_job(&self, request: RequestIndex, thread: ThreadIndex, place: Place) -> Option<Job> {
        let graph = &self.joined.recorded.graph;
        let Place { from, to, .. } = place;
        let last = self.waits_of_loop(thread, from, to).last()?;
        let by = graph.wait(&last).and_then(|wait| wait.woken_by())?;
        let [own, other] = [thread, by].map(|thread| graph.thread(thread));
        let is_sibling = other.tgid().is_some() && other.tgid() == own.tgid();
        let is_busy = !graph
            .state_intervals(by)
            .overlapping(from, last.to)
            .any(|wait| self.is_handed_a_job(&wait, thread));
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
        // At its end, a job also lets go of the lock of the jobs done.
        let woke = |wait: &StateInterval| {
            is_blocked(wait) && graph.wait(wait).and_then(|wait| wait.woken_by()) == Some(by)
        };
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

    /// The other threads in a thread's process.
    pub(super) fn siblings(&self, thread: ThreadIndex) -> impl Iterator<Item = ThreadIndex> {
        self.joined.mates(thread).iter().copied().filter(move |index| *index != thread)
    }

    /// The workers woken by the loop's thread in a turn.
    fn woken_in(&self, thread: ThreadIndex, turn: &Turned, to: Stamp<Reference>) -> Vec<Woken> {
        let until = turn.to.plus(NOTES_NS).min(to);
        let woken = self.siblings(thread).filter_map(|by| {
            let mut waits = self.joined.recorded.graph.state_intervals(by).overlapping(turn.from, until);
            let idle = waits.find(|wait| wait.to < until && self.is_handed_a_job(wait, thread))?;
            Some(Woken { by, at: self.condition_of(&idle)?, since: idle.to })
        });
        woken.collect()
    }

    /// Whether the loop's thread ended an interval, a wait for a condition, as it does for a job.
    pub(super) fn is_handed_a_job(&self, interval: &StateInterval, thread: ThreadIndex) -> bool {
        let graph = &self.joined.recorded.graph;
        self.condition_of(interval).is_some()
            && graph.wait(interval).and_then(|wait| wait.woken_by()) == Some(thread)
    }

    /// The address of an interval's futex.
    fn futex(&self, interval: &StateInterval) -> Option<u64> {
        self.joined.recorded.graph.wait(interval)?.call?.futex()
    }

    /// The address of an interval's condition.
    pub(super) fn condition_of(&self, interval: &StateInterval) -> Option<u64> {
        let wait = self.joined.recorded.graph.wait(interval).filter(|wait| !is_at_lock(wait))?;
        wait.call?.futex()
    }

    /// The time at which a worker, idle at the condition `at` until `since`, had done its first or last job. `None` if the job was not done as
    /// the loop called a callback.
    fn done(
        &self,
        thread: ThreadIndex,
        by: ThreadIndex,
        (at, since): (u64, Stamp<Reference>),
        called: Stamp<Reference>,
        which: Which,
    ) -> Option<Stamp<Reference>> {
        let graph = &self.joined.recorded.graph;
        let idle_again = self.idle_again(by, at, since, called.plus(NOTES_NS));
        let done = idle_again.unwrap_or(called);
        let waits = || self.waits_of_loop(thread, since, called);
        // It woke the loop as each job was done; it may have gone on with another job.
        let mut woke = waits()
            .filter(|wait| wait.to <= done && graph.wait(wait).and_then(|wait| wait.woken_by()) == Some(by));
        let woke = match which {
            Which::First => woke.next(),
            Which::Last => woke.last(),
        };
        // A waiting loop is woken at once.
        let is_done = |done: &Stamp<Reference>| waits().all(|wait| wait.to <= *done);
        let woke = woke.map(|wait| wait.to);
        match which {
            // Without a wake-up, a worker not idle again still works: the job's end is not known.
            Which::First => woke.or_else(|| self.ends(thread, by, (at, since), called)).filter(is_done),
            Which::Last => woke.filter(is_done).or(idle_again.filter(is_done)),
        }
    }

    /// The end of a worker's first job, for which it did not wake the loop: it is idle again, it waits for its queue's lock, or the loop waited for
    /// a lock until it let go.
    fn ends(
        &self,
        thread: ThreadIndex,
        by: ThreadIndex,
        (at, since): (u64, Stamp<Reference>),
        called: Stamp<Reference>,
    ) -> Option<Stamp<Reference>> {
        let graph = &self.joined.recorded.graph;
        let until = called.plus(NOTES_NS);
        let is_queue = |wait: &StateInterval| {
            let near = self.futex(wait).is_some_and(|lock| lock.abs_diff(at) <= QUEUE_BYTES);
            near && self.ran_ns(by, since, wait.from) > BEFORE_LOCK_NS
        };
        let at_queue = graph.state_intervals(by).overlapping(since, until).find(is_queue);
        let let_go = graph.state_intervals(thread).overlapping(since, called).find(|wait| {
            self.futex(wait).is_some() && graph.wait(wait).and_then(|wait| wait.woken_by()) == Some(by)
        });
        let idle_again = self.idle_again(by, at, since, until);
        [idle_again, at_queue.map(|wait| wait.from), let_go.map(|wait| wait.to)].into_iter().flatten().min()
    }

    /// The waits of the loop's thread for anything but a lock, for which it may wait with a callback to call.
    fn waits_of_loop(
        &self,
        thread: ThreadIndex,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
    ) -> impl Iterator<Item = StateInterval> {
        let graph = &self.joined.recorded.graph;
        let waits = graph.state_intervals(thread).overlapping(from, to).filter(is_blocked);
        waits.filter(|wait| self.futex(wait).is_none())
    }
}

/// Woken workers by the condition at which they were idle: each pool has its own.
fn by_condition(woken: Vec<Woken>) -> Vec<Vec<Woken>> {
    let mut pools: Vec<Vec<Woken>> = Vec::new();
    for one in woken {
        match pools.iter_mut().find(|pool| Call::is_same_condition(pool[0].at, one.at)) {
            Some(pool) => pool.push(one),
            None => pools.push(vec![one]),
        }
    }
    pools
}

/// Whether the futex is a lock by its word: a condition has none.
fn is_at_lock(wait: &Wait) -> bool {
    let word = wait.call.and_then(|call| call.lock);
    wait.lock.is_some() || word.is_some_and(|word| word != LockWord::private_futex())
}
