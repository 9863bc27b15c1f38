//! Connections: the addresses of their ends, and the processes there, if on this host.

use std::collections::HashMap;
use std::fmt;

use wakepath_event::{Address, Flow, FlowId, HostIndex, Tid};

use crate::Names;

/// A connection's end, by its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    /// The IP protocol: 6 TCP, 17 UDP.
    pub protocol: u8,
    /// Its address and port.
    pub address: Address,
}

/// A connection's other end, seen from the own end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Peer {
    /// The own end's address and port.
    pub own: Address,
    /// The other end.
    pub end: Endpoint,
    /// The process there, if on this host and seen with the socket.
    pub process: Option<Tid>,
}

impl Peer {
    /// Whether the own end opened the connection, judged by its ports: the opening end takes a port from Linux's
    /// range for this purpose (`ip_local_port_range`), the other end has another port.
    pub fn called_by_us(&self) -> bool {
        is_ephemeral(self.own.port()) && !is_ephemeral(self.end.address.port())
    }

    /// Whether the other end opened the connection, judged by its ports. If the ports do not show the opener,
    /// neither end did.
    pub fn called_us(&self) -> bool {
        is_ephemeral(self.end.address.port()) && !is_ephemeral(self.own.port())
    }
}

fn is_ephemeral(port: u16) -> bool {
    (32_768..=60_999).contains(&port)
}

impl Endpoint {
    /// Whether name servers have this port: DNS over UDP or TCP.
    pub fn is_name_server(&self) -> bool {
        self.address.port() == 53 && matches!(self.protocol, 6 | 17)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.protocol {
            6 => write!(f, "tcp {}", self.address),
            17 => write!(f, "udp {}", self.address),
            other => write!(f, "IP protocol {other} {}", self.address),
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Flows {
    /// With the host, for flows that cannot leave it: two hosts may have connections with equal addresses.
    by_id: HashMap<FlowId, (Option<HostIndex>, Flow)>,
    by_ends: HashMap<(Option<HostIndex>, Flow), FlowId>,
    /// The process that sends on each flow.
    senders: HashMap<FlowId, Tid>,
}

impl Flows {
    /// `inside`: the host that the flow cannot leave.
    pub fn define(&mut self, id: FlowId, inside: Option<HostIndex>, flow: Flow) {
        self.by_id.insert(id, (inside, flow));
        self.by_ends.insert((inside, flow), id);
    }

    pub fn owned(&mut self, outgoing: FlowId, process: Tid) {
        self.senders.insert(outgoing, process);
    }

    /// The sender on this flow; `flow` is its id, if it has one.
    fn peer(&self, flow: Option<&FlowId>, Flow { source, target, protocol }: Flow) -> Peer {
        let process = flow.and_then(|flow| self.senders.get(flow)).copied();
        Peer { own: target, end: Endpoint { protocol, address: source }, process }
    }
}

impl Names {
    /// A flow's sender, as the receiving end sees it.
    pub fn sender(&self, flow: FlowId) -> Option<Peer> {
        Some(self.flows.peer(Some(&flow), self.flows.by_id.get(&flow)?.1))
    }

    /// A flow's other direction, if defined.
    pub fn other_direction(&self, flow: FlowId) -> Option<FlowId> {
        let (inside, flow) = self.flows.by_id.get(&flow)?;
        self.flows.by_ends.get(&(*inside, flow.reversed())).copied()
    }

    /// A flow's host, if it cannot leave it.
    pub(crate) fn inside(&self, flow: FlowId) -> Option<HostIndex> {
        self.flows.by_id.get(&flow)?.0
    }

    /// A flow's receiver: the sender on its other direction.
    pub fn receiver(&self, flow: FlowId) -> Option<Peer> {
        let (inside, flow) = self.flows.by_id.get(&flow)?;
        let back = flow.reversed();
        Some(self.flows.peer(self.flows.by_ends.get(&(*inside, back)), back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_servers_have_a_port_of_two_protocols() {
        let is_one = |protocol, address: &str| {
            Endpoint { protocol, address: address.parse().expect("an address") }.is_name_server()
        };
        assert_eq!([6, 17, 132].map(|protocol| is_one(protocol, "10.0.0.2:53")), [true, true, false]);
        assert!(!is_one(17, "10.0.0.2:54"));
    }

    #[test]
    fn connections_of_the_same_addresses_within_two_hosts_have_each_its_own_ends() {
        let [client, server] =
            ["127.0.0.1:40000", "127.0.0.1:5432"].map(|text| text.parse().expect("an address"));
        let request = Flow { source: client, target: server, protocol: 6 };
        let mut names = Names::default();
        let hosts = [0, 1].map(HostIndex);
        for (host, id) in hosts.into_iter().zip([1, 3]) {
            names.flows.define(FlowId(id), request.within(host), request);
            names.flows.define(FlowId(id + 1), request.within(host), request.reversed());
            names.flows.owned(FlowId(id + 1), Tid(912).on(host));
        }
        for (host, id) in hosts.into_iter().zip([1, 3]) {
            assert_eq!(names.receiver(FlowId(id)).and_then(|peer| peer.process), Some(Tid(912).on(host)));
            assert_eq!(names.other_direction(FlowId(id)), Some(FlowId(id + 1)));
            assert_eq!(names.other_direction(FlowId(id + 1)), Some(FlowId(id)));
        }
    }

    #[test]
    fn the_other_end_of_a_connection_is_found_by_its_addresses() {
        let client: Address = "10.0.0.2:40000".parse().unwrap();
        let server: Address = "10.0.0.3:5432".parse().unwrap();
        let request = Flow { source: client, target: server, protocol: 6 };
        let mut names = Names::default();
        let flows = &mut names.flows;
        flows.define(FlowId(1), None, request);
        flows.define(FlowId(2), None, request.reversed());
        flows.owned(FlowId(2), Tid(912));

        let peer = names.receiver(FlowId(1)).unwrap();
        assert_eq!((peer.end.to_string().as_str(), peer.process), ("tcp 10.0.0.3:5432", Some(Tid(912))));
        let peer = names.sender(FlowId(1)).unwrap();
        assert_eq!((peer.end.to_string().as_str(), peer.process), ("tcp 10.0.0.2:40000", None));
        assert!(names.receiver(FlowId(1)).unwrap().called_by_us());
        assert!(!names.receiver(FlowId(1)).unwrap().called_us());
        assert!(!names.receiver(FlowId(2)).unwrap().called_by_us());
        assert!(names.receiver(FlowId(2)).unwrap().called_us());
        assert_eq!(
            [1, 2, 3].map(|flow| names.other_direction(FlowId(flow))),
            [Some(FlowId(2)), Some(FlowId(1)), None]
        );
        assert_eq!(names.receiver(FlowId(3)), None, "a flow that nobody defined has no ends");
    }

    #[test]
    fn an_end_of_a_connection_is_its_protocol_and_its_address() {
        for (protocol, expected) in
            [(6, "tcp 10.0.0.3:53"), (17, "udp 10.0.0.3:53"), (132, "IP protocol 132 10.0.0.3:53")]
        {
            let address = "10.0.0.3:53".parse().expect("an address");
            assert_eq!(Endpoint { protocol, address }.to_string(), expected);
        }
    }

    #[test]
    fn ports_show_who_called_only_if_one_of_them_alone_is_from_the_range_for_callers() {
        let address = |port: u16| format!("10.0.0.3:{port}").parse().expect("an address");
        for (own, other, called_by_us, called_us) in [
            (32_768, 32_767, true, false),
            (60_999, 61_000, true, false),
            (443, 40_000, false, true),
            (40_000, 40_001, false, false),
            (443, 8_080, false, false),
        ] {
            let end = Endpoint { protocol: 6, address: address(other) };
            let peer = Peer { own: address(own), end, process: None };
            assert_eq!((peer.called_by_us(), peer.called_us()), (called_by_us, called_us), "{own} {other}");
        }
    }
}
