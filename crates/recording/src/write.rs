//! The writer of a recording.

mod budget;
mod create;
mod error;
mod life;
mod spans;
mod stream;

use std::path::Path;
use std::sync::Arc;

use wakepath_caller::{Caller, Directory};
use wakepath_clock::{Local, Stamp};
use wakepath_ctf::packet::HEADER_BYTES;
use wakepath_ctf::tsdl;
use wakepath_event::Cpu;
use wakepath_kernel_records::{Buffer, Encoder};

use crate::metadata::{RecordingFacts, metadata, offset_ns};
use crate::spans::SPANS;
use crate::{ClockReading, HostIdentity, Place};
pub(crate) use budget::Budget;
pub use budget::Space;
use create::ExistingRecording;
pub use error::WriteError;
pub use life::Life;
pub use spans::SpanWriter;
pub use stream::Stream;
use stream::StreamFiles;

/// The options for writing a recording.
#[derive(Debug, Clone)]
pub struct Options {
    /// The program's version, for the metadata.
    pub wakepath: String,
    /// The arguments of the recorder, for the metadata.
    pub options: String,
    /// The cgroup, unit or container that is asked about, if it is one.
    pub cgroup: Option<String>,
    /// The clocks at the beginning.
    pub clock: ClockReading,
    /// Identifies the recording; random when `None`.
    pub uuid: Option<[u8; 16]>,
    /// The user with whose rights it is written; the user who runs us when `None`.
    pub caller: Option<Caller>,
    /// The number of bytes that the streams and the spans may take together.
    pub most_bytes: Option<u64>,
    /// The part of these bytes that is kept for [`Writer::use_all_room`].
    pub kept_for_end: u64,
    /// The share of the file system that has to stay free, in percent; at most 4 GiB.
    pub least_free_percent: Option<u8>,
}

impl Options {
    /// Random uuid, the clocks of now, no limits, written as the user who runs us.
    pub fn new(wakepath: &str, options: &str) -> Self {
        Self {
            wakepath: wakepath.to_owned(),
            options: options.to_owned(),
            cgroup: None,
            clock: ClockReading::now(),
            uuid: None,
            caller: None,
            most_bytes: None,
            kept_for_end: 0,
            least_free_percent: None,
        }
    }
}

/// Writes one recording.
#[derive(Debug)]
pub struct Writer {
    place: Place,
    files: Arc<StreamFiles>,
    /// By CPU.
    sched: Vec<Option<Stream>>,
    net: Vec<Option<Stream>>,
    life: Life,
}

impl Writer {
    /// Makes the directory `path`, private, with metadata and no events. It must not exist, or be
    /// an empty directory of the same user; `path` itself must not be a symbolic link, and links on the way to it must
    /// belong to this user or to root.
    ///
    /// # Errors
    /// When something is in the way, or of the operating system.
    pub fn create(path: &Path, host: &HostIdentity, options: &Options) -> Result<Self, WriteError> {
        Self::make(path, host, options, ExistingRecording::Stays)
    }

    /// Does the same as [`Self::create`], but a recording that is there moves aside ([`crate::rotate`]). It stays where
    /// the new one cannot be made, or the disk has too little room from the start.
    ///
    /// # Errors
    /// The errors of [`Self::create`] and [`Self::check_space`]; when the existing file is no recording of ours.
    pub fn replace(path: &Path, host: &HostIdentity, options: &Options) -> Result<Self, WriteError> {
        Self::make(path, host, options, ExistingRecording::MovesAside)
    }

    fn make(
        path: &Path,
        host: &HostIdentity,
        options: &Options,
        earlier: ExistingRecording,
    ) -> Result<Self, WriteError> {
        let uuid = options.uuid.unwrap_or_else(random_uuid);
        let facts = RecordingFacts {
            format: crate::metadata::FORMAT,
            uuid,
            host: host.clone(),
            offset_ns: offset_ns(options.clock),
            wakepath: options.wakepath.clone(),
            options: options.options.clone(),
            cgroup: options.cgroup.clone(),
        };
        let budget = Budget::new(options.most_bytes, options.kept_for_end, options.least_free_percent);
        let has_space = |kernel: &Directory| space(kernel, path, &budget).map(drop);
        let acting = Caller::act(options.caller.as_ref()).map_err(|e| WriteError::from_io(path, e))?;
        let (place, kernel) = create::create(path, &tsdl::write(&metadata(&facts)), earlier, has_space)?;
        drop(acting);
        let caller = options.caller.clone();
        let files = Arc::new(StreamFiles { kernel, uuid, caller, budget: Arc::new(budget) });
        let life = Life::new(Arc::clone(&files), Encoder::for_release(&host.kernel_release));
        Ok(Self { place, files, sched: vec![], net: vec![], life })
    }

    /// The place where it was asked to be.
    pub fn path(&self) -> &Path {
        self.place.asked()
    }

    /// Its place, whatever its name becomes.
    pub fn place(&self) -> Place {
        self.place.clone()
    }

    /// The stream of a CPU's switches and wakings; made when first asked for.
    ///
    /// # Errors
    /// When its file cannot be made.
    pub fn sched(&mut self, cpu: Cpu) -> Result<&mut Stream, WriteError> {
        self.per_cpu(Buffer::Sched, cpu)
    }

    /// The stream of a CPU's packets; made when first asked for.
    ///
    /// # Errors
    /// When its file cannot be made.
    pub fn net(&mut self, cpu: Cpu) -> Result<&mut Stream, WriteError> {
        self.per_cpu(Buffer::Net, cpu)
    }

    /// The stream of everything rarer.
    pub const fn life(&mut self) -> &mut Life {
        &mut self.life
    }

    /// The file for the spans that applications send; to be asked for once. It may outlive this writer.
    ///
    /// # Errors
    /// When its file cannot be made.
    pub fn spans(&self) -> Result<SpanWriter, WriteError> {
        let path = self.path().join(SPANS);
        let file = Caller::act(self.files.caller.as_ref()).and_then(|_acting| self.place.create_file(SPANS));
        let file = file.map_err(|source| WriteError::from_io(&path, source))?;
        Ok(SpanWriter::new(file, path, Arc::clone(&self.files), self.place()))
    }

    /// Ends the streams of all CPUs: each holds all records up to `at`. A stream without this end was cut off.
    ///
    /// # Errors
    /// When there is no room for the ends of all: then none has one.
    pub fn close_streams(&mut self, at: Stamp<Local>) -> Result<(), WriteError> {
        let streams = || self.sched.iter().chain(&self.net).flatten();
        self.files.budget.take((streams().count() * HEADER_BYTES) as u64)?;
        let mut streams = self.sched.iter_mut().chain(&mut self.net).flatten();
        streams.try_for_each(|stream| stream.close(at.ns()))
    }

    /// Bytes written to all streams and to the file of spans.
    pub fn bytes(&self) -> u64 {
        self.files.budget.written()
    }

    /// Allows the use of the bytes that were kept for the end.
    pub fn use_all_room(&self) {
        self.files.budget.use_all();
    }

    /// The file system's free space. To be asked for every second or so: a disk that is about to
    /// fill is an error here.
    ///
    /// # Errors
    /// [`WriteError::DiskReserve`] when less is free than [`Options::least_free_percent`].
    pub fn check_space(&self) -> Result<Space, WriteError> {
        space(&self.files.kernel, self.path(), &self.files.budget)
    }

    fn per_cpu(&mut self, buffer: Buffer, cpu: Cpu) -> Result<&mut Stream, WriteError> {
        let (streams, name) = match buffer {
            Buffer::Sched => (&mut self.sched, "sched"),
            _ => (&mut self.net, "net"),
        };
        let index = usize::from(cpu.0);
        if cpu.0 >= Cpu::LIMIT {
            return Err(WriteError::NoSuchCpu(cpu.0));
        }
        if streams.len() <= index {
            streams.resize_with(index + 1, || None);
        }
        let slot = &mut streams[index];
        if slot.is_none() {
            *slot = Some(self.files.make(&format!("{name}_{}", cpu.0), buffer, cpu.0.into())?);
        }
        slot.as_mut().ok_or(WriteError::NoSuchCpu(cpu.0))
    }
}

fn space(kernel: &Directory, path: &Path, budget: &Budget) -> Result<Space, WriteError> {
    let (free, total) = kernel.space().map_err(|e| WriteError::from_io(path, e))?;
    budget.check(path, Space { free, total })
}

/// A random uuid, version 4 (RFC 9562, section 5.4).
fn random_uuid() -> [u8; 16] {
    let mut uuid = [0; 16];
    // Never short below 256 bytes, by its manual page; a zero would only make the uuid less random.
    let _ = rustix::rand::getrandom(&mut uuid, rustix::rand::GetRandomFlags::empty());
    uuid[6] = 0x40 + (uuid[6] & 0x0f);
    uuid[8] = 0x80 + (uuid[8] & 0x3f);
    uuid
}
