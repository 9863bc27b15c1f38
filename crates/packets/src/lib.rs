//! Matches received packets with sent ones, between hosts whose clocks disagree.
//!
//! Two passes over each host's traffic. The first keeps a [`Sketch`] of it: a few packets of each flow,
//! chosen by their content, so that all hosts choose the same ones. The common packets of two sketches
//! give the rough relation of their clocks. With that, the second pass reads all hosts side by side, in nearly the
//! order in which things happened, and a [`Matcher`] remembers only what is in flight, though all of one
//! host's stamps may lie before the other's (Giraldeau 2015, section 5.4.6).
//!
//! # The meaning of a match
//!
//! Offload merges and splits TCP segments, so TCP is matched by byte ranges. A receive of the bytes
//! [s, e) happens after each of them was sent for the first time; the latest of those first sends is the
//! tightest bound, and is what the receive is paired with. That stays true where a byte was sent again,
//! or where segments came out of order; it only bounds less. Nevertheless a range that was sent or
//! received twice is *ambiguous*: which of the two it was cannot be known, and it is counted apart.
//!
//! The same header is seen again where a packet passes several interfaces of a host (veth, bridge, the
//! device). The first sighting says what the host did: if it is outgoing, the host sends, and what it
//! sees afterwards is on its way out; if it is incoming, the host receives. Only the same direction on
//! the same interface again is a repetition. So what a host sends to itself matches nothing elsewhere.

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

/// The events of a host that matching reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Traffic {
    /// The flow behind an id, from here on.
    Flow(FlowId, Flow),
    /// A packet that passed the edge of the host.
    Packet(Stamp<Local>, Packet),
}

impl Traffic {
    /// The event's part in it, if it has any.
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
    /// From the beginning. It must be the same each time.
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
