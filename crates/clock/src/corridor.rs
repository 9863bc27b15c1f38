//! The lines that pass between what was sent and what was received.
//!
//! A packet that is sent at x on this clock and received at y on the other means that the line is at most y
//! at x; a packet in the other direction means that it is at least y. All lines that fit form a corridor. The
//! shallowest and the steepest of them touch both hulls, and bound all others outside of the points where
//! they touch (Giraldeau 2015, section 5.3.1). All of this is exact: a slope is a fraction of whole ns.

use std::cmp::Ordering;

use crate::hull::{Exchange, Hull, Point};

/// A slope as a fraction; `run` is positive.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slope {
    pub rise: i64,
    pub run: i64,
}

/// The bounds of the line at one time, ns; `None` where nothing bounds it.
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

/// How a value between two ns is rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// So that the range holds all that is possible.
    Outward,
    /// So that the range holds nothing that is impossible.
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

    /// The value in the range that is nearest to this one.
    pub(crate) fn nearest(self, value: i64) -> i64 {
        let value = self.low.map_or(value, |low| value.max(low));
        self.high.map_or(value, |high| value.min(high))
    }
}

impl Corridor {
    /// The corridor that packets forward and backward leave.
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

    /// Only lines that pass this range at `x`.
    pub(crate) fn pin(&mut self, x: i64, range: Range) {
        self.above.extend(range.high.map(|y| Point { x, y }));
        self.below.extend(range.low.map(|y| Point { x, y }));
    }

    /// Where lines of these slopes can be at `from` and at `to`, which enclose all points; `None` when
    /// there is no such line.
    ///
    /// The highest value before all points is the shallowest line's: any other line passes the corner
    /// above that one touches no higher and is steeper. The other three ends likewise.
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
    /// Newton's method on the height of the corridor at a slope, which is concave in it: each step goes
    /// to the slope at which the two corners that are in the way let a line pass, and never beyond the
    /// extreme one. Slopes come from a finite set, so the end is reached exactly.
    fn extreme(&self, mut slope: Slope, end: Ordering, other: Slope) -> Option<Slope> {
        loop {
            let (Some(above), Some(below)) = (self.highest(slope), self.lowest(slope)) else {
                return Some(slope);
            };
            if height(above, slope) >= height(below, slope) {
                return Some(slope);
            }
            // A line steeper than possible has its corner above to the right of the one below.
            if above.x.cmp(&below.x) != end {
                return None;
            }
            let (left, right) = if above.x < below.x { (above, below) } else { (below, above) };
            slope = Slope { rise: right.y - left.y, run: right.x - left.x };
            if compare(slope, other) == end.reverse() {
                return None;
            }
        }
    }

    /// The corner that a line of this slope touches, where points lie on one side only.
    pub(crate) fn touched(&self, slope: Slope) -> Option<Point> {
        self.highest(slope).or(self.lowest(slope))
    }

    /// The corner above that a line of this slope touches.
    fn highest(&self, slope: Slope) -> Option<Point> {
        self.above.iter().copied().min_by_key(|&point| height(point, slope))
    }

    /// The corner below that a line of this slope touches.
    fn lowest(&self, slope: Slope) -> Option<Point> {
        self.below.iter().copied().max_by_key(|&point| height(point, slope))
    }
}

/// Where the line of this slope through `point` meets the axis, times the slope's run. Below 2^126.
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
