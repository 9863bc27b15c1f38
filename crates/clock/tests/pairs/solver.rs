//! The solver with few, many, distant or wrong packets.

use wakepath_clock::{ErrorBound, Limits, Local, Peer, Quality, Solver, Stamp};
use wakepath_drift::{Chance, TrueClock};

use crate::pair::{Pair, Traffic};

const LOOPBACK: Traffic =
    Traffic { seconds: 10.0, per_second: 200.0, least: (20e3, 20e3), queueing: 20e3, forward: 0.5 };

fn pair(ppm: f64, bend: f64, traffic: Traffic) -> Pair {
    let mut chance = Chance(7);
    let seconds = traffic.seconds + 2.0;
    let here = TrueClock::new(1_700_000_000_000_000_000, 0.0, 0.0, seconds, &mut chance);
    let there = TrueClock::new(86_400_000_000_000, ppm, bend, seconds, &mut chance);
    Pair::new(here, there, traffic, &mut chance)
}

fn here(ns: u64) -> Stamp<Local> {
    Stamp::from_ns(ns)
}

fn there(ns: u64) -> Stamp<Peer> {
    Stamp::from_ns(ns)
}

#[test]
fn one_exchange_bounds_the_time_around_it() {
    let mut solver = Solver::new(Limits::default());
    solver.forward(here(1_000_000), there(5_000_000));
    solver.backward(there(5_010_000), here(1_050_000));
    let solution = solver.solve(here(1_000_000), here(1_050_000));
    let transform = solution.transform.expect("linked");
    // 50 us there and back, 10 us of them on the other host: 20 us one way, either way.
    let (at, error) = transform.convert(here(1_000_000));
    let ErrorBound::Within(error) = error else { panic!("both ways") };
    assert!(error.abs_diff(20_000) < 200, "{error}");
    assert!(at.ns().abs_diff(4_980_000) < 200, "{at:?}");
}

#[test]
fn a_packet_that_arrives_before_it_was_sent_is_said() {
    let pair = pair(30.0, 0.0, LOOPBACK);
    let mut solver = pair.solver(Limits::default());
    let (_, x, y) = pair.packets[500];
    // A match that is wrong by half a second, either way.
    solver.forward(here(x), there(y - 500_000_000));
    solver.backward(there(y + 500_000_000), here(x));
    let (from, to) = pair.window();
    let solution = solver.solve(from, to);
    assert_eq!(solution.quality, Quality::Approximate);
    assert!(solution.inversions > 0);
    // The other packets still give the right answer.
    let transform = solution.transform.expect("linked");
    pair.judge(&transform).expect("the bound holds");
    assert!(transform.worst(from, to) < ErrorBound::Within(100_000));
}

#[test]
fn clocks_that_differ_by_more_than_usual_are_still_solved() {
    pair(9_000.0, 0.0, LOOPBACK).solve_exactly();
}

#[test]
fn clocks_that_differ_by_more_than_a_tenth_are_not_taken_for_exact() {
    assert_eq!(pair(150_000.0, 0.0, LOOPBACK).solve().quality, Quality::Approximate);
}

#[test]
fn without_a_bend_one_line_is_taken_where_one_holds_and_several_where_none_does() {
    let straight = Limits { bend_ppb_per_s: 0, ..Limits::default() };
    let even = pair(100.0, 0.0, LOOPBACK);
    let (from, to) = even.window();
    let solution = even.solver(straight).solve(from, to);
    // Before the first packet and behind the last, the same line goes on as a separate piece.
    assert!(solution.transform.expect("linked").pieces().len() <= 3);

    let bent = pair(100.0, 1.0, Traffic { seconds: 60.0, ..LOOPBACK });
    let (from, to) = bent.window();
    let solution = bent.solver(straight).solve(from, to);
    assert_eq!((solution.quality, solution.inversions), (Quality::Exact, 0));
    let transform = solution.transform.expect("linked");
    assert!(transform.pieces().len() > 3, "{} pieces", transform.pieces().len());
    assert_eq!(bent.inversions(&transform), 0);
}

#[test]
fn no_later_stamp_becomes_an_earlier_one_where_pieces_meet() {
    let pair = pair(-150.0, 1.0, Traffic { seconds: 60.0, ..LOOPBACK });
    let transform = pair.solve().transform.expect("linked");
    assert!(transform.pieces().len() > 3);
    for piece in transform.pieces() {
        let around = (piece.from.saturating_sub(50)..piece.from + 50).map(|ns| transform.convert(here(ns)).0);
        assert!(around.collect::<Vec<_>>().is_sorted());
    }
}

#[test]
fn a_chain_passes_where_delays_leave_little_room() {
    for seed in 0..8 {
        let mut chance = Chance(seed);
        let delays = Traffic { least: (400.0, 300.0), queueing: 400.0, ..LOOPBACK };
        let traffic = Traffic { seconds: 30.0, per_second: 300.0, ..delays };
        let here = TrueClock::new(1 << 60, 0.0, 0.0, 32.0, &mut chance);
        let there = TrueClock::new(1 << 50, 40.0, 1.0, 32.0, &mut chance);
        let pair = Pair::new(here, there, traffic, &mut chance);
        let (from, to) = pair.window();
        println!("seed {seed}");
        let worst = pair.solve_exactly().worst(from, to);
        assert!(worst < ErrorBound::Within(3_000), "{worst:?}");
    }
}

#[test]
fn the_error_grows_away_from_packets_and_still_holds() {
    let mut pair = pair(80.0, 1.0, Traffic { seconds: 40.0, ..LOOPBACK });
    let start = pair.here.at(0.0);
    // Packets in the seconds from 10 to 15 and from 30 to 32.
    let second = 1_000_000_000;
    pair.packets.retain(|packet| {
        let at = packet.1 - start;
        (10 * second..15 * second).contains(&at) || (30 * second..32 * second).contains(&at)
    });
    let transform = pair.solve().transform.expect("linked");
    pair.judge(&transform).expect("the bound holds");
    let error = |seconds: u64| transform.convert(here(start + seconds * second)).1;
    assert!(error(12) < error(1) && error(12) < error(39), "{transform:?}");
    assert!(error(1) < ErrorBound::Within(2_000_000), "{:?}", error(1));
}

#[test]
fn hours_are_kept_in_bounded_cells() {
    let traffic = Traffic { seconds: 7200.0, per_second: 12.0, least: (50e3, 70e3), ..LOOPBACK };
    let pair = pair(-60.0, 0.005, traffic);
    let (from, to) = pair.window();
    let worst = pair.solve_exactly().worst(from, to);
    assert!(worst < ErrorBound::Within(300_000), "{worst:?}");
}

#[test]
fn packets_may_come_in_any_order() {
    let mut pair = pair(80.0, 1.0, LOOPBACK);
    let (from, to) = pair.window();
    let solve = |pair: &Pair| pair.solve().transform.expect("linked");
    pair.packets.sort_unstable();
    let sorted = solve(&pair);
    pair.packets.reverse();
    let reversed = solve(&pair);
    // Another packet is the first, and all others count from it.
    for ns in (from.ns()..to.ns()).step_by(10_000_000) {
        let (a, b) = (sorted.convert(here(ns)).0.ns(), reversed.convert(here(ns)).0.ns());
        assert!(a.abs_diff(b) <= 2, "{a} against {b}");
    }
}

#[test]
fn stamps_of_any_size_are_taken() {
    let mut solver = Solver::new(Limits::default());
    for (x, y) in [(0, u64::MAX), (u64::MAX, 0), (u64::MAX, u64::MAX), (1, 1), (5, u64::MAX / 2)] {
        solver.forward(here(x), there(y));
        solver.backward(there(y), here(x));
    }
    let solution = solver.solve(Stamp::MIN, Stamp::MAX);
    assert_ne!(solution.quality, Quality::Exact);
    let nothing = Solver::new(Limits::default()).solve(Stamp::MIN, Stamp::MAX);
    assert_eq!(nothing.quality, Quality::None);
    assert!(nothing.transform.is_none());
}

#[test]
fn a_clock_that_began_later_has_no_stamps_before_its_origin() {
    let mut solver = Solver::new(Limits::default());
    let second = 1_000_000_000;
    solver.forward(here(20 * second), there(second));
    solver.backward(there(second + 10_000), here(20 * second + 50_000));
    let transform = solver.solve(here(0), here(30 * second)).transform.expect("linked");
    assert_eq!(transform.convert(here(0)).0, Stamp::MIN);
    assert!(transform.convert(here(25 * second)).0 > there(5 * second));
}

#[test]
fn a_clock_that_steps_is_not_taken_for_exact() {
    let mut pair = pair(20.0, 0.0, LOOPBACK);
    let half = pair.here.at(5e9);
    // Half-way the other host is suspended for a second: its monotonic clock stands still.
    for packet in &mut pair.packets {
        if packet.1 < half {
            packet.2 += 1_000_000_000;
        }
    }
    let solution = pair.solve();
    assert_eq!(solution.quality, Quality::Approximate);
    assert!(solution.inversions > 0);
}
