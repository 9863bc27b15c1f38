//! A joint numbering of threads, CPUs, devices and flows for several hosts' events.

use std::collections::HashMap;

use wakepath_clock::{Local, Stamp};
use wakepath_event::{
    CgroupId, Cpu, Event, EventKind, Flow, FlowId, HostIndex, Mark, NameSpace, ThreadIdentity, Tid,
};

/// The first bit above the ids of cgroups and other names; the bits from there on hold the host.
const HOST_SHIFT: u32 = 54;

/// A joint numbering of threads, CPUs, cgroups, requests and flows for several hosts' events.
///
/// Each host counts from small numbers, so equal numbers on two hosts mean different things and get different
/// numbers here. A connection between two hosts is a single flow: both ends' packets get the same id. With
/// these numbers and with stamps on the same clock, several hosts' events read like a single machine's.
#[derive(Debug, Default)]
pub struct Numbering {
    cpus: HashMap<(HostIndex, Cpu), Cpu>,
    /// The host and its own number for each CPU number given here.
    cpu_owners: Vec<(HostIndex, Cpu)>,
    /// By each host's own flow id.
    flow_ids: HashMap<(HostIndex, FlowId), FlowId>,
    /// By addresses; with the host for flows that cannot leave it.
    flows: HashMap<(Option<HostIndex>, Flow), FlowId>,
    last_flow_id: u64,
    /// Devices and interrupts of all hosts but the first, in the order of appearance.
    devices: HashMap<(HostIndex, u32), u32>,
    interrupts: HashMap<(HostIndex, u16), u16>,
    /// Go programs with probes, likewise.
    programs: HashMap<(HostIndex, u16), u16>,
}

impl Numbering {
    /// Renumbers an event of `host`, whose stamps `clock` converts to the reference host's. Returns false for
    /// an event without meaning among several hosts, to be left out.
    pub fn number(
        &mut self,
        host: HostIndex,
        event: &mut Event,
        clock: impl Fn(Stamp<Local>) -> Stamp<Local>,
    ) -> bool {
        event.at = clock(event.at);
        event.cpu = self.cpu(host, event.cpu);
        event.current = event.current.on(host);
        let on = |tid: &mut Tid| *tid = tid.on(host);
        let cgroup = |id: &mut CgroupId| id.0 = host_key(host, id.0);
        let identity = |who: &mut ThreadIdentity| {
            for tid in [&mut who.tid, &mut who.tgid, &mut who.parent, &mut who.ns_tid, &mut who.ns_tgid] {
                on(tid);
            }
            who.start = clock(who.start);
            cgroup(&mut who.cgroup);
            cgroup(&mut who.cpu_cgroup);
        };
        match &mut event.kind {
            EventKind::Switch { next, .. } => on(next),
            EventKind::Waking { target, socket, irq, .. } => {
                on(target);
                *irq = self.interrupt(host, *irq);
                if let Some(flow) = socket {
                    *flow = self.flow(host, *flow);
                }
            }
            EventKind::Ready { target, .. } => on(target),
            EventKind::Migrate { target, from, to } => {
                on(target);
                *from = self.cpu(host, *from);
                *to = self.cpu(host, *to);
            }
            EventKind::Thread { identity: who, .. } => identity(who),
            EventKind::Fork { child } => identity(child),
            EventKind::Exec { old, .. } => on(old),
            EventKind::Rename { tid, .. } => on(tid),
            EventKind::Move { tid, tgid, cgroup: v2, cpu_cgroup, .. } => {
                on(tid);
                on(tgid);
                cgroup(v2);
                cgroup(cpu_cgroup);
            }
            EventKind::Refill(id) => cgroup(id),
            EventKind::Packet(packet) => packet.flow = self.flow(host, packet.flow),
            EventKind::SocketReady(flow) => *flow = self.flow(host, *flow),
            EventKind::Flow(id, flow) => {
                *id = self.define(host, *id, *flow);
                // The first process's id carries the host.
                event.current = Tid(1).on(host);
            }
            EventKind::BlockIssue(request) | EventKind::BlockComplete(request) => {
                // The id is an address, and two hosts may use the same address.
                request.id = request.id.wrapping_add(u64::from(host.0).wrapping_mul(0x9e37_79b9_7f4a_7c15));
                request.device = self.device(host, request.device);
                request.start = request.start.map(&clock);
                request.issued = request.issued.map(&clock);
            }
            EventKind::BlockRelease(request) => {
                cgroup(&mut request.cgroup);
                request.device = self.device(host, request.device);
            }
            EventKind::Reclaim(reclaim) => {
                reclaim.from = clock(reclaim.from);
                reclaim.limit.iter_mut().for_each(|limit| cgroup(&mut limit.cgroup));
            }
            EventKind::LockBegin(lock) | EventKind::LockEnd(lock) => {
                if let Some(owner) = &mut lock.owner {
                    on(owner);
                }
            }
            EventKind::Sample(stack) => on(&mut stack.tgid),
            EventKind::File(file) => {
                on(&mut file.tgid);
                file.flow = file.flow.map(|flow| self.flow(host, flow));
            }
            EventKind::SetMember(member) => on(&mut member.tgid),
            EventKind::FailedCall(call) => {
                if let Some(holder) = &mut call.attempt.holder {
                    on(holder);
                }
            }
            EventKind::Spin(spin) => spin.from = clock(spin.from),
            EventKind::Loss { from, .. } => *from = clock(*from),
            // The probed functions differ by host; only the first host's are used.
            EventKind::Function(call) => {
                on(&mut call.thread);
                call.from = clock(call.from);
                return host == HostIndex::default();
            }
            EventKind::Goroutine(goroutine) => {
                on(&mut goroutine.tgid);
                goroutine.program = self.program(host, goroutine.program);
            }
            EventKind::Signal(signal) => {
                if let Some((at, sender)) = &mut signal.sent {
                    on(sender);
                    *at = clock(*at);
                }
            }
            EventKind::SignalSent(sent) => {
                on(&mut sent.target);
                sent.limit.iter_mut().for_each(|limit| cgroup(&mut limit.cgroup));
            }
            EventKind::Name(space, number, _) => {
                *number = match space {
                    NameSpace::Program
                    | NameSpace::Service
                    | NameSpace::ServiceInstance
                    | NameSpace::Script
                    | NameSpace::Scheduling
                    | NameSpace::Arguments
                    | NameSpace::FarEnd => process_key(host, *number),
                    NameSpace::Receiver => self.flow(host, FlowId(*number)).0,
                    NameSpace::ThreadAttribute => process_key(host, *number >> 8) << 8 | *number & 0xff,
                    NameSpace::BlockDevice => {
                        u32::try_from(*number).map_or(*number, |device| self.device(host, device).into())
                    }
                    NameSpace::Interrupt => {
                        u16::try_from(*number).map_or(*number, |irq| self.interrupt(host, irq).into())
                    }
                    NameSpace::GoWait => {
                        let program = u16::try_from(*number >> 8).unwrap_or(u16::MAX);
                        u64::from(self.program(host, program)) << 8 | *number & 0xff
                    }
                    _ => host_key(host, *number),
                };
            }
            EventKind::Mapping(mapping) => on(&mut mapping.tgid),
            EventKind::UserMark(mark) => mark.process.iter_mut().chain(&mut mark.thread).for_each(on),
            EventKind::UserMarksLost { from, .. } => *from = clock(*from),
            // The first process's id carries the host.
            EventKind::Mark(Mark::Started) | EventKind::Unrecorded => event.current = Tid(1).on(host),
            // These marks are about the host's own recording.
            EventKind::Mark(Mark::Observer(tid) | Mark::Target(tid) | Mark::Command { tgid: tid, .. }) => {
                on(tid);
                return host == HostIndex::default();
            }
            // Clock readings stay per host: a reader of several hosts asks for the host.
            EventKind::Clocks(_) => {}
            // Command and stacks: only the first host's are used.
            EventKind::Stack(_)
            | EventKind::StackLater(..)
            | EventKind::StackOf(_)
            | EventKind::StackCounts(_)
            | EventKind::KernelCost(_)
            | EventKind::UnwindCounts(_)
            | EventKind::Mark(_) => {
                return host == HostIndex::default();
            }
            EventKind::Current
            | EventKind::ThreadContext(_)
            | EventKind::ThreadAttribute(_)
            | EventKind::Exit
            | EventKind::Blocked(_)
            | EventKind::Stolen(_) => {}
        }
        true
    }

    /// A CPU's host, and the host's own number for the CPU.
    pub fn cpu_of(&self, cpu: Cpu) -> Option<(HostIndex, Cpu)> {
        self.cpu_owners.get(usize::from(cpu.0)).copied()
    }

    /// A host's CPUs with events.
    pub fn cpus_of(&self, host: HostIndex) -> impl Iterator<Item = Cpu> {
        (0..).map(Cpu).zip(&self.cpu_owners).filter(move |(_, owner)| owner.0 == host).map(|(cpu, _)| cpu)
    }

    /// A block device's host, and the host's own number for the device; `None` for the first host's devices.
    pub fn device_of(&self, device: u32) -> Option<(HostIndex, u32)> {
        self.devices.iter().find(|&(_, &given)| given == device).map(|(&whose, _)| whose)
    }

    /// A block device's number among several hosts. The first host's numbers stay; others get numbers from
    /// the top, which no kernel uses, and are printed by name.
    fn device(&mut self, host: HostIndex, device: u32) -> u32 {
        if host == HostIndex::default() {
            return device;
        }
        let next = u32::MAX - self.devices.len() as u32;
        *self.devices.entry((host, device)).or_insert(next)
    }

    /// Likewise for interrupts; 0 is no interrupt.
    fn interrupt(&mut self, host: HostIndex, irq: u16) -> u16 {
        if host == HostIndex::default() || irq == 0 {
            return irq;
        }
        // If the numbers run out, further interrupts share the last.
        let next = u16::MAX.saturating_sub(u16::try_from(self.interrupts.len()).unwrap_or(u16::MAX)).max(1);
        *self.interrupts.entry((host, irq)).or_insert(next)
    }

    /// Likewise for Go programs with probes, which each recorder numbers from 0.
    fn program(&mut self, host: HostIndex, program: u16) -> u16 {
        if host == HostIndex::default() {
            return program;
        }
        // If the numbers run out, further programs share the last.
        let next = u16::MAX - u16::try_from(self.programs.len()).unwrap_or(u16::MAX);
        *self.programs.entry((host, program)).or_insert(next)
    }

    fn cpu(&mut self, host: HostIndex, cpu: Cpu) -> Cpu {
        if cpu == Cpu::UNKNOWN {
            return cpu;
        }
        let cpu_owners = &mut self.cpu_owners;
        *self.cpus.entry((host, cpu)).or_insert_with(|| {
            // If the numbers run out, further CPUs are unknown.
            match u16::try_from(cpu_owners.len()).map(Cpu) {
                Ok(next) if next != Cpu::UNKNOWN => {
                    cpu_owners.push((host, cpu));
                    next
                }
                _ => Cpu::UNKNOWN,
            }
        })
    }

    /// The id of a host's flow, perhaps before its definition.
    fn flow(&mut self, host: HostIndex, id: FlowId) -> FlowId {
        let last = &mut self.last_flow_id;
        *self.flow_ids.entry((host, id)).or_insert_with(|| next_flow_id(last))
    }

    fn define(&mut self, host: HostIndex, id: FlowId, flow: Flow) -> FlowId {
        let inside = flow.within(host);
        if let Some(&known) = self.flows.get(&(inside, flow)) {
            self.flow_ids.insert((host, id), known);
            return known;
        }
        let given = self.flow(host, id);
        self.flows.insert((inside, flow), given);
        given
    }
}

fn next_flow_id(last: &mut u64) -> FlowId {
    *last += 1;
    FlowId(*last)
}

/// A process's number among all hosts, as a key for names.
fn process_key(host: HostIndex, tgid: u64) -> u64 {
    u64::from(Tid(u32::try_from(tgid).unwrap_or(u32::MAX)).on(host).0)
}

/// A host's key among several hosts' keys. The first host's keys stay.
fn host_key(host: HostIndex, key: u64) -> u64 {
    key ^ u64::from(host.0) << HOST_SHIFT
}

#[cfg(test)]
mod tests {
    use wakepath_event::{BlockRequest, CallEnd, Clocks, Direction, FunctionCall, GoStep, GoroutineStep};
    use wakepath_scenario::{packet, request};

    use super::*;

    const A: HostIndex = HostIndex(0);
    const B: HostIndex = HostIndex(1);

    fn event(cpu: u16, current: u32, what: EventKind) -> Event {
        wakepath_scenario::event(5, cpu, current, what)
    }

    fn flow(source: &str, target: &str) -> Flow {
        let address = |text: &str| text.parse().expect("an address");
        Flow { source: address(source), target: address(target), protocol: 6 }
    }

    fn numbered(numbering: &mut Numbering, host: HostIndex, mut event: Event) -> Event {
        assert!(numbering.number(host, &mut event, |at| at.plus(100 * u64::from(host.0))));
        event
    }

    #[test]
    fn equal_numbers_of_two_hosts_become_different() {
        let mut numbering = Numbering::default();
        let waking = EventKind::Waking { target: Tid(7), irq: 0, newborn: false, socket: None };
        let [a, b] = [A, B].map(|host| numbered(&mut numbering, host, event(0, 7, waking.clone())));
        assert_eq!((a.at.ns(), b.at.ns()), (5, 105), "converted by the clock of each");
        assert_ne!(a.cpu, b.cpu);
        assert_eq!(
            (numbering.cpu_of(a.cpu), numbering.cpu_of(b.cpu)),
            (Some((A, Cpu(0))), Some((B, Cpu(0))))
        );
        assert_ne!(a.current, b.current);
        let target = |event: &Event| match event.kind {
            EventKind::Waking { target, .. } => target,
            _ => Tid::IDLE,
        };
        assert_eq!((target(&a), target(&b)), (a.current, b.current));
        let again = numbered(&mut numbering, B, event(0, 0, EventKind::Current));
        assert_eq!((again.cpu, again.current), (b.cpu, Tid::IDLE));
    }

    #[test]
    fn a_connection_between_hosts_is_one_and_one_within_each_is_two() {
        let mut numbering = Numbering::default();
        let received = |numbering: &mut Numbering, host, id| {
            let what = EventKind::Packet(packet(FlowId(id), Direction::In, 0));
            match numbered(numbering, host, event(0, 0, what)).kind {
                EventKind::Packet(packet) => packet.flow,
                _ => FlowId(0),
            }
        };
        let between = flow("10.0.0.1:40000", "10.0.0.2:80");
        let within = flow("127.0.0.1:40000", "127.0.0.1:80");
        // The two ends use different ids.
        for (host, id, what) in [(A, 1, between), (B, 9, between), (A, 2, within), (B, 1, within)] {
            numbered(&mut numbering, host, event(0, 0, EventKind::Flow(FlowId(id), what)));
        }
        assert_eq!(received(&mut numbering, A, 1), received(&mut numbering, B, 9));
        assert_ne!(received(&mut numbering, A, 2), received(&mut numbering, B, 1));
        assert_ne!(received(&mut numbering, A, 3), received(&mut numbering, B, 3), "never defined");
    }

    #[test]
    fn a_device_and_its_name_get_the_same_number() {
        let mut numbering = Numbering::default();
        let name = |space, number, name: &str| EventKind::Name(space, number, name.as_bytes().into());
        for (space, number) in [(NameSpace::BlockDevice, 8 << 20), (NameSpace::Interrupt, 28)] {
            let mut named =
                |host| match numbered(&mut numbering, host, event(0, 0, name(space, number, "x"))).kind {
                    EventKind::Name(_, number, _) => number,
                    _ => 0,
                };
            let (a, b) = (named(A), named(B));
            assert_eq!(a, number, "the first host's are as they are");
            assert_ne!(a, b);
            let (device, irq) = match space {
                NameSpace::BlockDevice => (number as u32, 0),
                _ => (0, number as u16),
            };
            let request = BlockRequest { device, ..request(1) };
            let waking = EventKind::Waking { target: Tid(7), irq, newborn: false, socket: None };
            let numbers = [EventKind::BlockIssue(request), waking].map(|what| {
                match numbered(&mut numbering, B, event(0, 0, what)).kind {
                    EventKind::BlockIssue(request) => u64::from(request.device),
                    EventKind::Waking { irq, .. } => u64::from(irq),
                    _ => 0,
                }
            });
            assert!(numbers.contains(&b), "{numbers:?} refer to {b}");
        }
    }

    #[test]
    fn a_cpu_and_a_device_lead_back_to_their_host() {
        let mut numbering = Numbering::default();
        let cpus = [(A, 0), (B, 0), (B, 3), (A, 2)]
            .map(|(host, cpu)| (host, numbered(&mut numbering, host, event(cpu, 0, EventKind::Current)).cpu));
        for host in [A, B] {
            let of_host = cpus.iter().filter(|(of, _)| *of == host).map(|&(_, cpu)| cpu).collect::<Vec<_>>();
            assert_eq!(numbering.cpus_of(host).collect::<Vec<_>>(), of_host);
        }
        assert_eq!(numbering.cpu_of(cpus[2].1), Some((B, Cpu(3))));
        let unknown = numbered(&mut numbering, B, event(Cpu::UNKNOWN.0, 0, EventKind::Current));
        assert_eq!((unknown.cpu, numbering.cpus_of(B).count()), (Cpu::UNKNOWN, 2));

        for device in [8 << 20, 9 << 20] {
            let issue = EventKind::BlockIssue(BlockRequest { device, ..request(1) });
            let EventKind::BlockIssue(given) = numbered(&mut numbering, B, event(0, 0, issue)).kind else {
                panic!("it is what it was")
            };
            assert_eq!(numbering.device_of(given.device), Some((B, device)));
        }
        assert_eq!(numbering.device_of(8 << 20), None);
    }

    #[test]
    fn other_keys_of_two_hosts_never_meet() {
        let mut numbering = Numbering::default();
        let keys = [0, 5, 1 << 40, 0xffff_8000_0000_1000, u64::MAX];
        let mut all = std::collections::BTreeSet::new();
        for (host, key) in [A, B].into_iter().flat_map(|host| keys.map(|key| (host, key))) {
            let name = EventKind::Name(NameSpace::Cgroup, key, b"a.slice"[..].into());
            let EventKind::Name(_, given, _) = numbered(&mut numbering, host, event(0, 0, name)).kind else {
                panic!("it is what it was")
            };
            assert!(host == B || given == key, "those of the first host stay");
            assert!(all.insert(given), "{given:#x} has two meanings");
        }
    }

    #[test]
    fn there_are_no_more_cpus_than_numbers() {
        let mut numbering = Numbering::default();
        let all = u32::from(Cpu::UNKNOWN.0);
        for n in 0..all + 2 {
            let (host, cpu) = (HostIndex((n >> 12) as u16), (n & 0xfff) as u16);
            let given = numbering.cpu(host, Cpu(cpu));
            assert_eq!(given == Cpu::UNKNOWN, n >= all, "the CPU of number {n}");
        }
    }

    #[test]
    fn the_calls_of_the_first_host_are_kept_and_the_names_of_a_process_are_its_hosts() {
        let mut numbering = Numbering::default();
        let call =
            FunctionCall { target: 0, thread: Tid(7), from: Stamp::from_ns(3), end: CallEnd::Returned };
        for (host, kept, from) in [(A, true, 3), (B, false, 103)] {
            let mut of_function = event(0, 0, EventKind::Function(call));
            let is_kept = numbering.number(host, &mut of_function, |at| at.plus(100 * u64::from(host.0)));
            let EventKind::Function(call) = of_function.kind else { panic!("it is what it was") };
            assert_eq!((is_kept, call.thread, call.from.ns()), (kept, Tid(7).on(host), from));
            for space in [
                NameSpace::Program,
                NameSpace::Service,
                NameSpace::ServiceInstance,
                NameSpace::Script,
                NameSpace::Scheduling,
                NameSpace::Arguments,
            ] {
                let name = EventKind::Name(space, 7, b"sort"[..].into());
                let EventKind::Name(_, process, _) = numbered(&mut numbering, host, event(0, 0, name)).kind
                else {
                    panic!("it is what it was")
                };
                assert_eq!(process, u64::from(Tid(7).on(host).0), "{space:?}");
            }
            let name = EventKind::Name(NameSpace::ThreadAttribute, 7 << 8 | 200, b"http.route"[..].into());
            let EventKind::Name(_, key, _) = numbered(&mut numbering, host, event(0, 0, name)).kind else {
                panic!("it is what it was")
            };
            assert_eq!(key, u64::from(Tid(7).on(host).0) << 8 | 200);
        }
    }

    #[test]
    fn the_goroutines_of_each_host_have_the_reasons_of_its_own_programs() {
        let mut numbering = Numbering::default();
        const REASON: u8 = 5;
        let mut programs = Vec::new();
        for (host, program) in [(A, 0), (B, 0), (B, 1), (HostIndex(2), 0)] {
            let step = GoroutineStep {
                tgid: Tid(7),
                goroutine: 9,
                began_in: 0,
                program,
                step: GoStep::Parks(REASON),
            };
            let step = numbered(&mut numbering, host, event(0, 7, EventKind::Goroutine(step)));
            assert_eq!((step.at.ns(), step.current), (5 + 100 * u64::from(host.0), Tid(7).on(host)));
            let EventKind::Goroutine(step) = step.kind else { panic!("it is what it was") };
            assert_eq!((step.tgid, step.goroutine), (Tid(7).on(host), 9));
            let key = u64::from(program) << 8 | u64::from(REASON);
            let name = EventKind::Name(NameSpace::GoWait, key, b"sleep"[..].into());
            let EventKind::Name(_, key, _) = numbered(&mut numbering, host, event(0, 0, name)).kind else {
                panic!("it is what it was")
            };
            assert_eq!(key, u64::from(step.program) << 8 | u64::from(REASON), "as a reader asks for it");
            programs.push(step.program);
        }
        assert_eq!(programs[0], 0, "those of the first host stay");
        programs.sort_unstable();
        programs.dedup();
        assert_eq!(programs.len(), 4, "equal numbers of two hosts become different");
    }

    #[test]
    fn stamps_within_an_event_are_converted_too() {
        let mut numbering = Numbering::default();
        let stamp = |ns| Some(Stamp::from_ns(ns));
        let (start, issued) = (stamp(1), stamp(2));
        let request = BlockRequest { start, issued, ..request(9) };
        let converted = numbered(&mut numbering, B, event(0, 0, EventKind::BlockComplete(request)));
        let EventKind::BlockComplete(converted) = converted.kind else { panic!("it is what it was") };
        assert_eq!((converted.start, converted.issued), (stamp(101), stamp(102)));
        assert_ne!(converted.id, request.id, "the same address is in use on the other host");
        let loss =
            EventKind::Loss { from: Stamp::from_ns(3), count: 1, records: wakepath_event::LostRecords::Any };
        let converted = numbered(&mut numbering, B, event(0, 0, loss));
        assert_eq!(
            converted.kind,
            EventKind::Loss {
                from: Stamp::from_ns(103),
                count: 1,
                records: wakepath_event::LostRecords::Any
            }
        );
    }

    #[test]
    fn commands_and_stacks_are_kept_for_the_first_host_alone_and_readings_of_clocks_for_each() {
        let mut numbering = Numbering::default();
        for (host, kept) in [(A, true), (B, false)] {
            let mut event = event(0, 0, EventKind::Mark(wakepath_event::Mark::Observer(Tid(3))));
            assert_eq!(numbering.number(host, &mut event, |at| at), kept);
            assert_eq!(event.kind, EventKind::Mark(Mark::Observer(Tid(3).on(host))));
            let clocks = Clocks { boottime_ns: 1, realtime_ns: 2, steal_ns: 0 };
            let read = numbered(&mut numbering, host, self::event(0, 0, EventKind::Clocks(clocks)));
            assert_eq!(read.kind, EventKind::Clocks(clocks));
        }
    }

    /// Its threads may run there unseen, on each host.
    #[test]
    fn a_cpu_without_records_is_its_own_hosts() {
        let mut numbering = Numbering::default();
        for host in [A, B] {
            let event = numbered(&mut numbering, host, event(3, 0, EventKind::Unrecorded));
            assert_eq!((event.current.host(), numbering.cpu_of(event.cpu)), (host, Some((host, Cpu(3)))));
        }
    }

    #[test]
    fn cpus_behind_the_last_number_are_unknown_ones_of_no_host() {
        let mut numbering = Numbering::default();
        for number in 0..u16::MAX {
            assert_eq!(numbering.cpu(A, Cpu(number)), Cpu(number));
        }
        for number in 0..2 {
            assert_eq!(numbering.cpu(B, Cpu(number)), Cpu::UNKNOWN);
        }
        assert_eq!(numbering.cpu_of(Cpu(u16::MAX - 1)), Some((A, Cpu(u16::MAX - 1))));
        assert_eq!(numbering.cpu_of(Cpu::UNKNOWN), None);
    }
}
