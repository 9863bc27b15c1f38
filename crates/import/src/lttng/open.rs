//! An LTTng directory as a recording: its kernel traces, and their metadata.

use std::cell::Cell;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use wakepath_clock::Stamp;
use wakepath_ctf::schema::Metadata;
use wakepath_ctf::stream::{Item, Plans, Reader, Selection};
use wakepath_ctf::trace::Trace as Directory;
use wakepath_ctf::tsdl::uuid_text;
use wakepath_event::{
    ClockId, Cpu, Damage, DamageKind, Description, Event, EventSource, HostIdentity, RecordingFormat,
};

use super::cursor::{Cursor, emit_missing_ends, merge, miss_begins};
use super::fields::{Values, wanted};
use super::joined::{Joined, StreamFile, join};
use super::mark_fields::{Classes, names_threads};
use super::marks::Marks;
use crate::kind::Kind;
use crate::normalise::{Normaliser, RecordedEvents, ReportedStates, StateEvidence, WakeupBy};
use crate::tracepoint::Tracepoint;
use crate::{Fault, OpenError};

/// The largest search depth for traces below the given directory.
const MAX_DEPTH: usize = 6;

/// A command to record the events that explain a delay.
const RECORD_WITH: &str =
    "lttng enable-event --kernel sched_switch,sched_waking,sched_wakeup_new,'irq_*','timer_hrtimer_expire_*'";

/// The tracer whose packets note the stamp up to which they are complete. Others may note the last event's stamp.
const LTTNG: &str = "lttng-modules ";

/// perf, if `perf data convert --to-ctf` wrote the trace.
const PERF: &str = "perf";
/// The name of LTTng's clock in the kernel: `CLOCK_MONOTONIC`.
const MONOTONIC: &str = "monotonic";

/// A trace by LTTng, or by another tracer that writes CTF 1.8 or CTF 2, opened for reading.
#[derive(Debug)]
pub struct Lttng {
    description: Description,
    /// The kernel trace's parts.
    kernel: Vec<StreamDirectory>,
    /// Folders with program traces.
    programs: Vec<PathBuf>,
    /// Their streams, for folders whose clock is the kernel's.
    marks: Vec<StreamDirectory>,
    streams: usize,
    wakeup_by: WakeupBy,
    states: ReportedStates,
    damages: Vec<Damage>,
}

/// A directory with streams.
#[derive(Debug)]
pub(super) struct StreamDirectory {
    pub plans: Plans,
    /// Its tracepoints' kinds; none in a program's trace.
    kinds: Vec<Kind>,
    pub streams: Vec<Joined>,
}

/// A kernel trace's folders: several if the tracer began a new folder while it recorded.
struct Parts {
    metadata: Metadata,
    folder: PathBuf,
    streams: Vec<PathBuf>,
}

impl RecordingFormat for Lttng {
    type Error = OpenError;

    /// Whether a folder, or a folder below, has CTF metadata.
    fn recognises(path: &Path) -> bool {
        folders(path).is_ok_and(|folders| !folders.is_empty())
    }

    /// Opens the trace in a directory, which may be a whole session's: the kernel's trace is read, and the programs'
    /// folders are listed.
    ///
    /// # Errors
    /// When there is no trace, it is neither CTF 1.8 nor CTF 2, or it cannot be read. Damage behind the metadata is no error: see
    /// [`EventSource::read`].
    fn open(path: &Path) -> Result<Self, OpenError> {
        let mut trace = Self::open_all(path)?;
        if trace.kernel.is_empty() {
            return Err(OpenError::ProgramsOnly { path: path.to_owned() });
        }
        if !trace.kernel.iter().any(|part| part.kinds.contains(&Kind::Switch)) {
            return Err(OpenError::no_switches(path, trace.event_names(), RECORD_WITH));
        }
        if trace.streams == 0 {
            let why = "holds a trace's metadata without any stream: the files with its events are missing; copy the whole folder";
            return Err(OpenError::unsupported(path, why));
        }
        trace.wakeup_by = trace.wakeup_tracepoint();
        trace.decide_states();
        Ok(trace)
    }
}

impl Lttng {
    /// Opens programs' traces without a kernel trace beside them: their events are the programs' own marks alone.
    ///
    /// # Errors
    /// When there is none, or it cannot be read.
    pub fn open_programs(path: &Path) -> Result<Self, OpenError> {
        let trace = Self::open_all(path)?;
        match trace.marks.is_empty() || !trace.kernel.is_empty() {
            true => Err(OpenError::unsupported(path, "holds no traces of programs alone")),
            false => Ok(trace),
        }
    }

    /// Opens all folders with traces.
    fn open_all(path: &Path) -> Result<Self, OpenError> {
        let folders = folders(path).map_err(OpenError::io(path))?;
        if folders.is_empty() {
            let why = format!(
                "holds no trace: neither it nor any folder up to {MAX_DEPTH} below has a file `metadata`"
            );
            return Err(OpenError::unsupported(path, why));
        }
        let mut trace = Self {
            description: Description {
                path: path.to_owned(),
                host: HostIdentity::default(),
                tracer: None,
                clock: ClockId::Unknown,
                realtime_offset_ns: None,
                extent: None,
                size: 0,
                cgroup: None,
                format: None,
            },
            kernel: Vec::new(),
            programs: Vec::new(),
            marks: Vec::new(),
            streams: 0,
            wakeup_by: WakeupBy::Waking,
            states: ReportedStates::for_release(""),
            damages: Vec::new(),
        };
        let (mut parts, mut programs) = (Vec::new(), Vec::new());
        for folder in folders {
            trace.sort(folder, &mut parts, &mut programs)?;
        }
        for part in parts {
            trace.add(part)?;
        }
        trace.add_programs(programs)?;
        Ok(trace)
    }
}

/// Events with equal stamps come in file name order.
impl EventSource for Lttng {
    type Damage = Damage;

    fn description(&self) -> &Description {
        &self.description
    }

    fn read(&self, mut emit: impl FnMut(&Event), mut progress: impl FnMut(u64)) -> Vec<Damage> {
        let mut damages = self.damages.clone();
        let classes: Vec<_> = self.marks.iter().map(|part| Classes::new(&part.plans)).collect();
        let kernel = self.kernel.iter().flat_map(|part| &part.streams);
        let cpus = kernel.map(Joined::cpu).filter(|cpu| *cpu != Cpu::UNKNOWN).collect();
        let mut marks = Marks::new(&self.marks, &classes, &cpus);
        if self.kernel.is_empty() {
            damages.extend(marks.alone(&self.description.path, &mut emit));
            return damages;
        }
        let mut cursors = Vec::new();
        for part in &self.kernel {
            for stream in &part.streams {
                match Cursor::new(&part.plans, &part.kinds, stream) {
                    Ok(cursor) => cursors.push(cursor),
                    Err(error) => {
                        let fault = DamageKind::Fault(Fault::Io(error.to_string()).to_string());
                        damages.push(Damage::in_file(Path::new(stream.name()), fault));
                    }
                }
            }
        }
        let asked = self.kernel.iter().flat_map(|part| &part.kinds).copied();
        let mut normaliser = Normaliser::with_states(self.states, self.wakeup_by)
            .with_events(RecordedEvents::among(asked))
            .with_cpus(cursors.iter().filter_map(Cursor::covers));
        let (begin, end) = (cursors.iter().filter_map(Cursor::at).min(), Cell::new(Stamp::MIN));
        let mut raw = emit;
        let mut emit = |event: &Event| {
            end.set(end.get().max(event.at));
            marks.emit_until(event.at, &mut raw);
            raw(event);
        };
        miss_begins(&mut cursors, begin, &mut normaliser, &mut emit);
        merge(&mut cursors, &mut normaliser, &mut emit, &mut progress);
        if self.description.tracer.as_ref().is_some_and(|tracer| tracer.starts_with(LTTNG)) {
            emit_missing_ends(&mut cursors, end.get(), &mut normaliser, &mut emit);
        }
        normaliser.finish((begin.unwrap_or(Stamp::MIN), end.get()), &mut emit);
        for cursor in cursors {
            damages.extend(cursor.damages());
        }
        damages.extend(marks.finish(&self.description.path, end.get(), &mut raw));
        if !self.kernel.is_empty() {
            damages.extend(normaliser.doubts(&self.description.path, self.streams));
        }
        damages
    }
}

impl Lttng {
    /// Describes a folder with a program trace; adds a kernel trace's folder to the parts.
    fn sort(
        &mut self,
        folder: PathBuf,
        parts: &mut Vec<Parts>,
        programs: &mut Vec<Parts>,
    ) -> Result<(), OpenError> {
        let directory = Directory::open(&folder)?;
        let domain = directory.metadata.text("domain");
        // Other tracers' traces without a domain count as kernel traces.
        if domain.is_some_and(|domain| domain != "kernel") {
            if self.description.tracer.is_none() {
                self.describe(&directory.metadata);
            }
            self.programs.push(folder.clone());
            place(directory, folder, programs);
            return Ok(());
        }
        place(directory, folder, parts);
        Ok(())
    }

    /// Adds the programs' traces whose clock is the kernel's; without a kernel trace, the first's.
    fn add_programs(&mut self, programs: Vec<Parts>) -> Result<(), OpenError> {
        let boot = |metadata: &Metadata| metadata.clocks.first().and_then(|clock| clock.uuid);
        let first = self
            .kernel
            .first()
            .map_or_else(|| programs.first().map(|part| &part.metadata), |part| Some(part.plans.metadata()));
        // LTTng notes the boot id as its clock's uuid: the monotonic clock is the same throughout a boot.
        let clock = first.and_then(boot);
        for part in programs {
            // Without a kernel trace, programs' traces on a clock without an id have at least each thread's own marks.
            if (clock.is_none() && !self.kernel.is_empty()) || boot(&part.metadata) != clock {
                self.damages.push(Damage::in_file(&part.folder, DamageKind::ProgramsApart));
                continue;
            }
            let plans = Plans::new(part.metadata, &Selection::All)
                .map_err(|source| OpenError::Plans { path: part.folder.join("metadata"), source })?;
            if !names_threads(&plans) {
                self.damages.push(Damage::in_file(&part.folder, DamageKind::MarksWithoutThread));
            }
            let (streams, _) = self.open_streams(&plans, part.streams, &part.folder)?;
            self.marks.push(StreamDirectory { plans, kinds: Vec::new(), streams });
        }
        Ok(())
    }

    /// Opens stream files, and joins each stream's files. Also returns the files' number.
    fn open_streams(
        &mut self,
        plans: &Plans,
        paths: Vec<PathBuf>,
        folder: &Path,
    ) -> Result<(Vec<Joined>, usize), OpenError> {
        let mut files = Vec::new();
        for path in paths {
            let shown = path.strip_prefix(&self.description.path).unwrap_or(&path).display().to_string();
            match File::open(&path).and_then(|file| Ok((file.metadata()?.len(), file))) {
                Ok((bytes, file)) => {
                    self.description.size += bytes;
                    files.push(StreamFile::new(plans, shown, file));
                }
                Err(error) => {
                    let fault = DamageKind::Fault(Fault::Io(error.to_string()).to_string());
                    self.damages.push(Damage::in_file(Path::new(&shown), fault));
                }
            }
        }
        let count = files.len();
        Ok((join(files).map_err(OpenError::io(folder))?, count))
    }

    fn add(&mut self, part: Parts) -> Result<(), OpenError> {
        let first = std::mem::take(&mut self.description.host.name);
        self.describe(&part.metadata);
        let second = &self.description.host.name;
        if !self.kernel.is_empty() && *second != first {
            let why = format!("holds kernel traces of two hosts, {first} and {second}: open one of them");
            return Err(OpenError::unsupported(&self.description.path, why));
        }
        let plans = Plans::new(part.metadata, &Selection::Fields(&wanted))
            .map_err(|source| OpenError::Plans { path: part.folder.join("metadata"), source })?
            .with_last_of(|event| Kind::from_event(&event.name).replaces_earlier());
        let name = |class| plans.class(class).map_or("", |class| class.event.name.as_str());
        let kinds = (0..plans.len() as u32).map(|class| Kind::from_event(name(class))).collect();
        let (streams, files) = self.open_streams(&plans, part.streams, &part.folder)?;
        self.streams += files;
        self.kernel.push(StreamDirectory { plans, kinds, streams });
        Ok(())
    }

    /// Takes the host's description from a trace's metadata.
    fn describe(&mut self, metadata: &Metadata) {
        let text = |key: &str| metadata.text(key).unwrap_or_default().to_owned();
        let clock = metadata.clocks.first();
        self.description.host = HostIdentity {
            name: text("hostname"),
            kernel_release: text("kernel_release"),
            // LTTng notes the boot id as its clock's uuid.
            boot_id: clock.and_then(|clock| clock.uuid).map(uuid_text).unwrap_or_default(),
            ..HostIdentity::default()
        };
        self.description.clock = match clock {
            Some(clock) if clock.name == MONOTONIC => ClockId::Monotonic,
            _ => ClockId::Unknown,
        };
        let version = metadata.number("tracer_major").zip(metadata.number("tracer_minor"));
        let version = version.map_or_else(String::new, |(major, minor)| format!(" {major}.{minor}"));
        let name = metadata.text("tracer_name").unwrap_or("a tracer without a name");
        self.description.tracer = Some(format!("{name}{version}"));
        if metadata.text("tracer_name") == Some(PERF) {
            self.description.host.name = text("host");
            self.description.host.kernel_release = text("release");
            self.description.tracer = Some(format!("{PERF} {}", text("version")).trim_end().to_owned());
            self.description.clock = ClockId::Perf;
        }
        self.description.realtime_offset_ns = clock.and_then(|clock| clock.date_ns());
    }

    fn event_names(&self) -> Vec<String> {
        let streams = self.kernel.iter().flat_map(|part| &part.plans.metadata().streams);
        streams.flat_map(|stream| &stream.events).map(|event| event.name.clone()).collect()
    }

    /// The tracepoint that counts as a wake-up: `sched_waking`, if ever hit. A declaration alone proves little.
    fn wakeup_tracepoint(&self) -> WakeupBy {
        for part in &self.kernel {
            if !part.kinds.contains(&Kind::Waking) {
                continue;
            }
            for stream in &part.streams {
                let Ok(mut reader) = Reader::new(&part.plans, stream) else { continue };
                while let Some(item) = reader.next() {
                    if let Item::Event(head) = item
                        && part.kinds.get(head.class as usize) == Some(&Kind::Waking)
                    {
                        return WakeupBy::Waking;
                    }
                }
            }
        }
        WakeupBy::Wakeup
    }

    /// Decides the meaning of the states by the switches in the trace: its metadata has no table of them.
    fn decide_states(&mut self) {
        let candidates = ReportedStates::candidates(&self.description.host.kernel_release);
        let (states, certain) = self.state_evidence(&candidates).decide(&candidates);
        self.states = states;
        if !certain {
            let damage = Damage::in_file(&self.description.path, DamageKind::StatesUndescribed);
            self.damages.push(damage);
        }
    }

    /// Reads switches until they leave a single meaning, or to the end.
    fn state_evidence(&self, candidates: &[ReportedStates]) -> StateEvidence {
        /// Switches between two looks at the evidence.
        const SWITCHES: u64 = 1 << 12;
        let mut evidence = StateEvidence::default();
        let (mut values, mut switches) = (Values::default(), 0_u64);
        for part in &self.kernel {
            let clock = part.plans.class(0).and_then(|class| class.clock);
            for stream in &part.streams {
                let Ok(mut reader) = Reader::new(&part.plans, stream) else { continue };
                while let Some(item) = reader.next() {
                    let Item::Event(head) = item else { continue };
                    let kind = part.kinds.get(head.class as usize).copied().unwrap_or(Kind::Other);
                    if !kind.shows_states() || reader.fields(&mut values).is_err() {
                        continue;
                    }
                    let at = Stamp::from_ns(clock.map_or(head.stamp, |clock| clock.ns(head.stamp)));
                    let Some(record) = values.record(kind, at, Cpu::UNKNOWN) else { continue };
                    evidence.observe(at, &record.what);
                    if matches!(record.what, Tracepoint::Switch { .. }) {
                        switches += 1;
                        if switches.is_multiple_of(SWITCHES) && evidence.is_enough(candidates) {
                            return evidence;
                        }
                    }
                }
            }
        }
        evidence
    }

    /// The number of kernel stream files.
    pub const fn streams(&self) -> usize {
        self.streams
    }

    /// Folders with program traces, each of which can be opened alone.
    pub fn programs(&self) -> &[PathBuf] {
        &self.programs
    }
}

/// Adds a folder to its trace's parts.
fn place(directory: Directory, folder: PathBuf, parts: &mut Vec<Parts>) {
    let Directory { metadata, streams } = directory;
    let is_same = |part: &&mut Parts| metadata.uuid.is_some() && part.metadata.uuid == metadata.uuid;
    match parts.iter_mut().find(is_same) {
        Some(part) => {
            part.streams.extend(streams);
            // Later metadata has all earlier classes.
            if classes(&metadata) > classes(&part.metadata) {
                (part.metadata, part.folder) = (metadata, folder);
            }
        }
        None => parts.push(Parts { metadata, folder, streams }),
    }
}

/// The number of event classes.
fn classes(metadata: &Metadata) -> usize {
    metadata.streams.iter().map(|stream| stream.events.len()).sum()
}

/// The folders with a trace, from this folder down, in order.
fn folders(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    find(path, MAX_DEPTH, &mut found)?;
    Ok(found)
}

fn find(folder: &Path, depth: usize, into: &mut Vec<PathBuf>) -> io::Result<()> {
    if folder.join("metadata").is_file() {
        into.push(folder.to_owned());
        return Ok(());
    }
    if depth == 0 {
        return Ok(());
    }
    let mut inner = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            inner.push(entry.path());
        }
    }
    inner.sort();
    inner.iter().try_for_each(|folder| find(folder, depth - 1, into))
}
