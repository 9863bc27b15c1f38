//! The second pass: matches each receive with its send, and forgets packets that are no longer in flight.

use std::sync::Arc;

use wakepath_clock::{Local, Stamp};
use wakepath_event::{Flow, FlowId, Packet};

use crate::Sketch;
use crate::exact::{FirstSighting, Headers};
use crate::flows::{Flows, StreamKey};
use crate::header::{Identity, Place, identify};
use crate::ranges::{Range, Sent, Streams};

/// A receive and the send that it waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Match {
    /// The sending host's index.
    pub from: usize,
    /// The send's time, on the sender's clock; the last if the bytes were sent in pieces.
    pub sent: Stamp<Local>,
    /// The receiving host's index.
    pub to: usize,
    /// The receive's time, on the receiver's clock.
    pub received: Stamp<Local>,
    /// The flow, by the receiving host's id.
    pub flow: FlowId,
}

/// The result for a received packet from another host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Only this send can have caused it.
    Matched(Match),
    /// The packet was sent more than once, received more than once, or sent by several hosts. The first
    /// send may have caused it, and was no later than its true cause.
    Ambiguous(Match),
}

impl Outcome {
    /// The receive and the send, certain or not.
    pub fn pair(&self) -> &Match {
        let (Self::Matched(pair) | Self::Ambiguous(pair)) = self;
        pair
    }

    /// The same, with host indices mapped by `place`.
    #[must_use]
    pub fn placed(mut self, place: impl Fn(usize) -> usize) -> Self {
        let (Self::Matched(pair) | Self::Ambiguous(pair)) = &mut self;
        (pair.from, pair.to) = (place(pair.from), place(pair.to));
        self
    }
}

/// The largest number of packets in memory, on all hosts together. Each takes about 100 bytes with its
/// index entries.
const MAX_PACKETS: usize = 200_000;
/// The number of packets between two searches for old packets.
const LOOK_INTERVAL: u32 = 64;
/// The longest travel time, ns, beyond twice the error of the common clock.
const MAX_TRAVEL_NS: u64 = 1_000_000_000;

/// Matches several hosts' packets, which arrive in nearly the true order: by a common clock with a known
/// error.
///
/// A receive is compared with the sends after some time, so that repetitions of either are known by then.
/// This age depends on the error and, where packets come faster than memory allows, on memory.
#[derive(Debug)]
pub struct Matcher {
    hosts: Vec<Host>,
    /// The age at which a receive is settled; packets at three times this age are forgotten.
    age: u64,
    /// The age where memory suffices.
    usual: u64,
    now: u64,
    seen: u32,
}

#[derive(Debug, Default)]
struct Host {
    /// Shared with the sketch, until the recording defines another flow.
    flows: Arc<Flows>,
    headers: Headers,
    streams: Streams,
}

impl Matcher {
    /// A matcher for the hosts with these sketches. The common clock is off by at most `error` ns on each
    /// host.
    pub fn new(hosts: &[&Sketch], error: u64) -> Self {
        let hosts = hosts.iter().map(|sketch| Host { flows: sketch.flows(), ..Host::default() });
        let age = error.saturating_mul(2).saturating_add(MAX_TRAVEL_NS);
        Self { hosts: hosts.collect(), age, usual: age, now: 0, seen: 0 }
    }

    /// Sets the flow behind a host's flow id from here on.
    pub fn flow(&mut self, host: usize, id: FlowId, flow: Flow) {
        let flows = &mut self.hosts[host].flows;
        if !flows.defines(id, flow) {
            Arc::make_mut(flows).define(id, flow);
        }
    }

    /// Takes a packet that passed a host's edge, at `at` on its clock and about at `common` on the common
    /// clock. The results for older packets go to `sink`.
    pub fn packet(
        &mut self,
        host: usize,
        at: Stamp<Local>,
        common: u64,
        packet: &Packet,
        sink: &mut impl FnMut(Outcome),
    ) {
        let this = &mut self.hosts[host];
        let (stream, identity) = identify(&this.flows, packet);
        let place = Place::of(packet);
        let times = (at.ns(), common);
        match identity {
            Identity::Bytes { seq, len } => this.streams.add((stream, packet.flow), (seq, len), times, place),
            Identity::Exact(header) => this.headers.add(header, times, packet.flow, place),
        }
        self.now = self.now.max(common);
        self.seen += 1;
        if self.seen >= LOOK_INTERVAL {
            self.seen = 0;
            self.expire(sink);
        }
    }

    /// Settles all receives: no more packets follow.
    pub fn finish(mut self, sink: &mut impl FnMut(Outcome)) {
        self.settle(u64::MAX, sink);
    }

    /// The number of packets in memory.
    pub fn remembered(&self) -> usize {
        self.hosts.iter().map(|host| host.headers.len() + host.streams.len()).sum()
    }

    fn expire(&mut self, sink: &mut impl FnMut(Outcome)) {
        self.age = self.usual.min(self.age.saturating_add(self.age / 16 + 1));
        loop {
            self.settle(self.now.saturating_sub(self.age), sink);
            if let Some(forgotten) = self.now.checked_sub(self.age.saturating_mul(3)) {
                for host in &mut self.hosts {
                    host.headers.forget(forgotten);
                    host.streams.forget(forgotten);
                }
            }
            if self.remembered() <= MAX_PACKETS || self.age == 0 {
                break;
            }
            self.age = self.age / 4 * 3;
        }
    }

    fn settle(&mut self, until: u64, sink: &mut impl FnMut(Outcome)) {
        for to in 0..self.hosts.len() {
            while let Some((header, first)) = self.hosts[to].headers.next_due(until) {
                if !first.place.out {
                    self.settle_header(to, header, &first).map(&mut *sink);
                }
            }
            while let Some((stream, flow, range)) = self.hosts[to].streams.next_due(until) {
                if !range.place.out {
                    self.settle_range(to, stream, flow, &range).map(&mut *sink);
                }
            }
        }
    }

    fn settle_header(&self, to: usize, header: u64, received: &FirstSighting) -> Option<Outcome> {
        let (early, late) = self.send_window(received.common);
        let sends = self.others(to).filter_map(|from| {
            let sent = self.hosts[from].headers.get(header)?;
            let in_time = early <= sent.common && sent.common <= late;
            let how = Sent { at: sent.at, repeated: sent.repeated };
            (sent.place.out && in_time).then_some((from, how))
        });
        outcome(sends, to, received.at, received.flow, received.repeated)
    }

    fn settle_range(&self, to: usize, stream: StreamKey, flow: FlowId, received: &Range) -> Option<Outcome> {
        let between = self.send_window(received.common);
        let sends = self.others(to).filter_map(|from| {
            let how = self.hosts[from].streams.sent(stream, received, between)?;
            Some((from, how))
        });
        outcome(sends, to, received.at, flow, received.repeated)
    }

    fn others(&self, host: usize) -> impl Iterator<Item = usize> {
        (0..self.hosts.len()).filter(move |&other| other != host)
    }

    /// The times at which a packet with this receive time can have been sent: clocks are off, and sequence
    /// numbers repeat eventually.
    fn send_window(&self, received: u64) -> (u64, u64) {
        let age = self.usual;
        (received.saturating_sub(age.saturating_mul(3)), received.saturating_add(age))
    }
}

fn outcome(
    mut sends: impl Iterator<Item = (usize, Sent)>,
    to: usize,
    received: u64,
    flow: FlowId,
    repeated: bool,
) -> Option<Outcome> {
    let (from, sent) = sends.next()?;
    let ambiguous = repeated || sent.repeated || sends.next().is_some();
    let (sent, received) = (Stamp::from_ns(sent.at), Stamp::from_ns(received));
    let pair = Match { from, sent, to, received, flow };
    Some(if ambiguous { Outcome::Ambiguous(pair) } else { Outcome::Matched(pair) })
}
