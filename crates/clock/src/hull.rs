//! The points that bind: convex hulls of what was sent and received.

use std::mem;

/// A packet as two stamps, in ns from an origin on each clock: less than 2^61 away from it, so that
/// every product of two differences fits 128 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Point {
    pub x: i64,
    pub y: i64,
}

/// The largest distance from the origin.
pub(crate) const REACH: i64 = 1 << 61;

/// The way of a packet between the two hosts, and so the side of every possible line on which its point lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exchange {
    /// Sent here, received there: the line passes below.
    Forward,
    /// Sent there, received here: the line passes above.
    Backward,
}

/// Points not yet looked at, at most.
const MAX_FRESH: usize = 16;
/// Corners at most. A hull of noisy delays has some tens.
const MAX_CORNERS: usize = 4096;

/// Those points of one side that a straight line can touch, collected in any order, in memory that
/// does not grow with the points.
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

    /// Takes in all of another's points.
    pub(crate) fn absorb(&mut self, other: Self, side: Exchange) {
        self.fresh.extend(other.corners);
        self.fresh.extend(other.fresh);
        self.settle(side);
    }

    /// The corners by time, once no point waits.
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
            // Among points at one time, the nearest to the line binds.
            match kept.last_mut() {
                Some(last) if last.x == point.x => {
                    // Only the very first can still be there: the loop above removed any other.
                    if side == Exchange::Backward {
                        *last = point;
                    }
                }
                _ => kept.push(point),
            }
        }
        if kept.len() > MAX_CORNERS {
            // Every other one: lines may then pass a corner by what its neighbours leave open. Only
            // made-up delays come here.
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

/// Whether the hull turns at `middle` towards the line: without that, no line touches there.
fn bends(before: Point, middle: Point, after: Point, side: Exchange) -> bool {
    let run = |a: Point, b: Point| i128::from(b.x) - i128::from(a.x);
    let rise = |a: Point, b: Point| i128::from(b.y) - i128::from(a.y);
    let turn = run(before, middle) * rise(middle, after) - rise(before, middle) * run(middle, after);
    match side {
        Exchange::Forward => turn > 0,
        Exchange::Backward => turn < 0,
    }
}
