mod cursor;
mod losses;
mod merge;
mod problem;
mod stream;

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use wakepath_clock::{Local, Stamp};
use wakepath_ctf::tsdl::{self, TsdlError};
use wakepath_event::{Cpu, Event};
use wakepath_kernel_records::{Buffer, Decoder};

use crate::HostIdentity;
use crate::directory::Directory;
use crate::metadata::{About, FORMAT, MAX_METADATA, NotOurs, about};
use crate::write::stream_of_name;
use cursor::Cursor;
pub use problem::{ReadFault, ReadProblem};
pub use stream::StreamInfo;

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
    path: PathBuf,
    about: About,
    kernel: Directory,
    streams: Vec<StreamInfo>,
    problems: Vec<ReadProblem>,
}

impl Recording {
    /// Opens the recording in the directory `path` and goes through the headers of its packets.
    ///
    /// # Errors
    /// When it is none, a later wakepath wrote it, or it cannot be read. Damage behind the metadata
    /// is no error: see [`Recording::for_each`].
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let not_ours = |why: String| OpenError::NotARecording { path: path.to_owned(), why };
        let recording = Directory::at(path).map_err(|source| match source.kind() {
            io::ErrorKind::NotADirectory => not_ours("it is not a directory".to_owned()),
            _ => OpenError::Io { path: path.to_owned(), source },
        })?;
        let kernel = recording.open(OsStr::new("kernel"));
        let kernel = kernel.map_err(|e| not_ours(format!("kernel/ cannot be opened: {e}")))?;
        let text = kernel.read_text("metadata", MAX_METADATA);
        let text = text.map_err(|e| not_ours(format!("kernel/metadata cannot be read: {e}")))?;
        let facts = tsdl::read_facts(&text)
            .map_err(|source| OpenError::Metadata { path: kernel.path.join("metadata"), source })?;
        let about = about(&facts).map_err(|why| match why {
            NotOurs::Foreign => not_ours("something else wrote its metadata".to_owned()),
            NotOurs::Newer(format) => OpenError::Newer { path: path.to_owned(), format },
            NotOurs::Lacks(what) => not_ours(format!("its metadata lacks {what}")),
        })?;
        let mut opened = Self { path: path.to_owned(), about, kernel, streams: vec![], problems: vec![] };
        opened.scan()?;
        Ok(opened)
    }

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
                .and_then(|file| StreamInfo::scan(&text, buffer, cpu, &file, self.about.uuid));
            match info {
                Ok(info) => self.streams.push(info),
                Err(e) => self.problems.push(problem(ReadFault::Io(e.to_string()))),
            }
        }
        // The order between events of equal stamps: rarer ones first, since they say what the
        // others are about; then by CPU.
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

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whose events it holds.
    pub fn host(&self) -> &HostIdentity {
        &self.about.host
    }

    /// Realtime (ns since 1970) less monotonic time, at the recording's beginning.
    pub fn realtime_offset_ns(&self) -> i128 {
        self.about.offset_ns
    }

    /// The version of wakepath that wrote it.
    pub fn writer_version(&self) -> &str {
        &self.about.wakepath
    }

    /// The number of its format, at most [`FORMAT`].
    pub fn format(&self) -> i64 {
        self.about.format
    }

    /// What the recorder was asked for.
    pub fn options(&self) -> &str {
        &self.about.options
    }

    /// The cgroup, unit or container that it was made to ask about, if it was one.
    pub fn cgroup(&self) -> Option<&str> {
        self.about.cgroup.as_deref()
    }

    /// Identifies the recording.
    pub fn uuid(&self) -> [u8; 16] {
        self.about.uuid
    }

    /// Its streams, in the order in which events of equal stamps are told.
    pub fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }

    /// Stamps of the first and the last record, as the packets tell; `None` without any.
    pub fn span(&self) -> Option<(Stamp<Local>, Stamp<Local>)> {
        let first = self.streams.iter().filter_map(|stream| stream.first).min()?;
        let last = self.streams.iter().filter_map(|stream| stream.last).max()?;
        Some((Stamp::from_ns(first), Stamp::from_ns(last)))
    }

    /// Tells all events of all streams in the order of their stamps; those of equal stamps in the
    /// order of [`Recording::streams`], and those of one stream as they were written. Returns what
    /// was not as it was written; what could not be read is a loss among the events.
    ///
    /// Reads in blocks: memory does not grow with the recording.
    pub fn for_each(&self, mut tell: impl FnMut(&Event)) -> Vec<ReadProblem> {
        let mut problems = self.problems.clone();
        let all: Vec<_> = (0..self.streams.len()).collect();
        merge::merge(self.cursors(&all, &mut problems), &mut problems, &mut tell);
        problems
    }

    /// The same for one stream, by its index in [`Recording::streams`].
    pub fn for_each_of(&self, stream: usize, mut tell: impl FnMut(&Event)) -> Vec<ReadProblem> {
        let mut problems = Vec::new();
        merge::merge(self.cursors(&[stream], &mut problems), &mut problems, &mut tell);
        problems
    }

    fn cursors(&self, streams: &[usize], problems: &mut Vec<ReadProblem>) -> Vec<Cursor<File>> {
        let decoder = Decoder::for_release(&self.about.host.kernel_release);
        let end = self.span().map_or(0, |(_, last)| last.ns());
        let mut cursors = Vec::new();
        for stream in streams.iter().filter_map(|&index| self.streams.get(index)) {
            let file = self.kernel.open_file(OsStr::new(&stream.name));
            match file.and_then(|file| Cursor::new(stream, file, self.about.uuid, decoder, end)) {
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

/// Reads one stream from memory, of a file that would be called `name`, in a recording with this
/// uuid of a kernel of this release. For tests and for fuzzing: the same code reads files.
pub fn read_stream(
    name: &str,
    bytes: &[u8],
    uuid: [u8; 16],
    release: &str,
    mut tell: impl FnMut(&Event),
) -> Vec<ReadProblem> {
    let Some((buffer, number)) = stream_of_name(name) else { return Vec::new() };
    let cpu = cpu_of(buffer, number);
    let cursor = StreamInfo::scan(name, buffer, cpu, &bytes, uuid).and_then(|info| {
        let end = info.last.unwrap_or(0);
        Cursor::new(&info, bytes, uuid, Decoder::for_release(release), end)
    });
    let mut problems = Vec::new();
    // Memory has no errors.
    merge::merge(cursor.into_iter().collect(), &mut problems, &mut tell);
    problems
}

fn cpu_of(buffer: Buffer, number: u32) -> Cpu {
    match buffer {
        Buffer::Life => Cpu::UNKNOWN,
        Buffer::Sched | Buffer::Net => Cpu::numbered(number),
    }
}
