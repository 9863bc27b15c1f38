//! Packets and flows.

use std::net::SocketAddr;

use crate::HostIndex;

/// One direction of a connection. The sender's and the receiver's record of a packet carry the same.
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

    /// Whether both ends carry the same address or loopback ones: the peer is on this host.
    pub fn is_within_host(&self) -> bool {
        self.source.ip() == self.target.ip()
            || (self.source.ip().is_loopback() && self.target.ip().is_loopback())
    }

    /// The host whose packets it has, where it cannot leave that: two hosts may have equal flows of this kind.
    pub fn within(&self, host: HostIndex) -> Option<HostIndex> {
        self.is_within_host().then_some(host)
    }
}

/// Which way a packet crossed the edge of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Direction {
    Out,
    In,
}

/// A packet's header, as it passed the edge of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Packet {
    /// Its flow, in the direction it travels.
    pub flow: FlowId,
    /// Which way it crossed the edge.
    pub direction: Direction,
    /// TCP sequence number, or the IP id of other protocols.
    pub seq: u32,
    /// TCP acknowledgement number.
    pub ack: u32,
    /// Payload, bytes.
    pub len: u32,
    /// TCP flags; [`Packet::WINDOW_CLOSED`] above them.
    pub tcp_flags: u16,
    /// Network namespace.
    pub netns: u32,
    /// Interface index.
    pub interface: u32,
}

impl Packet {
    /// In [`Packet::tcp_flags`]: its sender takes no more data. The recorder says it of packets without SYN, FIN and RST.
    pub const WINDOW_CLOSED: u16 = 0x8000;
}
