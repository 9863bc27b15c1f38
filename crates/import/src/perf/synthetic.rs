//! A simulated machine's `perf.data`, for tests: the same bytes as from `perf record`.

pub use crate::synthetic::{EventType, Origin};
use crate::synthetic::{FIRST, formats, raw, switch};

const EVENTS: u64 = EventType::Own as u64 + 1;

/// A file.
#[derive(Debug, Clone)]
pub struct File {
    records: Vec<u8>,
    features: Vec<(u8, Vec<u8>)>,
    /// The requested events, as bits.
    asks: u64,
    clock: Option<u32>,
    /// Further flags in each attribute.
    flags: u64,
}

/// `PERF_SAMPLE_`: IDENTIFIER, IP, TID, TIME, CPU; for the CPU's clock CALLCHAIN, for tracepoints RAW.
const PLAIN: u64 = 1 << 16 | 1 | 2 | 4 | 1 << 7;
const CALLCHAIN: u64 = 1 << 5;
const RAW: u64 = 1 << 10;

impl Default for File {
    fn default() -> Self {
        let text = |text: &str| [&(text.len() as u32 + 1).to_le_bytes(), text.as_bytes(), &[0]].concat();
        let mut clock = [1_u32, 1].map(u32::to_le_bytes).concat();
        clock.extend([5_000_000_000_u64, 1_000].map(u64::to_le_bytes).concat());
        let asks = (1 << EVENTS) - 1;
        let features = vec![
            (1, description(asks)),
            (3, text("web3")),
            (4, text("6.1.0")),
            (5, text("4.4")),
            (29, clock),
        ];
        Self { records: Vec::new(), features, asks, clock: Some(1), flags: 0 }
    }
}

impl File {
    /// With these events and their description only.
    pub fn only(mut self, events: &[EventType]) -> Self {
        self.asks = events.iter().fold(0, |all, &event| all | 1 << event as u64);
        let description = description(self.asks);
        self.section(1, &description)
    }

    /// By this clock; `None` for perf's own.
    pub fn clock(mut self, clock: Option<u32>) -> Self {
        self.clock = clock;
        self.features.retain(|(feature, _)| clock.is_some() || *feature != 29);
        self
    }

    /// From buffers with the last records only (`perf record --overwrite`).
    pub const fn overwritten(mut self) -> Self {
        self.flags |= 1 << 27;
        self
    }

    /// With build ids in mappings (`perf record --buildid-mmap`).
    pub const fn build_ids(mut self) -> Self {
        self.flags |= 1 << 34;
        self
    }

    /// With another content for a feature's section, or another section.
    pub fn section(mut self, feature: u8, section: &[u8]) -> Self {
        self.features.retain(|(known, _)| *known != feature);
        self.features.push((feature, section.to_vec()));
        self.features.sort();
        self
    }

    /// Any record.
    pub fn record(mut self, kind: u32, misc: u16, body: &[u8]) -> Self {
        let size = 8 + body.len().next_multiple_of(8);
        self.records.extend(kind.to_le_bytes());
        self.records.extend(misc.to_le_bytes());
        self.records.extend((size as u16).to_le_bytes());
        self.records.extend(body);
        self.records.resize(self.records.len() + size - 8 - body.len(), 0);
        self
    }

    /// Ends a round of emptying the CPUs' buffers.
    pub fn round(self) -> Self {
        self.record(68, 0, &[])
    }

    /// A kernel record other than a sample, for perf's own event.
    pub fn plain(self, kind: u32, misc: u16, body: &[u8], origin: Origin) -> Self {
        let (at, cpu, pid, tid) = origin;
        let mut all = body.to_vec();
        all.resize(all.len().next_multiple_of(8), 0);
        all.extend([pid, tid].map(u32::to_le_bytes).concat());
        all.extend(at.to_le_bytes());
        all.extend([cpu, 0].map(u32::to_le_bytes).concat());
        all.extend(id(EventType::Own, if at == 0 { 0 } else { cpu }).to_le_bytes());
        self.record(kind, misc, &all)
    }

    /// An event's sample, with the parts behind its head: a call chain, fields.
    pub fn sample(
        self,
        event: EventType,
        misc: u16,
        (at, cpu, pid, tid): Origin,
        ip: u64,
        rest: &[u8],
    ) -> Self {
        let mut body = [id(event, cpu), ip].map(u64::to_le_bytes).concat();
        body.extend([pid, tid].map(u32::to_le_bytes).concat());
        body.extend(at.to_le_bytes());
        body.extend([cpu, 0].map(u32::to_le_bytes).concat());
        body.extend(rest);
        self.record(9, misc, &body)
    }

    /// A tracepoint with these bytes at these offsets.
    pub fn tracepoint(self, event: EventType, origin: Origin, fields: &[(usize, &[u8])]) -> Self {
        let raw = raw(FIRST + event as u64, origin.3, fields);
        let rest = [&(raw.len() as u32).to_le_bytes()[..], &raw].concat();
        self.sample(event, 1, origin, 0xffff_ffff_8000_0000, &rest)
    }

    /// The thread in `origin` leaves its CPU to another.
    pub fn switch(self, origin: Origin, state: i64, next: u32, comm: &str) -> Self {
        switch(origin, state, next, comm, |fields| self.tracepoint(EventType::Switch, origin, fields))
    }

    /// The thread in `origin` wakes another.
    pub fn waking(self, origin: Origin, target: u32) -> Self {
        self.tracepoint(EventType::Waking, origin, &[(12, &target.to_le_bytes())])
    }

    /// The thread in `origin` wakes another, and sends it to a CPU.
    pub fn waking_to(self, origin: Origin, target: u32, cpu: u32) -> Self {
        let fields: [(usize, &[u8]); 2] = [(12, &target.to_le_bytes()), (20, &cpu.to_le_bytes())];
        self.tracepoint(EventType::Waking, origin, &fields)
    }

    /// The CPUs whose events are recorded.
    pub fn cpus(self, cpus: &[u32]) -> Self {
        let each = |&cpu: &u32| [id(EventType::Switch, cpu), 0, cpu.into(), u64::MAX];
        let words = [cpus.len() as u64].into_iter().chain(cpus.iter().flat_map(each));
        let body: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        self.record(69, 0, &body)
    }

    /// The whole file's bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let events = (0..EVENTS).filter(|event| self.asks >> event & 1 != 0);
        let events: Vec<u64> = events.collect();
        const HEADER: u64 = 104;
        const EACH: u64 = 128 + 16;
        let attributes = HEADER..HEADER + events.len() as u64 * EACH;
        let ids = attributes.end..attributes.end + events.len() as u64 * 16;
        let data = ids.end..ids.end + self.records.len() as u64;
        let mut file = b"PERFILE2".to_vec();
        let bits = self.features.iter().fold(0_u64, |bits, (feature, _)| bits | 1 << feature);
        for word in [
            [HEADER, EACH, attributes.start, attributes.end - attributes.start],
            [data.start, data.end - data.start, 0, 0],
            [bits, 0, 0, 0],
        ] {
            file.extend(word.map(u64::to_le_bytes).concat());
        }
        for (origin, &event) in events.iter().enumerate() {
            file.extend(self.attribute(event, ids.start + origin as u64 * 16));
        }
        for &event in &events {
            file.extend([event * 16 + 1, event * 16 + 2].map(u64::to_le_bytes).concat());
        }
        file.extend(&self.records);
        let mut at = data.end + self.features.len() as u64 * 16;
        for (_, section) in &self.features {
            file.extend([at, section.len() as u64].map(u64::to_le_bytes).concat());
            at += section.len() as u64;
        }
        file.extend(self.features.iter().flat_map(|(_, section)| section));
        file
    }

    /// The bytes in the form for a pipe: the head's parts are records.
    pub fn stream(&self) -> Vec<u8> {
        let mut head = Self { records: Vec::new(), ..self.clone() };
        for event in (0..EVENTS).filter(|event| self.asks >> event & 1 != 0) {
            let ids = [event * 16 + 1, event * 16 + 2].map(u64::to_le_bytes).concat();
            head = head.record(64, 0, &[&self.attribute(event, 0)[..128], &ids].concat());
        }
        for (feature, section) in &self.features {
            head = match feature {
                1 => {
                    let size = section.len().next_multiple_of(8);
                    let mut described = head.record(66, 0, &(size as u64).to_le_bytes());
                    described.records.extend(section);
                    described.records.resize(described.records.len() + size - section.len(), 0);
                    described
                }
                // In fours of bytes, not eights.
                _ => {
                    let size = 16 + section.len().next_multiple_of(4);
                    head.records.extend([80, (size as u32) << 16].map(u32::to_le_bytes).concat());
                    head.records.extend(u64::from(*feature).to_le_bytes());
                    head.records.extend(section);
                    head.records.resize(head.records.len() + size - 16 - section.len(), 0);
                    head
                }
            };
        }
        [&b"PERFILE2\x10\0\0\0\0\0\0\0"[..], &head.records, &self.records].concat()
    }

    /// The same with compressed records: perf's stream is divided into pieces of `piece` bytes, of this kind.
    pub fn compressed(mut self, kind: u32, piece: usize) -> Self {
        let records = std::mem::take(&mut self.records);
        self.pieces(kind, piece, &[FRAME, &blocks(&records)].concat())
    }

    /// Parts with compressed records: a single stream goes through all. Behind each part's first `head` bytes, its
    /// records are compressed.
    pub fn compressed_parts(parts: &[(Self, usize)], kind: u32, piece: usize) -> Vec<Self> {
        let part = |(nth, (part, head)): (usize, &(Self, usize))| {
            let mut part = part.clone();
            let records = part.records.split_off(*head);
            let begin = if nth == 0 { FRAME } else { &[] };
            part.pieces(kind, piece, &[begin, &blocks(&records)].concat())
        };
        parts.iter().enumerate().map(part).collect()
    }

    /// Its records' size so far, bytes.
    pub const fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether it has no records.
    pub const fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    fn pieces(mut self, kind: u32, piece: usize, stream: &[u8]) -> Self {
        for piece in stream.chunks(piece) {
            let size = (piece.len() as u64).to_le_bytes();
            self = if kind == 83 {
                self.record(kind, 0, &[&size, piece].concat())
            } else {
                self.records.extend(kind.to_le_bytes());
                self.records.extend([0, 8 + piece.len() as u16].map(u16::to_le_bytes).concat());
                self.records.extend(piece);
                self
            };
        }
        self.section(27, &[1_u32, 1, 1, 1, 1 << 16].map(u32::to_le_bytes).concat())
    }

    fn attribute(&self, event: u64, ids: u64) -> Vec<u8> {
        let (kind, config, format) = match event {
            event if event == EventType::CpuClock as u64 => (1, 0, PLAIN | CALLCHAIN),
            // Nothing beyond perf's permanent records.
            event if event == EventType::Own as u64 => (1, 9, PLAIN),
            tracepoint => (2, FIRST + tracepoint, PLAIN | RAW),
        };
        // `task`, `comm`, `mmap2` and `sample_id_all`, and the clock.
        let flags: u64 = 1 << 8
            | 1 << 9
            | 1 << 13
            | 1 << 18
            | 1 << 23
            | u64::from(self.clock.is_some()) << 25
            | self.flags;
        let mut attribute = [kind, 128_u32].map(u32::to_le_bytes).concat();
        attribute.extend([config, 1, format, 0, flags].map(u64::to_le_bytes).concat());
        attribute.resize(92, 0);
        attribute.extend(self.clock.unwrap_or(0).to_le_bytes());
        attribute.resize(128, 0);
        attribute.extend([ids, 16].map(u64::to_le_bytes).concat());
        attribute
    }
}

/// A zstd frame's head with a window: 512 KiB.
const FRAME: &[u8] = b"\x28\xb5\x2f\xfd\0\x48";

/// Bytes as uncompressed blocks, none a frame's last.
fn blocks(bytes: &[u8]) -> Vec<u8> {
    let blocks = bytes.chunks(50).map(|block| [&(block.len() as u32 * 8).to_le_bytes()[..3], block].concat());
    blocks.collect::<Vec<_>>().concat()
}

/// An event's number on a CPU: there are two CPUs.
fn id(event: EventType, cpu: u32) -> u64 {
    event as u64 * 16 + u64::from(cpu % 2) + 1
}

/// The section that describes the tracepoints among these events.
fn description(asks: u64) -> Vec<u8> {
    let block = |text: &str| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
    let mut section = b"\x17\x08\x44tracing0.6\0\0\x08\0\x10\0\0".to_vec();
    section.extend([b"header_page\0".to_vec(), block("x"), b"header_event\0".to_vec(), block("y")].concat());
    section.extend(0_u32.to_le_bytes());
    let formats = formats(asks);
    section.extend((formats.len() as u32).to_le_bytes());
    for (system, text) in formats {
        section.extend([system.as_bytes(), b"\0"].concat());
        section.extend(1_u32.to_le_bytes());
        section.extend(block(&text));
    }
    section
}
