use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use linux_perf_event_reader::SamplingPolicy;
use wakepath_clock::{Local, Stamp};
use wakepath_ctf::Source;
use wakepath_event::Event;

use super::PerfDataError;
use super::container::{Attribute, Container, feature};
use super::records::{Decoder, RecordKind};
use super::runs::{self, Index};
use super::tell::Teller;
use crate::normalise::{Normaliser, ReportedStates, WakeupBy};
use crate::plan::{Kind, Plan};
use crate::{Clock, Damage, DamageKind, Fault, Host, formats};

/// A `perf.data`, opened for reading.
#[derive(Debug)]
pub struct PerfData<S = File> {
    path: PathBuf,
    source: S,
    host: Host,
    clock: Clock,
    realtime_offset_ns: Option<i128>,
    states: ReportedStates,
    decoder: Decoder,
    /// What each event is to us.
    asked: Vec<Asked>,
    index: Index,
    seen: Seen,
    /// Which CPU an event's number is of.
    cpus: HashMap<u64, u32>,
    build_ids: HashMap<Box<[u8]>, Box<[u8]>>,
    bytes: u64,
    damages: Vec<Damage>,
}

/// What an event is to us that was asked for.
#[derive(Debug)]
pub(super) enum Asked {
    Tracepoint(Plan),
    /// It is sampled by time: where it hits, a thread is running.
    Running,
    Other,
}

impl Asked {
    fn of(attribute: &Attribute, plan: Option<Plan>) -> Self {
        const HARDWARE: u32 = 0;
        const SOFTWARE: u32 = 1;
        match (attribute.kind, attribute.config & 0xff) {
            _ if plan.is_some() => plan.map_or(Self::Other, Self::Tracepoint),
            // Cycles, and cycles of the reference; the CPU's clock, and the task's.
            (HARDWARE, 0 | 9) | (SOFTWARE, 0 | 1) => Self::Running,
            _ => Self::Other,
        }
    }
}

/// What was seen of a file's records: that it was asked for says little.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Seen {
    pub switches: bool,
    /// `sched_waking`.
    pub wakings: bool,
    /// Tracepoints.
    pub execs: bool,
    pub exits: bool,
    /// perf's own records.
    pub births: bool,
    pub names: bool,
    /// Some events were of single threads.
    pub threads: bool,
}

impl PerfData {
    /// Opens a file and looks at all its records once.
    ///
    /// # Errors
    /// When it is none, is of a kind that is not read, or holds no switches. Damage among the records is
    /// no error: see [`PerfData::for_each`].
    pub fn open(path: &Path) -> Result<Self, PerfDataError> {
        let file = File::open(path).map_err(|source| PerfDataError::Io { path: path.to_owned(), source })?;
        Self::of(file, path)
    }
}

impl<S: Source> PerfData<S> {
    /// The same, of bytes from anywhere; `path` is what they are called.
    ///
    /// # Errors
    /// As [`PerfData::open`].
    pub fn of(source: S, path: &Path) -> Result<Self, PerfDataError> {
        let io = |source| PerfDataError::Io { path: path.to_owned(), source };
        let container = Container::read(&source, path)?;
        if container.has(feature::COMPRESSED) {
            return Err(PerfDataError::Compressed(path.to_owned()));
        }
        let decoder = Decoder::new(&container.attributes).ok_or_else(|| PerfDataError::Damaged {
            path: path.to_owned(),
            offset: 24,
            what: "the records of its events have no numbers, and cannot be told apart".to_owned(),
        })?;
        let mut damages = Vec::new();
        let is_tracepoint = |attribute: &&Attribute| attribute.kind == 2;
        let wanted: Vec<_> =
            container.attributes.iter().filter(is_tracepoint).map(|one| one.config).collect();
        let section = container.section(&source, feature::TRACING_DATA).map_err(io)?.unwrap_or_default();
        let (formats, fault) = formats::read(&section.1, |id| wanted.contains(&id));
        if let Some(at) = fault.filter(|_| !wanted.is_empty()) {
            damages.push(Damage::at(path, (section.0 + at as u64, Fault::Formats)));
        }
        let plan = |one: &Attribute| formats.get(&one.config).filter(|_| one.kind == 2).and_then(Plan::new);
        let asked: Vec<_> = container.attributes.iter().map(|one| Asked::of(one, plan(one))).collect();

        let (mut seen, mut cpus, mut compressed) = (Seen::default(), HashMap::new(), false);
        let index = runs::index(&source, &container.data, &decoder, |head, body, stamped| {
            compressed |= head.is_compressed();
            match stamped.attribute.map(|attribute| &asked[attribute]).filter(|_| head.is_sample()) {
                Some(Asked::Tracepoint(plan)) => seen.note(plan.kind),
                Some(_) => {}
                // Those that perf made up are of what was before.
                None => match decoder.decode(head, body).map(|told| (told.at, told.what)) {
                    Ok((Some(_), RecordKind::Fork { .. })) => seen.births = true,
                    Ok((Some(_), RecordKind::Comm { .. })) => seen.names = true,
                    Ok((_, RecordKind::Numbers(numbers))) => {
                        for (id, cpu, thread) in numbers {
                            seen.threads |= thread >= 0;
                            cpus.extend(u32::try_from(cpu).ok().map(|cpu| (id, cpu)));
                        }
                    }
                    _ => {}
                },
            }
        });
        let index = index.map_err(io)?;
        if compressed {
            return Err(PerfDataError::Compressed(path.to_owned()));
        }
        damages.extend(index.faults.iter().map(|fault| Damage::at(path, fault.clone())));
        if !seen.switches {
            return Err(PerfDataError::NoSwitches {
                path: path.to_owned(),
                holds: holds(&container, &formats),
            });
        }
        let kernel_release = container.text(&source, feature::KERNEL_RELEASE);
        let states = formats.values().find_map(|format| format.states);
        let states = states.unwrap_or_else(|| {
            damages.push(Damage::of(path, DamageKind::StatesUndescribed));
            ReportedStates::of_release(&kernel_release)
        });
        let sampled = sampled(&container.attributes, &asked, &formats);
        if !sampled.is_empty() {
            damages.push(Damage::of(path, DamageKind::SampledTracepoints(sampled)));
        }
        let build_ids = container.section(&source, feature::BUILD_ID).map_err(io)?;
        Ok(Self {
            path: path.to_owned(),
            host: Host {
                name: container.text(&source, feature::HOST_NAME),
                kernel_release,
                tracer: format!("perf {}", container.text(&source, feature::PERF_VERSION)),
                boot_id: String::new(),
            },
            clock: match container.attributes.first().and_then(|attribute| attribute.clock) {
                None => Clock::Perf,
                Some(1) => Clock::Monotonic,
                Some(number) => Clock::Numbered(number),
            },
            realtime_offset_ns: container.realtime_offset_ns(&source),
            states,
            decoder,
            asked,
            index,
            seen,
            cpus,
            build_ids: build_ids.map(|(_, section)| read_build_ids(&section)).unwrap_or_default(),
            bytes: container.data.end - container.data.start,
            damages,
            source,
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whose events it holds. Of which boot, perf does not note.
    pub const fn host(&self) -> &Host {
        &self.host
    }

    /// By which clock its stamps are.
    pub const fn clock(&self) -> Clock {
        self.clock
    }

    /// Realtime (ns since 1970) less the file's clock; `None` where perf did not read both.
    pub const fn realtime_offset_ns(&self) -> Option<i128> {
        self.realtime_offset_ns
    }

    /// Bytes of its records.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The stamps of the first and the last record.
    pub fn span(&self) -> (Stamp<Local>, Stamp<Local>) {
        (Stamp::from_ns(self.index.first), Stamp::from_ns(self.index.last))
    }

    /// Which tracepoint of a wake-up counts.
    pub const fn wakeup_by(&self) -> WakeupBy {
        if self.seen.wakings { WakeupBy::Waking } else { WakeupBy::Wakeup }
    }

    /// Tells all events in time order, those of equal stamps in the order of the file. Says what was
    /// damaged or is doubtful; what was lost is told among the events.
    pub fn for_each(&self, tell: impl FnMut(&Event)) -> Vec<Damage> {
        self.for_each_with(tell, |_| {})
    }

    /// The same; now and then `progress` is told how many of [`PerfData::bytes`] were read.
    pub fn for_each_with(&self, tell: impl FnMut(&Event), mut progress: impl FnMut(u64)) -> Vec<Damage> {
        /// Records between two reports of progress.
        const EVERY: u64 = 1 << 16;
        let normaliser = Normaliser::with_states(self.states, self.wakeup_by());
        let mut teller = Teller::new(self, normaliser, &self.index.gaps, tell);
        let (mut records, mut bytes) = (0_u64, 0);
        let faults = runs::merge(&self.source, &self.index.runs, &self.decoder, |at, head, body| {
            teller.record(at, head, body);
            bytes += head.size as u64;
            records += 1;
            if records.is_multiple_of(EVERY) {
                progress(bytes);
            }
        });
        teller.finish();
        let mut damages = self.damages.clone();
        damages.extend(faults.into_iter().map(|fault| Damage::at(&self.path, fault)));
        let mut add = |kind| damages.push(Damage::of(&self.path, kind));
        if teller.unreadable > 0 {
            add(DamageKind::EventsSkipped { count: teller.unreadable, first: teller.why });
        }
        teller.doubt_of_wakings().into_iter().for_each(&mut add);
        if self.seen.threads {
            add(DamageKind::SomeThreads);
        }
        let unmatched = teller.unmatched();
        // A CPU may be in an interrupt of each kind when recording begins.
        if unmatched > 8 * self.cpus.values().max().map_or(1, |&cpu| u64::from(cpu) + 1) {
            add(DamageKind::UnmatchedInterrupts(unmatched));
        }
        damages
    }
}

impl<S> PerfData<S> {
    pub(super) fn build_id(&self, path: &[u8]) -> &[u8] {
        self.build_ids.get(path).map_or(&[], |id| id)
    }

    pub(super) const fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    pub(super) fn asked(&self) -> &[Asked] {
        &self.asked
    }

    pub(super) const fn seen(&self) -> Seen {
        self.seen
    }

    pub(super) const fn first(&self) -> u64 {
        self.index.first
    }

    pub(super) fn cpu_of(&self, id: u64) -> Option<u32> {
        self.cpus.get(&id).copied()
    }
}

impl Seen {
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

/// The tracepoints that are read and were not recorded each time that they were hit.
fn sampled(
    attributes: &[Attribute],
    asked: &[Asked],
    formats: &HashMap<u64, formats::Format>,
) -> Vec<String> {
    let rarer = |one: &Attribute| match one.layout.sampling_policy {
        SamplingPolicy::Period(period) => period.get() > 1,
        SamplingPolicy::Frequency(_) => true,
        SamplingPolicy::NoSampling => false,
    };
    let read = attributes.iter().zip(asked).filter(|(_, asked)| matches!(asked, Asked::Tracepoint(_)));
    let rarer = read.filter(|(one, _)| rarer(one));
    rarer.filter_map(|(one, _)| formats.get(&one.config)).map(|format| format.name.clone()).collect()
}

/// What was recorded, in a few words.
fn holds(container: &Container, formats: &HashMap<u64, formats::Format>) -> String {
    const MAX_COUNT: usize = 4;
    let mut names: Vec<_> = container
        .attributes
        .iter()
        .map(|one| match (formats.get(&one.config).filter(|_| one.kind == 2), one.kind, one.config) {
            (Some(format), ..) => format!("{}:{}", format.system, format.name),
            (None, 0, 0) => "cycles".to_owned(),
            (None, 1, 0) => "cpu-clock".to_owned(),
            (None, 1, 9) => "perf's own".to_owned(),
            (None, kind, config) => format!("event {config} of kind {kind}"),
        })
        .collect();
    names.dedup();
    if names.len() > MAX_COUNT {
        let more = names.len() - MAX_COUNT;
        names.truncate(MAX_COUNT);
        names.push(format!("{more} more"));
    }
    names.join(", ")
}

/// Build ids by path: records of a head, a process, 20 bytes of id and 4 more, and the path.
fn read_build_ids(mut section: &[u8]) -> HashMap<Box<[u8]>, Box<[u8]>> {
    /// In the head: the length of the id is told behind it.
    const SIZED: u16 = 1 << 15;
    let mut ids = HashMap::new();
    while let Some(&[.., a, b, c, d]) = section.first_chunk::<8>() {
        let (misc, size) = (u16::from_le_bytes([a, b]), usize::from(u16::from_le_bytes([c, d])));
        let Some((record, rest)) = section.split_at_checked(size.max(36)) else { break };
        section = rest;
        let len = if misc & SIZED != 0 { record[32].min(20) } else { 20 };
        let path = record[36..].split(|&byte| byte == 0).next().unwrap_or_default();
        ids.insert(path.into(), record[12..12 + usize::from(len)].into());
    }
    ids
}
