//! The living threads: name, process, parent.

use foldhash::HashMap;
use wakepath_clock::{Local, Stamp};
use wakepath_event::{CgroupId, Comm, ThreadIdentity, Tid};

/// The living threads, as far as the trace names them.
#[derive(Debug, Default)]
pub(super) struct LiveThreads {
    threads: HashMap<Tid, LiveThread>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct LiveThread {
    pub tgid: Tid,
    pub parent: Tid,
    pub ns_tid: Tid,
    pub comm: Comm,
    pub kernel: bool,
    /// 0 for threads older than the trace.
    pub start: Stamp<Local>,
}

impl LiveThreads {
    pub fn get(&self, tid: Tid) -> Option<&LiveThread> {
        self.threads.get(&tid)
    }

    pub fn insert(&mut self, tid: Tid, thread: LiveThread) {
        self.threads.insert(tid, thread);
    }

    pub fn remove(&mut self, tid: Tid) {
        self.threads.remove(&tid);
    }

    /// Notes a name, and returns whether the thread is known.
    pub fn rename(&mut self, tid: Tid, comm: Comm) -> bool {
        self.threads.get_mut(&tid).map(|thread| thread.comm = comm).is_some()
    }

    /// Notes that a thread continues as its process's leader.
    pub fn exec(&mut self, old: Tid, tid: Tid, comm: Comm) {
        if let Some(mut thread) = self.threads.remove(&old) {
            thread.comm = comm;
            self.threads.insert(tid, thread);
        }
    }
}

impl LiveThread {
    pub fn identity(&self, tid: Tid) -> ThreadIdentity {
        ThreadIdentity {
            tid,
            tgid: self.tgid,
            parent: self.parent,
            ns_tid: self.ns_tid,
            // The process's number in the namespace is known for the leader only.
            ns_tgid: if tid == self.tgid { self.ns_tid } else { self.tgid },
            start: self.start,
            cgroup: CgroupId::default(),
            cpu_cgroup: CgroupId::default(),
            kernel: self.kernel,
            comm: self.comm,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_leader_in_its_namespace_is_that_of_its_process_there() {
        let thread = LiveThread {
            tgid: Tid(7),
            parent: Tid(1),
            ns_tid: Tid(5),
            comm: Comm::default(),
            kernel: false,
            start: Stamp::MIN,
        };
        let numbers = |tid| {
            let identity = thread.identity(Tid(tid));
            (identity.ns_tid, identity.ns_tgid)
        };
        assert_eq!(numbers(7), (Tid(5), Tid(5)));
        assert_eq!(numbers(8), (Tid(5), Tid(7)), "another thread does not know it");
    }
}
