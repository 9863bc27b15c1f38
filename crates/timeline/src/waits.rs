//! How threads come and go: switches, wakings, and the waits between them.

use wakepath_clock::{Reference, Stamp};
use wakepath_event::{Call, Context, Cpu, Event, SwitchOut, Tid};

use crate::locks::futex_owner;
use crate::thread::{Now, WAITING, Woken};
use crate::timeline::Holding;
use crate::{ContendedLock, Occupant, Sink, State, ThreadIndex, Timeline, UnknownReason, Wait, Waker};

impl Timeline {
    pub(crate) fn switch(
        &mut self,
        event: &Event,
        at: Stamp<Reference>,
        next: Tid,
        (out, call): (SwitchOut, Option<&Call>),
        interrupts_ns: u32,
        sink: &mut impl Sink,
    ) {
        let prev = self.see(event, at, sink);
        let cpu = event.cpu;
        if next == event.current || self.lane(cpu).is_none() {
            return;
        }
        if let Occupant::Thread(thread) = prev {
            let row = &self.threads[thread.0 as usize];
            let stay = u32::try_from(at.since(row.since)).unwrap_or(u32::MAX);
            self.emit(thread, at, State::Running { cpu, interrupts_ns: interrupts_ns.min(stay) }, sink);
            let lock = if matches!(out, SwitchOut::Blocked(_)) { self.lock_of(thread, call) } else { None };
            let row = &mut self.threads[thread.0 as usize];
            row.now = match out {
                SwitchOut::Runnable => Now::Runnable,
                SwitchOut::Throttled => Now::Throttled(cpu),
                SwitchOut::Blocked(state) => {
                    row.wait = Wait { state: Some(state), ..WAITING };
                    if let Some(call) = call {
                        row.wait.call = Some(*call);
                    }
                    if let Some(lock) = lock {
                        row.wait.lock = Some(lock);
                    }
                    Now::Blocked
                }
                SwitchOut::Dead => Now::Dead,
            };
        }
        let next = self.arrive(next, cpu, at, sink);
        let lane = &mut self.lanes[usize::from(cpu.0)];
        lane.end_instances();
        lane.occupant = next;
        lane.last = Some(at);
        lane.tid = match next {
            Occupant::Thread(thread) => Some(self.threads[thread.0 as usize].tid),
            _ => Some(Tid::IDLE),
        };
        sink.occupant(cpu, at, next);
    }

    /// The switch to a thread was seen.
    fn arrive(&mut self, tid: Tid, cpu: Cpu, at: Stamp<Reference>, sink: &mut impl Sink) -> Occupant {
        if tid == Tid::IDLE {
            return Occupant::Idle;
        }
        let thread = match self.alive(tid) {
            Some(thread) => thread,
            None => self.create(tid, at, Now::Unknown { lost_until: None }, sink),
        };
        if let Now::Running(elsewhere) = self.threads[thread.0 as usize].now {
            self.taken_from(elsewhere, thread, at, sink);
        }
        let row = &self.threads[thread.0 as usize];
        let (since, pending) = (row.since, row.pending);
        match row.now {
            Now::Runnable => self.emit(thread, at, State::Runnable { cpu }, sink),
            // Had it been running at the snapshot, its switch-out would have been seen.
            Now::Ready if self.started(tid).is_some_and(|started| started <= since) => {
                self.emit(thread, at, State::Runnable { cpu }, sink);
            }
            Now::Blocked => match pending {
                Some(woken) => {
                    self.end_wait(thread, since, woken.into(), sink);
                    self.emit(thread, at, State::Runnable { cpu }, sink);
                }
                None => self.end_wait(thread, at, Waker::Unseen, sink),
            },
            Now::Throttled(kept_on) => self.let_go(thread, kept_on, cpu, at, sink),
            _ => self.close(thread, Waker::Unseen, sink),
        }
        let row = &mut self.threads[thread.0 as usize];
        row.since = at;
        row.now = Now::Running(cpu);
        row.pending = None;
        Occupant::Thread(thread)
    }

    /// A thread that a limit kept off the CPU `kept_on` waits no more at `at`, for `cpu`. The limit let it go when
    /// it last handed out time; from then on it waited like others.
    pub(crate) fn let_go(
        &mut self,
        thread: ThreadIndex,
        kept_on: Cpu,
        cpu: Cpu,
        at: Stamp<Reference>,
        sink: &mut impl Sink,
    ) {
        let row = &self.threads[thread.0 as usize];
        let refilled = self.refills.get(&row.cpu_cgroup).copied();
        let refilled = refilled.filter(|&refilled| row.since < refilled && refilled < at);
        self.emit(thread, refilled.unwrap_or(at), State::Throttled { cpu: kept_on }, sink);
        if refilled.is_some() {
            self.emit(thread, at, State::Runnable { cpu }, sink);
        }
    }

    pub(crate) fn waking(&mut self, target: Tid, woken: Woken, newborn: bool, sink: &mut impl Sink) {
        if target == Tid::IDLE {
            return;
        }
        let at = woken.at;
        let thread = match self.alive(target) {
            Some(thread) => thread,
            None => self.create(target, at, Now::Unknown { lost_until: None }, sink),
        };
        let row = &mut self.threads[thread.0 as usize];
        match row.now {
            Now::Blocked if row.wait.newborn => {}
            // A newborn that is no newborn: the number was taken again and nobody saw the birth.
            _ if newborn && row.since < at && !matches!(row.now, Now::Ready) => {
                self.bury(thread, at, sink);
                let thread = self.create(target, at, Now::Runnable, sink);
                sink.born(thread, at, Occupant::Unknown);
                return;
            }
            // Of one that was running or runnable when the snapshot came: it has not blocked yet.
            Now::Running(_) | Now::Ready => {
                row.pending = Some(woken);
                return;
            }
            Now::Runnable | Now::Throttled(_) | Now::Dead => {
                self.counts.spurious_wakings += 1;
                return;
            }
            Now::Blocked | Now::Unknown { .. } => {}
        }
        self.woken(thread, woken, sink);
    }

    /// A waking ends a wait.
    pub(crate) fn woken(&mut self, thread: ThreadIndex, woken: Woken, sink: &mut impl Sink) {
        let row = &self.threads[thread.0 as usize];
        match row.now {
            Now::Blocked => self.end_wait(thread, woken.at, woken.into(), sink),
            Now::Unknown { lost_until: Some(to) } => {
                // Its switch-out is somewhere in the lost range: behind that it was asleep.
                let to = to.min(woken.at);
                self.emit(thread, to, State::Unknown(UnknownReason::Lost), sink);
                if woken.at > to {
                    self.threads[thread.0 as usize].wait = WAITING;
                    self.end_wait(thread, woken.at, woken.into(), sink);
                }
            }
            _ => self.emit(thread, woken.at, State::Unknown(UnknownReason::NotSeenYet), sink),
        }
        let row = &mut self.threads[thread.0 as usize];
        row.since = woken.at;
        row.now = Now::Runnable;
        row.pending = None;
    }

    /// Closes the wait that a thread is in, up to `to`.
    pub(crate) fn end_wait(
        &mut self,
        thread: ThreadIndex,
        to: Stamp<Reference>,
        end: Waker,
        sink: &mut impl Sink,
    ) {
        let lock = self.threads[thread.0 as usize].wait.lock;
        let lock = lock.map(|lock| ContendedLock { proved: self.proved(thread, &lock, &end), ..lock });
        let row = &mut self.threads[thread.0 as usize];
        row.wait.lock = lock;
        row.wait.end = end;
        sink.state_interval(thread, row.since, to, State::Blocked(&row.wait));
        row.since = to;
    }

    /// Whether the owner of the lock that a wait was for is more than a claim: the kernel says so,
    /// or it ended this wait, or it ended another wait for the same lock that this one began within.
    fn proved(&mut self, waiter: ThreadIndex, lock: &ContendedLock, end: &Waker) -> bool {
        let Some(owner) = lock.owner.filter(|_| !lock.proved) else { return lock.proved };
        let row = &self.threads[waiter.0 as usize];
        let (key, since) = ((row.tgid, lock.address), row.since);
        let held = self
            .holdings
            .get(&key)
            .filter(|held| held.owner == owner && held.from <= since && since <= held.to);
        match *end {
            Waker::Woken { at, current: Occupant::Thread(waker), context: Context::Task, .. }
                if waker == owner =>
            {
                let from = held.map_or(since, |held| held.from);
                self.holdings.insert(key, Holding { owner, from, to: at });
                true
            }
            _ => held.is_some(),
        }
    }

    /// The snapshot says more of a wait that began before it, unless that is over.
    pub(crate) fn was_blocked_in(&mut self, thread: ThreadIndex, call: &Call) {
        let row = &self.threads[thread.0 as usize];
        if matches!(row.now, Now::Blocked) && row.wait.began_before {
            let lock = self.lock_of(thread, Some(call));
            let wait = &mut self.threads[thread.0 as usize].wait;
            wait.call = Some(*call);
            wait.lock = lock;
        }
    }

    /// The lock that a thread is about to sleep for.
    fn lock_of(&self, waiter: ThreadIndex, call: Option<&Call>) -> Option<ContendedLock> {
        let row = &self.threads[waiter.0 as usize];
        if row.lock.is_some() {
            return row.lock;
        }
        let call = call?;
        let owner = futex_owner(call)?;
        // What stands in memory is a number of the waiter's own host.
        let ns_tid = if row.tid.0 < Tid::LIMIT { owner.ns_tid } else { owner.ns_tid.on(row.tid.host()) };
        let thread = match self.ns_tids.get(&(row.tgid, ns_tid)) {
            Some(&thread) => thread,
            None => self.alive(ns_tid)?,
        };
        let candidate = &self.threads[thread.0 as usize];
        let possible = thread != waiter && candidate.tgid == row.tgid && !matches!(candidate.now, Now::Dead);
        possible.then_some(ContendedLock {
            address: call.arg0,
            kernel: false,
            owner: Some(thread),
            proved: owner.proved,
        })
    }
}
