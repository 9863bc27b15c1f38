//! Conversion from items to events.

use foldhash::HashMap;
use wakepath_clock::Stamp;
use wakepath_event::{Comm, Cpu, Event, Tid};

use super::bundle::{Item, NO_STATE, What};
use super::fields::{self, What as Long};
use super::merge::{Open, Step};
use super::survey::Survey;
use crate::kind::Kind;
use crate::newborn::Newborn;
use crate::normalise::Normaliser;
use crate::thread_names::ThreadNames;
use crate::tracepoint::{Level, Origin, Record, Tracepoint};

/// Converts items, in time order, into events.
pub(super) struct Converter<'a, F> {
    pub normaliser: Normaliser,
    emit: F,
    survey: &'a Survey,
    cpus: HashMap<Cpu, CpuItems>,
    names: ThreadNames,
    /// The emitted processes, each up to the stamp at which its number may be another's.
    processes: HashMap<Tid, (Tid, u64)>,
    newborn: Newborn,
    pub unreadable: u64,
}

/// A CPU's items so far.
#[derive(Debug, Default)]
struct CpuItems {
    /// The last stamp, ns.
    last: Option<u64>,
    /// The last stamp in its bundles, read or not.
    end: Option<u64>,
    current: Option<Tid>,
}

impl<'a, F: FnMut(&Event)> Converter<'a, F> {
    pub fn new(survey: &'a Survey, normaliser: Normaliser, emit: F) -> Self {
        Self {
            normaliser,
            emit,
            survey,
            cpus: HashMap::default(),
            names: ThreadNames::default(),
            processes: HashMap::default(),
            newborn: Newborn::default(),
            unreadable: 0,
        }
    }

    pub fn step(&mut self, step: Step<'_>) {
        match step {
            Step::Begin(open) => self.begin(open),
            Step::Event(open, item) => self.item(open, item),
            Step::End(open) => {
                let last = open.bundle.items.last().map(|item| item.at);
                if let (Some(mut from), Some(at)) = (open.bundle.incomplete, last) {
                    // Its losses in front are not emitted yet.
                    if open.left_out && open.bundle.lost {
                        let begin = self.survey.extent.map_or(0, |extent| extent.0);
                        from = self.cpus.get(&open.bundle.cpu).and_then(|cpu| cpu.last).unwrap_or(begin);
                    }
                    self.lose(open.bundle.cpu, from, at);
                }
            }
        }
    }

    /// Ends the trace.
    pub fn finish(&mut self) {
        let (from, to) = self.survey.extent.unwrap_or_default();
        for &cpu in &self.survey.gaps {
            let last = self.cpus.get(&Cpu(cpu)).and_then(|cpu| cpu.last).unwrap_or(from);
            self.lose(Cpu(cpu), last, to);
        }
        self.normaliser.finish((Stamp::from_ns(from), Stamp::from_ns(to)), &mut self.emit);
    }

    /// Emits the losses in front of a bundle: noted losses, and missing bundles.
    fn begin(&mut self, open: &Open) {
        let bundle = &open.bundle;
        let begin = self.survey.extent.map_or(0, |extent| extent.0);
        let cpu = self.cpus.entry(bundle.cpu).or_default();
        let (last, seen) = (cpu.last.unwrap_or(begin), cpu.end.unwrap_or(begin));
        cpu.end = cpu.end.max(bundle.end);
        let Some(first) = bundle.items.first().filter(|_| !open.left_out) else { return };
        // The bundle in front was overwritten in Perfetto's buffer.
        if bundle.lost || bundle.previous_end.is_some_and(|end| end > seen) {
            self.lose(bundle.cpu, last, first.at);
        }
    }

    fn lose(&mut self, cpu: Cpu, from: u64, at: u64) {
        self.cpus.entry(cpu).or_default().current = None;
        let from = Stamp::from_ns(from.min(at));
        let here = Origin { at: Stamp::from_ns(at), cpu, current: None, level: None };
        self.push(here, Tracepoint::Lost { from, count: 0 });
    }

    fn push(&mut self, Origin { at, cpu, current, level }: Origin, what: Tracepoint<'_>) {
        self.normaliser.push(&Record { at, cpu, current, level, what }, &mut self.emit);
    }

    fn item(&mut self, open: &Open, Item { at, what }: Item) {
        if open.left_out {
            return;
        }
        let cpu = open.bundle.cpu;
        let items = self.cpus.entry(cpu).or_default();
        items.last = items.last.max(Some(at));
        let here = Origin { at: Stamp::from_ns(at), cpu, current: items.current, level: None };
        match what {
            What::Switch { prev_state, next, name } => {
                let comm = open.bundle.name(name);
                self.switch(here, (None, prev_state), (Tid(next), comm));
            }
            What::Waking { target, cpu: target_cpu, flags, name } => {
                let level = flags.map(|flags| Level::from_flags(flags.into()));
                let target_cpu = Some(target_cpu).filter(|&cpu| cpu != u32::MAX);
                self.wake(
                    Kind::Waking,
                    Origin { level, ..here },
                    target_cpu,
                    (Tid(target), open.bundle.name(name)),
                );
            }
            What::Nothing => {}
            What::Event { from, to } => {
                let event = open.packet.get(from as usize..to as usize);
                let x86 = self.survey.machine == "x86_64";
                let Some(read) = event.and_then(|event| fields::read(event, x86)) else {
                    self.unreadable += 1;
                    return;
                };
                let here = Origin { current: read.current.or(here.current), level: read.level, ..here };
                self.event(here, read);
            }
        }
    }

    fn switch(
        &mut self,
        here: Origin,
        (prev, prev_state): (Option<Tid>, i64),
        (next, comm): (Tid, Option<Comm>),
    ) {
        self.cpus.entry(here.cpu).or_default().current = Some(next);
        if let Some(comm) = comm {
            self.names.learn(next, comm);
        }
        let Some(prev) = prev.or(here.current).filter(|_| prev_state != NO_STATE) else {
            // The short form does not name the previous thread, or the previous thread left unseen.
            let here = Origin { current: Some(next), ..here };
            return match comm.filter(|_| next != Tid::IDLE) {
                Some(comm) => self.push(here, Tracepoint::Rename { tid: next, comm }),
                None => self.normaliser.set_current(here.cpu, next),
            };
        };
        self.introduce(here, prev);
        self.push(here, Tracepoint::Switch { prev, prev_state, next, next_comm: comm });
    }

    fn wake(
        &mut self,
        kind: Kind,
        here: Origin,
        target_cpu: Option<u32>,
        (target, comm): (Tid, Option<Comm>),
    ) {
        self.rename(here, target, comm);
        if let Some(cpu) = target_cpu.filter(|_| self.normaliser.is_wakeup(kind)) {
            self.normaliser.targets(here.at, Cpu::numbered(cpu), &mut self.emit);
        }
        let what = match kind {
            Kind::Waking => Tracepoint::Waking { target },
            Kind::Wakeup => Tracepoint::Wakeup { target },
            _ => Tracepoint::WakeupNew { target },
        };
        self.push(here, what);
    }

    fn event(&mut self, here: Origin, read: fields::Read<'_>) {
        let mut what = match read.what {
            Long::Tracepoint(what) => what,
            Long::NewTask(tid, in_process) => {
                self.newborn.note(Some((tid, in_process)));
                return;
            }
        };
        match &mut what {
            Tracepoint::Switch { prev, prev_state, next, next_comm } => {
                self.rename(here, *prev, read.comm);
                return self.switch(here, (Some(*prev), *prev_state), (*next, *next_comm));
            }
            Tracepoint::Waking { target }
            | Tracepoint::Wakeup { target }
            | Tracepoint::WakeupNew { target } => {
                return self.wake(read.kind, here, read.target_cpu, (*target, read.comm));
            }
            Tracepoint::Fork { parent, child, child_tgid, comm, .. } => {
                *child_tgid = self.process_of_child(here.at.ns(), *parent, *child);
                self.names.learn(*child, *comm);
            }
            Tracepoint::Rename { tid, comm } => {
                self.names.learn(*tid, *comm);
            }
            _ => {}
        }
        if let Some(current) = here.current {
            self.cpus.entry(here.cpu).or_default().current = Some(current);
            self.introduce(here, current);
        }
        self.push(here, what);
    }

    /// A new thread's process: by the event in front, or as the tracer found it later.
    fn process_of_child(&mut self, at: u64, parent: Tid, child: Tid) -> Option<Tid> {
        let later =
            self.survey.threads.get(&child).and_then(|found| found.iter().find(|found| found.at >= at));
        let makers = || self.processes.get(&parent).map_or(parent, |known| known.0);
        let noted = self.newborn.process(child, makers);
        let process = noted.or(later.map(|found| found.tgid));
        self.processes.remove(&child);
        if let Some(process) = process {
            let next = later.and_then(|found| self.next_found(child, found.at));
            self.processes.insert(child, (process, next.unwrap_or(u64::MAX)));
        }
        process
    }

    /// The stamp at which a thread's number is found again.
    fn next_found(&self, tid: Tid, at: u64) -> Option<u64> {
        self.survey.threads.get(&tid)?.iter().find(|found| found.at > at).map(|found| found.at)
    }

    /// Emits a thread's process at its first event, and again where the number is another thread's.
    fn introduce(&mut self, here: Origin, tid: Tid) {
        let at = here.at.ns();
        if tid == Tid::IDLE || self.processes.get(&tid).is_some_and(|&(_, until)| at < until) {
            return;
        }
        let Some(all) = self.survey.threads.get(&tid) else { return };
        let Some(found) = all.iter().rfind(|found| found.at <= at).or(all.first()) else { return };
        let until = self.next_found(tid, found.at.max(at)).unwrap_or(u64::MAX);
        let before = self.processes.insert(tid, (found.tgid, until));
        if before.is_some_and(|(tgid, _)| tgid == found.tgid) {
            return;
        }
        let comm = self.names.get(tid).or(found.comm).unwrap_or_default();
        self.names.learn(tid, comm);
        let what = Tracepoint::Thread {
            tid,
            tgid: found.tgid,
            parent: found.parent,
            ns_tid: None,
            comm,
            kernel: found.kernel,
            blocked: false,
        };
        self.push(here, what);
    }

    /// Emits a thread's name, if it is new.
    fn rename(&mut self, here: Origin, tid: Tid, comm: Option<Comm>) {
        if let Some(comm) = comm.filter(|comm| self.names.learn(tid, *comm)) {
            self.push(here, Tracepoint::Rename { tid, comm });
        }
    }
}
