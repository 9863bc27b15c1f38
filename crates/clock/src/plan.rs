//! The plan of a chain: the time that each of its lines covers.
//!
//! A long line averages over many packets; a short one follows a clock whose rate changes. Time is halved
//! repeatedly, and each part is replaced by its two halves if the sum of their errors over time is smaller.

use std::ops::Range as CellRange;

use crate::Limits;
use crate::corridor::{Corridor, Range, Rounding};
use crate::hull::{Exchange, Hull};

/// An interval on this clock in which the clock bends no more than its error.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub from: i64,
    pub to: i64,
    pub corridor: Corridor,
    /// Its cells, as a range of indices.
    pub cells: CellRange<usize>,
    level: u32,
    index: u64,
}

/// The shortest stretches, by their place in time.
#[derive(Debug)]
pub(crate) struct Cells {
    pub cells: Vec<(u64, Corridor)>,
    /// A cell lasts 2^shift ns.
    pub shift: u32,
    /// The stamp that x counts from.
    pub origin: u64,
    /// From the first packet to the last.
    pub window: (i64, i64),
    pub limits: Limits,
}

/// First the time that nothing bounds, then error × time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Cost(u128, u128);

struct Plan {
    parts: Vec<Part>,
    whole: Corridor,
    cost: Cost,
}

impl Cells {
    /// The stretches, in order and without a gap.
    pub(crate) fn plan(&self) -> Vec<Part> {
        let (Some(first), Some(last)) = (self.cells.first(), self.cells.last()) else { return Vec::new() };
        let mut level = 0;
        while level + self.shift < 63 && first.0 >> level != last.0 >> level {
            level += 1;
        }
        self.stretch(0..self.cells.len(), level, first.0 >> level).parts
    }

    /// The two halves of a part, where it has any.
    pub(crate) fn halves(&self, part: &Part) -> Option<(Part, Part)> {
        let level = part.level.checked_sub(1)?;
        let middle = part.index * 2 + 1;
        let at = self.before(part.cells.clone(), level, middle);
        let half = |index: u64, cells: CellRange<usize>| {
            let (from, to) = self.window(level, index);
            Part { from, to, corridor: self.merged(cells.clone()), cells, level, index }
        };
        let left = half(middle - 1, part.cells.start..at);
        let right = half(middle, at..part.cells.end);
        if left.from >= left.to {
            self.halves(&right)
        } else if right.from >= right.to {
            self.halves(&left)
        } else {
            Some((left, right))
        }
    }

    /// How far the truth may be from the best line, where the rate changes no faster than the limit.
    pub(crate) fn sag(&self, from: i64, to: i64) -> i64 {
        self.limits.sag(to.abs_diff(from))
    }

    fn stretch(&self, cells: CellRange<usize>, level: u32, index: u64) -> Plan {
        let (from, to) = self.window(level, index);
        if level == 0 {
            let corridor = self.merged(cells.clone());
            // A cell that contradicts itself was left out before.
            let cost = self.cost(&corridor, from, to).unwrap_or(Cost(to.abs_diff(from).into(), 0));
            let part = Part { from, to, corridor: corridor.clone(), cells, level, index };
            return Plan { parts: vec![part], whole: corridor, cost };
        }
        let middle = index * 2 + 1;
        let at = self.before(cells.clone(), level - 1, middle);
        let empty = |index: u64| {
            let (from, to) = self.window(level - 1, index);
            from >= to
        };
        if empty(middle - 1) {
            return self.stretch(cells, level - 1, middle);
        }
        if empty(middle) {
            return self.stretch(cells, level - 1, middle - 1);
        }
        let nothing = || Plan { parts: Vec::new(), whole: Corridor::default(), cost: Cost(u128::MAX, 0) };
        let half = |index: u64, cells: CellRange<usize>| {
            if cells.is_empty() { nothing() } else { self.stretch(cells, level - 1, index) }
        };
        let mut left = half(middle - 1, cells.start..at);
        let mut right = half(middle, at..cells.end);
        let whole = joined(left.whole, right.whole);
        let cost = self.cost(&whole, from, to);
        let both = Cost(left.cost.0.saturating_add(right.cost.0), left.cost.1.saturating_add(right.cost.1));
        let together = left.parts.is_empty() || right.parts.is_empty();
        if together || cost.is_some_and(|cost| cost <= both) {
            let cost = cost.unwrap_or(Cost(to.abs_diff(from).into(), 0));
            let part = Part { from, to, corridor: whole.clone(), cells, level, index };
            return Plan { parts: vec![part], whole, cost };
        }
        left.parts.append(&mut right.parts);
        Plan { parts: left.parts, whole, cost: both }
    }

    /// The cost of one line here; `None` where no line fits.
    fn cost(&self, corridor: &Corridor, from: i64, to: i64) -> Option<Cost> {
        let slopes = self.limits.slopes();
        corridor.ends((from, to), slopes, Rounding::Outward)?;
        let sag = self.sag(from, to);
        let (left, right) = corridor.widened(sag).ends((from, to), slopes, Rounding::Outward)?;
        let time = u128::from(to.abs_diff(from));
        let gap = |range: Range| Some(range.high?.saturating_sub(range.low?).unsigned_abs() / 2);
        Some(match (gap(left), gap(right)) {
            (Some(left), Some(right)) => {
                let error = left.max(right).saturating_add(sag.unsigned_abs());
                Cost(0, time.saturating_mul(error.into()))
            }
            _ => Cost(time, 0),
        })
    }

    fn before(&self, cells: CellRange<usize>, level: u32, index: u64) -> usize {
        cells.start + self.cells[cells].partition_point(|cell| cell.0 >> level < index)
    }

    fn window(&self, level: u32, index: u64) -> (i64, i64) {
        let clip = |index: u128| {
            let at = (index << (self.shift + level)) as i128 - i128::from(self.origin);
            at.clamp(self.window.0.into(), self.window.1.into()) as i64
        };
        (clip(index.into()), clip(u128::from(index) + 1))
    }

    pub(crate) fn merged(&self, cells: CellRange<usize>) -> Corridor {
        let corridors: Vec<&Corridor> = self.cells[cells].iter().map(|cell| &cell.1).collect();
        merged(&corridors)
    }
}

/// The corridor that all of these leave.
pub(crate) fn merged(corridors: &[&Corridor]) -> Corridor {
    let (mut above, mut below) = (Hull::default(), Hull::default());
    for corridor in corridors {
        corridor.above.iter().for_each(|&point| above.add(point, Exchange::Forward));
        corridor.below.iter().for_each(|&point| below.add(point, Exchange::Backward));
    }
    Corridor::between([above, below])
}

fn joined(left: Corridor, right: Corridor) -> Corridor {
    merged(&[&left, &right])
}
