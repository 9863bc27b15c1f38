//! Hosts with known true clocks, connections between them over wires that lose, repeat and reorder, and
//! cards that merge and split.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use wakepath_clock::{Local, Stamp};
use wakepath_drift::{Chance, TrueClock};
use wakepath_event::{Direction, Flow, FlowId, Packet};
use wakepath_packets::Traffic;

/// A way between two hosts.
#[derive(Debug, Clone, Copy)]
pub struct Wire {
    /// The smallest delays there and back, ns.
    pub least: (f64, f64),
    /// The mean added delay, ns.
    pub queueing: f64,
    /// The shares of packets that are lost, and that arrive twice.
    pub loss: f64,
    pub duplicates: f64,
    /// Cards send and receive many segments as one.
    pub offload: bool,
    /// The sender sits behind a veth, and so does the receiver.
    pub nested: bool,
}

impl Wire {
    pub const LOOPBACK: Self = Self {
        least: (20e3, 20e3),
        queueing: 20e3,
        loss: 0.0,
        duplicates: 0.0,
        offload: false,
        nested: false,
    };
}

/// A packet that passed a host's edge.
#[derive(Debug, Clone, Copy)]
pub struct Sighting {
    pub true_ns: f64,
    /// The stream: a direction of a connection.
    pub stream: u32,
    pub packet: Packet,
    /// Whether it is the first sighting on the way out or in, not a hop.
    pub edge: bool,
}

pub struct Network {
    pub clocks: Vec<TrueClock>,
    /// Each host's sightings, unsorted.
    sightings: Vec<Vec<Sighting>>,
    flows: Vec<Flow>,
    chance: Chance,
}

const ACK: u16 = 16;
const SEGMENT: u32 = 1448;
const MERGED: u32 = 65_160;

impl Network {
    pub fn new(clocks: Vec<TrueClock>, seed: u64) -> Self {
        let sightings = clocks.iter().map(|_| Vec::new()).collect();
        Self { clocks, sightings, flows: Vec::new(), chance: Chance(seed) }
    }

    fn stream(&mut self, from: usize, to: usize, port: u16, protocol: u8) -> (u32, u32) {
        let address = |host: usize, port: u16| {
            SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, host as u8 + 1)), port)
        };
        let flow = Flow { source: address(from, port), target: address(to, 443), protocol };
        self.flows.extend([flow, flow.reversed()]);
        let there = self.flows.len() as u32 - 2;
        (there, there + 1)
    }

    /// A TCP connection over which data goes from a host to another, with this rate of messages per second,
    /// each up to `size` bytes.
    pub fn connection(
        &mut self,
        hosts: (usize, usize),
        wire: Wire,
        span: (f64, f64),
        per_second: f64,
        size: u32,
    ) {
        let (from, to) = hosts;
        let port = 1024 + (self.chance.number() % 60_000) as u16;
        let (there, back) = self.stream(from, to, port, 6);
        // Near the end of the sequence numbers, so that they wrap.
        let mut seq = 0_u32.wrapping_sub((self.chance.number() % 200_000) as u32);
        let acked_by = self.chance.number() as u32;
        let mut at = span.0;
        let mut arrivals: Vec<(f64, u32, u32)> = Vec::new();
        let mut free = 0.0;
        loop {
            at -= 1e9 / per_second * (1.0 - self.chance.share()).ln();
            if at >= span.1 {
                break;
            }
            let mut left = 1 + (self.chance.number() % u64::from(size)) as u32;
            let mut now = at;
            while left > 0 {
                let len = left.min(if wire.offload { MERGED } else { SEGMENT });
                self.out(from, wire, now, there, header(seq, acked_by, len));
                for offset in (0..len).step_by(SEGMENT as usize) {
                    let part = SEGMENT.min(len - offset);
                    self.carry(
                        from,
                        wire,
                        now,
                        (there, acked_by),
                        (seq.wrapping_add(offset), part),
                        &mut free,
                        &mut arrivals,
                    );
                }
                seq = seq.wrapping_add(len);
                left -= len;
                now += 2_000.0;
            }
            at = now;
        }
        arrivals.sort_by(|a, b| a.0.total_cmp(&b.0));
        self.deliver((from, to), wire, (there, back), acked_by, &arrivals);
    }

    /// Sends a segment over the wire, again and again until it arrives.
    #[allow(clippy::too_many_arguments, reason = "a packet has many sides")]
    fn carry(
        &mut self,
        from: usize,
        wire: Wire,
        sent: f64,
        (stream, ack): (u32, u32),
        (seq, len): (u32, u32),
        free: &mut f64,
        arrivals: &mut Vec<(f64, u32, u32)>,
    ) {
        let mut sent = sent;
        while self.chance.share() < wire.loss {
            sent += self.chance.between(2e6, 20e6);
            self.out(from, wire, sent, stream, header(seq, ack, len));
        }
        // Segments queue behind each other, but a few overtake.
        let delay = wire.least.0 - wire.queueing * (1.0 - self.chance.share()).ln();
        let mut arrival = sent + delay;
        if self.chance.share() > wire.loss {
            arrival = arrival.max(*free + 300.0);
            *free = arrival;
        }
        arrivals.push((arrival, seq, len));
        if self.chance.share() < wire.duplicates {
            arrivals.push((arrival + self.chance.between(1e3, 1e6), seq, len));
        }
    }

    /// The arriving packets, merged if the card does so, and the acknowledgements.
    fn deliver(
        &mut self,
        (from, to): (usize, usize),
        wire: Wire,
        (there, back): (u32, u32),
        acked_by: u32,
        arrivals: &[(f64, u32, u32)],
    ) {
        let mut i = 0;
        let mut highest: Option<u32> = None;
        while let Some(&(mut at, seq, mut len)) = arrivals.get(i) {
            i += 1;
            while let Some(&(next, next_seq, next_len)) = arrivals.get(i)
                && wire.offload
                && next - at < 5_000.0
                && next_seq == seq.wrapping_add(len)
                && len + next_len <= MERGED
            {
                at = next;
                len += next_len;
                i += 1;
            }
            self.into(to, wire, at, there, header(seq, acked_by, len));
            let end = seq.wrapping_add(len);
            let ahead = highest.is_none_or(|highest| end.wrapping_sub(highest) < 1 << 31);
            let ack = if ahead { end } else { highest.unwrap_or(end) };
            highest = Some(ack);
            let answered = at + 1_500.0;
            self.out(to, wire, answered, back, header(acked_by, ack, 0));
            if self.chance.share() >= wire.loss {
                let delay = wire.least.1 - wire.queueing * (1.0 - self.chance.share()).ln();
                self.into(from, wire, answered + delay, back, header(acked_by, ack, 0));
            }
        }
    }

    /// Datagrams with these ids.
    pub fn datagrams(&mut self, hosts: (usize, usize), wire: Wire, sends: &[(f64, u32)]) {
        let (stream, _) = self.stream(hosts.0, hosts.1, 53, 17);
        for &(at, id) in sends {
            let packet = Packet { tcp_flags: 0, ..header(id, 0, 100) };
            self.out(hosts.0, wire, at, stream, packet);
            let delay = wire.least.0 - wire.queueing * (1.0 - self.chance.share()).ln();
            self.into(hosts.1, wire, at + delay, stream, packet);
        }
    }

    fn out(&mut self, host: usize, wire: Wire, at: f64, stream: u32, packet: Packet) {
        let places: &[_] = if wire.nested {
            // In the namespace, the other end of its veth, the device.
            &[(Direction::Out, 2, 7), (Direction::In, 1, 8), (Direction::Out, 1, 3)]
        } else {
            &[(Direction::Out, 1, 3)]
        };
        self.see(host, at, stream, packet, places);
    }

    fn into(&mut self, host: usize, wire: Wire, at: f64, stream: u32, packet: Packet) {
        let places: &[_] = if wire.nested {
            &[(Direction::In, 1, 3), (Direction::Out, 1, 8), (Direction::In, 2, 7)]
        } else {
            &[(Direction::In, 1, 3)]
        };
        self.see(host, at, stream, packet, places);
    }

    fn see(&mut self, host: usize, at: f64, stream: u32, packet: Packet, places: &[(Direction, u32, u32)]) {
        // Ids are each host's own.
        let flow = FlowId(u64::from(stream) + 1000 * (host as u64 + 1));
        for (hop, &(direction, netns, interface)) in places.iter().enumerate() {
            let packet = Packet { flow, direction, netns, interface, ..packet };
            let true_ns = at + hop as f64 * 200.0;
            self.sightings[host].push(Sighting { true_ns, stream, packet, edge: hop == 0 });
        }
    }

    /// A host's sightings, by its own stamps, which are all different.
    pub fn seen(&self, host: usize) -> Vec<(u64, Sighting)> {
        let mut all = self.sightings[host].clone();
        all.sort_by(|a, b| a.true_ns.total_cmp(&b.true_ns));
        let mut last = 0;
        let stamped = all.into_iter().map(|sighting| {
            last = self.clocks[host].at(sighting.true_ns).max(last + 1);
            (last, sighting)
        });
        stamped.collect()
    }

    /// The same as a host's traffic. All flows are defined, or none if `addresses` is false.
    pub fn traffic(&self, host: usize, addresses: bool) -> Vec<Traffic> {
        let flows = self
            .flows
            .iter()
            .enumerate()
            .map(|(stream, &flow)| Traffic::Flow(FlowId(stream as u64 + 1000 * (host as u64 + 1)), flow));
        let flows = flows.filter(|_| addresses);
        flows
            .chain(
                self.seen(host)
                    .into_iter()
                    .map(|(at, seen)| Traffic::Packet(Stamp::from_ns(at), seen.packet)),
            )
            .collect()
    }

    /// All sightings by host and stamp.
    pub fn index(&self) -> HashMap<(usize, Stamp<Local>), Sighting> {
        let of = |host| {
            self.seen(host).into_iter().map(move |(at, sighting)| ((host, Stamp::from_ns(at)), sighting))
        };
        (0..self.clocks.len()).flat_map(of).collect()
    }
}

fn header(seq: u32, ack: u32, len: u32) -> Packet {
    let (flow, direction) = (FlowId(0), Direction::Out);
    Packet { flow, direction, seq, ack, len, tcp_flags: ACK, netns: 0, interface: 0 }
}
