//! A `perf.data` of a machine that never was, for tests: byte by byte what `perf record` would write.
//!
//! Its tracepoints' fields lie where no kernel has them, so that who takes their places for granted reads
//! nonsense, and the letters of its thread states are not those of the kernel that it names.

/// A field: type and name, offset, size, and whether it is signed.
type Field = (&'static str, u32, u32, u8);

/// Systems, names and fields of its tracepoints, in the order of their events.
const TRACEPOINTS: [(&str, &str, &[Field]); 11] = [
    (
        "sched",
        "sched_switch",
        &[
            ("pid_t next_pid", 8, 4, 1),
            ("long prev_state", 16, 8, 1),
            ("pid_t prev_pid", 24, 4, 1),
            ("char next_comm[16]", 32, 16, 0),
        ],
    ),
    ("sched", "sched_waking", &[("pid_t pid", 12, 4, 1)]),
    ("irq", "irq_handler_entry", &[("__data_loc char[] name", 8, 4, 0), ("int irq", 12, 4, 1)]),
    ("irq", "irq_handler_exit", &[("int irq", 12, 4, 1)]),
    ("sched", "sched_process_exec", &[("__data_loc char[] filename", 8, 4, 0), ("pid_t pid", 12, 4, 1)]),
    ("sched", "sched_wakeup_new", &[("pid_t pid", 20, 4, 1)]),
    ("raw_syscalls", "sys_enter", &[("long id", 8, 8, 1), ("unsigned long args[6]", 16, 48, 0)]),
    ("sched", "sched_wakeup", &[("pid_t pid", 12, 4, 1)]),
    ("net", "net_dev_queue", &[("__data_loc char[] name", 8, 4, 0), ("void * skbaddr", 16, 8, 0)]),
    ("net", "netif_receive_skb", &[("__data_loc char[] name", 8, 4, 0), ("void * skbaddr", 16, 8, 0)]),
    (
        "tcp",
        "tcp_probe",
        &[("const void * skbaddr", 8, 8, 0), ("__u8 saddr[28]", 16, 28, 0), ("__u8 daddr[28]", 44, 28, 0)],
    ),
];

/// As kernels before 4.14 print `prev_state`.
const STATES: &str = r#""%s", __print_flags(REC->prev_state & (2048-1), "|", { 1, "S"} , { 2, "D" }, { 4, "T" }, { 8, "t" }, { 16, "Z" }, { 32, "X" }, { 64, "x" }, { 128, "K" }, { 256, "W" }, { 512, "P" }, { 1024, "N" }) : "R", REC->prev_state & 2048 ? "+" : """#;

/// The tracepoints' numbers begin here.
const FIRST: u64 = 300;

/// The places of its events: tracepoints, the CPU's clock with call chains, perf's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the kernel's names")]
#[repr(u64)]
pub enum Of {
    Switch,
    Waking,
    IrqEntry,
    IrqExit,
    Exec,
    WakeupNew,
    CallEntry,
    Wakeup,
    PacketOut,
    PacketIn,
    Received,
    CpuClock,
    Own,
}

const EVENTS: u64 = Of::Own as u64 + 1;

/// Who was where when a record was made: a stamp in ns, 0 for those that perf makes up; a CPU, a process
/// and a thread of it.
pub type Place = (u64, u32, u32, u32);

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
        let end = fields.iter().map(|(offset, bytes)| offset + bytes.len()).max().unwrap_or(8).max(8);
        let mut raw = vec![0; (end + 4).next_multiple_of(8) - 4];
        raw[4..8].copy_from_slice(&place.3.to_le_bytes());
        for (offset, bytes) in fields {
            raw[*offset..*offset + bytes.len()].copy_from_slice(bytes);
        }
        let rest = [&(raw.len() as u32).to_le_bytes()[..], &raw].concat();
        self.sample(of, 1, place, 0xffff_ffff_8000_0000, &rest)
    }

    /// The thread of `place` leaves its CPU to another.
    pub fn switch(self, place: Place, state: i64, next: u32, comm: &str) -> Self {
        let (next, state, prev) = (next.to_le_bytes(), state.to_le_bytes(), place.3.to_le_bytes());
        let comm: Vec<u8> = comm.bytes().chain([0; 16]).take(16).collect();
        self.tracepoint(Of::Switch, place, &[(8, &next), (16, &state), (24, &prev), (32, &comm)])
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
    let tracepoints = TRACEPOINTS.iter().enumerate().filter(|(place, _)| asks >> place & 1 != 0);
    section.extend((tracepoints.clone().count() as u32).to_le_bytes());
    for (place, (system, name, fields)) in tracepoints {
        section.extend([system.as_bytes(), b"\0"].concat());
        section.extend(1_u32.to_le_bytes());
        let mut text = format!(
            "name: {name}\nID: {}\nformat:\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n",
            FIRST + place as u64
        );
        for (declaration, offset, size, signed) in *fields {
            text += &format!("\tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n");
        }
        text += &format!("\nprint fmt: {}\n", if *name == "sched_switch" { STATES } else { "\"\"" });
        section.extend(block(&text));
    }
    section
}
