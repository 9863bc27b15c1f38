//! A chain's plan: the time covered by each line.
//!
//! A long line averages over many packets; a short line follows a clock whose rate changes. Time is halved
//! repeatedly, and each part is replaced by its two halves if the sum of their errors over time is smaller.

use std::ops::Range as CellRange;

use crate::Limits;
use crate::corridor::{Corridor, Range, Rounding};
use crate::hull::{Exchange, Hull};

/// An interval on this clock in which the clock bends no more than its error.
#[derive(Debug, Clone)]
pub(crate) struct PlanPart {
    pub from: i64,
    pub to: i64,
    pub corridor: Corridor,
    /// The cells, as a range of indices.
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
    /// The stamp at x = 0.
    pub origin: u64,
    /// From the first packet to the last.
    pub window: (i64, i64),
    pub limits: Limits,
}

/// First the unbounded time, then error × time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Cost(u128, u128);

struct Plan {
    parts: Vec<PlanPart>,
    whole: Corridor,
    cost: Cost,
}

impl Cells {
    /// The stretches, in order and without a gap.
    pub(crate) fn plan(&self) -> Vec<PlanPart> {
        if self.cells.is_empty() {
            return Vec::new();
        }
        // From the whole range of stamps down to the window.
        self.stretch(0..self.cells.len(), u64::BITS - self.shift, 0).parts
    }

    /// A part's two halves, if any.
    pub(crate) fn halves(&self, part: &PlanPart) -> Option<(PlanPart, PlanPart)> {
        let level = part.level.checked_sub(1)?;
        let middle = part.index * 2 + 1;
        let at = self.before(part.cells.clone(), level, middle);
        let half = |index: u64, cells: CellRange<usize>| {
            let (from, to) = self.window(level, index);
            PlanPart { from, to, corridor: self.merged(cells.clone()), cells, level, index }
        };
        let left = half(middle - 1, part.cells.start..at);
        let right = half(middle, at..part.cells.end);
        // A packet at the window's end may lie in the first cell behind it.
        let cells = part.cells.clone();
        if left.from >= left.to {
            self.halves(&PlanPart { cells, ..right })
        } else if right.from >= right.to {
            self.halves(&PlanPart { cells, ..left })
        } else {
            Some((left, right))
        }
    }

    /// The truth's largest distance from the best line, if the rate changes no faster than the limit.
    pub(crate) fn sag(&self, from: i64, to: i64) -> i64 {
        self.limits.sag(to.abs_diff(from))
    }

    fn stretch(&self, cells: CellRange<usize>, level: u32, index: u64) -> Plan {
        let (from, to) = self.window(level, index);
        if level == 0 {
            let corridor = self.merged(cells.clone());
            // Self-contradicting cells were left out before.
            let cost = self.cost(&corridor, from, to).unwrap_or(Cost(to.abs_diff(from).into(), 0));
            let part = PlanPart { from, to, corridor: corridor.clone(), cells, level, index };
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
            let part = PlanPart { from, to, corridor: whole.clone(), cells, level, index };
            return Plan { parts: vec![part], whole, cost };
        }
        left.parts.append(&mut right.parts);
        Plan { parts: left.parts, whole, cost: both }
    }

    /// The cost of a single line here; `None` if no line fits.
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

/// The corridor left by all of these.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::hull::Point;

    /// A cell lasts 1024 ns here.
    const SHIFT: u32 = 10;
    const LASTS: i64 = 1 << SHIFT;

    /// A cell's points above and below: ns within the cell and from the line of equal rates.
    type Sides = [Vec<(i64, i64)>; 2];

    /// Cells by their index.
    fn cells(of: &[(u64, Sides)], limits: Limits) -> Cells {
        let mut ends: Option<(i64, i64)> = None;
        let cells = of.iter().map(|(index, sides)| {
            let sides = sides.each_ref().map(|side| {
                side.iter()
                    .map(|&(within, off)| {
                        let x = *index as i64 * LASTS + within;
                        let (first, last) = ends.unwrap_or((x, x));
                        ends = Some((first.min(x), last.max(x)));
                        Point { x, y: x + off }
                    })
                    .collect()
            });
            let [above, below] = sides;
            (*index, Corridor { above, below })
        });
        let cells = cells.collect();
        let (first, last) = ends.unwrap_or_default();
        Cells { cells, shift: SHIFT, origin: 0, window: (first, last.max(first + 1)), limits }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_parts_of_a_plan_and_their_halves_tile_the_window_and_its_cells(
            drawn in prop::collection::btree_map(0..40_u64, (prop_oneof![Just(0), 0..LASTS], -300..300_i64, 0..60_i64), 1..12),
            bend_ppb_per_s in prop_oneof![Just(0), Just(u32::MAX)],
        ) {
            let drawn: Vec<_> = drawn.into_iter().map(|(index, (within, off, room))| {
                (index, [vec![(within, off + room)], vec![(within, off)]])
            }).collect();
            let cells = cells(&drawn, Limits { rate_ppm: 1200, bend_ppb_per_s });
            let parts = cells.plan();
            let ends = |parts: &[PlanPart]| (parts[0].from, parts[parts.len() - 1].to);
            let halves = |part: &PlanPart| match cells.halves(part) {
                Some((left, right)) => vec![left, right],
                None => vec![part.clone()],
            };
            // Six times: down to the 64 shortest.
            let mut halved = vec![parts];
            for times in 0..6 {
                halved.push(halved[times].iter().flat_map(halves).collect());
            }
            prop_assert!(halved[6].iter().all(|part| cells.halves(part).is_none()));
            for parts in &halved {
                prop_assert_eq!(ends(parts), cells.window);
                prop_assert_eq!((parts[0].cells.start, parts[parts.len() - 1].cells.end), (0, drawn.len()));
                for pair in parts.windows(2) {
                    prop_assert_eq!((pair[0].to, pair[0].cells.end), (pair[1].from, pair[1].cells.start));
                }
                for part in parts.iter() {
                    prop_assert!(part.from < part.to);
                    for (_, corridor) in &cells.cells[part.cells.clone()] {
                        let x = corridor.above[0].x;
                        prop_assert!(part.from <= x && x <= part.to);
                    }
                    prop_assert_eq!(&part.corridor.above, &cells.merged(part.cells.clone()).above);
                }
            }
        }
    }

    #[test]
    fn a_line_costs_its_largest_error_over_its_time_or_the_time_that_nothing_bounds() {
        let straight = Limits { rate_ppm: 0, bend_ppb_per_s: 0 };
        let cost = |above: &[(i64, i64)], below: &[(i64, i64)], limits: Limits| {
            let cells = cells(&[(0, [above.to_vec(), below.to_vec()])], limits);
            cells.cost(&cells.cells[0].1, 0, 1000).map(|cost| (cost.0, cost.1))
        };
        assert_eq!(cost(&[(0, 100)], &[(0, -100)], straight), Some((0, 100 * 1000)));
        // 2 ns of sag, by which the corridor widens on either side, and once more beside it.
        let bent = Limits { bend_ppb_per_s: 1_000_000_000, ..straight };
        assert_eq!(bent.sag(1000), 2);
        assert_eq!(cost(&[(0, 100)], &[(0, -100)], bent), Some((0, 104 * 1000)));
        // A rate that is off by up to a tenth widens the far end by 100 ns on either side.
        let fast = Limits { rate_ppm: 100_000, ..straight };
        assert_eq!(cost(&[(0, 100)], &[(0, -100)], fast), Some((0, 200 * 1000)));
        assert_eq!(cost(&[(0, 100)], &[], straight), Some((1000, 0)));
        assert_eq!(cost(&[(0, -100)], &[(0, 100)], straight), None);
    }

    #[test]
    fn a_plan_is_one_line_where_that_costs_no_more_than_two() {
        let exchange = |within: i64, off: i64, room: i64| [vec![(within, off + room)], vec![(within, off)]];
        let limits = Limits { rate_ppm: 1200, bend_ppb_per_s: 0 };
        let parts = |of: &[(u64, Sides)]| -> Vec<(i64, i64)> {
            cells(of, limits).plan().iter().map(|part| (part.from, part.to)).collect()
        };
        let (first, last) = (exchange(100, 0, 10), exchange(900, 0, 10));
        assert_eq!(parts(&[(5, first.clone()), (6, last.clone())]), [(5 * LASTS + 100, 6 * LASTS + 900)]);
        // A step of 20 ns within 1824 ns is more than the rates allow.
        let stepped = exchange(900, 20, 10);
        assert_eq!(
            parts(&[(5, first.clone()), (6, stepped.clone())]),
            [(5 * LASTS + 100, 6 * LASTS), (6 * LASTS, 6 * LASTS + 900)]
        );
        // Time without packets is covered with the packets beside it, though no line fits these.
        let sparse = parts(&[(0, first), (1, stepped), (9, last)]);
        assert_eq!(sparse, [(100, 8 * LASTS), (8 * LASTS, 9 * LASTS + 900)]);
    }

    #[test]
    fn without_cells_there_is_no_plan() {
        assert!(cells(&[], Limits::default()).plan().is_empty());
    }
}
