//! Matches received packets with sent packets, between hosts whose clocks disagree.
//!
//! Two passes over each host's traffic. The first keeps a [`Sketch`]: a few packets per flow, chosen by their
//! content, so that all hosts choose the same packets. The common packets of two sketches give the rough relation
//! between their clocks. With this relation, the second pass reads all hosts side by side, in nearly the true
//! order, and a [`Matcher`] remembers only packets in flight, though all of a host's stamps may lie before the
//! other's (Giraldeau 2015, section 5.4.6).
//!
//! # The meaning of a match
//!
//! Offload merges and splits TCP segments, so TCP is matched by byte ranges. A receive of the bytes [s, e) happens
//! after each byte was sent for the first time; the latest of these first sends is the tightest bound, and is
//! paired with the receive. This stays true where a byte was sent again, or segments came out of order; it only
//! bounds less. Nevertheless a range that was sent or received twice is *ambiguous*: its sighting cannot be known,
//! and it is counted separately.
//!
//! The same header is seen again where a packet passes several interfaces on a host (veth, bridge, device). The
//! first sighting decides the host's role: outgoing, the host sends, and later sightings are on the way out;
//! incoming, the host receives. Only the same direction on the same interface again is a repetition. So a packet
//! that a host sends to itself matches nothing on other hosts.

mod exact;
mod flows;
mod header;
mod matcher;
mod ranges;
mod sketch;
mod visited;

pub use flows::StreamKey;
pub use matcher::{Match, Matcher, Outcome};
pub use sketch::Sketch;
pub use visited::Visited;

use wakepath_clock::{Local, Stamp};
use wakepath_event::{Event, EventKind, Flow, FlowId, Packet};

/// A host's events that matching reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Traffic {
    /// The flow behind an id, from here on.
    Flow(FlowId, Flow),
    /// A packet that passed the host's edge.
    Packet(Stamp<Local>, Packet),
}

impl Traffic {
    /// The traffic in an event, if it has any.
    pub fn of(event: &Event) -> Option<Self> {
        match event.kind {
            EventKind::Packet(packet) => Some(Self::Packet(event.at, packet)),
            EventKind::Flow(id, flow) => Some(Self::Flow(id, flow)),
            _ => None,
        }
    }
}

/// A host's traffic, by time; read more than once.
pub trait Source {
    /// The traffic from its beginning; the same at each call.
    fn traffic(&self) -> Box<dyn Iterator<Item = Traffic> + '_>;
}

impl Source for Vec<Traffic> {
    fn traffic(&self) -> Box<dyn Iterator<Item = Traffic> + '_> {
        Box::new(self.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use wakepath_event::{Context, Cpu, Direction, Tid};

    use super::*;

    #[test]
    fn packets_and_flows_are_traffic_and_nothing_else_is() {
        let event = |kind| Event {
            at: Stamp::from_ns(5),
            cpu: Cpu(1),
            context: Context::Task,
            current: Tid(7),
            kind,
        };
        let address = "10.0.0.1:80".parse().expect("an address");
        let flow = Flow { source: address, target: address, protocol: 6 };
        let packet = Packet {
            flow: FlowId(3),
            direction: Direction::Out,
            seq: 1,
            ack: 2,
            len: 3,
            tcp_flags: 16,
            netns: 1,
            interface: 2,
        };
        let of = |kind| Traffic::of(&event(kind));
        assert_eq!(of(EventKind::Packet(packet)), Some(Traffic::Packet(Stamp::from_ns(5), packet)));
        assert_eq!(of(EventKind::Flow(FlowId(3), flow)), Some(Traffic::Flow(FlowId(3), flow)));
        assert_eq!(of(EventKind::Exit), None);
    }
}
