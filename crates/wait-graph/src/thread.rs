use wakepath_clock::{Reference, Stamp};
use wakepath_event::{CgroupId, Comm, ThreadIdentity, Tid};

use crate::chunks::Chunks;
use crate::state_interval::Packed;
use crate::{Occupant, ThreadIndex};

/// A thread of the graph.
#[derive(Debug)]
pub struct Thread {
    /// Who it is, as it was introduced; `None` when it never was.
    pub identity: Option<ThreadIdentity>,
    /// When it was introduced; events may have shown it before.
    pub introduced: Option<Stamp<Reference>>,
    /// Its tids, each from when on; the first from its beginning. More than one after an exec by a
    /// thread that is not its process's leader.
    pub tids: Vec<(Stamp<Reference>, Tid)>,
    /// Its names, each from when on. May be empty.
    pub names: Vec<(Stamp<Reference>, Comm)>,
    /// Its cgroups, in the v2 hierarchy and in the one with the CPU controller, each from when on.
    pub cgroups: Vec<(Stamp<Reference>, CgroupId, CgroupId)>,
    /// The programs it executed: when, and the path as given.
    pub execs: Vec<(Stamp<Reference>, Box<[u8]>)>,
    /// Its birth, where it was seen, and who forked it.
    pub born: Option<(Stamp<Reference>, Occupant)>,
    /// When it began to exit.
    pub exited: Option<Stamp<Reference>>,
    /// The thread that its process went on as, after an exec by one that is not the leader.
    pub successor: Option<ThreadIndex>,
    /// The first that is known of it.
    pub first: Stamp<Reference>,
    /// The last that is known of it: its death, or the end of the recording.
    pub last: Stamp<Reference>,
    pub(crate) intervals: Chunks<Packed>,
}

impl Thread {
    pub(crate) fn new(tid: Tid, at: Stamp<Reference>) -> Self {
        Self {
            identity: None,
            introduced: None,
            tids: vec![(at, tid)],
            names: Vec::new(),
            cgroups: Vec::new(),
            execs: Vec::new(),
            born: None,
            exited: None,
            successor: None,
            first: at,
            last: at,
            intervals: Chunks::new(),
        }
    }

    /// Its tid, the last one if it had several.
    pub fn tid(&self) -> Tid {
        self.tids.last().map_or(Tid::IDLE, |&(_, tid)| tid)
    }

    /// Its tid at a time.
    pub fn tid_at(&self, at: Stamp<Reference>) -> Tid {
        let index = self.tids.partition_point(|&(from, _)| from <= at).saturating_sub(1);
        self.tids.get(index).map_or(Tid::IDLE, |&(_, tid)| tid)
    }

    /// Its process, where that is known.
    pub fn tgid(&self) -> Option<Tid> {
        self.identity.as_ref().map(|identity| identity.tgid)
    }

    /// Its name at a time: the last one given before, else its first, else none.
    pub fn name_at(&self, at: Stamp<Reference>) -> Comm {
        let index = self.names.partition_point(|&(from, _)| from <= at).saturating_sub(1);
        self.names.get(index).map_or(Comm::default(), |&(_, comm)| comm)
    }

    /// The last name it had.
    pub fn name(&self) -> Comm {
        self.names.last().map_or(Comm::default(), |&(_, comm)| comm)
    }

    /// Whoever gave birth to it, if its birth is the first that is known of it.
    pub fn forker(&self) -> Option<Occupant> {
        self.born.filter(|&(at, _)| at == self.first).map(|(_, forker)| forker)
    }

    /// Whether it had a tid at any time.
    pub fn had_tid(&self, tid: Tid) -> bool {
        self.tids.iter().any(|&(_, had)| had == tid)
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>()
            + size_of_val(&*self.tids)
            + size_of_val(&*self.names)
            + size_of_val(&*self.cgroups)
            + self.execs.iter().map(|exec| size_of_val(exec) + exec.1.len()).sum::<usize>()
    }
}
