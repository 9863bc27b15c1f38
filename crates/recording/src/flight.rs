//! The flight recorder's memory: the last seconds of records, and what the records before them say of these seconds.
//!
//! ```text
//! packets of a CPU  ──► kept whole, newest last ──┐   at a trigger: the last states, restated in front,
//! rare records      ──► kept in order of time ────┤   then all records in memory, as an ordinary recording
//!                                                 ▼
//!                       the oldest go ──► last states (one per thread, file, flow, name, request …)
//! ```
//!
//! [`Flight::settle`] moves the beginning of the window forward: past what is older than the window, and past the
//! oldest packet while there is too little memory. Records of all streams before that stamp pass through [`last`] in the
//! order of time, so that its states are exactly those of that moment, and a recording can begin there.
//!
//! No clock is read here and no file is opened: a test runs a week in a second.

mod bounded;
mod kept;
mod last;
mod spans;
mod threads;
mod trigger;
mod window;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use wakepath_event::{Cpu, Event};
use wakepath_kernel_records::{Buffer, Decoder, Encoder, Header, Kind, record_length, walk};

use crate::WriteError;
pub use kept::{FlightDirectory, KeptLimits, is_written, kept_recordings, recorder};
use last::LastStates;
pub use spans::FlightSpans;
pub use trigger::{Asked, Cause, Triggers};
pub use window::KeptWindow;

/// The limits of a flight recorder's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlightLimits {
    /// The time that is remembered where the memory is large enough, ns.
    pub window_ns: u64,
    /// The memory for records and last states, bytes. The last states may take half of it.
    pub bytes: usize,
}

/// The memory of a flight recorder.
#[derive(Debug)]
pub struct Flight {
    limits: FlightLimits,
    decoder: Decoder,
    encoder: Encoder,
    streams: BTreeMap<(Buffer, Cpu), Packets>,
    /// Records of the buffer that all CPUs share, by stamp and arrival.
    rare: BTreeMap<(u64, u64), Box<[u8]>>,
    arrivals: u64,
    packet_bytes: usize,
    rare_bytes: usize,
    last: LastStates,
    /// The beginning of the window, ns: of no stream is an earlier record kept. 0 while nothing has gone.
    begin: u64,
    /// The time at which the ended processes were last forgotten, ns.
    swept: u64,
}

/// The packets of a CPU's ring.
#[derive(Debug, Default)]
struct Packets {
    packets: VecDeque<Packet>,
    /// The counter of lost records where the kept records begin.
    lost: u64,
    /// The number of the first kept record, if none before it was lost.
    next: Option<u16>,
}

#[derive(Debug)]
struct Packet {
    bytes: Box<[u8]>,
    /// Where the kept records begin, bytes.
    from: usize,
    last: u64,
    lost: u64,
}

/// The memory of a packet or a rare record beside its bytes: its place in a collection, and the allocator's own.
const OVERHEAD_BYTES: usize = 64;
/// The beginning of the window moves in steps: going through all streams for a few records would cost more than the
/// records.
const STEP_NS: u64 = 100_000_000;
/// The interval at which ended processes are forgotten.
const SWEEP_NS: u64 = 60_000_000_000;

impl Flight {
    /// An empty memory for records of the kernel of this release.
    pub fn new(limits: FlightLimits, release: &str) -> Self {
        Self {
            limits,
            decoder: Decoder::for_release(release),
            encoder: Encoder::for_release(release),
            streams: BTreeMap::new(),
            rare: BTreeMap::new(),
            arrivals: 0,
            packet_bytes: 0,
            rare_bytes: 0,
            last: LastStates::new(),
            begin: 0,
            swept: 0,
        }
    }

    /// Takes records of a CPU's ring, which had lost `lost` records before. If one is malformed, which is a bug of ours,
    /// the records before it are kept; the rest is dropped, and shows as a gap in the numbers.
    pub fn packet(&mut self, buffer: Buffer, cpu: Cpu, bytes: &[u8], lost: u64) {
        let summary = match walk(buffer, &[bytes]) {
            Ok(summary) => summary,
            Err(error) => error.before,
        };
        if summary.records == 0 {
            return;
        }
        let bytes: Box<[u8]> = bytes[..summary.bytes].into();
        self.packet_bytes += bytes.len() + OVERHEAD_BYTES;
        let packet = Packet { bytes, from: 0, last: summary.last_stamp, lost };
        self.streams.entry((buffer, cpu)).or_default().packets.push_back(packet);
    }

    /// Takes one record of the buffer that all CPUs share.
    ///
    /// # Errors
    /// When `record` is not one record of this buffer, whole.
    pub fn rare(&mut self, record: &[u8]) -> Result<(), WriteError> {
        let length = record_length(record)?;
        let header = Header::read(record).filter(|_| length == record.len());
        let kind = header.and_then(|header| Kind::from_number(header.kind));
        let (Some(header), Some(_)) = (header, kind.filter(|kind| Buffer::Life.holds(*kind))) else {
            let kind = header.map_or(0, |header| header.kind);
            return Err(wakepath_kernel_records::DecodeError::UnknownKind(kind).into());
        };
        if header.stamp < self.begin {
            // It came too late for its place. It still states a fact.
            take(&self.decoder, &mut self.last, record, life_cpu(header));
            return Ok(());
        }
        self.arrivals += 1;
        self.rare_bytes += record.len() + OVERHEAD_BYTES;
        self.rare.insert((header.stamp, self.arrivals), record.into());
        Ok(())
    }

    /// Takes an event that user space contributes.
    ///
    /// # Errors
    /// When no record of the buffer that all CPUs share holds such an event.
    pub fn event(&mut self, event: &Event) -> Result<(), WriteError> {
        let mut record = Vec::new();
        self.encoder.encode(event, event.cpu.0, &mut record)?;
        self.rare(&record)
    }

    /// Notes that all records up to `now` are there, and drops what is too old or too much.
    pub fn settle(&mut self, now: u64) {
        let oldest = now.saturating_sub(self.limits.window_ns);
        if self.first().is_some_and(|first| first + STEP_NS <= oldest) {
            self.cut(oldest);
        }
        // An earlier record than one that is not settled may still come.
        while self.bytes() > self.limits.bytes
            && let Some(last) = self.oldest_packet().filter(|&last| last < now)
        {
            self.cut(last + 1);
        }
        while self.bytes() > self.limits.bytes
            && let Some((&(stamp, _), _)) = self.rare.first_key_value().filter(|((stamp, _), _)| *stamp < now)
        {
            self.cut((stamp + STEP_NS).min(now));
        }
        if self.begin >= self.swept + SWEEP_NS {
            self.swept = self.begin;
            self.last.forget_the_dead();
        }
    }

    /// The memory that is in use, bytes.
    pub fn bytes(&self) -> usize {
        self.packet_bytes + self.rare_bytes + self.last.bytes()
    }

    /// The beginning of the window: of no stream is a record missing from here on. `None` while nothing is there.
    pub fn begin(&self) -> Option<u64> {
        if self.begin > 0 { Some(self.begin) } else { self.first() }
    }

    /// The stamp of the earliest record.
    fn first(&self) -> Option<u64> {
        let packets = self.streams.values().filter_map(|stream| stream.packets.front());
        let stamps = packets.filter_map(|packet| Some(Header::read(&packet.bytes[packet.from..])?.stamp));
        stamps.chain(self.rare.keys().next().map(|(stamp, _)| *stamp)).min()
    }

    /// The last stamp of the packet that ends first.
    fn oldest_packet(&self) -> Option<u64> {
        self.streams.values().filter_map(|stream| Some(stream.packets.front()?.last)).min()
    }

    /// Moves the beginning of the window to `to`: the records before it pass through the last states, in the order of time.
    /// No record before `to` may come any more, but rare ones that are late.
    pub fn cut(&mut self, to: u64) {
        let Self { streams, rare, decoder, last, .. } = self;
        self.begin = self.begin.max(to);
        let kept = rare.split_off(&(to, 0));
        let mut gone = std::mem::replace(rare, kept).into_iter().peekable();
        let mut streams: Vec<_> = streams.iter_mut().collect();
        // Records of equal stamps come in the order in which a reader has them: the rare ones first, then by stream.
        let mut next = BinaryHeap::new();
        next.extend(gone.peek().map(|((stamp, _), _)| Reverse((*stamp, 0))));
        for (place, (_, packets)) in streams.iter().enumerate() {
            next.extend(packets.first().filter(|first| *first < to).map(|first| Reverse((first, place + 1))));
        }
        while let Some(Reverse((_, source))) = next.pop() {
            let until = next.peek().map_or((to, 0), |Reverse(other)| *other);
            if source == 0 {
                while let Some((_, record)) = gone.next_if(|((stamp, _), _)| (*stamp, 0) < until) {
                    self.rare_bytes -= record.len() + OVERHEAD_BYTES;
                    let cpu = Header::read(&record).map_or(Cpu::UNKNOWN, life_cpu);
                    take(decoder, last, &record, cpu);
                }
                next.extend(gone.peek().map(|((stamp, _), _)| Reverse((*stamp, 0))));
                continue;
            }
            let (key, packets) = &mut streams[source - 1];
            let (buffer, cpu) = **key;
            while packets.first().is_some_and(|stamp| stamp < to && (stamp, source) < until) {
                packets.pass(buffer, cpu, decoder, last, &mut self.packet_bytes);
            }
            next.extend(packets.first().filter(|first| *first < to).map(|first| Reverse((first, source))));
        }
    }
}

impl Packets {
    /// The stamp of the first kept record.
    fn first(&self) -> Option<u64> {
        let packet = self.packets.front()?;
        Some(Header::read(&packet.bytes[packet.from..])?.stamp)
    }

    /// Passes the first record to the last states, and drops the packet with its last record.
    fn pass(
        &mut self,
        buffer: Buffer,
        cpu: Cpu,
        decoder: &Decoder,
        last: &mut LastStates,
        packet_bytes: &mut usize,
    ) {
        let Some(packet) = self.packets.front_mut() else { return };
        let record = &packet.bytes[packet.from..];
        let seq = Header::read(record).map_or(0, |header| header.seq);
        let gap = self.next.map_or(0, |next| seq.wrapping_sub(next));
        if gap > 0 {
            self.lost += u64::from(gap);
            if buffer == Buffer::Sched {
                last.lose(cpu);
            }
        }
        self.next = Some(seq.wrapping_add(1));
        // `walk` has found whole records here.
        packet.from += take(decoder, last, record, cpu).unwrap_or(record.len());
        if packet.from >= packet.bytes.len() {
            *packet_bytes -= packet.bytes.len() + OVERHEAD_BYTES;
            self.lost = self.lost.max(packet.lost);
            self.packets.pop_front();
        }
    }
}

/// Passes a record to the last states. Returns its length, if it has one.
fn take(decoder: &Decoder, last: &mut LastStates, record: &[u8], cpu: Cpu) -> Option<usize> {
    let taken = decoder.decode_with(record, cpu, |event, length| {
        last.take(&event);
        length
    });
    // A record that cannot be decoded has a length, and nothing to say.
    taken.ok().or_else(|| record_length(record).ok())
}

/// The CPU of a record of the buffer that all CPUs share.
const fn life_cpu(header: Header) -> Cpu {
    Cpu::numbered(header.seq as u32)
}
