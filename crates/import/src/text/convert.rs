//! Conversion from lines to events.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use wakepath_clock::Stamp;
use wakepath_event::{Comm, Cpu, Event, Tid};

use super::fields::{self, Fields, What};
use super::head::{Form, Head, Line};
use super::order::{Late, Waiting};
use super::survey::Unreadable;
use crate::kind::Kind;
use crate::newborn::Newborn;
use crate::normalise::Normaliser;
use crate::thread_names::ThreadNames;
use crate::tracepoint::{Origin, Record, Tracepoint};

/// Converts lines, in time order, into events.
pub(super) struct Converter<F> {
    pub normaliser: Normaliser,
    emit: F,
    /// The text's first and last stamps, ns.
    extent: (u64, u64),
    /// By CPU.
    cpus: HashMap<u32, CpuLines, FixedState>,
    /// The threads' emitted names.
    names: ThreadNames,
    /// The threads whose process is emitted or known.
    processes: HashMap<Tid, Tid, FixedState>,
    newborn: Newborn,
    now: u64,
    pub late: Unreadable,
}

/// A CPU's lines so far.
#[derive(Debug, Default)]
struct CpuLines {
    /// The last line's stamp, ns.
    last: Option<u64>,
    /// Late lines since the last line in its place: the oldest stamp, and their number.
    late: Option<(u64, u64)>,
}

impl<F: FnMut(&Event)> Converter<F> {
    pub fn new(normaliser: Normaliser, extent: (u64, u64), emit: F) -> Self {
        Self {
            normaliser,
            emit,
            extent,
            cpus: HashMap::default(),
            names: ThreadNames::default(),
            processes: HashMap::default(),
            newborn: Newborn::default(),
            now: extent.0,
            late: Unreadable::default(),
        }
    }

    /// Takes the next line by time.
    pub fn line(&mut self, line: &Waiting) {
        let Line::Event(head) = Line::read(&line.line, false) else { return };
        let Some(cpu) = head.cpu else { return };
        self.now = head.at;
        let of_cpu = self.cpus.entry(cpu).or_default();
        let (last, late) = (of_cpu.last.replace(head.at), of_cpu.late.take());
        let begin = last.unwrap_or(self.extent.0);
        if let Some((from, count)) = late {
            self.lose(cpu, from, count);
        }
        if let Some(count) = line.lost {
            self.lose(cpu, begin, count);
        }
        if let Some(count) = head.lost() {
            return self.lose(cpu, begin, count);
        }
        let Some((kind, call)) = Kind::from_line(&head) else { return };
        let Some(fields) = fields::read(kind, call, &head) else { return };
        self.tracepoint(kind, &head, Cpu::numbered(cpu), fields);
    }

    /// Takes a late line: its CPU's state is unknown from there to its next line.
    pub fn late(&mut self, Late(line): Late) {
        let Line::Event(head) = Line::read(&line.line, false) else { return };
        let Some(cpu) = head.cpu else { return };
        self.late.note(line.number);
        let (from, count) = self.cpus.entry(cpu).or_default().late.get_or_insert((head.at, 0));
        *from = head.at.min(*from);
        *count += 1;
    }

    /// Ends with these losses behind the CPUs' last lines.
    pub fn finish(&mut self, lost: impl IntoIterator<Item = (u32, u64)>) {
        self.now = self.extent.1.max(self.now);
        for (cpu, count) in lost {
            let last = self.cpus.get(&cpu).and_then(|lines| lines.last);
            self.lose(cpu, last.unwrap_or(self.extent.0), count);
        }
        let mut late: Vec<_> =
            self.cpus.iter().filter_map(|(&cpu, lines)| lines.late.map(|late| (cpu, late))).collect();
        late.sort_unstable();
        for (cpu, (from, count)) in late {
            self.lose(cpu, from, count);
        }
        let extent = (Stamp::from_ns(self.extent.0), Stamp::from_ns(self.now));
        self.normaliser.finish(extent, &mut self.emit);
    }

    fn lose(&mut self, cpu: u32, from: u64, count: u64) {
        let (at, cpu) = (Stamp::from_ns(self.now), Cpu::numbered(cpu));
        let from = Stamp::from_ns(from.min(self.now));
        self.push(Origin { at, cpu, current: None, level: None }, Tracepoint::Lost { from, count });
    }

    fn push(&mut self, Origin { at, cpu, current, level }: Origin, what: Tracepoint<'_>) {
        self.normaliser.push(&Record { at, cpu, current, level, what }, &mut self.emit);
    }

    fn tracepoint(&mut self, kind: Kind, head: &Head<'_>, cpu: Cpu, fields: Fields<'_>) {
        let at = Stamp::from_ns(head.at);
        let here = Origin { at, cpu, current: head.current, level: head.level };
        let mut what = match fields.what {
            What::Tracepoint(what) => what,
            What::NewTask(tid, in_process) => {
                self.newborn.note(Some((tid, in_process)));
                return;
            }
        };
        match &mut what {
            Tracepoint::Fork { parent, child, child_tgid, comm, .. } => {
                *child_tgid = self.process_of_child(*parent, *child);
                self.names.learn(*child, *comm);
            }
            // The number may have been another thread's before.
            Tracepoint::WakeupNew { target } => {
                self.names.forget(*target);
                self.rename(here, *target, fields.comm);
            }
            Tracepoint::Switch { prev: tid, .. }
            | Tracepoint::Waking { target: tid }
            | Tracepoint::Wakeup { target: tid } => self.rename(here, *tid, fields.comm),
            Tracepoint::Rename { tid, comm } => {
                self.names.learn(*tid, *comm);
            }
            _ => {}
        }
        if let Some(current) = here.current {
            self.introduce(here, head, current);
        }
        // The switch itself names the next thread.
        if let Tracepoint::Switch { next, next_comm: Some(comm), .. } = what {
            self.names.learn(next, comm);
        }
        if let Some(target) = fields.target_cpu.filter(|_| self.normaliser.is_wakeup(kind)) {
            self.normaliser.targets(at, target, &mut self.emit);
        }
        self.push(here, what);
    }

    /// A new thread's process, if the tracepoint in front noted it.
    fn process_of_child(&mut self, parent: Tid, child: Tid) -> Option<Tid> {
        let makers = || self.processes.get(&parent).copied().unwrap_or(parent);
        let process = self.newborn.process(child, makers);
        self.processes.remove(&child);
        self.processes.extend(process.map(|process| (child, process)));
        process
    }

    /// Emits the current thread's process, where the head has it, or else its name, at the thread's first event.
    fn introduce(&mut self, origin: Origin, head: &Head<'_>, tid: Tid) {
        let is_name = !head.comm.is_empty() && head.form != Form::Latency && head.comm != b"<...>";
        let comm = is_name.then(|| Comm::new(head.comm));
        let Some(process) = head.process.filter(|_| tid != Tid::IDLE && !self.processes.contains_key(&tid))
        else {
            // The head may have a later name.
            return self.rename(origin, tid, comm.filter(|_| self.names.get(tid).is_none()));
        };
        self.processes.insert(tid, process);
        let comm = self.names.get(tid).or(comm).unwrap_or_default();
        self.names.learn(tid, comm);
        let what = Tracepoint::Thread {
            tid,
            tgid: process,
            parent: Tid::IDLE,
            ns_tid: None,
            comm,
            kernel: false,
            blocked: false,
        };
        self.push(origin, what);
    }

    /// Emits the thread's name in an event's fields, if it is new.
    fn rename(&mut self, origin: Origin, tid: Tid, comm: Option<Comm>) {
        if let Some(comm) = comm.filter(|comm| self.names.learn(tid, *comm)) {
            self.push(origin, Tracepoint::Rename { tid, comm });
        }
    }
}
