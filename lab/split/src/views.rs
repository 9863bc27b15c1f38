//! A host's events as each new host would have seen them.

use std::collections::{HashMap, HashSet};

use wakepath_clock::{Local, Stamp};
use wakepath_event::{
    CgroupId, Comm, Context, Cpu, Direction, Event, EventKind, FlowId, Mark, Softirq, SwitchOut,
    ThreadIdentity, Tid,
};

/// A new host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Side {
    /// The network namespace.
    pub netns: u32,
    /// The processes.
    pub processes: Vec<Tid>,
}

/// The new hosts' views: the events that each would have seen, and their form.
#[derive(Debug)]
pub struct HostViews {
    sides: Vec<Side>,
    /// The processes that carry packets between the sides.
    wire: HashSet<Tid>,
    owners: HashMap<Tid, Owner>,
    /// The namespace in which a flow's packets come in first.
    arrival_netns: HashMap<FlowId, u32>,
    /// Each CPU's thread, by its last record.
    running: HashMap<Cpu, Tid>,
    /// The CPUs that show the second stand-in thread for all other threads.
    second: HashSet<Cpu>,
}

/// A thread's owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Side(usize),
    Wire,
}

/// The first id of the stand-in threads for all others, two per CPU: above all ids on a test machine. After an unrecorded switch
/// between two other threads, a stand-in follows the other stand-in: with a single stand-in, nothing would show the missing
/// switch, nor that a wake-up may be missing.
const OTHERS: u32 = Tid::LIMIT - 2 * Cpu::LIMIT as u32;

impl HostViews {
    /// The sides' views, with the processes of `wire` between them.
    pub fn new(sides: Vec<Side>, wire: impl IntoIterator<Item = Tid>) -> Self {
        let wire = wire.into_iter().collect();
        Self {
            sides,
            wire,
            owners: HashMap::new(),
            arrival_netns: HashMap::new(),
            running: HashMap::new(),
            second: HashSet::new(),
        }
    }

    /// The events that introduce the stand-in threads; they come first.
    pub fn others(at: Stamp<Local>, cpus: u32) -> impl Iterator<Item = Event> {
        let limit = u32::from(Cpu::LIMIT);
        let both = (0..cpus.min(limit)).flat_map(move |cpu| [cpu, cpu + limit]);
        both.map(move |number| {
            let tid = Tid(OTHERS + number);
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
                comm: Comm::new(b"other-host"),
            };
            let what = EventKind::Thread { identity, blocked: None, call: None };
            Event { at, cpu: Cpu(0), context: Context::Task, current: Tid::IDLE, kind: what }
        })
    }

    /// Takes note of an event; to be called with each, in order, before its view is requested.
    pub fn observe(&mut self, event: &Event) {
        match &event.kind {
            EventKind::Thread { identity, .. } | EventKind::Fork { child: identity } => {
                let side = self.sides.iter().position(|side| side.processes.contains(&identity.tgid));
                let wire = self.wire.contains(&identity.tgid).then_some(Owner::Wire);
                match side.map(Owner::Side).or(wire) {
                    Some(owner) => self.owners.insert(identity.tid, owner),
                    None => self.owners.remove(&identity.tid),
                };
            }
            EventKind::Packet(packet) if packet.direction == Direction::In => {
                self.arrival_netns.entry(packet.flow).or_insert(packet.netns);
            }
            _ => {}
        }
        self.observe_running(event);
    }

    /// Takes note of a CPU's thread. If it is not the thread in the last record, a switch is missing.
    fn observe_running(&mut self, event: &Event) {
        let next = match event.kind {
            EventKind::Switch { next, .. } => next,
            EventKind::Waking { .. } | EventKind::Packet(_) | EventKind::Current => event.current,
            _ => return,
        };
        let before = self.running.insert(event.cpu, next);
        if before.is_some_and(|before| before != event.current) && !self.second.insert(event.cpu) {
            self.second.remove(&event.cpu);
        }
    }

    /// The event as a side saw it; `None` if it did not.
    pub fn view(&self, side: usize, event: &Event) -> Option<Event> {
        let is_its = |tid: Tid| self.owners.get(&tid) == Some(&Owner::Side(side));
        let it_is_here = is_its(event.current);
        let has_process = |tgid: &Tid| self.sides[side].processes.contains(tgid);
        let shown_as = |tid: Tid| match tid {
            Tid::IDLE => tid,
            tid if is_its(tid) => tid,
            _ => {
                let second = if self.second.contains(&event.cpu) { Cpu::LIMIT } else { 0 };
                Tid(OTHERS + u32::from(event.cpu.0 % Cpu::LIMIT) + u32::from(second))
            }
        };
        let mut view = Event { current: shown_as(event.current), ..event.clone() };
        match &mut view.kind {
            EventKind::Switch { next, out, call, .. } => {
                *next = shown_as(*next);
                if *next == view.current {
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
                    view.context = self.context(event);
                }
            }
            EventKind::Packet(packet) if packet.netns != self.sides[side].netns => return None,
            EventKind::SocketReady(flow) if self.arrival_netns.get(flow) != Some(&self.sides[side].netns) => {
                return None;
            }
            EventKind::Packet(_) | EventKind::SocketReady(_) => view.context = self.context(event),
            EventKind::Thread { identity, .. } | EventKind::Fork { child: identity }
                if !has_process(&identity.tgid) =>
            {
                return None;
            }
            EventKind::Ready { target, .. } | EventKind::Migrate { target, .. } if !is_its(*target) => {
                return None;
            }
            EventKind::Rename { tid, .. } if !is_its(*tid) => return None,
            EventKind::SignalSent(sent) if !is_its(sent.target) => return None,
            EventKind::Move { tgid, .. } if !has_process(tgid) => return None,
            EventKind::File(file) if !has_process(&file.tgid) => return None,
            EventKind::SetMember(member) if !has_process(&member.tgid) => return None,
            EventKind::Goroutine(goroutine) if !has_process(&goroutine.tgid) => return None,
            EventKind::Function(call) if !is_its(call.thread) => return None,
            EventKind::Exec { .. }
            | EventKind::Exit
            | EventKind::ThreadContext(_)
            | EventKind::ThreadAttribute(_)
            | EventKind::FailedCall(_)
            | EventKind::Spin(_)
            | EventKind::Signal(_)
            | EventKind::Blocked(_)
            | EventKind::LockBegin(_)
            | EventKind::LockEnd(_)
                if !it_is_here =>
            {
                return None;
            }
            EventKind::LockBegin(lock) | EventKind::LockEnd(lock) => lock.owner = lock.owner.map(shown_as),
            EventKind::Mark(Mark::Command { tgid, .. } | Mark::Target(tgid)) if !has_process(tgid) => {
                return None;
            }
            EventKind::Name(space, key, _) if space.process(*key).is_some_and(|tgid| !has_process(&tgid)) => {
                return None;
            }
            // The recorder and the executed code do not matter to a path.
            EventKind::Mark(Mark::Observer(_))
            | EventKind::Sample(_)
            | EventKind::Stack(_)
            | EventKind::StackLater(..)
            | EventKind::StackOf(_)
            | EventKind::StackCounts(_)
            | EventKind::KernelCost(_)
            | EventKind::UnwindCounts(_)
            | EventKind::Mapping(_) => return None,
            _ => {}
        }
        Some(view)
    }

    /// An event's context, without the wire: the kernel's work on the wire's behalf belongs to a card.
    fn context(&self, event: &Event) -> Context {
        match event.context {
            Context::Task if self.owners.get(&event.current) == Some(&Owner::Wire) => {
                Context::Softirq(Softirq::NetRx)
            }
            context => context,
        }
    }
}
