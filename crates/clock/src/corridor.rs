//! The lines that pass between sent and received packets.
//!
//! A packet sent at x on this clock and received at y on the other bounds the line to at most y at x; a
//! packet in the other direction bounds it to at least y. All fitting lines form a corridor. The shallowest
//! and the steepest line touch both hulls, and bound all others outside their touching points (Giraldeau
//! 2015, section 5.3.1). All of this is exact: a slope is a fraction of whole ns.

use std::cmp::Ordering;

use crate::hull::{Exchange, Hull, Point};

/// A slope as a fraction; `run` is positive.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slope {
    pub rise: i64,
    pub run: i64,
}

/// The line's bounds at a time, ns; `None` if nothing bounds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub low: Option<i64>,
    pub high: Option<i64>,
}

/// The points on either side.
#[derive(Debug, Clone, Default)]
pub(crate) struct Corridor {
    /// The line is at most there.
    pub above: Vec<Point>,
    /// The line is at least there.
    pub below: Vec<Point>,
}

/// The rounding of a value between two ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// The range holds everything possible.
    Outward,
    /// The range holds nothing impossible.
    Inward,
}

impl Range {
    pub(crate) const OPEN: Self = Self { low: None, high: None };

    /// The range inside both.
    pub(crate) fn and(self, other: Self) -> Self {
        let both = |a: Option<i64>, b: Option<i64>, choose: fn(i64, i64) -> i64| match (a, b) {
            (Some(a), Some(b)) => Some(choose(a, b)),
            (one, None) | (None, one) => one,
        };
        Self { low: both(self.low, other.low, i64::max), high: both(self.high, other.high, i64::min) }
    }

    pub(crate) fn widened(self, by: i64) -> Self {
        let low = self.low.map(|low| low.saturating_sub(by));
        Self { low, high: self.high.map(|high| high.saturating_add(by)) }
    }

    pub(crate) fn is_empty(self) -> bool {
        matches!(self, Self { low: Some(low), high: Some(high) } if low > high)
    }

    pub(crate) fn middle(self) -> Option<i64> {
        let (low, high) = (self.low?, self.high?);
        Some(low + (high - low) / 2)
    }

    /// The value in the range nearest to `value`.
    pub(crate) fn nearest(self, value: i64) -> i64 {
        let value = self.low.map_or(value, |low| value.max(low));
        self.high.map_or(value, |high| value.min(high))
    }
}

impl Corridor {
    /// The corridor between forward and backward packets.
    pub(crate) fn between([mut above, mut below]: [Hull; 2]) -> Self {
        above.settle(Exchange::Forward);
        below.settle(Exchange::Backward);
        Self { above: above.corners().to_vec(), below: below.corners().to_vec() }
    }

    /// The corridor that also contains everything at most `by` ns beyond the points.
    pub(crate) fn widened(&self, by: i64) -> Self {
        let moved = |points: &[Point], by: i64| {
            points.iter().map(|p| Point { y: p.y.saturating_add(by), ..*p }).collect()
        };
        Self { above: moved(&self.above, by), below: moved(&self.below, -by) }
    }

    /// Keeps only lines that pass this range at `x`.
    pub(crate) fn pin(&mut self, x: i64, range: Range) {
        self.above.extend(range.high.map(|y| Point { x, y }));
        self.below.extend(range.low.map(|y| Point { x, y }));
    }

    /// The possible values of lines with these slopes at `from` and at `to`, which enclose all points; `None`
    /// if there is no such line.
    ///
    /// The highest value before all points is the shallowest line's: any other line passes the corner above
    /// that the shallowest touches no higher, and is steeper. The other three ends likewise.
    pub(crate) fn ends(
        &self,
        (from, to): (i64, i64),
        (least, most): (Slope, Slope),
        rounding: Rounding,
    ) -> Option<(Range, Range)> {
        let shallowest = self.extreme(least, Ordering::Less, most)?;
        let steepest = self.extreme(most, Ordering::Greater, least)?;
        let up = rounding == Rounding::Outward;
        let value = |corner: Option<Point>, slope: Slope, at: i64, up: bool| {
            corner.map(|corner| value(corner, slope, at, up))
        };
        let left = Range {
            low: value(self.lowest(steepest), steepest, from, !up),
            high: value(self.highest(shallowest), shallowest, from, up),
        };
        let right = Range {
            low: value(self.lowest(shallowest), shallowest, to, !up),
            high: value(self.highest(steepest), steepest, to, up),
        };
        Some((left, right))
    }

    /// The extreme slope of a line in the corridor, beginning at `slope`, which is a limit.
    ///
    /// Newton's method on the corridor's height at a slope, which is concave in the slope: each step goes to the slope at which the two obstructing
    /// corners let a line pass, and never beyond the extreme. Each step leaves a corner behind for good, so the end is reached exactly, in fewer
    /// steps than corners.
    fn extreme(&self, mut slope: Slope, end: Ordering, other: Slope) -> Option<Slope> {
        for _ in self.above.iter().chain(&self.below) {
            let (Some(above), Some(below)) = (self.highest(slope), self.lowest(slope)) else {
                return Some(slope);
            };
            if height(above, slope) >= height(below, slope) {
                return Some(slope);
            }
            // If the slope is steeper than possible, the corner above lies to the right of the corner below.
            if above.x.cmp(&below.x) != end {
                return None;
            }
            let (left, right) = if end.is_lt() { (above, below) } else { (below, above) };
            slope = Slope { rise: right.y - left.y, run: right.x - left.x };
            if compare(slope, other) == end.reverse() {
                return None;
            }
        }
        Some(slope)
    }

    /// The corner touched by a line with this slope, if points lie on one side only.
    pub(crate) fn touched(&self, slope: Slope) -> Option<Point> {
        self.highest(slope).or(self.lowest(slope))
    }

    /// The corner above, touched by a line with this slope.
    fn highest(&self, slope: Slope) -> Option<Point> {
        self.above.iter().copied().min_by_key(|&point| height(point, slope))
    }

    /// The corner below, touched by a line with this slope.
    fn lowest(&self, slope: Slope) -> Option<Point> {
        self.below.iter().copied().max_by_key(|&point| height(point, slope))
    }
}

/// The intersection with the axis of the line with this slope through `point`, times the slope's run. Below
/// 2^126.
fn height(point: Point, slope: Slope) -> i128 {
    i128::from(point.y) * i128::from(slope.run) - i128::from(slope.rise) * i128::from(point.x)
}

fn compare(a: Slope, b: Slope) -> Ordering {
    (i128::from(a.rise) * i128::from(b.run)).cmp(&(i128::from(b.rise) * i128::from(a.run)))
}

fn value(corner: Point, slope: Slope, at: i64, up: bool) -> i64 {
    let product = (i128::from(at) - i128::from(corner.x)) * i128::from(slope.rise);
    let run = i128::from(slope.run);
    let moved = product.div_euclid(run) + i128::from(up && product.rem_euclid(run) > 0);
    let value = i128::from(corner.y) + moved;
    value.clamp((i64::MIN / 2).into(), (i64::MAX / 2).into()) as i64
}

#[cfg(test)]
mod tests {
    use num_rational::Ratio;
    use proptest::prelude::*;

    use super::*;

    type Number = Ratio<i128>;

    fn whole(value: i64) -> Number {
        Number::from(i128::from(value))
    }

    fn number(slope: Slope) -> Number {
        Number::new(slope.rise.into(), slope.run.into())
    }

    /// The corners in the set of possible lines, as slope and offset: two limits meet there, and all others hold.
    fn corners(corridor: &Corridor, (least, most): (Slope, Slope)) -> Vec<(Number, Number)> {
        let points: Vec<Point> = corridor.above.iter().chain(&corridor.below).copied().collect();
        let through = |slope: Number, p: &Point| (slope, whole(p.y) - slope * whole(p.x));
        let mut lines: Vec<_> = points
            .iter()
            .flat_map(|p| [number(least), number(most)].map(|slope| through(slope, p)))
            .collect();
        for (i, p) in points.iter().enumerate() {
            let others = points[..i].iter().filter(|q| q.x != p.x);
            lines.extend(others.map(|q| through((whole(q.y) - whole(p.y)) / (whole(q.x) - whole(p.x)), p)));
        }
        lines.retain(|&(slope, offset)| {
            let at = |p: &Point| slope * whole(p.x) + offset;
            (number(least)..=number(most)).contains(&slope)
                && corridor.above.iter().all(|p| at(p) <= whole(p.y))
                && corridor.below.iter().all(|p| at(p) >= whole(p.y))
        });
        lines
    }

    /// The range of all possible lines at a time, by those corners.
    fn range(lines: &[(Number, Number)], corridor: &Corridor, at: i64, rounding: Rounding) -> Range {
        let values = || lines.iter().map(|&(slope, offset)| slope * whole(at) + offset);
        let (low, high) = match rounding {
            Rounding::Outward => (values().min().map(|v| v.floor()), values().max().map(|v| v.ceil())),
            Rounding::Inward => (values().min().map(|v| v.ceil()), values().max().map(|v| v.floor())),
        };
        let ns = |value: Option<Number>| value.map(|value| value.to_integer() as i64);
        Range {
            low: ns(low).filter(|_| !corridor.below.is_empty()),
            high: ns(high).filter(|_| !corridor.above.is_empty()),
        }
    }

    fn points() -> impl Strategy<Value = Vec<Point>> {
        prop::collection::vec((0..9_i64, -5..14_i64).prop_map(|(x, y)| Point { x, y }), 0..5)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_ends_of_a_corridor_are_those_of_all_lines_that_fit(
            above in points(), below in points(), lift in 0..9_i64, off in (0..5_i64, 0..5_i64),
            around in (0..3_i64, 0..30_i64), inward in any::<bool>(),
        ) {
            let above = above.into_iter().map(|p| Point { y: p.y + lift, ..p }).collect();
            let corridor = Corridor { above, below };
            let slope = |rise: i64| Slope { rise, run: 10 };
            let slopes = (slope(10 - off.0), slope(10 + off.1));
            let rounding = if inward { Rounding::Inward } else { Rounding::Outward };
            let (from, to) = (-around.0, 8 + around.1);
            let lines = corners(&corridor, slopes);
            let is_free = corridor.above.is_empty() && corridor.below.is_empty();
            let expected = (is_free || !lines.is_empty())
                .then(|| (range(&lines, &corridor, from, rounding), range(&lines, &corridor, to, rounding)));
            prop_assert_eq!(corridor.ends((from, to), slopes, rounding), expected, "{:?}", corridor);
        }
    }

    #[test]
    fn a_corridor_is_widened_on_both_sides_and_pinned_at_a_time() {
        let p = |x, y| Point { x, y };
        let mut corridor = Corridor { above: vec![p(1, 10), p(2, i64::MAX)], below: vec![p(3, -4)] };
        let wider = corridor.widened(7);
        assert_eq!(wider.above, [p(1, 17), p(2, i64::MAX)]);
        assert_eq!(wider.below, [p(3, -11)]);
        corridor.pin(5, Range { low: Some(6), high: None });
        corridor.pin(8, Range { low: None, high: Some(9) });
        assert_eq!(corridor.above, [p(1, 10), p(2, i64::MAX), p(8, 9)]);
        assert_eq!(corridor.below, [p(3, -4), p(5, 6)]);
    }

    #[test]
    fn a_range_has_a_middle_if_it_has_both_ends_and_is_empty_if_they_have_passed_each_other() {
        let range = |low, high| Range { low, high };
        for (low, high, is_empty, middle, nearest_to_5, widened) in [
            (Some(1), Some(9), false, Some(5), 5, range(Some(-1), Some(11))),
            (Some(-9), Some(4), false, Some(-3), 4, range(Some(-11), Some(6))),
            (Some(7), Some(7), false, Some(7), 7, range(Some(5), Some(9))),
            (Some(8), Some(7), true, Some(8), 7, range(Some(6), Some(9))),
            (None, Some(4), false, None, 4, range(None, Some(6))),
            (Some(6), None, false, None, 6, range(Some(4), None)),
            (None, None, false, None, 5, range(None, None)),
        ] {
            let one = range(low, high);
            assert_eq!(
                (one.is_empty(), one.middle(), one.nearest(5)),
                (is_empty, middle, nearest_to_5),
                "{one:?}"
            );
            assert_eq!(one.widened(2), widened);
            assert_eq!((one.and(Range::OPEN), Range::OPEN.and(one)), (one, one));
        }
        assert_eq!(range(Some(1), Some(9)).and(range(Some(3), Some(12))), range(Some(3), Some(9)));
        assert_eq!(range(Some(1), None).and(range(None, Some(12))), range(Some(1), Some(12)));
    }
}
