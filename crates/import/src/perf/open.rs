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

use super::container::{Attribute, Container, FIRST_FORMAT, MAGIC, feature};
use super::contents::{Contents, EventRole};
use super::convert::Converter;
use super::first_pass::{FirstPass, Records};
use super::{refusal, runs};
use crate::OpenError;
use crate::formats::Format;
use crate::normalise::{Normaliser, RecordedEvents, ReportedStates, WakeupBy};

/// A `perf.data`, opened for reading.
#[derive(Debug)]
pub struct PerfData<S = File> {
    description: Description,
    source: S,
    /// The records, if they are compressed in the source.
    expanded: Option<Vec<u8>>,
    /// The records prove the switches' fields.
    proved: bool,
    states: ReportedStates,
    contents: Contents,
    damages: Vec<Damage>,
}

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
        let container = Container::read(&source, path)?;
        let FirstPass { mut contents, expanded, formats, proved, mut damages } =
            FirstPass::new(&source, path, &container)?;
        if !contents.present.switches {
            return Err(refusal::without_switches(path, &container, &contents, &formats));
        }
        let kernel_release = container.text(&source, feature::KERNEL_RELEASE);
        let evidence = std::mem::take(&mut contents.evidence);
        let table = formats.values().find_map(|format| format.states);
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
            proved,
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
        let source = Records { source: &self.source, expanded: self.expanded.as_deref() };
        let faults = runs::merge(&source, &index.runs, decoder, |at, head, body| {
            converter.record(at, head, body);
            bytes += head.size as u64;
            records += 1;
            if records.is_multiple_of(PROGRESS_RECORDS) {
                progress(bytes);
            }
        });
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
        let doubts = converter.normaliser.doubts(path, cpus);
        // Wake-ups may be there, and are not read.
        damages.extend(doubts.into_iter().filter(|one| !self.proved || one.kind != DamageKind::NoWakings));
        damages
    }
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
