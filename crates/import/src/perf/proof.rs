//! The fields' places in a switch, by proof from the records: a cut file lacks the descriptions.
//!
//! On 64-bit machines, all kernels since 2.6.35 put the fields of `sched_switch` at the same places, but the file's
//! attributes do not say which event it is. Its records show it: in each, the sampled thread leaves the CPU, and a single
//! contradicting record refutes an event. On each CPU the leaving thread came with the switch before, a *link*; but perf loses
//! switches without a note, and a few links break. Some kernels report no switch from the idle thread, on some CPUs: a broken
//! link to or from idleness proves nothing either way.

use std::collections::{HashMap, HashSet};
use std::io;
use std::ops::Range;

use wakepath_ctf::Source;

use super::container::{Attribute, End, u32_at, u64_at};
use super::records::{Decoder, RecordKind};
use super::runs;
use crate::formats::Format;

/// A tracepoint, proved to be `sched_switch` by its records.
#[derive(Debug)]
pub(super) struct ProvedSwitch {
    pub number: u64,
    pub format: Format,
    /// How many switches left the thread at which the switch before arrived.
    pub links: u64,
    /// How many left another thread.
    pub broken: u64,
}

/// Links, and threads in them, beyond chance.
const MIN_LINKS: u64 = 20;
const MIN_THREADS: usize = 3;
/// The links for each broken link. perf's whole files from a busy machine have some hundred; most links break in an event
/// whose second thread is any other.
const LINKS_PER_BROKEN: u64 = 20;

/// The idle thread.
const IDLE: u32 = 0;

/// The largest priority, and the bound of thread states.
const MAX_PRIORITY: u32 = 140;
const STATES: u64 = 1 << 16;

const FORMAT: &str = "name: sched_switch
    field:unsigned short common_type; offset:0; size:2; signed:0;
    field:unsigned char common_flags; offset:2; size:1; signed:0;
    field:unsigned char common_preempt_count; offset:3; size:1; signed:0;
    field:int common_pid; offset:4; size:4; signed:1;
    field:char prev_comm[16]; offset:8; size:16; signed:0;
    field:pid_t prev_pid; offset:24; size:4; signed:1;
    field:int prev_prio; offset:28; size:4; signed:1;
    field:long prev_state; offset:32; size:8; signed:1;
    field:char next_comm[16]; offset:40; size:16; signed:0;
    field:pid_t next_pid; offset:56; size:4; signed:1;
    field:int next_prio; offset:60; size:4; signed:1;";
/// The fields, and the padding up to four bytes before a word's end.
const BYTES: usize = 68;

/// The event, if the records of a single event prove it.
pub(super) fn switches(
    source: &impl Source,
    data: &Range<u64>,
    end: &End,
    attributes: &[Attribute],
    decoder: &Decoder,
) -> io::Result<Option<ProvedSwitch>> {
    let mut candidates: Vec<_> = attributes.iter().map(Candidate::new).collect();
    runs::index(source, data, end, decoder, |_, head, body, _| {
        let Ok(record) = decoder.decode(head, body) else { return };
        match record.kind {
            RecordKind::Sample { attribute, raw, .. } => {
                candidates[attribute].see(record.cpu, record.tid, raw);
            }
            RecordKind::Lost(_) => candidates.iter_mut().for_each(|one| one.next.clear()),
            _ => {}
        }
    })?;
    let mut proved = candidates.iter().filter(|one| one.is_proved());
    let (Some(one), None) = (proved.next(), proved.next()) else { return Ok(None) };
    let format = Format::parse("sched", &format!("{FORMAT}\nID: {}", one.number));
    Ok(format.map(|(number, format)| ProvedSwitch { number, format, links: one.links, broken: one.broken }))
}

struct Candidate {
    number: u64,
    refuted: bool,
    links: u64,
    broken: u64,
    threads: HashSet<u32>,
    /// By CPU, the thread to which the last switch led.
    next: HashMap<u32, u32>,
}

impl Candidate {
    fn new(attribute: &Attribute) -> Self {
        Self {
            number: attribute.config,
            refuted: !attribute.is_tracepoint(),
            links: 0,
            broken: 0,
            threads: HashSet::new(),
            next: HashMap::new(),
        }
    }

    fn is_proved(&self) -> bool {
        let holds = self.links >= MIN_LINKS && self.links / LINKS_PER_BROKEN >= self.broken;
        !self.refuted && holds && self.threads.len() >= MIN_THREADS
    }

    fn see(&mut self, cpu: Option<u32>, sampled: Option<u32>, raw: &[u8]) {
        let (Some(cpu), false) = (cpu, self.refuted) else { return };
        let (leaving, coming) = (u32_at(raw, 24), u32_at(raw, 56));
        let is_name = |at: usize| raw.get(at..at + 16).is_some_and(|name| name.contains(&0));
        // A dead thread has no number in its sample.
        let is_sampled = sampled.is_none_or(|tid| tid == leaving);
        let is_switch = raw.len() == BYTES
            && u64::from(u32_at(raw, 0) & 0xffff) == self.number
            && u32_at(raw, 4) == leaving
            && is_sampled
            && leaving != coming
            && [28, 60].iter().all(|&at| u32_at(raw, at) <= MAX_PRIORITY)
            && u64_at(raw, 32) < STATES
            && is_name(8)
            && is_name(40);
        let before = self.next.insert(cpu, coming);
        self.refuted |= !is_switch;
        self.links += u64::from(before == Some(leaving));
        self.broken +=
            u64::from(before.is_some_and(|before| ![IDLE, leaving].contains(&before) && leaving != IDLE));
        if self.threads.len() < MIN_THREADS {
            self.threads.insert(coming);
        }
    }
}
