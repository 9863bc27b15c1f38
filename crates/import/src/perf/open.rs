//! A `perf.data` as a recording: its description, and its doubts.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

use linux_perf_event_reader::SamplingPolicy;
use wakepath_clock::Stamp;
use wakepath_ctf::Source;
use wakepath_event::{
    ClockId, Cpu, Damage, DamageKind, Description, Event, EventSource, HostIdentity, RecordingFormat,
};

use super::compressed::{self, Expanded};
use super::container::{Attribute, Container, End, FIRST_FORMAT, MAGIC, feature, u32_at};
use super::contents::{Contents, EventRole};
use super::convert::Converter;
use super::records::{Decoder, RecordHead};
use super::runs;
use crate::formats::{self, Format};
use crate::kind::Kind;
use crate::normalise::{Normaliser, RecordedEvents, ReportedStates, WakeupBy};
use crate::{Fault, OpenError};

/// A `perf.data`, opened for reading.
#[derive(Debug)]
pub struct PerfData<S = File> {
    description: Description,
    source: S,
    /// The records, if they are compressed in the source.
    expanded: Option<Vec<u8>>,
    states: ReportedStates,
    contents: Contents,
    damages: Vec<Damage>,
}

/// A command to record the events that explain a delay.
const RECORD_WITH: &str = "perf record -a -k CLOCK_MONOTONIC -e sched:sched_switch,sched:sched_waking,\
                           sched:sched_wakeup_new,irq:*,timer:hrtimer_expire_* -- COMMAND";

impl RecordingFormat for PerfData {
    type Error = OpenError;

    fn recognises(path: &Path) -> bool {
        let begins = |path: &Path, magic: &[u8]| crate::file_begins_with(path, magic);
        MAGIC.iter().chain([&FIRST_FORMAT]).any(|magic| begins(path, magic)) || is_by_threads(path)
    }

    /// Opens a file and walks through all its records once.
    ///
    /// # Errors
    /// When it is no `perf.data`, is of an unsupported kind, or holds no switches. Damage among the records is no
    /// error: see [`EventSource::read`].
    fn open(path: &Path) -> Result<Self, OpenError> {
        if is_by_threads(path) {
            let why =
                "is a folder that perf record --threads wrote, which is not read: record without --threads";
            return Err(OpenError::unsupported(path, why));
        }
        Self::from_source(File::open(path).map_err(OpenError::io(path))?, path)
    }
}

/// Whether the path is a folder by `perf record --threads`: a file for each thread of perf, and `data` for the rest.
fn is_by_threads(path: &Path) -> bool {
    crate::file_begins_with(&path.join("data"), MAGIC[0])
}

impl<S: Source> PerfData<S> {
    /// Opens such a file's bytes, wherever they are; errors and damages call them `path`.
    ///
    /// # Errors
    /// The errors of [`PerfData::open`].
    pub fn from_source(source: S, path: &Path) -> Result<Self, OpenError> {
        let io = OpenError::io(path);
        let container = Container::read(&source, path)?;
        let mut damages = Vec::new();
        let tracepoints = container.attributes.iter().filter(|one| one.is_tracepoint());
        let wanted: Vec<_> = tracepoints.map(|one| one.config).collect();
        let section = container.section(&source, feature::TRACING_DATA).map_err(&io)?.unwrap_or_default();
        let (formats, fault) = formats::read(&section.1, |id| wanted.contains(&id));
        if let Some(at) = fault.filter(|_| !wanted.is_empty()) {
            damages.push(Damage::at(path, section.0 + at as u64, &Fault::Formats));
        }
        let table = formats.values().find_map(|format| format.states);
        let undecided = ReportedStates::needs_evidence(table.as_ref());
        if let End::SectionsCut(offset, fault) = &container.end {
            damages.push(Damage::at(path, *offset, fault));
        }
        let read = ReadRecords::new(&source, path, &container, &formats, undecided)?;
        damages.extend(read.damages);
        let (mut contents, expanded) = (read.contents, read.expanded);
        if !contents.present.switches {
            return Err(without_switches(path, &container, &contents, &formats));
        }
        let kernel_release = container.text(&source, feature::KERNEL_RELEASE);
        let evidence = std::mem::take(&mut contents.evidence);
        let (states, certain) = ReportedStates::by_table(table, &kernel_release, evidence);
        if !certain {
            damages.push(Damage::in_file(path, DamageKind::StatesUndescribed));
        }
        let sampled = sampled_tracepoints(&container.attributes, &contents.roles, &formats);
        if !sampled.is_empty() {
            damages.push(Damage::in_file(path, DamageKind::SampledTracepoints(sampled)));
        }
        let (first, last) = (contents.begin, contents.index.last);
        Ok(Self {
            description: Description {
                path: path.to_owned(),
                host: HostIdentity {
                    name: container.text(&source, feature::HOST_NAME),
                    kernel_release,
                    // perf does not note the boot id.
                    ..HostIdentity::default()
                },
                tracer: Some(format!("perf {}", container.text(&source, feature::PERF_VERSION))),
                clock: match container.attributes.first().and_then(|attribute| attribute.clock) {
                    None => ClockId::Perf,
                    Some(1) => ClockId::Monotonic,
                    Some(number) => ClockId::Numbered(number),
                },
                realtime_offset_ns: container.realtime_offset_ns(&source),
                extent: Some((Stamp::from_ns(first), Stamp::from_ns(last))),
                size: expanded
                    .as_ref()
                    .map_or(container.data.end - container.data.start, |all| all.len() as u64),
                cgroup: None,
                format: None,
            },
            states,
            contents,
            damages,
            source,
            expanded,
        })
    }
}

/// Events with equal stamps come in file order.
impl<S: Source> EventSource for PerfData<S> {
    type Damage = Damage;

    fn description(&self) -> &Description {
        &self.description
    }

    fn read(&self, emit: impl FnMut(&Event), mut progress: impl FnMut(u64)) -> Vec<Damage> {
        /// Records between two progress reports.
        const PROGRESS_RECORDS: u64 = 1 << 16;
        let Contents { index, decoder, present, cpus, .. } = &self.contents;
        let wakeup_by = if present.wakings { WakeupBy::Waking } else { WakeupBy::Wakeup };
        let asked = self.contents.roles.iter().filter_map(|role| match role {
            EventRole::Tracepoint(plan) => Some(plan.kind),
            _ => None,
        });
        let normaliser =
            Normaliser::with_states(self.states, wakeup_by).with_events(RecordedEvents::among(asked));
        // Events of single threads are recorded on all CPUs.
        let recorded = cpus.values().filter(|_| !present.threads).copied();
        let normaliser = normaliser.with_cpus(recorded.map(Cpu::numbered));
        let mut converter = Converter::new(&self.contents, normaliser, emit);
        let (mut records, mut bytes) = (0_u64, 0);
        let visit = |at, head: RecordHead, body: &[u8]| {
            converter.record(at, head, body);
            bytes += head.size as u64;
            records += 1;
            if records.is_multiple_of(PROGRESS_RECORDS) {
                progress(bytes);
            }
        };
        let faults = match &self.expanded {
            Some(all) => runs::merge(&&all[..], &index.runs, decoder, visit),
            None => runs::merge(&self.source, &index.runs, decoder, visit),
        };
        converter.finish();
        let mut damages = self.damages.clone();
        let path = &self.description.path;
        damages.extend(faults.into_iter().map(|(offset, fault)| Damage::at(path, offset, &fault)));
        let mut add = |kind| damages.push(Damage::in_file(path, kind));
        if converter.unreadable > 0 {
            add(DamageKind::EventsSkipped { count: converter.unreadable, first: converter.why });
        }
        if present.threads {
            add(DamageKind::SomeThreads);
        }
        let cpus = cpus.values().max().map_or(1, |&cpu| cpu as usize + 1);
        damages.extend(converter.normaliser.doubts(path, cpus));
        damages
    }
}

/// The first pass over a file's records, compressed or not.
struct ReadRecords {
    contents: Contents,
    expanded: Option<Vec<u8>>,
    damages: Vec<Damage>,
}

impl ReadRecords {
    fn new(
        source: &impl Source,
        path: &Path,
        container: &Container,
        formats: &HashMap<u64, Format>,
        undecided: bool,
    ) -> Result<Self, OpenError> {
        let io = OpenError::io(path);
        let decoder = || {
            Decoder::new(&container.attributes).ok_or_else(|| OpenError::Damaged {
                path: path.to_owned(),
                offset: 24,
                what: "the records carry no ids, so that the events of its records are not known".to_owned(),
            })
        };
        let file = Contents::read(
            source,
            (&container.data, &container.end),
            &container.attributes,
            decoder()?,
            formats,
            undecided,
        );
        let mut contents = file.map_err(&io)?;
        let (mut expanded, mut damages) = (None, Vec::new());
        let at = |(offset, fault): &(u64, Fault)| Damage::at(path, *offset, fault);
        if contents.present.compressed {
            let feature = container.section(source, feature::COMPRESSED).map_err(&io)?;
            // Version, method, level, ratio and the size of a CPU's buffer, 4 bytes each.
            let buffer = feature.map(|(_, bytes)| u32_at(&bytes, 16).into()).filter(|&bytes| bytes > 0);
            let Expanded { records, faults } =
                compressed::expand(source, &container.data, &container.end, &decoder()?, buffer)
                    .map_err(&io)?;
            let end = faults.first().map_or(End::Whole, |(_, fault)| End::Cut(0, fault.clone()));
            let whole = 0..records.len() as u64;
            contents = Contents::read(
                &&records[..],
                (&whole, &end),
                &container.attributes,
                decoder()?,
                formats,
                undecided,
            )
            .map_err(&io)?;
            damages.extend(faults.iter().map(at));
            let inner = contents
                .index
                .faults
                .iter()
                .filter(|(_, fault)| faults.iter().all(|(_, known)| known != fault));
            damages.extend(inner.map(|(offset, fault)| {
                let fault = Fault::Decompressed(*offset, fault.to_string());
                Damage::in_file(path, DamageKind::Fault(fault.to_string()))
            }));
            expanded = Some(records);
        } else {
            damages.extend(contents.index.faults.iter().map(at));
        }
        let build_ids = container.section(source, feature::BUILD_ID).map_err(&io)?;
        build_ids.iter().for_each(|(_, section)| contents.add_build_ids(section));
        Ok(Self { contents, expanded, damages })
    }
}

/// The error for a file without switches.
fn without_switches(
    path: &Path,
    container: &Container,
    contents: &Contents,
    formats: &HashMap<u64, Format>,
) -> OpenError {
    let recorded =
        |role: &EventRole| matches!(role, EventRole::Tracepoint(plan) if plan.kind == Kind::Switch);
    let undescribed = |one: &Attribute| one.is_tracepoint() && !formats.contains_key(&one.config);
    if let End::Cut(_, fault) | End::SectionsCut(_, fault) = &container.end
        && container.attributes.iter().any(undescribed)
        && !contents.roles.iter().any(recorded)
    {
        let way_out = match fault {
            Fault::Unfinished => "let perf record end by itself, or by ctrl-C",
            _ => "copy the whole file",
        };
        let why = format!(
            "lacks the description of its tracepoints, which perf writes behind the records at its end, because {}: {way_out}; \
             a stream (perf record -o - >FILE) begins with the description",
            if *fault == Fault::Unfinished { "perf did not finish it" } else { "it was cut short" }
        );
        return OpenError::unsupported(path, why);
    }
    if contents.roles.iter().any(recorded) {
        let whose = if contents.present.threads { "the recorded threads" } else { "any thread" };
        let why = format!(
            "holds no switches of threads: sched:sched_switch was recorded and did not occur, so that no run and no wait of \
             {whose} is visible; record while they work, or all threads with -a"
        );
        return OpenError::unsupported(path, why);
    }
    if contents.present.switch_records {
        let why = format!(
            "holds switch records (perf record --switch-events), which are not read: record the switches with \
             {RECORD_WITH}"
        );
        return OpenError::unsupported(path, why);
    }
    OpenError::no_switches(path, event_names(container, formats), RECORD_WITH)
}

/// The tracepoints that are read, but recorded at some hits only.
fn sampled_tracepoints(
    attributes: &[Attribute],
    roles: &[EventRole],
    formats: &HashMap<u64, Format>,
) -> Vec<String> {
    let is_sampled = |one: &Attribute| match one.layout.sampling_policy {
        SamplingPolicy::Period(period) => period.get() > 1,
        SamplingPolicy::Frequency(_) => true,
        SamplingPolicy::NoSampling => false,
    };
    let read = attributes.iter().zip(roles).filter(|(_, role)| matches!(role, EventRole::Tracepoint(_)));
    let sampled = read.filter(|(one, _)| is_sampled(one));
    sampled.filter_map(|(one, _)| formats.get(&one.config)).map(|format| format.name.clone()).collect()
}

/// The recorded events' names.
fn event_names(container: &Container, formats: &HashMap<u64, Format>) -> Vec<String> {
    let mut names: Vec<_> = container
        .attributes
        .iter()
        .map(|one| match (formats.get(&one.config).filter(|_| one.is_tracepoint()), one.kind, one.config) {
            (Some(format), ..) => format!("{}:{}", format.system, format.name),
            (None, 0, 0) => "cycles".to_owned(),
            (None, 1, 0) => "cpu-clock".to_owned(),
            (None, 1, 9) => "perf's own".to_owned(),
            (None, kind, config) => format!("event {config} of kind {kind}"),
        })
        .collect();
    names.dedup();
    names
}
