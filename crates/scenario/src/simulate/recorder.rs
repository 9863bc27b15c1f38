//! Writes a simulated machine's events.

use std::net::{Ipv4Addr, SocketAddr};

use wakepath_clock::Stamp;
use wakepath_event::{
    BlockRequest, Context, Cpu, Direction, Event, EventKind, Flow, FlowId, Mark, Packet, SwitchOut,
    ThreadIdentity, Tid,
};

use super::tid;

/// Writes the events that a recorder would see.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    pub(crate) events: Vec<Event>,
    packets: u32,
}

impl Recorder {
    pub(crate) fn write(&mut self, ns: u64, cpu: usize, context: Context, current: Tid, what: EventKind) {
        let at = Stamp::from_ns(ns);
        self.events.push(Event { at, cpu: Cpu(cpu as u16), context, current, kind: what });
    }

    pub(crate) fn beside(&mut self, ns: u64, what: EventKind) {
        let at = Stamp::from_ns(ns);
        let (cpu, context, current) = (Cpu::UNKNOWN, Context::Task, Tid::IDLE);
        self.events.push(Event { at, cpu, context, current, kind: what });
    }

    pub(crate) fn begin(&mut self, alive: impl Iterator<Item = usize>, sockets: usize) {
        self.beside(0, EventKind::Mark(Mark::Started));
        for thread in alive {
            let identity = identity(thread, 0);
            self.beside(0, EventKind::Thread { identity, blocked: None, call: None });
        }
        for socket in 0..sockets {
            let port = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            let flow = Flow { source: port(40_000 + socket as u16), target: port(80), protocol: 17 };
            self.beside(0, EventKind::Flow(flow_id(socket), flow));
        }
    }

    pub(crate) fn switch(
        &mut self,
        ns: u64,
        cpu: usize,
        (prev, next): (Tid, Tid),
        out: SwitchOut,
        interrupts_ns: u32,
    ) {
        let what = EventKind::Switch { next, out, interrupts_ns, call: None };
        self.write(ns, cpu, Context::Task, prev, what);
    }

    pub(crate) fn fork(&mut self, ns: u64, cpu: usize, parent: Tid, child: usize) {
        self.write(ns, cpu, Context::Task, parent, EventKind::Fork { child: identity(child, ns) });
    }

    /// A packet's header: `id` distinguishes it from all others.
    pub(crate) fn packet(
        &mut self,
        ns: u64,
        cpu: usize,
        context: Context,
        current: Tid,
        direction: Direction,
        (socket, id): (usize, u32),
    ) {
        let packet = Packet { len: 32, ..crate::packet(flow_id(socket), direction, id) };
        self.write(ns, cpu, context, current, EventKind::Packet(packet));
    }

    pub(crate) fn next_packet(&mut self) -> u32 {
        self.packets += 1;
        self.packets
    }

    pub(crate) fn ready(&mut self, ns: u64, cpu: usize, context: Context, current: Tid, socket: usize) {
        self.write(ns, cpu, context, current, EventKind::SocketReady(flow_id(socket)));
    }
}

fn flow_id(socket: usize) -> FlowId {
    FlowId(socket as u64 + 1)
}

pub(crate) fn request(thread: usize, start: u64) -> BlockRequest {
    let start = Some(Stamp::from_ns(start));
    let id = thread as u64;
    BlockRequest { sector: id, start, issued: start, ..crate::request(id) }
}

fn identity(thread: usize, start: u64) -> ThreadIdentity {
    ThreadIdentity { start: Stamp::from_ns(start), ..crate::identity(tid(thread).0, &format!("t{thread}")) }
}
