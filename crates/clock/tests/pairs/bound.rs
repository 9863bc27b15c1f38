//! The bound holds, and it is useful.

use proptest::prelude::*;
use wakepath_clock::{ErrorBound, Limits, Quality};
use wakepath_drift::{Chance, TrueClock};

use crate::pair::{Pair, Traffic};

const HOUR: u64 = 3_600_000_000_000;

fn pair(seed: u64, traffic: Traffic, ppm: (f64, f64), bend: f64) -> Pair {
    let mut chance = Chance(seed);
    let offsets =
        (chance.number() % (1000 * HOUR), 1_000_000_000_000_000_000 - chance.number() % (1000 * HOUR));
    let here = TrueClock::new(offsets.0, ppm.0, 0.0, traffic.seconds + 2.0, &mut chance);
    let there = TrueClock::new(offsets.1, ppm.1, bend, traffic.seconds + 2.0, &mut chance);
    let (here, there) = if chance.number() & 1 == 0 { (here, there) } else { (there, here) };
    Pair::new(here, there, traffic, &mut chance)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_truth_lies_within_the_bound_and_no_packet_arrives_before_it_was_sent(
        seed in any::<u64>(),
        seconds in prop_oneof![0.05..2.0, 2.0..60.0_f64],
        per_second in prop_oneof![1.0..20.0, 20.0..400.0_f64],
        least in (10e3..300e3_f64, 10e3..300e3_f64),
        queueing in 1e3..500e3_f64,
        forward in 0.1..0.9_f64,
        ppm in (-200.0..200.0_f64, -200.0..200.0_f64),
        bend in prop_oneof![Just(0.0), 0.0..1.0_f64, Just(1.0)],
    ) {
        let traffic = Traffic { seconds, per_second, least, queueing, forward };
        let pair = pair(seed, traffic, ppm, bend);
        let (from, to) = pair.window();
        let solution = pair.solver(Limits::default()).solve(from, to);
        let Some(transform) = solution.transform else {
            prop_assert!(pair.packets.is_empty());
            return Ok(());
        };
        let both = pair.packets.iter().any(|p| p.0) && pair.packets.iter().any(|p| !p.0);
        prop_assert_eq!(solution.quality, if both { Quality::Exact } else { Quality::OneWay });
        prop_assert_eq!(transform.worst(from, to) == ErrorBound::Unbounded, !both);
        prop_assert_eq!(solution.inversions, 0);
        prop_assert_eq!(pair.inversions(&transform), 0);
        if let Err(wrong) = pair.judge(&transform) {
            prop_assert!(false, "{}", wrong);
        }
        // The inverse conversion keeps order, too, and errs at most by its bound.
        let back = transform.inverse().expect("in range");
        for &(forward, here, there) in &pair.packets {
            let at = back.convert(wakepath_clock::Stamp::from_ns(there)).0.ns();
            let order = if forward { here <= at } else { here >= at };
            prop_assert!(order, "{here} against {at}");
        }
    }
}

/// Loopback, 1,000 packets a second, ten seconds: each run's bound and true worst error.
fn loopback(bend: f64) -> Vec<(u64, u64)> {
    let run = |seed: u64| {
        let mut chance = Chance(seed);
        let least = (chance.between(10e3, 30e3), chance.between(10e3, 30e3));
        let traffic = Traffic { seconds: 10.0, per_second: 1000.0, least, queueing: 20e3, forward: 0.5 };
        let ppm = (chance.between(-200.0, 200.0), chance.between(-200.0, 200.0));
        let pair = pair(seed, traffic, ppm, bend);
        let (from, to) = pair.window();
        let solution = pair.solver(Limits::default()).solve(from, to);
        assert_eq!(solution.quality, Quality::Exact);
        let transform = solution.transform.expect("linked");
        let worst = pair.judge(&transform).expect("the bound holds");
        (transform.worst(from, to).ns().expect("bounded"), worst)
    };
    (0..41).map(run).collect()
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

#[test]
fn on_loopback_the_bound_is_below_50_us_and_below_ten_times_the_true_error() {
    for bend in [0.0, 1.0] {
        let runs = loopback(bend);
        let bound = median(runs.iter().map(|run| run.0 as f64).collect());
        let truth = median(runs.iter().map(|run| run.1 as f64).collect());
        let ratio = median(runs.iter().map(|run| run.0 as f64 / run.1 as f64).collect());
        let largest = runs.iter().map(|run| run.0).max().expect("runs");
        println!(
            "bend {bend} ppm/s: median bound {bound} ns, true worst {truth} ns, ratio {ratio:.2}; largest bound {largest} ns"
        );
        assert!(largest <= 50_000, "largest bound {largest} ns with a bend of {bend} ppm/s");
        assert!(ratio <= 10.0, "median ratio {ratio} with a bend of {bend} ppm/s");
    }
}
