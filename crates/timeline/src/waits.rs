//! Switches, wake-ups, and the waits between them.

use wakepath_clock::{Reference, Stamp};
use wakepath_event::{Call, Context, Cpu, Event, SwitchOut, Tid, WaitEnd};

use crate::locks::{Holding, futex_owner};
use crate::thread::CurrentState;
use crate::{
    ContendedLock, Occupant, QueueExit, Sink, State, ThreadIndex, Timeline, UnknownReason, Wait, WakeUp,
    Waker,
};

/// The call in which a thread waits. `restart_syscall` goes on with the previous call, which a stop interrupted, and has the previous call's
/// arguments.
fn resumed_call(call: &Call, before: Option<&Call>) -> Call {
    let resumes = |before: &&Call| {
        let known = call.arg0 != Call::NO_ARGUMENT && before.arg0 != Call::NO_ARGUMENT;
        call.number == Call::RESTART && (!known || before.argument() == call.argument())
    };
    *before.filter(resumes).unwrap_or(call)
}

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
        let prev = self.observe(event, at, sink);
        let cpu = event.cpu;
        if next == event.current || self.cpu_state(cpu).is_none() {
            return;
        }
        if let Occupant::Thread(thread) = prev {
            let row = &self.threads[thread.0 as usize];
            let call = call.map(|call| resumed_call(call, row.wait.call.as_ref()));
            let stay = u32::try_from(at.since(row.since)).unwrap_or(u32::MAX);
            self.emit(thread, at, State::Running { cpu, interrupts_ns: interrupts_ns.min(stay) }, sink);
            let lock = if matches!(out, SwitchOut::Blocked(_)) {
                self.waited_lock(thread, call.as_ref())
            } else {
                None
            };
            let row = &mut self.threads[thread.0 as usize];
            row.last_cpu = Some(cpu);
            row.state = match out {
                SwitchOut::Runnable => CurrentState::Runnable(Some(cpu)),
                SwitchOut::Throttled => CurrentState::Throttled(cpu),
                SwitchOut::Blocked(state) => {
                    let acted = std::mem::take(&mut row.acted);
                    row.wait = Wait { state: Some(state), call, acted, ..Wait::default() };
                    if let Some(lock) = lock {
                        row.wait.lock = Some(lock);
                    }
                    CurrentState::Blocked
                }
                SwitchOut::Dead => CurrentState::Dead,
            };
        }
        let next = self.switch_in(next, (cpu, prev), at, sink);
        let cpu_state = &mut self.cpus[usize::from(cpu.0)];
        cpu_state.end_instances();
        cpu_state.occupant = next;
        cpu_state.last = Some(at);
        cpu_state.tid = match next {
            Occupant::Thread(thread) => Some(self.threads[thread.0 as usize].tid),
            _ => Some(Tid::IDLE),
        };
        sink.occupant(cpu, at, next);
    }

    /// Reads the switch to a thread on a CPU, from that CPU's previous occupant.
    fn switch_in(
        &mut self,
        tid: Tid,
        (cpu, prev): (Cpu, Occupant),
        at: Stamp<Reference>,
        sink: &mut impl Sink,
    ) -> Occupant {
        if tid == Tid::IDLE {
            return Occupant::Idle;
        }
        let thread = match self.alive(tid) {
            Some(thread) => thread,
            None => self.create(tid, at, CurrentState::Unknown { lost_until: None }, sink),
        };
        if let CurrentState::Running(elsewhere) = self.threads[thread.0 as usize].state {
            self.remove_from_cpu(elsewhere, thread, at, sink);
        }
        let row = &self.threads[thread.0 as usize];
        let (since, pending) = (row.since, row.pending);
        match row.state {
            CurrentState::Runnable(queue) => self.leave_queue(thread, queue, cpu, at, sink),
            // The thread was not running at the snapshot: its switch-out would have a record.
            CurrentState::Ready if self.is_complete_since(tid, thread) => {
                self.leave_queue(thread, None, cpu, at, sink);
            }
            CurrentState::Blocked => match pending {
                Some(woken) => {
                    self.end_wait(thread, since, Waker::Woken(woken), sink);
                    self.leave_queue(thread, None, cpu, at, sink);
                }
                None => self.end_wait(thread, at, Waker::Unseen, sink),
            },
            CurrentState::Throttled(kept_on) => self.end_throttling(thread, kept_on, cpu, at, sink),
            CurrentState::Unknown { lost_until: Some(_) } if prev == Occupant::Idle => {
                self.end_unseen_wait(thread, at, sink);
            }
            _ => self.close(thread, Waker::Unseen, sink),
        }
        let row = &mut self.threads[thread.0 as usize];
        row.since = at;
        row.state = CurrentState::Running(cpu);
        row.pending = None;
        Occupant::Thread(thread)
    }

    /// Ends a thread's throttled state; the thread got `cpu` at `at`. The limit of `kept_on` let the thread
    /// go when it last handed out time; from then on the thread was runnable.
    pub(crate) fn end_throttling(
        &mut self,
        thread: ThreadIndex,
        kept_on: Cpu,
        cpu: Cpu,
        at: Stamp<Reference>,
        sink: &mut impl Sink,
    ) {
        let refilled = self.refilled(thread, at);
        self.emit(thread, refilled.unwrap_or(at), State::Throttled { cpu: kept_on }, sink);
        if refilled.is_some() {
            self.leave_queue(thread, None, cpu, at, sink);
        }
    }

    /// The last time up to `at` at which a throttled thread's limit handed out time; `None` if it has not
    /// since the throttling began.
    fn refilled(&self, thread: ThreadIndex, at: Stamp<Reference>) -> Option<Stamp<Reference>> {
        let row = &self.threads[thread.0 as usize];
        let refilled = self.refills.get(&row.cpu_cgroup).copied();
        refilled.filter(|&refilled| row.since < refilled && refilled <= at)
    }

    /// Emits a runnable thread's queue time up to `at`, when it ran on `cpu`, or turned out to be in that CPU's queue.
    pub(crate) fn leave_queue(
        &mut self,
        thread: ThreadIndex,
        queue: Option<Cpu>,
        cpu: Cpu,
        at: Stamp<Reference>,
        sink: &mut impl Sink,
    ) {
        let state = match queue.filter(|&queue| queue != cpu) {
            // It may have run unseen, and waited again.
            None if queue.is_none() && self.may_run_unseen(self.threads[thread.0 as usize].tid) => {
                State::Unknown(UnknownReason::Lost)
            }
            None => State::Runnable { cpu, left: QueueExit::Stayed },
            Some(queue) => State::Runnable { cpu: queue, left: QueueExit::MovedUnseen(cpu) },
        };
        self.emit(thread, at, state, sink);
    }

    /// Moves a runnable thread from one CPU's queue to another's.
    pub(crate) fn migrate(
        &mut self,
        target: Tid,
        at: Stamp<Reference>,
        (from, to): (Cpu, Cpu),
        sink: &mut impl Sink,
    ) {
        let Some(thread) = self.alive(target) else { return };
        let mut queue = None;
        match self.threads[thread.0 as usize].state {
            CurrentState::Runnable(known) => queue = known,
            // The thread was not running at the snapshot: only a thread in a CPU's queue is moved.
            CurrentState::Ready if self.is_complete_since(target, thread) => {}
            CurrentState::Throttled(kept_on) => {
                // The thread is in a queue only once the limit has let it go.
                let Some(refilled) = self.refilled(thread, at) else { return };
                self.emit(thread, refilled, State::Throttled { cpu: kept_on }, sink);
            }
            _ => return,
        }
        match queue.filter(|&queue| queue != from) {
            // The thread was moved before, at an unrecorded time.
            Some(_) => self.leave_queue(thread, queue, from, at, sink),
            None => self.emit(thread, at, State::Runnable { cpu: from, left: QueueExit::Moved }, sink),
        }
        self.threads[thread.0 as usize].state = CurrentState::Runnable(Some(to));
    }

    pub(crate) fn waking(&mut self, target: Tid, woken: WakeUp, newborn: bool, sink: &mut impl Sink) {
        if target == Tid::IDLE {
            return;
        }
        let at = woken.at;
        let thread = match self.alive(target) {
            Some(thread) => thread,
            None => self.create(target, at, CurrentState::Unknown { lost_until: None }, sink),
        };
        if let (Context::Task, Occupant::Thread(waker)) = (woken.context, woken.current)
            && !self.threads[thread.0 as usize].kernel
        {
            self.threads[waker.0 as usize].acted = true;
        }
        let row = &mut self.threads[thread.0 as usize];
        match row.state {
            CurrentState::Blocked if row.wait.newborn => {}
            // A new thread under a used tid: the tid was given again, and the fork has no record.
            _ if newborn && row.since < at && !matches!(row.state, CurrentState::Ready) => {
                self.end_thread(thread, at, sink);
                let thread = self.create(target, at, self.woken_state(target), sink);
                sink.born(thread, at, Occupant::Unknown);
                return;
            }
            // Running, or running or runnable at the snapshot: the thread has not blocked yet.
            CurrentState::Running(_) | CurrentState::Ready => {
                row.pending = Some(woken);
                return;
            }
            CurrentState::Runnable(_) | CurrentState::Throttled(_) | CurrentState::Dead => {
                self.counts.spurious_wakings += 1;
                return;
            }
            CurrentState::Blocked | CurrentState::Unknown { .. } => {}
        }
        self.wake(thread, woken, sink);
    }

    /// Ends a wait by a wake-up.
    pub(crate) fn wake(&mut self, thread: ThreadIndex, woken: WakeUp, sink: &mut impl Sink) {
        let row = &self.threads[thread.0 as usize];
        match row.state {
            CurrentState::Blocked => {
                let row = &mut self.threads[thread.0 as usize];
                row.wait.woken_before = row.pending.is_some();
                self.end_wait(thread, woken.at, Waker::Woken(woken), sink);
            }
            CurrentState::Unknown { lost_until: Some(to) } => {
                // The switch-out is in the lost range; after the range the thread was asleep.
                let to = to.min(woken.at);
                self.emit(thread, to, State::Unknown(UnknownReason::Lost), sink);
                if woken.at > to {
                    self.threads[thread.0 as usize].wait = Wait::default();
                    self.end_wait(thread, woken.at, Waker::Woken(woken), sink);
                }
            }
            _ => self.emit(thread, woken.at, State::Unknown(UnknownReason::NotSeenYet), sink),
        }
        let state = self.woken_state(self.threads[thread.0 as usize].tid);
        let row = &mut self.threads[thread.0 as usize];
        row.since = woken.at;
        row.state = state;
        row.pending = None;
    }

    /// Whether a CPU of the thread's host has no records now.
    fn may_run_unseen(&self, tid: Tid) -> bool {
        self.unrecorded_cpus.iter().any(|&(host, _)| host == tid.host())
    }

    /// The state of a thread right after its wake-up. While a CPU has no records, the thread may run there unseen.
    pub(crate) fn woken_state(&self, tid: Tid) -> CurrentState {
        if self.may_run_unseen(tid) {
            CurrentState::Unknown { lost_until: Some(Stamp::MAX) }
        } else {
            CurrentState::Runnable(None)
        }
    }

    /// Emits a thread's wait up to `to`.
    pub(crate) fn end_wait(
        &mut self,
        thread: ThreadIndex,
        to: Stamp<Reference>,
        end: Waker,
        sink: &mut impl Sink,
    ) {
        let lock = self.threads[thread.0 as usize].wait.lock;
        let lock =
            lock.map(|lock| ContendedLock { proved: self.is_owner_proved(thread, &lock, &end), ..lock });
        let row = &mut self.threads[thread.0 as usize];
        row.wait.lock = lock;
        row.wait.end = end;
        if let Some(call) = &mut row.wait.call {
            row.wait.timeout = call.timeout();
            let woken = if let Waker::Woken(woken) = end { Some(woken.at) } else { None };
            let ready = row.ready.filter(|&(at, _)| Some(at) == woken).map(|(_, fd)| fd);
            *call = call.with_end(match ready {
                Some(Some(fd)) => WaitEnd::Ready(fd),
                Some(None) => WaitEnd::NothingReady,
                None if self.timer_files.has_timer(row.tgid, call) => WaitEnd::TimerMember,
                None if self.windows.closed_for(row.tgid, call, row.since, to, &self.reversed) => {
                    WaitEnd::WindowClosed
                }
                None => WaitEnd::NotKnown,
            });
        }
        sink.state_interval(thread, row.since, to, State::Blocked(&row.wait));
        row.since = to;
    }

    /// Whether the owner of a wait's lock is more than a claim: the kernel names it, or it ended this wait,
    /// or it ended another wait for the same lock during which this wait began.
    fn is_owner_proved(&mut self, waiter: ThreadIndex, lock: &ContendedLock, end: &Waker) -> bool {
        let Some(owner) = lock.owner.filter(|_| !lock.proved) else { return lock.proved };
        let row = &self.threads[waiter.0 as usize];
        let (key, since) = ((row.tgid, lock.address), row.since);
        let held = self
            .holdings
            .get(&key)
            .filter(|held| held.owner == owner && held.from <= since && since <= held.to);
        match *end {
            Waker::Woken(WakeUp { at, current: Occupant::Thread(waker), context: Context::Task, .. })
                if waker == owner =>
            {
                let from = held.map_or(since, |held| held.from);
                self.holdings.insert(key, Holding { owner, from, to: at });
                true
            }
            _ => held.is_some(),
        }
    }

    /// Adds the snapshot's system call to a wait from before the snapshot, unless the wait has ended.
    pub(crate) fn add_call_to_wait(&mut self, thread: ThreadIndex, call: &Call) {
        let lock = self.waited_lock(thread, Some(call));
        let row = &mut self.threads[thread.0 as usize];
        let wait = match row.state {
            CurrentState::Blocked if row.wait.began_before => &mut row.wait,
            CurrentState::Running(_) => match &mut row.found {
                Some(found) => &mut found.1,
                None => return,
            },
            _ => return,
        };
        wait.call = Some(*call);
        wait.lock = lock;
    }

    /// Adds to a thread, and to its wait if that began before the recording, the kernel lock awaited then.
    pub(crate) fn add_lock_to_wait(&mut self, tid: Tid, lock: ContendedLock) {
        let Some(thread) = self.alive(tid) else { return };
        let row = &mut self.threads[thread.0 as usize];
        row.lock = Some(lock);
        if matches!(row.state, CurrentState::Blocked) && row.wait.began_before {
            row.wait.lock = Some(lock);
        }
    }

    /// Whether all sources have been recorded since a thread's present state began.
    fn is_complete_since(&self, tid: Tid, thread: ThreadIndex) -> bool {
        let since = self.threads[thread.0 as usize].since;
        self.complete_since(tid).is_some_and(|started| started <= since)
    }

    /// The lock for which a thread goes to sleep.
    fn waited_lock(&self, waiter: ThreadIndex, call: Option<&Call>) -> Option<ContendedLock> {
        let row = &self.threads[waiter.0 as usize];
        if row.lock.is_some() {
            return row.lock;
        }
        let call = call?;
        let owner = futex_owner(call)?;
        // The tid in the waiter's memory belongs to the waiter's host.
        let ns_tid = if row.tid.0 < Tid::LIMIT { owner.ns_tid } else { owner.ns_tid.on(row.tid.host()) };
        let thread = match self.ns_tids.get(&(row.tgid, ns_tid)) {
            Some(&thread) => thread,
            None => self.alive(ns_tid)?,
        };
        let candidate = &self.threads[thread.0 as usize];
        let possible =
            thread != waiter && candidate.tgid == row.tgid && !matches!(candidate.state, CurrentState::Dead);
        possible.then_some(ContendedLock {
            address: call.arg0,
            kernel: false,
            owner: Some(thread),
            proved: owner.proved,
        })
    }
}
