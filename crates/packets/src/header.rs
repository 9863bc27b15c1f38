//! A packet's identity by its header, equal on every host.

use wakepath_event::{Direction, Packet};

use crate::flows::{Flows, StreamKey, hash};

/// The key that identifies a packet on another host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Identity {
    /// TCP with sequence numbers to acknowledge: its place in the stream. SYN and FIN take a number each.
    Bytes { seq: u32, len: u32 },
    /// Any other packet: a hash of the stream and the fields read from the header.
    Exact(u64),
}

/// The place where a packet passed: a second sighting at the same place is a repetition, at another place a hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub out: bool,
    /// A hash of namespace and interface.
    interface: u32,
}

const FIN: u16 = 1;
const SYN: u16 = 2;

/// A packet's stream and its identity there.
pub(crate) fn identify(flows: &Flows, packet: &Packet) -> (StreamKey, Identity) {
    let stream = flows.get(packet.flow).unwrap_or(StreamKey::UNDEFINED);
    let flags = packet.tcp_flags;
    // No packet is longer than the range that sequence numbers distinguish.
    let len = packet.len.min(1 << 30) + u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0);
    let identity = if stream.is_tcp() && len > 0 {
        Identity::Bytes { seq: packet.seq, len }
    } else {
        // All 16 bits distinguish packets: some tracers write the flags into the upper half. Our recorder's own bits there
        // are equal at both ends.
        Identity::Exact(hash((stream.0, packet.seq, packet.ack, flags, packet.len)))
    };
    (stream, identity)
}

impl Place {
    pub(crate) fn of(packet: &Packet) -> Self {
        let out = packet.direction == Direction::Out;
        Self { out, interface: hash((packet.netns, packet.interface)) as u32 }
    }
}
