//! The first pass over a `perf.data`: its kinds of records, their order, and their events.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::ops::Range;

use wakepath_clock::Stamp;
use wakepath_ctf::Source;
use wakepath_event::Cpu;

use super::container::{Attribute, End};
use super::edges::{Buffers, Edges, Seam};
use super::records::{Decoder, RecordHead, RecordKind};
use super::runs::{self, Index};
use crate::formats::Format;
use crate::kind::Kind;
use crate::normalise::StateEvidence;
use crate::plan::Plan;
use crate::tracepoint::Tracepoint;

/// The facts about a file for the conversion of its records.
#[derive(Debug)]
pub(super) struct Contents {
    pub decoder: Decoder,
    /// The events' roles, by attribute index.
    pub roles: Vec<EventRole>,
    pub index: Index,
    /// The recording's begin, ns: the first event, since perf notes facts about processes before it records events. Single
    /// threads have events from their first record on.
    pub begin: u64,
    pub present: Present,
    /// Each event's CPU, by the event's id.
    cpus: HashMap<u64, u32>,
    /// The CPUs with a sample.
    sampled: BTreeSet<u16>,
    /// Noted only where the file's table does not decide the meaning of the states.
    pub evidence: StateEvidence,
    /// Empty without other parts.
    pub edges: Edges,
    build_ids: HashMap<Box<[u8]>, Box<[u8]>>,
}

/// A recorded event's use.
#[derive(Debug)]
pub(super) enum EventRole {
    Tracepoint(Plan),
    /// Sampled by time: at a hit, a thread is running.
    Running,
    Other,
}

impl EventRole {
    pub fn new(attribute: &Attribute, plan: Option<Plan>) -> Self {
        const HARDWARE: u32 = 0;
        const SOFTWARE: u32 = 1;
        match (attribute.kind, attribute.config & 0xff) {
            _ if plan.is_some() => plan.map_or(Self::Other, Self::Tracepoint),
            // Cycles, and reference cycles; the CPU's clock, and the task's.
            (HARDWARE, 0 | 9) | (SOFTWARE, 0 | 1) => Self::Running,
            _ => Self::Other,
        }
    }
}

/// The kinds of records really in the file; a requested event may never have been hit.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Present {
    pub switches: bool,
    /// `PERF_RECORD_SWITCH` and `PERF_RECORD_SWITCH_CPU_WIDE`.
    pub switch_records: bool,
    /// `sched_waking`.
    pub wakings: bool,
    /// Tracepoints.
    pub execs: bool,
    pub exits: bool,
    /// perf's own records.
    pub forks: bool,
    pub names: bool,
    /// Some events were recorded for single threads only.
    pub threads: bool,
    pub compressed: bool,
}

/// The facts to note in the first pass beyond the records' order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    /// Evidence for the states' meaning.
    pub evidence: bool,
    /// The edges between parts.
    pub edges: bool,
}

impl Contents {
    /// Walks through all records in `data` once.
    pub fn read(
        source: &impl Source,
        (data, end): (&Range<u64>, &End),
        attributes: &[Attribute],
        decoder: Decoder,
        formats: &HashMap<u64, Format>,
        wanted: Wanted,
    ) -> io::Result<Self> {
        let plan =
            |one: &Attribute| formats.get(&one.config).filter(|_| one.is_tracepoint()).and_then(Plan::new);
        let roles: Vec<_> = attributes.iter().map(|one| EventRole::new(one, plan(one))).collect();
        let (mut present, mut cpus, mut sampled) = (Present::default(), HashMap::new(), BTreeSet::new());
        let (mut evidence, mut edges) = (StateEvidence::default(), Edges::default());
        let mut first_sample: Option<u64> = None;
        let mut build_ids = HashMap::new();
        let index = runs::index(source, data, end, &decoder, |_, head, body, key| {
            if head.is_build_id() {
                build_ids.extend(read_build_id(head, body));
            }
            present.compressed |= head.is_compressed();
            present.switch_records |= head.is_switch();
            if let Some(at) = key.at.filter(|_| head.is_sample()) {
                first_sample = Some(first_sample.map_or(at, |first| first.min(at)));
                sampled.extend(key.cpu.map(|cpu| Cpu::numbered(cpu).0));
            }
            match key.attribute.map(|attribute| &roles[attribute]).filter(|_| head.is_sample()) {
                Some(EventRole::Tracepoint(plan)) => {
                    present.note(plan.kind);
                    let shows = wanted.evidence && plan.kind.shows_states();
                    let meets = wanted.edges && plan.kind == Kind::Switch;
                    let mut switch = None;
                    if (shows || meets)
                        && let Ok(RecordKind::Sample { raw, .. }) =
                            decoder.decode(head, body).map(|one| one.kind)
                        && let (Some(at), Some(what)) = (key.at, plan.read(raw))
                    {
                        if shows {
                            evidence.observe(Stamp::from_ns(at), &what);
                        }
                        if let Tracepoint::Switch { prev, next, .. } = what {
                            switch = Some((prev, next));
                        }
                    }
                    if let (true, Some(at), Some(cpu)) = (wanted.edges, key.at, key.cpu) {
                        edges.see(cpu, at, switch);
                    }
                }
                Some(_) => {}
                // Records made up by perf, without a stamp, describe the time before the recording.
                None => match decoder.decode(head, body).map(|record| (record.at, record.kind)) {
                    Ok((Some(_), RecordKind::Fork { .. })) => present.forks = true,
                    Ok((Some(_), RecordKind::Comm { .. })) => present.names = true,
                    Ok((_, RecordKind::EventCpus(events))) => {
                        for (id, cpu, thread) in events {
                            present.threads |= thread >= 0;
                            cpus.extend(u32::try_from(cpu).ok().map(|cpu| (id, cpu)));
                        }
                    }
                    _ => {}
                },
            }
        })?;
        let begin = first_sample.filter(|_| !present.threads).unwrap_or(index.first);
        Ok(Self { decoder, roles, index, begin, present, cpus, sampled, evidence, edges, build_ids })
    }

    /// Adds the next part's records, which stand at `from` in the whole sequence; returns how the parts meet.
    pub fn follow(&mut self, next: Self, from: u64, overwritten: bool) -> Seam {
        let buffers = match (overwritten, self.present.threads) {
            (true, _) => Buffers::Overwritten,
            (_, true) => Buffers::Threads,
            _ => Buffers::Whole,
        };
        let mut seam = self.edges.meet(&next.edges, buffers);
        self.edges.follow(next.edges);
        let restates = matches!(seam, Seam::Missing(_));
        self.index.follow(next.index, from, restates);
        if let Seam::Missing(gaps) = &mut seam {
            self.index.gaps.extend(gaps.iter());
            self.index.gaps.sort_unstable();
        }
        self.begin = self.begin.min(next.begin);
        self.present.add(next.present);
        self.cpus.extend(next.cpus);
        self.sampled.extend(next.sampled);
        self.evidence.add(next.evidence);
        self.build_ids.extend(next.build_ids);
        seam
    }

    /// The CPU on which the event with this id is recorded, as perf says.
    pub fn cpu(&self, id: u64) -> Option<u32> {
        self.cpus.get(&id).copied()
    }

    /// The number of CPUs, by the largest.
    pub fn cpu_count(&self) -> usize {
        self.cpus.values().max().map_or(1, |&cpu| cpu as usize + 1)
    }

    /// The CPUs whose events are in the file; none if that is not known, such as for single threads, whose events are
    /// recorded on all CPUs.
    ///
    /// A CPU without a sample was idle, or its samples are missing, though perf names it: a thread woken to it decides.
    pub fn recorded_cpus(&self) -> impl Iterator<Item = Cpu> {
        let named = self.cpus.values().filter(|_| !self.present.threads).map(|&cpu| Cpu::numbered(cpu));
        named.filter(|cpu| self.sampled.contains(&cpu.0))
    }

    /// Takes the build ids in a section: the same records as in a stream.
    pub fn add_build_ids(&mut self, mut section: &[u8]) {
        while let Some(head) = RecordHead::read(section) {
            let Some((record, rest)) = section.split_at_checked(head.size.max(36)) else { break };
            self.build_ids.extend(read_build_id(head, &record[RecordHead::SIZE..]));
            section = rest;
        }
    }

    /// The build id for the file at a path; empty if unknown.
    pub fn build_id(&self, path: &[u8]) -> &[u8] {
        self.build_ids.get(path).map_or(&[], |id| id)
    }
}

impl Present {
    const fn add(&mut self, other: Self) {
        self.switches |= other.switches;
        self.switch_records |= other.switch_records;
        self.wakings |= other.wakings;
        self.execs |= other.execs;
        self.exits |= other.exits;
        self.forks |= other.forks;
        self.names |= other.names;
        self.threads |= other.threads;
        self.compressed |= other.compressed;
    }

    fn note(&mut self, kind: Kind) {
        match kind {
            Kind::Switch => self.switches = true,
            Kind::Waking => self.wakings = true,
            Kind::Exec => self.execs = true,
            Kind::Exit => self.exits = true,
            _ => {}
        }
    }
}

/// A file's path, and its build id.
type BuildId = (Box<[u8]>, Box<[u8]>);

/// Reads a build id and its file's path: behind a process stand 20 bytes of id and 4 more, and the path.
fn read_build_id(head: RecordHead, body: &[u8]) -> Option<BuildId> {
    /// A bit in the head: the id's length stands behind it.
    const SIZED: u16 = 1 << 15;
    let (process_and_id, path) = body.split_at_checked(28)?;
    let len = if head.misc & SIZED != 0 { process_and_id[24].min(20) } else { 20 };
    let path = path.split(|&byte| byte == 0).next().unwrap_or_default();
    Some((path.into(), process_and_id[4..4 + usize::from(len)].into()))
}
