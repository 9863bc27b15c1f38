//! The binding points: convex hulls of sent and received packets.

use std::mem;

/// A packet as two stamps, in ns from an origin on each clock: less than 2^61 away from it, so that every
/// product of two differences fits 128 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Point {
    pub x: i64,
    pub y: i64,
}

/// The largest distance from the origin.
pub(crate) const REACH: i64 = 1 << 61;

/// A packet's direction between the two hosts, and so the side of every possible line on which its point
/// lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exchange {
    /// Sent here, received there: the line passes below the point.
    Forward,
    /// Sent there, received here: the line passes above the point.
    Backward,
}

/// The maximum number of unsorted points.
const MAX_FRESH: usize = 16;
/// The maximum number of corners. A hull of noisy delays has some tens.
const MAX_CORNERS: usize = 4096;

/// The points on a side that a straight line can touch, collected in any order, in memory that does not grow
/// with the points.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hull {
    corners: Vec<Point>,
    fresh: Vec<Point>,
}

impl Hull {
    pub(crate) fn add(&mut self, point: Point, side: Exchange) {
        self.fresh.push(point);
        if self.fresh.len() >= MAX_FRESH {
            self.settle(side);
        }
    }

    /// Adds all points of another hull.
    pub(crate) fn absorb(&mut self, other: Self, side: Exchange) {
        self.fresh.extend(other.corners);
        self.fresh.extend(other.fresh);
        self.settle(side);
    }

    /// Sorts the fresh points in, so that the corners are complete and in time order.
    pub(crate) fn settle(&mut self, side: Exchange) {
        if self.fresh.is_empty() {
            return;
        }
        let mut all = mem::take(&mut self.corners);
        all.append(&mut self.fresh);
        self.fresh.shrink_to(MAX_FRESH);
        all.sort_unstable();
        let mut kept: Vec<Point> = Vec::new();
        for point in all {
            while kept.len() >= 2 && !bends(kept[kept.len() - 2], kept[kept.len() - 1], point, side) {
                kept.pop();
            }
            // Among points at the same time, the nearest to the line binds.
            match kept.last_mut() {
                Some(last) if last.x == point.x => {
                    // Only the very first point can still be there: the loop above removed any other.
                    if side == Exchange::Backward {
                        *last = point;
                    }
                }
                _ => kept.push(point),
            }
        }
        if kept.len() > MAX_CORNERS {
            // Every other corner: lines may then pass a dropped corner by the room between its neighbours.
            // Only made-up delays come here.
            let mut index = 0;
            kept.retain(|_| {
                index += 1;
                index % 2 == 1
            });
        }
        kept.shrink_to_fit();
        self.corners = kept;
    }

    /// The corners; [`Hull::settle`] comes first.
    pub(crate) fn corners(&self) -> &[Point] {
        debug_assert!(self.fresh.is_empty(), "a hull is asked before it is settled");
        &self.corners
    }
}

/// Whether the hull turns at `middle` towards the line: otherwise no line touches it there.
fn bends(before: Point, middle: Point, after: Point, side: Exchange) -> bool {
    let run = |a: Point, b: Point| i128::from(b.x) - i128::from(a.x);
    let rise = |a: Point, b: Point| i128::from(b.y) - i128::from(a.y);
    let turn = run(before, middle) * rise(middle, after) - rise(before, middle) * run(middle, after);
    match side {
        Exchange::Forward => turn > 0,
        Exchange::Backward => turn < 0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIDES: [Exchange; 2] = [Exchange::Forward, Exchange::Backward];

    /// By brute force: the points nearer to the line than any other point and any straight line between two others.
    fn corners(points: &[Point], side: Exchange) -> Vec<Point> {
        let height = |p: &Point| i128::from(if side == Exchange::Forward { p.y } else { -p.y });
        let binds = |p: &Point| {
            let nearer = points.iter().any(|q| q.x == p.x && height(q) < height(p));
            let between = points.iter().filter(|q| q.x < p.x).any(|q| {
                points.iter().filter(|r| r.x > p.x).any(|r| {
                    let run = i128::from(r.x - q.x);
                    run * (height(p) - height(q)) >= (height(r) - height(q)) * i128::from(p.x - q.x)
                })
            });
            !nearer && !between
        };
        let mut corners: Vec<Point> = points.iter().copied().filter(binds).collect();
        corners.sort_unstable();
        corners.dedup();
        corners
    }

    fn hull(points: &[Point], side: Exchange) -> Hull {
        let mut hull = Hull::default();
        points.iter().for_each(|&point| hull.add(point, side));
        hull
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_hull_keeps_the_corners_in_any_order_and_when_it_takes_in_another_one(
            points in prop::collection::vec((0..8_i64, -6..6_i64), 1..40), at in 0..40_usize,
        ) {
            let points: Vec<Point> = points.into_iter().map(|(x, y)| Point { x, y }).collect();
            for side in SIDES {
                let expected = corners(&points, side);
                let mut whole = hull(&points, side);
                whole.settle(side);
                prop_assert_eq!(whole.corners(), &expected[..], "{:?} of {:?}", side, points);
                let (some, others) = points.split_at(at.min(points.len()));
                let mut joined = hull(some, side);
                joined.absorb(hull(others, side), side);
                prop_assert_eq!(joined.corners(), &expected[..], "{:?} of {:?}", side, points);
            }
        }
    }

    #[test]
    fn fifteen_points_wait_and_the_sixteenth_settles_all() {
        let mut hull = Hull::default();
        let mut waiting = Vec::new();
        for x in 0..17 {
            hull.add(Point { x, y: x * x }, Exchange::Forward);
            waiting.push(hull.fresh.len());
        }
        assert_eq!(waiting[..15], (1..16).collect::<Vec<_>>());
        assert_eq!(waiting[15..], [0, 1]);
    }

    #[test]
    fn beyond_4096_corners_every_other_one_is_kept() {
        let bow = |count: i64| -> Vec<Point> { (0..count).map(|x| Point { x, y: x * x }).collect() };
        let kept = |count: i64| {
            let mut hull = hull(&bow(count), Exchange::Forward);
            hull.settle(Exchange::Forward);
            hull.corners().to_vec()
        };
        assert_eq!(kept(4096), bow(4096));
        let expected: Vec<Point> = bow(4097).into_iter().step_by(2).collect();
        assert_eq!(kept(4097), expected);
    }
}
