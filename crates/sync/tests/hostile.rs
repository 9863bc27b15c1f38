//! Every trace gets an answer.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use proptest::prelude::*;
use wakepath_clock::{Limits, Stamp};
use wakepath_event::{Direction, Flow, FlowId, Packet};
use wakepath_packets::Traffic;
use wakepath_sync::{Host, Options, synchronise};

/// A few values, so that equal numbers occur, and the ends of the range.
fn number() -> impl Strategy<Value = u32> {
    prop_oneof![0..4_u32, Just(u32::MAX), Just(u32::MAX - 1), Just(1 << 31), any::<u32>()]
}

fn stamp() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..1000_u64,
        Just(u64::MAX),
        Just(1 << 63),
        Just(1 << 61),
        1 << 60..(1_u64 << 60) + 100,
        any::<u64>()
    ]
}

fn item() -> impl Strategy<Value = Traffic> {
    let flow = (0..3_u64, 0..3_u16, any::<bool>()).prop_map(|(id, port, tcp)| {
        let address = |port: u16| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        let protocol = if tcp { 6 } else { 17 };
        Traffic::Flow(FlowId(id), Flow { source: address(port), target: address(9), protocol })
    });
    let numbers = (number(), number(), number(), prop_oneof![Just(16), Just(2), Just(1), any::<u16>()]);
    let packet = (stamp(), 0..4_u64, any::<bool>(), numbers, 0..2_u32).prop_map(
        |(at, flow, out, (seq, ack, len, tcp_flags), interface)| {
            let direction = if out { Direction::Out } else { Direction::In };
            let flow = FlowId(flow);
            Traffic::Packet(
                Stamp::from_ns(at),
                Packet { flow, direction, seq, ack, len, tcp_flags, netns: 1, interface },
            )
        },
    );
    prop_oneof![1 => flow, 8 => packet]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_traffic_has_an_answer(
        hosts in prop::collection::vec(prop::collection::vec(item(), 0..40), 1..4),
        window in prop::option::of((stamp(), stamp())),
        reference in prop::option::of(0..5_usize),
        bend_ppb_per_s in prop_oneof![Just(0), Just(1000), any::<u32>()],
        rate_ppm in prop_oneof![Just(0), Just(1200), any::<u32>()],
    ) {
        let window = window.map(|(from, to)| (Stamp::from_ns(from), Stamp::from_ns(to)));
        let all: Vec<Host<'_>> = hosts.iter().map(|source| Host { source, window }).collect();
        let sync = synchronise(&all, &Options { reference, limits: Limits { rate_ppm, bend_ppb_per_s } });
        prop_assert_eq!(sync.hosts.len(), hosts.len());
        for clock in &sync.hosts {
            if let Some(transform) = &clock.transform {
                let ends = [0, 1000, 1 << 60, u64::MAX].map(|ns| transform.convert(Stamp::from_ns(ns)).0);
                prop_assert!(ends.is_sorted());
            }
        }
    }
}
