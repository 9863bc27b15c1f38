//! The identity of a packet by its header, the same on every host.

use wakepath_event::{Direction, Packet};

use crate::flows::{Flows, StreamKey, hash};

/// The key that identifies a packet on another host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Identity {
    /// TCP with something to acknowledge: its place in the stream. A SYN and a FIN take one each.
    Bytes { seq: u32, len: u32 },
    /// Everything else: all that was read of the header, and the stream.
    Exact(u64),
}

/// Where a packet passed: the same place twice is a repetition, another place is a hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub out: bool,
    /// A hash of namespace and interface.
    interface: u32,
}

const FIN: u16 = 1;
const SYN: u16 = 2;

/// The stream of a packet and its identity there.
pub(crate) fn identify(flows: &Flows, packet: &Packet) -> (StreamKey, Identity) {
    let stream = flows.get(packet.flow).unwrap_or(StreamKey::UNDEFINED);
    let flags = packet.tcp_flags;
    // No packet is longer than the range that sequence numbers distinguish.
    let len = packet.len.min(1 << 30) + u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0);
    let identity = if stream.is_tcp() && len > 0 {
        Identity::Bytes { seq: packet.seq, len }
    } else {
        // All 16 bits distinguish packets: some tracers write the flags into the upper half. The remark of our recorder there
        // is the same at both ends.
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
