//! The threads that are alive: name, process, parent.

use foldhash::HashMap;
use wakepath_clock::{Local, Stamp};
use wakepath_event::{CgroupId, Comm, ThreadIdentity, Tid};

/// The threads that are alive, as far as the trace names them.
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
    /// 0 for threads that existed before the trace.
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

    /// Notes a name, and returns whether it is a new one of a known thread.
    pub fn rename(&mut self, tid: Tid, comm: Comm) -> bool {
        match self.threads.get_mut(&tid) {
            Some(thread) if thread.comm != comm => {
                thread.comm = comm;
                true
            }
            _ => false,
        }
    }

    /// Notes that a thread goes on as the leader of its process.
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
            // The leader's number there is known for the leader alone.
            ns_tgid: if tid == self.tgid { self.ns_tid } else { self.tgid },
            start: self.start,
            cgroup: CgroupId::default(),
            cpu_cgroup: CgroupId::default(),
            kernel: self.kernel,
            comm: self.comm,
        }
    }
}
