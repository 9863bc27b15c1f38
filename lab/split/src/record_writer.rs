//! Splits a recording, and writes each new host's records.

use std::path::{Path, PathBuf};

use wakepath_clock::{Local, Stamp};
use wakepath_event::{Cpu, Description, Event, EventKind, EventSource, RecordingFormat, Tid};
use wakepath_kernel_records::{Buffer, EncodeError, Encoder, Header, Kind};
use wakepath_recording::{ClockReading, HostIdentity, OpenError, Options, Recording, WriteError, Writer};

use crate::{HostViews, Side};

/// A host's clock, relative to the clock of the original recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Clock {
    /// The time by which it is ahead, ns.
    pub ahead_ns: u64,
    /// The millionths by which it is faster.
    pub ppm: i32,
}

impl Clock {
    /// A stamp by this clock, which agreed with the original clock at `since`, apart from
    /// `ahead_ns`.
    fn convert(self, since: Stamp<Local>, at: Stamp<Local>) -> Stamp<Local> {
        let passed = i128::from(at.ns()) - i128::from(since.ns());
        let ns = i128::from(at.ns()) + i128::from(self.ahead_ns) + passed * i128::from(self.ppm) / 1_000_000;
        Stamp::from_ns(u64::try_from(ns).unwrap_or(if ns < 0 { 0 } else { u64::MAX }))
    }
}

/// A new host, and its recording's path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// The name.
    pub name: String,
    /// The namespace and processes.
    pub side: Side,
    /// The clock.
    pub clock: Clock,
    /// A directory that does not exist yet.
    pub recording: PathBuf,
}

/// The reason why a recording cannot be split.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum SplitError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error("an event has no record: {0}")]
    Encode(#[from] EncodeError),
    #[error("{0} is damaged: {1}")]
    Damaged(PathBuf, String),
    #[error("{0} has no events")]
    Empty(PathBuf),
}

/// Splits a recording into recordings of `hosts`, with the processes `wire` between them.
///
/// # Errors
/// When it cannot be read to its end, or a new recording cannot be written.
pub fn split(recording: &Path, hosts: &[Host], wire: &[Tid]) -> Result<(), SplitError> {
    let whole = Recording::open(recording)?;
    let source = whole.description();
    let (since, _) = source.extent.ok_or_else(|| SplitError::Empty(recording.to_owned()))?;
    let sides = hosts.iter().map(|host| host.side.clone()).collect();
    let mut views = HostViews::new(sides, wire.iter().copied());
    let mut writers = hosts
        .iter()
        .enumerate()
        .map(|(n, host)| RecordWriter::new(source, n, host, since))
        .collect::<Result<Vec<_>, _>>()?;
    for writer in &mut writers {
        for event in HostViews::others(since, source.host.cpus) {
            writer.write(event)?;
        }
    }
    let mut failed = None;
    let problems = whole.for_each(|event| {
        views.observe(event);
        for (side, writer) in writers.iter_mut().enumerate() {
            let written = views.view(side, event).map_or(Ok(()), |event| writer.write(event));
            if let Err(error) = written {
                failed.get_or_insert(error);
            }
        }
    });
    if let Some(error) = failed {
        return Err(error);
    }
    if let Some(problem) = problems.first() {
        return Err(SplitError::Damaged(
            recording.to_owned(),
            format!("{} at byte {}: {}", problem.file, problem.offset, problem.fault),
        ));
    }
    writers.into_iter().try_for_each(RecordWriter::finish)
}

/// A stream's records, until their packet is full.
#[derive(Debug, Default)]
struct PendingPacket {
    bytes: Vec<u8>,
    first: u64,
    last: u64,
    records: u64,
    seq: u16,
}

/// A packet with more bytes is written.
const MIN_PACKET_BYTES: usize = 1 << 18;

/// Writes a host's recording.
struct RecordWriter {
    writer: Writer,
    encoder: Encoder,
    clock: Clock,
    since: Stamp<Local>,
    /// By CPU: the streams of switches and wakings, and of packets.
    pending: Vec<[PendingPacket; 2]>,
}

impl RecordWriter {
    fn new(
        source: &Description,
        number: usize,
        host: &Host,
        since: Stamp<Local>,
    ) -> Result<Self, SplitError> {
        // A boot id unlike all others.
        let boot_id = format!("{number:08x}{}", source.host.boot_id.get(8..).unwrap_or_default());
        let identity = HostIdentity { name: host.name.clone(), boot_id, ..source.host.clone() };
        let realtime = i128::from(since.ns()) + source.realtime_offset_ns.unwrap_or(0);
        let clock = ClockReading {
            monotonic_ns: host.clock.convert(since, since).ns(),
            realtime_ns: u64::try_from(realtime).unwrap_or_default(),
        };
        let format = source.format.clone().unwrap_or_default();
        let options = Options { clock, ..Options::new(&format.writer, &format.options) };
        Ok(Self {
            writer: Writer::create(&host.recording, &identity, &options)?,
            encoder: Encoder::for_release(&identity.kernel_release),
            clock: host.clock,
            since,
            pending: Vec::new(),
        })
    }

    fn write(&mut self, mut event: Event) -> Result<(), SplitError> {
        let convert = |at: &mut Stamp<Local>| *at = self.clock.convert(self.since, *at);
        convert(&mut event.at);
        match &mut event.kind {
            EventKind::Thread { identity, .. } | EventKind::Fork { child: identity } => {
                convert(&mut identity.start);
            }
            EventKind::BlockIssue(request) | EventKind::BlockComplete(request) => {
                request.start.iter_mut().chain(&mut request.issued).for_each(convert);
            }
            EventKind::Loss { from, .. } => convert(from),
            EventKind::Reclaim(reclaim) => convert(&mut reclaim.from),
            _ => {}
        }
        let mut bytes = Vec::new();
        self.encoder.encode(&event, 0, &mut bytes)?;
        let kind = Header::read(&bytes).and_then(|header| Kind::from_number(header.kind));
        let place = [Buffer::Sched, Buffer::Net].iter().position(|buffer| match kind {
            // The recorder writes these from every context, and so into the buffer for all CPUs.
            Some(Kind::SocketReady | Kind::Flow) | None => false,
            Some(kind) => buffer.holds(kind),
        });
        let (Some(place), true) = (place, event.cpu != Cpu::UNKNOWN) else {
            self.writer.life().push_event(&event)?;
            if self.writer.life().waiting() > MIN_PACKET_BYTES {
                self.writer.life().flush(event.at.ns(), 0)?;
            }
            return Ok(());
        };
        let cpu = usize::from(event.cpu.0);
        if self.pending.len() <= cpu {
            self.pending.resize_with(cpu + 1, Default::default);
        }
        let pending = &mut self.pending[cpu][place];
        let seq = pending.seq;
        if pending.records == 0 {
            pending.first = event.at.ns();
        }
        self.encoder.encode(&event, seq, &mut pending.bytes)?;
        pending.seq = seq.wrapping_add(1);
        pending.last = event.at.ns();
        pending.records += 1;
        if pending.bytes.len() > MIN_PACKET_BYTES { self.append(cpu, place) } else { Ok(()) }
    }

    fn append(&mut self, cpu: usize, place: usize) -> Result<(), SplitError> {
        let pending = &mut self.pending[cpu][place];
        if pending.records == 0 {
            return Ok(());
        }
        let number = Cpu(cpu as u16);
        let stream = if place == 0 { self.writer.sched(number) } else { self.writer.net(number) };
        stream?.append(&[&pending.bytes], pending.first, pending.last, pending.records, 0)?;
        pending.bytes.clear();
        pending.records = 0;
        Ok(())
    }

    fn finish(mut self) -> Result<(), SplitError> {
        for cpu in 0..self.pending.len() {
            self.append(cpu, 0)?;
            self.append(cpu, 1)?;
        }
        Ok(self.writer.life().flush(u64::MAX, 0)?)
    }
}
