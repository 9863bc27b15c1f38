use std::collections::{HashMap, HashSet};

use wakepath_clock::{Local, Stamp};
use wakepath_event::{
    CgroupId, Comm, Context, Cpu, Direction, Event, EventKind, FlowId, Mark, NameSpace, Softirq, SwitchOut,
    ThreadIdentity, Tid,
};

/// A host to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Side {
    /// Its network namespace.
    pub netns: u32,
    /// Its processes.
    pub processes: Vec<Tid>,
}

/// Which event each side would have seen, and how.
#[derive(Debug)]
pub struct Apart {
    sides: Vec<Side>,
    /// Processes that carry packets between the sides.
    wire: HashSet<Tid>,
    of_thread: HashMap<Tid, Whose>,
    /// In which namespace packets of a flow come in first.
    arrives: HashMap<FlowId, u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    Side(usize),
    Wire,
}

/// Above all ids that a test's machine gives out, with room for a CPU's number.
const ELSEWHERE: u32 = Tid::LIMIT - Cpu::LIMIT as u32;

impl Apart {
    /// These sides, with this between them.
    pub fn new(sides: Vec<Side>, wire: impl IntoIterator<Item = Tid>) -> Self {
        let wire = wire.into_iter().collect();
        Self { sides, wire, of_thread: HashMap::new(), arrives: HashMap::new() }
    }

    /// The threads that have a CPU for all others, to be told first.
    pub fn elsewhere(at: Stamp<Local>, cpus: u32) -> impl Iterator<Item = Event> {
        (0..cpus.min(Cpu::LIMIT.into())).map(move |cpu| {
            let tid = Tid(ELSEWHERE + cpu);
            let identity = ThreadIdentity {
                tid,
                tgid: tid,
                parent: Tid::IDLE,
                ns_tid: tid,
                ns_tgid: tid,
                start: Stamp::MIN,
                cgroup: CgroupId(0),
                cpu_cgroup: CgroupId(0),
                kernel: false,
                comm: Comm::new(b"elsewhere"),
            };
            let what = EventKind::Thread { identity, blocked: None, call: None };
            Event { at, cpu: Cpu(0), context: Context::Task, current: Tid::IDLE, kind: what }
        })
    }

    /// Takes note of an event; to be called with each, in order, before it is asked who has seen it.
    pub fn observe(&mut self, event: &Event) {
        match &event.kind {
            EventKind::Thread { identity: who, .. } | EventKind::Fork { child: who } => {
                let side = self.sides.iter().position(|side| side.processes.contains(&who.tgid));
                let wire = self.wire.contains(&who.tgid).then_some(Whose::Wire);
                match side.map(Whose::Side).or(wire) {
                    Some(whose) => self.of_thread.insert(who.tid, whose),
                    None => self.of_thread.remove(&who.tid),
                };
            }
            EventKind::Packet(packet) if packet.direction == Direction::In => {
                self.arrives.entry(packet.flow).or_insert(packet.netns);
            }
            _ => {}
        }
    }

    /// The event as that side has seen it, if it has.
    pub fn seen(&self, side: usize, event: &Event) -> Option<Event> {
        let is_its = |tid: Tid| self.of_thread.get(&tid) == Some(&Whose::Side(side));
        let it_is_here = is_its(event.current);
        let has_process = |tgid: &Tid| self.sides[side].processes.contains(tgid);
        let called = |tid: Tid| match tid {
            Tid::IDLE => tid,
            tid if is_its(tid) => tid,
            _ => Tid(ELSEWHERE + u32::from(event.cpu.0 % Cpu::LIMIT)),
        };
        let mut seen = Event { current: called(event.current), ..event.clone() };
        match &mut seen.kind {
            EventKind::Switch { next, out, call, .. } => {
                *next = called(*next);
                if *next == seen.current {
                    return None;
                }
                if !it_is_here {
                    (*out, *call) = (SwitchOut::Runnable, None);
                }
            }
            EventKind::Waking { target, newborn, .. } => {
                if !is_its(*target) {
                    return None;
                }
                if !*newborn {
                    seen.context = self.context(event);
                }
            }
            EventKind::Packet(packet) if packet.netns != self.sides[side].netns => return None,
            EventKind::SocketReady(flow) if self.arrives.get(flow) != Some(&self.sides[side].netns) => {
                return None;
            }
            EventKind::Packet(_) | EventKind::SocketReady(_) => seen.context = self.context(event),
            EventKind::Thread { identity: who, .. } | EventKind::Fork { child: who }
                if !has_process(&who.tgid) =>
            {
                return None;
            }
            EventKind::Rename { tid, .. } if !is_its(*tid) => return None,
            EventKind::Move { tgid, .. } if !has_process(tgid) => return None,
            EventKind::File(file) if !has_process(&file.tgid) => return None,
            EventKind::Function(call) if !is_its(call.thread) => return None,
            EventKind::Exec { .. }
            | EventKind::Exit
            | EventKind::Blocked(_)
            | EventKind::LockBegin(_)
            | EventKind::LockEnd(_)
                if !it_is_here =>
            {
                return None;
            }
            EventKind::LockBegin(lock) | EventKind::LockEnd(lock) => lock.owner = lock.owner.map(called),
            EventKind::Mark(Mark::Command { tgid, .. } | Mark::Target(tgid)) if !has_process(tgid) => {
                return None;
            }
            EventKind::Name(NameSpace::Program, tgid, _)
                if !u32::try_from(*tgid).is_ok_and(|tgid| has_process(&Tid(tgid))) =>
            {
                return None;
            }
            // Who records, and what code was run, is of no matter to a path.
            EventKind::Mark(Mark::Observer(_))
            | EventKind::Sample(_)
            | EventKind::Stack(_)
            | EventKind::StackOf(_)
            | EventKind::StackCounts(_)
            | EventKind::Mapping(_) => return None,
            _ => {}
        }
        Some(seen)
    }

    /// What the CPU was doing, without the wire: what the kernel does in its name is a card's doing.
    fn context(&self, event: &Event) -> Context {
        match event.context {
            Context::Task if self.of_thread.get(&event.current) == Some(&Whose::Wire) => {
                Context::Softirq(Softirq::NetRx)
            }
            context => context,
        }
    }
}
