//! Overlapping slices, spread over lanes in which they nest: a Perfetto track has no others.

use wakepath_clock::{Reference, Stamp};

/// More lanes, and deeper slices, could not be seen.
const MAX_LANES: usize = 64;
const MAX_DEPTH: usize = 64;

/// The beginning or the end of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge<K> {
    /// The time.
    pub at: Stamp<Reference>,
    /// The slice that begins; `None` if the innermost slice ends.
    pub begins: Option<K>,
}

struct Lane<K> {
    edges: Vec<Edge<K>>,
    /// The open slices, outermost first, with their ends.
    open: Vec<(K, Stamp<Reference>)>,
}

impl<K: Copy + PartialEq> Lane<K> {
    /// Ends the slices that end by then; a slice without length at that time stays for the slices in it.
    fn close(&mut self, until: Stamp<Reference>) {
        while let Some((_, end)) = self.open.pop_if(|(_, end)| *end <= until) {
            self.edges.push(Edge { at: end, begins: None });
        }
    }
}

/// Slices in lanes.
pub struct Lanes<K> {
    lanes: Vec<Lane<K>>,
    /// The number of slices without room.
    pub left_out: u64,
}

impl<K> Default for Lanes<K> {
    fn default() -> Self {
        Self { lanes: Vec::new(), left_out: 0 }
    }
}

impl<K: Copy + PartialEq> Lanes<K> {
    /// Adds a slice. Slices come in time order, longer slices first among equal beginnings. A slice gets into its
    /// parent's lane if it lies within the parent and nothing else is there; else into a free lane.
    pub fn add(&mut self, slice: K, above: Option<K>, (from, to): (Stamp<Reference>, Stamp<Reference>)) {
        for lane in &mut self.lanes {
            lane.close(from);
        }
        let is_below = |lane: &Lane<K>| {
            let last = lane.open.last();
            let is_below = last.is_some_and(|(last, end)| Some(*last) == above && to <= *end);
            is_below && lane.open.len() < MAX_DEPTH
        };
        let mut found = self.lanes.iter().position(is_below);
        found = found.or_else(|| self.lanes.iter().position(|lane| lane.open.is_empty()));
        if found.is_none() && self.lanes.len() < MAX_LANES {
            self.lanes.push(Lane { edges: Vec::new(), open: Vec::new() });
            found = Some(self.lanes.len() - 1);
        }
        let Some(lane) = found.and_then(|place| self.lanes.get_mut(place)) else {
            self.left_out += 1;
            return;
        };
        lane.edges.push(Edge { at: from, begins: Some(slice) });
        lane.open.push((slice, to));
    }

    /// The edges in each lane, in time order.
    pub fn finish(self) -> impl Iterator<Item = Vec<Edge<K>>> {
        self.lanes.into_iter().map(|mut lane| {
            lane.close(Stamp::from_ns(u64::MAX));
            lane.edges
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lanes as text: `a(b())` is a slice within another.
    fn drawn(slices: &[(char, Option<char>, u64, u64)]) -> Vec<String> {
        let mut lanes = Lanes::default();
        for &(slice, above, from, to) in slices {
            lanes.add(slice, above, (Stamp::from_ns(from), Stamp::from_ns(to)));
        }
        let draw = |edges: Vec<Edge<char>>| -> String {
            let mut at = Stamp::from_ns(0);
            let mut text = String::new();
            for edge in edges {
                assert!(edge.at >= at, "in order of time");
                at = edge.at;
                match edge.begins {
                    Some(slice) => text.extend([slice, '(']),
                    None => text.push(')'),
                }
            }
            text
        };
        lanes.finish().map(draw).collect()
    }

    #[test]
    fn a_slice_is_below_its_own_parent_or_in_a_lane_of_its_own() {
        // Two in a row below their parent; then a slice that overlaps, and a slice that outlives its parent.
        let slices = [
            ('a', None, 0, 100),
            ('b', Some('a'), 10, 40),
            ('c', Some('b'), 10, 40),
            ('d', Some('a'), 20, 50),
            ('e', Some('a'), 50, 60),
            ('f', Some('a'), 60, 120),
            ('g', Some('d'), 130, 140),
        ];
        assert_eq!(drawn(&slices), ["a(b(c())e())g()", "d()f()"]);
    }

    #[test]
    fn slices_without_length_and_those_that_touch_do_not_overlap() {
        assert_eq!(
            drawn(&[('a', None, 0, 9), ('b', Some('a'), 3, 3), ('c', Some('a'), 3, 9)]),
            ["a(b()c())"]
        );
    }

    #[test]
    fn what_has_no_room_is_counted() {
        let mut lanes = Lanes::default();
        for slice in 0..100 {
            lanes.add(slice, None, (Stamp::from_ns(slice), Stamp::from_ns(1000)));
        }
        assert_eq!(lanes.left_out, 100 - MAX_LANES as u64);
        assert_eq!(lanes.finish().count(), MAX_LANES);
    }
}
