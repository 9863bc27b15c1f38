//! What is made of records that do not fit together: a switch, a birth or a death is missing.

use wakepath_clock::{Reference, Stamp};
use wakepath_event::{Cpu, Event, Tid};

use crate::cpu::Lane;
use crate::thread::Now;
use crate::{Loss, Occupant, Sink, State, ThreadIndex, Timeline, UnknownReason, Waker};

impl Timeline {
    #[inline]
    pub(crate) fn lane(&mut self, cpu: Cpu) -> Option<&mut Lane> {
        let index = usize::from(cpu.0);
        if index >= self.lanes.len() {
            if cpu == Cpu::UNKNOWN {
                return None;
            }
            self.lanes.resize_with(index + 1, Lane::default);
        }
        self.lanes.get_mut(index)
    }

    /// A record shows who is current on its CPU. A thread that this hands back is running now.
    #[inline]
    pub(crate) fn see(&mut self, event: &Event, at: Stamp<Reference>, sink: &mut impl Sink) -> Occupant {
        if let Some(lane) = self.lane(event.cpu) {
            lane.enter(event.context, event.current);
            if lane.tid == Some(event.current) && lane.doubt.is_none() {
                lane.last = Some(at);
                return lane.occupant;
            }
        }
        self.see_another(event, at, sink)
    }

    #[cold]
    fn see_another(&mut self, event: &Event, at: Stamp<Reference>, sink: &mut impl Sink) -> Occupant {
        let tid = event.current;
        if self.lane(event.cpu).is_none() {
            // Nothing says where: it is believed of a thread that is believed to run, or of nobody.
            return match self.alive(tid) {
                _ if tid == Tid::IDLE => Occupant::Idle,
                Some(thread) if matches!(self.threads[thread.0 as usize].now, Now::Running(_)) => {
                    Occupant::Thread(thread)
                }
                _ => Occupant::Unknown,
            };
        }
        let occupant = self.settle(event.cpu, tid, at, sink);
        let lane = &mut self.lanes[usize::from(event.cpu.0)];
        lane.occupant = occupant;
        lane.tid = Some(tid);
        lane.last = Some(at);
        lane.doubt = None;
        occupant
    }

    /// A record shows another thread than the one believed on the CPU, or is the first after a loss.
    fn settle(&mut self, cpu: Cpu, tid: Tid, at: Stamp<Reference>, sink: &mut impl Sink) -> Occupant {
        let lane = &self.lanes[usize::from(cpu.0)];
        let (believed, doubt, last) = (lane.occupant, lane.doubt, lane.last);
        let mut same = lane.tid == Some(tid);
        if let (Occupant::Thread(thread), false) = (believed, same) {
            let old = self.threads[thread.0 as usize].tid;
            same = self.take_leaders_tid(old, tid, at, sink);
        }
        // Who is away and comes back leaves two records.
        if same && doubt.is_none_or(|doubt| doubt.count == 1) {
            return believed;
        }
        // The last record that fits is evidence up to its own stamp.
        let from = match (doubt, last) {
            (Some(doubt), Some(last)) => doubt.from.max(last),
            (Some(doubt), None) => doubt.from,
            (None, Some(last)) => last,
            // Nothing was ever seen here: no switch since the sources were attached.
            (None, None) => {
                let since = self.started(tid).unwrap_or(at).min(at);
                return self.appear(tid, cpu, since, at, true, sink);
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
        let to = doubt.map_or(at, |doubt| doubt.to);
        if believed != Occupant::Unknown {
            self.counts.missing_switches += 1;
            if doubt.is_none() {
                sink.loss(Loss { cpu, from, to: at, count: 0, reported: false });
            }
        }
        if let Occupant::Thread(thread) = believed {
            self.left_unseen(thread, cpu, from, to, sink);
        }
        sink.occupant(cpu, from, Occupant::Unknown);
        self.appear(tid, cpu, from, at, false, sink)
    }

    /// A thread is shown on a CPU, and its switch-in was not. `first`: no switch there since `from`.
    fn appear(
        &mut self,
        tid: Tid,
        cpu: Cpu,
        from: Stamp<Reference>,
        at: Stamp<Reference>,
        first: bool,
        sink: &mut impl Sink,
    ) -> Occupant {
        let since = if first { from } else { at };
        if tid == Tid::IDLE {
            sink.occupant(cpu, since, Occupant::Idle);
            return Occupant::Idle;
        }
        let (thread, new) = match self.alive(tid) {
            Some(thread) => (thread, false),
            None => (self.create(tid, since, Now::Unknown { lost_until: None }, sink), true),
        };
        if let Now::Running(elsewhere) = self.threads[thread.0 as usize].now {
            self.taken_from(elsewhere, thread, at, sink);
        }
        let row = &self.threads[thread.0 as usize];
        let begin = row.since.max(from);
        match row.now {
            Now::Ready if first && from <= row.since => {}
            _ if new => {}
            // It could not run before the last record that showed another there.
            Now::Runnable => self.emit(thread, begin, State::Runnable { cpu }, sink),
            Now::Throttled(kept_on) => self.let_go(thread, kept_on, cpu, begin, sink),
            Now::Blocked => self.end_wait(thread, at, Waker::Unseen, sink),
            _ => self.close(thread, Waker::Unseen, sink),
        }
        if !(first && (new || matches!(self.threads[thread.0 as usize].now, Now::Ready))) {
            self.emit(thread, at, State::Unknown(UnknownReason::Lost), sink);
        }
        let row = &mut self.threads[thread.0 as usize];
        row.now = Now::Running(cpu);
        sink.occupant(cpu, row.since.max(since), Occupant::Thread(thread));
        Occupant::Thread(thread)
    }

    /// A thread left its CPU between `from` and `to`, and nobody saw how.
    fn left_unseen(
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
        row.now = Now::Unknown { lost_until: Some(to) };
        row.lock = None;
        // A waking behind the lost range was not of a running thread then.
        if let Some(woken) = row.pending.take().filter(|woken| woken.at >= to) {
            self.woken(thread, woken, sink);
        }
    }

    /// A thread that was believed on `cpu` is shown elsewhere, or is dead.
    pub(crate) fn taken_from(
        &mut self,
        cpu: Cpu,
        thread: ThreadIndex,
        at: Stamp<Reference>,
        sink: &mut impl Sink,
    ) {
        let lane = &mut self.lanes[usize::from(cpu.0)];
        let last = lane.last.unwrap_or(at);
        let (from, to) = lane.doubt.map_or((last, at), |doubt| (doubt.from.max(last), doubt.to));
        if lane.doubt.is_none() {
            sink.loss(Loss { cpu, from, to, count: 0, reported: false });
        }
        lane.occupant = Occupant::Unknown;
        lane.tid = None;
        lane.last = Some(from);
        self.counts.missing_switches += 1;
        sink.occupant(cpu, from, Occupant::Unknown);
        self.left_unseen(thread, cpu, from, to, sink);
    }

    /// The thread has its process leader's number from here on, because it executed a program; true
    /// if that is so. The tracepoint of exec comes late: records with the new number come before it.
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
            row.exiting || matches!(row.now, Now::Dead)
        };
        if !previous.is_none_or(gone) {
            return false;
        }
        if let Some(previous) = previous {
            sink.succeeded(previous, thread);
        }
        // The old leader, while it is still on its way out, has the other's number.
        let still = self.alive(leader);
        self.tids.set(leader, Some(thread));
        self.tids.set(old, still);
        for (who, tid) in [(Some(thread), leader), (still, old)] {
            let Some(who) = who else { continue };
            self.threads[who.0 as usize].tid = tid;
            if let Some(lane) = self.lanes.iter_mut().find(|lane| lane.occupant == Occupant::Thread(who)) {
                lane.tid = Some(tid);
            }
            sink.renumbered(who, at, tid);
        }
        true
    }

    /// A thread is dead, and nobody saw it die.
    pub(crate) fn bury(&mut self, thread: ThreadIndex, at: Stamp<Reference>, sink: &mut impl Sink) {
        if let Now::Running(cpu) = self.threads[thread.0 as usize].now {
            self.taken_from(cpu, thread, at, sink);
        }
        self.close(thread, Waker::Unseen, sink);
        self.threads[thread.0 as usize].now = Now::Dead;
    }

    /// The recording ends: a CPU whose last records were lost ends unknown.
    pub(crate) fn give_up(&mut self, cpu: Cpu, sink: &mut impl Sink) {
        let lane = &self.lanes[usize::from(cpu.0)];
        let (Some(doubt), occupant) = (lane.doubt, lane.occupant) else { return };
        let from = lane.last.map_or(doubt.from, |last| doubt.from.max(last));
        if let Occupant::Thread(thread) = occupant {
            self.left_unseen(thread, cpu, from, doubt.to, sink);
        }
        if occupant != Occupant::Unknown {
            sink.occupant(cpu, from, Occupant::Unknown);
        }
    }

    /// Closes a thread's interval as it stands, up to now.
    pub(crate) fn close(&mut self, thread: ThreadIndex, end: Waker, sink: &mut impl Sink) {
        let at = self.now;
        let state = match self.threads[thread.0 as usize].now {
            Now::Running(cpu) => State::Running { cpu, interrupts_ns: 0 },
            Now::Runnable => State::Runnable { cpu: Cpu::UNKNOWN },
            Now::Throttled(cpu) => return self.let_go(thread, cpu, cpu, at, sink),
            Now::Unknown { lost_until: Some(_) } => State::Unknown(UnknownReason::Lost),
            Now::Ready | Now::Unknown { lost_until: None } => State::Unknown(UnknownReason::NotSeenYet),
            Now::Blocked => return self.end_wait(thread, at, end, sink),
            Now::Dead => return,
        };
        self.emit(thread, at, state, sink);
    }
}
