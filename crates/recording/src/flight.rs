//! The flight recorder's memory: the last seconds' records, and the last states from the records before them.
//!
//! ```text
//! packets of a CPU  ──► kept whole, newest last ──┐   at a trigger: the last states, restated in front,
//! rare records      ──► kept in order of time ────┤   then all records in memory, as an ordinary recording
//!                                                 ▼
//!                       the oldest go ──► last states (one per thread, file, flow, name, request …)
//! ```
//!
//! [`Flight::settle`] moves the window's beginning forward: past records older than the window, and past the oldest
//! packet while memory is short. All streams' records before that stamp pass through `last` in time order, so its
//! states hold exactly at that stamp, and a recording can begin there.
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
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use wakepath_event::{Cpu, Event};
use wakepath_kernel_records::{Buffer, Decoder, Encoder, Header, Kind, record_length, walk};

use crate::WriteError;
pub use kept::{FlightDirectory, KeptLimits, is_written, kept_recordings, recorder};
use last::LastStates;
pub use spans::FlightSpans;
pub use trigger::{Asked, TriggerCause, Triggers};
pub use window::KeptWindow;

/// A flight recorder's memory limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlightLimits {
    /// The time to remember while memory suffices, ns.
    pub window_ns: u64,
    /// The memory for records and last states together, bytes.
    pub bytes: usize,
}

/// A flight recorder's memory.
#[derive(Debug)]
pub struct Flight {
    limits: FlightLimits,
    decoder: Decoder,
    encoder: Encoder,
    streams: BTreeMap<(Buffer, Cpu), Packets>,
    /// Records from the buffer shared by all CPUs, by stamp and arrival.
    rare: BTreeMap<(u64, u64), Box<[u8]>>,
    arrivals: u64,
    packet_bytes: usize,
    rare_bytes: usize,
    last: LastStates,
    /// The window's beginning, ns: no stream keeps an earlier record. 0 until a record is dropped.
    begin: u64,
    /// The last sweep for ended processes, ns.
    swept: u64,
}

/// The packets from a CPU's ring.
#[derive(Debug, Default)]
struct Packets {
    packets: VecDeque<Packet>,
    /// The lost-record counter where the kept records begin.
    lost: u64,
    /// The sequence number due next: the first kept record's, if no record before it was lost.
    next: Option<u16>,
}

#[derive(Debug)]
struct Packet {
    bytes: Box<[u8]>,
    /// The kept records' start, bytes.
    from: usize,
    last: u64,
    lost: u64,
}

/// A packet's or rare record's memory beside its bytes: its place in a collection, and the allocator's own.
const OVERHEAD_BYTES: usize = 64;
/// The window's beginning moves in steps: a walk through all streams for a few records would cost more than the
/// records.
const STEP_NS: u64 = 100_000_000;
/// The interval between sweeps for ended processes.
const SWEEP_NS: u64 = 60_000_000_000;

impl Flight {
    /// An empty memory for records from a kernel with this release.
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

    /// Takes records from a CPU's ring, which had lost `lost` records before. After a malformed record, which is a
    /// bug in wakepath, the rest is dropped, and shows as a gap in the numbers; the records before it are kept.
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

    /// Takes a record from the buffer shared by all CPUs.
    ///
    /// # Errors
    /// When `record` is not exactly one whole record for this buffer.
    pub fn rare(&mut self, record: &[u8]) -> Result<(), WriteError> {
        let length = record_length(record)?;
        let header = Header::read(record).filter(|_| length == record.len());
        let kind = header.and_then(|header| Kind::from_number(header.kind));
        let (Some(header), Some(_)) = (header, kind.filter(|kind| Buffer::Life.holds(*kind))) else {
            let kind = header.map_or(0, |header| header.kind);
            return Err(wakepath_kernel_records::DecodeError::UnknownKind(kind).into());
        };
        if header.stamp < self.begin {
            // The record is too late for the window, but still states a fact.
            take(&self.decoder, &mut self.last, record, life_cpu(header));
            return Ok(());
        }
        self.arrivals += 1;
        self.rare_bytes += record.len() + OVERHEAD_BYTES;
        self.rare.insert((header.stamp, self.arrivals), record.into());
        Ok(())
    }

    /// Takes an event from user space.
    ///
    /// # Errors
    /// When no record kind in the buffer shared by all CPUs holds such an event.
    pub fn event(&mut self, event: &Event) -> Result<(), WriteError> {
        let mut record = Vec::new();
        self.encoder.encode(event, event.cpu.0, &mut record)?;
        self.rare(&record)
    }

    /// Notes that all records up to `now` are there, and drops records beyond the window or the memory limit.
    pub fn settle(&mut self, now: u64) {
        let oldest = now.saturating_sub(self.limits.window_ns);
        if self.first().is_some_and(|first| first + STEP_NS <= oldest) {
            self.cut(oldest);
        }
        while self.bytes() > self.limits.bytes
            && let Some(to) = self.next_beginning(now)
        {
            let before = (self.packet_bytes, self.rare_bytes);
            self.cut(to);
            debug_assert_ne!((self.packet_bytes, self.rare_bytes), before, "each step drops records");
        }
        if self.begin >= self.swept + SWEEP_NS {
            self.swept = self.begin;
            self.last.forget_the_dead();
        }
    }

    /// The window's next beginning while memory is short: behind the oldest packet, then behind the oldest rare
    /// records. Past `now`, earlier records may still come.
    fn next_beginning(&self, now: u64) -> Option<u64> {
        let behind_packet = self.oldest_packet().filter(|&last| last < now).map(|last| last + 1);
        let rare = self.rare.keys().next().map(|(stamp, _)| *stamp).filter(|&stamp| stamp < now);
        behind_packet.or_else(|| Some((rare? + STEP_NS).min(now)))
    }

    /// The memory in use, bytes.
    pub fn bytes(&self) -> usize {
        self.packet_bytes + self.rare_bytes + self.last.bytes()
    }

    /// The window's beginning: from here on, no stream lacks a record. `None` while the memory is empty.
    pub fn begin(&self) -> Option<u64> {
        if self.begin > 0 { Some(self.begin) } else { self.first() }
    }

    /// The earliest record's stamp.
    fn first(&self) -> Option<u64> {
        let stamps = self.streams.values().filter_map(Packets::first);
        stamps.chain(self.rare.keys().next().map(|(stamp, _)| *stamp)).min()
    }

    /// The earliest end among the streams' first packets.
    fn oldest_packet(&self) -> Option<u64> {
        self.streams.values().filter_map(|stream| Some(stream.packets.front()?.last)).min()
    }

    /// Moves the window's beginning to `to`: the records before it pass through the last states, in time order. From
    /// now on, only rare records may still come with a stamp before `to`.
    pub fn cut(&mut self, to: u64) {
        let Self { streams, rare, decoder, last, .. } = self;
        self.begin = self.begin.max(to);
        let kept = rare.split_off(&(to, 0));
        let mut gone = std::mem::replace(rare, kept).into_iter().peekable();
        let mut streams: Vec<_> = streams.iter_mut().collect();
        let first_gone = |packets: &Packets| packets.first().filter(|first| *first < to);
        // At equal stamps, a reader's order: the rare records first, then by stream.
        let mut next = BinaryHeap::new();
        next.extend(gone.peek().map(|((stamp, _), _)| Reverse((*stamp, 0))));
        for (place, (_, packets)) in streams.iter().enumerate() {
            next.extend(first_gone(packets).map(|first| Reverse((first, place + 1))));
        }
        // A record has at least a byte, so this ends in any case.
        for _ in 0..self.packet_bytes + self.rare_bytes {
            let Some(mut head) = next.peek_mut() else { break };
            let Reverse((_, source)) = *head;
            let following = if source == 0 {
                if let Some((_, record)) = gone.next() {
                    self.rare_bytes -= record.len() + OVERHEAD_BYTES;
                    let cpu = Header::read(&record).map_or(Cpu::UNKNOWN, life_cpu);
                    take(decoder, last, &record, cpu);
                }
                gone.peek().map(|((stamp, _), _)| *stamp)
            } else {
                let (key, packets) = &mut streams[source - 1];
                let (buffer, cpu) = **key;
                packets.pass(buffer, cpu, decoder, last, &mut self.packet_bytes);
                first_gone(packets)
            };
            match following {
                Some(stamp) => *head = Reverse((stamp, source)),
                None => drop(PeekMut::pop(head)),
            }
        }
    }
}

impl Packets {
    /// The first kept record's stamp.
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

/// Passes a record to the last states. Returns its length, if known.
fn take(decoder: &Decoder, last: &mut LastStates, record: &[u8], cpu: Cpu) -> Option<usize> {
    let taken = decoder.decode_with(record, cpu, |event, length| {
        last.take(&event);
        length
    });
    // An undecodable record still has a length.
    taken.ok().or_else(|| record_length(record).ok())
}

/// The CPU in the header of a record from the shared buffer.
const fn life_cpu(header: Header) -> Cpu {
    Cpu::numbered(header.seq as u32)
}
