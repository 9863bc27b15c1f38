//! A text as a recording.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;

use wakepath_clock::Stamp;
use wakepath_ctf::Source;
use wakepath_event::{
    ClockId, Cpu, Damage, DamageKind, Description, Event, EventSource, HostIdentity, RecordingFormat,
};

use super::convert::Converter;
use super::fields;
use super::head::{Form, Line};
use super::lines::Lines;
use super::order::{Order, Waiting};
use super::survey::Survey;
use crate::kind::Kind;
use crate::normalise::{Normaliser, RecordedEvents, WakeupBy};
use crate::{Fault, OpenError};

/// Text of ftrace, `trace-cmd report` or `perf script`, opened for reading.
#[derive(Debug)]
pub struct TextTrace<S = File> {
    description: Description,
    source: S,
    survey: Survey,
    damages: Vec<Damage>,
}

/// A file is recognised by its first lines, and bytes at most.
const RECOGNISED_BYTES: usize = 1 << 16;
const RECOGNISED_LINES: usize = 200;
/// Other text has fewer lines with a tracepoint's head.
const ENOUGH_LINES: usize = 2;

/// A command to record events for the next time.
const RECORD_WITH: &str =
    "trace-cmd record -C mono -e sched_switch -e sched_waking COMMAND, and attach its trace.dat";

impl RecordingFormat for TextTrace {
    type Error = OpenError;

    fn recognises(path: &Path) -> bool {
        let mut begin = vec![0; RECOGNISED_BYTES];
        // Opening a pipe would wait for its writer.
        if !path.is_file() {
            return false;
        }
        let read = File::open(path).and_then(|file| Source::read_at(&file, 0, &mut begin));
        read.is_ok_and(|read| is_trace(&begin[..read]))
    }

    /// Opens a text and reads it once.
    ///
    /// # Errors
    /// When it cannot be read, names no CPUs, or holds no switches. Unreadable lines are no error: see
    /// [`EventSource::read`].
    fn open(path: &Path) -> Result<Self, OpenError> {
        Self::from_source(File::open(path).map_err(OpenError::io(path))?, path)
    }
}

/// Whether a file with this begin is a trace as text.
fn is_trace(begin: &[u8]) -> bool {
    if begin.contains(&0) {
        return false;
    }
    let lines = begin.split(|&byte| byte == b'\n').take(RECOGNISED_LINES);
    let events = lines.filter(|line| matches!(Line::read(line, false), Line::Event(_)));
    begin.starts_with(b"# tracer: ") || events.take(ENOUGH_LINES).count() == ENOUGH_LINES
}

impl<S: Source> TextTrace<S> {
    /// Opens such a text, wherever it is; errors and damages call it `path`.
    ///
    /// # Errors
    /// The errors of [`TextTrace::open`].
    pub fn from_source(source: S, path: &Path) -> Result<Self, OpenError> {
        let survey = Survey::new(&source).map_err(OpenError::io(path))?;
        if survey.events > 0 && survey.without_cpu == survey.events {
            let why =
                "names no CPUs, so that it is not known which thread ran: record all CPUs (perf record -a)";
            return Err(OpenError::unsupported(path, why));
        }
        if !survey.kinds.contains(&Kind::Switch) {
            let mut names: Vec<_> = survey.names.iter().collect();
            names.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
            let names = names.iter().map(|(name, _)| String::from_utf8_lossy(name).into_owned());
            return Err(OpenError::no_switches(path, names.collect(), RECORD_WITH));
        }
        // Times since the last line, not since a begin.
        if survey.back > 16 && survey.back > survey.events / 4 {
            let why = "has stamps that go back and forth: print the time of each event, not the time since the last one";
            return Err(OpenError::unsupported(path, why));
        }
        let mut damages = Vec::new();
        let mut add = |kind| damages.push(Damage::in_file(path, kind));
        if survey.unreadable.count > 0 {
            let super::survey::Unreadable { count, first } = survey.unreadable;
            add(DamageKind::LinesUnreadable { count, first });
        }
        if survey.rounded > 0 {
            add(DamageKind::RoundedStamps);
        }
        if survey.doubtful {
            add(DamageKind::StatesUndescribed);
        }
        let program = match (survey.form, survey.program) {
            (Some(Form::Perf), _) => "perf script",
            (_, Some(program)) => program,
            _ => "ftrace or trace-cmd",
        };
        Ok(Self {
            description: Description {
                path: path.to_owned(),
                host: HostIdentity {
                    name: survey.host_name.clone(),
                    kernel_release: survey.kernel_release.clone(),
                    ..HostIdentity::default()
                },
                tracer: Some(format!("{program}, as text")),
                clock: ClockId::Unknown,
                realtime_offset_ns: None,
                extent: survey.extent.map(|(from, to)| (Stamp::from_ns(from), Stamp::from_ns(to))),
                size: source.size().map_err(OpenError::io(path))?,
                cgroup: None,
                format: None,
            },
            source,
            survey,
            damages,
        })
    }

    /// Reads the lines in the file's order, with the losses in front of them. Returns the losses behind the last ones.
    fn lines(
        &self,
        mut take: impl FnMut(Waiting),
        mut progress: impl FnMut(u64),
    ) -> (BTreeMap<u32, u64>, io::Result<()>) {
        /// Bytes between two progress reports.
        const PROGRESS_BYTES: u64 = 1 << 20;
        let (mut lines, mut lost) = (Lines::new(&self.source), BTreeMap::new());
        let (mut in_stack, mut read, mut reported) = (false, 0, 0);
        loop {
            let line = match lines.next() {
                Ok(Some(line)) => line,
                Ok(None) => return (lost, Ok(())),
                Err(error) => return (lost, Err(error)),
            };
            read += line.size;
            if read - reported >= PROGRESS_BYTES {
                reported = read;
                progress(read);
            }
            let Some(text) = line.text else { continue };
            match Line::read(text, in_stack) {
                Line::Event(head) => {
                    in_stack = head.form == Form::Perf;
                    if let Some(cpu) = head.cpu.filter(|_| !head.is_made_up()) {
                        let lost = lost.remove(&cpu);
                        take(Waiting { at: head.at, number: line.number, line: text.into(), lost });
                    }
                }
                Line::Lost { cpu, count } => {
                    let all: &mut u64 = lost.entry(cpu).or_default();
                    *all = all.saturating_add(count);
                }
                Line::Started { cpu } => {
                    lost.entry(cpu).or_default();
                }
                Line::Note => in_stack &= !text.trim_ascii().is_empty(),
                Line::Frame | Line::Unreadable => {}
            }
        }
    }
}

/// Events with equal stamps come in the text's order.
impl<S: Source> EventSource for TextTrace<S> {
    type Damage = Damage;

    fn description(&self) -> &Description {
        &self.description
    }

    fn read(&self, emit: impl FnMut(&Event), progress: impl FnMut(u64)) -> Vec<Damage> {
        let survey = &self.survey;
        let wakeup_by = if survey.wakings { WakeupBy::Waking } else { WakeupBy::Wakeup };
        let normaliser = Normaliser::with_states(fields::states(), wakeup_by)
            .with_events(RecordedEvents::among(survey.kinds.iter().copied()))
            .with_cpus(survey.cpus.iter().copied().map(Cpu::numbered));
        let mut converter = Converter::new(normaliser, survey.extent.unwrap_or_default(), emit);
        let mut order = Order::new(survey.back == 0);
        let (lost, read) = self.lines(
            |line| match order.add(line) {
                Ok(()) => {
                    while let Some(line) = order.next(false) {
                        converter.line(&line);
                    }
                }
                Err(late) => converter.late(late),
            },
            progress,
        );
        while let Some(line) = order.next(true) {
            converter.line(&line);
        }
        converter.finish(lost);
        let mut damages = self.damages.clone();
        let path = &self.description.path;
        let mut add = |kind| damages.push(Damage::in_file(path, kind));
        if let Err(error) = read {
            add(DamageKind::Fault(Fault::Io(error.to_string()).to_string()));
        }
        if converter.late.count > 0 {
            add(DamageKind::LinesLate { count: converter.late.count, first: converter.late.first });
        }
        damages.extend(converter.normaliser.doubts(path, survey.cpus.len()));
        damages
    }
}
