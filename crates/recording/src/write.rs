//! A recording's writer.

mod beside;
mod budget;
mod create;
mod error;
mod go_trace;
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

use crate::go_traces;
use crate::metadata::{RecordingFacts, metadata, offset_ns};
use crate::spans::SPANS;
use crate::{ClockReading, HostIdentity, Place};
pub(crate) use budget::Budget;
pub use budget::Space;
use create::ExistingRecording;
pub use error::WriteError;
pub use go_trace::GoTraceWriter;
pub use life::Life;
pub use spans::SpanWriter;
pub use stream::Stream;
use stream::StreamFiles;

/// The options for a recording.
#[derive(Debug, Clone)]
pub struct Options {
    /// wakepath's version, for the metadata.
    pub wakepath: String,
    /// The recorder's arguments, for the metadata.
    pub options: String,
    /// The targeted cgroup, unit or container, if any.
    pub cgroup: Option<String>,
    /// The clocks at the beginning.
    pub clock: ClockReading,
    /// The recording's identity; random when `None`.
    pub uuid: Option<[u8; 16]>,
    /// The user whose rights decide about files; the process's own user when `None`.
    pub caller: Option<Caller>,
    /// The limit on streams and spans together, bytes.
    pub most_bytes: Option<u64>,
    /// The reserve within this limit for [`Writer::use_all_room`], bytes.
    pub kept_for_end: u64,
    /// The file system's share that must stay free, percent; at most 4 GiB.
    pub least_free_percent: Option<u8>,
}

impl Options {
    /// Random uuid, the clocks now, no limits, the process's own user.
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

/// Writes a recording.
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
    /// Makes the directory `path`, private, with metadata and no events. It must not exist, or be the same user's
    /// empty directory; `path` itself must not be a symbolic link, and links on the way to it must belong to this
    /// user or to root.
    ///
    /// # Errors
    /// When another file is in the way, or the operating system refuses.
    pub fn create(path: &Path, host: &HostIdentity, options: &Options) -> Result<Self, WriteError> {
        Self::make(path, host, options, ExistingRecording::Stays)
    }

    /// Like [`Self::create`], but moves an existing recording aside ([`crate::rotate`]). It stays if the new
    /// recording cannot be made, or the disk is too full from the start.
    ///
    /// # Errors
    /// The errors of [`Self::create`] and [`Self::check_space`]; when the existing file is no wakepath recording.
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

    /// The requested place.
    pub fn path(&self) -> &Path {
        self.place.asked()
    }

    /// The recording's place, also after a change of name.
    pub fn place(&self) -> Place {
        self.place.clone()
    }

    /// The stream of a CPU's switches and wake-ups; made at the first call.
    ///
    /// # Errors
    /// When its file cannot be made.
    pub fn sched(&mut self, cpu: Cpu) -> Result<&mut Stream, WriteError> {
        self.per_cpu(Buffer::Sched, cpu)
    }

    /// The stream of a CPU's packets; made at the first call.
    ///
    /// # Errors
    /// When its file cannot be made.
    pub fn net(&mut self, cpu: Cpu) -> Result<&mut Stream, WriteError> {
        self.per_cpu(Buffer::Net, cpu)
    }

    /// The stream of all rarer records.
    pub const fn life(&mut self) -> &mut Life {
        &mut self.life
    }

    /// The file for spans from applications; call once. It may outlive this writer.
    ///
    /// # Errors
    /// When its file cannot be made.
    pub fn spans(&self) -> Result<SpanWriter, WriteError> {
        let path = self.path().join(SPANS);
        let file = Caller::act(self.files.caller.as_ref()).and_then(|_acting| self.place.create_file(SPANS));
        let file = file.map_err(|source| WriteError::from_io(&path, source))?;
        Ok(SpanWriter::new(file, path, Arc::clone(&self.files), self.place()))
    }

    /// The file for a Go program's execution trace, by the program's number, below [`crate::MAX_GO_TRACES`]; call once for each. It may outlive this
    /// writer.
    ///
    /// # Errors
    /// When its file cannot be made.
    pub fn go_trace(&self, number: usize) -> Result<GoTraceWriter, WriteError> {
        let name = go_traces::name_of(number);
        let path = self.path().join(&name);
        let file = Caller::act(self.files.caller.as_ref()).and_then(|_acting| self.place.create_file(&name));
        let file = file.map_err(|source| WriteError::from_io(&path, source))?;
        Ok(GoTraceWriter::new(file, path, Arc::clone(&self.files), self.place()))
    }

    /// Ends all CPUs' streams: each holds all records up to `at`. Without this end, a stream counts as cut off.
    ///
    /// # Errors
    /// When there is no room for all ends: then no stream has an end.
    pub fn close_streams(&mut self, at: Stamp<Local>) -> Result<(), WriteError> {
        let streams = || self.sched.iter().chain(&self.net).flatten();
        self.files.budget.take((streams().count() * HEADER_BYTES) as u64)?;
        let mut streams = self.sched.iter_mut().chain(&mut self.net).flatten();
        streams.try_for_each(|stream| stream.close(at.ns()))
    }

    /// The bytes written to all streams and to the spans.
    pub fn bytes(&self) -> u64 {
        self.files.budget.written()
    }

    /// Releases the reserve for the end.
    pub fn use_all_room(&self) {
        self.files.budget.use_all();
    }

    /// The file system's free space. To be called every second or so: a nearly full disk is an error here.
    ///
    /// # Errors
    /// [`WriteError::DiskReserve`] when less than [`Options::least_free_percent`] is free.
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
    // Below 256 bytes, `getrandom` is never short (its manual page); a zero would only make the uuid less random.
    let _ = rustix::rand::getrandom(&mut uuid, rustix::rand::GetRandomFlags::empty());
    uuid[6] = 0x40 + (uuid[6] & 0x0f);
    uuid[8] = 0x80 + (uuid[8] & 0x3f);
    uuid
}
