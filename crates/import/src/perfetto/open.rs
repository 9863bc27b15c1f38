//! A Perfetto trace as a recording.

use std::fs::File;
use std::path::Path;

use wakepath_clock::Stamp;
use wakepath_ctf::Source;
use wakepath_event::{
    ClockId, Cpu, Damage, DamageKind, Description, Event, EventSource, HostIdentity, RecordingFormat,
};

use super::convert::Converter;
use super::fields;
use super::merge::{Step, merge};
use super::survey::Survey;
use super::wire::{Fields, varint};
use crate::OpenError;
use crate::kind::Kind;
use crate::normalise::{Normaliser, RecordedEvents, ReportedStates, WakeupBy};

/// A Perfetto trace, opened for reading.
#[derive(Debug)]
pub struct PerfettoTrace<S = File> {
    description: Description,
    source: S,
    survey: Survey,
    states: ReportedStates,
    damages: Vec<Damage>,
}

/// How much is read to recognise a file.
const RECOGNISED_BYTES: usize = 1 << 16;

/// A command to record the events that explain a delay.
const RECORD_WITH: &str = "perfetto -o t.pftrace -t 10s sched";

impl RecordingFormat for PerfettoTrace {
    type Error = OpenError;

    fn recognises(path: &Path) -> bool {
        // Opening a pipe would wait for its writer.
        path.is_file() && begin(path).is_some_and(|begin| is_trace(&begin) || is_json(&begin))
    }

    /// Opens a trace and reads it once.
    ///
    /// # Errors
    /// When it cannot be read, or holds no switches. Damage among the packets is no error: see [`EventSource::read`].
    fn open(path: &Path) -> Result<Self, OpenError> {
        if begin(path).is_some_and(|begin| is_json(&begin)) {
            let why = format!(
                "is a trace in JSON (Trace Event Format), which is not read: it has no switches of threads; record them with {RECORD_WITH}"
            );
            return Err(OpenError::unsupported(path, why));
        }
        Self::from_source(File::open(path).map_err(OpenError::io(path))?, path)
    }
}

/// A file's first bytes.
fn begin(path: &Path) -> Option<Vec<u8>> {
    let mut begin = vec![0; RECOGNISED_BYTES];
    let read = File::open(path).and_then(|file| Source::read_at(&file, 0, &mut begin)).ok()?;
    begin.truncate(read);
    Some(begin)
}

/// Whether these first bytes begin a packet sequence.
fn is_trace(begin: &[u8]) -> bool {
    /// `Trace.packet`'s tag.
    const PACKET: u8 = 0x0a;
    /// Later packet fields have numbers below.
    const MAX_FIELD: u32 = 2000;
    let Some((&PACKET, mut rest)) = begin.split_first() else { return false };
    let Some(size) = varint(&mut rest) else { return false };
    let whole = usize::try_from(size).ok().and_then(|size| rest.split_at_checked(size));
    let mut packet = Fields::new(whole.map_or(rest, |(packet, _)| packet));
    let known = packet.by_ref().all(|(field, _)| field < MAX_FIELD);
    let follows = whole.is_none_or(|(_, behind)| behind.first().is_none_or(|&tag| tag == PACKET));
    // A longer packet ends within a field.
    known && follows && (whole.is_none() || !packet.damaged) && (whole.is_some() || begin.contains(&0))
}

/// Whether these first bytes begin a JSON trace, as browsers write them.
fn is_json(begin: &[u8]) -> bool {
    const SIGHT: usize = 4096;
    let begin = begin[..begin.len().min(SIGHT)].trim_ascii_start();
    let has = |text: &[u8]| begin.windows(text.len()).any(|window| window == text);
    match begin.first() {
        Some(b'{') => has(b"\"traceEvents\""),
        Some(b'[') => has(b"\"ph\"") && has(b"\"ts\""),
        _ => false,
    }
}

impl<S: Source> PerfettoTrace<S> {
    /// Opens such a file's bytes, wherever they are; errors and damages call them `path`.
    ///
    /// # Errors
    /// The errors of [`PerfettoTrace::open`].
    pub fn from_source(source: S, path: &Path) -> Result<Self, OpenError> {
        let size = source.size().map_err(OpenError::io(path))?;
        let mut survey = Survey::new(&source, size).map_err(OpenError::io(path))?;
        if survey.bundles == 0 {
            let why = format!(
                "is a Perfetto trace without events of the kernel (ftrace), so that the waits of threads are not known: \
                 record the switches with {RECORD_WITH}"
            );
            return Err(OpenError::unsupported(path, why));
        }
        if !survey.kinds.contains(&Kind::Switch) {
            let names = fields::names(&survey.kinds).map(str::to_owned).collect();
            return Err(OpenError::no_switches(path, names, RECORD_WITH));
        }
        let evidence = std::mem::take(&mut survey.evidence);
        let (states, certain) = ReportedStates::by_table(None, &survey.release, evidence);
        let mut damages: Vec<_> =
            survey.faults.iter().map(|(offset, fault)| Damage::at(path, *offset, fault)).collect();
        let mut add = |kind| damages.push(Damage::in_file(path, kind));
        if survey.unkept_faults > 0 {
            add(DamageKind::More(survey.unkept_faults));
        }
        if survey.other_machines > 0 {
            let count = survey.other_machines;
            add(DamageKind::Fault(format!("{count} packets of another machine are not read")));
        }
        if !certain {
            add(DamageKind::StatesUndescribed);
        }
        // `FtraceClock`.
        let (clock, to_boot) = match survey.clock {
            Some(0) => (ClockId::Numbered(7), Some(0)),
            Some(2) => (ClockId::Global, survey.to_boot),
            Some(3) => (ClockId::Local, survey.to_boot),
            Some(4) => (ClockId::Numbered(4), survey.to_boot),
            Some(_) => (ClockId::Unknown, survey.to_boot),
            None => (ClockId::Unknown, None),
        };
        let offset = survey.realtime.zip(to_boot).and_then(|(one, other)| i128::checked_add(one, other));
        let tracer = if survey.version.is_empty() { "Perfetto".to_owned() } else { survey.version.clone() };
        Ok(Self {
            description: Description {
                path: path.to_owned(),
                // Perfetto notes neither the host's name nor the boot id.
                host: HostIdentity { kernel_release: survey.release.clone(), ..HostIdentity::default() },
                tracer: Some(tracer),
                clock,
                realtime_offset_ns: offset,
                extent: survey.extent.map(|(from, to)| (Stamp::from_ns(from), Stamp::from_ns(to))),
                size,
                cgroup: None,
                format: None,
            },
            source,
            survey,
            states,
            damages,
        })
    }
}

/// Events with equal stamps come in file order.
impl<S: Source> EventSource for PerfettoTrace<S> {
    type Damage = Damage;

    fn description(&self) -> &Description {
        &self.description
    }

    fn read(&self, emit: impl FnMut(&Event), mut progress: impl FnMut(u64)) -> Vec<Damage> {
        let survey = &self.survey;
        let has = |kind| survey.kinds.contains(&kind);
        let wakeup_by = if has(Kind::Waking) { WakeupBy::Waking } else { WakeupBy::Wakeup };
        let normaliser = Normaliser::with_states(self.states, wakeup_by)
            .with_events(RecordedEvents::among(survey.kinds.iter().copied()))
            .with_cpus(survey.cpus.iter().copied().map(Cpu));
        let mut converter = Converter::new(survey, normaliser, emit);
        let mut bytes = 0;
        let faults = merge(&self.source, &survey.index, |step| {
            if let Step::End(open) = &step {
                bytes += open.packet.len() as u64;
                progress(bytes);
            }
            converter.step(step);
        });
        converter.finish();
        let mut damages = self.damages.clone();
        let path = &self.description.path;
        damages.extend(faults.into_iter().map(|(offset, fault)| Damage::at(path, offset, &fault)));
        if converter.unreadable > 0 {
            let kind = DamageKind::EventsSkipped { count: converter.unreadable, first: None };
            damages.push(Damage::in_file(path, kind));
        }
        damages.extend(converter.normaliser.doubts(path, survey.cpus.len()));
        damages
    }
}
