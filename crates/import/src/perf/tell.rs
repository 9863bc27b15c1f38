//! From a file's records to events.

use std::collections::{HashMap, HashSet};

use foldhash::fast::FixedState;
use wakepath_clock::{Local, Stamp};
use wakepath_event::{Comm, Context, Cpu, Event, EventKind, Mapping, Stack, StackId, Tid};

use super::open::{Asked, PerfData};
use super::records::{Head, RecordKind};
use super::runs::Gap;
use crate::DamageKind;
use crate::loopback::Loopback;
use crate::normalise::Normaliser;
use crate::plan::{Kind, Plan};
use crate::tracepoint::{Record, Tracepoint};

/// Tells a file's records, which come by stamp, as events.
pub(super) struct Teller<'a, S, F> {
    file: &'a PerfData<S>,
    normaliser: Normaliser,
    tell: F,
    gaps: std::slice::Iter<'a, Gap>,
    /// When each CPU was last heard of.
    heard: HashMap<u16, Stamp<Local>, FixedState>,
    /// Who was there before, as perf found them, and has not done anything yet. How they wait, if they
    /// do, nobody tells: so they are told of when they first do something, and not before.
    strangers: HashMap<Tid, Stranger, FixedState>,
    comms: HashMap<Tid, Comm, FixedState>,
    /// Stacks that were told.
    stacks: HashSet<StackId, FixedState>,
    loopback: Loopback,
    /// Records lost of each CPU: as told where they were, and in all.
    lost: HashMap<u16, (u64, u64), FixedState>,
    now: Stamp<Local>,
    /// Records that made no sense.
    pub unreadable: u64,
    /// Why the first of them did not.
    pub why: Option<&'static str>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Stranger {
    tgid: Option<Tid>,
    parent: Tid,
    comm: Comm,
}

/// The thread that makes kernel threads.
const KTHREADD: Tid = Tid(2);

/// Most stacks that are known again.
const MAX_STACKS: usize = 1 << 20;

/// Where and when a record was made, and by whom.
#[derive(Debug, Clone, Copy)]
struct Place {
    at: Stamp<Local>,
    cpu: Cpu,
    current: Option<Tid>,
}

impl<'a, S, F: FnMut(&Event)> Teller<'a, S, F> {
    pub fn new(file: &'a PerfData<S>, normaliser: Normaliser, gaps: &'a [Gap], tell: F) -> Self {
        Self {
            file,
            normaliser,
            tell,
            gaps: gaps.iter(),
            heard: HashMap::default(),
            strangers: HashMap::default(),
            comms: HashMap::default(),
            stacks: HashSet::default(),
            loopback: Loopback::default(),
            lost: HashMap::default(),
            now: Stamp::from_ns(file.first()),
            unreadable: 0,
            why: None,
        }
    }

    /// Takes the next record, with its stamp.
    pub fn record(&mut self, at: u64, head: Head, body: &[u8]) {
        self.gaps_to(at);
        let told = match self.file.decoder().decode(head, body) {
            Ok(told) => told,
            Err(why) => return self.cannot(why),
        };
        // What comes before the first stamp was there before.
        self.now = self.now.max(Stamp::from_ns(at));
        let place = Place {
            at: self.now,
            cpu: told.cpu.map_or(Cpu::UNKNOWN, Cpu::numbered),
            current: told.tid.map(Tid),
        };
        match told.what {
            RecordKind::Sample { attribute, ip, chain, raw, misc } => {
                let stack = || stack(told.pid.map(Tid), ip, chain, misc);
                match &self.file.asked()[attribute] {
                    Asked::Tracepoint(plan) => {
                        let chain = (!chain.is_empty()).then(stack);
                        self.tracepoint(place, plan, raw, chain);
                    }
                    Asked::Running => match place.current {
                        Some(tid) if tid != Tid::IDLE => {
                            self.push(place, Tracepoint::Sample(stack()));
                            self.meet(place, tid);
                        }
                        _ => {}
                    },
                    Asked::Other => {}
                }
            }
            RecordKind::Comm { tid: 0, .. } | RecordKind::Fork { tid: 0, .. } => {}
            RecordKind::Comm { pid, tid, name, .. } if told.at.is_none() => {
                let stranger = self.strangers.entry(Tid(tid)).or_default();
                (stranger.tgid, stranger.comm) = (Some(Tid(pid)), Comm::new(name));
                self.comms.insert(Tid(tid), Comm::new(name));
            }
            RecordKind::Fork { pid, parent, tid, .. } if told.at.is_none() => {
                let stranger = self.strangers.entry(Tid(tid)).or_default();
                (stranger.tgid, stranger.parent) = (Some(Tid(pid)), Tid(parent));
            }
            RecordKind::Comm { tid, name, exec, .. } => {
                let (tid, comm) = (Tid(tid), Comm::new(name));
                self.comms.insert(tid, comm);
                if exec && !self.file.seen().execs {
                    self.push(place, Tracepoint::Exec { tid: Some(tid), old: None, path: name });
                } else {
                    self.push(place, Tracepoint::Rename { tid, comm });
                }
            }
            RecordKind::Fork { pid, tid, forker, .. } => {
                let (tid, forker) = (Tid(tid), Tid(forker));
                self.strangers.remove(&tid);
                self.forks(place, forker);
                let comm = self.comms.get(&forker).copied().unwrap_or_default();
                self.comms.insert(tid, comm);
                let child_tgid = Some(Tid(pid));
                let birth =
                    Tracepoint::Fork { parent: forker, child: tid, child_tgid, child_ns_tid: None, comm };
                self.push(place, birth);
            }
            RecordKind::Exit { tid } => {
                self.comms.remove(&Tid(tid));
                if !self.file.seen().exits {
                    self.push(place, Tracepoint::Exit { tid: Tid(tid) });
                }
            }
            RecordKind::Code { pid, from, len, offset, build_id, path } => {
                let build_id = if build_id.is_empty() { self.file.build_id(path) } else { &build_id };
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
                let told = &mut self.lost.entry(place.cpu.0).or_default().0;
                *told = told.saturating_add(count);
                let from = self.heard.get(&place.cpu.0).copied().unwrap_or(Stamp::from_ns(self.file.first()));
                let what = Tracepoint::Lost { from: from.min(place.at), count };
                self.push(Place { current: None, ..place }, what);
            }
            RecordKind::LostInAll { id, count } => {
                let cpu = id.and_then(|id| self.file.cpu_of(id)).map_or(Cpu::UNKNOWN, Cpu::numbered);
                let all = &mut self.lost.entry(cpu.0).or_default().1;
                *all = all.saturating_add(count);
            }
            RecordKind::Numbers(_) | RecordKind::Other => return,
        }
        if told.at.is_some() {
            self.heard.insert(place.cpu.0, place.at);
        }
    }

    /// All records were told.
    pub fn finish(&mut self) {
        self.gaps_to(u64::MAX);
        let at = self.now;
        let mut lost: Vec<_> = self.lost.iter().map(|(&cpu, &(told, all))| (cpu, told, all)).collect();
        lost.sort_unstable();
        for (cpu, told, all) in lost {
            // The kernel notes a loss when it finds room again; of the last one, only their number tells.
            if all > told {
                let from = self.heard.get(&cpu).copied().unwrap_or(Stamp::from_ns(self.file.first()));
                let what = Tracepoint::Lost { from: from.min(at), count: all - told };
                self.push(Place { at, cpu: Cpu(cpu), current: None }, what);
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

    fn cannot(&mut self, why: &'static str) {
        self.unreadable += 1;
        self.why.get_or_insert(why);
    }

    fn event(&mut self, cpu: Cpu, current: Tid, what: EventKind) {
        (self.tell)(&Event { at: self.now, cpu, context: Context::Task, current, kind: what });
    }

    fn push(&mut self, Place { at, cpu, current }: Place, what: Tracepoint<'_>) {
        self.normaliser.push(&Record { at, cpu, current, what }, &mut self.tell);
    }

    fn gaps_to(&mut self, at: u64) {
        while let Some(gap) = self.gaps.as_slice().first().filter(|gap| gap.to <= at) {
            self.gaps.next();
            self.now = self.now.max(Stamp::from_ns(gap.to));
            let place = Place { at: self.now, cpu: Cpu::numbered(gap.cpu), current: None };
            self.push(place, Tracepoint::Lost { from: Stamp::from_ns(gap.from), count: 0 });
        }
    }

    fn tracepoint(&mut self, mut place: Place, plan: &Plan, raw: &[u8], stack: Option<Stack>) {
        let seen = self.file.seen();
        match plan.kind {
            // perf's own records tell the same, and more of it.
            Kind::Fork if seen.births => return,
            Kind::Rename if seen.names => return,
            _ => {}
        }
        let Ok(what) = self.loopback.read(plan, raw) else {
            return self.cannot("a tracepoint's fields make no sense");
        };
        let Some(what) = what else { return };
        place.current = plan.current(raw).or(place.current);
        if let Tracepoint::Fork { parent, .. } = what {
            self.forks(place, parent);
        }
        let (also, counts) = match what {
            Tracepoint::Switch { next, .. } => (Some(next), true),
            Tracepoint::Waking { target } => (Some(target), seen.wakings),
            Tracepoint::Wakeup { target } => (Some(target), !seen.wakings),
            _ => (None, false),
        };
        let switched = matches!(what, Tracepoint::Switch { .. });
        self.push(place, what);
        if let Some(stack) = stack.filter(|_| counts) {
            let id = stack.id();
            if self.stacks.len() < MAX_STACKS && self.stacks.insert(id) {
                self.event(place.cpu, place.current.unwrap_or_default(), EventKind::Stack(stack));
            }
            match place.current {
                // The normaliser has another thread there now.
                Some(current) if switched => self.event(place.cpu, current, EventKind::StackOf(id)),
                _ => self.push(place, Tracepoint::StackOf(id)),
            }
        }
        // Behind a switch, another thread is current.
        let behind = Place { current: None, ..place };
        for tid in place.current.into_iter().chain(also) {
            self.meet(behind, tid);
        }
    }

    /// A thread that gives birth may be a stranger still, and the newborn's parent is its process.
    fn forks(&mut self, place: Place, forker: Tid) {
        if self.strangers.contains_key(&forker) {
            self.event(place.cpu, forker, EventKind::Current);
            self.meet(Place { current: Some(forker), ..place }, forker);
        }
    }

    /// A thread did something.
    fn meet(&mut self, place: Place, tid: Tid) {
        let Some(Stranger { tgid, parent, comm }) = self.strangers.remove(&tid) else { return };
        let what = Tracepoint::Thread {
            tid,
            tgid: tgid.unwrap_or(tid),
            parent,
            ns_tid: None,
            comm,
            kernel: tid == KTHREADD || parent == KTHREADD,
            blocked: false,
        };
        self.push(place, what);
    }
}

/// What a call chain says where its parts begin: words that are no addresses.
const MIN_MARK: u64 = (-4095_i64) as u64;
const KERNEL: u64 = (-128_i64) as u64;
const USER: u64 = (-512_i64) as u64;
/// Where a sample was taken, in the low bits of a record's `misc`.
const MODE: u16 = 7;
const IN_KERNEL: u16 = 1;
const IN_USER: u16 = 2;

/// The stack of a sample: its call chain, and where none was recorded the one address.
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
    Stack { tgid: tgid.unwrap_or_default(), kernel: kernel.into(), user: user.into(), scanned: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_is_told_apart_at_its_marks() {
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
            // Without a chain, or without the part that it was taken in, the address itself.
            (&[], 0x10, IN_USER, &[], &[0x10]),
            (&[], 0x9000, IN_KERNEL, &[0x9000], &[]),
            (&[-128, 0x9000], 0x10, IN_USER, &[0x9000], &[0x10]),
            // A guest's are nobody's here.
            (&[-2560, 0x77], 0x77, 5, &[], &[]),
            (&[0x55], 0x55, 0, &[], &[]),
        ] {
            let found = stack(Some(Tid(7)), Some(ip), &chain(words), misc);
            assert_eq!((&*found.kernel, &*found.user), (kernel, user), "{words:x?}");
        }
    }
}
