//! Conversion from `trace.dat` items to events.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use foldhash::fast::FixedState;
use wakepath_clock::Stamp;
use wakepath_event::{Comm, Cpu, Event, Tid};

use super::container::Container;
use super::cpu_reader::{Item, ItemKind};
use crate::kind::Kind;
use crate::loopback::Loopback;
use crate::newborn::Newborn;
use crate::normalise::Normaliser;
use crate::plan::Plan;
use crate::thread_names::ThreadNames;
use crate::tracepoint::{Origin, Record, Tracepoint};

/// Converts a buffer's items, in time order, into events.
pub(super) struct Converter<'a, F> {
    container: &'a Container,
    pub normaliser: Normaliser,
    emit: F,
    /// The first event's stamp, ns.
    first: u64,
    loopback: Loopback,
    names: ThreadNames,
    /// The processes of threads made during the recording.
    processes: HashMap<Tid, Tid, FixedState>,
    newborn: Newborn,
    /// Events with meaningless fields.
    pub unreadable: u64,
    /// By CPU with pages cut off, the last stamp.
    cut: BTreeMap<u32, u64>,
    /// The CPUs without an item so far whose first pages may be missing.
    late: BTreeSet<u32>,
    /// The last item's stamp, ns.
    now: u64,
}

/// Whether it is an ftrace event's own number, described elsewhere: `TRACE_FN` and so on.
const fn is_own(id: u16) -> bool {
    id > 0 && id < 32
}

impl<'a, F: FnMut(&Event)> Converter<'a, F> {
    pub fn new(container: &'a Container, normaliser: Normaliser, first: u64, emit: F) -> Self {
        Self {
            container,
            normaliser,
            emit,
            first,
            loopback: Loopback::default(),
            names: ThreadNames::default(),
            processes: HashMap::default(),
            newborn: Newborn::default(),
            unreadable: 0,
            cut: BTreeMap::new(),
            late: BTreeSet::new(),
            now: first,
        }
    }

    /// Begins with these CPUs, whose pages are all cut off, and with these, whose first pages may be missing.
    pub fn begin(&mut self, without_pages: impl IntoIterator<Item = u32>, short: &[u32]) {
        for cpu in without_pages {
            self.cut_off(cpu, self.first);
        }
        for &cpu in short {
            self.normaliser.not_recorded(Stamp::from_ns(self.first), Cpu::numbered(cpu), &mut self.emit);
            self.late.insert(cpu);
        }
    }

    /// From here on, a CPU's pages are cut off.
    fn cut_off(&mut self, cpu: u32, at: u64) {
        self.cut.insert(cpu, at);
        self.normaliser.not_recorded(Stamp::from_ns(at), Cpu::numbered(cpu), &mut self.emit);
    }

    /// Ends all losses up to the last item. Returns the CPUs with pages cut off, and their missing time, ns.
    pub fn finish(&mut self) -> Vec<(u32, u64)> {
        let at = Stamp::from_ns(self.now);
        let cut = std::mem::take(&mut self.cut);
        for (&cpu, &from) in &cut {
            let origin = Origin { at, cpu: Cpu::numbered(cpu), current: None, level: None };
            self.push(origin, Tracepoint::Lost { from: Stamp::from_ns(from), count: 0 });
        }
        self.normaliser.finish((Stamp::from_ns(self.first), at), &mut self.emit);
        cut.into_iter()
            .map(|(cpu, from)| (cpu, self.now - from))
            .filter(|(_, early_ns)| *early_ns > 0)
            .collect()
    }

    /// Takes the next item, with an event's bytes.
    pub fn item(&mut self, cpu: u32, item: &Item, raw: &[u8]) {
        let origin =
            Origin { at: Stamp::from_ns(item.at), cpu: Cpu::numbered(cpu), current: None, level: None };
        self.now = item.at;
        if self.late.remove(&cpu) {
            let from = Stamp::from_ns(self.first.min(item.at));
            self.push(origin, Tracepoint::Lost { from, count: 0 });
        }
        match item.kind {
            ItemKind::Cut => self.cut_off(cpu, item.at.max(self.first)),
            ItemKind::Lost { from, count } => {
                let from = Stamp::from_ns(from.unwrap_or(self.first).min(item.at));
                self.push(origin, Tracepoint::Lost { from, count });
            }
            ItemKind::Event(_) => {
                let container = self.container;
                let Some(&id) = raw.first_chunk() else { return self.unreadable += 1 };
                let id = u16::from_le_bytes(id);
                match container.tracepoints.plans.get(&id) {
                    Some(plan) => self.tracepoint(origin, plan, raw),
                    None if is_own(id) || container.tracepoints.names.contains_key(&id) => {}
                    // trace-cmd describes all recorded tracepoints.
                    None => self.unreadable += 1,
                }
            }
        }
    }

    fn push(&mut self, Origin { at, cpu, current, level }: Origin, what: Tracepoint<'_>) {
        self.normaliser.push(&Record { at, cpu, current, level, what }, &mut self.emit);
    }

    fn tracepoint(&mut self, origin: Origin, plan: &Plan, raw: &[u8]) {
        if plan.kind == Kind::NewTask {
            self.newborn.note(plan.newborn(raw));
            return;
        }
        let Ok(what) = self.loopback.read(plan, raw) else { return self.unreadable += 1 };
        let Some(mut what) = what else { return };
        let here = Origin { current: plan.current(raw), level: plan.level(raw), ..origin };
        match &mut what {
            Tracepoint::Fork { parent, child, child_tgid, comm, .. } => {
                *child_tgid = self.process_of_child(*parent, *child);
                self.names.learn(*child, *comm);
            }
            // The number may have been another thread's before.
            Tracepoint::WakeupNew { target } => {
                self.names.forget(*target);
                self.rename(here, *target, plan.comm(raw));
            }
            Tracepoint::Switch { prev: tid, .. }
            | Tracepoint::Waking { target: tid }
            | Tracepoint::Wakeup { target: tid } => self.rename(here, *tid, plan.comm(raw)),
            Tracepoint::Rename { tid, comm } => {
                self.names.learn(*tid, *comm);
            }
            _ => {}
        }
        if let Some(current) = here.current {
            self.rename(here, current, None);
        }
        // The switch itself names the next thread.
        if let Tracepoint::Switch { next, next_comm: Some(comm), .. } = what {
            self.names.learn(next, comm);
        }
        if let Some(cpu) = plan.target_cpu(raw).filter(|_| self.normaliser.is_wakeup(plan.kind)) {
            self.normaliser.targets(here.at, cpu, &mut self.emit);
        }
        self.push(here, what);
    }

    /// A new thread's process, if the tracepoint in front noted it.
    fn process_of_child(&mut self, parent: Tid, child: Tid) -> Option<Tid> {
        let makers = || self.processes.get(&parent).copied().unwrap_or(parent);
        let process = self.newborn.process(child, makers);
        // The number may have been another thread's before.
        self.processes.remove(&child);
        self.processes.extend(process.map(|process| (child, process)));
        process
    }

    /// Emits a thread's name, if it is new: the name in the event, or for a thread without a name so far the name at the recording's end.
    fn rename(&mut self, origin: Origin, tid: Tid, comm: Option<Comm>) {
        let at_end = || self.container.comms.get(&tid).copied().filter(|_| self.names.get(tid).is_none());
        let comm = comm.or_else(at_end);
        if let Some(comm) = comm.filter(|comm| self.names.learn(tid, *comm)) {
            self.push(origin, Tracepoint::Rename { tid, comm });
        }
    }
}
