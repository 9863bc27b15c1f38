//! Packets and flows.

use std::net::SocketAddr;

use crate::HostIndex;

/// A direction of a connection. The sender's and the receiver's record of a packet carry the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowId(pub u64);

/// An address and a port.
pub type Address = SocketAddr;

/// The addresses and protocol behind a [`FlowId`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Flow {
    /// The sender.
    pub source: Address,
    /// The receiver.
    pub target: Address,
    /// The IP protocol: 6 TCP, 17 UDP.
    pub protocol: u8,
}

impl Flow {
    /// The other direction of the same connection.
    pub const fn reversed(self) -> Self {
        Self { source: self.target, target: self.source, protocol: self.protocol }
    }

    /// Whether both ends have the same address or loopback addresses: the peer is on this host.
    pub fn is_within_host(&self) -> bool {
        self.source.ip() == self.target.ip()
            || (self.source.ip().is_loopback() && self.target.ip().is_loopback())
    }

    /// `host`, if the flow cannot leave it: two hosts may have equal flows of this kind.
    pub fn within(&self, host: HostIndex) -> Option<HostIndex> {
        self.is_within_host().then_some(host)
    }
}

/// The direction in which a packet crossed the host's edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Direction {
    Out,
    In,
}

/// A packet's header, as the packet passed the host's edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Packet {
    /// The flow, in the packet's direction.
    pub flow: FlowId,
    /// The direction across the edge.
    pub direction: Direction,
    /// The TCP sequence number, or the IP id for other protocols.
    pub seq: u32,
    /// TCP acknowledgement number.
    pub ack: u32,
    /// Payload, bytes.
    pub len: u32,
    /// TCP flags; [`Packet::WINDOW_CLOSED`] and [`Packet::HELD_BACK`] above them.
    pub tcp_flags: u16,
    /// Network namespace.
    pub netns: u32,
    /// Interface index.
    pub interface: u32,
}

impl Packet {
    /// In [`Packet::tcp_flags`]: the sender takes no more data. The recorder sets it on packets without SYN, FIN and RST.
    pub const WINDOW_CLOSED: u16 = 0x8000;
    /// In [`Packet::tcp_flags`]: less data than a segment, directly behind such data, left in an interrupt, from a socket without
    /// `TCP_NODELAY`: Nagle's algorithm held it back until an acknowledgement of the data before it.
    pub const HELD_BACK: u16 = 0x4000;
}
