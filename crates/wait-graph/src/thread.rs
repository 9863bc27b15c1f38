//! A thread in the graph: its identity, names, tids and cgroups over time.

use wakepath_clock::{Reference, Stamp};
use wakepath_event::{CgroupId, Comm, Signal, ThreadIdentity, Tid};

use crate::chunks::Chunks;
use crate::state_interval::Packed;
use crate::{Occupant, ThreadIndex};

/// A thread in the graph.
#[derive(Debug, Default)]
pub struct Thread {
    /// The identity recorded by a snapshot or a fork; `None` without either.
    pub identity: Option<ThreadIdentity>,
    /// The identity record's time; other events may have shown the thread before.
    pub introduced: Option<Stamp<Reference>>,
    /// The tids, each with the time from which it was valid. Several after an exec by a thread other than its
    /// process's leader.
    pub tids: Vec<(Stamp<Reference>, Tid)>,
    /// The names, each with the time from which it was valid. May be empty.
    pub names: Vec<(Stamp<Reference>, Comm)>,
    /// The cgroups in the v2 hierarchy and in the hierarchy with the CPU controller, each with the time from
    /// which it was valid.
    pub cgroups: Vec<(Stamp<Reference>, CgroupId, CgroupId)>,
    /// The executed programs: times, and paths as given.
    pub execs: Vec<(Stamp<Reference>, Box<[u8]>)>,
    /// The fork's time, if recorded, and the forking thread.
    pub born: Option<(Stamp<Reference>, Occupant)>,
    /// The time at which the thread began to exit.
    pub exited: Option<Stamp<Reference>>,
    /// The signals that stopped or ended the thread, each with the time at which the thread took it.
    pub signals: Vec<(Stamp<Reference>, Signal)>,
    /// The thread that took over the process by an exec without being the leader.
    pub successor: Option<ThreadIndex>,
    /// The first known time.
    pub first: Stamp<Reference>,
    /// The last known time: the death, or the end of the host's recording.
    pub last: Stamp<Reference>,
    pub(crate) intervals: Chunks<Packed>,
}

impl Thread {
    pub(crate) fn new(tid: Tid, at: Stamp<Reference>) -> Self {
        Self { tids: vec![(at, tid)], first: at, last: at, ..Self::default() }
    }

    /// The last tid.
    pub fn tid(&self) -> Tid {
        self.tids.last().map_or(Tid::IDLE, |&(_, tid)| tid)
    }

    /// The tid at `at`.
    pub fn tid_at(&self, at: Stamp<Reference>) -> Tid {
        let index = self.tids.partition_point(|&(from, _)| from <= at).saturating_sub(1);
        self.tids.get(index).map_or(Tid::IDLE, |&(_, tid)| tid)
    }

    /// The process, if known.
    pub fn tgid(&self) -> Option<Tid> {
        self.identity.as_ref().map(|identity| identity.tgid)
    }

    /// The name at `at`: the last name set before, else the first, else an empty name.
    pub fn name_at(&self, at: Stamp<Reference>) -> Comm {
        let index = self.names.partition_point(|&(from, _)| from <= at).saturating_sub(1);
        self.names.get(index).map_or(Comm::default(), |&(_, comm)| comm)
    }

    /// The stretches from `from` until `to` with a single name each, in order: the name, and the stretch. None is empty.
    pub fn names_within(
        &self,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
    ) -> impl Iterator<Item = (Comm, Stamp<Reference>, Stamp<Reference>)> {
        let mut from = from;
        std::iter::from_fn(move || {
            let next = self.names.partition_point(|&(at, _)| at <= from);
            // A thread has its first name from the start.
            let change = self.names.get(next).filter(|_| next > 0).map_or(to, |&(at, _)| at.min(to));
            let stretch = (self.name_at(from), from, change);
            (from < to).then(|| {
                from = change;
                stretch
            })
        })
    }

    /// The last name.
    pub fn name(&self) -> Comm {
        self.names.last().map_or(Comm::default(), |&(_, comm)| comm)
    }

    /// The cgroups in the hierarchy with the CPU controller from `from` until `to`, in order: first the cgroup at `from`.
    pub fn cpu_cgroups_within(
        &self,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
    ) -> impl DoubleEndedIterator<Item = CgroupId> {
        let until = |at| self.cgroups.partition_point(|&(since, ..)| since <= at);
        let within = until(from).saturating_sub(1)..until(to);
        self.cgroups.get(within).unwrap_or_default().iter().map(|&(.., cpu_cgroup)| cpu_cgroup)
    }

    /// The forking thread, if the fork is the first known time.
    pub fn forker(&self) -> Option<Occupant> {
        self.born.filter(|&(at, _)| at == self.first).map(|(_, forker)| forker)
    }

    /// Whether the thread ever had `tid`.
    pub fn had_tid(&self, tid: Tid) -> bool {
        self.tids.iter().any(|&(_, had)| had == tid)
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.intervals.bytes()
            + size_of_val(&*self.tids)
            + size_of_val(&*self.names)
            + size_of_val(&*self.cgroups)
            + size_of_val(&*self.signals)
            + self.execs.iter().map(|exec| size_of_val(exec) + exec.1.len()).sum::<usize>()
    }
}
