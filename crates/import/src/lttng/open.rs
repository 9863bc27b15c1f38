use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use wakepath_ctf::schema::Metadata;
use wakepath_ctf::stream::{Item, Plans, PlansError, Reader, Selection};
use wakepath_ctf::trace::{Trace as Directory, TraceError};
use wakepath_ctf::tsdl::uuid_text;
use wakepath_event::Event;

use super::cursor::{Cursor, Progress};
use super::fields::{Kind, wanted};
use crate::normalise::{Normaliser, WakeupBy};
use crate::{Damage, DamageKind, Fault};

/// Why a trace cannot be opened at all.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum OpenError {
    #[error("cannot read {}: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} holds no trace: neither it nor any folder up to {MAX_DEPTH} below has a file `metadata`", .0.display())]
    NoTrace(PathBuf),
    #[error(transparent)]
    Trace(#[from] TraceError),
    #[error("{}: {source}", .path.display())]
    Plans { path: PathBuf, source: PlansError },
    #[error("{} holds kernel traces of two hosts, {first} and {second}: open one of them", .path.display())]
    TwoHosts { path: PathBuf, first: String, second: String },
}

/// Whose events a trace holds, as far as it says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Its kernel's release, as `uname -r` prints it.
    pub kernel_release: String,
    /// The tracer and its version.
    pub tracer: String,
    /// The boot's id, which LTTng notes as the uuid of its clock; else what stands for it, the trace's.
    pub boot_id: String,
}

/// How deep below the directory that was asked for traces are looked for.
const MAX_DEPTH: usize = 6;

/// A trace, opened for reading.
#[derive(Debug)]
pub struct Trace {
    path: PathBuf,
    host: Host,
    realtime_offset_ns: i128,
    /// The parts of the kernel's.
    kernel: Vec<Part>,
    /// Folders with traces of programs.
    programs: Vec<PathBuf>,
    bytes: u64,
    streams: usize,
    wakeup_by: WakeupBy,
    damages: Vec<Damage>,
}

/// One directory of streams.
#[derive(Debug)]
struct Part {
    plans: Plans,
    kinds: Vec<Kind>,
    streams: Vec<(String, File)>,
}

/// Opens the trace in a directory, which may be that of a whole session: then the kernel's is read, and
/// those of programs are only counted.
///
/// # Errors
/// When there is none, it is not of CTF 1.8, or it cannot be read. Damage behind the metadata is no error:
/// see [`Trace::for_each`].
pub fn open(path: &Path) -> Result<Trace, OpenError> {
    let io = |source| OpenError::Io { path: path.to_owned(), source };
    let mut folders = Vec::new();
    find(path, MAX_DEPTH, &mut folders).map_err(io)?;
    if folders.is_empty() {
        return Err(OpenError::NoTrace(path.to_owned()));
    }
    let mut trace = Trace {
        path: path.to_owned(),
        host: Host::default(),
        realtime_offset_ns: 0,
        kernel: Vec::new(),
        programs: Vec::new(),
        bytes: 0,
        streams: 0,
        wakeup_by: WakeupBy::Waking,
        damages: Vec::new(),
    };
    for folder in folders {
        trace.add(folder)?;
    }
    trace.wakeup_by = trace.choose();
    Ok(trace)
}

/// The folders with a trace below one, in order.
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

impl Trace {
    fn add(&mut self, folder: PathBuf) -> Result<(), OpenError> {
        let directory = Directory::open(&folder)?;
        let domain = directory.metadata.text("domain");
        // Traces of other tracers that say no domain are taken for the kernel's.
        if domain.is_some_and(|domain| domain != "kernel") {
            if self.host == Host::default() {
                self.host = host(&directory.metadata);
                self.realtime_offset_ns = offset(&directory.metadata);
            }
            self.programs.push(folder);
            return Ok(());
        }
        let is = host(&directory.metadata);
        if !self.kernel.is_empty() && is.name != self.host.name {
            let (first, second) = (self.host.name.clone(), is.name);
            return Err(OpenError::TwoHosts { path: self.path.clone(), first, second });
        }
        self.host = is;
        self.realtime_offset_ns = offset(&directory.metadata);
        let plans = Plans::new(directory.metadata, &Selection::Fields(&wanted))
            .map_err(|source| OpenError::Plans { path: folder.join("metadata"), source })?;
        let name = |class| plans.class(class).map_or("", |class| class.event.name.as_str());
        let kinds = (0..plans.len() as u32).map(|class| Kind::of(name(class))).collect();
        let mut streams = Vec::new();
        for path in directory.streams {
            let shown = path.strip_prefix(&self.path).unwrap_or(&path).display().to_string();
            match File::open(&path).and_then(|file| Ok((file.metadata()?.len(), file))) {
                Ok((bytes, file)) => {
                    self.bytes += bytes;
                    streams.push((shown, file));
                }
                Err(error) => {
                    let fault = DamageKind::Fault(Fault::Io(error.to_string()));
                    self.damages.push(Damage::of(Path::new(&shown), fault));
                }
            }
        }
        self.streams += streams.len();
        self.kernel.push(Part { plans, kinds, streams });
        Ok(())
    }

    /// Which wake-up counts: `sched_waking`, if one was ever seen. That it is declared says little.
    fn choose(&self) -> WakeupBy {
        for part in &self.kernel {
            if !part.kinds.contains(&Kind::Waking) {
                continue;
            }
            for (_, file) in &part.streams {
                let Ok(mut reader) = Reader::new(&part.plans, file) else { continue };
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

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whose events it holds.
    pub const fn host(&self) -> &Host {
        &self.host
    }

    /// Realtime (ns since 1970) less the trace's clock, as the tracer noted it once.
    pub const fn realtime_offset_ns(&self) -> i128 {
        self.realtime_offset_ns
    }

    /// How many stream files of the kernel there are.
    pub const fn streams(&self) -> usize {
        self.streams
    }

    /// Bytes of them.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Which tracepoint of a wake-up counts.
    pub const fn wakeup_by(&self) -> WakeupBy {
        self.wakeup_by
    }

    /// Folders with traces of programs, which are opened by themselves.
    pub fn programs(&self) -> &[PathBuf] {
        &self.programs
    }

    /// Tells all events in time order, events of equal stamps in the order of their files' names. Says what
    /// was damaged or is doubtful; what was lost is told among the events.
    pub fn for_each(&self, tell: impl FnMut(&Event)) -> Vec<Damage> {
        self.for_each_with(tell, |_| {})
    }

    /// The same; now and then `progress` is told how many of [`Trace::bytes`] were read.
    pub fn for_each_with(&self, mut tell: impl FnMut(&Event), mut progress: impl FnMut(u64)) -> Vec<Damage> {
        let mut damages = self.damages.clone();
        let mut cursors = Vec::new();
        for part in &self.kernel {
            for (name, file) in &part.streams {
                match Cursor::new(&part.plans, &part.kinds, name, file) {
                    Ok(cursor) => cursors.push(cursor),
                    Err(error) => {
                        let fault = DamageKind::Fault(Fault::Io(error.to_string()));
                        damages.push(Damage::of(Path::new(name), fault));
                    }
                }
            }
        }
        let mut normaliser = Normaliser::new(&self.host.kernel_release, self.wakeup_by);
        super::cursor::merge(&mut cursors, &mut normaliser, &mut tell, &mut Progress::new(&mut progress));
        for cursor in cursors {
            damages.extend(cursor.damages());
        }
        self.doubts(&normaliser, &mut damages);
        damages
    }

    fn doubts(&self, normaliser: &Normaliser, damages: &mut Vec<Damage>) {
        let mut add = |kind| damages.push(Damage::of(&self.path, kind));
        if let (Some(doubt), false) = (normaliser.doubt_of_wakings(), self.kernel.is_empty()) {
            add(doubt);
        }
        // A CPU may be in an interrupt of each kind when tracing begins.
        let ordinary = 8 * self.streams as u64;
        let unmatched = normaliser.unmatched();
        if unmatched > ordinary {
            add(DamageKind::UnmatchedInterrupts(unmatched));
        }
    }
}

fn host(metadata: &Metadata) -> Host {
    let text = |key: &str| metadata.text(key).unwrap_or_default().to_owned();
    let number = |key: &str| metadata.number(key).unwrap_or(0);
    let of_clock = metadata.clocks.first().and_then(|clock| clock.uuid);
    Host {
        name: text("hostname"),
        kernel_release: text("kernel_release"),
        tracer: format!("{} {}.{}", text("tracer_name"), number("tracer_major"), number("tracer_minor")),
        boot_id: of_clock.or(metadata.uuid).map(uuid_text).unwrap_or_default(),
    }
}

fn offset(metadata: &Metadata) -> i128 {
    metadata.clocks.first().map_or(0, |clock| clock.origin_ns())
}
