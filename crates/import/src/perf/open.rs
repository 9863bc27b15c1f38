//! A `perf.data` as a recording: its description, and its doubts.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use linux_perf_event_reader::SamplingPolicy;
use wakepath_clock::Stamp;
use wakepath_ctf::Source;
use wakepath_event::{
    ClockId, Damage, DamageKind, Description, Event, EventSource, HostIdentity, RecordingFormat,
};

use super::container::{Attribute, MAGIC, feature};
use super::contents::{Contents, EventRole};
use super::convert::Converter;
use super::joined::Joined;
use super::parts::{self, PartFile, Sequence};
use super::{first_pass, refusal, runs};
use crate::formats::Format;
use crate::normalise::{Normaliser, RecordedEvents, ReportedStates, WakeupBy};
use crate::{Fault, OpenError};

/// A `perf.data`, opened for reading, or its parts.
#[derive(Debug)]
pub struct PerfData<S = File> {
    description: Description,
    records: Sequence<S>,
    /// The records prove the switches' fields.
    proved: bool,
    states: ReportedStates,
    contents: Contents,
    damages: Vec<Damage>,
}

impl RecordingFormat for PerfData {
    type Error = OpenError;

    fn recognises(path: &Path) -> bool {
        parts::is_file(path) || is_by_threads(path) || parts::is_folder(path)
    }

    /// Opens a file, or the folder with the parts by `perf record --switch-output`, and walks through all records once.
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
        if path.is_dir() {
            let files = parts::in_folder(path).map_err(OpenError::io(path))?;
            return Self::from_files(&files, path);
        }
        Self::from_files(&[path.to_owned()], path)
    }
}

impl PerfData {
    /// Opens the parts by a run of `perf record --switch-output` as a single recording.
    ///
    /// # Errors
    /// The errors of [`PerfData::open`], and when they belong to different runs, or hold records from the same time.
    pub fn open_parts(parts: &[PathBuf]) -> Result<Self, OpenError> {
        Self::from_files(parts, parts.first().map_or(Path::new(""), |path| path))
    }

    fn from_files(files: &[PathBuf], path: &Path) -> Result<Self, OpenError> {
        let open =
            |path: &PathBuf| File::open(path).map(|file| (file, path.clone())).map_err(OpenError::io(path));
        Self::from_sources(files.iter().map(open).collect::<Result<_, _>>()?, path)
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
        Self::from_sources(vec![(source, path.to_owned())], path)
    }

    /// Opens parts' bytes, each with its file's name, as a single recording with the name `path`.
    ///
    /// # Errors
    /// Those by [`PerfData::open_parts`].
    pub fn from_sources(sources: Vec<(S, PathBuf)>, path: &Path) -> Result<Self, OpenError> {
        let parts = sources.into_iter().map(|(source, path)| PartFile::new(path, source));
        let parts = parts.collect::<Result<Vec<_>, _>>()?;
        let mut damages = Vec::new();
        let mut formats = first_pass::formats(&parts, &mut damages)?;
        let text = |feature| parts::text(&parts, feature);
        let (name, kernel_release) = (text(feature::HOST_NAME), text(feature::KERNEL_RELEASE));
        let tracer = format!("perf {}", text(feature::PERF_VERSION)).trim_end().to_owned();
        let realtime_offset_ns =
            parts.iter().find_map(|part| part.container.realtime_offset_ns(&part.source));
        let joined = Joined::read(parts, path, &mut formats)?;
        let Joined { head, records, mut contents, proved, damages: found } = joined;
        damages.extend(found);
        if !contents.present.switches {
            let later_part = DamageKind::Fault(Fault::NoCompressionBegin.to_string());
            if let Some(Damage { offset, .. }) = damages.iter().find(|damage| damage.kind == later_part) {
                let (offset, what) = (offset.unwrap_or(0), Fault::NoCompressionBegin.to_string());
                return Err(OpenError::Damaged { path: path.to_owned(), offset, what });
            }
            return Err(refusal::without_switches(path, &head, &contents, &formats));
        }
        let evidence = std::mem::take(&mut contents.evidence);
        let table = formats.values().find_map(|format| format.states);
        let (states, certain) = ReportedStates::by_table(table, &kernel_release, evidence);
        if !certain {
            damages.push(Damage::in_file(path, DamageKind::StatesUndescribed));
        }
        let sampled = sampled_tracepoints(&head.attributes, &contents.roles, &formats);
        if !sampled.is_empty() {
            damages.push(Damage::in_file(path, DamageKind::SampledTracepoints(sampled)));
        }
        let (first, last) = (contents.begin, contents.index.last);
        Ok(Self {
            description: Description {
                path: path.to_owned(),
                host: HostIdentity {
                    name,
                    kernel_release,
                    // perf does not note the boot id.
                    ..HostIdentity::default()
                },
                tracer: Some(tracer),
                clock: match head.attributes.first().and_then(|attribute| attribute.clock) {
                    None => ClockId::Perf,
                    Some(1) => ClockId::Monotonic,
                    Some(number) => ClockId::Numbered(number),
                },
                realtime_offset_ns,
                extent: Some((Stamp::from_ns(first), Stamp::from_ns(last))),
                size: contents.index.runs.iter().map(|run| run.to - run.from).sum(),
                cgroup: None,
                format: None,
            },
            records,
            states,
            contents,
            damages,
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
        let Contents { index, decoder, present, .. } = &self.contents;
        let wakeup_by = if present.wakings { WakeupBy::Waking } else { WakeupBy::Wakeup };
        let asked = self.contents.roles.iter().filter_map(|role| match role {
            EventRole::Tracepoint(plan) => Some(plan.kind),
            _ => None,
        });
        let normaliser =
            Normaliser::with_states(self.states, wakeup_by).with_events(RecordedEvents::among(asked));
        let normaliser = normaliser.with_cpus(self.contents.recorded_cpus());
        let mut converter = Converter::new(&self.contents, normaliser, emit);
        let (mut records, mut bytes) = (0_u64, 0);
        let faults = runs::merge(&self.records, &index.runs, decoder, |at, head, body| {
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
        damages.extend(faults.into_iter().map(|(offset, fault)| {
            let (path, offset) = self.records.place(offset);
            Damage::at(path, offset, &fault)
        }));
        let mut add = |kind| damages.push(Damage::in_file(path, kind));
        if converter.unreadable > 0 {
            add(DamageKind::EventsSkipped { count: converter.unreadable, first: converter.why });
        }
        if present.threads {
            add(DamageKind::SomeThreads);
        }
        let doubts = converter.normaliser.doubts(path, self.contents.cpu_count());
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
