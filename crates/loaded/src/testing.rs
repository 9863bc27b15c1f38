//! Recordings for tests, from events.

use wakepath_clock::Stamp;
use wakepath_event::{
    BlockedState, Call, CgroupId, Comm, Context, Cpu, Event, EventKind, FileName, Flow, FlowId, Mapping,
    ThreadIdentity, Tid,
};

use crate::{Host, Recorded};

/// An event on a CPU while a thread is current.
pub fn event(at: u64, cpu: u16, current: u32, what: EventKind) -> Event {
    Event { at: Stamp::from_ns(at), cpu: Cpu(cpu), context: Context::Task, current: Tid(current), kind: what }
}

/// A recording with these events.
pub fn read(events: &[Event]) -> Recorded {
    Recorded::from_events("./wakepath.rec".into(), Host::default(), events)
}

/// At 60 it becomes known that process 7 has this file's first page mapped at `from`.
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

/// A recording from a trace as text, with more events.
#[cfg(test)]
pub(crate) fn trace(text: &str, more: &[Event]) -> Recorded {
    let mut events = wakepath_scenario::text::parse(text).expect("a trace").events;
    events.extend_from_slice(more);
    events.sort_by_key(|event| event.at);
    read(&events)
}

/// A process's descriptor, as `fstat` describes it.
pub fn file(tgid: u32, fd: u32, mode: u32, flow: Option<u64>, name: &str) -> EventKind {
    let (flow, name) = (flow.map(FlowId), name.as_bytes().into());
    EventKind::File(FileName { tgid: Tid(tgid), fd, mode, inode: 1, flow, name })
}

/// A TCP flow between these addresses.
pub fn flow(id: u64, source: &str, target: &str) -> EventKind {
    let [source, target] = [source, target].map(|address| address.parse().expect("an address"));
    EventKind::Flow(FlowId(id), Flow { source, target, protocol: 6 })
}

/// A system call.
pub const fn call(number: u32, arg0: u64) -> Call {
    Call { number, arg0, lock: None }
}

/// A thread asleep when the recording begins.
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
