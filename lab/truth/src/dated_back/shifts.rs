//! The distance between the times on a path across two hosts and the clock of the machine on which both ran.
//!
//! Such a path has its times by one host's clock, and the other host's times with an error: here some 50 µs, with a drift,
//! beside preemptions every 40 µs or so. The switches have stamps on the machine's clock. So a thread's preemptions are laid
//! beside the places where the path has it preempted: the distance that most places have to some switch is the shift.

use std::collections::BTreeMap;

use super::RUNNING;
use crate::document::{Dated, Segment};

/// The largest shift, ns: 400 times the usual error.
const MAX_SHIFT_NS: i64 = 20_000_000;

/// The width of a group of distances, ns.
const GROUP_NS: i64 = 4_000;

/// The number of preemptions compared at once, some 5 ms: too short for a drift to count. Fewer preemptions have no shift of
/// their own: with stamps every 40 µs, ten places put some two distances into each pair of groups by chance, so that more than
/// half of them agree with unrelated stamps almost always, more than half of thirty at times, and of fifty never.
const PREEMPTIONS: usize = 50;

/// For each thread: the path time from which a shift holds, and the shift, ns.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Shifts(BTreeMap<u32, Vec<(i64, i64)>>);

impl Shifts {
    /// Finds the shifts for all threads on the path. `segments` count from `origin`.
    pub(crate) fn find(segments: &[Segment], switches: &[Dated], origin: i64) -> Self {
        let mut shifts = Self::default();
        for stretch in segments.chunk_by(|one, next| one.tid == next.tid) {
            let Some(tid) = stretch[0].tid else { continue };
            let is_preempted =
                |pair: &&[Segment]| RUNNING.contains(&&*pair[0].kind) && pair[1].kind == "runnable";
            let places: Vec<i64> =
                stretch.windows(2).filter(is_preempted).map(|pair| pair[0].to_ns).collect();
            let its = switches.iter().filter(|switch| switch.prev == tid);
            let stamps: Vec<i64> = its.map(|switch| switch.at_ns - origin).collect();
            for part in places.chunks(PREEMPTIONS) {
                let found = shift(part, &stamps).map(|shift| (part[0], shift));
                shifts.0.entry(tid).or_default().extend(found);
            }
        }
        shifts
    }

    /// The path time of this thread's switch with the stamp `at`; both count from the origin.
    pub(crate) fn on_path(&self, tid: u32, at: i64) -> i64 {
        let shifts = self.0.get(&tid).map_or(&[][..], Vec::as_slice);
        let next = shifts.partition_point(|&(from, shift)| from + shift <= at);
        at - shifts.get(next.saturating_sub(1)).map_or(0, |&(_, shift)| shift)
    }
}

/// The distance, ns, that more than half of the places have to some stamp; `None` without such a distance, or with too
/// few places. Both lists are sorted.
fn shift(places: &[i64], stamps: &[i64]) -> Option<i64> {
    if places.len() < PREEMPTIONS {
        return None;
    }
    let mut groups: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for place in places {
        let first = stamps.partition_point(|stamp| *stamp < place - MAX_SHIFT_NS);
        let near = stamps[first..].iter().take_while(|stamp| **stamp <= place + MAX_SHIFT_NS);
        for distance in near.map(|stamp| stamp - place) {
            groups.entry(distance.div_euclid(GROUP_NS)).or_default().push(distance);
        }
    }
    // A drift may divide the distances between two groups.
    let pairs = groups.iter().map(|(group, distances)| {
        let next = groups.get(&(group + 1)).into_iter().flatten();
        distances.iter().chain(next).copied().collect::<Vec<i64>>()
    });
    let mut largest = pairs.max_by_key(Vec::len).filter(|distances| distances.len() * 2 > places.len())?;
    largest.sort_unstable();
    Some(largest[largest.len() / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Irregular times, ns: 40 µs apart on average.
    fn times(count: i64) -> Vec<i64> {
        times_of(1, count)
    }

    fn times_of(seed: i64, count: i64) -> Vec<i64> {
        let mut random = seed;
        let mut next = || {
            random = random * 48_271 % 2_147_483_647;
            random % 40_000
        };
        (0..count).map(|index| index * 40_000 + next()).collect()
    }

    #[test]
    fn the_shift_is_the_distance_that_most_places_have_to_a_switch() {
        let stamps = times(500);
        for expected in [0, 48_000, -48_000, 9_000_001, -3_999] {
            let places: Vec<i64> = stamps[200..300].iter().map(|stamp| stamp - expected).collect();
            assert_eq!(shift(&places, &stamps), Some(expected));
        }
        // A drift of 60 ppm within the stretch: the middle shift.
        let places: Vec<i64> =
            stamps[200..300].iter().map(|stamp| stamp - 5_000 - stamp * 60 / 1_000_000).collect();
        let middle = 5_000 + stamps[250] * 60 / 1_000_000;
        assert!((shift(&places, &stamps).unwrap() - middle).abs() < 200, "{:?}", shift(&places, &stamps));
        // Half of the distances in either of two groups.
        let places = (200..300).map(|index| stamps[index] - if index % 2 == 0 { 3_900 } else { 4_100 });
        let found = shift(&places.collect::<Vec<_>>(), &stamps);
        assert!(found.is_some_and(|found| (3_900..=4_100).contains(&found)), "{found:?}");
    }

    #[test]
    fn too_few_places_and_places_without_switches_have_no_shift() {
        let stamps = times(500);
        let places: Vec<i64> = stamps[200..250].iter().map(|stamp| stamp - 9_000).collect();
        assert_eq!(shift(&places, &stamps), Some(9_000));
        assert_eq!(shift(&places[..49], &stamps), None);
        let far: Vec<i64> = stamps.iter().map(|stamp| stamp + 60_000_000).collect();
        assert_eq!(shift(&far[..100], &stamps), None);
        let few: Vec<i64> =
            (0..100).map(|index| stamps[200 + index] + if index % 5 < 2 { 0 } else { 70_000_000 }).collect();
        assert_eq!(shift(&few, &stamps), None);
        assert_eq!(shift(&places, &[]), None);
    }

    #[test]
    fn places_that_have_nothing_to_do_with_the_switches_have_no_shift() {
        let stamps = times(2_000);
        for seed in 2..52 {
            let places = &times_of(seed * 7_919, 1_050)[1_000..];
            assert_eq!(shift(places, &stamps), None, "{seed}");
        }
    }

    #[test]
    fn each_50_preemptions_of_a_thread_have_their_shift_until_the_next_ones() {
        let segment = |from_ns: i64, to_ns: i64, tid: u32, kind: &str| Segment {
            from_ns,
            to_ns,
            kind: kind.to_owned(),
            tid: Some(tid),
            comm: None,
            call: None,
            basis: None,
            cause: None,
        };
        let stamps = times(155);
        let (mut segments, mut at) = (Vec::new(), 0);
        for (index, stamp) in stamps.iter().enumerate() {
            // The last five are too few for a shift.
            let to = stamp + 20_000 - [3_000, 6_000, 9_000, 12_000][index / 50];
            if index == 100 {
                segments.push(segment(at, at + 1, 8, "running"));
                at += 1;
            }
            segments.push(segment(at, to, 7, if index % 3 == 0 { "interrupted" } else { "running" }));
            segments.push(segment(to, to + 5_000, 7, "runnable"));
            at = to + 5_000;
        }
        let dated = |stamp: &i64| Dated {
            at_ns: 1_000 + stamp + 20_000,
            back_ns: 0,
            prev: 7,
            is_preempted: true,
            next: 9,
            uncounted_ns: 0,
        };
        let switches: Vec<Dated> = stamps.iter().map(dated).collect();
        let shifts = Shifts::find(&segments, &switches, 1_000);
        let on_path = |tid: u32, index: usize| {
            let at = stamps[index] + 20_000;
            at - shifts.on_path(tid, at)
        };
        assert_eq!(
            [0, 49, 50, 99, 100, 149, 154].map(|index| on_path(7, index) / 1_000),
            [3, 3, 6, 6, 9, 9, 9]
        );
        assert_eq!(on_path(8, 50), 0);
        assert_eq!(Shifts::default().on_path(7, 5), 5);
    }
}
