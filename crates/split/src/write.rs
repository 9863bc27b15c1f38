use std::path::{Path, PathBuf};

use wakepath_clock::{Local, Stamp};
use wakepath_event::{Cpu, Event, EventKind, Tid};
use wakepath_kernel_records::{Buffer, EncodeError, Encoder, Header, Kind};
use wakepath_recording::{ClockReading, HostIdentity, OpenError, Options, Recording, WriteError, Writer};

use crate::{Apart, Side};

/// A host's clock, by the one of the recording that is split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Clock {
    /// How far it is ahead, ns.
    pub ahead_ns: u64,
    /// By how many millionths it is faster.
    pub ppm: i32,
}

impl Clock {
    /// A stamp by this clock, which agreed with the other, but for `ahead_ns`, at `since`.
    fn tell(self, since: Stamp<Local>, at: Stamp<Local>) -> Stamp<Local> {
        let passed = i128::from(at.ns()) - i128::from(since.ns());
        let told =
            i128::from(at.ns()) + i128::from(self.ahead_ns) + passed * i128::from(self.ppm) / 1_000_000;
        Stamp::from_ns(u64::try_from(told).unwrap_or(if told < 0 { 0 } else { u64::MAX }))
    }
}

/// A host to be, and where its recording goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// What it has.
    pub side: Side,
    /// Its clock.
    pub clock: Clock,
    /// A directory that is not there yet.
    pub recording: PathBuf,
}

/// Why a recording cannot be split.
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

/// Splits a recording into those of `hosts`, with the processes `wire` between them.
///
/// # Errors
/// When it cannot be read whole, or one of the others cannot be written.
pub fn split(recording: &Path, hosts: &[Host], wire: &[Tid]) -> Result<(), SplitError> {
    let whole = Recording::open(recording)?;
    let (since, _) = whole.span().ok_or_else(|| SplitError::Empty(recording.to_owned()))?;
    let sides = hosts.iter().map(|host| host.side.clone()).collect();
    let mut apart = Apart::new(sides, wire.iter().copied());
    let mut tellers = hosts
        .iter()
        .enumerate()
        .map(|(n, host)| Teller::new(&whole, n, host, since))
        .collect::<Result<Vec<_>, _>>()?;
    for teller in &mut tellers {
        for event in Apart::elsewhere(since, whole.host().cpus) {
            teller.tell(event)?;
        }
    }
    let mut failed = None;
    let problems = whole.for_each(|event| {
        apart.observe(event);
        for (side, teller) in tellers.iter_mut().enumerate() {
            let told = apart.seen(side, event).map_or(Ok(()), |event| teller.tell(event));
            if let Err(error) = told {
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
    tellers.into_iter().try_for_each(Teller::finish)
}

/// Records of one stream that wait.
#[derive(Debug, Default)]
struct Waiting {
    bytes: Vec<u8>,
    first: u64,
    last: u64,
    records: u64,
    seq: u16,
}

/// So many bytes make a packet.
const PACKET: usize = 1 << 18;

/// Writes one host's recording.
struct Teller {
    writer: Writer,
    encoder: Encoder,
    clock: Clock,
    since: Stamp<Local>,
    /// Of each CPU: switches and wakings, and packets.
    waiting: Vec<[Waiting; 2]>,
}

impl Teller {
    fn new(whole: &Recording, number: usize, host: &Host, since: Stamp<Local>) -> Result<Self, SplitError> {
        let of = whole.host();
        // Another boot than all others.
        let boot_id = format!("{number:08x}{}", of.boot_id.get(8..).unwrap_or_default());
        let identity = HostIdentity { name: host.name.clone(), boot_id, ..of.clone() };
        let realtime = i128::from(since.ns()) + whole.realtime_offset_ns();
        let clock = ClockReading {
            monotonic_ns: host.clock.tell(since, since).ns(),
            realtime_ns: u64::try_from(realtime).unwrap_or_default(),
        };
        let options = Options { clock, ..Options::new(whole.writer_version(), whole.options()) };
        Ok(Self {
            writer: Writer::create(&host.recording, &identity, &options)?,
            encoder: Encoder::for_release(&identity.kernel_release),
            clock: host.clock,
            since,
            waiting: Vec::new(),
        })
    }

    fn tell(&mut self, mut event: Event) -> Result<(), SplitError> {
        let tell = |at: &mut Stamp<Local>| *at = self.clock.tell(self.since, *at);
        tell(&mut event.at);
        match &mut event.kind {
            EventKind::Thread { identity: who, .. } | EventKind::Fork { child: who } => tell(&mut who.start),
            EventKind::BlockIssue(request) | EventKind::BlockComplete(request) => {
                request.start.iter_mut().chain(&mut request.issued).for_each(tell);
            }
            EventKind::Loss { from, .. } => tell(from),
            _ => {}
        }
        let mut bytes = Vec::new();
        self.encoder.encode(&event, 0, &mut bytes)?;
        let kind = Header::read(&bytes).and_then(|header| Kind::from_number(header.kind));
        let place = [Buffer::Sched, Buffer::Net].iter().position(|of| match kind {
            // What the recorder writes from every context goes into the buffer of all CPUs.
            Some(Kind::SocketReady | Kind::Flow) | None => false,
            Some(kind) => of.holds(kind),
        });
        let (Some(place), true) = (place, event.cpu != Cpu::UNKNOWN) else {
            self.writer.life().push_event(&event)?;
            if self.writer.life().waiting() > PACKET {
                self.writer.life().flush(event.at.ns(), 0)?;
            }
            return Ok(());
        };
        let cpu = usize::from(event.cpu.0);
        if self.waiting.len() <= cpu {
            self.waiting.resize_with(cpu + 1, Default::default);
        }
        let waiting = &mut self.waiting[cpu][place];
        let seq = waiting.seq;
        if waiting.records == 0 {
            waiting.first = event.at.ns();
        }
        self.encoder.encode(&event, seq, &mut waiting.bytes)?;
        waiting.seq = seq.wrapping_add(1);
        waiting.last = event.at.ns();
        waiting.records += 1;
        if waiting.bytes.len() > PACKET { self.append(cpu, place) } else { Ok(()) }
    }

    fn append(&mut self, cpu: usize, place: usize) -> Result<(), SplitError> {
        let waiting = &mut self.waiting[cpu][place];
        if waiting.records == 0 {
            return Ok(());
        }
        let number = Cpu(cpu as u16);
        let stream = if place == 0 { self.writer.sched(number) } else { self.writer.net(number) };
        stream?.append(&[&waiting.bytes], waiting.first, waiting.last, waiting.records, 0)?;
        waiting.bytes.clear();
        waiting.records = 0;
        Ok(())
    }

    fn finish(mut self) -> Result<(), SplitError> {
        for cpu in 0..self.waiting.len() {
            self.append(cpu, 0)?;
            self.append(cpu, 1)?;
        }
        Ok(self.writer.life().flush(u64::MAX, 0)?)
    }
}
