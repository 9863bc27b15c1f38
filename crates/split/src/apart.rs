use std::collections::{HashMap, HashSet};

use wakepath_clock::{Local, Stamp};
use wakepath_event::{
    CgroupId, Comm, Context, Cpu, Direction, Event, FlowId, Mark, NameSpace, Softirq, SwitchOut,
    ThreadIdentity, Tid, What,
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
            let what = What::Thread { identity, blocked: None, call: None };
            Event { at, cpu: Cpu(0), context: Context::Task, current: Tid::IDLE, what }
        })
    }

    /// Takes note of an event; to be called with each, in order, before it is asked who has seen it.
    pub fn observe(&mut self, event: &Event) {
        match &event.what {
            What::Thread { identity: who, .. } | What::Fork { child: who } => {
                let side = self.sides.iter().position(|side| side.processes.contains(&who.tgid));
                let wire = self.wire.contains(&who.tgid).then_some(Whose::Wire);
                match side.map(Whose::Side).or(wire) {
                    Some(whose) => self.of_thread.insert(who.tid, whose),
                    None => self.of_thread.remove(&who.tid),
                };
            }
            What::Packet(packet) if packet.direction == Direction::In => {
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
        match &mut seen.what {
            What::Switch { next, out, call, .. } => {
                *next = called(*next);
                if *next == seen.current {
                    return None;
                }
                if !it_is_here {
                    (*out, *call) = (SwitchOut::Runnable, None);
                }
            }
            What::Waking { target, newborn, .. } => {
                if !is_its(*target) {
                    return None;
                }
                if !*newborn {
                    seen.context = self.context(event);
                }
            }
            What::Packet(packet) if packet.netns != self.sides[side].netns => return None,
            What::SocketReady(flow) if self.arrives.get(flow) != Some(&self.sides[side].netns) => {
                return None;
            }
            What::Packet(_) | What::SocketReady(_) => seen.context = self.context(event),
            What::Thread { identity: who, .. } | What::Fork { child: who } if !has_process(&who.tgid) => {
                return None;
            }
            What::Rename { tid, .. } if !is_its(*tid) => return None,
            What::Move { tgid, .. } if !has_process(tgid) => return None,
            What::File(file) if !has_process(&file.tgid) => return None,
            What::Function(call) if !is_its(call.thread) => return None,
            What::Exec { .. } | What::Exit | What::Blocked(_) | What::LockBegin(_) | What::LockEnd(_)
                if !it_is_here =>
            {
                return None;
            }
            What::LockBegin(lock) | What::LockEnd(lock) => lock.owner = lock.owner.map(called),
            What::Mark(Mark::Command { tgid, .. } | Mark::Target(tgid)) if !has_process(tgid) => return None,
            What::Name(NameSpace::Program, tgid, _)
                if !u32::try_from(*tgid).is_ok_and(|tgid| has_process(&Tid(tgid))) =>
            {
                return None;
            }
            // Who records, and what code was run, is of no matter to a path.
            What::Mark(Mark::Observer(_))
            | What::Sample(_)
            | What::Stack(_)
            | What::StackOf(_)
            | What::StackCounts(_)
            | What::Mapping(_) => return None,
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
