//! An event, a thread's identity, a packet and a disk request, as tests write them by hand.

use wakepath_clock::Stamp;
use wakepath_event::{
    BlockRequest, CgroupId, Comm, Context, Cpu, Direction, Event, EventKind, FlowId, Packet, ThreadIdentity,
    Tid,
};

/// An event at `ns` on a CPU while a thread is current there, outside interrupts.
pub fn event(ns: u64, cpu: u16, current: u32, kind: EventKind) -> Event {
    Event { at: Stamp::from_ns(ns), cpu: Cpu(cpu), context: Context::Task, current: Tid(current), kind }
}

/// The only thread in a process, a child of process 1, alive since boot.
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

/// An empty packet without flags.
pub fn packet(flow: FlowId, direction: Direction, seq: u32) -> Packet {
    Packet { flow, direction, seq, ack: 0, len: 0, tcp_flags: 0, netns: 1, interface: 1 }
}

/// A request to the first SCSI disk, without stamps.
pub fn request(id: u64) -> BlockRequest {
    BlockRequest { id, device: 8 << 20, sector: 0, bytes: 4096, operation: 1, start: None, issued: None }
}
