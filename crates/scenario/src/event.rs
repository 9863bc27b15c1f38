//! One event, one thread's identity: what tests write by hand.

use wakepath_clock::Stamp;
use wakepath_event::{CgroupId, Comm, Context, Cpu, Event, EventKind, ThreadIdentity, Tid};

/// An event at `ns` on a CPU while a thread is current there, outside of interrupts.
pub fn event(ns: u64, cpu: u16, current: u32, kind: EventKind) -> Event {
    Event { at: Stamp::from_ns(ns), cpu: Cpu(cpu), context: Context::Task, current: Tid(current), kind }
}

/// The only thread of a process, a child of process 1, alive since boot.
pub fn identity(tid: u32, comm: &str) -> ThreadIdentity {
    let tid = Tid(tid);
    ThreadIdentity {
        tid,
        tgid: tid,
        parent: Tid(1),
        ns_tid: tid,
        ns_tgid: tid,
        start: Stamp::MIN,
        cgroup: CgroupId(1),
        cpu_cgroup: CgroupId(1),
        kernel: false,
        comm: Comm::new(comm.as_bytes()),
    }
}
