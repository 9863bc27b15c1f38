use foldhash::HashMap;
use wakepath_clock::{Local, Stamp};
use wakepath_event::{CgroupId, Comm, ThreadIdentity, Tid};

/// What is known of the threads that are alive.
#[derive(Debug, Default)]
pub(super) struct People {
    threads: HashMap<Tid, Person>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Person {
    pub tgid: Tid,
    pub parent: Tid,
    pub ns_tid: Tid,
    pub comm: Comm,
    pub kernel: bool,
    /// 0 for those that were there before the trace.
    pub start: Stamp<Local>,
}

impl People {
    pub fn get(&self, tid: Tid) -> Option<&Person> {
        self.threads.get(&tid)
    }

    pub fn insert(&mut self, tid: Tid, person: Person) {
        self.threads.insert(tid, person);
    }

    pub fn remove(&mut self, tid: Tid) {
        self.threads.remove(&tid);
    }

    /// Notes a name; whether it is another than before, of a thread that is known.
    pub fn rename(&mut self, tid: Tid, comm: Comm) -> bool {
        match self.threads.get_mut(&tid) {
            Some(person) if person.comm != comm => {
                person.comm = comm;
                true
            }
            _ => false,
        }
    }

    /// A thread goes on as the leader of its process.
    pub fn exec(&mut self, old: Tid, tid: Tid, comm: Comm) {
        if let Some(mut person) = self.threads.remove(&old) {
            person.comm = comm;
            self.threads.insert(tid, person);
        }
    }
}

impl Person {
    pub fn identity(&self, tid: Tid) -> ThreadIdentity {
        ThreadIdentity {
            tid,
            tgid: self.tgid,
            parent: self.parent,
            ns_tid: self.ns_tid,
            // Nothing tells the leader's number there, but for the leader.
            ns_tgid: if tid == self.tgid { self.ns_tid } else { self.tgid },
            start: self.start,
            cgroup: CgroupId::default(),
            cpu_cgroup: CgroupId::default(),
            kernel: self.kernel,
            comm: self.comm,
        }
    }
}
