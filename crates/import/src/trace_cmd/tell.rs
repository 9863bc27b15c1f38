//! From a file's events to ours.

use std::collections::{HashMap, HashSet};

use foldhash::fast::FixedState;
use wakepath_clock::{Local, Stamp};
use wakepath_event::{Comm, Cpu, Event, Tid};

use super::container::Container;
use super::lane::{Item, ItemKind};
use crate::DamageKind;
use crate::loopback::Loopback;
use crate::normalise::Normaliser;
use crate::plan::{Kind, Plan};
use crate::tracepoint::{Record, Tracepoint};

/// Tells what a buffer holds, which comes by time, as events.
pub(super) struct Teller<'a, F> {
    container: &'a Container,
    normaliser: Normaliser,
    tell: F,
    /// ns.
    first: u64,
    loopback: Loopback,
    /// Whose names were told.
    met: HashSet<Tid, FixedState>,
    /// Of which processes threads are that were made meanwhile.
    processes: HashMap<Tid, Tid, FixedState>,
    /// Who was just made, and whether as a thread of who made it.
    newborn: Option<(Tid, bool)>,
    /// Events whose fields make no sense.
    pub unreadable: u64,
}

/// Where and when something was hit.
#[derive(Debug, Clone, Copy)]
struct Place {
    at: Stamp<Local>,
    cpu: Cpu,
    current: Option<Tid>,
}

impl<'a, F: FnMut(&Event)> Teller<'a, F> {
    pub fn new(container: &'a Container, normaliser: Normaliser, first: u64, tell: F) -> Self {
        Self {
            container,
            normaliser,
            tell,
            first,
            loopback: Loopback::default(),
            met: HashSet::default(),
            processes: HashMap::default(),
            newborn: None,
            unreadable: 0,
        }
    }

    /// Takes what is next, with an event's bytes.
    pub fn item(&mut self, cpu: u32, item: &Item, raw: &[u8]) {
        let place = Place { at: Stamp::from_ns(item.at), cpu: Cpu::numbered(cpu), current: None };
        match item.what {
            ItemKind::Lost { from, count } => {
                let from = Stamp::from_ns(from.unwrap_or(self.first).min(item.at));
                self.push(place, Tracepoint::Lost { from, count });
            }
            ItemKind::Event(_) => {
                let container = self.container;
                let Some(&id) = raw.first_chunk() else { return self.unreadable += 1 };
                if let Some(plan) = container.tracepoints.plans.get(&u16::from_le_bytes(id)) {
                    self.tracepoint(place, plan, raw);
                }
            }
        }
    }

    pub fn unmatched(&self) -> u64 {
        self.normaliser.unmatched()
    }

    /// What is lacking of wake-ups.
    pub fn doubt_of_wakings(&self) -> Option<DamageKind> {
        self.normaliser.doubt_of_wakings()
    }

    fn push(&mut self, Place { at, cpu, current }: Place, what: Tracepoint<'_>) {
        self.normaliser.push(&Record { at, cpu, current, what }, &mut self.tell);
    }

    fn tracepoint(&mut self, place: Place, plan: &Plan, raw: &[u8]) {
        if plan.kind == Kind::NewTask {
            self.newborn = plan.newborn(raw);
            return;
        }
        let Ok(what) = self.loopback.read(plan, raw) else { return self.unreadable += 1 };
        let Some(mut what) = what else { return };
        let here = Place { current: plan.current(raw), ..place };
        match &mut what {
            Tracepoint::Fork { parent, child, child_tgid, .. } => {
                *child_tgid = self.birth(*parent, *child);
                self.met.insert(*child);
            }
            // Its number may have been another's.
            Tracepoint::WakeupNew { target } => {
                self.met.remove(target);
                self.meet(here, *target, plan.comm(raw));
            }
            Tracepoint::Switch { prev: tid, .. }
            | Tracepoint::Waking { target: tid }
            | Tracepoint::Wakeup { target: tid } => self.meet(here, *tid, plan.comm(raw)),
            _ => {}
        }
        if let Some(current) = here.current {
            self.meet(here, current, None);
        }
        // Who comes is named with the switch.
        if let Tracepoint::Switch { next, next_comm: Some(_), .. } = what {
            self.met.insert(next);
        }
        self.push(here, what);
    }

    /// Of which process a newborn is, where the tracepoint in front of this one told.
    fn birth(&mut self, parent: Tid, child: Tid) -> Option<Tid> {
        let (_, thread) = self.newborn.take().filter(|(tid, _)| *tid == child)?;
        let process = if thread { self.processes.get(&parent).copied().unwrap_or(parent) } else { child };
        self.processes.insert(child, process);
        Some(process)
    }

    /// A thread did something: what it is called is told once, as the event says, or as it was called in the end.
    fn meet(&mut self, place: Place, tid: Tid, comm: Option<Comm>) {
        if tid == Tid::IDLE || !self.met.insert(tid) {
            return;
        }
        if let Some(comm) = comm.or_else(|| self.container.comms.get(&tid).copied()) {
            self.push(place, Tracepoint::Rename { tid, comm });
        }
    }
}
