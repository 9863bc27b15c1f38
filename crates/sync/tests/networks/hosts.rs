//! Hosts on a common clock: the bound holds, effects follow causes, and hosts without a link are
//! reported.

use std::cell::Cell;

use proptest::prelude::*;
use wakepath_clock::{ErrorBound, Local, Quality, Stamp};
use wakepath_drift::{Chance, TrueClock};
use wakepath_event::Direction;
use wakepath_packets::{Source, Traffic};
use wakepath_sync::{Host, Options, Synchronisation, synchronise};

use crate::network::{Network, Sighting, Wire};

const HOUR: u64 = 3_600_000_000_000;

/// Clocks with hours between them, off by up to 200 ppm; every second clock bends.
fn clocks(count: usize, bend: f64, seconds: f64, chance: &mut Chance) -> Vec<TrueClock> {
    let clock = |host: usize| {
        let offset = chance.number() % (5000 * HOUR);
        let ppm = chance.between(-200.0, 200.0);
        TrueClock::new(offset, ppm, if host % 2 == 1 { bend } else { 0.0 }, seconds, chance)
    };
    (0..count).map(clock).collect()
}

fn solve(network: &Network, seconds: f64, options: &Options) -> Synchronisation {
    let traffic: Vec<Vec<Traffic>> =
        (0..network.clocks.len()).map(|host| network.traffic(host, true)).collect();
    let hosts = traffic.iter().zip(&network.clocks).map(|(traffic, clock)| Host {
        source: traffic,
        window: Some((Stamp::from_ns(clock.at(0.0)), Stamp::from_ns(clock.at(seconds * 1e9)))),
    });
    synchronise(&hosts.collect::<Vec<_>>(), options)
}

/// The largest true error of a host's clock; each error is compared with its bound.
fn judge(network: &Network, sync: &Synchronisation, host: usize, seconds: f64) -> Result<u64, TestCaseError> {
    let reference = sync.reference.expect("there are hosts");
    let Some(transform) = &sync.hosts[host].transform else {
        return Err(TestCaseError::fail(format!("host {host} has no clock")));
    };
    let mut worst = 0;
    for step in 0..=1000 {
        let t = seconds * 1e9 * f64::from(step) / 1000.0;
        let (at, error) = transform.convert(Stamp::<Local>::from_ns(network.clocks[host].at(t)));
        let off = at.ns().abs_diff(network.clocks[reference].at(t));
        if let ErrorBound::Within(bound) = error {
            prop_assert!(off <= bound + 2, "host {} off by {} ns at {}, bound {}", host, off, t, bound);
        }
        prop_assert!(error <= sync.hosts[host].error);
        worst = worst.max(off);
    }
    Ok(worst)
}

/// Packets that arrive before they were sent, on the reference clock, found by brute force over
/// headers that occur once.
fn inversions(network: &Network, sync: &Synchronisation, pair: (usize, usize)) -> usize {
    let seen = [pair.0, pair.1].map(|host| (host, network.seen(host)));
    let mut inverted = 0;
    for (from, to) in [(&seen[0], &seen[1]), (&seen[1], &seen[0])] {
        let key = |sighting: &Sighting| {
            let packet = sighting.packet;
            (sighting.stream, packet.seq, packet.ack, packet.len)
        };
        let mut sends = std::collections::HashMap::new();
        for (at, sighting) in
            from.1.iter().filter(|seen| seen.1.edge && seen.1.packet.direction == Direction::Out)
        {
            sends.entry(key(sighting)).or_insert(*at);
        }
        let on = |host: usize, at: u64| {
            sync.hosts[host].transform.as_ref().map(|transform| transform.convert(Stamp::from_ns(at)).0)
        };
        for (at, sighting) in
            to.1.iter().filter(|seen| seen.1.edge && seen.1.packet.direction == Direction::In)
        {
            if let Some(&sent) = sends.get(&key(sighting)) {
                inverted += usize::from(on(from.0, sent) > on(to.0, *at));
            }
        }
    }
    inverted
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_bound_holds_for_every_host_of_a_chain_whatever_the_wires_do(
        seed in any::<u64>(),
        seconds in 0.5..5.0_f64,
        per_second in 40.0..120.0_f64,
        bend in prop_oneof![Just(0.0), Just(1.0)],
        loss in 0.0..0.03_f64,
        duplicates in 0.0..0.03_f64,
        offload in any::<bool>(),
        nested in any::<bool>(),
        least in (10e3..400e3_f64, 10e3..400e3_f64),
    ) {
        let mut chance = Chance(seed);
        let mut network = Network::new(clocks(3, bend, seconds + 2.0, &mut chance), seed);
        let wire = Wire { loss, duplicates, offload, nested, least, queueing: 80e3 };
        for pair in [(0, 1), (2, 1)] {
            network.connection(pair, wire, (0.1e9, seconds * 1e9), per_second, 20_000);
        }
        let sync = solve(&network, seconds, &Options::default());
        prop_assert_eq!(sync.pairs.len(), 2);
        for pair in &sync.pairs {
            prop_assert_eq!((pair.quality, pair.inversions), (Quality::Exact, 0));
            prop_assert_eq!(inversions(&network, &sync, (pair.a, pair.b)), 0);
        }
        for host in 0..3 {
            judge(&network, &sync, host, seconds)?;
        }
    }
}

#[test]
fn on_loopback_at_a_thousand_packets_a_second_the_bound_is_tight() {
    let mut runs = Vec::new();
    for seed in 0..9 {
        let mut chance = Chance(seed);
        let seconds = 5.0;
        let mut network = Network::new(clocks(2, 1.0, seconds + 2.0, &mut chance), seed);
        let wire = Wire { least: (chance.between(10e3, 30e3), chance.between(10e3, 30e3)), ..Wire::LOOPBACK };
        // Each message and its acknowledgement.
        network.connection((0, 1), wire, (0.0, seconds * 1e9), 500.0, 1000);
        let sync = solve(&network, seconds, &Options::default());
        let other = 1 - sync.reference.expect("two hosts");
        let worst = judge(&network, &sync, other, seconds).expect("the bound holds");
        let bound = sync.hosts[other].error.ns().expect("both ways");
        assert!(bound <= 50_000, "bound {bound} ns");
        assert_eq!(inversions(&network, &sync, (0, 1)), 0);
        runs.push((bound as f64, worst as f64));
    }
    let median = |of: fn(&(f64, f64)) -> f64| {
        let mut all: Vec<f64> = runs.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let ratio = median(|run| run.0 / run.1);
    println!(
        "median bound {} ns, true worst {} ns, ratio {ratio:.2}",
        median(|run| run.0),
        median(|run| run.1)
    );
    assert!(ratio <= 10.0, "median ratio {ratio}");
}

#[test]
fn the_best_way_is_the_one_of_least_error_not_of_fewest_steps() {
    let mut chance = Chance(21);
    let mut network = Network::new(clocks(3, 0.0, 4.0, &mut chance), 22);
    let near = Wire { least: (20e3, 20e3), ..Wire::LOOPBACK };
    let far = Wire { least: (5e6, 5e6), queueing: 1e6, ..Wire::LOOPBACK };
    network.connection((0, 1), near, (0.0, 2e9), 300.0, 1000);
    network.connection((1, 2), near, (0.0, 2e9), 300.0, 1000);
    network.connection((0, 2), far, (0.0, 2e9), 300.0, 1000);
    let sync = solve(&network, 2.0, &Options { reference: Some(0), ..Options::default() });
    assert_eq!(sync.reference, Some(0));
    assert_eq!(sync.hosts[2].way, [2, 1, 0]);
    let far = sync.pairs.iter().find(|pair| (pair.a, pair.b) == (0, 2)).expect("they talk");
    assert!(sync.hosts[2].error < far.error, "{:?} against {:?}", sync.hosts[2].error, far.error);
    assert!(sync.pairs.iter().all(|pair| pair.inversions == 0), "{:?}", sync.pairs);
    judge(&network, &sync, 2, 2.0).expect("the bound holds");
    // By default it chooses the host in the middle.
    assert_eq!(solve(&network, 2.0, &Options::default()).reference, Some(1));
}

#[test]
fn all_hosts_of_a_star_come_onto_the_clock_of_its_centre() {
    let mut chance = Chance(31);
    let mut network = Network::new(clocks(5, 1.0, 4.0, &mut chance), 32);
    for host in [0, 1, 2, 4] {
        network.connection((host, 3), Wire::LOOPBACK, (0.0, 2e9), 200.0, 5000);
    }
    let sync = solve(&network, 2.0, &Options::default());
    assert_eq!(sync.reference, Some(3));
    for host in 0..5 {
        judge(&network, &sync, host, 2.0).expect("the bound holds");
        assert_eq!(sync.hosts[host].quality, Quality::Exact);
    }
    // A pair with the centre has the host's conversion.
    for pair in sync.pairs.iter().filter(|pair| pair.b == 3) {
        assert_eq!(pair.error, sync.hosts[pair.a].error);
    }
    assert_eq!(sync.pairs.iter().filter(|pair| pair.b == 3).count(), 3);
    // There is no sixth host to be the reference.
    let beyond = solve(&network, 2.0, &Options { reference: Some(5), ..Options::default() });
    assert_eq!(format!("{beyond:?}"), format!("{sync:?}"));
}

/// Traffic with a count of its readings.
struct Counted {
    traffic: Vec<Traffic>,
    readings: Cell<u32>,
}

impl Source for Counted {
    fn traffic(&self) -> Box<dyn Iterator<Item = Traffic> + '_> {
        self.readings.set(self.readings.get() + 1);
        self.traffic.traffic()
    }
}

#[test]
fn traffic_is_read_twice_and_once_where_no_other_host_has_any_of_it() {
    let mut chance = Chance(71);
    let mut network = Network::new(clocks(3, 0.0, 4.0, &mut chance), 72);
    network.connection((0, 2), Wire::LOOPBACK, (0.0, 1e9), 50.0, 1000);
    network.connection((1, 1), Wire::LOOPBACK, (0.0, 1e9), 50.0, 1000);
    let hosts =
        [0, 1, 2].map(|host| Counted { traffic: network.traffic(host, true), readings: Cell::new(0) });
    synchronise(&hosts.each_ref().map(|source| Host { source, window: None }), &Options::default());
    assert_eq!(hosts.map(|host| host.readings.get()), [2, 1, 2]);
}

#[test]
fn packets_that_are_one_of_several_are_counted_and_not_used() {
    let mut chance = Chance(73);
    let mut network = Network::new(clocks(2, 0.0, 4.0, &mut chance), 74);
    network.connection((0, 1), Wire::LOOPBACK, (0.0, 1e9), 100.0, 1000);
    let certain = solve(&network, 1.0, &Options::default()).pairs[0].clone();
    assert_eq!(certain.ambiguous, 0);
    // Each of two ids is sent three times.
    let sends: Vec<(f64, u32)> = (0..6).map(|i| (f64::from(i) * 1e8, i % 2)).collect();
    network.datagrams((0, 1), Wire::LOOPBACK, &sends);
    let pair = solve(&network, 1.0, &Options::default()).pairs[0].clone();
    assert_eq!((pair.matched, pair.ambiguous), (certain.matched, 2));
}

#[test]
fn a_host_that_nothing_links_stays_without_a_clock() {
    let mut chance = Chance(41);
    let mut network = Network::new(clocks(4, 0.0, 4.0, &mut chance), 42);
    network.connection((0, 2), Wire::LOOPBACK, (0.0, 1e9), 200.0, 5000);
    // It exchanges packets, but only with itself.
    network.connection((1, 1), Wire::LOOPBACK, (0.0, 1e9), 200.0, 5000);
    let sync = solve(&network, 1.0, &Options::default());
    for host in [1, 3] {
        let clock = &sync.hosts[host];
        assert_eq!((clock.quality, clock.error), (Quality::None, ErrorBound::Unbounded));
        assert!(clock.transform.is_none() && clock.way.is_empty());
    }
    assert_eq!(sync.hosts[2].quality, Quality::Exact);
    assert_eq!(sync.pairs.len(), 1);
}

#[test]
fn one_way_traffic_orders_effects_but_bounds_nothing() {
    let mut chance = Chance(51);
    let mut network = Network::new(clocks(2, 1.0, 4.0, &mut chance), 52);
    let sends: Vec<(f64, u32)> = (0..200).map(|i| (f64::from(i) * 1e7, i)).collect();
    network.datagrams((1, 0), Wire::LOOPBACK, &sends);
    let sync = solve(&network, 2.0, &Options::default());
    let other = &sync.hosts[1 - sync.reference.expect("two hosts")];
    assert_eq!((other.quality, other.error), (Quality::OneWay, ErrorBound::Unbounded));
    assert_eq!(sync.pairs[0].matched, [0, 200]);
    assert_eq!(inversions(&network, &sync, (0, 1)), 0);
}

#[test]
fn the_result_is_the_same_each_time() {
    let mut chance = Chance(61);
    let mut network = Network::new(clocks(3, 1.0, 4.0, &mut chance), 62);
    let wire = Wire { loss: 0.01, offload: true, ..Wire::LOOPBACK };
    network.connection((0, 1), wire, (0.0, 1e9), 100.0, 50_000);
    network.connection((1, 2), wire, (0.0, 1e9), 100.0, 50_000);
    let once = format!("{:?}", solve(&network, 1.0, &Options::default()));
    assert_eq!(once, format!("{:?}", solve(&network, 1.0, &Options::default())));
}

#[test]
fn no_hosts_are_no_problem_and_one_is_its_own_reference() {
    assert_eq!(synchronise(&[], &Options::default()).reference, None);
    let nothing: Vec<Traffic> = Vec::new();
    let sync = synchronise(&[Host { source: &nothing, window: None }], &Options::default());
    assert_eq!((sync.reference, sync.hosts[0].error), (Some(0), ErrorBound::ZERO));
}
