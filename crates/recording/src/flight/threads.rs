//! Each thread's and CPU's last state, from the dropped records.
//!
//! The rules are the timeline's (`crates/timeline/src/waits.rs`), without its results: the last record that proves a
//! thread's state decides; where records contradict each other, the state is unknown.

use std::collections::{HashMap, HashSet};

use wakepath_event::{
    BlockedState, Call, CgroupId, Context, Cpu, Event, EventKind, KernelLock, Mark, SwitchOut,
    ThreadAttribute, ThreadContext, ThreadIdentity, Tid,
};

use super::bounded::table_bytes;

/// The largest number of remembered threads, living and dying.
const MAX_THREADS: usize = 1 << 18;
/// The largest number of remembered attributes in a thread's context: `MAX_ATTRIBUTES` in `bpf/thread_context.bpf.h`.
const MAX_ATTRIBUTES: usize = 16;
/// The largest number of cgroups with remembered limits.
const MAX_REFILLS: usize = 1 << 12;

/// The threads and the CPUs.
#[derive(Debug, Default)]
pub(super) struct Threads {
    rows: HashMap<Tid, Row>,
    /// Each CPU's thread; `None` while unknown.
    cpus: Vec<Option<Tid>>,
    /// The stamp from which all sources were recorded, ns.
    complete_since: Option<u64>,
    /// The memory for attributes, bytes.
    attribute_bytes: usize,
    /// The last stamp at which each cgroup's CPU limit handed out time, ns.
    refills: HashMap<CgroupId, u64>,
    /// Processes whose main thread ended since the last sweep: their numbers may be reused.
    ended: HashSet<Tid>,
}

/// A thread.
#[derive(Debug, Clone, Default)]
pub(super) struct Row {
    /// The identity; `None` if no record has it.
    pub identity: Option<ThreadIdentity>,
    /// Its state.
    pub state: State,
    /// The kernel lock for which it waits.
    pub lock: Option<KernelLock>,
    /// The span context, if read.
    pub context: Option<ThreadContext>,
    /// The context's attributes.
    pub attributes: Vec<ThreadAttribute>,
    /// A wake-up while the thread ran: it ends the next wait.
    pub pending: Option<Woken>,
    /// The last CPU that the thread left.
    pub left: Option<Cpu>,
    /// The last wait's call.
    call: Option<Call>,
    exiting: bool,
}

/// A wake-up's recorded circumstances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Woken {
    /// The waking CPU's context.
    pub context: Context,
    /// The device's interrupt number.
    pub irq: u16,
}

/// A thread's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum State {
    /// No record proves a state.
    #[default]
    Unknown,
    /// Running, or waiting for a CPU.
    Ready,
    /// Preempted on this CPU, and waiting for a CPU.
    Preempted(Cpu),
    /// A CPU limit stopped it on this CPU, at this stamp.
    Throttled(Cpu, u64),
    /// Waiting for a wake-up.
    Blocked(BlockedState, Option<Call>),
    /// Forked by this thread, and not woken yet.
    Newborn(Tid),
}

impl Row {
    /// The attributes' memory, bytes.
    fn attribute_bytes(&self) -> usize {
        let values: usize = self.attributes.iter().map(|one| one.value.len()).sum();
        self.attributes.capacity() * size_of::<ThreadAttribute>() + values
    }
}

impl Threads {
    /// Takes an event, in time order.
    pub fn take(&mut self, event: &Event) {
        let &Event { cpu, current, ref kind, .. } = event;
        let at = event.at.ns();
        if observes(kind) {
            self.observe(cpu, current);
        }
        match kind {
            EventKind::Switch { next, out, call, .. } => self.switch(at, cpu, current, *next, (*out, *call)),
            EventKind::Waking { target, newborn, irq, .. } => {
                self.wake(*target, *newborn, Woken { context: event.context, irq: *irq });
            }
            EventKind::Thread { identity, blocked, call } => {
                // Before all sources are recorded, the thread may have begun to wait without a record.
                let is_complete = self.complete_since.is_some_and(|since| since <= at);
                let ready = if is_complete { State::Ready } else { State::Unknown };
                let state = blocked.map_or(ready, |how| State::Blocked(how, *call));
                self.introduce(identity, state);
            }
            EventKind::Fork { child } => self.introduce(child, State::Newborn(current)),
            EventKind::Blocked(call) => {
                if let Some(row) = self.rows.get_mut(&current)
                    && let State::Blocked(_, known) = &mut row.state
                {
                    (*known, row.call) = (Some(*call), Some(*call));
                }
            }
            EventKind::Exec { old, comm, .. } => {
                self.take_leaders_tid(*old, current);
                self.observe(cpu, current);
                if let Some(identity) = self.identity(current) {
                    identity.comm = *comm;
                }
                // The span was the previous program's work.
                self.set_context(current, None);
            }
            EventKind::Exit => {
                if let Some(row) = self.rows.get_mut(&current) {
                    row.exiting = true;
                }
            }
            EventKind::Rename { tid, comm } => {
                if let Some(identity) = self.identity(*tid) {
                    identity.comm = *comm;
                }
            }
            EventKind::Move { tid, tgid, whole, cgroup, cpu_cgroup } => {
                let identities = self.rows.values_mut().filter_map(|row| row.identity.as_mut());
                let moved = identities.filter(|one| if *whole { one.tgid == *tgid } else { one.tid == *tid });
                for identity in moved {
                    (identity.cgroup, identity.cpu_cgroup) = (*cgroup, *cpu_cgroup);
                }
            }
            EventKind::Migrate { target, to, .. } => self.migrate(*target, *to),
            // Interrupts wait for locks too, while their thread waits for none, or for another.
            EventKind::LockBegin(_) | EventKind::LockEnd(_) if event.context.is_interrupt() => {}
            EventKind::LockBegin(lock) => self.set_lock(current, Some(*lock)),
            EventKind::LockEnd(_) => self.set_lock(current, None),
            EventKind::ThreadContext(context) => self.set_context(current, Some(*context)),
            EventKind::ThreadAttribute(attribute) => {
                let row = self.rows.get_mut(&current);
                if let Some(row) = row.filter(|row| row.attributes.len() < MAX_ATTRIBUTES) {
                    self.attribute_bytes -= row.attribute_bytes();
                    row.attributes.push(attribute.clone());
                    self.attribute_bytes += row.attribute_bytes();
                }
            }
            EventKind::Refill(cgroup) => {
                if self.refills.len() >= MAX_REFILLS {
                    self.refills.clear();
                }
                self.refills.insert(*cgroup, at);
            }
            EventKind::Loss { .. } => self.lose(cpu),
            EventKind::Mark(Mark::Started) => self.complete_since = Some(at),
            // At most, these events show their CPU's thread.
            EventKind::Ready { .. }
            | EventKind::Current
            | EventKind::Stolen(_)
            | EventKind::Packet(_)
            | EventKind::SocketReady(_)
            | EventKind::Flow(..)
            | EventKind::BlockIssue(_)
            | EventKind::BlockComplete(_)
            | EventKind::BlockRelease(_)
            | EventKind::Reclaim(_)
            | EventKind::SignalSent(_)
            | EventKind::Sample(_)
            | EventKind::Stack(_)
            | EventKind::StackLater(..)
            | EventKind::StackOf(_)
            | EventKind::StackCounts(_)
            | EventKind::KernelCost(_)
            | EventKind::UnwindCounts(_)
            | EventKind::File(_)
            | EventKind::SetMember(_)
            | EventKind::Function(_)
            | EventKind::FailedCall(_)
            | EventKind::Spin(_)
            | EventKind::UserMark(_)
            | EventKind::UserMarksLost { .. }
            | EventKind::Signal(_)
            | EventKind::Goroutine(_)
            | EventKind::Clocks(_)
            | EventKind::Name(..)
            | EventKind::Mapping(_)
            | EventKind::Unrecorded
            | EventKind::Mark(_) => {}
        }
    }

    /// Notes a loss of records from this CPU: any thread may have it now.
    pub fn lose(&mut self, cpu: Cpu) {
        if let Some(Some(tid)) = self.cpus.get_mut(usize::from(cpu.0)).map(Option::take) {
            self.doubt(tid);
        }
    }

    /// The living threads with their states, by tid.
    pub fn rows(&self) -> Vec<(Tid, Row)> {
        let mut rows: Vec<_> = self.rows.iter().map(|(tid, row)| (*tid, self.settled(row))).collect();
        rows.sort_unstable_by_key(|(tid, _)| *tid);
        rows
    }

    /// Each CPU's thread if known, idle threads included.
    pub fn occupants(&self) -> impl Iterator<Item = (Cpu, Tid)> {
        (0..).map(Cpu).zip(&self.cpus).filter_map(|(cpu, tid)| Some((cpu, (*tid)?)))
    }

    /// The memory in use, bytes.
    pub fn bytes(&self) -> usize {
        self.attribute_bytes
            + table_bytes::<(Tid, Row)>(self.rows.capacity())
            + table_bytes::<(CgroupId, u64)>(self.refills.capacity())
            + table_bytes::<Tid>(self.ended.capacity())
            + self.cpus.capacity() * size_of::<Option<Tid>>()
    }

    /// The processes with a living thread, main or not. A walk through all threads.
    pub fn processes(&self) -> HashSet<Tid> {
        let process = |(tid, row): (&Tid, &Row)| row.identity.as_ref().map_or(*tid, |identity| identity.tgid);
        self.rows.iter().map(process).collect()
    }

    /// Whether an earlier process had this newborn process's number.
    pub fn is_reused(&self, child: &ThreadIdentity) -> bool {
        let known = self.rows.get(&child.tid).and_then(|row| row.identity.as_ref());
        let is_other = known.is_some_and(|known| known.start != child.start);
        child.tid == child.tgid && (is_other || self.ended.contains(&child.tid))
    }

    /// Ends the watch for reuse of ended processes' numbers, except where a thread still lives.
    pub fn forget_ended(&mut self, living: &HashSet<Tid>) {
        self.ended.retain(|tgid| living.contains(tgid));
    }

    /// A thread's row, with its cgroup's refill applied to its state.
    fn settled(&self, row: &Row) -> Row {
        let mut row = row.clone();
        row.state = match row.state {
            State::Throttled(_, since) if self.refilled(&row).is_some_and(|at| since < at) => State::Ready,
            state => state,
        };
        row
    }

    fn refilled(&self, row: &Row) -> Option<u64> {
        self.refills.get(&row.identity.as_ref()?.cpu_cgroup).copied()
    }

    fn identity(&mut self, tid: Tid) -> Option<&mut ThreadIdentity> {
        self.rows.get_mut(&tid)?.identity.as_mut()
    }

    fn row(&mut self, tid: Tid) -> &mut Row {
        if self.rows.len() >= MAX_THREADS && !self.rows.contains_key(&tid) {
            // Too many threads: some ended without records. A living thread shows itself again.
            self.rows.retain(|_, row| !row.exiting && row.state != State::Unknown);
            if self.rows.len() >= MAX_THREADS {
                self.rows.clear();
            }
            self.attribute_bytes = self.rows.values().map(Row::attribute_bytes).sum();
        }
        self.rows.entry(tid).or_default()
    }

    fn doubt(&mut self, tid: Tid) {
        if let Some(row) = self.rows.get_mut(&tid) {
            (row.state, row.pending, row.lock) = (State::Unknown, None, None);
        }
    }

    /// Notes the thread on a CPU, as a record shows it.
    fn observe(&mut self, cpu: Cpu, tid: Tid) {
        if cpu == Cpu::UNKNOWN {
            return;
        }
        let index = usize::from(cpu.0);
        if self.cpus.len() <= index {
            self.cpus.resize(index + 1, None);
        }
        let believed = self.cpus[index];
        if believed == Some(tid) {
            return;
        }
        if let Some(believed) = believed.filter(|&believed| believed != Tid::IDLE)
            && !self.take_leaders_tid(believed, tid)
        {
            self.doubt(believed);
        }
        self.run(cpu, tid);
    }

    /// Gives a thread a CPU.
    fn run(&mut self, cpu: Cpu, tid: Tid) {
        if tid != Tid::IDLE {
            // No thread runs on two CPUs: the other CPU's switch record is missing.
            self.leave_cpus(tid);
            let row = self.row(tid);
            (row.state, row.pending) = (State::Ready, None);
        }
        self.cpus[usize::from(cpu.0)] = Some(tid);
    }

    /// Takes a thread off its CPU, whose thread then is unknown.
    fn leave_cpus(&mut self, tid: Tid) {
        self.cpus.iter_mut().filter(|occupant| **occupant == Some(tid)).for_each(|occupant| *occupant = None);
    }

    fn switch(&mut self, at: u64, cpu: Cpu, prev: Tid, next: Tid, (out, call): (SwitchOut, Option<Call>)) {
        if next == prev || cpu == Cpu::UNKNOWN {
            return;
        }
        if prev != Tid::IDLE {
            match out {
                SwitchOut::Dead => {
                    let dead = self.rows.remove(&prev);
                    self.attribute_bytes -= dead.as_ref().map_or(0, Row::attribute_bytes);
                    if dead.and_then(|row| row.identity).is_none_or(|identity| identity.tgid == prev) {
                        self.ended.insert(prev);
                    }
                }
                SwitchOut::Runnable => self.row(prev).state = State::Preempted(cpu),
                SwitchOut::Throttled => self.row(prev).state = State::Throttled(cpu, at),
                SwitchOut::Blocked(how) => {
                    let row = self.row(prev);
                    row.call = call.map(|call| resumed_call(call, row.call));
                    row.left = Some(cpu);
                    row.state = State::Blocked(how, row.call);
                }
            }
        }
        self.run(cpu, next);
    }

    fn wake(&mut self, target: Tid, newborn: bool, woken: Woken) {
        if target == Tid::IDLE {
            return;
        }
        let state = self.row(target).state;
        let is_other = matches!(state, State::Blocked(..) | State::Preempted(_) | State::Throttled(..))
            || self.cpus.contains(&Some(target));
        if newborn && is_other {
            // The tid was reused: the earlier thread's end and this thread's fork have no records.
            self.begin_anew(target);
        }
        let row = self.row(target);
        match row.state {
            _ if newborn => row.state = State::Ready,
            State::Blocked(..) | State::Unknown | State::Newborn(_) => row.state = State::Ready,
            // A ready thread that is not on a CPU yet runs before it waits, and `run` clears this.
            State::Ready => row.pending = Some(woken),
            State::Preempted(_) | State::Throttled(..) => {}
        }
    }

    /// Takes an identity from a snapshot or a fork.
    fn introduce(&mut self, identity: &ThreadIdentity, state: State) {
        let row = self.row(identity.tid);
        let is_same = match &row.identity {
            Some(known) => known.start == identity.start,
            None => !matches!(state, State::Newborn(_)),
        };
        if !is_same {
            self.begin_anew(identity.tid);
        }
        let row = self.row(identity.tid);
        if !is_same || row.state == State::Unknown {
            row.state = state;
        }
        row.identity = Some(identity.clone());
    }

    /// Forgets the tid's earlier thread, which ended without a record.
    fn begin_anew(&mut self, tid: Tid) {
        let before = self.rows.remove(&tid);
        self.attribute_bytes -= before.map_or(0, |row| row.attribute_bytes());
        self.leave_cpus(tid);
    }

    /// Moves a thread between run queues.
    fn migrate(&mut self, target: Tid, to: Cpu) {
        let is_running = self.cpus.contains(&Some(target));
        let state = self.rows.get(&target).filter(|_| !is_running).map(|row| self.settled(row).state);
        if let (Some(State::Ready | State::Preempted(_)), Some(row)) = (state, self.rows.get_mut(&target)) {
            row.state = State::Preempted(to);
        }
    }

    fn set_context(&mut self, tid: Tid, context: Option<ThreadContext>) {
        if let Some(row) = self.rows.get_mut(&tid) {
            row.context = context;
            self.attribute_bytes -= row.attribute_bytes();
            row.attributes = Vec::new();
        }
    }

    fn set_lock(&mut self, tid: Tid, lock: Option<KernelLock>) {
        if let Some(row) = self.rows.get_mut(&tid) {
            row.lock = lock;
        }
    }

    /// Gives the executing thread its process leader's tid; false if the records do not fit.
    fn take_leaders_tid(&mut self, old: Tid, leader: Tid) -> bool {
        let is_of = |row: &Row| row.identity.as_ref().is_some_and(|identity| identity.tgid == leader);
        let fits = old != leader && self.rows.get(&old).is_some_and(|row| is_of(row) && !row.exiting);
        if !fits || self.rows.get(&leader).is_some_and(|row| !row.exiting) {
            return false;
        }
        let before = self.rows.remove(&leader);
        let mut ns_tid = None;
        if let Some(mut row) = self.rows.remove(&old) {
            if let Some(identity) = &mut row.identity {
                identity.tid = leader;
                ns_tid = Some(std::mem::replace(&mut identity.ns_tid, identity.ns_tgid));
            }
            self.rows.insert(leader, row);
        }
        // The old leader has the other tid while it exits.
        if let Some(mut before) = before {
            if let Some(identity) = &mut before.identity {
                identity.tid = old;
                identity.ns_tid = ns_tid.unwrap_or(old);
            }
            self.rows.insert(old, before);
        }
        for occupant in self.cpus.iter_mut().flatten() {
            *occupant = match *occupant {
                tid if tid == old => leader,
                tid if tid == leader => old,
                tid => tid,
            };
        }
        true
    }
}

/// The call in which a thread waits: `restart_syscall` continues the call before it.
fn resumed_call(call: Call, before: Option<Call>) -> Call {
    let resumes = |before: &Call| {
        let known = call.arg0 != Call::NO_ARGUMENT && before.arg0 != Call::NO_ARGUMENT;
        call.number == Call::RESTART && (!known || before.argument() == call.argument())
    };
    before.filter(resumes).unwrap_or(call)
}

/// Whether the event's current thread has the event's CPU, by the timeline's rule. Some records come shortly after
/// their thread has left the CPU.
const fn observes(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::Switch { .. }
            | EventKind::Waking { .. }
            | EventKind::Fork { .. }
            | EventKind::Exit
            | EventKind::Packet(_)
            | EventKind::SocketReady(_)
            | EventKind::BlockIssue(_)
            | EventKind::BlockComplete(_)
            | EventKind::BlockRelease(_)
            | EventKind::Reclaim(_)
            | EventKind::LockBegin(_)
            | EventKind::LockEnd(_)
            | EventKind::Signal(_)
            | EventKind::SignalSent(_)
            | EventKind::Refill(_)
            | EventKind::Sample(_)
            | EventKind::Current
            | EventKind::Migrate { .. }
    )
}

#[cfg(test)]
mod tests;
