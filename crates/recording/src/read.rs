//! A wakepath recording, opened for reading.

mod cursor;
mod losses;
mod merge;
mod problem;
mod stream;

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use wakepath_clock::Stamp;
use wakepath_ctf::tsdl::{self, Facts, TsdlError};
use wakepath_event::{ClockId, Cpu, Description, Event, EventSource, Format, RecordingFormat};
use wakepath_kernel_records::{Buffer, Decoder};

use crate::go_traces::{self, GoTraceFile};
use crate::metadata::{FORMAT, MAX_METADATA_BYTES, MetadataError, TRACER, recording_facts};
use crate::spans::{SPANS, SpanFrames};
use crate::stream_name::stream_of_name;
use cursor::Cursor;
pub use problem::{ReadFault, ReadProblem};
pub use stream::StreamInfo;
use wakepath_caller::Directory;

/// Why a recording cannot be opened at all.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum OpenError {
    #[error("{} is not a recording of wakepath: {why}", .path.display())]
    NotARecording { path: PathBuf, why: String },
    #[error("{}: recording is of format {format}, this wakepath reads up to {FORMAT}", .path.display())]
    Newer { path: PathBuf, format: i64 },
    #[error("{}: {source}", .path.display())]
    Metadata { path: PathBuf, source: TsdlError },
    #[error("cannot read {}: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// A recording, opened for reading.
#[derive(Debug)]
pub struct Recording {
    description: Description,
    uuid: [u8; 16],
    directory: Directory,
    kernel: Directory,
    streams: Vec<StreamInfo>,
    problems: Vec<ReadProblem>,
}

/// The number of events between two progress reports: a few reports a second.
const PROGRESS_EVENTS: u64 = if cfg!(test) { 1 << 10 } else { 1 << 21 };

impl RecordingFormat for Recording {
    type Error = OpenError;

    fn recognises(path: &Path) -> bool {
        match read_facts(path) {
            Ok((_, _, facts)) => facts.text("tracer_name") == Some(TRACER),
            Err(OpenError::NotARecording { .. }) => false,
            Err(OpenError::Metadata { .. }) => !is_by_another_tracer(path),
            Err(_) => true,
        }
    }

    /// Opens the recording in the directory `path` and walks through its packet headers.
    fn open(path: &Path) -> Result<Self, OpenError> {
        let not_ours = |why: String| OpenError::NotARecording { path: path.to_owned(), why };
        let (directory, kernel, facts) = read_facts(path)?;
        let facts = recording_facts(&facts).map_err(|why| match why {
            MetadataError::Foreign => not_ours("something else wrote its metadata".to_owned()),
            MetadataError::Newer(format) => OpenError::Newer { path: path.to_owned(), format },
            MetadataError::Lacks(what) => not_ours(format!("its metadata lacks {what}")),
        })?;
        let description = Description {
            path: path.to_owned(),
            host: facts.host,
            tracer: None,
            clock: ClockId::Monotonic,
            realtime_offset_ns: Some(facts.offset_ns),
            extent: None,
            size: 0,
            cgroup: facts.cgroup,
            format: Some(Format {
                number: facts.format,
                writer: facts.wakepath,
                options: facts.options,
                bytes: 0,
                streams: 0,
                discarded: 0,
                span_bytes: None,
            }),
        };
        let mut opened = Self {
            description,
            uuid: facts.uuid,
            directory,
            kernel,
            streams: Vec::new(),
            problems: Vec::new(),
        };
        opened.scan()?;
        opened.describe_streams();
        if let Some(format) = &mut opened.description.format {
            let file = opened.directory.open_file(OsStr::new(SPANS));
            format.span_bytes = file.and_then(|file| file.metadata()).ok().map(|found| found.len());
        }
        Ok(opened)
    }
}

/// Events with equal stamps come in the order of [`Recording::streams`], a stream's own in the order of writing. A
/// problem is a damaged part; its unreadable records are a loss among the events.
impl EventSource for Recording {
    type Damage = ReadProblem;

    fn description(&self) -> &Description {
        &self.description
    }

    fn read(&self, mut emit: impl FnMut(&Event), mut progress: impl FnMut(u64)) -> Vec<ReadProblem> {
        let mut events = 0_u64;
        self.for_each(|event| {
            emit(event);
            events += 1;
            if events.is_multiple_of(PROGRESS_EVENTS) {
                progress(events);
            }
        })
    }

    fn for_each(&self, mut emit: impl FnMut(&Event)) -> Vec<ReadProblem> {
        let mut problems = self.problems.clone();
        let all: Vec<_> = (0..self.streams.len()).collect();
        merge::merge(self.cursors(&all, &mut problems), &mut problems, &mut emit);
        problems
    }
}

impl Recording {
    fn scan(&mut self) -> Result<(), OpenError> {
        let io = |source| OpenError::Io { path: self.kernel.path.clone(), source };
        for (name, _) in self.kernel.names().map_err(io)? {
            let text = name.to_string_lossy();
            if text == "metadata" {
                continue;
            }
            let problem = |fault| ReadProblem {
                file: format!("kernel/{}", name.to_string_lossy().escape_debug()),
                offset: 0,
                fault,
            };
            let Some((buffer, number)) = stream_of_name(&text) else {
                self.problems.push(problem(ReadFault::UnknownFile));
                continue;
            };
            let cpu = cpu_of(buffer, number);
            let info = self
                .kernel
                .open_file(&name)
                .and_then(|file| StreamInfo::scan(&text, buffer, cpu, &file, self.uuid));
            match info {
                Ok(info) => self.streams.push(info),
                Err(e) => self.problems.push(problem(ReadFault::Io(e.to_string()))),
            }
        }
        // The order at equal stamps: rarer records first, since others refer to them; then by CPU.
        self.streams.sort_by_key(|stream| {
            let rank = match stream.buffer {
                Buffer::Life => 0,
                Buffer::Net => 1,
                Buffer::Sched => 2,
            };
            (rank, stream.cpu, stream.name.clone())
        });
        Ok(())
    }

    /// Adds the facts from the packet headers to the description.
    fn describe_streams(&mut self) {
        let streams = &self.streams;
        let first = streams.iter().filter_map(|stream| stream.first).min();
        let last = streams.iter().filter_map(|stream| stream.last).max();
        let extent = first.zip(last).map(|(first, last)| (Stamp::from_ns(first), Stamp::from_ns(last)));
        self.description.extent = extent;
        self.description.size = streams.iter().map(|stream| stream.records).sum();
        if let Some(format) = &mut self.description.format {
            format.bytes = streams.iter().map(|stream| stream.bytes).sum();
            format.streams = streams.len();
            // In a damaged packet, the counter may have any value.
            format.discarded = streams.iter().map(|stream| stream.discarded).fold(0, u64::saturating_add);
        }
    }

    /// The recording's identity.
    pub const fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    /// The streams, in the order of their events at equal stamps.
    pub fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }

    /// The spans from applications; `None` without a request for spans, as in all recordings by earlier versions.
    ///
    /// # Errors
    /// When the file exists and cannot be opened.
    pub fn spans(&self) -> io::Result<Option<SpanFrames>> {
        match self.directory.open_file(OsStr::new(SPANS)) {
            Ok(file) => Ok(Some(SpanFrames::from_file(file))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Go programs' execution traces; empty where none were asked for.
    pub fn go_traces(&self) -> Vec<GoTraceFile> {
        go_traces::read(&self.directory)
    }

    /// Emits a single stream's events, by its index in [`Recording::streams`], as [`EventSource::for_each`] emits
    /// all.
    pub fn for_each_of(&self, stream: usize, mut emit: impl FnMut(&Event)) -> Vec<ReadProblem> {
        let mut problems = Vec::new();
        merge::merge(self.cursors(&[stream], &mut problems), &mut problems, &mut emit);
        problems
    }

    fn cursors(&self, streams: &[usize], problems: &mut Vec<ReadProblem>) -> Vec<Cursor<File>> {
        let decoder = Decoder::for_release(&self.description.host.kernel_release);
        let extent = self.description.extent.map_or((0, 0), |(first, last)| (first.ns(), last.ns()));
        // Cut-off recordings have no end marks, nor do recordings by earlier versions.
        let marked = self.streams.iter().any(|stream| stream.closed);
        let mut cursors = Vec::new();
        for stream in streams.iter().filter_map(|&index| self.streams.get(index)) {
            let file = self.kernel.open_file(OsStr::new(&stream.name));
            match file.and_then(|file| Cursor::new(stream, file, self.uuid, decoder, extent)) {
                Ok(cursor) if marked && stream.buffer.counts() && !stream.closed => {
                    cursors.push(cursor.without_end());
                }
                Ok(cursor) => cursors.push(cursor),
                Err(e) => problems.push(ReadProblem {
                    file: format!("kernel/{}", stream.name),
                    offset: 0,
                    fault: ReadFault::Io(e.to_string()),
                }),
            }
        }
        cursors
    }
}

/// Opens the recording at `path` and its stream directory, and reads its metadata.
fn read_facts(path: &Path) -> Result<(Directory, Directory, Facts), OpenError> {
    let not_ours = |why: String| OpenError::NotARecording { path: path.to_owned(), why };
    let recording = Directory::at(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotADirectory => not_ours("it is not a directory".to_owned()),
        _ => OpenError::Io { path: path.to_owned(), source },
    })?;
    let kernel = recording.open(OsStr::new("kernel"));
    let kernel = kernel.map_err(|e| not_ours(format!("kernel/ cannot be opened: {e}")))?;
    let text = kernel.read_text("metadata", MAX_METADATA_BYTES);
    let text = text.map_err(|e| not_ours(format!("kernel/metadata cannot be read: {e}")))?;
    let facts = tsdl::read_facts(&text)
        .map_err(|source| OpenError::Metadata { path: kernel.path.join("metadata"), source })?;
    Ok((recording, kernel, facts))
}

/// Reads a stream from memory as if from a file `name`, in a recording with this uuid, under a kernel with this
/// release. For tests and fuzzing: the same code reads files.
pub fn read_stream(
    name: &str,
    bytes: &[u8],
    uuid: [u8; 16],
    release: &str,
    mut emit: impl FnMut(&Event),
) -> Vec<ReadProblem> {
    let Some((buffer, number)) = stream_of_name(name) else { return Vec::new() };
    let cpu = cpu_of(buffer, number);
    let cursor = StreamInfo::scan(name, buffer, cpu, &bytes, uuid).and_then(|info| {
        let end = info.last.unwrap_or(0);
        Cursor::new(&info, bytes, uuid, Decoder::for_release(release), (0, end))
    });
    let mut problems = Vec::new();
    // Memory has no errors.
    merge::merge(cursor.into_iter().collect(), &mut problems, &mut emit);
    problems
}

/// Whether the metadata, which cannot be read as ours, names another tracer.
fn is_by_another_tracer(path: &Path) -> bool {
    let folder = Directory::at(path).and_then(|recording| recording.open(OsStr::new("kernel")));
    let text = folder.and_then(|kernel| kernel.read_text("metadata", MAX_METADATA_BYTES));
    let name = text.ok().and_then(|text| Some(text.split_once("tracer_name")?.1.trim_start().to_owned()));
    let named = name.as_deref().and_then(|rest| rest.strip_prefix('=')).map(str::trim_start);
    named.is_some_and(|named| !named.trim_start_matches('"').starts_with(TRACER))
}

fn cpu_of(buffer: Buffer, number: u32) -> Cpu {
    match buffer {
        Buffer::Life => Cpu::UNKNOWN,
        Buffer::Sched | Buffer::Net => Cpu::numbered(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic;

    /// Another tracer's session may have a folder `kernel` with plain metadata too.
    #[test]
    fn damaged_metadata_is_ours_unless_it_names_another_tracer() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let kernel = folder.path().join("kernel");
        std::fs::create_dir(&kernel).expect("a directory");
        for (text, ours) in [
            ("env { tracer_name = \"lttng-modules\"; }; trace {", false),
            ("env { tracer_name=perf; }; trace {", false),
            ("env { tracer_name = \"wakepath\"; }; trace {", true),
            ("trace { major = 1;", true),
        ] {
            std::fs::write(kernel.join("metadata"), text).expect("a file");
            assert_eq!(Recording::recognises(folder.path()), ours, "{text}");
        }
    }

    #[test]
    fn reading_reports_its_progress_and_what_it_cannot_read() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path().join("rec");
        let machine = synthetic::Machine { cpus: 1, threads_per_cpu: 3, events: 3000, seed: 7 };
        synthetic::write(&path, &machine).expect("room");
        std::fs::write(path.join("kernel/notes"), "mine").expect("room");
        let recording = Recording::open(&path).expect("a recording");
        let (mut each, mut read, mut progress) = (Vec::new(), Vec::new(), Vec::new());
        let problems = recording.for_each(|event| each.push(event.clone()));
        assert_eq!(
            recording.read(|event| read.push(event.clone()), |events| progress.push(events)),
            problems
        );
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(each == read && each.len() > 3000, "{} and {}", each.len(), read.len());
        assert_eq!(progress, (1..=each.len() as u64 / 1024).map(|n| n * 1024).collect::<Vec<_>>());
    }
}
