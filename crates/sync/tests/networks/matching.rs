//! Every distinguishable packet is matched with the send that it waited for, and no other.

use std::collections::HashMap;

use proptest::prelude::*;
use wakepath_drift::{Chance, TrueClock};
use wakepath_event::Direction;
use wakepath_packets::{Match, Matcher, Outcome, Sketch, Traffic};

use crate::network::{Network, Sighting, Wire};

/// All outcomes, with the true clock as the common clock.
fn outcomes(network: &Network, addresses: bool) -> Vec<Outcome> {
    let hosts = 0..network.clocks.len();
    let traffic: Vec<Vec<Traffic>> = hosts.clone().map(|host| network.traffic(host, addresses)).collect();
    let sketches: Vec<Sketch> = traffic.iter().map(|traffic| Sketch::of(traffic, None)).collect();
    let mut matcher = Matcher::new(&sketches.iter().collect::<Vec<_>>(), 0);
    let index = network.index();
    let mut packets: Vec<(f64, usize, Traffic)> = Vec::new();
    for (host, traffic) in traffic.iter().enumerate() {
        for &item in traffic {
            if let Traffic::Packet(at, _) = item {
                packets.push((index[&(host, at)].true_ns, host, item));
            }
        }
    }
    packets.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut all = Vec::new();
    for (true_ns, host, item) in packets {
        if let Traffic::Packet(at, packet) = item {
            matcher.packet(host, at, true_ns as u64, &packet, &mut |outcome| all.push(outcome));
        }
    }
    matcher.finish(&mut |outcome| all.push(outcome));
    all
}

fn matches(outcomes: &[Outcome]) -> Vec<Match> {
    let matched = |outcome: &Outcome| match *outcome {
        Outcome::Matched(matched) => Some(matched),
        Outcome::Ambiguous(_) => None,
    };
    outcomes.iter().filter_map(matched).collect()
}

/// The bytes, unwrapped around the middle of all sequence numbers.
fn bytes(sighting: &Sighting) -> (u64, u64) {
    let start = u64::from(sighting.packet.seq.wrapping_add(1 << 31));
    (start, start + u64::from(sighting.packet.len))
}

fn overlap(a: &Sighting, b: &Sighting) -> bool {
    let (a, b) = (bytes(a), bytes(b));
    a.0 < b.1 && b.0 < a.1
}

/// By brute force: for each distinguishable receive at a host's edge, the time at which the last of its bytes was sent.
fn expected(network: &Network) -> HashMap<(usize, u64), (usize, u64)> {
    let mut expected = HashMap::new();
    let hosts = 0..network.clocks.len();
    let seen: Vec<Vec<(u64, Sighting)>> = hosts.clone().map(|host| network.seen(host)).collect();
    type AtEdge = Vec<(usize, u64, Sighting)>;
    let mut edges: HashMap<(u32, bool), AtEdge> = HashMap::new();
    for host in hosts {
        for &(at, sighting) in seen[host].iter().filter(|seen| seen.1.edge) {
            let out = sighting.packet.direction == Direction::Out;
            edges.entry((sighting.stream, out)).or_default().push((host, at, sighting));
        }
    }
    for (&(stream, out), receives) in &edges {
        let Some(sends) = edges.get(&(stream, true)).filter(|_| !out) else { continue };
        let same = |a: &Sighting, b: &Sighting| match a.packet.len > 0 && a.packet.tcp_flags != 0 {
            true => b.packet.len > 0 && overlap(a, b),
            false => (a.packet.seq, a.packet.ack, a.packet.len) == (b.packet.seq, b.packet.ack, b.packet.len),
        };
        for (to, received, sighting) in receives {
            let again = receives.iter().filter(|other| same(sighting, &other.2)).count() > 1;
            let causes: Vec<_> = sends.iter().filter(|send| same(sighting, &send.2)).collect();
            let resent = |cause: &Sighting| sends.iter().filter(|other| same(cause, &other.2)).count() > 1;
            if again || causes.is_empty() || causes.iter().any(|cause| resent(&cause.2)) {
                continue;
            }
            let last = causes.iter().max_by_key(|cause| cause.1).expect("not empty");
            expected.insert((*to, *received), (last.0, last.1));
        }
    }
    expected
}

fn clocks(count: usize, chance: &mut Chance) -> Vec<TrueClock> {
    (0..count).map(|_| TrueClock::new(chance.number() % (1 << 50), 50.0, 0.0, 20.0, chance)).collect()
}

fn check(network: &Network) -> Result<usize, TestCaseError> {
    let outcomes = outcomes(network, true);
    let expected = expected(network);
    let found = matches(&outcomes);
    for m in &found {
        let truth = expected.get(&(m.to, m.received.ns()));
        prop_assert_eq!(truth, Some(&(m.from, m.sent.ns())), "{:?}", m);
    }
    prop_assert_eq!(found.len(), expected.len());
    // An ambiguous match is at least no effect before its cause.
    let index = network.index();
    for pair in outcomes.iter().map(Outcome::pair) {
        let at = |host: usize, stamp| index.get(&(host, stamp)).map(|sighting| sighting.true_ns);
        prop_assert!(at(pair.from, pair.sent) < at(pair.to, pair.received), "{:?}", pair);
    }
    Ok(found.len())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_receive_that_can_be_told_apart_is_matched_with_its_latest_first_send(
        seed in any::<u64>(),
        loss in prop_oneof![Just(0.0), 0.0..0.05_f64],
        duplicates in prop_oneof![Just(0.0), 0.0..0.05_f64],
        offload in any::<bool>(),
        nested in any::<bool>(),
        size in prop_oneof![1..3000_u32, 1..100_000_u32],
    ) {
        let mut chance = Chance(seed);
        let mut network = Network::new(clocks(2, &mut chance), seed);
        let wire = Wire { loss, duplicates, offload, nested, least: (150e3, 90e3), queueing: 100e3 };
        network.connection((0, 1), wire, (0.0, 0.5e9), 60.0, size);
        network.connection((1, 0), wire, (0.0, 0.5e9), 60.0, size);
        check(&network)?;
    }
}

#[test]
fn a_merged_receive_waits_for_its_last_byte() {
    let mut chance = Chance(3);
    let mut network = Network::new(clocks(2, &mut chance), 5);
    let wire = Wire { offload: true, ..Wire::LOOPBACK };
    network.connection((0, 1), wire, (0.0, 1e9), 200.0, 100_000);
    let matched = check(&network).expect("as by brute force");
    assert!(matched > 300, "{matched} matched");
}

#[test]
fn datagrams_are_matched_by_their_ids_until_these_repeat() {
    let mut chance = Chance(4);
    let sends: Vec<(f64, u32)> = (0..100).map(|i| (f64::from(i) * 1e7, if i < 60 { i } else { 7 })).collect();
    let mut network = Network::new(clocks(2, &mut chance), 6);
    network.datagrams((0, 1), Wire::LOOPBACK, &sends);
    let outcomes = outcomes(&network, true);
    assert_eq!(matches(&outcomes).len(), 59);
    assert_eq!(outcomes.len() - 59, 1, "those of one id are one unknown");
    check(&network).expect("as by brute force");
}

#[test]
fn without_addresses_all_fields_must_agree() {
    let mut chance = Chance(8);
    let mut network = Network::new(clocks(2, &mut chance), 9);
    network.connection((0, 1), Wire::LOOPBACK, (0.0, 1e9), 100.0, 1000);
    let named = matches(&outcomes(&network, true));
    let unnamed = matches(&outcomes(&network, false));
    let plain = |found: Vec<Match>| {
        let mut plain: Vec<_> = found.into_iter().map(|m| (m.from, m.sent, m.to, m.received)).collect();
        plain.sort_unstable();
        plain
    };
    assert!(!named.is_empty());
    assert_eq!(plain(named), plain(unnamed));
}

#[test]
fn what_a_host_sends_to_itself_matches_nothing_elsewhere() {
    let mut chance = Chance(10);
    let mut network = Network::new(clocks(2, &mut chance), 11);
    // The same addresses on both hosts, as on loopback, and by chance the same ids.
    network.datagrams((0, 0), Wire::LOOPBACK, &[(1e6, 1), (2e6, 2)]);
    network.datagrams((1, 1), Wire::LOOPBACK, &[(3e6, 1), (4e6, 2)]);
    let found = outcomes(&network, false);
    assert!(found.is_empty(), "{found:?}");
}
