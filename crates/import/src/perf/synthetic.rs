//! A `perf.data` of a machine that never was, for tests: byte by byte what `perf record` would write.

use crate::synthetic::{FIRST, formats, raw, switch};
pub use crate::synthetic::{Of, Place};

const EVENTS: u64 = Of::Own as u64 + 1;

/// A file.
#[derive(Debug, Clone)]
pub struct File {
    records: Vec<u8>,
    features: Vec<(u8, Vec<u8>)>,
    /// Which events it asks for, as bits.
    asks: u64,
    clock: Option<u32>,
}

/// `PERF_SAMPLE_`: IDENTIFIER, IP, TID, TIME, CPU; of the CPU's clock CALLCHAIN, of tracepoints RAW.
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
        Self { records: Vec::new(), features, asks, clock: Some(1) }
    }
}

impl File {
    /// Only of these events, and with their description alone.
    pub fn asking(mut self, events: &[Of]) -> Self {
        self.asks = events.iter().fold(0, |all, &event| all | 1 << event as u64);
        let description = description(self.asks);
        self.with(1, &description)
    }

    /// By this clock; `None` is perf's own.
    pub fn by(mut self, clock: Option<u32>) -> Self {
        self.clock = clock;
        self.features.retain(|(feature, _)| clock.is_some() || *feature != 29);
        self
    }

    /// With another content of a feature's section, or one more.
    pub fn with(mut self, feature: u8, section: &[u8]) -> Self {
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
        self.records.resize(self.records.len().next_multiple_of(8), 0);
        self
    }

    /// A round of emptying the CPUs' buffers is over.
    pub fn round(self) -> Self {
        self.record(68, 0, &[])
    }

    /// A record of the kernel's that is no sample, of perf's own event.
    pub fn plain(self, kind: u32, misc: u16, body: &[u8], place: Place) -> Self {
        let (at, cpu, pid, tid) = place;
        let mut all = body.to_vec();
        all.resize(all.len().next_multiple_of(8), 0);
        all.extend([pid, tid].map(u32::to_le_bytes).concat());
        all.extend(at.to_le_bytes());
        all.extend([cpu, 0].map(u32::to_le_bytes).concat());
        all.extend(id(Of::Own, if at == 0 { 0 } else { cpu }).to_le_bytes());
        self.record(kind, misc, &all)
    }

    /// A sample of an event, and what comes behind its head: a call chain, fields.
    pub fn sample(self, of: Of, misc: u16, (at, cpu, pid, tid): Place, ip: u64, rest: &[u8]) -> Self {
        let mut body = [id(of, cpu), ip].map(u64::to_le_bytes).concat();
        body.extend([pid, tid].map(u32::to_le_bytes).concat());
        body.extend(at.to_le_bytes());
        body.extend([cpu, 0].map(u32::to_le_bytes).concat());
        body.extend(rest);
        self.record(9, misc, &body)
    }

    /// A tracepoint with these bytes at these offsets.
    pub fn tracepoint(self, of: Of, place: Place, fields: &[(usize, &[u8])]) -> Self {
        let raw = raw(FIRST + of as u64, place.3, fields);
        let rest = [&(raw.len() as u32).to_le_bytes()[..], &raw].concat();
        self.sample(of, 1, place, 0xffff_ffff_8000_0000, &rest)
    }

    /// The thread of `place` leaves its CPU to another.
    pub fn switch(self, place: Place, state: i64, next: u32, comm: &str) -> Self {
        switch(place, state, next, comm, |fields| self.tracepoint(Of::Switch, place, fields))
    }

    /// It wakes another.
    pub fn waking(self, place: Place, target: u32) -> Self {
        self.tracepoint(Of::Waking, place, &[(12, &target.to_le_bytes())])
    }

    /// What the file is, whole.
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
        for (place, &event) in events.iter().enumerate() {
            file.extend(self.attribute(event, ids.start + place as u64 * 16));
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

    fn attribute(&self, event: u64, ids: u64) -> Vec<u8> {
        let (kind, config, format) = match event {
            event if event == Of::CpuClock as u64 => (1, 0, PLAIN | CALLCHAIN),
            // Nothing but what perf records always.
            event if event == Of::Own as u64 => (1, 9, PLAIN),
            tracepoint => (2, FIRST + tracepoint, PLAIN | RAW),
        };
        // `task`, `comm`, `mmap2` and `sample_id_all`, and the clock.
        let flags: u64 =
            1 << 8 | 1 << 9 | 1 << 13 | 1 << 18 | 1 << 23 | u64::from(self.clock.is_some()) << 25;
        let mut attribute = [kind, 128_u32].map(u32::to_le_bytes).concat();
        attribute.extend([config, 1, format, 0, flags].map(u64::to_le_bytes).concat());
        attribute.resize(92, 0);
        attribute.extend(self.clock.unwrap_or(0).to_le_bytes());
        attribute.resize(128, 0);
        attribute.extend([ids, 16].map(u64::to_le_bytes).concat());
        attribute
    }
}

/// The number of an event on a CPU: there are two CPUs.
fn id(of: Of, cpu: u32) -> u64 {
    of as u64 * 16 + u64::from(cpu % 2) + 1
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
