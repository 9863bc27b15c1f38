//! The first pass: the bundles, the threads, the clocks and the kernel.

use std::collections::BTreeSet;
use std::io;

use foldhash::HashMap;
use wakepath_clock::Stamp;
use wakepath_ctf::Source;
use wakepath_event::{Comm, Cpu, Tid};

use super::bundle::{Bundle, FTRACE_EVENTS, What};
use super::container::{self, Place};
use super::fields::{self, field};
use super::wire::{Fields, Value};
use crate::Fault;
use crate::kind::{Kind, tid};
use crate::normalise::StateEvidence;
use crate::tracepoint::Tracepoint;

/// A bundle in the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    /// The first event's stamp, ns.
    pub first: u64,
    pub place: Place,
    /// The bundle in front makes no sense.
    pub after_gap: bool,
}

/// A thread, found in `/proc` by the tracer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// The packet's stamp, ns.
    pub at: u64,
    pub tgid: Tid,
    pub parent: Tid,
    pub comm: Option<Comm>,
    pub kernel: bool,
}

/// The limit on found threads: a damaged file may name any number.
const MAX_THREADS: usize = if cfg!(test) { 64 } else { 1 << 20 };
/// The limit on noted damages.
const MAX_FAULTS: usize = 64;

/// `ClockSnapshot.Clock.clock_id`.
const REALTIME: u64 = 1;
const BOOTTIME: u64 = 6;

/// The data kept by the first pass.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// By time.
    pub index: Vec<Entry>,
    pub cpus: BTreeSet<u16>,
    /// CPUs with a senseless last bundle.
    pub gaps: BTreeSet<u16>,
    pub kinds: Vec<Kind>,
    pub extent: Option<(u64, u64)>,
    pub evidence: StateEvidence,
    /// By thread, then time.
    pub threads: HashMap<Tid, Vec<Found>>,
    found: usize,
    pub release: String,
    pub machine: String,
    pub version: String,
    /// The bundles' `FtraceClock`; `None` if they disagree.
    pub clock: Option<u64>,
    /// Boot clock to realtime, and ftrace's clock to the boot clock, ns.
    pub realtime: Option<i128>,
    pub to_boot: Option<i128>,
    pub bundles: u64,
    pub faults: Vec<(u64, Fault)>,
    pub unkept_faults: u64,
    /// Packets from other machines, such as a guest.
    pub other_machines: u64,
    pub packets: u64,
    /// Each CPU's current thread.
    current: HashMap<u16, Tid>,
}

impl Survey {
    pub fn new(source: &impl Source, size: u64) -> io::Result<Self> {
        let mut survey = Self::default();
        let faults = container::walk(source, size, |place, packet| survey.packet(place, packet))?;
        for fault in faults {
            survey.fault(fault.0, fault.1);
        }
        survey.index.sort_unstable();
        for found in survey.threads.values_mut() {
            found.sort_by_key(|found| found.at);
        }
        Ok(survey)
    }

    fn fault(&mut self, offset: u64, fault: Fault) {
        if self.faults.len() < MAX_FAULTS {
            self.faults.push((offset, fault));
        } else {
            self.unkept_faults += 1;
        }
    }

    fn packet(&mut self, place: Place, packet: &[u8]) {
        self.packets += 1;
        let mut fields = Fields::new(packet);
        let (mut at, mut machine, mut tree, mut has_bundle) = (0, 0, None, false);
        for (field, value) in fields.by_ref() {
            match field {
                FTRACE_EVENTS => has_bundle = true,
                2 => tree = Some(value.bytes()),
                6 => self.clocks(value.bytes()),
                8 => at = value.number(),
                45 => self.system(value.bytes()),
                98 => machine = value.number(),
                _ => {}
            }
        }
        if fields.damaged {
            self.fault(place.offset, Fault::NoRecord(place.size.into()));
        }
        if machine != 0 {
            self.other_machines += u64::from(has_bundle || tree.is_some());
            return;
        }
        if let Some(tree) = tree {
            self.tree(at, tree);
        }
        if let Some(bundle) = Bundle::from_packet(packet).filter(|_| has_bundle) {
            self.bundle(place, packet, &bundle);
        }
    }

    fn bundle(&mut self, place: Place, packet: &[u8], bundle: &Bundle) {
        if bundle.damaged {
            self.fault(place.offset, Fault::BundleCut);
        }
        if bundle.cpu == Cpu::UNKNOWN {
            return;
        }
        let is_first = self.bundles == 0;
        self.clock =
            if is_first { Some(bundle.clock) } else { self.clock.filter(|&clock| clock == bundle.clock) };
        self.bundles += 1;
        self.cpus.insert(bundle.cpu.0);
        if let Some((ftrace, boot)) = bundle.clocks {
            self.to_boot.get_or_insert(i128::from(boot) - i128::from(ftrace));
        }
        let (Some(first), Some(last)) = (bundle.items.first(), bundle.items.last()) else {
            if bundle.damaged {
                self.gaps.insert(bundle.cpu.0);
            } else if let Some(end) = bundle.end {
                // Its events are not read, and not missing.
                self.index.push(Entry { first: end, place, after_gap: false });
            }
            return;
        };
        let after_gap = self.gaps.remove(&bundle.cpu.0);
        self.index.push(Entry { first: first.at, place, after_gap });
        let (from, to) = self.extent.unwrap_or((first.at, last.at));
        self.extent = Some((from.min(first.at), to.max(last.at)));
        for item in &bundle.items {
            self.item(bundle, packet, item.at, item.what);
        }
    }

    fn has(&mut self, kind: Kind) {
        if !self.kinds.contains(&kind) {
            self.kinds.push(kind);
        }
    }

    fn item(&mut self, bundle: &Bundle, packet: &[u8], at: u64, what: What) {
        let at = Stamp::from_ns(at);
        match what {
            What::Switch { prev_state, next, .. } => {
                self.has(Kind::Switch);
                let next = Tid(next);
                let Some(prev) = self.current.insert(bundle.cpu.0, next) else { return };
                self.evidence.observe(at, &Tracepoint::Switch { prev, prev_state, next, next_comm: None });
            }
            What::Waking { target, .. } => {
                self.has(Kind::Waking);
                self.evidence.observe(at, &Tracepoint::Waking { target: Tid(target) });
            }
            What::Nothing => {}
            What::Event { from, to } => {
                let Some(event) = packet.get(from as usize..to as usize) else { return };
                let Some((kind, _)) = fields::kind(event) else { return };
                self.has(kind);
                if !kind.shows_states() {
                    return;
                }
                if let Some(fields::What::Tracepoint(what)) = fields::read(event, false).map(|read| read.what)
                {
                    if let Tracepoint::Switch { next, .. } = what {
                        self.current.insert(bundle.cpu.0, next);
                    }
                    self.evidence.observe(at, &what);
                }
            }
        }
    }

    /// `ClockSnapshot`: two clocks at the same time.
    fn clocks(&mut self, snapshot: &[u8]) {
        let clock = |wanted: u64| {
            Fields::new(snapshot).filter(|(field, _)| *field == 1).find_map(|(_, clock)| {
                let number = |number| field(clock.bytes(), number).map(Value::number);
                number(2).filter(|_| number(1) == Some(wanted))
            })
        };
        if let (None, Some(realtime), Some(boot)) = (self.realtime, clock(REALTIME), clock(BOOTTIME)) {
            self.realtime = Some(i128::from(realtime) - i128::from(boot));
        }
    }

    fn system(&mut self, info: &[u8]) {
        let text = |message, number| {
            field(message, number).map(|value| String::from_utf8_lossy(value.bytes()).into_owned())
        };
        if let Some(Value::Bytes(utsname)) = field(info, 1) {
            self.release = text(utsname, 3).unwrap_or_default();
            self.machine = text(utsname, 4).unwrap_or_default();
        }
        self.version = text(info, 4).unwrap_or_default();
    }

    /// `ProcessTree`: the processes and their other threads.
    fn tree(&mut self, at: u64, tree: &[u8]) {
        for (kind, value) in Fields::new(tree) {
            let message = value.bytes();
            let number = |number| tid(field(message, number).map(|value| value.number() as i64));
            let text = |number| field(message, number).map(|value| Comm::new(value.bytes()));
            let flag = |number| field(message, number).is_some_and(|value| value.number() != 0);
            let Some(id) = number(1) else { continue };
            let found = match kind {
                1 => Found {
                    at,
                    tgid: id,
                    parent: number(2).unwrap_or(Tid::IDLE),
                    // A command line is no thread's name.
                    comm: text(3).filter(|_| flag(9)),
                    kernel: flag(8),
                },
                2 => {
                    let Some(tgid) = number(3) else { continue };
                    let process = self.threads.get(&tgid).and_then(|found| found.last());
                    let (parent, kernel) = process.map_or((Tid::IDLE, false), |one| (one.parent, one.kernel));
                    Found { at, tgid, parent, comm: text(2), kernel }
                }
                _ => continue,
            };
            self.add(id, found);
        }
    }

    fn add(&mut self, id: Tid, found: Found) {
        let known = self.threads.entry(id).or_default();
        if let Some(last) = known.last_mut().filter(|last| last.at == found.at) {
            // The main thread stands in both lists.
            last.comm = last.comm.or(found.comm);
        } else if self.found < MAX_THREADS {
            self.found += 1;
            known.push(found);
        }
    }
}
