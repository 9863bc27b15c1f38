//! LTTng events from all generations, by name, and their fields to read; also perf's, converted by `perf data convert`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wakepath_clock::{Local, Stamp};
use wakepath_ctf::plan::Visitor;
use wakepath_ctf::schema::EventClass;
use wakepath_ctf::stream::Wanted;
use wakepath_event::{Call, Comm, Cpu, Tid};

use crate::kind::{Kind, Source, tid};
use crate::tracepoint::{Level, PacketHeader, Record, Request, Tracepoint};

impl Kind {
    pub fn from_event(name: &str) -> Self {
        // perf's have their system in front.
        if let Some((system, name)) = name.split_once(':') {
            return Self::from_names(system, name).unwrap_or(Self::Other);
        }
        match name {
            "sched_ttwu" => Self::Wakeup,
            "irq_softirq_entry" => Self::Enter(Source::Softirq),
            "irq_softirq_exit" => Self::Leave(Source::Softirq),
            "timer_hrtimer_expire_entry" => Self::Enter(Source::Hrtimer),
            "timer_hrtimer_expire_exit" => Self::Leave(Source::Hrtimer),
            "net_if_receive_skb" => Self::PacketIn,
            "inet_sock_local_out" => Self::SocketOut,
            "inet_sock_local_in" => Self::SocketIn,
            "lttng_statedump_process_state" => Self::Process,
            "lttng_statedump_interrupt" => Self::InterruptName,
            "lttng_statedump_block_device" => Self::BlockDeviceName,
            _ => {
                let named = Self::from_tracepoint(None, name).or_else(|| Self::vector(name));
                named.or_else(|| Self::call(name)).unwrap_or(Self::Other)
            }
        }
    }

    /// `syscall_entry_read`, `syscall_exit_read`; before LTTng 2.6 `sys_read` and a common exit. 32-bit programs'
    /// calls have other numbers.
    fn call(name: &str) -> Option<Self> {
        let number = |name: &str| {
            // The kernel's source has other names for some.
            let name = match name {
                "newstat" => "stat",
                "newfstat" => "fstat",
                "newlstat" => "lstat",
                "sendfile64" => "sendfile",
                "umount" => "umount2",
                other => other,
            };
            Call::number(name)
        };
        if name == "exit_syscall"
            || name.starts_with("syscall_exit_")
            || name.starts_with("compat_syscall_exit_")
        {
            return Some(Self::CallExit);
        }
        if name.starts_with("compat_syscall_entry_") || name.starts_with("compat_sys_") {
            return Some(Self::CallEntry(None));
        }
        let call = name.strip_prefix("syscall_entry_").or_else(|| name.strip_prefix("sys_"))?;
        Some(Self::CallEntry(number(call)))
    }

    /// `x86_irq_vectors_local_timer_entry` and the like; without `x86_irq_vectors_` in older traces.
    fn vector(name: &str) -> Option<Self> {
        Self::from_irq_vector(name.strip_prefix("x86_").unwrap_or(name).strip_prefix("irq_vectors_")?)
    }
}

// Slots for numbers; the first slots' meaning depends on the kind.
const A: u16 = 0;
const B: u16 = 1;
const C: u16 = 2;
const D: u16 = 3;
const E: u16 = 4;
const F: u16 = 5;
const SOURCE_PORT: u16 = 6;
const TARGET_PORT: u16 = 7;
const SEQ: u16 = 8;
const ACK: u16 = 9;
const TCP_WORDS: u16 = 10;
const FLAGS: u16 = 11;
const IHL: u16 = 12;
const TOTAL_LEN: u16 = 13;
const PAYLOAD_LEN: u16 = 14;
const ID: u16 = 15;
const UDP_LEN: u16 = 16;
const CURRENT: u16 = 17;
/// The event's CPU and flags, where each event notes them.
const CPU: u16 = 18;
const LEVEL: u16 = 19;
const NUMBERS: usize = 20;
// Slots for texts.
const COMM: u16 = 20;
const NAME: u16 = 21;
const SOURCE: u16 = 22;
const TARGET: u16 = 23;
const IN_NAMESPACES: u16 = 24;

/// A packet's header fields behind `network_header.`.
const HEADERS: [(&str, u16); 30] = [
    ("network_header.ipv4.ihl", IHL),
    ("network_header.ipv4.tot_len", TOTAL_LEN),
    ("network_header.ipv4.id", ID),
    ("network_header.ipv4.protocol", D),
    ("network_header.ipv4.saddr", SOURCE),
    ("network_header.ipv4.daddr", TARGET),
    ("network_header.ipv4.transport_header.tcp.source_port", SOURCE_PORT),
    ("network_header.ipv4.transport_header.tcp.dest_port", TARGET_PORT),
    ("network_header.ipv4.transport_header.tcp.seq", SEQ),
    ("network_header.ipv4.transport_header.tcp.ack_seq", ACK),
    ("network_header.ipv4.transport_header.tcp.data_offset", TCP_WORDS),
    ("network_header.ipv4.transport_header.tcp.flags", FLAGS),
    ("network_header.ipv4.transport_header.udp.source_port", SOURCE_PORT),
    ("network_header.ipv4.transport_header.udp.dest_port", TARGET_PORT),
    ("network_header.ipv4.transport_header.udp.len", UDP_LEN),
    ("network_header.ipv6.payload_len", PAYLOAD_LEN),
    ("network_header.ipv6.nexthdr", D),
    ("network_header.ipv6.saddr", SOURCE),
    ("network_header.ipv6.daddr", TARGET),
    ("network_header.ipv6.transport_header.tcp.source_port", SOURCE_PORT),
    ("network_header.ipv6.transport_header.tcp.dest_port", TARGET_PORT),
    ("network_header.ipv6.transport_header.tcp.seq", SEQ),
    ("network_header.ipv6.transport_header.tcp.ack_seq", ACK),
    ("network_header.ipv6.transport_header.tcp.data_offset", TCP_WORDS),
    ("network_header.ipv6.transport_header.tcp.flags", FLAGS),
    ("network_header.ipv6.transport_header.udp.source_port", SOURCE_PORT),
    ("network_header.ipv6.transport_header.udp.dest_port", TARGET_PORT),
    ("network_header.ipv6.transport_header.udp.len", UDP_LEN),
    ("len", A),
    ("name", NAME),
];

/// The names of a call's first argument, if it is a descriptor or a futex's address.
const FIRST_ARGUMENTS: [&str; 7] = ["fd", "fildes", "epfd", "fd_in", "fdin", "out_fd", "uaddr"];

/// A call's argument to read, and a futex's operation.
fn arguments(event: &EventClass, number: u32) -> Wanted {
    let first = event.fields.fields.first();
    let first = first.and_then(|first| FIRST_ARGUMENTS.into_iter().find(|&name| name == first.shown()));
    let operation = (number == Call::FUTEX).then_some(("op", B));
    first.map(|name| (name, A)).into_iter().chain(operation).collect()
}

/// An LTTng event's fields for the execution graph, each with its own slot in the event; `None` if the graph does not
/// need the event.
pub fn wanted(event: &EventClass) -> Option<Wanted> {
    if event.name.contains(':') {
        return wanted_from_perf(event);
    }
    let own: &[(&str, u16)] = match Kind::from_event(&event.name) {
        Kind::Switch => &[("prev_tid", A), ("prev_state", B), ("next_tid", C), ("next_comm", COMM)],
        Kind::Waking | Kind::Wakeup | Kind::WakeupNew => &[("tid", A), ("target_cpu", B)],
        Kind::Exit => &[("tid", A)],
        Kind::Fork => &[
            ("parent_tid", A),
            ("child_tid", B),
            ("child_pid", C),
            ("child_comm", COMM),
            ("vtids", IN_NAMESPACES),
        ],
        Kind::Exec => &[("tid", A), ("pid", A), ("old_tid", B), ("old_pid", B), ("filename", NAME)],
        Kind::Rename => &[("tid", A), ("newcomm", COMM)],
        Kind::Enter(Source::Device) => &[("irq", A), ("name", NAME)],
        Kind::Leave(Source::Device) => &[("irq", A)],
        Kind::Enter(Source::Softirq) | Kind::Leave(Source::Softirq) => &[("vec", A)],
        Kind::PacketOut | Kind::PacketIn => &HEADERS,
        Kind::SocketOut | Kind::SocketIn => &[("sk", A), ("seq", SEQ), ("ack_seq", ACK), ("flags", FLAGS)],
        Kind::BlockIssue | Kind::BlockComplete => {
            &[("dev", A), ("sector", B), ("nr_sector", C), ("rwbs", D), ("bytes", E)]
        }
        Kind::Process => {
            &[("tid", A), ("pid", B), ("ppid", C), ("vtid", D), ("type", E), ("status", F), ("name", COMM)]
        }
        Kind::InterruptName => &[("irq", A), ("action", NAME)],
        Kind::BlockDeviceName => &[("dev", A), ("diskname", NAME)],
        Kind::CallEntry(Some(number)) => &arguments(event, number),
        Kind::Enter(_) | Kind::Leave(_) | Kind::CallEntry(None) | Kind::CallExit => &[],
        Kind::NewTask | Kind::Received | Kind::Other => return None,
    };
    let mut own = own.to_vec();
    own.push(("context.tid", CURRENT));
    Some(own)
}

/// Fields in perf's converted events: the kernel's own, behind perf's.
fn wanted_from_perf(event: &EventClass) -> Option<Wanted> {
    let own: &[(&str, u16)] = match Kind::from_event(&event.name) {
        Kind::Switch => &[("prev_pid", A), ("prev_state", B), ("next_pid", C), ("next_comm", COMM)],
        Kind::Waking | Kind::Wakeup | Kind::WakeupNew => &[("pid", A), ("target_cpu", B)],
        Kind::Exit => &[("pid", A)],
        Kind::Fork => &[("parent_pid", A), ("child_pid", B), ("child_comm", COMM)],
        Kind::Exec => &[("pid", A), ("old_pid", B), ("filename", NAME)],
        Kind::Rename => &[("pid", A), ("newcomm", COMM)],
        Kind::Enter(Source::Device) => &[("irq", A), ("name", NAME)],
        Kind::Leave(Source::Device) => &[("irq", A)],
        Kind::Enter(Source::Softirq) | Kind::Leave(Source::Softirq) => &[("vec", A)],
        Kind::Enter(_) | Kind::Leave(_) | Kind::CallEntry(_) | Kind::CallExit => &[],
        _ => return None,
    };
    let mut own = own.to_vec();
    own.extend([("common_pid", CURRENT), ("common_flags", LEVEL), ("perf_cpu", CPU)]);
    Some(own)
}

/// Whether each event in this class names its CPU: its stream then holds several CPUs' events.
pub(super) fn names_cpu(event: &EventClass) -> bool {
    event.fields.fields.iter().any(|field| field.name == "perf_cpu")
}

/// An event's values.
#[derive(Debug)]
pub(super) struct Values {
    /// The event's numbers and texts: a bit for each slot.
    present: u64,
    numbers: [i64; NUMBERS],
    comm: Comm,
    source: [u8; 16],
    target: [u8; 16],
    address_len: usize,
    name: Vec<u8>,
    in_namespaces: i64,
}

impl Default for Values {
    fn default() -> Self {
        Self {
            present: 0,
            numbers: [0; NUMBERS],
            comm: Comm::default(),
            source: [0; 16],
            target: [0; 16],
            address_len: 0,
            name: Vec::new(),
            in_namespaces: 0,
        }
    }
}

impl Visitor for Values {
    #[inline]
    fn begin(&mut self) {
        self.present = 0;
    }

    #[inline]
    fn unsigned(&mut self, slot: u16, value: u64) {
        self.signed(slot, value as i64);
    }

    #[inline]
    fn signed(&mut self, slot: u16, value: i64) {
        if let Some(number) = self.numbers.get_mut(usize::from(slot)) {
            *number = value;
            self.present |= 1 << slot;
        }
    }

    fn float(&mut self, _: u16, _: f64) {}

    #[inline]
    fn bytes(&mut self, slot: u16, value: &[u8]) {
        match slot {
            COMM => self.comm = Comm::new(value),
            NAME => {
                self.name.clear();
                self.name.extend_from_slice(value);
            }
            SOURCE | TARGET => {
                let len = value.len().min(16);
                let address = if slot == SOURCE { &mut self.source } else { &mut self.target };
                address[..len].copy_from_slice(&value[..len]);
                self.address_len = len;
            }
            IN_NAMESPACES => match value.last_chunk() {
                // From the outermost namespace to the innermost.
                Some(&last) => self.in_namespaces = i32::from_le_bytes(last).into(),
                None => return,
            },
            _ => return,
        }
        self.present |= 1 << slot;
    }
}

impl Values {
    const fn has(&self, slot: u16) -> bool {
        self.present & (1 << slot) != 0
    }

    fn get(&self, slot: u16) -> Option<i64> {
        self.has(slot).then(|| self.numbers[usize::from(slot)])
    }

    fn or_0(&self, slot: u16) -> i64 {
        self.get(slot).unwrap_or(0)
    }

    fn tid(&self, slot: u16) -> Option<Tid> {
        tid(self.get(slot))
    }

    fn name(&self) -> &[u8] {
        if self.has(NAME) { &self.name } else { &[] }
    }

    /// Whether a switch or a wake-up names a thread by a number that no kernel gives out.
    pub fn names_no_thread(&self, kind: Kind) -> bool {
        let threads: &[u16] = match kind {
            Kind::Switch => &[A, C],
            Kind::Waking | Kind::Wakeup | Kind::WakeupNew => &[A],
            _ => &[],
        };
        threads.iter().any(|&slot| self.has(slot) && self.tid(slot).is_none())
    }

    /// The record with these values; `None` without a required value.
    pub fn record(&self, kind: Kind, at: Stamp<Local>, cpu: Cpu) -> Option<Record<'_>> {
        let what = match kind {
            Kind::Switch => Tracepoint::Switch {
                prev: self.tid(A)?,
                prev_state: self.or_0(B),
                next: self.tid(C)?,
                next_comm: self.has(COMM).then_some(self.comm),
            },
            Kind::Fork => Tracepoint::Fork {
                parent: self.tid(A)?,
                child: self.tid(B)?,
                child_tgid: self.tid(C),
                child_ns_tid: tid(self.has(IN_NAMESPACES).then_some(self.in_namespaces)),
                comm: self.comm,
            },
            Kind::Exec => Tracepoint::Exec { tid: self.tid(A), old: self.tid(B), path: self.name() },
            Kind::Rename => Tracepoint::Rename { tid: self.tid(A)?, comm: self.comm },
            Kind::PacketOut => Tracepoint::Packet(self.packet(true)?),
            Kind::PacketIn => Tracepoint::Packet(self.packet(false)?),
            Kind::SocketOut | Kind::SocketIn => Tracepoint::SocketPacket {
                socket: self.get(A)? as u64,
                out: kind == Kind::SocketOut,
                seq: self.or_0(SEQ) as u32,
                ack: self.or_0(ACK) as u32,
                flags: self.or_0(FLAGS) as u16,
            },
            Kind::BlockIssue => Tracepoint::BlockIssue(self.request()?),
            Kind::BlockComplete => Tracepoint::BlockComplete(self.request()?),
            Kind::Process => Tracepoint::Thread {
                tid: self.tid(A)?,
                tgid: self.tid(B)?,
                parent: self.tid(C).unwrap_or(Tid::IDLE),
                ns_tid: self.tid(D),
                comm: self.comm,
                // LTTng's numbers for process types and states.
                kernel: self.get(E) == Some(1),
                blocked: self.get(F) == Some(5),
            },
            Kind::InterruptName => {
                Tracepoint::InterruptName { irq: u16::try_from(self.get(A)?).ok()?, name: self.name() }
            }
            Kind::BlockDeviceName => {
                Tracepoint::BlockDeviceName { device: self.get(A)? as u32, name: self.name() }
            }
            Kind::CallEntry(number) => Tracepoint::Call {
                number,
                arg0: self.get(A).map(|value| value as u64),
                futex: self.get(B).filter(|_| number == Some(Call::FUTEX)).map(|operation| operation as u32),
            },
            kind => kind.read(self.get(A), || self.name())?,
        };
        let cpu = self.get(CPU).and_then(|cpu| u32::try_from(cpu).ok()).map_or(cpu, Cpu::numbered);
        let level = self.get(LEVEL).map(Level::from_flags);
        Some(Record { at, cpu, current: self.tid(CURRENT), level, what })
    }

    /// The CPU to which a wake-up sends its thread, if the event has it.
    pub fn target_cpu(&self) -> Option<Cpu> {
        u32::try_from(self.get(B)?).ok().map(Cpu::numbered)
    }

    /// LTTng records the operation as flags: write, discard, read, and among the higher flags flush.
    fn request(&self) -> Option<Request> {
        let (flags, sectors) = (self.or_0(D), self.or_0(C) as u32);
        let operation = match flags {
            flags if flags & 2 != 0 => 3,
            flags if flags & (1 << 8) != 0 && sectors == 0 => 2,
            flags => (flags & 1) as u8,
        };
        let bytes = self.get(E).map_or(sectors.saturating_mul(512), |bytes| bytes as u32);
        Some(Request { device: self.get(A)? as u32, sector: self.or_0(B) as u64, bytes, operation })
    }

    fn packet(&self, out: bool) -> Option<PacketHeader<'_>> {
        if !self.has(SOURCE) || !self.has(TARGET) {
            return None;
        }
        let address = |bytes: &[u8; 16]| match self.address_len {
            4 => Some(IpAddr::V4(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]))),
            16 => Some(IpAddr::V6(Ipv6Addr::from(*bytes))),
            _ => None,
        };
        // The bytes behind the link's header. For Ethernet and for the loopback it takes 14 bytes, and only outgoing
        // packets still have it. The IP header has 0 if 16 bits do not hold the length.
        let buffer = self.or_0(A) - if out { 14 } else { 0 };
        let (total, header) = match self.get(PAYLOAD_LEN) {
            Some(payload) => (if payload == 0 { buffer } else { payload + 40 }, 40),
            None => {
                let total = self.or_0(TOTAL_LEN);
                (if total == 0 { buffer } else { total }, self.or_0(IHL) * 4)
            }
        };
        let transport = match (self.get(TCP_WORDS), self.get(UDP_LEN)) {
            (Some(words), _) => words * 4,
            (None, Some(_)) => 8,
            (None, None) => 0,
        };
        Some(PacketHeader {
            out,
            interface: self.name(),
            source: address(&self.source)?,
            target: address(&self.target)?,
            protocol: self.or_0(D) as u8,
            source_port: self.or_0(SOURCE_PORT) as u16,
            target_port: self.or_0(TARGET_PORT) as u16,
            seq: self.get(SEQ).unwrap_or_else(|| self.or_0(ID)) as u32,
            ack: self.or_0(ACK) as u32,
            len: u32::try_from(total - header - transport).unwrap_or(0),
            tcp_flags: self.or_0(FLAGS) as u16,
        })
    }
}
