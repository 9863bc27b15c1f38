//! The state machine: each event's effect on threads and CPUs.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use wakepath_clock::{Reference, Stamp};
use wakepath_event::{CgroupId, Cpu, Event, EventKind, Flow, FlowId, HostIndex, Mark, ThreadIdentity, Tid};

use crate::cpu::CpuState;
use crate::held_requests::HeldRequests;
use crate::locks::Holding;
use crate::outgoing::Outgoing;
use crate::recent::Recent;
use crate::tcp_timers::Senders;
use crate::thread::{CurrentState, Thread};
use crate::tids::Tids;
use crate::timer_files::TimerFiles;
use crate::windows::Windows;
use crate::{
    ContendedLock, EvidenceIndex, HeldBack, Loss, Occupant, Sent, Sink, State, ThreadIndex, Wait, WakeUp,
    Waker,
};

/// The numbers of events that do not show in thread states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Events with a stamp before the previous event's. They count as simultaneous with it.
    pub inversions: u64,
    /// Wake-ups that ended no wait.
    pub spurious_wakings: u64,
    /// Switches that must have happened and have no record.
    pub missing_switches: u64,
    /// Sent packets that were forgotten for lack of room before they arrived.
    pub forgotten_packets: u64,
}

/// A disk request's issue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Issue {
    pub(crate) submitter: Option<ThreadIndex>,
    pub(crate) at: Stamp<Reference>,
    pub(crate) held: Option<HeldBack>,
}

/// The state machine; the crate's documentation describes it.
#[derive(Debug, Default)]
pub struct Timeline {
    pub(crate) threads: Vec<Thread>,
    pub(crate) tids: Tids,
    pub(crate) cpus: Vec<CpuState>,
    /// The time from which all of a host's sources are recorded.
    complete_since: Vec<(HostIndex, Stamp<Reference>)>,
    /// The CPUs without records now, each with its host.
    pub(crate) unrecorded_cpus: Vec<(HostIndex, Cpu)>,
    /// The beginning of the first loss that may have been on any CPU, and the end of the last.
    pub(crate) lost_anywhere: Option<(Stamp<Reference>, Stamp<Reference>)>,
    pub(crate) now: Stamp<Reference>,
    pub(crate) counts: Counts,
    pub(crate) sends: Recent<(Option<FlowId>, u32, u32, u32), Sent>,
    pub(crate) outgoing: Outgoing,
    pub(crate) senders: Senders,
    /// The defined flows' protocols.
    pub(crate) protocols: HashMap<FlowId, u8, FixedState>,
    pub(crate) issues: Recent<u64, Issue>,
    pub(crate) held_requests: HeldRequests,
    /// The time at which each cgroup's CPU limit last handed out time.
    pub(crate) refills: HashMap<CgroupId, Stamp<Reference>>,
    pub(crate) timer_files: TimerFiles,
    pub(crate) windows: Windows,
    pub(crate) flows: HashMap<(Option<HostIndex>, Flow), FlowId>,
    pub(crate) reversed: HashMap<FlowId, FlowId>,
    /// The last proved owner of each futex, by process and address.
    pub(crate) holdings: Recent<(Tid, u64), Holding>,
    /// Threads in pid namespaces, by process and tid there.
    pub(crate) ns_tids: HashMap<(Tid, Tid), ThreadIndex>,
    /// Each process's threads, as a list through [`Thread::next_in_process`].
    processes: HashMap<Tid, ThreadIndex>,
}

impl Timeline {
    /// Reads the next event. Events come in time order; an event that goes back in time counts as
    /// simultaneous with the previous event.
    pub fn push(&mut self, event: &Event, sink: &mut impl Sink) {
        let at = event.at.on_reference_host();
        let at = if at < self.now {
            self.counts.inversions += 1;
            self.now
        } else {
            self.now = at;
            at
        };
        match &event.kind {
            EventKind::Switch { next, out, interrupts_ns, call } => {
                self.switch(event, at, *next, (*out, call.as_ref()), *interrupts_ns, sink);
            }
            EventKind::Waking { target, irq, newborn, socket } => {
                let current = self.observe(event, at, sink);
                let (mut evidence, mut late) = (EvidenceIndex::NONE, None);
                if let (Some(cpu_state), true) = (self.cpu_state(event.cpu), event.context.is_interrupt()) {
                    if let Some(flow) = socket {
                        cpu_state.instance.ready(*flow, at);
                    }
                    evidence = cpu_state.instance.evidence(at, sink);
                    late = cpu_state.late(at);
                }
                let woken = WakeUp { at, current, context: event.context, irq: *irq, evidence, late };
                self.waking(*target, woken, *newborn, sink);
            }
            EventKind::Thread { identity, blocked, call } => {
                let wait = Wait { state: *blocked, call: *call, began_before: true, ..Wait::default() };
                let (thread, new) = self.introduce(identity, at, blocked.map(|_| wait), sink);
                if blocked.is_some() && !new {
                    self.find_blocked(thread, wait, at, sink);
                }
            }
            EventKind::Fork { child } => {
                let forker = self.observe(event, at, sink);
                if let (thread, true) =
                    self.introduce(child, at, Some(Wait { newborn: true, ..Wait::default() }), sink)
                {
                    sink.born(thread, at, forker);
                }
            }
            EventKind::Exec { old, comm, path } => {
                self.take_leaders_tid(*old, event.current, at, sink);
                if let Occupant::Thread(thread) = self.observe(event, at, sink) {
                    sink.exec(thread, at, path);
                    sink.named(thread, at, *comm);
                }
            }
            EventKind::Exit => {
                if let Occupant::Thread(thread) = self.observe(event, at, sink) {
                    self.threads[thread.0 as usize].exiting = true;
                    sink.exited(thread, at);
                }
            }
            EventKind::Rename { tid, comm } => {
                if let Some(thread) = self.alive(*tid) {
                    sink.named(thread, at, *comm);
                }
            }
            EventKind::Move { tid, tgid, whole, cgroup, cpu_cgroup } => {
                let mut one = if *whole { self.processes.get(tgid).copied() } else { self.alive(*tid) };
                while let Some(thread) = one {
                    let row = &self.threads[thread.0 as usize];
                    if !matches!(row.state, CurrentState::Dead) {
                        sink.moved(thread, at, *cgroup, *cpu_cgroup);
                    }
                    one = row.next_in_process.filter(|_| *whole);
                    self.threads[thread.0 as usize].cpu_cgroup = *cpu_cgroup;
                }
            }
            EventKind::Packet(packet) => self.packet(event, at, packet, sink),
            EventKind::SocketReady(flow) => {
                self.observe(event, at, sink);
                if let Some(cpu_state) = self.cpu_state(event.cpu) {
                    cpu_state.instance.ready(*flow, at);
                }
            }
            EventKind::Flow(id, flow) => {
                self.protocols.insert(*id, flow.protocol);
                let inside = flow.within(event.current.host());
                self.flows.insert((inside, *flow), *id);
                if let Some(&back) = self.flows.get(&(inside, flow.reversed())) {
                    self.reversed.insert(*id, back);
                    self.reversed.insert(back, *id);
                }
            }
            EventKind::BlockIssue(request) => {
                let current = self.observe(event, at, sink);
                let submitter = match event.cpu {
                    // The request was made before the recording, and its thread may wait by now.
                    Cpu::UNKNOWN => self.alive(event.current),
                    _ if event.context.is_interrupt() => None,
                    _ => current.thread(),
                };
                let held = self.held_requests.issue(request);
                self.issues.insert(request.id, Issue { submitter, at, held });
            }
            EventKind::BlockRelease(request) => {
                self.observe(event, at, sink);
                self.held_requests.release(request, at);
            }
            EventKind::BlockComplete(request) => self.completed(event, at, request, sink),
            EventKind::LockBegin(lock) => {
                let current = self.observe(event, at, sink);
                let owner = lock.owner.and_then(|tid| self.alive(tid));
                let lock = ContendedLock { address: lock.address, kernel: true, owner, proved: true };
                if event.cpu == Cpu::UNKNOWN {
                    self.add_lock_to_wait(event.current, lock);
                } else if let (Occupant::Thread(thread), false) = (current, event.context.is_interrupt()) {
                    self.threads[thread.0 as usize].lock = Some(lock);
                }
            }
            EventKind::LockEnd(lock) => {
                let current = self.observe(event, at, sink);
                if let (Occupant::Thread(thread), false) = (current, event.context.is_interrupt()) {
                    self.threads[thread.0 as usize].lock = None;
                    sink.acquired(thread, at, lock.address);
                }
            }
            EventKind::Blocked(call) => {
                if let Some(thread) = self.alive(event.current) {
                    self.add_call_to_wait(thread, call);
                }
            }
            EventKind::Signal(signal) => {
                if let Occupant::Thread(thread) = self.observe(event, at, sink) {
                    let sender = signal.sent.map(|(at, tid)| {
                        let tid = Some(tid).filter(|tid| *tid != Tid::IDLE);
                        let by = tid.map_or(Occupant::Idle, |tid| {
                            // The sender may be dead by now: `kill` sends a signal and exits.
                            self.tids.get(tid).map_or(Occupant::Unknown, Occupant::Thread)
                        });
                        (at.on_reference_host(), by)
                    });
                    sink.signal(thread, at, signal, sender);
                }
            }
            EventKind::Refill(cpu_cgroup) => {
                self.observe(event, at, sink);
                self.refills.insert(*cpu_cgroup, at);
            }
            EventKind::Stolen(ns) => {
                if let Some(cpu_state) = self.cpu_state(event.cpu) {
                    let from = Stamp::from_ns(at.ns().saturating_sub(*ns)).max(cpu_state.stolen_until);
                    cpu_state.stolen_until = at;
                    cpu_state.stolen_since = Some(from);
                    sink.stolen(event.cpu, from, at);
                }
            }
            EventKind::Sample(_) | EventKind::Reclaim(_) | EventKind::SignalSent(_) | EventKind::Current => {
                self.observe(event, at, sink);
            }
            EventKind::Loss { from, count, records } => {
                let from = from.on_reference_host().min(at);
                let is_evidence = records.is_evidence_alone();
                match self.cpu_state(event.cpu) {
                    Some(cpu_state) if is_evidence => cpu_state.lose_evidence(),
                    Some(cpu_state) => {
                        cpu_state.lose(from, at, *count);
                        self.unrecorded_cpus.retain(|&(_, cpu)| cpu != event.cpu);
                    }
                    // The lost record may have been the evidence in any CPU's interrupt.
                    None => {
                        if !is_evidence {
                            let first = self.lost_anywhere.map_or(from, |(first, _)| first);
                            self.lost_anywhere = Some((first, at));
                        }
                        self.cpus.iter_mut().for_each(CpuState::lose_evidence);
                    }
                }
                let (cpu, count, records) = (event.cpu, *count, *records);
                sink.loss(Loss { cpu, from, to: at, count, records, reported: true });
            }
            EventKind::Unrecorded => {
                if let Some(cpu_state) = self.cpu_state(event.cpu)
                    && !cpu_state.unrecorded
                {
                    cpu_state.unrecorded = true;
                    self.unrecorded_cpus.push((event.current.host(), event.cpu));
                    sink.occupant(event.cpu, at, Occupant::Unknown);
                }
            }
            EventKind::Ready { target, fd } => {
                if let Some(thread) = self.alive(*target) {
                    self.threads[thread.0 as usize].ready = Some((at, *fd));
                }
            }
            EventKind::Migrate { target, from, to } => {
                self.observe(event, at, sink);
                self.migrate(*target, at, (*from, *to), sink);
            }
            EventKind::File(file) => {
                self.timer_files.observe(file);
                self.windows.observe(file);
            }
            EventKind::SetMember(member) => self.timer_files.observe_member(member),
            EventKind::Mark(Mark::Started) => self.complete_since.push((event.current.host(), at)),
            EventKind::Stack(_)
            | EventKind::StackLater(..)
            | EventKind::StackOf(_)
            | EventKind::ThreadContext(_)
            | EventKind::ThreadAttribute(_)
            | EventKind::FailedCall(_)
            | EventKind::Spin(_)
            | EventKind::StackCounts(_)
            | EventKind::KernelCost(_)
            | EventKind::UnwindCounts(_)
            | EventKind::Function(_)
            | EventKind::Goroutine(_)
            | EventKind::Clocks(_)
            | EventKind::Name(..)
            | EventKind::Mapping(_)
            | EventKind::UserMark(_)
            | EventKind::UserMarksLost { .. }
            | EventKind::Mark(_) => {}
        }
    }

    /// The thread current at the event just pushed.
    pub fn current(&self, event: &Event) -> Occupant {
        match event.current {
            Tid::IDLE => Occupant::Idle,
            tid => self.alive(tid).map_or(Occupant::Unknown, Occupant::Thread),
        }
    }

    /// The time from which all sources on this thread's host are recorded.
    pub(crate) fn complete_since(&self, tid: Tid) -> Option<Stamp<Reference>> {
        // All hosts share the idle thread's id.
        if tid == Tid::IDLE && self.complete_since.len() > 1 {
            return None;
        }
        let of_host = self.complete_since.iter().rev().find(|&&(host, _)| host == tid.host());
        of_host.map(|&(_, at)| at)
    }

    /// Closes everything on a host whose last event was just pushed: its recording ends here. From here on
    /// nothing is known about the host's threads and these CPUs, which are all its CPUs.
    pub fn end_host(&mut self, host: HostIndex, cpus: impl IntoIterator<Item = Cpu>, sink: &mut impl Sink) {
        for cpu in cpus {
            // A CPU without a record of a thread is unknown as it is.
            if usize::from(cpu.0) < self.cpus.len() {
                self.close_cpu(cpu, sink);
                self.lose_sight(cpu, sink);
                self.cpus[usize::from(cpu.0)] = CpuState::default();
                sink.occupant(cpu, self.now, Occupant::Unknown);
            }
        }
        for index in 0..self.threads.len() {
            if self.threads[index].tid.host() == host {
                self.close(ThreadIndex(index as u32), Waker::Open, sink);
                self.threads[index].state = CurrentState::Dead;
            }
        }
    }

    /// Closes everything open, at the last event's time.
    pub fn finish(mut self, sink: &mut impl Sink) -> Counts {
        for cpu in 0..self.cpus.len() {
            self.close_cpu(Cpu(cpu as u16), sink);
            self.lose_sight(Cpu(cpu as u16), sink);
        }
        for index in 0..self.threads.len() {
            self.close(ThreadIndex(index as u32), Waker::Open, sink);
        }
        self.counts.forgotten_packets = self.sends.forgotten;
        self.counts
    }

    /// The living thread with this tid.
    #[inline]
    pub(crate) fn alive(&self, tid: Tid) -> Option<ThreadIndex> {
        self.tids
            .get(tid)
            .filter(|thread| !matches!(self.threads[thread.0 as usize].state, CurrentState::Dead))
    }

    pub(crate) fn create(
        &mut self,
        tid: Tid,
        at: Stamp<Reference>,
        state: CurrentState,
        sink: &mut impl Sink,
    ) -> ThreadIndex {
        let thread = ThreadIndex(self.threads.len() as u32);
        self.threads.push(Thread::new(tid, at, state));
        self.tids.set(tid, Some(thread));
        sink.thread(thread, tid, at);
        thread
    }

    /// Emits a thread's state interval up to `to`.
    #[inline]
    pub(crate) fn emit(
        &mut self,
        thread: ThreadIndex,
        to: Stamp<Reference>,
        state: State<&Wait>,
        sink: &mut impl Sink,
    ) {
        let row = &mut self.threads[thread.0 as usize];
        if to > row.since || matches!(state, State::Blocked(_)) {
            sink.state_interval(thread, row.since, to, state);
            row.since = to;
        }
    }

    /// Reads a thread's identity from a snapshot or a fork. Returns whether the thread is new.
    fn introduce(
        &mut self,
        identity: &ThreadIdentity,
        at: Stamp<Reference>,
        wait: Option<Wait>,
        sink: &mut impl Sink,
    ) -> (ThreadIndex, bool) {
        let newborn = wait.is_some_and(|wait| wait.newborn);
        let known = self.alive(identity.tid).filter(|thread| {
            let row = &self.threads[thread.0 as usize];
            // A tid may be in use again after a death without a record.
            match row.start {
                Some(start) => start == identity.start,
                None => !newborn,
            }
        });
        let thread = match known {
            Some(thread) => thread,
            None => {
                if let Some(dead) = self.alive(identity.tid) {
                    self.end_thread(dead, at, sink);
                }
                let now = if wait.is_some() { CurrentState::Blocked } else { CurrentState::Ready };
                let thread = self.create(identity.tid, at, now, sink);
                self.threads[thread.0 as usize].wait = wait.unwrap_or_default();
                thread
            }
        };
        let row = &mut self.threads[thread.0 as usize];
        if row.start.is_none() {
            row.start = Some(identity.start);
            row.cpu_cgroup = identity.cpu_cgroup;
            row.tgid = identity.tgid;
            row.kernel = identity.kernel;
            // The leader of a new process heads a new list.
            row.next_in_process = if identity.tid == identity.tgid && newborn {
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
}

#[cfg(test)]
mod tests;
