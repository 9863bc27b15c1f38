//! The last state of each thread and CPU, from the records that are no longer kept.
//!
//! The rules are those of the timeline (`crates/timeline/src/waits.rs`), without its results: a thread's state is that
//! of the last record that proves it, and unknown where records contradict each other.

use std::collections::HashMap;

use wakepath_event::{
    BlockedState, Call, CgroupId, Cpu, EventKind, KernelLock, SwitchOut, ThreadContext, ThreadIdentity, Tid,
};

/// The most threads that are remembered, living and dying.
const MAX_THREADS: usize = 1 << 18;
/// The most cgroups whose limits are remembered.
const MAX_REFILLS: usize = 1 << 12;

/// The threads and the CPUs.
#[derive(Debug, Default)]
pub(super) struct Threads {
    rows: HashMap<Tid, Row>,
    /// The thread of each CPU; `None` where it is not known.
    cpus: Vec<Option<Tid>>,
    /// When the CPU limit of each cgroup last handed out time, ns.
    refills: HashMap<CgroupId, u64>,
}

/// A thread.
#[derive(Debug, Clone, Default)]
pub(super) struct Row {
    /// Its identity; `None` where no record has it.
    pub identity: Option<ThreadIdentity>,
    /// Its state.
    pub state: State,
    /// The kernel lock that it waits for.
    pub lock: Option<KernelLock>,
    /// The context that it has, as far as it was read.
    pub context: Option<ThreadContext>,
    /// A wake-up came while it ran: it ends the wait that begins next.
    pending: bool,
    exiting: bool,
}

/// The state of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum State {
    /// No record proves one.
    #[default]
    Unknown,
    /// It runs, or waits for a CPU.
    Ready,
    /// It was taken off this CPU, and waits for one.
    Preempted(Cpu),
    /// A limit took it off this CPU, at this stamp.
    Throttled(Cpu, u64),
    /// It waits to be woken.
    Blocked(BlockedState, Option<Call>),
}

impl Threads {
    /// Takes an event, in the order of time.
    pub fn take(&mut self, at: u64, cpu: Cpu, current: Tid, kind: &EventKind) {
        if observes(kind) {
            self.observe(cpu, current);
        }
        match kind {
            EventKind::Switch { next, out, call, .. } => self.switch(at, cpu, current, *next, (*out, *call)),
            EventKind::Waking { target, newborn, .. } => self.wake(*target, *newborn),
            EventKind::Thread { identity, blocked, call } => {
                let state = blocked.map_or(State::Ready, |how| State::Blocked(how, *call));
                self.introduce(identity, Some(state));
            }
            EventKind::Fork { child } => self.introduce(child, None),
            EventKind::Blocked(call) => {
                if let Some(State::Blocked(_, known)) = self.rows.get_mut(&current).map(|row| &mut row.state)
                {
                    *known = Some(*call);
                }
            }
            EventKind::Exec { old, comm, .. } => {
                self.take_leaders_tid(*old, current);
                if let Some(identity) = self.identity(current) {
                    identity.comm = *comm;
                }
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
            EventKind::LockBegin(lock) => self.set_lock(current, Some(*lock)),
            EventKind::LockEnd(_) => self.set_lock(current, None),
            EventKind::ThreadContext(context) => {
                if let Some(row) = self.rows.get_mut(&current) {
                    row.context = Some(*context);
                }
            }
            EventKind::Refill(cgroup) => {
                if self.refills.len() >= MAX_REFILLS {
                    self.refills.clear();
                }
                self.refills.insert(*cgroup, at);
            }
            EventKind::Loss { .. } => self.lose(cpu),
            _ => {}
        }
    }

    /// Notes that records of this CPU were lost: its thread may have gone, and any other come.
    pub fn lose(&mut self, cpu: Cpu) {
        if let Some(Some(tid)) = self.cpus.get_mut(usize::from(cpu.0)).map(Option::take) {
            self.doubt(tid);
        }
    }

    /// The living threads, by tid, with the states that they have.
    pub fn rows(&self) -> Vec<(Tid, Row)> {
        let mut rows: Vec<_> = self.rows.iter().map(|(tid, row)| (*tid, self.settled(row))).collect();
        rows.sort_unstable_by_key(|(tid, _)| *tid);
        rows
    }

    /// The thread of each CPU that has one, idle ones included.
    pub fn occupants(&self) -> impl Iterator<Item = (Cpu, Tid)> {
        (0..).map(Cpu).zip(&self.cpus).filter_map(|(cpu, tid)| Some((cpu, (*tid)?)))
    }

    /// The memory that it takes, bytes.
    pub fn bytes(&self) -> usize {
        let row = size_of::<(Tid, Row)>() + 1;
        self.rows.capacity() * row * 8 / 7 + self.refills.capacity() * 24 + self.cpus.capacity() * 8
    }

    /// Whether any thread of this process is known.
    pub fn lives(&self, tgid: Tid) -> bool {
        self.rows.contains_key(&tgid)
    }

    /// A thread's row with what its other fields say of its state.
    fn settled(&self, row: &Row) -> Row {
        let mut row = row.clone();
        row.state = match row.state {
            // The wake-up before it ended this wait, unless a later one does: then the wait went on a little.
            State::Blocked(..) if row.pending => State::Ready,
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
            // Deaths without records: a thread that is still there shows itself again.
            self.rows.retain(|_, row| !row.exiting && row.state != State::Unknown);
            if self.rows.len() >= MAX_THREADS {
                self.rows.clear();
            }
        }
        self.rows.entry(tid).or_default()
    }

    fn doubt(&mut self, tid: Tid) {
        if let Some(row) = self.rows.get_mut(&tid) {
            (row.state, row.pending, row.lock) = (State::Unknown, false, None);
        }
    }

    /// Notes the thread that a record shows on its CPU.
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
        self.cpus[index] = Some(tid);
        self.run(tid);
    }

    fn run(&mut self, tid: Tid) {
        if tid != Tid::IDLE {
            let row = self.row(tid);
            (row.state, row.pending) = (State::Ready, false);
        }
    }

    fn switch(&mut self, at: u64, cpu: Cpu, prev: Tid, next: Tid, (out, call): (SwitchOut, Option<Call>)) {
        if next == prev || cpu == Cpu::UNKNOWN {
            return;
        }
        if prev != Tid::IDLE {
            match out {
                SwitchOut::Dead => _ = self.rows.remove(&prev),
                SwitchOut::Runnable => self.row(prev).state = State::Preempted(cpu),
                SwitchOut::Throttled => self.row(prev).state = State::Throttled(cpu, at),
                SwitchOut::Blocked(how) => self.row(prev).state = State::Blocked(how, call),
            }
        }
        // It cannot run in two places: the record of its leaving the other one is missing.
        let elsewhere = self.cpus.iter_mut().find(|tid| **tid == Some(next) && next != Tid::IDLE);
        elsewhere.into_iter().for_each(|tid| *tid = None);
        self.cpus[usize::from(cpu.0)] = Some(next);
        self.run(next);
    }

    fn wake(&mut self, target: Tid, newborn: bool) {
        if target == Tid::IDLE {
            return;
        }
        let row = self.row(target);
        match row.state {
            _ if newborn => row.state = State::Ready,
            State::Blocked(..) | State::Unknown => row.state = State::Ready,
            // One that does not run yet runs before it waits, and that takes this back.
            State::Ready => row.pending = true,
            State::Preempted(_) | State::Throttled(..) => {}
        }
    }

    /// Reads an identity from a snapshot (`state`) or a birth.
    fn introduce(&mut self, identity: &ThreadIdentity, state: Option<State>) {
        let row = self.row(identity.tid);
        let is_same = match &row.identity {
            Some(known) => known.start == identity.start,
            None => state.is_some(),
        };
        if !is_same {
            *row = Row::default();
        }
        if !is_same || row.state == State::Unknown {
            row.state = state.unwrap_or(State::Ready);
        }
        row.identity = Some(identity.clone());
    }

    fn set_lock(&mut self, tid: Tid, lock: Option<KernelLock>) {
        if let Some(row) = self.rows.get_mut(&tid) {
            row.lock = lock;
        }
    }

    /// Gives a thread that executes a program the tid of its process's leader; false if that does not fit.
    fn take_leaders_tid(&mut self, old: Tid, leader: Tid) -> bool {
        let is_of = |row: &Row| row.identity.as_ref().is_some_and(|identity| identity.tgid == leader);
        let fits = old != leader && self.rows.get(&old).is_some_and(|row| is_of(row) && !row.exiting);
        if !fits || self.rows.get(&leader).is_some_and(|row| !row.exiting) {
            return false;
        }
        let before = self.rows.remove(&leader);
        if let Some(mut row) = self.rows.remove(&old) {
            if let Some(identity) = &mut row.identity {
                identity.tid = leader;
                identity.ns_tid = identity.ns_tgid;
            }
            self.rows.insert(leader, row);
        }
        // The old leader has the other tid while it exits.
        if let Some(before) = before {
            self.rows.insert(old, before);
        }
        true
    }
}

/// Whether an event's current thread is the one that has the event's CPU.
fn observes(kind: &EventKind) -> bool {
    !matches!(
        kind,
        EventKind::Thread { .. }
            | EventKind::Blocked(_)
            | EventKind::Exec { .. }
            | EventKind::Loss { .. }
            | EventKind::Goroutine(_)
            | EventKind::Function(_)
            | EventKind::Stack(_)
            | EventKind::StackLater(..)
    )
}
