use std::collections::HashMap;

use wakepath_clock::{Reference, Stamp};
use wakepath_event::{Cpu, Event, Flow, FlowId, Mark, SwitchOut, ThreadIdentity, Tid, What};

use crate::cpu::Lane;
use crate::locks::futex_owner;
use crate::recent::Recent;
use crate::thread::{Asleep, Now, Thread, Woken};
use crate::tids::Tids;
use crate::{EvidenceIndex, Link, Loss, Occupant, Seen, Sent, Sink, State, ThreadIndex, Wait, Waker};

/// How many sent packets, and how many disk requests, are remembered until they arrive.
const IN_FLIGHT: usize = 1 << 16;

/// What was noticed on the way and has no place in the threads' states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Events whose stamp was earlier than the one before; they count as of the same time.
    pub inversions: u64,
    /// Wakings that ended no wait.
    pub spurious_wakings: u64,
    /// Switches that must have happened and were not recorded.
    pub missing_switches: u64,
    /// Sent packets that were forgotten, for want of room, before they arrived.
    pub forgotten_packets: u64,
}

/// The state machine. See the crate's documentation.
#[derive(Debug)]
pub struct Timeline {
    pub(crate) threads: Vec<Thread>,
    pub(crate) tids: Tids,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) started: Option<Stamp<Reference>>,
    pub(crate) now: Stamp<Reference>,
    pub(crate) counts: Counts,
    pub(crate) sends: Recent<(FlowId, u32, u32, u32), Sent>,
    pub(crate) issues: Recent<u64, (Option<ThreadIndex>, Stamp<Reference>)>,
    pub(crate) flows: HashMap<Flow, FlowId>,
    pub(crate) reversed: HashMap<FlowId, FlowId>,
    /// Threads of pid namespaces, by process and number there.
    ns_tids: HashMap<(Tid, Tid), ThreadIndex>,
    /// The threads of each process, as a list through [`Thread::next_in_process`].
    processes: HashMap<Tid, ThreadIndex>,
}

impl Default for Timeline {
    fn default() -> Self {
        Self {
            threads: Vec::new(),
            tids: Tids::default(),
            lanes: Vec::new(),
            started: None,
            now: Stamp::MIN,
            counts: Counts::default(),
            sends: Recent::new(IN_FLIGHT),
            issues: Recent::new(IN_FLIGHT),
            flows: HashMap::new(),
            reversed: HashMap::new(),
            ns_tids: HashMap::new(),
            processes: HashMap::new(),
        }
    }
}

impl Timeline {
    /// Takes the next event. Events come in time order; one that does not counts as of the time of
    /// the one before.
    pub fn push(&mut self, event: &Event, sink: &mut impl Sink) {
        let at = event.at.on_reference_host();
        let at = if at < self.now {
            self.counts.inversions += 1;
            self.now
        } else {
            self.now = at;
            at
        };
        match &event.what {
            What::Switch { next, out, interrupts_ns, call } => {
                let asleep =
                    |state| Asleep { state: Some(state), call: *call, lock: None, began_before: false };
                let leaving = match *out {
                    SwitchOut::Runnable => Now::Runnable,
                    SwitchOut::Throttled => Now::Throttled(event.cpu),
                    SwitchOut::Blocked(state) => Now::Blocked(asleep(state)),
                    SwitchOut::Dead => Now::Dead,
                };
                self.switch(event, at, *next, leaving, *interrupts_ns, sink);
            }
            What::Waking { target, irq, newborn } => self.waking(event, at, *target, *irq, *newborn, sink),
            What::Thread { identity, blocked, call } => {
                let now = match *blocked {
                    None => Now::Ready,
                    Some(state) => Now::Blocked(Asleep {
                        state: Some(state),
                        call: *call,
                        lock: None,
                        began_before: true,
                    }),
                };
                self.introduce(identity, at, now, sink);
            }
            What::Fork { child } => {
                let forker = self.see(event, at, sink);
                if let (thread, true) = self.introduce(child, at, Now::Newborn, sink) {
                    sink.born(thread, at, forker);
                }
            }
            What::Exec { old, comm, path } => {
                self.take_leaders_tid(*old, event.current, at, sink);
                if let Occupant::Thread(thread) = self.see(event, at, sink) {
                    sink.exec(thread, at, path);
                    sink.named(thread, at, *comm);
                }
            }
            What::Exit => {
                if let Occupant::Thread(thread) = self.see(event, at, sink) {
                    self.threads[thread.0 as usize].exiting = true;
                    sink.exited(thread, at);
                }
            }
            What::Rename { tid, comm } => {
                if let Some(thread) = self.alive(*tid) {
                    sink.named(thread, at, *comm);
                }
            }
            What::Move { tid, tgid, whole, cgroup, cpu_cgroup } => {
                let mut one = if *whole { self.processes.get(tgid).copied() } else { self.alive(*tid) };
                while let Some(thread) = one {
                    let row = &self.threads[thread.0 as usize];
                    if !matches!(row.now, Now::Dead) {
                        sink.moved(thread, at, *cgroup, *cpu_cgroup);
                    }
                    one = row.next_in_process.filter(|_| *whole);
                }
            }
            What::Packet(packet) => self.packet(event, at, packet, sink),
            What::SocketReady(flow) => {
                self.see(event, at, sink);
                if let Some(lane) = self.lane(event.cpu) {
                    lane.instance.ready(*flow, at);
                }
            }
            What::Flow(id, flow) => {
                self.flows.insert(*flow, *id);
                if let Some(&back) = self.flows.get(&flow.reversed()) {
                    self.reversed.insert(*id, back);
                    self.reversed.insert(back, *id);
                }
            }
            What::BlockIssue(request) => {
                let current = self.see(event, at, sink);
                let submitter = if event.context.is_interrupt() { None } else { current.thread() };
                self.issues.insert(request.id, (submitter, at));
            }
            What::BlockComplete(request) => self.completed(event, at, request, sink),
            What::LockBegin(lock) => {
                let current = self.see(event, at, sink);
                let owner = lock.owner.and_then(|tid| self.alive(tid));
                if let (Occupant::Thread(thread), false) = (current, event.context.is_interrupt()) {
                    self.threads[thread.0 as usize].lock =
                        Some(Link { address: lock.address, kernel: true, owner, proved: true });
                }
            }
            What::LockEnd(lock) => {
                let current = self.see(event, at, sink);
                if let (Occupant::Thread(thread), false) = (current, event.context.is_interrupt()) {
                    self.threads[thread.0 as usize].lock = None;
                    sink.acquired(thread, at, lock.address);
                }
            }
            What::Sample(_) | What::Current => {
                self.see(event, at, sink);
            }
            What::Loss { from, count } => {
                let from = from.on_reference_host().min(at);
                let lane = self.lane(event.cpu);
                if let Some(lane) = lane {
                    lane.lose(from, at, *count);
                }
                sink.loss(Loss { cpu: event.cpu, from, to: at, count: *count, reported: true });
            }
            What::Mark(Mark::Started) => self.started = Some(at),
            What::Stack(_)
            | What::File(_)
            | What::Clocks(_)
            | What::Name(..)
            | What::Mapping(_)
            | What::Mark(_) => {}
        }
    }

    /// The thread current at an event that was just pushed.
    pub fn current(&self, event: &Event) -> Occupant {
        match event.current {
            Tid::IDLE => Occupant::Idle,
            tid => self.alive(tid).map_or(Occupant::Unknown, Occupant::Thread),
        }
    }

    /// Closes everything that is open, at the time of the last event.
    pub fn finish(mut self, sink: &mut impl Sink) -> Counts {
        for cpu in 0..self.lanes.len() {
            self.give_up(Cpu(cpu as u16), sink);
        }
        for index in 0..self.threads.len() {
            self.close(ThreadIndex(index as u32), Waker::Open, sink);
        }
        self.counts.forgotten_packets = self.sends.forgotten;
        self.counts
    }

    /// The thread that has this tid and may still act.
    pub(crate) fn alive(&self, tid: Tid) -> Option<ThreadIndex> {
        self.tids.get(tid).filter(|thread| !matches!(self.threads[thread.0 as usize].now, Now::Dead))
    }

    pub(crate) fn create(
        &mut self,
        tid: Tid,
        at: Stamp<Reference>,
        now: Now,
        sink: &mut impl Sink,
    ) -> ThreadIndex {
        let thread = ThreadIndex(self.threads.len() as u32);
        self.threads.push(Thread::new(tid, at, now));
        self.tids.set(tid, Some(thread));
        sink.thread(thread, tid, at);
        thread
    }

    /// Closes the span that a thread is in, up to `to`.
    pub(crate) fn emit(
        &mut self,
        thread: ThreadIndex,
        to: Stamp<Reference>,
        state: State,
        sink: &mut impl Sink,
    ) {
        let row = &mut self.threads[thread.0 as usize];
        if to > row.since || matches!(state, State::Blocked(_)) {
            sink.span(thread, row.since, to, state);
            row.since = to;
        }
    }

    /// A snapshot or a fork says who a thread is. True if it was not known yet.
    fn introduce(
        &mut self,
        identity: &ThreadIdentity,
        at: Stamp<Reference>,
        now: Now,
        sink: &mut impl Sink,
    ) -> (ThreadIndex, bool) {
        let known = self.alive(identity.tid).filter(|thread| {
            let row = &self.threads[thread.0 as usize];
            // Born again under the number of one whose death nobody saw?
            match row.start {
                Some(start) => start == identity.start,
                None => !matches!(now, Now::Newborn),
            }
        });
        let thread = match known {
            Some(thread) => thread,
            None => {
                if let Some(dead) = self.alive(identity.tid) {
                    self.bury(dead, at, sink);
                }
                self.create(identity.tid, at, now, sink)
            }
        };
        let row = &mut self.threads[thread.0 as usize];
        if row.start.is_none() {
            row.start = Some(identity.start);
            row.tgid = identity.tgid;
            // The leader of a new process heads a new list.
            row.next_in_process = if identity.tid == identity.tgid && matches!(now, Now::Newborn) {
                None
            } else {
                self.processes.get(&identity.tgid).copied()
            };
            self.processes.insert(identity.tgid, thread);
            if identity.ns_tid != identity.tid {
                self.ns_tids.insert((identity.tgid, identity.ns_tid), thread);
            }
        }
        sink.identity(thread, at, identity);
        sink.named(thread, at, identity.comm);
        (thread, known.is_none())
    }

    fn switch(
        &mut self,
        event: &Event,
        at: Stamp<Reference>,
        next: Tid,
        leaving: Now,
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
            let leaving = match leaving {
                Now::Blocked(asleep) => {
                    Now::Blocked(Asleep { lock: self.lock_of(thread, &asleep), ..asleep })
                }
                other => other,
            };
            let row = &mut self.threads[thread.0 as usize];
            row.now = leaving;
        }
        let next = self.arrive(next, cpu, at, sink);
        let lane = &mut self.lanes[usize::from(cpu.0)];
        lane.instance.end();
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
            Now::Ready if self.started.is_some_and(|started| started <= since) => {
                self.emit(thread, at, State::Runnable { cpu }, sink);
            }
            Now::Blocked(asleep) => match pending {
                Some(woken) => {
                    self.emit(thread, since, State::Blocked(self.over(&asleep, woken.into())), sink);
                    self.emit(thread, at, State::Runnable { cpu }, sink);
                }
                None => self.emit(thread, at, State::Blocked(self.over(&asleep, Waker::Unseen)), sink),
            },
            _ => self.close(thread, Waker::Unseen, sink),
        }
        let row = &mut self.threads[thread.0 as usize];
        row.since = at;
        row.now = Now::Running(cpu);
        row.pending = None;
        Occupant::Thread(thread)
    }

    fn waking(
        &mut self,
        event: &Event,
        at: Stamp<Reference>,
        target: Tid,
        irq: u16,
        newborn: bool,
        sink: &mut impl Sink,
    ) {
        let current = self.see(event, at, sink);
        if target == Tid::IDLE {
            return;
        }
        let evidence = match self.lane(event.cpu) {
            Some(lane) if event.context.is_interrupt() => lane.instance.evidence(at, sink),
            _ => EvidenceIndex::NONE,
        };
        let woken = Woken { at, current, context: event.context, irq, evidence };
        let thread = match self.alive(target) {
            Some(thread) => thread,
            None => self.create(target, at, Now::Unknown { lost_until: None }, sink),
        };
        let row = &mut self.threads[thread.0 as usize];
        match row.now {
            Now::Newborn => {}
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
            Now::Blocked(_) | Now::Unknown { .. } => {}
        }
        self.woken(thread, woken, sink);
    }

    /// A waking ends a wait.
    pub(crate) fn woken(&mut self, thread: ThreadIndex, woken: Woken, sink: &mut impl Sink) {
        let row = &self.threads[thread.0 as usize];
        match row.now {
            Now::Blocked(asleep) => {
                self.emit(thread, woken.at, State::Blocked(self.over(&asleep, woken.into())), sink);
            }
            Now::Newborn => {
                let wait = Wait { newborn: true, ..self.over(&Asleep::UNSEEN, woken.into()) };
                self.emit(thread, woken.at, State::Blocked(wait), sink);
            }
            Now::Unknown { lost_until: Some(to) } => {
                // Its switch-out is somewhere in the lost range: behind that it was asleep.
                let to = to.min(woken.at);
                self.emit(thread, to, State::Unknown(Seen::Lost), sink);
                if woken.at > to {
                    let wait = self.over(&Asleep::UNSEEN, woken.into());
                    self.emit(thread, woken.at, State::Blocked(wait), sink);
                }
            }
            _ => self.emit(thread, woken.at, State::Unknown(Seen::NotYet), sink),
        }
        let row = &mut self.threads[thread.0 as usize];
        row.since = woken.at;
        row.now = Now::Runnable;
        row.pending = None;
    }

    /// A wait as it went out, with what ended it.
    pub(crate) fn over(&self, asleep: &Asleep, end: Waker) -> Wait {
        let waker = match end {
            Waker::Woken { current, context, .. } if !context.is_interrupt() => current.thread(),
            _ => None,
        };
        // A claim of ownership is proved by the one who then ends the wait.
        let lock = asleep.lock.map(|lock| Link {
            proved: lock.proved || (lock.owner.is_some() && lock.owner == waker),
            ..lock
        });
        Wait {
            state: asleep.state,
            call: asleep.call,
            lock,
            end,
            newborn: false,
            began_before: asleep.began_before,
        }
    }

    /// The lock that a thread is about to sleep for.
    fn lock_of(&self, waiter: ThreadIndex, asleep: &Asleep) -> Option<Link> {
        let row = &self.threads[waiter.0 as usize];
        if row.lock.is_some() {
            return row.lock;
        }
        let call = asleep.call.as_ref()?;
        let owner = futex_owner(call)?;
        let thread = match self.ns_tids.get(&(row.tgid, owner.ns_tid)) {
            Some(&thread) => thread,
            None => self.alive(owner.ns_tid)?,
        };
        let candidate = &self.threads[thread.0 as usize];
        let possible = thread != waiter && candidate.tgid == row.tgid && !matches!(candidate.now, Now::Dead);
        possible.then_some(Link {
            address: call.arg0,
            kernel: false,
            owner: Some(thread),
            proved: owner.proved,
        })
    }
}

impl Asleep {
    /// Of a thread whose switch-out nobody saw.
    pub(crate) const UNSEEN: Self = Self { state: None, call: None, lock: None, began_before: false };
}
