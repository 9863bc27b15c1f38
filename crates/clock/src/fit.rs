//! A chain of lines through the corridors, and its largest distance from the truth.
//!
//! The chain orders events by cause and effect: it passes every packet on the right side, and its lines meet.
//! A forward pass finds a chain's possible values at each joint; a backward pass takes the value nearest to
//! the middle of the possible truth.
//!
//! The true relation between two clocks is no line, because its rate changes. Within a time T it lies within
//! `sag` = bend × T² / 16 of some line (the error of the best straight approximation to a curve with a
//! bounded second derivative), and that line passes the corridor widened by `sag`. So the truth lies between
//! the extreme lines of the widened corridor, or at most `sag` outside. The highest values of these lines
//! form a convex curve, so a straight chain has its largest distance from it at a joint.

use crate::corridor::{Corridor, Range, Rounding, Slope};
use crate::plan::{Cells, PlanPart, merged};

/// A joint in the chain.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Joint {
    pub x: i64,
    pub y: i64,
    /// The largest distance between the truth and the line that begins here; without meaning at the last
    /// joint.
    pub error: Option<u64>,
}

pub(crate) struct Chain {
    pub joints: Vec<Joint>,
    /// Some packets contradict the others, or the limits.
    pub contradicted: bool,
}

/// The chain for a window with all packets.
pub(crate) fn chain(cells: &Cells, mut parts: Vec<PlanPart>, window: (i64, i64)) -> Chain {
    let (reach, contradicted) = reachable(cells, &mut parts);
    let truth = bounds(cells, &parts);
    let slopes = cells.limits.slopes();

    let mut y = vec![0; truth.len()];
    for i in (0..truth.len()).rev() {
        let mut range = reach[i];
        if let Some(part) = parts.get(i) {
            let mut corridor = part.corridor.clone();
            corridor.pin(part.from, reach[i]);
            corridor.pin(part.to, exactly(y[i + 1]));
            if let Some((left, _)) = corridor.ends((part.from, part.to), slopes, Rounding::Inward) {
                range = left;
            }
        }
        y[i] = range.nearest(truth[i].middle().or(range.middle()).or(range.low).or(range.high).unwrap_or(0));
    }

    let mut joints: Vec<Joint> = Vec::with_capacity(parts.len() + 3);
    for (i, part) in parts.iter().enumerate() {
        let ends = truth_at_ends(cells, part, truth[i], truth[i + 1]);
        let error = ends.and_then(|(left, right)| Some(off(left, y[i])?.max(off(right, y[i + 1])?)));
        joints.push(Joint { x: part.from, y: y[i], error });
    }
    if let Some(last) = parts.last() {
        joints.push(Joint { x: last.to, y: y[parts.len()], error: None });
    }
    prolong(cells, &parts, &truth, window, &mut joints);
    Chain { joints, contradicted }
}

/// For each joint, the values from which a chain reaches back to the first part. If there are none, this part
/// or the previous part is halved; a cell that still contradicts the others is skipped.
fn reachable(cells: &Cells, parts: &mut Vec<PlanPart>) -> (Vec<Range>, bool) {
    let slopes = cells.limits.slopes();
    let mut reach = vec![Range::OPEN];
    let mut contradicted = false;
    while reach.len() <= parts.len() {
        let i = reach.len() - 1;
        let part = &parts[i];
        let mut corridor = part.corridor.clone();
        corridor.pin(part.from, reach[i]);
        let ends = corridor.ends((part.from, part.to), slopes, Rounding::Inward);
        if let Some((_, right)) = ends {
            // If less than a ns is left, the value beside it is taken.
            reach.push(if right.is_empty() { Range { low: right.high, ..right } } else { right });
        } else if let Some((left, right)) = cells.halves(part) {
            parts.splice(i..=i, [left, right]);
        } else if let Some(before) = i.checked_sub(1)
            && let Some((left, right)) = cells.halves(&parts[before])
        {
            parts.splice(before..=before, [left, right]);
            reach.pop();
        } else {
            contradicted = true;
            parts[i].corridor = Corridor::default();
        }
    }
    (reach, contradicted)
}

/// The bounds of the truth at each joint, by all packets before and after it. A chain passes all of these parts, and its values lie within the
/// bounds.
fn bounds(cells: &Cells, parts: &[PlanPart]) -> Vec<Range> {
    let mut truth = vec![Range::OPEN];
    for (i, part) in parts.iter().enumerate() {
        let ends = truth_at_ends(cells, part, truth[i], Range::OPEN);
        truth.push(ends.map_or(Range::OPEN, |(_, right)| right));
    }
    for (i, part) in parts.iter().enumerate().rev() {
        let ends = truth_at_ends(cells, part, truth[i], truth[i + 1]);
        truth[i] = truth[i].and(ends.map_or(Range::OPEN, |(left, _)| left));
    }
    truth
}

fn truth_at_ends(cells: &Cells, part: &PlanPart, left: Range, right: Range) -> Option<(Range, Range)> {
    let mut corridor = part.corridor.clone();
    corridor.pin(part.from, left);
    corridor.pin(part.to, right);
    within(cells, &corridor, part.from, part.to)
}

/// The bounds of the truth at the two ends of a time with these points.
fn within(cells: &Cells, corridor: &Corridor, from: i64, to: i64) -> Option<(Range, Range)> {
    let sag = cells.sag(from, to);
    let widened = corridor.widened(sag);
    let (left, right) = widened.ends((from, to), cells.limits.slopes(), Rounding::Outward)?;
    Some((left.widened(sag), right.widened(sag)))
}

/// Adds the time before the first packet and behind the last.
fn prolong(cells: &Cells, parts: &[PlanPart], truth: &[Range], window: (i64, i64), joints: &mut Vec<Joint>) {
    let (Some(&first), Some(&last)) = (joints.first(), joints.last()) else { return };
    if window.1 > last.x {
        let (y, error) = beyond(cells, parts, truth, last, window.1, true);
        if let Some(joint) = joints.last_mut() {
            joint.error = error;
        }
        joints.push(Joint { x: window.1, y, error: None });
    }
    if window.0 < first.x {
        let (y, error) = beyond(cells, parts, truth, first, window.0, false);
        joints.insert(0, Joint { x: window.0, y, error });
    }
}

/// The value at a time before all packets or after them, and the truth's largest distance from the line to there. The slope comes from the best
/// bounding number of adjacent parts: 1, 2, 4, …, all.
fn beyond(
    cells: &Cells,
    parts: &[PlanPart],
    truth: &[Range],
    end: Joint,
    at: i64,
    after: bool,
) -> (i64, Option<u64>) {
    let counts =
        (0..=parts.len().next_power_of_two().ilog2()).map(|doublings| parts.len().min(1 << doublings));
    let found = counts.filter_map(|count| {
        let among = if after { parts.len() - count..parts.len() } else { 0..count };
        by_parts(cells, parts, truth, among, (end.x, at), after)
    });
    let width = |range: Range| Some(range.high?.saturating_sub(range.low?));
    let best = found.min_by_key(|&(_, there)| width(there).unwrap_or(i64::MAX));
    let mut corridor = Corridor::default();
    corridor.pin(end.x, exactly(end.y));
    let (from, to) = (end.x.min(at), end.x.max(at));
    let ends = corridor.ends((from, to), cells.limits.slopes(), Rounding::Inward);
    let possible = ends.map_or(Range::OPEN, |(left, right)| if after { right } else { left });
    let middle = best.and_then(|(_, there)| there.middle());
    let y = possible.nearest(middle.or(possible.middle()).unwrap_or(end.y));
    let error = best.and_then(|(near, there)| Some(off(near, end.y)?.max(off(there, y)?)));
    (y, error)
}

/// The truth's bounds by these parts and their joints: at the end of all packets and at a time beyond it.
fn by_parts(
    cells: &Cells,
    parts: &[PlanPart],
    truth: &[Range],
    among: std::ops::Range<usize>,
    (end, at): (i64, i64),
    after: bool,
) -> Option<(Range, Range)> {
    let corridors: Vec<&Corridor> = parts[among.clone()].iter().map(|part| &part.corridor).collect();
    let mut corridor = merged(&corridors);
    for joint in among.start..=among.end {
        let x = parts.get(joint).map_or_else(|| parts[joint - 1].to, |part| part.from);
        corridor.pin(x, truth[joint]);
    }
    let far = if after { parts[among.start].from } else { parts[among.end - 1].to };
    let (left, right) = within(cells, &corridor, far.min(at), far.max(at))?;
    let (near, there) = if after { (left, right) } else { (right, left) };
    let chord = Range {
        low: chord((far, near.low), (at, there.low), end, false),
        high: chord((far, near.high), (at, there.high), end, true),
    };
    Some((chord, there))
}

/// The straight line between two values, at a time between them: a convex bound lies below it.
fn chord(a: (i64, Option<i64>), b: (i64, Option<i64>), at: i64, up: bool) -> Option<i64> {
    let (ya, yb) = (i128::from(a.1?), i128::from(b.1?));
    let run = i128::from(b.0) - i128::from(a.0);
    if run == 0 {
        return a.1;
    }
    let product = (i128::from(at) - i128::from(a.0)) * (yb - ya) * run.signum();
    let run = run.abs();
    let value = ya + product.div_euclid(run) + i128::from(up && product.rem_euclid(run) > 0);
    i64::try_from(value).ok()
}

fn exactly(y: i64) -> Range {
    Range { low: Some(y), high: Some(y) }
}

/// The distance to the range's farthest value.
fn off(range: Range, y: i64) -> Option<u64> {
    Some(range.high?.saturating_sub(y).unsigned_abs().max(y.saturating_sub(range.low?).unsigned_abs()))
}

/// A line that passes all packets, which went one way, and is nearest to the packets in the middle of the
/// window.
pub(crate) fn one_way(cells: &Cells, corridor: &Corridor, window: (i64, i64)) -> Option<[Joint; 2]> {
    let points = if corridor.above.is_empty() { &corridor.below } else { &corridor.above };
    let middle = cells.window.0.midpoint(cells.window.1);
    let nearest = *points.iter().min_by_key(|point| point.x.abs_diff(middle))?;
    let (from, to) = (window.0.min(cells.window.0), window.1.max(cells.window.1));
    // Within the slope limits, the nearest packet may be out of reach; the corner of equal rates never is.
    let corners = [nearest, corridor.touched(Slope { rise: 1, run: 1 })?];
    let (left, right) = corners.into_iter().find_map(|corner| {
        let mut only = corridor.clone();
        only.pin(corner.x, exactly(corner.y));
        only.ends((from, to), cells.limits.slopes(), Rounding::Outward)
    })?;
    // Beside the corner, so that rounding does not touch its wrong side.
    let aside = if corridor.above.is_empty() { 2 } else { -2 };
    let left_y = left.middle().or(left.low).or(left.high)? + aside;
    let right_y = right.middle().or(right.low).or(right.high)? + aside;
    Some([Joint { x: from, y: left_y, error: None }, Joint { x: to, y: right_y, error: None }])
}

#[cfg(test)]
mod tests {
    use num_rational::Ratio;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_chord_is_the_straight_line_rounded_to_the_asked_side(
            a in (-20..20_i64, -50..50_i64), b in (-20..20_i64, -50..50_i64), at in -20..20_i64, up in any::<bool>(),
        ) {
            prop_assume!(a.0 != b.0);
            let number = |value: i64| Ratio::from(i128::from(value));
            let value = number(a.1) + number(at - a.0) * number(b.1 - a.1) / number(b.0 - a.0);
            let expected = if up { value.ceil() } else { value.floor() }.to_integer() as i64;
            prop_assert_eq!(chord((a.0, Some(a.1)), (b.0, Some(b.1)), at, up), Some(expected));
        }
    }

    #[test]
    fn a_chord_without_an_end_is_none_and_between_equal_times_it_is_the_value() {
        assert_eq!(chord((0, None), (10, Some(3)), 5, true), None);
        assert_eq!(chord((0, Some(3)), (10, None), 5, true), None);
        assert_eq!(chord((7, Some(3)), (7, Some(4)), 7, true), Some(3));
    }

    #[test]
    fn the_farthest_value_of_a_range_counts() {
        let range = |low, high| Range { low, high };
        assert_eq!(off(range(Some(-5), Some(3)), 0), Some(5));
        assert_eq!(off(range(Some(-5), Some(8)), 0), Some(8));
        assert_eq!(off(range(Some(10), Some(20)), 3), Some(17));
        assert_eq!((off(range(None, Some(3)), 0), off(range(Some(3), None), 0)), (None, None));
    }
}
