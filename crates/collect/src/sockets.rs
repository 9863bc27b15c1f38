//! The processes with the far ends of connections within this host, and whether a listening socket has room: read while
//! the recording runs, since neither has an event.
//!
//! One pass over all processes' descriptors finds all sockets. A pass comes when connections are new, while a connection is
//! not accepted, and at the end. All passes together take at most [`MAX_TIME`] and a thousandth of the time since the first
//! connection; the last takes at most [`MAX_TIME`].

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use wakepath_event::NameSpace;
use wakepath_kernel_records::{Header, Kind};

use crate::names::Name;
use crate::programs::Programs;

/// The time for passes at the beginning, and for the last.
const MAX_TIME: Duration = Duration::from_millis(200);
/// Each so long, they have its unit more.
const TIME_SHARE: u32 = 1000;
/// The age of a connection whose far end is looked up: shorter ones are waited for by nobody for long.
const MIN_AGE: Duration = Duration::from_millis(250);
/// The shortest time between two passes.
const INTERVAL: Duration = Duration::from_millis(500);
/// The age from which an unaccepted connection alone makes no more passes.
const MAX_AGE: Duration = Duration::from_secs(30);
/// The connections remembered, to bound the memory; older ones are forgotten.
const MAX_FLOWS: usize = 4096;
/// The processes named at an end.
const MAX_PROCESSES: usize = 16;

const TCP: u8 = 6;
const LISTENING: u8 = 10;

/// An address with its port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Address {
    bytes: [u8; 16],
    port: u16,
}

/// A connection's direction within this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Flow {
    id: u64,
    source: Address,
    target: Address,
    family: u8,
    protocol: u8,
}

/// The bytes of a record, as the kernel's C code laid them out.
#[derive(Clone, Copy)]
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn array<const N: usize>(self, at: usize) -> Option<[u8; N]> {
        self.0.get(at..)?.first_chunk().copied()
    }

    fn u32(self, at: usize) -> Option<u32> {
        self.array(at).map(u32::from_ne_bytes)
    }

    fn u64(self, at: usize) -> Option<u64> {
        self.array(at).map(u64::from_ne_bytes)
    }

    fn address(self, at: usize, port: usize) -> Option<Address> {
        Some(Address { bytes: self.array(at)?, port: self.array(port).map(u16::from_ne_bytes)? })
    }
}

impl Flow {
    /// The flow in a `WP_FLOW` record; `None` for other records, and for a flow that leaves this host.
    fn read(record: &[u8]) -> Option<Self> {
        if Header::read(record)?.kind != Kind::Flow.number() {
            return None;
        }
        let bytes = Bytes(record);
        let [family, protocol] = bytes.array(60)?;
        let flow = Self {
            id: bytes.u64(16)?,
            source: bytes.address(24, 56)?,
            target: bytes.address(40, 58)?,
            family,
            protocol,
        };
        let is_loopback = |address: &Address| match family {
            4 => address.bytes[0] == 127,
            _ => u128::from_be_bytes(address.bytes) == 1,
        };
        let is_within =
            flow.source.bytes == flow.target.bytes || is_loopback(&flow.source) && is_loopback(&flow.target);
        is_within.then_some(flow)
    }
}

/// A process's open socket: `struct wp_open_socket`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpenSocket {
    pub(crate) inode: u64,
    pub(crate) peer_inode: u64,
    pub(crate) address: u64,
    pub(crate) peer_address: u64,
    local: Address,
    remote: Address,
    pub(crate) process: u32,
    netns: u32,
    waiting: u32,
    room: u32,
    dropped: u32,
    family: u8,
    pub(crate) protocol: u8,
    state: u8,
}

impl OpenSocket {
    /// Size of `struct wp_open_socket`, bytes.
    const BYTES: usize = 96;

    fn read(record: &[u8]) -> Option<Self> {
        let bytes = Bytes(record);
        let [family, protocol, state] = bytes.array(88)?;
        Some(Self {
            inode: bytes.u64(0)?,
            peer_inode: bytes.u64(8)?,
            address: bytes.u64(16)?,
            peer_address: bytes.u64(24)?,
            local: bytes.address(32, 84)?,
            remote: bytes.address(48, 86)?,
            process: bytes.u32(64)?,
            netns: bytes.u32(68)?,
            waiting: bytes.u32(72)?,
            room: bytes.u32(76)?,
            dropped: bytes.u32(80)?,
            family,
            protocol,
            state,
        })
    }

    /// All sockets in an iterator's output.
    pub(crate) fn read_all(records: &[u8]) -> Vec<Self> {
        records.chunks_exact(Self::BYTES).filter_map(Self::read).collect()
    }

    /// A unix socket, for tests.
    #[cfg(test)]
    pub(crate) fn unix(
        process: u32,
        inode: u64,
        (peer_inode, peer_address): (u64, u64),
        address: u64,
        kind: u8,
        listens: bool,
    ) -> Self {
        let bytes = [0; Self::BYTES];
        let state = if listens { LISTENING } else { 1 };
        let none = Self::read(&bytes).expect("a whole record");
        Self { inode, peer_inode, address, peer_address, process, family: 1, protocol: kind, state, ..none }
    }

    pub(crate) fn is_unix(&self) -> bool {
        self.family == 1
    }

    pub(crate) fn listens(&self) -> bool {
        self.state == LISTENING
    }

    /// Whether it takes what has no socket of its own: a listening socket, or a bound one of a protocol without connections.
    fn takes_any(&self) -> bool {
        if self.protocol == TCP { self.listens() } else { self.remote.port == 0 }
    }

    /// Whether it takes what is sent to this address. An IPv6 socket for any address takes IPv4, too.
    fn takes(&self, flow: &Flow) -> bool {
        let is_any = self.is_for_any() && (self.family == flow.family || self.family == 6);
        self.local.port == flow.target.port && (is_any || self.local.bytes == flow.target.bytes)
    }

    fn is_for_any(&self) -> bool {
        self.local.bytes == [0; 16]
    }

    /// The kernel's order among sockets for a flow: its address, any address in its family, others.
    fn rank(&self, flow: &Flow) -> (bool, bool) {
        (self.is_for_any(), self.family != flow.family)
    }
}

/// A connection, and its receiver at the last pass that found it.
#[derive(Debug)]
struct Seen {
    flow: Flow,
    since: Instant,
    text: Option<String>,
}

impl Seen {
    /// Whether no process had accepted it when its receiver was last found.
    fn is_not_accepted(&self) -> bool {
        self.text.as_ref().is_some_and(|text| text.starts_with("listening"))
    }
}

/// Connections within this host, and the passes over the sockets so far.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    flows: VecDeque<Seen>,
    known: HashSet<u64>,
    /// The flows seen since the last pass: the last ones.
    new: usize,
    /// When the first connection was seen.
    began: Option<Instant>,
    last: Option<Instant>,
    spent: Duration,
}

impl Sockets {
    /// Notes the connection in a record.
    pub(crate) fn see(&mut self, record: &[u8]) {
        let Some(flow) = Flow::read(record) else { return };
        // Each CPU records a flow.
        if !self.known.insert(flow.id) {
            return;
        }
        if self.flows.len() >= MAX_FLOWS
            && let Some(first) = self.flows.pop_front()
        {
            self.known.remove(&first.flow.id);
        }
        let now = Instant::now();
        self.flows.push_back(Seen { flow, since: now, text: None });
        self.new += 1;
        self.began.get_or_insert(now);
    }

    /// The new names, if it is time for a pass.
    pub(crate) fn look(&mut self, programs: &Programs<'_>) -> Vec<Name> {
        let began = Instant::now();
        let Some(time) = self.time_for_pass(began) else { return Vec::new() };
        let names = self.pass(programs.sockets(time));
        self.spent += began.elapsed();
        self.last = Some(Instant::now());
        names
    }

    /// The longest time for a pass now; `None` if none is due.
    fn time_for_pass(&self, now: Instant) -> Option<Duration> {
        let age = |seen: &Seen| now.saturating_duration_since(seen.since);
        let first_new = self.flows.iter().rev().take(self.new).next_back();
        let is_due = first_new.is_some_and(|seen| age(seen) >= MIN_AGE)
            || self.flows.iter().any(|seen| seen.is_not_accepted() && age(seen) < MAX_AGE);
        let has_waited = self.last.is_none_or(|last| now.saturating_duration_since(last) >= INTERVAL);
        let earned = now.saturating_duration_since(self.began?) / TIME_SHARE;
        let left = (MAX_TIME + earned).saturating_sub(self.spent).min(MAX_TIME);
        (is_due && has_waited && !left.is_zero()).then_some(left)
    }

    /// The names at the recording's end.
    pub(crate) fn finish(&mut self, programs: &Programs<'_>) -> Vec<Name> {
        if self.flows.is_empty() { Vec::new() } else { self.pass(programs.sockets(MAX_TIME)) }
    }

    /// The news in these sockets; `None` for a pass given up.
    fn pass(&mut self, sockets: Option<Vec<OpenSocket>>) -> Vec<Name> {
        self.new = 0;
        let Some(sockets) = sockets else { return Vec::new() };
        let receivers = Receivers::new(&sockets);
        let news = self.flows.iter_mut().filter_map(|seen| {
            let text = receivers.of(&seen.flow)?;
            let is_same = seen.text.replace(text.clone()).is_some_and(|before| before == text);
            // A connection still not accepted is news.
            (!is_same || seen.is_not_accepted())
                .then(|| (NameSpace::Receiver, seen.flow.id, text.into_bytes().into()))
        });
        news.collect()
    }
}

/// The sockets that receive flows.
struct Receivers<'a> {
    /// By protocol and ends: local, remote.
    connected: HashMap<(u8, Address, Address), Vec<&'a OpenSocket>>,
    /// By protocol and local port.
    others: HashMap<(u8, u16), Vec<&'a OpenSocket>>,
}

impl<'a> Receivers<'a> {
    fn new(sockets: &'a [OpenSocket]) -> Self {
        let mut all = Self { connected: HashMap::new(), others: HashMap::new() };
        for socket in sockets.iter().filter(|socket| !socket.is_unix()) {
            let OpenSocket { protocol, local, remote, .. } = *socket;
            if socket.takes_any() {
                all.others.entry((protocol, local.port)).or_default().push(socket);
            } else {
                all.connected.entry((protocol, local, remote)).or_default().push(socket);
            }
        }
        all
    }

    /// The processes with a flow's receiving end; `None` if there are none, or if network namespaces have an end each.
    fn of(&self, flow: &Flow) -> Option<String> {
        let Flow { protocol, source, target, .. } = *flow;
        let none = Vec::new();
        let connected = self.connected.get(&(protocol, target, source)).unwrap_or(&none);
        let others = self.others.get(&(protocol, target.port)).unwrap_or(&none);
        let mut others: Vec<_> = others.iter().copied().filter(|socket| socket.takes(flow)).collect();
        // Each network namespace has its own order.
        if others.iter().any(|socket| socket.netns != others[0].netns) {
            others.clear();
        }
        let first = others.iter().map(|socket| socket.rank(flow)).min();
        others.retain(|socket| Some(socket.rank(flow)) == first);
        let (kind, sockets) = match connected.is_empty() {
            false => ("connected", connected),
            true if protocol == TCP => ("listening", &others),
            true => ("bound", &others),
        };
        let first = sockets.first()?;
        if sockets.iter().any(|socket| socket.netns != first.netns) {
            return None;
        }
        let mut text = String::from(kind);
        // With several sockets for a port, the kernel chooses by the sender's port.
        if kind == "listening" && sockets.iter().all(|socket| socket.inode == first.inode) {
            let OpenSocket { waiting, room, dropped, .. } = first;
            text += &format!(" waiting={waiting} room={room} dropped={dropped}");
        }
        let processes: BTreeSet<u32> = sockets.iter().map(|socket| socket.process).collect();
        processes.iter().take(MAX_PROCESSES).for_each(|process| text += &format!(" {process}"));
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Address {
        let address: std::net::SocketAddr = text.parse().expect("an address");
        let mut bytes = [0; 16];
        match address.ip() {
            std::net::IpAddr::V4(ip) => bytes[..4].copy_from_slice(&ip.octets()),
            std::net::IpAddr::V6(ip) => bytes = ip.octets(),
        }
        Address { bytes, port: address.port() }
    }

    fn flow(protocol: u8, source: &str, target: &str) -> Flow {
        let family = if source.starts_with('[') { 6 } else { 4 };
        Flow { id: 1, source: address(source), target: address(target), family, protocol }
    }

    fn socket(process: u32, protocol: u8, local: &str, remote: Option<&str>) -> OpenSocket {
        OpenSocket {
            inode: process.into(),
            peer_inode: 0,
            address: 0,
            peer_address: 0,
            local: address(local),
            remote: remote.map(address).unwrap_or_default(),
            process,
            netns: 1,
            waiting: 2,
            room: 1,
            dropped: 3,
            family: if local.starts_with('[') { 6 } else { 4 },
            protocol,
            state: if protocol == TCP && remote.is_none() { LISTENING } else { 1 },
        }
    }

    #[test]
    fn a_flow_goes_to_its_own_socket_else_to_the_one_that_takes_all_for_the_port() {
        let sockets = [
            socket(5, TCP, "127.0.0.1:80", None),
            socket(6, TCP, "127.0.0.1:80", Some("127.0.0.1:40000")),
            socket(7, 17, "127.0.0.9:53", None),
            socket(8, 17, "0.0.0.0:54", None),
            socket(9, TCP, "[::]:81", None),
            socket(10, 17, "127.0.0.1:40000", Some("127.0.0.9:53")),
        ];
        let receivers = Receivers::new(&sockets);
        let of = |protocol, source, target| receivers.of(&flow(protocol, source, target));
        let listening = |process: u32| Some(format!("listening waiting=2 room=1 dropped=3 {process}"));
        assert_eq!(of(TCP, "127.0.0.1:40000", "127.0.0.1:80").as_deref(), Some("connected 6"));
        assert_eq!(of(TCP, "127.0.0.1:40001", "127.0.0.1:80"), listening(5), "not accepted");
        assert_eq!(of(TCP, "127.0.0.1:40001", "127.0.0.2:80"), None, "another address");
        assert_eq!(of(TCP, "127.0.0.1:1", "127.0.0.2:81"), listening(9), "any address, also of IPv4");
        assert_eq!(of(TCP, "[::1]:1", "[::1]:81"), listening(9));
        assert_eq!(of(17, "127.0.0.1:40000", "127.0.0.9:53").as_deref(), Some("bound 7"));
        assert_eq!(of(17, "127.0.0.9:53", "127.0.0.1:40000").as_deref(), Some("connected 10"));
        assert_eq!(of(17, "127.0.0.1:40000", "127.0.0.3:54").as_deref(), Some("bound 8"));
        assert_eq!(
            [of(17, "127.0.0.1:1", "127.0.0.1:80"), of(TCP, "127.0.0.1:1", "127.0.0.9:53")],
            [None, None]
        );
    }

    #[test]
    fn a_socket_for_the_address_goes_before_one_for_any_address_and_the_own_family_before_the_other() {
        let of = |sockets: &[OpenSocket], target: &str| {
            Receivers::new(sockets).of(&flow(TCP, "127.0.0.1:4", target)).expect("a process")
        };
        let [own, any, both] = [(5, "127.0.0.1:80"), (6, "0.0.0.0:80"), (7, "[::]:80")]
            .map(|(process, local)| socket(process, TCP, local, None));
        let listening = |process: u32| format!("listening waiting=2 room=1 dropped=3 {process}");
        assert_eq!(of(&[any, both, own], "127.0.0.1:80"), listening(5));
        assert_eq!(of(&[both, any], "127.0.0.1:80"), listening(6));
        assert_eq!(of(&[both, own, any], "127.0.0.2:80"), listening(6));
        assert_eq!(of(&[both], "127.0.0.1:80"), listening(7));
        assert_eq!(Receivers::new(&[any]).of(&flow(TCP, "[::1]:4", "[::1]:80")), None);
        let closed = OpenSocket { state: 7, ..own };
        assert_eq!(Receivers::new(&[closed]).of(&flow(TCP, "127.0.0.1:4", "127.0.0.1:80")), None);
    }

    #[test]
    fn passes_come_with_connections_of_a_certain_age_and_while_one_is_not_accepted() {
        let ms = Duration::from_millis;
        let began = Instant::now();
        let seen = |since: u64, text: Option<&str>| Seen {
            flow: flow(TCP, "127.0.0.1:4", "127.0.0.1:80"),
            since: began + ms(since),
            text: text.map(str::to_owned),
        };
        let sockets = |flows: Vec<Seen>, new, last: Option<u64>, spent| Sockets {
            flows: flows.into(),
            new,
            began: Some(began),
            last: last.map(|last| began + ms(last)),
            spent: ms(spent),
            ..Sockets::default()
        };
        let time = |sockets: &Sockets, at| sockets.time_for_pass(began + ms(at));
        let new = || vec![seen(0, Some("connected 7")), seen(1000, None), seen(1200, None)];
        let first = sockets(new(), 2, None, 0);
        assert_eq!([time(&first, 1249), time(&first, 1250)], [None, Some(ms(200))], "the oldest new one");
        assert_eq!(time(&sockets(new(), 0, None, 0), 9999), None, "none is new");
        let second = sockets(new(), 2, Some(900), 0);
        assert_eq!([time(&second, 1399), time(&second, 1400)], [None, Some(ms(200))], "twice a second");
        // 200 ms, and 1 ms for each second.
        let spent = |spent| time(&sockets(new(), 2, None, spent), 5000);
        assert_eq!([spent(200), spent(204), spent(205)], [Some(ms(5)), Some(ms(1)), None]);
        assert_eq!(time(&sockets(new(), 2, None, 0), 900_000), Some(ms(200)), "at most");
        let waits = sockets(vec![seen(0, Some("listening 7"))], 0, Some(500), 0);
        let at = [999, 1000, 29_999, 30_000].map(|at| time(&waits, at).is_some());
        assert_eq!(at, [false, true, true, false]);
        assert_eq!(time(&sockets(vec![seen(0, Some("bound 7"))], 0, None, 0), 1000), None);
        assert_eq!(time(&Sockets::default(), 1000), None);
    }

    #[test]
    fn a_pass_gives_what_changed_and_what_is_still_not_accepted() {
        let mut sockets = Sockets::default();
        sockets.see(&record(1, "127.0.0.1:40000", "127.0.0.1:80"));
        sockets.see(&record(2, "127.0.0.1:40001", "127.0.0.1:80"));
        let listener = socket(5, TCP, "127.0.0.1:80", None);
        let accepted = socket(6, TCP, "127.0.0.1:80", Some("127.0.0.1:40000"));
        let mut news = |found: Option<&[OpenSocket]>| -> Vec<String> {
            let names = sockets.pass(found.map(<[OpenSocket]>::to_vec));
            names.iter().map(|(_, flow, text)| format!("{flow} {}", String::from_utf8_lossy(text))).collect()
        };
        let waits = String::from("2 listening waiting=2 room=1 dropped=3 5");
        assert_eq!(news(None), [""; 0], "a pass that was given up");
        assert_eq!(news(Some(&[listener, accepted])), ["1 connected 6", waits.as_str()]);
        assert_eq!(news(Some(&[listener, accepted])), [waits.as_str()]);
        assert_eq!(news(Some(&[accepted])), [""; 0], "what is not found says nothing");
        let moved = OpenSocket { process: 7, ..accepted };
        assert_eq!(news(Some(&[listener, moved])), ["1 connected 7", waits.as_str()]);
        assert_eq!(sockets.new, 0);
    }

    #[test]
    fn several_sockets_for_a_port_have_no_common_queue_and_several_namespaces_no_answer() {
        let one = socket(5, TCP, "127.0.0.1:80", None);
        let shared = OpenSocket { process: 6, ..one };
        let second = OpenSocket { inode: 99, process: 6, ..one };
        let elsewhere = OpenSocket { netns: 2, ..second };
        let of = |other| Receivers::new(&[one, other]).of(&flow(TCP, "127.0.0.1:4", "127.0.0.1:80"));
        assert_eq!(of(shared).as_deref(), Some("listening waiting=2 room=1 dropped=3 5 6"));
        assert_eq!(of(second).as_deref(), Some("listening 5 6"));
        assert_eq!(of(elsewhere), None);
        // A container's own address would rank first.
        let any = OpenSocket { local: address("0.0.0.0:80"), ..elsewhere };
        assert_eq!(of(any), None);
        let many: Vec<_> = (0..99).map(|process| OpenSocket { process, ..one }).collect();
        let text = Receivers::new(&many).of(&flow(TCP, "127.0.0.1:4", "127.0.0.1:80")).expect("processes");
        assert_eq!(text.split(' ').count(), 4 + MAX_PROCESSES);
    }

    /// A `WP_FLOW` record.
    fn record(id: u64, source: &str, target: &str) -> Vec<u8> {
        use wakepath_event::{Context, Cpu, Event, EventKind, FlowId, Tid};
        let [source, target] = [source, target].map(|end| end.parse().expect("an address"));
        let kind = EventKind::Flow(FlowId(id), wakepath_event::Flow { source, target, protocol: TCP });
        let event = Event {
            at: wakepath_clock::Stamp::from_ns(1),
            cpu: Cpu(0),
            context: Context::Task,
            current: Tid(8),
            kind,
        };
        let mut record = Vec::new();
        wakepath_kernel_records::Encoder::for_release("6.12.0").encode(&event, 0, &mut record).unwrap();
        record
    }

    #[test]
    fn connections_within_the_host_are_remembered_and_others_are_not() {
        let inside = record(9, "127.0.0.1:40000", "127.0.0.2:80");
        let expected = Flow { id: 9, ..flow(TCP, "127.0.0.1:40000", "127.0.0.2:80") };
        assert_eq!(Flow::read(&inside), Some(expected));
        assert!(Flow::read(&record(9, "10.0.0.1:4", "10.0.0.1:80")).is_some(), "its own address");
        assert!(Flow::read(&record(9, "[::1]:4", "[::1]:80")).is_some());
        for (source, target) in [
            ("10.0.0.1:4", "10.0.0.2:80"),
            ("127.0.0.1:4", "10.0.0.2:80"),
            ("10.0.0.2:4", "127.0.0.1:80"),
            ("[::1]:4", "[::2]:80"),
        ] {
            assert_eq!(Flow::read(&record(9, source, target)), None, "{source} {target}");
        }
        assert_eq!(Flow::read(&inside[..60]), None);
        let mut sockets = Sockets::default();
        for id in [1, 2, 1] {
            sockets.see(&record(id, "127.0.0.1:4", "127.0.0.1:80"));
        }
        assert_eq!((sockets.flows.len(), sockets.new), (2, 2));
        (0..5_000).for_each(|id| sockets.see(&record(id, "127.0.0.1:4", "127.0.0.1:80")));
        assert_eq!((sockets.flows.len(), sockets.known.len()), (MAX_FLOWS, MAX_FLOWS));
    }

    #[test]
    fn a_socket_is_read_at_its_places_in_the_header() {
        let mut record = [0; OpenSocket::BYTES];
        let fields: [(usize, &[u8]); 12] = [
            (0, &5_u64.to_ne_bytes()),
            (8, &6_u64.to_ne_bytes()),
            (16, &7_u64.to_ne_bytes()),
            (24, &8_u64.to_ne_bytes()),
            (32, &[127, 0, 0, 1]),
            (64, &9_u32.to_ne_bytes()),
            (68, &1_u32.to_ne_bytes()),
            (72, &2_u32.to_ne_bytes()),
            (76, &1_u32.to_ne_bytes()),
            (80, &3_u32.to_ne_bytes()),
            (84, &80_u16.to_ne_bytes()),
            (88, &[4, TCP, LISTENING]),
        ];
        fields.iter().for_each(|(at, bytes)| record[*at..*at + bytes.len()].copy_from_slice(bytes));
        let expected = OpenSocket {
            inode: 5,
            peer_inode: 6,
            address: 7,
            peer_address: 8,
            ..socket(9, TCP, "127.0.0.1:80", None)
        };
        assert_eq!(OpenSocket::read_all(&record), [expected]);
        assert_eq!(OpenSocket::read_all(&record[1..]), []);
    }
}
