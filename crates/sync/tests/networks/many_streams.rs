//! Hosts with more connections than a sketch holds.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use wakepath_clock::{ErrorBound, Limits, Quality, Stamp};
use wakepath_event::{Direction, Flow, FlowId, Packet};
use wakepath_packets::{Sketch, Traffic};
use wakepath_sync::{Host, Options, synchronise};

/// A sketch gives up streams when it has more than 2048 streams and 65 536 packets.
const OWN_STREAMS: u64 = 2100;
const PACKETS_OF_EACH: u64 = 32;
/// The port of the shared connection; a sketch with all streams gives up both its directions.
const PORT: u16 = 1000;

/// The traffic of host 0 or 1: its own connections with a third host, and, ten times, a request from 0 to 1 and its answer. Both clocks
/// read the same, a request travels 2 µs and an answer 1 µs.
fn traffic(host: u64) -> Vec<Traffic> {
    let address = |host: u8, port: u16| SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, host)), port);
    let flow = |source, target| Flow { source, target, protocol: 6 };
    let shared = flow(address(0, PORT), address(1, 80));
    let mut traffic = vec![Traffic::Flow(FlowId(0), shared), Traffic::Flow(FlowId(1), shared.reversed())];
    let own = |id: u64| flow(address(host as u8, 20_000 + id as u16), address(9, 80));
    traffic.extend((0..OWN_STREAMS).map(|id| Traffic::Flow(FlowId(id + 2), own(id))));
    let packet = |at: u64, flow: u64, is_out: bool, seq: u64| {
        let direction = if is_out { Direction::Out } else { Direction::In };
        let (flow, seq) = (FlowId(flow), (seq * 100) as u32);
        let packet = Packet { flow, direction, seq, ack: 1, len: 100, tcp_flags: 16, netns: 1, interface: 2 };
        Traffic::Packet(Stamp::from_ns(1_000_000_000 + at), packet)
    };
    for turn in 0..PACKETS_OF_EACH {
        let begin = turn * 30_000_000;
        traffic.extend((0..OWN_STREAMS).map(|id| packet(begin + id * 1000, id + 2, true, turn)));
        if turn < 10 {
            let at = begin + 20_000_000;
            traffic.push(packet(at + host * 2000, 0, host == 0, turn));
            traffic.push(packet(at + 5000 + (1 - host) * 1000, 1, host == 1, turn));
        }
    }
    traffic
}

#[test]
fn hosts_of_many_connections_are_linked_by_the_one_that_they_share() {
    let traffic = [traffic(0), traffic(1)];
    let sketches = traffic.each_ref().map(|traffic| Sketch::of(traffic, None));
    assert!(sketches.iter().all(Sketch::overflowed));
    let rough = sketches[0].compare(&sketches[1], Limits::default());
    assert_eq!(rough.counts(), [0, 0], "at first the connection is given up");

    let hosts = traffic.each_ref().map(|source| Host { source, window: None });
    let sync = synchronise(&hosts, &Options { reference: Some(0), ..Options::default() });
    let [pair] = &sync.pairs[..] else { panic!("{:?}", sync.pairs) };
    assert_eq!((pair.matched, pair.quality, pair.inversions), ([10, 10], Quality::Exact, 0));
    let at = Stamp::from_ns(1_020_000_000);
    let (there, error) = sync.hosts[1].transform.as_ref().expect("linked").convert(at);
    let ErrorBound::Within(error) = error else { panic!("both ways") };
    assert!(there.ns().abs_diff(at.ns()) <= error && error < 20_000, "{there:?}, {error} ns");
}
