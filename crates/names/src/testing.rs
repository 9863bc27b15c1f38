//! Recordings for tests, from events.

use wakepath_clock::Stamp;
use wakepath_event::{
    BlockedState, CgroupId, Comm, Context, Cpu, Event, EventKind, Mapping, ThreadIdentity, Tid,
};

use crate::{Host, Recorded};

/// A recording of these events, all on CPU 0 while it is idle; by stamp.
pub fn recorded(events: &[(u64, EventKind)]) -> Recorded {
    let events: Vec<_> = events.iter().map(|(at, what)| event(*at, 0, 0, what.clone())).collect();
    read(&events)
}

/// An event on a CPU while a thread is current.
pub fn event(at: u64, cpu: u16, current: u32, what: EventKind) -> Event {
    Event { at: Stamp::from_ns(at), cpu: Cpu(cpu), context: Context::Task, current: Tid(current), kind: what }
}

/// A recording of these events.
pub fn read(events: &[Event]) -> Recorded {
    Recorded::of_events("./wakepath.rec".into(), Host::default(), events)
}

/// At 60 it becomes known that process 7 has the first page of this file mapped at `from`.
pub fn mapping(from: u64, path: &str) -> Event {
    let mapping = Mapping {
        tgid: Tid(7),
        from,
        to: from + 0x1000,
        offset: 0,
        build_id: Box::default(),
        path: path.as_bytes().into(),
    };
    event(60, 0, 7, EventKind::Mapping(mapping))
}

/// A thread that sleeps when the recording begins.
pub fn thread(tid: u32, tgid: u32, parent: u32, comm: &str) -> EventKind {
    let identity = ThreadIdentity {
        tid: Tid(tid),
        tgid: Tid(tgid),
        parent: Tid(parent),
        ns_tid: Tid(tid),
        ns_tgid: Tid(tgid),
        start: Stamp::MIN,
        cgroup: CgroupId(0),
        cpu_cgroup: CgroupId(0),
        kernel: parent == 2,
        comm: Comm::new(comm.as_bytes()),
    };
    EventKind::Thread { identity, blocked: Some(BlockedState::Interruptible), call: None }
}
