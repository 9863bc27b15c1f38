//! From tracepoints to events: what is the same for all tracers.

mod calls;
mod lane;
mod people;
mod states;

use std::net::SocketAddr;

use foldhash::HashMap;
use wakepath_clock::{Local, Stamp};
use wakepath_event::{
    BlockRequest, BlockedState, Comm, Context, Cpu, Direction, Event, EventKind, Flow, FlowId, Mark,
    NameSpace, Packet, SwitchOut, Tid,
};

use crate::DamageKind;
use crate::tracepoint::{Interrupt, PacketHeader, Record, Request, Tracepoint};
use calls::{Calls, call};
use lane::Lane;
use people::{People, Person};
pub use states::ReportedStates;

/// Which of the kernel's two tracepoints of a wake-up counts, for the whole of a trace: both tell the same
/// one, and where both were recorded it would count twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeupBy {
    /// `sched_waking`, in the context of whoever wakes.
    Waking,
    /// `sched_wakeup` or `sched_ttwu`, in older traces. It runs where the sleeper will: for a wake-up from
    /// another CPU that can be in the interrupt that asks for a reschedule there, and the waker is not known
    /// then, only that interrupt.
    Wakeup,
}

/// Makes events of tracepoints, which come in time order.
#[derive(Debug)]
pub struct Normaliser {
    states: ReportedStates,
    wakeup_by: WakeupBy,
    lanes: Vec<Lane>,
    people: People,
    calls: Calls,
    flows: HashMap<Flow, FlowId>,
    interfaces: HashMap<Box<[u8]>, u32>,
    interrupts: HashMap<u16, Box<[u8]>>,
    started: bool,
    /// Whether a wake-up by `sched_wakeup` was told.
    woken: bool,
}

/// Of a CPU's first records, until a switch tells: an id that no thread has.
const NOBODY: Tid = Tid(u32::MAX);

/// The thread that makes kernel threads.
const KTHREADD: Tid = Tid(2);

/// Most names and flows of each kind: a trace of nothing else does not fill memory.
const MAX_NAMES: usize = 1 << 20;

impl Normaliser {
    /// For the tracepoints of a kernel of this release.
    pub fn new(kernel_release: &str, wakeup_by: WakeupBy) -> Self {
        Self::with_states(ReportedStates::of_release(kernel_release), wakeup_by)
    }

    /// For the tracepoints of a kernel whose trace says what thread states mean.
    pub fn with_states(states: ReportedStates, wakeup_by: WakeupBy) -> Self {
        Self {
            states,
            wakeup_by,
            lanes: Vec::new(),
            people: People::default(),
            calls: Calls::default(),
            flows: HashMap::default(),
            interfaces: HashMap::default(),
            interrupts: HashMap::default(),
            started: false,
            woken: false,
        }
    }

    /// What is lacking of wake-ups where `sched_waking` was not seen, once all is told.
    pub fn doubt_of_wakings(&self) -> Option<DamageKind> {
        match (self.wakeup_by, self.woken) {
            (WakeupBy::Waking, _) => None,
            (WakeupBy::Wakeup, true) => Some(DamageKind::LateWakings),
            (WakeupBy::Wakeup, false) => Some(DamageKind::NoWakings),
        }
    }

    /// Exits of interrupts without entries, and the other way round. A few at the beginning are ordinary.
    pub fn unmatched(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.unmatched).sum()
    }

    /// Whether nothing tells yet who is current on a CPU: [`Normaliser::set_current`] may.
    pub fn wants_current(&self, cpu: Cpu) -> bool {
        self.lanes.get(usize::from(cpu.0)).is_none_or(|lane| lane.current.is_none())
    }

    /// A later record tells who is current on a CPU now.
    pub fn set_current(&mut self, cpu: Cpu, tid: Tid) {
        if let Some(lane) = self.lane(cpu) {
            lane.current = Some(tid);
        }
    }

    fn lane(&mut self, cpu: Cpu) -> Option<&mut Lane> {
        if cpu == Cpu::UNKNOWN {
            return None;
        }
        let index = usize::from(cpu.0);
        if index >= self.lanes.len() {
            self.lanes.resize_with(index + 1, Lane::default);
        }
        self.lanes.get_mut(index)
    }

    /// Takes the next record and tells what events it is.
    pub fn push(&mut self, record: &Record<'_>, tell: &mut impl FnMut(&Event)) {
        let (at, cpu) = (record.at, record.cpu);
        if !self.started {
            self.started = true;
            tell(&event(at, Cpu::UNKNOWN, Context::Task, Tid::IDLE, EventKind::Mark(Mark::Started)));
        }
        let Some(lane) = self.lane(cpu) else {
            // What a stream of an unknown CPU holds is of no use, but that something is missing is.
            if let Tracepoint::Lost { from, count } = record.what {
                let what = EventKind::Loss { from, count };
                tell(&event(at, cpu, Context::Task, Tid::IDLE, what));
            }
            return;
        };
        if let Some(current) = record.current {
            lane.current = Some(current);
        }
        let (context, irq) = lane.context();
        let current = lane.current;
        // A CPU of which nobody knows who is current is none that anything is told of.
        let (place, whose) = current.map_or((Cpu::UNKNOWN, NOBODY), |current| (cpu, current));
        let mut here = |what: EventKind| tell(&event(at, place, context, whose, what));
        match &record.what {
            Tracepoint::Switch { prev, prev_state, next, next_comm } => {
                self.switch(record, (*prev, *prev_state), (*next, *next_comm), tell);
            }
            Tracepoint::Waking { target } if self.wakeup_by == WakeupBy::Waking => here(waking(*target, irq)),
            Tracepoint::Wakeup { target } if self.wakeup_by == WakeupBy::Wakeup => {
                here(waking(*target, irq));
                self.woken = true;
            }
            Tracepoint::Waking { .. } | Tracepoint::Wakeup { .. } => {}
            Tracepoint::WakeupNew { target } => {
                here(EventKind::Waking { target: *target, irq, newborn: true, socket: None });
            }
            Tracepoint::Fork { parent, child, child_tgid, child_ns_tid, comm } => {
                let forker = self.people.get(*parent).copied();
                let person = Person {
                    // Where nothing says whether it is a thread or a process, it stands for itself.
                    tgid: child_tgid.unwrap_or(*child),
                    parent: forker.map_or(*parent, |forker| forker.tgid),
                    ns_tid: child_ns_tid.unwrap_or(*child),
                    comm: *comm,
                    kernel: *parent == KTHREADD || forker.is_some_and(|forker| forker.kernel),
                    start: at,
                };
                here(EventKind::Fork { child: person.identity(*child) });
                self.people.insert(*child, person);
            }
            Tracepoint::Exec { tid, old, path } => {
                // The kernel names a program by the last part of its path.
                let comm = Comm::new(path.rsplit(|&byte| byte == b'/').next().unwrap_or(path));
                let tid = tid.unwrap_or(whose);
                let old = old.unwrap_or(tid);
                let what = EventKind::Exec { old, comm, path: (*path).into() };
                tell(&event(at, cpu, context, tid, what));
                self.people.exec(old, tid, comm);
                self.set_current(cpu, tid);
            }
            Tracepoint::Exit { tid } => {
                tell(&event(at, cpu, context, *tid, EventKind::Exit));
                self.set_current(cpu, *tid);
                self.people.remove(*tid);
            }
            Tracepoint::Rename { tid, comm } => {
                here(EventKind::Rename { tid: *tid, comm: *comm });
                self.people.rename(*tid, *comm);
            }
            Tracepoint::Enter(interrupt) => {
                if let Interrupt::Device(irq, Some(name)) = *interrupt {
                    self.name_interrupt(record, irq, name, tell);
                }
                if let Some(lane) = self.lane(cpu) {
                    lane.enter(at, *interrupt);
                }
            }
            Tracepoint::Leave(interrupt) => {
                let own = matches!(interrupt, Interrupt::Softirq(_)) && self.is_softirq_thread(current);
                if let Some(lane) = self.lane(cpu) {
                    lane.leave(at, *interrupt, own);
                }
            }
            Tracepoint::Packet(header) => self.packet(record, header, (place, context, whose), tell),
            Tracepoint::SocketPacket { socket, out, seq, ack, flags } => here(EventKind::Packet(Packet {
                flow: FlowId(*socket),
                direction: direction(*out),
                seq: *seq,
                ack: *ack,
                len: 0,
                tcp_flags: *flags,
                netns: 0,
                interface: 0,
            })),
            Tracepoint::SocketReceived { socket } => here(EventKind::SocketReady(FlowId(*socket))),
            Tracepoint::Received(flow) => {
                let id = self.flow(record, *flow, tell);
                tell(&event(at, place, context, whose, EventKind::SocketReady(id)));
            }
            Tracepoint::BlockIssue(request) => here(EventKind::BlockIssue(block(request))),
            Tracepoint::BlockComplete(request) => here(EventKind::BlockComplete(block(request))),
            Tracepoint::Thread { tid, tgid, parent, ns_tid, comm, kernel, blocked } => {
                // One that was born since tracing began keeps its birth.
                let start = self.people.get(*tid).map_or(Stamp::MIN, |person| person.start);
                let person = Person {
                    tgid: *tgid,
                    parent: *parent,
                    ns_tid: ns_tid.unwrap_or(*tid),
                    comm: *comm,
                    kernel: *kernel,
                    start,
                };
                let identity = person.identity(*tid);
                // How it waits, nobody tells.
                let blocked = blocked.then_some(BlockedState::Other(0));
                here(EventKind::Thread { identity, blocked, call: None });
                self.people.insert(*tid, person);
            }
            Tracepoint::InterruptName { irq, name } => self.name_interrupt(record, *irq, name, tell),
            Tracepoint::BlockDeviceName { device, name } => {
                here(EventKind::Name(NameSpace::BlockDevice, (*device).into(), (*name).into()));
            }
            Tracepoint::Sample(stack) => here(EventKind::Sample(stack.clone())),
            Tracepoint::StackOf(stack) => here(EventKind::StackOf(*stack)),
            Tracepoint::Call { .. } | Tracepoint::CallEnd => {
                let call = match record.what {
                    Tracepoint::Call { number: Some(number), arg0, futex } => Some(call(number, arg0, futex)),
                    _ => None,
                };
                if let Some(lane) = self.lane(cpu) {
                    lane.in_task();
                    lane.call = call;
                }
            }
            Tracepoint::Lost { from, count } => {
                let what = EventKind::Loss { from: *from, count: *count };
                tell(&event(at, cpu, Context::Task, whose, what));
                // It may have been the end of any thread's call.
                self.calls.forget();
                self.lanes.iter_mut().for_each(|lane| lane.call = None);
                if let Some(lane) = self.lane(cpu) {
                    lane.lose();
                }
            }
        }
    }

    fn switch(
        &mut self,
        record: &Record<'_>,
        (prev, prev_state): (Tid, i64),
        (next, next_comm): (Tid, Option<Comm>),
        tell: &mut impl FnMut(&Event),
    ) {
        let out = match self.states.switch_out(prev_state) {
            // The idle thread never waits.
            _ if prev == Tid::IDLE => SwitchOut::Runnable,
            out => out,
        };
        let Some(lane) = self.lane(record.cpu) else { return };
        // Where a switch was lost, the call is another's.
        let is_prevs = out != SwitchOut::Dead && lane.current.is_none_or(|current| current == prev);
        let call = lane.call.take().filter(|_| is_prevs);
        let interrupts_ns = lane.switch(next);
        let of_next = self.calls.switch(prev, call, next);
        if let Some(lane) = self.lane(record.cpu) {
            lane.call = of_next;
        }
        let call = call.filter(|_| matches!(out, SwitchOut::Blocked(_)));
        let what = EventKind::Switch { next, out, interrupts_ns, call };
        tell(&event(record.at, record.cpu, Context::Task, prev, what));
        if out == SwitchOut::Dead {
            self.people.remove(prev);
        }
        if let Some(comm) = next_comm
            && next != Tid::IDLE
        {
            self.meet(record, next, comm, tell);
        }
    }

    /// A record tells the name of a thread that may have another, or be known by nothing else.
    fn meet(&mut self, record: &Record<'_>, tid: Tid, comm: Comm, tell: &mut impl FnMut(&Event)) {
        let news = match self.people.get(tid) {
            Some(person) => person.comm != comm,
            None => true,
        };
        if !news {
            return;
        }
        if !self.people.rename(tid, comm) {
            let person =
                Person { tgid: tid, parent: Tid::IDLE, ns_tid: tid, comm, kernel: false, start: Stamp::MIN };
            self.people.insert(tid, person);
        }
        tell(&event(record.at, record.cpu, Context::Task, tid, EventKind::Rename { tid, comm }));
    }

    fn is_softirq_thread(&self, tid: Option<Tid>) -> bool {
        let person = tid.and_then(|tid| self.people.get(tid));
        person.is_some_and(|person| person.comm.bytes().starts_with(b"ksoftirqd/"))
    }

    fn name_interrupt(&mut self, record: &Record<'_>, irq: u16, name: &[u8], tell: &mut impl FnMut(&Event)) {
        if self.interrupts.get(&irq).is_some_and(|known| **known == *name) || name.is_empty() {
            return;
        }
        self.interrupts.insert(irq, name.into());
        let what = EventKind::Name(NameSpace::Interrupt, irq.into(), name.into());
        tell(&event(record.at, Cpu::UNKNOWN, Context::Task, Tid::IDLE, what));
    }

    /// What a flow is called, which is told when it is first met.
    fn flow(&mut self, record: &Record<'_>, flow: Flow, tell: &mut impl FnMut(&Event)) -> FlowId {
        if let Some(&known) = self.flows.get(&flow) {
            return known;
        }
        let id = FlowId(self.flows.len() as u64 + 1);
        if self.flows.len() < MAX_NAMES {
            self.flows.insert(flow, id);
            tell(&event(record.at, Cpu::UNKNOWN, Context::Task, Tid::IDLE, EventKind::Flow(id, flow)));
        }
        id
    }

    fn packet(
        &mut self,
        record: &Record<'_>,
        header: &PacketHeader<'_>,
        (cpu, context, current): (Cpu, Context, Tid),
        tell: &mut impl FnMut(&Event),
    ) {
        let flow = Flow {
            source: SocketAddr::new(header.source, header.source_port),
            target: SocketAddr::new(header.target, header.target_port),
            protocol: header.protocol,
        };
        let names = |what| event(record.at, Cpu::UNKNOWN, Context::Task, Tid::IDLE, what);
        let id = self.flow(record, flow, tell);
        let interface = match self.interfaces.get(header.interface) {
            Some(&interface) => interface,
            None if self.interfaces.len() < MAX_NAMES => {
                let interface = self.interfaces.len() as u32 + 1;
                self.interfaces.insert(header.interface.into(), interface);
                let name = header.interface.into();
                tell(&names(EventKind::Name(NameSpace::Interface, interface.into(), name)));
                interface
            }
            None => 0,
        };
        let packet = Packet {
            flow: id,
            direction: direction(header.out),
            seq: header.seq,
            ack: header.ack,
            len: header.len,
            tcp_flags: header.tcp_flags,
            netns: 0,
            interface,
        };
        tell(&event(record.at, cpu, context, current, EventKind::Packet(packet)));
    }
}

fn event(at: Stamp<Local>, cpu: Cpu, context: Context, current: Tid, what: EventKind) -> Event {
    Event { at, cpu, context, current, kind: what }
}

const fn waking(target: Tid, irq: u16) -> EventKind {
    EventKind::Waking { target, irq, newborn: false, socket: None }
}

const fn direction(out: bool) -> Direction {
    if out { Direction::Out } else { Direction::In }
}

/// A request is known again by its place: tracepoints do not tell its address.
fn block(request: &Request) -> BlockRequest {
    let id = (request.sector ^ u64::from(request.device) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    BlockRequest {
        id: id.rotate_left(32) ^ u64::from(request.device),
        device: request.device,
        sector: request.sector,
        bytes: request.bytes,
        operation: request.operation,
        start: None,
        issued: None,
    }
}
