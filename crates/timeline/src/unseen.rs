//! Records that do not fit together: a switch, a fork or a death is missing, and states become unknown.

use wakepath_clock::{Reference, Stamp};
use wakepath_event::{Cpu, Event, LostRecords, Tid};

use crate::cpu::CpuState;
use crate::thread::CurrentState;
use crate::{Loss, Occupant, QueueExit, Sink, State, ThreadIndex, Timeline, UnknownReason, Wait, Waker};

impl Timeline {
    #[inline]
    pub(crate) fn cpu_state(&mut self, cpu: Cpu) -> Option<&mut CpuState> {
        let index = usize::from(cpu.0);
        if index >= self.cpus.len() {
            if cpu == Cpu::UNKNOWN {
                return None;
            }
            self.cpus.resize_with(index + 1, CpuState::default);
        }
        self.cpus.get_mut(index)
    }

    /// Notes the thread on a record's CPU. A returned thread is running.
    #[inline]
    pub(crate) fn observe(&mut self, event: &Event, at: Stamp<Reference>, sink: &mut impl Sink) -> Occupant {
        if let Some(cpu_state) = self.cpu_state(event.cpu) {
            cpu_state.enter(event.context, event.current);
            if cpu_state.tid == Some(event.current) && cpu_state.pending_loss.is_none() {
                cpu_state.last = Some(at);
                return cpu_state.occupant;
            }
        }
        self.observe_change(event, at, sink)
    }

    #[cold]
    fn observe_change(&mut self, event: &Event, at: Stamp<Reference>, sink: &mut impl Sink) -> Occupant {
        let tid = event.current;
        if self.cpu_state(event.cpu).is_none() {
            // The record has no CPU: it confirms a running thread and proves nothing about others.
            return match self.alive(tid) {
                _ if tid == Tid::IDLE => Occupant::Idle,
                Some(thread) if matches!(self.threads[thread.0 as usize].state, CurrentState::Running(_)) => {
                    Occupant::Thread(thread)
                }
                _ => Occupant::Unknown,
            };
        }
        let occupant = self.settle(event.cpu, tid, at, sink);
        let cpu_state = &mut self.cpus[usize::from(event.cpu.0)];
        cpu_state.occupant = occupant;
        cpu_state.tid = Some(tid);
        cpu_state.last = Some(at);
        cpu_state.pending_loss = None;
        occupant
    }

    /// Handles a record with another thread than its CPU's occupant, or the first record after a loss.
    fn settle(&mut self, cpu: Cpu, tid: Tid, at: Stamp<Reference>, sink: &mut impl Sink) -> Occupant {
        let cpu_state = &self.cpus[usize::from(cpu.0)];
        let (believed, loss, last) = (cpu_state.occupant, cpu_state.pending_loss, cpu_state.last);
        let mut same = cpu_state.tid == Some(tid);
        if let (Occupant::Thread(thread), false) = (believed, same) {
            let old = self.threads[thread.0 as usize].tid;
            same = self.take_leaders_tid(old, tid, at, sink);
        }
        // A thread's leaving and return make two records.
        if same && loss.is_none_or(|loss| loss.count == 1) {
            return believed;
        }
        // The last fitting record proves the state up to its own stamp.
        let from = match (loss, last) {
            (Some(loss), Some(last)) => loss.from.max(last),
            (Some(loss), None) => loss.from,
            (None, Some(last)) => last,
            // No record on this CPU yet: no switch since the sources were attached, or since the last loss that may have been here.
            (None, None) => {
                let since = self.complete_since(tid).unwrap_or(at);
                let (earliest, since) = match self.lost_anywhere {
                    Some((first, last)) => (since.max(first), since.max(last)),
                    None => (since, since),
                };
                return self.place_on_cpu(tid, cpu, earliest.min(at), at, Some(since.min(at)), sink);
            }
        };
        if same {
            if let Occupant::Thread(thread) = believed {
                self.emit(thread, from, State::Running { cpu, interrupts_ns: 0 }, sink);
                self.emit(thread, at, State::Unknown(UnknownReason::Lost), sink);
                let row = &mut self.threads[thread.0 as usize];
                row.pending = None;
                row.lock = None;
            }
            sink.occupant(cpu, from, Occupant::Unknown);
            sink.occupant(cpu, at, believed);
            return believed;
        }
        let to = loss.map_or(at, |loss| loss.to);
        if believed != Occupant::Unknown {
            self.counts.missing_switches += 1;
            if loss.is_none() {
                sink.loss(Loss { cpu, from, to: at, count: 0, records: LostRecords::Any, reported: false });
            }
        }
        if let Occupant::Thread(thread) = believed {
            self.leave_unseen(thread, cpu, from, to, sink);
        }
        sink.occupant(cpu, from, Occupant::Unknown);
        self.place_on_cpu(tid, cpu, from, at, None, sink)
    }

    /// Puts a thread on a CPU without a record of its switch-in; it cannot have come before `earliest`. `first`: no switch there since then, at the
    /// first record of this CPU.
    fn place_on_cpu(
        &mut self,
        tid: Tid,
        cpu: Cpu,
        earliest: Stamp<Reference>,
        at: Stamp<Reference>,
        first: Option<Stamp<Reference>>,
        sink: &mut impl Sink,
    ) -> Occupant {
        let since = first.unwrap_or(at);
        if tid == Tid::IDLE {
            sink.occupant(cpu, since, Occupant::Idle);
            return Occupant::Idle;
        }
        let (thread, new) = match self.alive(tid) {
            Some(thread) => (thread, false),
            None => (self.create(tid, since, CurrentState::Unknown { lost_until: None }, sink), true),
        };
        if let CurrentState::Running(elsewhere) = self.threads[thread.0 as usize].state {
            self.remove_from_cpu(elsewhere, thread, at, sink);
        }
        let row = &self.threads[thread.0 as usize];
        let begin = row.since.max(earliest);
        match row.state {
            CurrentState::Ready if first.is_some_and(|first| first <= row.since) => {}
            _ if new => {}
            // The thread could not run before the last record of another thread there.
            CurrentState::Runnable(queue) => self.leave_queue(thread, queue, cpu, begin, sink),
            CurrentState::Throttled(kept_on) => self.end_throttling(thread, kept_on, cpu, begin, sink),
            CurrentState::Blocked => self.end_wait(thread, at, Waker::Unseen, sink),
            state => {
                self.close(thread, Waker::Unseen, sink);
                if matches!(state, CurrentState::Unknown { .. }) {
                    self.threads[thread.0 as usize].pending = None;
                }
            }
        }
        if !(first.is_some() && (new || matches!(self.threads[thread.0 as usize].state, CurrentState::Ready)))
        {
            self.emit(thread, at, State::Unknown(UnknownReason::Lost), sink);
        }
        let row = &mut self.threads[thread.0 as usize];
        row.state = CurrentState::Running(cpu);
        sink.occupant(cpu, row.since.max(since), Occupant::Thread(thread));
        Occupant::Thread(thread)
    }

    /// Takes a thread off its CPU; its switch-out, between `from` and `to`, has no record.
    fn leave_unseen(
        &mut self,
        thread: ThreadIndex,
        cpu: Cpu,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
        sink: &mut impl Sink,
    ) {
        let begin = self.threads[thread.0 as usize].since.max(from);
        self.emit(thread, begin, State::Running { cpu, interrupts_ns: 0 }, sink);
        let row = &mut self.threads[thread.0 as usize];
        row.state = CurrentState::Unknown { lost_until: Some(to) };
        row.lock = None;
        let woken = row.pending.take();
        // No record shows the thread running after the snapshot found it blocked.
        let found = row.found.take().map(|found| *found).filter(|&(at, _)| at >= begin);
        let asleep_by = found.map_or(to, |(at, _)| at);
        if let Some((at, wait)) = found {
            self.find_blocked(thread, wait, at, sink);
        }
        // At a later wake-up, the thread was no longer running.
        if let Some(woken) = woken.filter(|woken| woken.at >= asleep_by) {
            return self.wake(thread, woken, sink);
        }
        // Among lost records there may be a later wake-up.
        let complete = self.cpus[usize::from(cpu.0)].pending_loss.is_none();
        let row = &mut self.threads[thread.0 as usize];
        if complete && matches!(row.state, CurrentState::Unknown { .. }) {
            row.pending = woken.filter(|woken| woken.at > begin);
        }
    }

    /// Ends a thread's unknown time at `at`, when an idle CPU took the thread up. The thread was blocked while the CPU was idle, so the last
    /// wake-up ended the wait, if no wake-up is lost; only the wait's beginning has no record.
    pub(crate) fn end_unseen_wait(
        &mut self,
        thread: ThreadIndex,
        at: Stamp<Reference>,
        sink: &mut impl Sink,
    ) {
        self.close(thread, Waker::Unseen, sink);
        if let Some(woken) = self.threads[thread.0 as usize].pending {
            self.threads[thread.0 as usize].wait = Wait::default();
            self.end_wait(thread, at, Waker::Woken(woken), sink);
        }
    }

    /// Reads from the snapshot that a thread with earlier records was blocked at `at`.
    pub(crate) fn find_blocked(
        &mut self,
        thread: ThreadIndex,
        wait: Wait,
        at: Stamp<Reference>,
        sink: &mut impl Sink,
    ) {
        let reason = match self.threads[thread.0 as usize].state {
            CurrentState::Unknown { lost_until: Some(_) } => UnknownReason::Lost,
            CurrentState::Unknown { lost_until: None } => UnknownReason::NotSeenYet,
            // The switch-out may have no record, or may still come if it and the snapshot crossed.
            CurrentState::Running(_) => {
                self.threads[thread.0 as usize].found = Some(Box::new((at, wait)));
                return;
            }
            _ => return,
        };
        self.emit(thread, at, State::Unknown(reason), sink);
        let row = &mut self.threads[thread.0 as usize];
        row.pending = None;
        row.state = CurrentState::Blocked;
        row.since = row.since.max(at);
        row.wait = wait;
    }

    /// Takes a thread off `cpu` because a record shows it on another CPU, or dead.
    pub(crate) fn remove_from_cpu(
        &mut self,
        cpu: Cpu,
        thread: ThreadIndex,
        at: Stamp<Reference>,
        sink: &mut impl Sink,
    ) {
        let cpu_state = &mut self.cpus[usize::from(cpu.0)];
        let last = cpu_state.last.unwrap_or(at);
        let (from, to) = cpu_state.pending_loss.map_or((last, at), |loss| (loss.from.max(last), loss.to));
        if cpu_state.pending_loss.is_none() {
            sink.loss(Loss { cpu, from, to, count: 0, records: LostRecords::Any, reported: false });
        }
        cpu_state.occupant = Occupant::Unknown;
        cpu_state.tid = None;
        cpu_state.last = Some(from);
        self.counts.missing_switches += 1;
        sink.occupant(cpu, from, Occupant::Unknown);
        self.leave_unseen(thread, cpu, from, to, sink);
    }

    /// Gives a thread that executes a program its process leader's tid. Returns whether it fits. The exec's
    /// record comes late: records with the new tid come before it.
    pub(crate) fn take_leaders_tid(
        &mut self,
        old: Tid,
        leader: Tid,
        at: Stamp<Reference>,
        sink: &mut impl Sink,
    ) -> bool {
        let Some(thread) = self.alive(old).filter(|_| old != leader) else { return false };
        let row = &self.threads[thread.0 as usize];
        if row.tgid != leader || row.exiting {
            return false;
        }
        let previous = self.tids.get(leader);
        let gone = |t: ThreadIndex| {
            let row = &self.threads[t.0 as usize];
            row.exiting || matches!(row.state, CurrentState::Dead)
        };
        if !previous.is_none_or(gone) {
            return false;
        }
        if let Some(previous) = previous {
            sink.succeeded(previous, thread);
        }
        // The old leader has the other tid while it exits.
        let still = self.alive(leader);
        self.tids.set(leader, Some(thread));
        self.tids.set(old, still);
        for (thread, tid) in [(Some(thread), leader), (still, old)] {
            let Some(thread) = thread else { continue };
            self.threads[thread.0 as usize].tid = tid;
            if let Some(cpu) = self.cpus.iter_mut().find(|cpu| cpu.occupant == Occupant::Thread(thread)) {
                cpu.tid = Some(tid);
            }
            sink.renumbered(thread, at, tid);
        }
        true
    }

    /// Ends a thread whose death has no record.
    pub(crate) fn end_thread(&mut self, thread: ThreadIndex, at: Stamp<Reference>, sink: &mut impl Sink) {
        if let CurrentState::Running(cpu) = self.threads[thread.0 as usize].state {
            self.remove_from_cpu(cpu, thread, at, sink);
        }
        self.close(thread, Waker::Unseen, sink);
        self.threads[thread.0 as usize].state = CurrentState::Dead;
    }

    /// Ends a CPU at the recording's end; its occupant is unknown if its last records were lost.
    pub(crate) fn close_cpu(&mut self, cpu: Cpu, sink: &mut impl Sink) {
        let cpu_state = &self.cpus[usize::from(cpu.0)];
        let (Some(loss), occupant) = (cpu_state.pending_loss, cpu_state.occupant) else { return };
        let from = cpu_state.last.map_or(loss.from, |last| loss.from.max(last));
        if let Occupant::Thread(thread) = occupant {
            self.leave_unseen(thread, cpu, from, loss.to, sink);
        }
        if occupant != Occupant::Unknown {
            sink.occupant(cpu, from, Occupant::Unknown);
        }
    }

    /// If a CPU's last records are lost, nothing is known about blocked and runnable threads that were there last: they may have been woken there,
    /// and have run.
    pub(crate) fn lose_sight(&mut self, cpu: Cpu, sink: &mut impl Sink) {
        // A thread's coming and going takes more than a single record.
        let loss = self.cpus[usize::from(cpu.0)].pending_loss.filter(|loss| loss.count != 1);
        let Some(loss) = loss else { return };
        for index in 0..self.threads.len() {
            let row = &self.threads[index];
            let is_queued = matches!(row.state, CurrentState::Runnable(_));
            if row.last_cpu != Some(cpu) && !(loss.unrecorded && is_queued) {
                continue;
            }
            let (thread, from) = (ThreadIndex(index as u32), row.since.max(loss.from));
            match row.state {
                CurrentState::Blocked => self.end_wait(thread, from, Waker::Unseen, sink),
                CurrentState::Runnable(queue) => self.emit(thread, from, in_queue(queue), sink),
                _ => continue,
            }
            self.threads[index].state = CurrentState::Unknown { lost_until: Some(loss.to) };
        }
    }

    /// Emits a thread's present state interval, up to now.
    pub(crate) fn close(&mut self, thread: ThreadIndex, end: Waker, sink: &mut impl Sink) {
        let at = self.now;
        let state = match self.threads[thread.0 as usize].state {
            CurrentState::Running(cpu) => State::Running { cpu, interrupts_ns: 0 },
            CurrentState::Runnable(queue) => in_queue(queue),
            CurrentState::Throttled(cpu) => return self.end_throttling(thread, cpu, cpu, at, sink),
            CurrentState::Unknown { lost_until: Some(_) } => State::Unknown(UnknownReason::Lost),
            CurrentState::Ready | CurrentState::Unknown { lost_until: None } => {
                State::Unknown(UnknownReason::NotSeenYet)
            }
            CurrentState::Blocked => return self.end_wait(thread, at, end, sink),
            CurrentState::Dead => return,
        };
        self.emit(thread, at, state, sink);
    }
}

/// The state of a runnable thread that did not run any more.
fn in_queue(queue: Option<Cpu>) -> State<&'static Wait> {
    State::Runnable { cpu: queue.unwrap_or(Cpu::UNKNOWN), left: QueueExit::Stayed }
}
