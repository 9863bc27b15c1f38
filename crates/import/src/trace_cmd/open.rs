//! A `trace.dat` as a recording: the first pass over its events, and the facts in its options.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use wakepath_clock::Stamp;
use wakepath_ctf::Source;
use wakepath_event::{
    ClockId, Cpu, Damage, DamageKind, Description, Event, EventSource, HostIdentity, RecordingFormat,
};

use super::container::{Buffer, Container, RECORD_WITH};
use super::convert::Converter;
use super::cpu_reader::{ItemKind, TSC, merge};
use crate::formats::MAGIC;
use crate::kind::Kind;
use crate::normalise::{Normaliser, RecordedEvents, ReportedStates, StateEvidence, WakeupBy};
use crate::{Fault, OpenError};

/// A `trace.dat`, opened for reading.
#[derive(Debug)]
pub struct TraceDat<S = File> {
    description: Description,
    source: S,
    container: Container,
    /// The index of the buffer to read.
    buffer: usize,
    states: ReportedStates,
    wakeup_by: WakeupBy,
    /// The first event's stamp, ns.
    first: u64,
    /// The CPUs with fewer events than the kernel counted.
    short: Vec<u32>,
    damages: Vec<Damage>,
}

/// The first pass's result for a buffer.
#[derive(Default)]
struct Index {
    switches: bool,
    wakings: bool,
    /// The number of events, by event number.
    counts: BTreeMap<u16, u64>,
    /// ns.
    first: Option<u64>,
    last: u64,
    faults: Vec<(u64, Fault)>,
    /// By CPU, the number of events, and whether a loss among them is noted.
    events: BTreeMap<u32, (u64, bool)>,
    /// Noted only where the file's table does not decide the meaning of the states.
    evidence: StateEvidence,
}

impl RecordingFormat for TraceDat {
    type Error = OpenError;

    fn recognises(path: &Path) -> bool {
        crate::file_begins_with(path, MAGIC)
    }

    /// Opens a file and walks through all its events once.
    ///
    /// # Errors
    /// When it is no `trace.dat`, is of an unsupported kind, or holds no switches. Damage among its pages is no
    /// error: see [`EventSource::read`].
    fn open(path: &Path) -> Result<Self, OpenError> {
        Self::from_source(File::open(path).map_err(OpenError::io(path))?, path)
    }
}

impl<S: Source> TraceDat<S> {
    /// Opens such a file's bytes, wherever they are; errors and damages call them `path`.
    ///
    /// # Errors
    /// The errors of [`TraceDat::open`].
    pub fn from_source(source: S, path: &Path) -> Result<Self, OpenError> {
        let container = Container::read(&source, path)?;
        let mut chosen: Option<(usize, Index)> = None;
        let (mut holds, mut others) = (BTreeMap::new(), Vec::new());
        for (number, buffer) in container.buffers.iter().enumerate() {
            let index = Index::new(&source, &container, buffer);
            for (&id, count) in &index.counts {
                *holds.entry(id).or_insert(0_u64) += count;
            }
            if index.switches && chosen.is_none() {
                chosen = Some((number, index));
            } else if !index.counts.is_empty() {
                let name = if buffer.name.is_empty() { "the top one" } else { &buffer.name };
                others.push(name.to_owned());
            }
        }
        let Some((buffer, index)) = chosen else {
            if container.is_cut() {
                let what = "it was cut short, and holds no switches of threads up to there".to_owned();
                let offset = source.size().map_err(OpenError::io(path))?;
                return Err(OpenError::Damaged { path: path.to_owned(), offset, what });
            }
            return Err(OpenError::no_switches(path, event_names(&container, &holds), RECORD_WITH));
        };
        let name = container.buffers[buffer].clock.as_str();
        let clock = host_clock(name, container.options.tsc.is_some()).map_err(|why| {
            OpenError::unsupported(
                path,
                format!("has stamps of the clock `{name}`, which {why}: record with -C mono"),
            )
        })?;
        let short = match container.is_cut() {
            true => Vec::new(),
            false => index.short_of_events(&container),
        };
        let mut damages: Vec<_> =
            index.faults.into_iter().map(|(offset, fault)| Damage::at(path, offset, &fault)).collect();
        let mut add = |kind| damages.push(Damage::in_file(path, kind));
        if container.is_table_cut {
            add(DamageKind::Fault(Fault::PlacesCut.to_string()));
        }
        let cut =
            container.buffers[buffer].cpus.iter().filter_map(|pages| Some((pages.cpu, pages.cut_from?)));
        if let Some((cpu, to)) = cut.min_by_key(|&(_, to)| to) {
            add(DamageKind::Fault(Fault::FileCut { cpu, to }.to_string()));
        } else if container.is_cut() && !container.is_table_cut {
            add(DamageKind::Fault(Fault::OtherBufferCut.to_string()));
        }
        if !others.is_empty() {
            add(DamageKind::OtherBuffers(others));
        }
        for &(cpu, count) in &container.options.dropped {
            add(DamageKind::BufferFull { cpu, count });
        }
        for &(cpu, counted, read) in &short {
            add(DamageKind::Fault(Fault::EventsMissing { cpu, counted, read }.to_string()));
        }
        if clock == ClockId::Uptime {
            add(DamageKind::CoarseClock);
        }
        let mut words = container.options.uname.split_whitespace().skip(1).map(str::to_owned);
        let (name, kernel_release) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let (states, certain) =
            ReportedStates::by_table(container.tracepoints.states, &kernel_release, index.evidence);
        if !certain {
            add(DamageKind::StatesUndescribed);
        }
        let version = container.options.version.split_whitespace().next().unwrap_or_default();
        let first = index.first.unwrap_or(0);
        Ok(Self {
            description: Description {
                path: path.to_owned(),
                // trace-cmd does not note the boot id.
                host: HostIdentity { name, kernel_release, ..HostIdentity::default() },
                tracer: Some(format!("trace-cmd {version}").trim_end().to_owned()),
                clock,
                // Exact to the µs; `None` if recorded without `--date`.
                realtime_offset_ns: container.options.realtime_offset_us.map(|us| i128::from(us) * 1000),
                extent: Some((Stamp::from_ns(first), Stamp::from_ns(index.last))),
                size: container.buffers[buffer].cpus.iter().map(|pages| pages.to - pages.from).sum(),
                cgroup: None,
                format: None,
            },
            buffer,
            states,
            wakeup_by: if index.wakings { WakeupBy::Waking } else { WakeupBy::Wakeup },
            first,
            short: short.into_iter().map(|(cpu, ..)| cpu).collect(),
            damages,
            container,
            source,
        })
    }
}

/// Events with equal stamps come by CPU.
impl<S: Source> EventSource for TraceDat<S> {
    type Damage = Damage;

    fn description(&self) -> &Description {
        &self.description
    }

    fn read(&self, emit: impl FnMut(&Event), mut progress: impl FnMut(u64)) -> Vec<Damage> {
        /// Bytes between two progress reports.
        const PROGRESS_BYTES: u64 = 1 << 20;
        let asked = self.container.tracepoints.plans.values().map(|plan| plan.kind);
        let buffer = &self.container.buffers[self.buffer];
        let normaliser = Normaliser::with_states(self.states, self.wakeup_by)
            .with_events(RecordedEvents::among(asked))
            .with_cpus(buffer.cpus.iter().map(|pages| Cpu::numbered(pages.cpu)));
        let mut converter = Converter::new(&self.container, normaliser, self.first, emit);
        let (mut read, mut reported) = (0, 0);
        let without_pages =
            buffer.cpus.iter().filter(|pages| pages.cut_from.is_some() && pages.from == pages.to);
        converter.begin(without_pages.map(|pages| pages.cpu), &self.short);
        // The first pass has already reported the unreadable places.
        merge(
            &self.source,
            &self.container,
            buffer,
            |cpu, item, bytes| converter.item(cpu, item, bytes),
            |bytes| {
                read += bytes;
                if read - reported >= PROGRESS_BYTES {
                    reported = read;
                    progress(read);
                }
            },
        );
        let mut damages = self.damages.clone();
        let path = &self.description.path;
        for (cpu, early_ns) in converter.finish() {
            damages.push(Damage::in_file(path, DamageKind::EndMissing { cpu, early_ns }));
        }
        if converter.unreadable > 0 {
            let skipped = DamageKind::EventsSkipped { count: converter.unreadable, first: None };
            damages.push(Damage::in_file(path, skipped));
        }
        damages.extend(converter.normaliser.doubts(path, buffer.cpus.len()));
        damages
    }
}

impl Index {
    /// The CPUs with fewer events than the kernel counted, though no loss is noted: the CPU, the kernel's number and the file's. The counts are those of
    /// the file's first buffer.
    fn short_of_events(&self, container: &Container) -> Vec<(u32, u64, u64)> {
        let counted = container.options.counted.iter().filter(|_| container.buffers.len() == 1);
        counted
            .filter_map(|&(cpu, counted)| {
                let &(read, lossy) = self.events.get(&cpu)?;
                (read < counted && !lossy).then_some((cpu, counted, read))
            })
            .collect()
    }

    fn new(source: &impl Source, container: &Container, buffer: &Buffer) -> Self {
        let mut index = Self::default();
        let table = container.tracepoints.states;
        let undecided = ReportedStates::needs_evidence(table.as_ref());
        let faults = merge(
            source,
            container,
            buffer,
            |cpu, item, bytes| {
                if item.kind == ItemKind::Cut {
                    return;
                }
                index.first.get_or_insert(item.at);
                index.last = item.at;
                let (events, lossy) = index.events.entry(cpu).or_default();
                *events += u64::from(matches!(item.kind, ItemKind::Event(_)));
                *lossy |= matches!(item.kind, ItemKind::Lost { .. });
                let (ItemKind::Event(_), Some(&id)) = (&item.kind, bytes.first_chunk()) else { return };
                let id = u16::from_le_bytes(id);
                *index.counts.entry(id).or_insert(0) += 1;
                let plan = container.tracepoints.plans.get(&id);
                if let Some(plan) = plan.filter(|plan| undecided && plan.kind.shows_states())
                    && let Some(what) = plan.read(bytes)
                {
                    index.evidence.observe(Stamp::from_ns(item.at), &what);
                }
                match plan.map(|plan| plan.kind) {
                    Some(Kind::Switch) => index.switches = true,
                    Some(Kind::Waking) => index.wakings = true,
                    _ => {}
                }
            },
            |_| {},
        );
        index.faults = faults;
        index
    }
}

/// ftrace's clock `name`; else why its stamps are useless.
fn host_clock(name: &str, has_tsc_rate: bool) -> Result<ClockId, &'static str> {
    Ok(match name {
        "mono" => ClockId::Monotonic,
        "mono_raw" => ClockId::Numbered(4),
        "boot" => ClockId::Numbered(7),
        "tai" => ClockId::Numbered(11),
        "perf" => ClockId::Perf,
        "local" => ClockId::Local,
        // ftrace's default is its local clock, and a file without its name may have another clock.
        "" => ClockId::Unknown,
        "global" => ClockId::Global,
        "uptime" => ClockId::Uptime,
        name if TSC.contains(&name) && has_tsc_rate => ClockId::Tsc,
        name if TSC.contains(&name) => {
            return Err("counts cycles, and the file does not say how many there are in a second");
        }
        "counter" => return Err("counts events and does not measure time"),
        _ => return Err("is not known here"),
    })
}

/// The recorded events' names, the most frequent first.
fn event_names(container: &Container, counts: &BTreeMap<u16, u64>) -> Vec<String> {
    let mut all: Vec<_> = counts.iter().collect();
    all.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let name = |id: &u16| {
        container.tracepoints.names.get(id).map_or_else(|| format!("event {id}"), |name| name.to_string())
    };
    all.into_iter().map(|(id, _)| name(id)).collect()
}
