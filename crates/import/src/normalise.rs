//! Conversion from tracepoints to events: the part for all tracers.

mod calls;
mod coverage;
mod cpu_state;
mod evidence;
mod live_threads;
mod states;

use std::net::SocketAddr;
use std::path::Path;

use foldhash::HashMap;
use wakepath_clock::{Local, Stamp};
use wakepath_event::{
    BlockRequest, BlockedState, Comm, Context, Cpu, Damage, DamageKind, Direction, Event, EventKind, Flow,
    FlowId, LostRecords, Mark, NameSpace, Packet, SwitchOut, Tid,
};

use crate::kind::{Kind, Source};
use crate::tracepoint::{Interrupt, Level, PacketHeader, Record, Request, Tracepoint};
use calls::{Calls, call};
use coverage::Coverage;
use cpu_state::{CpuState, SeenEnds};
pub use evidence::StateEvidence;
use live_threads::{LiveThread, LiveThreads};
pub use states::ReportedStates;

/// The kernel's wake-up tracepoint that counts in a trace. A wake-up hits both tracepoints, and would count twice if
/// both were recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeupBy {
    /// `sched_waking`, in the waker's context.
    Waking,
    /// `sched_wakeup` or `sched_ttwu`, in older traces. The sleeper's CPU hits it. A wake-up from another CPU can hit
    /// it in the reschedule interrupt there: then this interrupt is known, and the waker is not.
    Wakeup,
}

/// The requested events whose absence changes the reading of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecordedEvents {
    /// Device interrupts.
    pub devices: bool,
    /// Softirqs.
    pub softirqs: bool,
    /// Local timer interrupts, or each timer that expires in them.
    pub timers: bool,
    /// Each new thread's first wake-up.
    pub first_wakeups: bool,
}

impl RecordedEvents {
    /// The events among a tracer's requested tracepoints.
    pub(crate) fn among(asked: impl IntoIterator<Item = Kind>) -> Self {
        let mut recorded = Self::default();
        for kind in asked {
            match kind {
                Kind::WakeupNew => recorded.first_wakeups = true,
                Kind::Enter(Source::Device) => recorded.devices = true,
                Kind::Enter(Source::Softirq) => recorded.softirqs = true,
                Kind::Enter(Source::Hrtimer | Source::Vector(Context::LocalTimer)) => recorded.timers = true,
                _ => {}
            }
        }
        recorded
    }
}

/// Converts tracepoints, in time order, into events.
#[derive(Debug)]
pub struct Normaliser {
    states: ReportedStates,
    wakeup_by: WakeupBy,
    recorded: RecordedEvents,
    cpus: Vec<CpuState>,
    seen_ends: SeenEnds,
    threads: LiveThreads,
    calls: Calls,
    flows: HashMap<Flow, FlowId>,
    interfaces: HashMap<Box<[u8]>, u32>,
    interrupts: HashMap<u16, Box<[u8]>>,
    started: bool,
    /// A wake-up by `sched_wakeup` was emitted.
    woken: bool,
    coverage: Coverage,
}

/// The current thread's id in a CPU's first records, until a switch names it: no thread has this id.
const UNKNOWN_TID: Tid = Tid(u32::MAX);

/// The parent of kernel threads.
pub(crate) const KTHREADD: Tid = Tid(2);

/// The limit on names and on flows, each: a trace full of them does not fill memory.
const MAX_NAMES: usize = if cfg!(test) { 4 } else { 1 << 20 };

impl Normaliser {
    /// A converter for tracepoints from a kernel with this release.
    pub fn new(kernel_release: &str, wakeup_by: WakeupBy) -> Self {
        Self::with_states(ReportedStates::for_release(kernel_release), wakeup_by)
    }

    /// A converter for tracepoints from a trace with its own definition of thread states.
    pub fn with_states(states: ReportedStates, wakeup_by: WakeupBy) -> Self {
        Self {
            states,
            wakeup_by,
            recorded: RecordedEvents { devices: true, softirqs: true, timers: true, first_wakeups: true },
            cpus: Vec::new(),
            seen_ends: SeenEnds::default(),
            threads: LiveThreads::default(),
            calls: Calls::default(),
            flows: HashMap::default(),
            interfaces: HashMap::default(),
            interrupts: HashMap::default(),
            started: false,
            woken: false,
            coverage: Coverage::default(),
        }
    }

    /// The same, for a tracer with a request for these events only.
    pub fn with_events(self, recorded: RecordedEvents) -> Self {
        Self { recorded, ..self }
    }

    /// The same, for a trace with streams for these CPUs only: a thread woken to another CPU proves a CPU missing.
    pub fn with_cpus(mut self, cpus: impl IntoIterator<Item = Cpu>) -> Self {
        self.coverage = Coverage::new(cpus);
        self
    }

    /// Whether a tracepoint of this kind counts as a wake-up.
    #[inline]
    pub(crate) const fn is_wakeup(&self, kind: Kind) -> bool {
        match self.wakeup_by {
            WakeupBy::Waking => matches!(kind, Kind::Waking),
            WakeupBy::Wakeup => matches!(kind, Kind::Wakeup),
        }
    }

    /// Notes the CPU to which a wake-up sends its thread.
    #[inline]
    pub fn targets(&mut self, at: Stamp<Local>, cpu: Cpu, emit: &mut impl FnMut(&Event)) {
        if !self.coverage.has(cpu) {
            self.target_unrecorded(at, cpu, emit);
        }
    }

    #[cold]
    fn target_unrecorded(&mut self, at: Stamp<Local>, cpu: Cpu, emit: &mut impl FnMut(&Event)) {
        if self.coverage.target(cpu) {
            self.not_recorded(at, cpu, emit);
        }
    }

    /// Emits a CPU's lack of records from here on, up to the next loss.
    pub fn not_recorded(&mut self, at: Stamp<Local>, cpu: Cpu, emit: &mut impl FnMut(&Event)) {
        self.start(at, emit);
        emit(&event(at, cpu, Context::Task, Tid::IDLE, EventKind::Unrecorded));
    }

    /// Emits the losses of CPUs without a stream, from the trace's begin to its end.
    pub fn finish(&mut self, (from, to): (Stamp<Local>, Stamp<Local>), emit: &mut impl FnMut(&Event)) {
        for &cpu in self.coverage.missing() {
            let what = EventKind::Loss { from, count: 0, records: LostRecords::Any };
            emit(&event(to, Cpu::numbered(cpu), Context::Task, Tid::IDLE, what));
        }
    }

    fn start(&mut self, at: Stamp<Local>, emit: &mut impl FnMut(&Event)) {
        if !self.started {
            self.started = true;
            emit(&event(at, Cpu::UNKNOWN, Context::Task, Tid::IDLE, EventKind::Mark(Mark::Started)));
        }
    }

    /// The doubts about a trace at `path` with `cpus` CPUs, after all its events.
    pub fn doubts(&self, path: &Path, cpus: usize) -> impl Iterator<Item = Damage> {
        let wakings = match (self.wakeup_by, self.woken) {
            (WakeupBy::Waking, _) => None,
            (WakeupBy::Wakeup, true) => Some(DamageKind::LateWakings),
            (WakeupBy::Wakeup, false) => Some(DamageKind::NoWakings),
        };
        let unmatched: u64 = self.cpus.iter().map(CpuState::unmatched).sum();
        // A CPU may be in an interrupt of each kind when recording begins.
        let interrupts = (unmatched > 8 * cpus as u64).then_some(DamageKind::UnmatchedInterrupts(unmatched));
        let cpus = self.coverage.missing();
        let missing = (!cpus.is_empty()).then(|| DamageKind::CpusUnrecorded {
            cpus: cpus.iter().copied().collect(),
            wakings: self.coverage.wakings,
        });
        missing.into_iter().chain(wakings).chain(interrupts).map(|kind| Damage::in_file(path, kind))
    }

    /// Whether a CPU's current thread is still unknown: [`Normaliser::set_current`] may name it.
    pub fn wants_current(&self, cpu: Cpu) -> bool {
        self.cpus.get(usize::from(cpu.0)).is_none_or(|state| state.current.is_none())
    }

    /// Sets a CPU's current thread, from a later record.
    pub fn set_current(&mut self, cpu: Cpu, tid: Tid) {
        if let Some(state) = self.cpu_state(cpu) {
            state.current = Some(tid);
        }
    }

    fn cpu_state(&mut self, cpu: Cpu) -> Option<&mut CpuState> {
        if cpu == Cpu::UNKNOWN {
            return None;
        }
        let index = usize::from(cpu.0);
        if index >= self.cpus.len() {
            self.cpus.resize_with(index + 1, CpuState::default);
        }
        self.cpus.get_mut(index)
    }

    /// Takes the next record and emits its events.
    pub fn push(&mut self, record: &Record<'_>, emit: &mut impl FnMut(&Event)) {
        let (at, cpu) = (record.at, record.cpu);
        self.start(at, emit);
        let Some(state) = self.cpu_state(cpu) else {
            // A stream for an unknown CPU is useless, except for its losses.
            if let Tracepoint::Lost { from, count } = record.what {
                let what = EventKind::Loss { from, count, records: LostRecords::Any };
                emit(&event(at, cpu, Context::Task, Tid::IDLE, what));
            }
            return;
        };
        if let Some(current) = record.current {
            state.current = Some(current);
        }
        let (seen, current) = (state.context(), state.current);
        let (context, irq) = self.unrecorded_context(record, seen.0).map_or(seen, |context| (context, 0));
        // With an unknown current thread, the event's CPU counts as unknown, too.
        let (place, current_tid) = current.map_or((Cpu::UNKNOWN, UNKNOWN_TID), |current| (cpu, current));
        let mut here = |what: EventKind| emit(&event(at, place, context, current_tid, what));
        match &record.what {
            Tracepoint::Switch { prev, prev_state, next, next_comm } => {
                self.switch(record, (*prev, *prev_state), (*next, *next_comm), emit);
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
                let forker = self.threads.get(*parent).copied();
                let info = LiveThread {
                    // Without a note, the child counts as a process.
                    tgid: child_tgid.unwrap_or(*child),
                    parent: forker.map_or(*parent, |forker| forker.tgid),
                    ns_tid: child_ns_tid.unwrap_or(*child),
                    comm: *comm,
                    kernel: *parent == KTHREADD || forker.is_some_and(|forker| forker.kernel),
                    start: at,
                };
                here(EventKind::Fork { child: info.identity(*child) });
                // A few microseconds later, the parent makes its child runnable.
                if !self.recorded.first_wakeups {
                    here(EventKind::Waking { target: *child, irq, newborn: true, socket: None });
                }
                self.threads.insert(*child, info);
            }
            Tracepoint::Exec { tid, old, path } => {
                // The kernel names a program by the last part of its path.
                let comm = Comm::new(path.rsplit(|&byte| byte == b'/').next().unwrap_or(path));
                let tid = tid.unwrap_or(current_tid);
                let old = old.unwrap_or(tid);
                let what = EventKind::Exec { old, comm, path: (*path).into() };
                emit(&event(at, cpu, context, tid, what));
                self.threads.exec(old, tid, comm);
                self.set_current(cpu, tid);
            }
            Tracepoint::Exit { tid } => {
                emit(&event(at, cpu, context, *tid, EventKind::Exit));
                self.set_current(cpu, *tid);
                self.threads.remove(*tid);
            }
            Tracepoint::Rename { tid, comm } => {
                here(EventKind::Rename { tid: *tid, comm: *comm });
                self.threads.rename(*tid, *comm);
            }
            Tracepoint::Enter(interrupt) => {
                if let Interrupt::Device(irq, Some(name)) = *interrupt {
                    self.name_interrupt(record, irq, name, emit);
                }
                self.seen_ends.note(*interrupt, true, &mut self.cpus);
                if let Some(state) = self.cpu_state(cpu) {
                    state.enter(at, *interrupt);
                }
            }
            Tracepoint::Leave(interrupt) => {
                let own = matches!(interrupt, Interrupt::Softirq(_)) && self.is_softirq_thread(current);
                self.seen_ends.note(*interrupt, false, &mut self.cpus);
                if let Some(state) = self.cpu_state(cpu) {
                    state.leave(at, *interrupt, own);
                }
            }
            Tracepoint::Packet(header) => self.packet(record, header, (place, context, current_tid), emit),
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
                let id = self.flow(record, *flow, emit);
                emit(&event(at, place, context, current_tid, EventKind::SocketReady(id)));
            }
            Tracepoint::BlockIssue(request) => here(EventKind::BlockIssue(block(request))),
            Tracepoint::BlockComplete(request) => here(EventKind::BlockComplete(block(request))),
            Tracepoint::Thread { tid, tgid, parent, ns_tid, comm, kernel, blocked } => {
                // A thread forked during the trace keeps its start.
                let start = self.threads.get(*tid).map_or(Stamp::MIN, |thread| thread.start);
                let info = LiveThread {
                    tgid: *tgid,
                    parent: *parent,
                    ns_tid: ns_tid.unwrap_or(*tid),
                    comm: *comm,
                    kernel: *kernel,
                    start,
                };
                let identity = info.identity(*tid);
                // The kind of wait is not recorded.
                let blocked = blocked.then_some(BlockedState::Other(0));
                here(EventKind::Thread { identity, blocked, call: None });
                self.threads.insert(*tid, info);
            }
            Tracepoint::InterruptName { irq, name } => self.name_interrupt(record, *irq, name, emit),
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
                if let Some(state) = self.cpu_state(cpu) {
                    state.in_task();
                    state.call = call;
                }
            }
            Tracepoint::Lost { from, count } => {
                let what = EventKind::Loss { from: *from, count: *count, records: LostRecords::Any };
                emit(&event(at, cpu, Context::Task, current_tid, what));
                // The lost records may include any call's end.
                self.calls.forget();
                self.cpus.iter_mut().for_each(|state| state.call = None);
                if let Some(state) = self.cpu_state(cpu) {
                    state.lose();
                }
            }
        }
    }

    /// The context for a record in an unrequested interrupt, where `seen` is the context from recorded interrupts;
    /// `None` where `seen` is right.
    fn unrecorded_context(&self, record: &Record<'_>, seen: Context) -> Option<Context> {
        let RecordedEvents { devices, softirqs, timers, .. } = self.recorded;
        let wakes = matches!(record.what, Tracepoint::Waking { .. } | Tracepoint::Wakeup { .. });
        match (record.level, seen) {
            // `sched_wakeup` may be hit in the interrupt for another CPU's request.
            (Some(Level::Hard), Context::Task | Context::Softirq(_)) => {
                let is_timer = devices && !timers && self.wakeup_by == WakeupBy::Waking;
                Some(if is_timer { Context::UnrecordedTimer } else { Context::Unrecorded })
            }
            (Some(Level::Softirq), Context::Task) => Some(Context::Unrecorded),
            (None, Context::Task) if wakes && !(devices && softirqs && timers) => {
                Some(Context::TaskOrUnrecorded)
            }
            _ => None,
        }
    }

    fn switch(
        &mut self,
        record: &Record<'_>,
        (prev, prev_state): (Tid, i64),
        (next, next_comm): (Tid, Option<Comm>),
        emit: &mut impl FnMut(&Event),
    ) {
        let out = match self.states.switch_out(prev_state) {
            // The idle thread never waits.
            _ if prev == Tid::IDLE => SwitchOut::Runnable,
            out => out,
        };
        let Some(state) = self.cpu_state(record.cpu) else { return };
        // Where a switch was lost, the call is another thread's.
        let is_prevs = out != SwitchOut::Dead && state.current.is_none_or(|current| current == prev);
        let call = state.call.take().filter(|_| is_prevs);
        let interrupts_ns = state.switch(next);
        let of_next = self.calls.switch(prev, call, next);
        if let Some(state) = self.cpu_state(record.cpu) {
            state.call = of_next;
        }
        let call = call.filter(|_| matches!(out, SwitchOut::Blocked(_)));
        let what = EventKind::Switch { next, out, interrupts_ns, call };
        emit(&event(record.at, record.cpu, Context::Task, prev, what));
        if out == SwitchOut::Dead {
            self.threads.remove(prev);
        }
        if let Some(comm) = next_comm
            && next != Tid::IDLE
        {
            self.learn_name(record, next, comm, emit);
        }
    }

    /// Notes a thread's name from a switch, and emits a new name.
    fn learn_name(&mut self, record: &Record<'_>, tid: Tid, comm: Comm, emit: &mut impl FnMut(&Event)) {
        if self.threads.get(tid).is_some_and(|thread| thread.comm == comm) {
            return;
        }
        if !self.threads.rename(tid, comm) {
            let info = LiveThread {
                tgid: tid,
                parent: Tid::IDLE,
                ns_tid: tid,
                comm,
                kernel: false,
                start: Stamp::MIN,
            };
            self.threads.insert(tid, info);
        }
        emit(&event(record.at, record.cpu, Context::Task, tid, EventKind::Rename { tid, comm }));
    }

    fn is_softirq_thread(&self, tid: Option<Tid>) -> bool {
        let thread = tid.and_then(|tid| self.threads.get(tid));
        thread.is_some_and(|thread| thread.comm.bytes().starts_with(b"ksoftirqd/"))
    }

    fn name_interrupt(&mut self, record: &Record<'_>, irq: u16, name: &[u8], emit: &mut impl FnMut(&Event)) {
        if self.interrupts.get(&irq).is_some_and(|known| **known == *name) || name.is_empty() {
            return;
        }
        self.interrupts.insert(irq, name.into());
        let what = EventKind::Name(NameSpace::Interrupt, irq.into(), name.into());
        emit(&event(record.at, Cpu::UNKNOWN, Context::Task, Tid::IDLE, what));
    }

    /// A flow's id. The first time, the flow is emitted.
    fn flow(&mut self, record: &Record<'_>, flow: Flow, emit: &mut impl FnMut(&Event)) -> FlowId {
        if let Some(&known) = self.flows.get(&flow) {
            return known;
        }
        let id = FlowId(self.flows.len() as u64 + 1);
        if self.flows.len() < MAX_NAMES {
            self.flows.insert(flow, id);
            emit(&event(record.at, Cpu::UNKNOWN, Context::Task, Tid::IDLE, EventKind::Flow(id, flow)));
        }
        id
    }

    fn packet(
        &mut self,
        record: &Record<'_>,
        header: &PacketHeader<'_>,
        (cpu, context, current): (Cpu, Context, Tid),
        emit: &mut impl FnMut(&Event),
    ) {
        let flow = Flow {
            source: SocketAddr::new(header.source, header.source_port),
            target: SocketAddr::new(header.target, header.target_port),
            protocol: header.protocol,
        };
        let names = |what| event(record.at, Cpu::UNKNOWN, Context::Task, Tid::IDLE, what);
        let id = self.flow(record, flow, emit);
        let interface = match self.interfaces.get(header.interface) {
            Some(&interface) => interface,
            None if self.interfaces.len() < MAX_NAMES => {
                let interface = self.interfaces.len() as u32 + 1;
                self.interfaces.insert(header.interface.into(), interface);
                let name = header.interface.into();
                emit(&names(EventKind::Name(NameSpace::Interface, interface.into(), name)));
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
        emit(&event(record.at, cpu, context, current, EventKind::Packet(packet)));
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

/// A request is identified by its place: tracepoints do not hold its address.
fn block(request: &Request) -> BlockRequest {
    let place = request.sector.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    BlockRequest {
        id: place.rotate_left(32) ^ u64::from(request.device),
        device: request.device,
        sector: request.sector,
        bytes: request.bytes,
        operation: request.operation,
        start: None,
        issued: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_events_that_a_tracer_was_asked_for_are_known_by_their_tracepoints() {
        let none = RecordedEvents::default();
        for (kind, expected) in [
            (Kind::WakeupNew, RecordedEvents { first_wakeups: true, ..none }),
            (Kind::Enter(Source::Device), RecordedEvents { devices: true, ..none }),
            (Kind::Enter(Source::Softirq), RecordedEvents { softirqs: true, ..none }),
            (Kind::Enter(Source::Hrtimer), RecordedEvents { timers: true, ..none }),
            (Kind::Enter(Source::Vector(Context::LocalTimer)), RecordedEvents { timers: true, ..none }),
            (Kind::Enter(Source::Vector(Context::Reschedule)), none),
            (Kind::Switch, none),
        ] {
            assert_eq!(RecordedEvents::among([kind, Kind::Waking]), expected, "{kind:?}");
        }
    }

    #[test]
    fn a_request_is_identified_by_its_device_and_its_sector() {
        let id = |device, sector| block(&Request { device, sector, bytes: 4096, operation: 0 }).id;
        let devices = [8 << 20, 8 << 20 | 1, 9 << 20, u32::MAX];
        let places =
            devices.into_iter().flat_map(|device| [0, 8, 16, 1 << 40].map(|sector| (device, sector)));
        let ids: std::collections::BTreeSet<_> = places.map(|(device, sector)| id(device, sector)).collect();
        assert_eq!(ids.len(), 16);
        assert_eq!(id(8 << 20, 8) ^ id(u32::MAX, 8), u64::from(8 << 20 ^ u32::MAX), "by nothing else");
    }

    #[test]
    fn no_more_flows_and_interfaces_are_kept_than_there_is_room_for() {
        let mut normaliser = Normaliser::new("6.1.0", WakeupBy::Waking);
        let (mut flows, mut interfaces, mut packets) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..6_u8 {
            let interface = [b'a' + number];
            let local = std::net::IpAddr::from([127, 0, 0, 1]);
            let header = PacketHeader {
                out: true,
                interface: &interface,
                source: local,
                target: local,
                protocol: 6,
                source_port: number.into(),
                target_port: 80,
                seq: 1,
                ack: 2,
                len: 3,
                tcp_flags: 0,
            };
            let what = Tracepoint::Packet(header);
            let record =
                Record { at: Stamp::from_ns(10), cpu: Cpu(0), current: Some(Tid(7)), level: None, what };
            normaliser.push(&record, &mut |event| match &event.kind {
                EventKind::Flow(id, _) => flows.push(id.0),
                EventKind::Name(NameSpace::Interface, number, _) => interfaces.push(*number),
                EventKind::Packet(packet) => packets.push(packet.interface),
                _ => {}
            });
        }
        assert_eq!((flows, interfaces), (vec![1, 2, 3, 4], vec![1, 2, 3, 4]));
        assert_eq!(packets, [1, 2, 3, 4, 0, 0]);
    }
}
