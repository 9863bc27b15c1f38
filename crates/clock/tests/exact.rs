//! Lines and transforms against arbitrary precision.

use num_bigint::BigInt;
use num_rational::BigRational;
use proptest::prelude::*;
use wakepath_clock::{ErrorBound, Line, Local, Peer, Piece, Reference, Stamp, Transform};

const ONE: u64 = 1 << 60;

fn rational(numerator: i128) -> BigRational {
    BigRational::new(numerator.into(), BigInt::from(ONE))
}

/// slope × x + offset, unrounded.
fn value(line: &Line, x: &BigRational) -> BigRational {
    rational(line.slope().0.into()) * x + rational(line.offset().0)
}

fn whole(x: u64) -> BigRational {
    BigRational::from_integer(x.into())
}

fn rounded(value: &BigRational) -> u64 {
    let half = BigRational::new(1.into(), 2.into());
    u64::try_from((value + half).floor().to_integer()).expect("in range")
}

/// The distance, ns, rounded up.
fn apart(a: &BigRational, b: &BigRational) -> u64 {
    let difference = a - b;
    let zero = BigRational::from_integer(0.into());
    let difference = if difference < zero { -difference } else { difference };
    u64::try_from(difference.ceil().to_integer()).expect("small")
}

fn slope() -> impl Strategy<Value = u64> {
    (ONE / 10 * 9)..=(ONE / 10 * 11)
}

/// Stamps about 10^18 ns.
fn stamp() -> impl Strategy<Value = u64> {
    prop_oneof![900_000_000_000_000_000..1_100_000_000_000_000_000_u64, 0..1_u64 << 60]
}

/// A line with this slope that puts `x` near `y`, with all fraction bits in use.
fn line(slope: u64, x: u64, y: u64, fraction: u64) -> Line {
    let offset = (i128::from(y) << 60) - i128::from(slope) * i128::from(x) + i128::from(fraction % ONE);
    Line::new(slope, offset).expect("in range")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_conversion_is_the_rounded_exact_value(
        slope in slope(), x in stamp(), y in stamp(), fraction in any::<u64>(), near in -1_000_000_000_000_i64..1_000_000_000_000,
    ) {
        let line = line(slope, x, y.max(1 << 50), fraction);
        let at = x.max(1 << 45).saturating_add_signed(near);
        prop_assert_eq!(line.at(at), rounded(&value(&line, &whole(at))));
        prop_assert!(line.at(at) <= line.at(at + 1));
    }

    #[test]
    fn a_line_through_two_points_meets_the_first_and_ends_just_below_the_second(
        x in stamp(), y in stamp(), run in 1..1_u64 << 50, slope in slope(),
    ) {
        let rise = u64::try_from((u128::from(run) * u128::from(slope)) >> 60).expect("fits").max(run * 9 / 10 + 1);
        let line = Line::through((x, y), (x + run, y + rise)).expect("in range");
        prop_assert_eq!(value(&line, &whole(x)), whole(y));
        let end = value(&line, &whole(x + run));
        prop_assert!(end <= whole(y + rise));
        prop_assert!(whole(y + rise) - end < rational(run.into()));
    }

    #[test]
    fn composed_and_inverted_lines_are_exact_to_a_nanosecond_over_a_day(
        first in slope(), second in slope(), x in stamp(), y in stamp(), z in stamp(),
        fractions in any::<[u64; 2]>(), away in 0..86_400_000_000_000_u64,
    ) {
        let f = line(first, x, y.max(1 << 50), fractions[0]);
        let g = line(second, y.max(1 << 50), z.max(1 << 50), fractions[1]);
        let at = whole(x + away);
        let both = f.then(&g, x).expect("in range");
        prop_assert!(apart(&value(&both, &at), &value(&g, &value(&f, &at))) <= 1);
        let near = y.max(1 << 50);
        let back = f.inverse(near).expect("in range");
        let there = whole(near + away);
        prop_assert!(apart(&value(&f, &value(&back, &there)), &there) <= 1);
        let off = value(&f, &value(&back, &whole(near))) - whole(near);
        prop_assert!(off <= rational(0) && off > rational(-2), "rounded down by less than 2^-59 ns: {off}");
    }

    #[test]
    fn composed_and_inverted_transforms_keep_order_and_stay_within_their_errors(
        f in chain(), g in chain(), steps in prop::collection::vec(0..3_000_000_000_u64, 200),
    ) {
        let (f, g): (Transform<Local, Peer>, Transform<Peer, Reference>) = (f, g);
        let both = f.then(&g).expect("in range");
        let back = f.inverse().expect("in range");
        let mut stamps: Vec<u64> = steps.iter().map(|step| START + step).collect();
        stamps.extend(both.pieces().iter().flat_map(|piece| [piece.from, piece.to - 1]));
        stamps.sort_unstable();
        let mut last = (0, 0);
        for x in stamps {
            let stamp = Stamp::<Local>::from_ns(x);
            let (middle, first_error) = f.convert(stamp);
            let (end, _) = g.convert(middle);
            let (at, error) = both.convert(stamp);
            prop_assert!(at.ns().abs_diff(end.ns()) <= 2, "{} against {}", at.ns(), end.ns());
            // The truth between the two may be anywhere within the first error, and is then converted with
            // the error there.
            let around = first_error.ns().expect("bounded");
            for truth in [middle.minus(around), middle, middle.plus(around)] {
                let (end, off) = g.convert(truth);
                let reach = at.ns().abs_diff(end.ns()) + off.ns().expect("bounded");
                prop_assert!(reach <= error.ns().expect("bounded") + 2, "{reach} of {error:?}");
            }
            let (home, _) = back.convert(middle);
            prop_assert!(home.ns().abs_diff(x) <= 2, "{} against {x}", home.ns());
            prop_assert!(last <= (at.ns(), home.ns()));
            prop_assert_eq!(both.cursor().convert(stamp), (at, error));
            last = (at.ns(), home.ns());
        }
    }
}

/// Pieces of a few ns, which meet; all stamps are small.
fn short_pieces<F, T>() -> impl Strategy<Value = Transform<F, T>>
where
    Transform<F, T>: std::fmt::Debug,
{
    let piece = (1..8_u64, 0..3_u64, 0..9_u64);
    prop::collection::vec(piece, 1..20).prop_map(|legs| {
        let (mut x, mut y) = (10, 10);
        let pieces = legs.into_iter().map(|(run, more, error)| {
            // Not off by more than a quarter, so that no two pieces leave the range of lines.
            let to = (x + run, y + if run < 4 { run } else { run - 1 + more });
            let line = Line::through((x, y), to).expect("in range");
            let piece = Piece { from: x, to: to.0, line, error: ErrorBound::Within(error) };
            (x, y) = to;
            piece
        });
        Transform::new(pieces.collect()).expect("they meet")
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn transforms_of_pieces_of_a_few_ns_are_composed_and_inverted_too(f in short_pieces(), g in short_pieces()) {
        let (f, g): (Transform<Local, Peer>, Transform<Peer, Reference>) = (f, g);
        let end = f.pieces()[f.pieces().len() - 1].to;
        let both = f.then(&g).expect("in range");
        prop_assert_eq!((both.pieces()[0].from, both.pieces()[both.pieces().len() - 1].to), (10, end));
        let back = f.inverse().expect("in range");
        prop_assert_eq!(back.pieces()[0].from, f.convert(Stamp::from_ns(10)).0.ns());
        for x in 10..end {
            let stamp = Stamp::<Local>::from_ns(x);
            let there = f.convert(stamp).0;
            // Half a ns each, and the second line may double the first half.
            prop_assert!(both.convert(stamp).0.ns().abs_diff(g.convert(there).0.ns()) <= 2, "at {x}");
            prop_assert!(back.convert(there).0.ns().abs_diff(x) <= 2, "back at {x}");
        }
    }
}

#[test]
fn the_way_back_changes_its_line_at_the_first_stamp_behind_that_of_the_way_there() {
    let piece = |from: u64, to: u64, slope: u64, y: u64, fraction: u64, error: u64| {
        let offset = (i128::from(y) << 60) + i128::from(fraction) - i128::from(slope) * i128::from(from);
        let line = Line::new(slope, offset).expect("in range");
        Piece { from, to, line, error: ErrorBound::Within(error) }
    };
    let (steep, flat) = (ONE * 2 - ONE / 64, ONE / 2 + ONE / 64);
    for (fraction, meeting, end) in
        [(0, 304, 370), (1, 305, 371), (ONE / 1000, 305, 371), (ONE / 10 * 9, 305, 371)]
    {
        let (first, second) =
            (piece(100, 228, steep, 50, fraction, 10), piece(228, 356, flat, 304, fraction, 40));
        let forth = Transform::<Local, Peer>::new(vec![first, second]).expect("they meet");
        let back = forth.inverse().expect("in range");
        let [before, behind] = back.pieces() else { panic!("{back:?}") };
        assert_eq!((before.to, behind.from, behind.to), (meeting, meeting, end), "fraction {fraction}");
        // The error on the other clock, and a ns of rounding.
        assert_eq!((before.error, behind.error), (ErrorBound::Within(7), ErrorBound::Within(79)));
        assert!((50..end).map(|y| back.convert(Stamp::from_ns(y)).0).collect::<Vec<_>>().is_sorted());
    }
}

#[test]
fn a_transform_is_shown_by_its_pieces_and_no_stamp_is_converted_by_a_piece_that_ended() {
    let line = |from: u64, y: u64| Line::through((from, y), (from + 100, y + 110)).expect("in range");
    let pieces = [0, 1, 2].map(|i| Piece {
        from: i * 100,
        to: i * 100 + 100,
        line: line(i * 100, i * 110),
        error: ErrorBound::Within(i),
    });
    let transform = Transform::<Local, Reference>::new(pieces.to_vec()).expect("they meet");
    assert_eq!(format!("{transform:?}"), format!("{pieces:?}"));
    let mut cursor = transform.cursor();
    for ns in [0, 99, 100, 250, 299, 300, 450, 199, 200, 100, 99, 0] {
        let stamp = Stamp::from_ns(ns);
        assert_eq!(cursor.convert(stamp), transform.convert(stamp), "{ns}");
    }
}

const START: u64 = 1_000_000_000_000_000_000;

/// Pieces that meet, from [`START`] on, for three seconds and more.
fn chain<F, T>() -> impl Strategy<Value = Transform<F, T>>
where
    Transform<F, T>: std::fmt::Debug,
{
    let piece = (300_000_000..900_000_000_u64, 900..=1100_u64, 0..50_000_u64);
    prop::collection::vec(piece, 12).prop_map(|legs| {
        let (mut x, mut y) = (START, START);
        let pieces = legs.into_iter().map(|(run, permille, error)| {
            let to = (x + run, y + run * permille / 1000);
            let line = Line::through((x, y), to).expect("in range");
            let piece = Piece { from: x, to: to.0, line, error: ErrorBound::Within(error) };
            (x, y) = to;
            piece
        });
        Transform::new(pieces.collect()).expect("they meet")
    })
}

#[test]
fn pieces_that_step_back_or_leave_a_gap_are_no_transform() {
    let piece = |from: u64, to: u64, y: u64| {
        let line = Line::through((from, y), (to, y + (to - from))).expect("in range");
        Piece { from, to, line, error: ErrorBound::ZERO }
    };
    let new = |pieces: Vec<Piece>| Transform::<Local, Reference>::new(pieces).is_some();
    assert!(new(vec![piece(0, 100, 50), piece(100, 200, 150)]));
    assert!(!new(vec![piece(0, 100, 50), piece(100, 200, 148)]), "a step back");
    assert!(!new(vec![piece(0, 100, 50), piece(101, 200, 151)]), "a gap");
    assert!(!new(Vec::new()));
}

#[test]
fn the_worst_error_of_a_window_is_that_of_its_pieces() {
    let mut from = 1000;
    let pieces = [10, 30, 20].map(|error| {
        let line = Line::through((from, from), (from + 1000, from + 1000)).expect("in range");
        from += 1000;
        Piece { from: from - 1000, to: from, line, error: ErrorBound::Within(error) }
    });
    let transform = Transform::<Local, Reference>::new(pieces.to_vec()).expect("sound");
    let worst = |from: u64, to: u64| transform.worst(Stamp::from_ns(from), Stamp::from_ns(to));
    assert_eq!(worst(1000, 1500), ErrorBound::Within(10));
    assert_eq!(worst(1000, 4000), ErrorBound::Within(30));
    assert_eq!(worst(3500, 3600), ErrorBound::Within(20));
    assert_eq!(worst(3500, 4400), ErrorBound::Within(120));
}

#[test]
fn outside_of_all_pieces_the_error_grows() {
    let line = Line::through((1000, 1000), (2000, 2000)).expect("in range");
    let pieces = vec![Piece { from: 1000, to: 2000, line, error: ErrorBound::Within(10) }];
    let transform = Transform::<Local, Reference>::new(pieces).expect("sound");
    let error = |ns: u64| transform.convert(Stamp::from_ns(ns)).1;
    assert_eq!(error(1500), ErrorBound::Within(10));
    assert_eq!(error(600), ErrorBound::Within(110));
    assert_eq!(error(2400), ErrorBound::Within(110));
    assert_eq!(transform.worst(Stamp::from_ns(1500), Stamp::from_ns(2400)), ErrorBound::Within(110));
}
