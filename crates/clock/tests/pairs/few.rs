//! Few packets, whose answer can be worked out by hand.

use wakepath_clock::{Limits, Quality, Solution, Solver, Stamp};

/// A packet by both hosts' stamps, from a time far from either clock's origin.
enum Packet {
    /// Sent here, received there: the line is at most there.
    Forward(i64, i64),
    /// Sent there, received here: the line is at least there.
    Backward(i64, i64),
    /// Both at once, without any delay: the line passes there.
    Both(i64, i64),
    /// Both at once, with a delay of a ns each: lines that meet at a whole ns pass there.
    Near(i64, i64),
}
use Packet::{Backward, Both, Forward, Near};

/// A cell's first stamp; cells last 2^27 ns.
const HERE: u64 = 1 << 50;
const THERE: u64 = 1 << 40;
const CELL: i64 = 1 << 27;

fn solve(packets: &[Packet], limits: Limits, window: (i64, i64)) -> Solution {
    let mut solver = Solver::new(limits);
    let here = |x: i64| Stamp::from_ns(HERE.wrapping_add_signed(x));
    let there = |y: i64| Stamp::from_ns(THERE.wrapping_add_signed(y));
    for packet in packets {
        match *packet {
            Forward(x, y) => solver.forward(here(x), there(y)),
            Backward(x, y) => solver.backward(there(y), here(x)),
            Both(x, y) => {
                solver.forward(here(x), there(y));
                solver.backward(there(y), here(x));
            }
            Near(x, y) => {
                solver.forward(here(x), there(y + 1));
                solver.backward(there(y - 1), here(x));
            }
        }
    }
    solver.solve(here(window.0), here(window.1))
}

/// The other clock's stamp and the largest error, ns.
fn at(solution: &Solution, x: i64) -> (i64, Option<u64>) {
    let transform = solution.transform.as_ref().expect("linked");
    let (at, error) = transform.convert(Stamp::from_ns(HERE.wrapping_add_signed(x)));
    (at.ns() as i64 - THERE as i64, error.ns())
}

const STRAIGHT: Limits = Limits { rate_ppm: Limits::MAX_WIDTH, bend_ppb_per_s: 0 };
const STRAIGHT_USUAL: Limits = Limits { rate_ppm: 1200, bend_ppb_per_s: 0 };

#[test]
fn packets_of_one_time_bound_it_from_both_sides() {
    let solution = solve(&[Forward(0, 250), Backward(0, 150)], Limits::default(), (0, 0));
    assert_eq!((solution.quality, solution.inversions), (Quality::Exact, 0));
    // A ns of sag on either side, twice, and two ns for rounding.
    let (y, error) = at(&solution, 0);
    assert!(
        (199..=201).contains(&y) && error.is_some_and(|error| (50..=56).contains(&error)),
        "{y}, {error:?}"
    );
}

#[test]
fn a_line_passes_beside_the_packet_that_is_nearest_to_it_where_all_went_one_way() {
    let forward =
        solve(&[Forward(0, 5000), Forward(1000, 5500), Forward(2000, 9000)], Limits::default(), (0, 2000));
    assert_eq!((forward.quality, forward.inversions), (Quality::OneWay, 0));
    // The line of equal rates at the middle packet, less 2 ns.
    assert_eq!([0, 1000, 2000].map(|x| at(&forward, x)), [(4498, None), (5498, None), (6498, None)]);
    let backward =
        solve(&[Backward(0, 1000), Backward(1000, 5500), Backward(2000, 6400)], Limits::default(), (0, 2000));
    assert_eq!((backward.quality, backward.inversions), (Quality::OneWay, 0));
    assert_eq!([0, 1000, 2000].map(|x| at(&backward, x)), [(4502, None), (5502, None), (6502, None)]);
}

#[test]
fn lines_that_meet_between_two_ns_go_on_at_the_one_beside_it() {
    // 1.09 × CELL is 146297323.52.
    let meeting = 146_297_323;
    let packets =
        [Both(0, 0), Both(1000, 1090), Both(CELL + 100, meeting + 108), Both(CELL + 1100, meeting + 1188)];
    let solution = solve(&packets, STRAIGHT, (0, CELL + 1100));
    assert_eq!((solution.quality, solution.inversions), (Quality::Exact, 0));
    assert_eq!(solution.transform.as_ref().expect("linked").pieces().len(), 2);
    assert_eq!([500, CELL, CELL + 600].map(|x| at(&solution, x).0), [545, meeting, meeting + 648]);
}

#[test]
fn a_contradiction_of_less_than_a_ns_inverts_no_packet_and_is_said() {
    // A clock that is 9% fast, and a packet that makes it 16% fast for 6 ns; the line is at 6.54 ns there, rounded to 7.
    let fast = |x: i64| Both(x, x / 100 * 109);
    let within =
        [Forward(0, 0), Backward(6, 7), fast(CELL / 100 * 100 + 100), fast(CELL / 100 * 100 + 10_000)];
    let solution = solve(&within, STRAIGHT, (0, CELL + 10_000));
    assert_eq!((solution.quality, solution.inversions), (Quality::Approximate, 0), "within a cell");

    // The same at the joint of two cells, at 1.09 × 2 × CELL = 292594647.04.
    let meeting = 292_594_647;
    let (second, fourth) = (CELL / 100 * 100 + 100, CELL * 3 / 100 * 100 + 100);
    let with = |packet: Packet| {
        let later = [fourth, fourth + 100_000_000].map(|x| Near(x, x / 100 * 109));
        let packets: Vec<Packet> =
            [fast(second), fast(second + 1000), packet].into_iter().chain(later).collect();
        solve(&packets, STRAIGHT, (second, fourth + 100_000_000))
    };
    let solution = with(Backward(2 * CELL + 6, meeting + 7));
    assert_eq!((solution.quality, solution.inversions), (Quality::Approximate, 0), "between cells");
    assert_eq!(with(Backward(2 * CELL + 6, meeting + 6)).quality, Quality::Exact);
}

#[test]
fn packets_that_come_later_bound_what_was_before_them() {
    // Two cells with delays of 10 ms; then two in which clocks are known to the ns, and their rate changes by 2000 ppm between, so no line passes
    // all.
    let millis = 1_000_000;
    let slow = |x: i64| [Forward(x, x + 10 * millis), Backward(x, x - 10 * millis)];
    let (third, fourth) = (2 * CELL, 3 * CELL);
    let turn = third + (fourth - third) * 1001 / 1000;
    let mut packets: Vec<Packet> = [1000, CELL + 1000].into_iter().flat_map(slow).collect();
    packets.extend([0, 50_000_000, 100_000_000].map(|x| Near(third + x, third + x / 1000 * 1001)));
    packets.extend([1, 50_000_000, 100_000_000].map(|x| Near(fourth + x, turn + x / 1000 * 999)));
    let solution = solve(&packets, STRAIGHT_USUAL, (0, fourth + 100_000_000));
    assert_eq!((solution.quality, solution.inversions), (Quality::Exact, 0));
    let (y, error) = at(&solution, 1000);
    // 268 ms at 1200 ppm either way.
    let reach = (third - 1000) as u64 * 1200 / 1_000_000;
    let error = error.expect("both ways");
    assert!(error >= reach && error <= reach + 10, "{error} ns, {reach} by the rates");
    assert!(y.unsigned_abs() <= 10_000, "{y}");
}

#[test]
fn the_rate_behind_the_last_packet_is_that_of_as_many_lines_as_bound_it_best() {
    // Four seconds of exchanges with 2 ms, then two exchanges with 20 µs: these have a line of their own, which bounds their time best and their
    // rate not at all.
    let second = 1_000_000_000;
    let exchange = |x: i64, half: i64| [Forward(x, x + half), Backward(x, x - half)];
    let packets = |from: i64| -> Vec<Packet> {
        let early =
            (0..40).map(|i| i * 100_000_000).filter(|&x| x >= from).flat_map(|x| exchange(x, 1_000_000));
        early.chain(exchange(4 * second, 10_000)).chain(exchange(4 * second + 1000, 10_000)).collect()
    };
    let limits = Limits::default();
    let error =
        |from: i64| at(&solve(&packets(from), limits, (from, 8 * second)), 8 * second).1.expect("both ways");
    let (all, alone) = (error(0), error(4 * second));
    println!("{all} ns with all packets, {alone} ns with the last ones alone");
    assert!(all < alone / 2);
}
