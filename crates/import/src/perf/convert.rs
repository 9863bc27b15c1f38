//! Conversion from `perf.data` records to events.

use std::collections::{HashMap, HashSet};

use foldhash::fast::FixedState;
use wakepath_clock::{Local, Stamp};
use wakepath_event::{Comm, Context, Cpu, Event, EventKind, Mapping, Stack, StackId, Tid};

use super::contents::{Contents, EventRole};
use super::records::{RecordHead, RecordKind};
use super::runs::Gap;
use crate::kind::Kind;
use crate::loopback::Loopback;
use crate::normalise::{KTHREADD, Normaliser};
use crate::plan::Plan;
use crate::tracepoint::{Origin, Record, Tracepoint};

/// Converts a file's records, in stamp order, into events.
pub(super) struct Converter<'a, F> {
    contents: &'a Contents,
    pub normaliser: Normaliser,
    emit: F,
    gaps: std::slice::Iter<'a, Gap>,
    /// By CPU, the last record's stamp.
    last_seen: HashMap<u16, Stamp<Local>, FixedState>,
    /// Threads that perf found when it began, without an event so far. Their kind of wait is unknown, so each is
    /// introduced at its first event.
    waiting: HashMap<Tid, WaitingThread, FixedState>,
    comms: HashMap<Tid, Comm, FixedState>,
    /// Emitted stacks.
    stacks: HashSet<StackId, FixedState>,
    loopback: Loopback,
    /// By CPU, the number of lost records: noted at the loss, and in total.
    lost: HashMap<u16, (u64, u64), FixedState>,
    now: Stamp<Local>,
    /// Meaningless records.
    pub unreadable: u64,
    /// The first such record's fault.
    pub why: Option<&'static str>,
}

#[derive(Debug, Clone, Copy, Default)]
struct WaitingThread {
    tgid: Option<Tid>,
    parent: Tid,
    comm: Comm,
}

/// The limit on stacks emitted once each.
const MAX_STACKS: usize = 1 << 20;

impl<'a, F: FnMut(&Event)> Converter<'a, F> {
    pub fn new(contents: &'a Contents, normaliser: Normaliser, emit: F) -> Self {
        Self {
            contents,
            normaliser,
            emit,
            gaps: contents.index.gaps.iter(),
            last_seen: HashMap::default(),
            waiting: HashMap::default(),
            comms: HashMap::default(),
            stacks: HashSet::default(),
            loopback: Loopback::default(),
            lost: HashMap::default(),
            now: Stamp::from_ns(contents.begin),
            unreadable: 0,
            why: None,
        }
    }

    /// Takes the next record, with its stamp.
    pub fn record(&mut self, at: u64, head: RecordHead, body: &[u8]) {
        self.emit_gaps(at);
        let record = match self.contents.decoder.decode(head, body) {
            Ok(record) => record,
            Err(why) => return self.skip(why),
        };
        // Records before the first stamp describe the time before the recording.
        self.now = self.now.max(Stamp::from_ns(at));
        let origin = Origin {
            at: self.now,
            cpu: record.cpu.map_or(Cpu::UNKNOWN, Cpu::numbered),
            current: record.tid.map(Tid),
            level: None,
        };
        match record.kind {
            RecordKind::Sample { attribute, ip, chain, raw, misc } => {
                let stack = || stack(record.pid.map(Tid), ip, chain, misc);
                match &self.contents.roles[attribute] {
                    EventRole::Tracepoint(plan) => {
                        let chain = (!chain.is_empty()).then(stack);
                        self.tracepoint(origin, plan, raw, chain);
                    }
                    EventRole::Running => match origin.current {
                        Some(tid) if tid != Tid::IDLE => {
                            self.push(origin, Tracepoint::Sample(stack()));
                            self.introduce(origin, tid);
                        }
                        _ => {}
                    },
                    EventRole::Other => {}
                }
            }
            RecordKind::Comm { tid: 0, .. } | RecordKind::Fork { tid: 0, .. } => {}
            RecordKind::Comm { pid, tid, name, .. } if record.at.is_none() => {
                let thread = self.waiting.entry(Tid(tid)).or_default();
                (thread.tgid, thread.comm) = (Some(Tid(pid)), Comm::new(name));
                self.comms.insert(Tid(tid), Comm::new(name));
            }
            RecordKind::Fork { pid, parent, tid, .. } if record.at.is_none() => {
                let thread = self.waiting.entry(Tid(tid)).or_default();
                (thread.tgid, thread.parent) = (Some(Tid(pid)), Tid(parent));
            }
            RecordKind::Comm { tid, name, exec, .. } => {
                let (tid, comm) = (Tid(tid), Comm::new(name));
                self.comms.insert(tid, comm);
                if exec && !self.contents.present.execs {
                    self.push(origin, Tracepoint::Exec { tid: Some(tid), old: None, path: name });
                } else {
                    self.push(origin, Tracepoint::Rename { tid, comm });
                }
            }
            RecordKind::Fork { pid, tid, forker, .. } => {
                let (tid, forker) = (Tid(tid), Tid(forker));
                self.waiting.remove(&tid);
                self.introduce_forker(origin, forker);
                let comm = self.comms.get(&forker).copied().unwrap_or_default();
                self.comms.insert(tid, comm);
                let child_tgid = Some(Tid(pid));
                let birth =
                    Tracepoint::Fork { parent: forker, child: tid, child_tgid, child_ns_tid: None, comm };
                self.push(origin, birth);
            }
            RecordKind::Exit { tid } => {
                self.comms.remove(&Tid(tid));
                if !self.contents.present.exits {
                    self.push(origin, Tracepoint::Exit { tid: Tid(tid) });
                }
            }
            RecordKind::Code { pid, from, len, offset, build_id, path } => {
                let build_id = if build_id.is_empty() { self.contents.build_id(path) } else { &build_id };
                let mapping = Mapping {
                    tgid: Tid(pid),
                    from,
                    to: from.saturating_add(len),
                    offset,
                    build_id: build_id.into(),
                    path: path.into(),
                };
                self.event(Cpu::UNKNOWN, Tid::IDLE, EventKind::Mapping(mapping));
            }
            RecordKind::Lost(count) => {
                let noted = &mut self.lost.entry(origin.cpu.0).or_default().0;
                *noted = noted.saturating_add(count);
                self.lose(Origin { current: None, ..origin }, count);
            }
            RecordKind::LostTotal { id, count } => {
                let cpu = id.and_then(|id| self.contents.cpu(id));
                let cpu = cpu.map_or(Cpu::UNKNOWN, Cpu::numbered);
                let total = &mut self.lost.entry(cpu.0).or_default().1;
                *total = total.saturating_add(count);
            }
            RecordKind::EventCpus(_) | RecordKind::Other => return,
        }
        if record.at.is_some() {
            self.last_seen.insert(origin.cpu.0, origin.at);
        }
    }

    /// Emits the gaps and losses due at the records' end.
    pub fn finish(&mut self) {
        self.emit_gaps(u64::MAX);
        let mut lost: Vec<_> = self.lost.iter().map(|(&cpu, &(noted, total))| (cpu, noted, total)).collect();
        lost.sort_unstable();
        for (cpu, noted, total) in lost {
            // The kernel notes a loss once it finds room again; the last loss shows in the total only.
            if total > noted {
                self.lose(Origin { at: self.now, cpu: Cpu(cpu), current: None, level: None }, total - noted);
            }
        }
        let from = Stamp::from_ns(self.contents.begin);
        self.normaliser.finish((from, self.now), &mut self.emit);
    }

    /// Notes lost records since the CPU's last record.
    fn lose(&mut self, origin: Origin, count: u64) {
        let first = Stamp::from_ns(self.contents.begin);
        let from = self.last_seen.get(&origin.cpu.0).copied().unwrap_or(first);
        self.push(origin, Tracepoint::Lost { from: from.min(origin.at), count });
    }

    fn skip(&mut self, why: &'static str) {
        self.unreadable += 1;
        self.why.get_or_insert(why);
    }

    fn event(&mut self, cpu: Cpu, current: Tid, what: EventKind) {
        (self.emit)(&Event { at: self.now, cpu, context: Context::Task, current, kind: what });
    }

    fn push(&mut self, Origin { at, cpu, current, level }: Origin, what: Tracepoint<'_>) {
        self.normaliser.push(&Record { at, cpu, current, level, what }, &mut self.emit);
    }

    fn emit_gaps(&mut self, at: u64) {
        while let Some(gap) = self.gaps.as_slice().first().filter(|gap| gap.to <= at) {
            self.gaps.next();
            self.now = self.now.max(Stamp::from_ns(gap.to));
            let origin = Origin { at: self.now, cpu: Cpu::numbered(gap.cpu), current: None, level: None };
            self.push(origin, Tracepoint::Lost { from: Stamp::from_ns(gap.from), count: 0 });
        }
    }

    fn tracepoint(&mut self, mut origin: Origin, plan: &Plan, raw: &[u8], stack: Option<Stack>) {
        let present = self.contents.present;
        match plan.kind {
            // perf's own records hold the same, and more.
            Kind::Fork if present.forks => return,
            Kind::Rename if present.names => return,
            _ => {}
        }
        let Ok(what) = self.loopback.read(plan, raw) else {
            return self.skip("a tracepoint's fields make no sense");
        };
        let Some(what) = what else { return };
        origin.current = plan.current(raw).or(origin.current);
        origin.level = plan.level(raw);
        if let Tracepoint::Fork { parent, .. } = what {
            self.introduce_forker(origin, parent);
        }
        let (also, counts) = match what {
            Tracepoint::Switch { next, .. } => (Some(next), true),
            Tracepoint::Waking { target } => (Some(target), present.wakings),
            Tracepoint::Wakeup { target } => (Some(target), !present.wakings),
            _ => (None, false),
        };
        let switched = matches!(what, Tracepoint::Switch { .. });
        if let Some(cpu) = plan.target_cpu(raw).filter(|_| counts && !switched) {
            self.normaliser.targets(origin.at, cpu, &mut self.emit);
        }
        self.push(origin, what);
        if let Some(stack) = stack.filter(|_| counts) {
            let id = stack.id();
            if self.stacks.len() < MAX_STACKS && self.stacks.insert(id) {
                self.event(origin.cpu, origin.current.unwrap_or_default(), EventKind::Stack(stack));
            }
            match origin.current {
                // The normaliser already has another thread there.
                Some(current) if switched => self.event(origin.cpu, current, EventKind::StackOf(id)),
                _ => self.push(origin, Tracepoint::StackOf(id)),
            }
        }
        // Behind a switch, another thread is current.
        let behind = Origin { current: None, ..origin };
        for tid in origin.current.into_iter().chain(also) {
            self.introduce(behind, tid);
        }
    }

    /// Introduces a forking thread, if due: the new thread's parent is its process.
    fn introduce_forker(&mut self, origin: Origin, forker: Tid) {
        if self.waiting.contains_key(&forker) {
            self.event(origin.cpu, forker, EventKind::Current);
            self.introduce(Origin { current: Some(forker), ..origin }, forker);
        }
    }

    /// Introduces a thread at its first event, if due.
    fn introduce(&mut self, origin: Origin, tid: Tid) {
        let Some(WaitingThread { tgid, parent, comm }) = self.waiting.remove(&tid) else { return };
        let what = Tracepoint::Thread {
            tid,
            tgid: tgid.unwrap_or(tid),
            parent,
            ns_tid: None,
            comm,
            kernel: tid == KTHREADD || parent == KTHREADD,
            blocked: false,
        };
        self.push(origin, what);
    }
}

/// The words in a call chain that begin its parts, and are no addresses.
const MIN_MARK: u64 = (-4095_i64) as u64;
const KERNEL: u64 = (-128_i64) as u64;
const USER: u64 = (-512_i64) as u64;
/// The sample's place, in the low bits of a record's `misc`.
const MODE: u16 = 7;
const IN_KERNEL: u16 = 1;
const IN_USER: u16 = 2;

/// A sample's stack: its call chain, or without a chain its single address.
fn stack(tgid: Option<Tid>, ip: Option<u64>, chain: &[u8], misc: u16) -> Stack {
    let (mut kernel, mut user) = (Vec::new(), Vec::new());
    let mut part = 0;
    for word in chain.chunks_exact(8) {
        let word = super::container::u64_at(word, 0);
        match part {
            _ if word >= MIN_MARK => part = word,
            KERNEL => kernel.push(word),
            USER => user.push(word),
            _ => {}
        }
    }
    match (misc & MODE, ip) {
        (IN_KERNEL, Some(ip)) if kernel.is_empty() => kernel.push(ip),
        (IN_USER, Some(ip)) if user.is_empty() => user.push(ip),
        _ => {}
    }
    Stack { tgid: tgid.unwrap_or_default(), kernel: kernel.into(), user: user.into(), scanned: 0, proved: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_is_divided_at_its_marks() {
        let chain = |words: &[i64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
        for (words, ip, misc, kernel, user) in [
            (
                &[-128, 0x9000, 0x9001, -512, 0x10, 0x11][..],
                0x9000,
                IN_KERNEL,
                &[0x9000, 0x9001][..],
                &[0x10, 0x11][..],
            ),
            (&[-512, 0x10], 0x10, IN_USER, &[], &[0x10]),
            // Without a chain, or without the interrupted part: the address itself.
            (&[], 0x10, IN_USER, &[], &[0x10]),
            (&[], 0x9000, IN_KERNEL, &[0x9000], &[]),
            (&[-128, 0x9000], 0x10, IN_USER, &[0x9000], &[0x10]),
            // A guest's addresses belong to no thread here.
            (&[-2560, 0x77], 0x77, 5, &[], &[]),
            (&[0x55], 0x55, 0, &[], &[]),
        ] {
            let found = stack(Some(Tid(7)), Some(ip), &chain(words), misc);
            assert_eq!((&*found.kernel, &*found.user), (kernel, user), "{words:x?}");
        }
    }
}
