//! Computes the relation of two hosts' clocks from the packets between them.

use std::collections::BTreeMap;

use crate::corridor::{Corridor, Rounding};
use crate::fit::{self, Joint};
use crate::hull::{Exchange, Hull, Point, REACH};
use crate::plan::Cells;
use crate::{ErrorBound, Limits, Line, Local, Peer, Piece, Stamp, Transform};

/// The quality of the relation between a pair's clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Quality {
    /// No packet links the clocks.
    None,
    /// Traffic went one way only: effects follow their causes, but nothing bounds the error.
    OneWay,
    /// Packets contradict each other or the [`Limits`]: the bound may not hold.
    Approximate,
    /// Packets went both ways, and every packet arrives after it was sent.
    Exact,
}

/// A [`Solver`]'s result.
#[derive(Debug, Clone)]
pub struct Solution {
    /// The quality.
    pub quality: Quality,
    /// From this host's clock to the other's; `None` if no packet links them, or no two packets agree.
    pub transform: Option<Transform<Local, Peer>>,
    /// Binding packets that arrive before they were sent: if no binding packet does, no packet does.
    pub inversions: u64,
}

impl Solution {
    const NOTHING: Self = Self { quality: Quality::None, transform: None, inversions: 0 };
}

/// A cell begins with 2^27 ns, 134 ms, …
const SHIFT: u32 = 27;
/// … and doubles when there would be more: 18 minutes.
const MAX_CELLS: usize = 8192;

/// Collects packets between two hosts, in any order and in bounded memory, and finds the conversion between
/// the two clocks.
#[derive(Debug, Clone, Default)]
pub struct Solver {
    limits: Limits,
    /// The first point on both clocks: all others count from it.
    origin: Option<(u64, u64)>,
    cells: BTreeMap<u64, [Hull; 2]>,
    /// The number of times that the cells were doubled.
    coarser: u32,
    ends: (i64, i64),
    /// The packet counts, forward and backward.
    counts: [u64; 2],
}

impl Solver {
    /// A solver for two clocks within these limits.
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Adds a packet sent here and received there.
    pub fn forward(&mut self, send: Stamp<Local>, receive: Stamp<Peer>) {
        self.add(send.ns(), receive.ns(), Exchange::Forward);
    }

    /// Adds a packet sent there and received here.
    pub fn backward(&mut self, send: Stamp<Peer>, receive: Stamp<Local>) {
        self.add(receive.ns(), send.ns(), Exchange::Backward);
    }

    /// Packets so far, forward and backward.
    pub fn counts(&self) -> [u64; 2] {
        self.counts
    }

    fn add(&mut self, x: u64, y: u64, exchange: Exchange) {
        let (x0, y0) = *self.origin.get_or_insert((x, y));
        // Farther than 73 years apart: not the same recording.
        let (Some(px), Some(py)) = (distance(x0, x), distance(y0, y)) else { return };
        let (first, last) = self.ends;
        self.ends = (first.min(px), last.max(px));
        self.counts[exchange as usize] += 1;
        let cell = self.cells.entry(x >> (SHIFT + self.coarser)).or_default();
        cell[exchange as usize].add(Point { x: px, y: py }, exchange);
        if self.cells.len() > MAX_CELLS {
            self.coarsen();
        }
    }

    fn coarsen(&mut self) {
        self.coarser += 1;
        let mut coarse: BTreeMap<u64, [Hull; 2]> = BTreeMap::new();
        for (index, [above, below]) in std::mem::take(&mut self.cells) {
            let cell = coarse.entry(index >> 1).or_default();
            cell[0].absorb(above, Exchange::Forward);
            cell[1].absorb(below, Exchange::Backward);
        }
        self.cells = coarse;
    }

    /// The binding packets, beyond which no others lie: direction, stamp here, stamp there.
    pub fn binding(&self) -> impl Iterator<Item = (Exchange, Stamp<Local>, Stamp<Peer>)> {
        let origin = self.origin.unwrap_or_default();
        self.cells
            .values()
            .flat_map(|cell| [(Exchange::Forward, &cell[0]), (Exchange::Backward, &cell[1])])
            .flat_map(move |(exchange, hull)| {
                let mut hull = hull.clone();
                hull.settle(exchange);
                let points = hull.corners().to_vec();
                points.into_iter().map(move |point| {
                    let here = origin.0.wrapping_add_signed(point.x);
                    let there = origin.1.wrapping_add_signed(point.y);
                    (exchange, Stamp::from_ns(here), Stamp::from_ns(there))
                })
            })
    }

    /// The conversion from this clock to the other, for this window and wherever there were packets.
    ///
    /// If packets contradict the rate limit, but not each other, the widest limit is taken.
    pub fn solve(&self, from: Stamp<Local>, to: Stamp<Local>) -> Solution {
        let solution = self.solve_within(self.limits, from, to);
        if solution.quality == Quality::Approximate {
            let limits = Limits { rate_ppm: Limits::MAX_WIDTH, ..self.limits };
            let wider = self.solve_within(limits, from, to);
            if wider.quality == Quality::Exact {
                return wider;
            }
        }
        solution
    }

    fn solve_within(&self, limits: Limits, from: Stamp<Local>, to: Stamp<Local>) -> Solution {
        let Some(origin) = self.origin else { return Solution::NOTHING };
        let clip =
            |ns: u64| (i128::from(ns) - i128::from(origin.0)).clamp((-REACH).into(), REACH.into()) as i64;
        let packets = (self.ends.0, self.ends.1.max(self.ends.0 + 1));
        let window = (packets.0.min(clip(from.ns())), packets.1.max(clip(to.ns())));
        let (cells, mut contradicted) = self.settled(limits, origin.0, packets);
        let one_way = self.counts.contains(&0);
        let joints = if one_way {
            let corridor = cells.merged(0..cells.cells.len());
            fit::one_way(&cells, &corridor, window).map(Vec::from)
        } else {
            let parts = cells.plan();
            let chain = fit::chain(&cells, parts, window);
            contradicted |= chain.contradicted;
            Some(chain.joints)
        };
        let Some(transform) = joints.and_then(|joints| through(&joints, origin)) else {
            return Solution { quality: Quality::Approximate, ..Solution::NOTHING };
        };
        let inversions = self.binding().filter(|&packet| inverted(packet, &transform)).count() as u64;
        Solution {
            quality: quality(one_way, contradicted, inversions),
            transform: Some(transform),
            inversions,
        }
    }

    /// The cells as corridors, without self-contradicting cells, and whether there were any.
    fn settled(&self, limits: Limits, origin: u64, window: (i64, i64)) -> (Cells, bool) {
        let mut contradicted = false;
        let slopes = limits.slopes();
        let cells = self.cells.iter().filter_map(|(&index, cell)| {
            let corridor = Corridor::between(cell.clone());
            let sound = corridor.ends(window, slopes, Rounding::Outward).is_some();
            contradicted |= !sound;
            sound.then_some((index, corridor))
        });
        let cells = cells.collect();
        (Cells { cells, shift: SHIFT + self.coarser, origin, window, limits }, contradicted)
    }
}

/// The quality of linked clocks. A contradiction nearly always shows as an inversion too, but either proves a fault: packets that no line within the
/// limits fits, or a line that some packet does not fit.
fn quality(one_way: bool, contradicted: bool, inversions: u64) -> Quality {
    match (one_way, contradicted || inversions > 0) {
        (true, _) => Quality::OneWay,
        (false, true) => Quality::Approximate,
        (false, false) => Quality::Exact,
    }
}

/// Whether a packet arrives before it was sent, once both stamps are on the other host's clock.
fn inverted(
    (exchange, here, there): (Exchange, Stamp<Local>, Stamp<Peer>),
    t: &Transform<Local, Peer>,
) -> bool {
    let (at, _) = t.convert(here);
    match exchange {
        Exchange::Forward => at > there,
        Exchange::Backward => at < there,
    }
}

/// The pieces between the joints, on the clocks' own stamps.
fn through(joints: &[Joint], origin: (u64, u64)) -> Option<Transform<Local, Peer>> {
    let place = |joint: &Joint| {
        let x = i128::from(origin.0) + i128::from(joint.x);
        let y = i128::from(origin.1) + i128::from(joint.y);
        (x, y)
    };
    let mut pieces = Vec::with_capacity(joints.len());
    for pair in joints.windows(2) {
        let ((x, y), (to_x, to_y)) = (place(&pair[0]), place(&pair[1]));
        // The other clock began later than this piece: it has no stamps before its beginning.
        let lift = (-y).max(0);
        let u = |value: i128| u64::try_from(value).ok();
        let line = Line::lifted((u(x + lift)?, u(y + lift)?), (u(to_x + lift)?, u(to_y + lift)?), lift)?;
        let error = match pair[0].error {
            // Rounding of the line's slope and of each stamp.
            Some(ns) => ErrorBound::Within(ns.saturating_add(2)),
            None => ErrorBound::Unbounded,
        };
        pieces.push(Piece { from: u(x)?, to: u(to_x)?, line, error });
    }
    Transform::new(pieces)
}

fn distance(origin: u64, stamp: u64) -> Option<i64> {
    let distance = i128::from(stamp) - i128::from(origin);
    i64::try_from(distance).ok().filter(|distance| (-REACH..=REACH).contains(distance))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_exact_only_without_a_contradiction_and_without_an_inversion() {
        for (contradicted, inversions, expected) in [
            (false, 0, Quality::Exact),
            (true, 0, Quality::Approximate),
            (false, 1, Quality::Approximate),
            (true, 1, Quality::Approximate),
        ] {
            assert_eq!(quality(false, contradicted, inversions), expected, "{contradicted} {inversions}");
            assert_eq!(quality(true, contradicted, inversions), Quality::OneWay);
        }
    }

    /// A cell's first stamp.
    fn cell(index: u64) -> u64 {
        index << SHIFT
    }

    #[test]
    fn with_more_than_8192_cells_each_lasts_twice_as_long_and_no_packet_is_lost() {
        let mut solver = Solver::new(Limits::default());
        let add = |solver: &mut Solver, index: u64| {
            solver.forward(Stamp::from_ns(cell(index)), Stamp::from_ns(cell(index) + 10));
            solver.backward(Stamp::from_ns(cell(index) - 10), Stamp::from_ns(cell(index)));
        };
        (1..8193).for_each(|index| add(&mut solver, index));
        assert_eq!((solver.cells.len(), solver.coarser), (8192, 0));
        add(&mut solver, 8193);
        assert_eq!((solver.cells.len(), solver.coarser), (4097, 1));
        assert_eq!((solver.binding().count(), solver.counts()), (2 * 8193, [8193, 8193]));
    }

    #[test]
    fn a_cell_that_no_line_passes_is_left_out_and_said() {
        let mut solver = Solver::new(Limits::default());
        let settled = |solver: &Solver| {
            let (cells, contradicted) = solver.settled(Limits::default(), 0, solver.ends);
            (cells.cells.iter().map(|cell| cell.0).collect::<Vec<_>>(), contradicted)
        };
        for index in [0, 1, 2] {
            solver.forward(Stamp::from_ns(cell(index)), Stamp::from_ns(cell(index) + 100));
            solver.backward(Stamp::from_ns(cell(index)), Stamp::from_ns(cell(index)));
        }
        assert_eq!(settled(&solver), (vec![0, 1, 2], false));
        solver.backward(Stamp::from_ns(cell(1) + 1101), Stamp::from_ns(cell(1) + 1000));
        assert_eq!(settled(&solver), (vec![0, 1, 2], false), "a slope of 1.001 is within the limit");
        solver.backward(Stamp::from_ns(cell(1) + 1102), Stamp::from_ns(cell(1) + 1000));
        assert_eq!(settled(&solver), (vec![0, 2], true));
    }
}
