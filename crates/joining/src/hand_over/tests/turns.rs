//! A request's threads in turn.

use super::*;

const A: ThreadIndex = ThreadIndex(0);
const B: ThreadIndex = ThreadIndex(1);

/// The turns from 0 to 100 for these stints, each as its thread, wait since, beginning and end.
fn found(stints: &[(ThreadIndex, u64, u64)]) -> Vec<(ThreadIndex, u64, u64, u64)> {
    let at = Stamp::from_ns;
    let stints: Vec<RequestStint> = stints
        .iter()
        .map(|&(thread, from, to)| RequestStint { from: at(from), to: at(to), thread })
        .collect();
    let turns = turns(&stints, at(0), at(100));
    turns.iter().map(|turn| (turn.thread, turn.waits_since.ns(), turn.from.ns(), turn.to.ns())).collect()
}

#[test]
fn the_longest_holder_has_the_turn_when_two_threads_have_a_request_at_once() {
    assert_eq!(found(&[(A, 0, 100), (B, 50, 100)]), [(A, 0, 0, 100)]);
    assert_eq!(found(&[(A, 20, 60), (B, 10, 60), (A, 80, 100)]), [(B, 0, 0, 60), (A, 60, 60, 100)]);
}

#[test]
fn a_thread_that_turns_to_something_else_and_back_has_one_turn() {
    assert_eq!(found(&[(A, 10, 20), (A, 40, 50), (B, 60, 100)]), [(A, 0, 0, 50), (B, 50, 60, 100)]);
}

#[test]
fn behind_its_last_stint_a_thread_still_has_the_request() {
    assert_eq!(found(&[(A, 0, 30), (B, 40, 90)]), [(A, 0, 0, 30), (B, 30, 40, 100)]);
    assert_eq!(found(&[]), []);
    // A stint before all of the time says nothing.
    assert_eq!(found(&[(B, 0, 0), (A, 40, 100)]), [(A, 0, 0, 100)]);
}

#[test]
fn the_turns_of_many_stints_are_those_that_a_look_at_all_of_them_finds_at_each_step() {
    /// The threads with the turns, and their beginnings, the last first, by looking at all stints at each step.
    fn slowly(stints: &[RequestStint]) -> Vec<(ThreadIndex, Stamp<Reference>)> {
        let (mut found, mut at): (Vec<(ThreadIndex, _)>, _) = (Vec::new(), Stamp::from_ns(100));
        while at > Stamp::MIN {
            let begun = || stints.iter().filter(|stint| stint.from < at);
            let covering = begun().filter(|one| one.to >= at).min_by_key(|one| (one.from, one.thread));
            let before = begun().max_by_key(|one| (one.to, Reverse(one.thread)));
            match (covering, before, found.last_mut()) {
                (Some(stint), _, Some(next)) if *next == (stint.thread, at) => next.1 = stint.from,
                (Some(stint), ..) => found.push((stint.thread, stint.from)),
                (None, Some(stint), None) => found.push((stint.thread, stint.to)),
                (None, Some(stint), Some(next)) if next.0 == stint.thread => next.1 = stint.to,
                (None, Some(_), Some(_)) => {}
                (None, None, Some(next)) => next.1 = Stamp::MIN,
                (None, None, None) => {}
            }
            at = covering.map(|one| one.from).or(before.map(|one| one.to)).unwrap_or(Stamp::MIN);
        }
        found
    }
    let mut seed = 1_u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for _ in 0..2_000 {
        let stints: Vec<RequestStint> = (0..1 + random(12))
            .map(|_| {
                let from = random(110);
                let thread = ThreadIndex(random(3) as u32);
                RequestStint { from: Stamp::from_ns(from), to: Stamp::from_ns(from + 1 + random(30)), thread }
            })
            .collect();
        let turns = turns(&stints, Stamp::from_ns(0), Stamp::from_ns(100));
        let found: Vec<_> = turns.iter().rev().map(|turn| (turn.thread, turn.from)).collect();
        assert_eq!(found, slowly(&stints), "{stints:?}");
        let mut at = 0;
        for turn in &turns {
            assert_eq!(turn.waits_since.ns(), at, "they tile it: {turns:?} of {stints:?}");
            assert!(turn.waits_since <= turn.from && turn.from <= turn.to);
            at = turn.to.ns();
        }
        assert!(turns.is_empty() || at == 100, "{turns:?} of {stints:?}");
    }
}

#[test]
fn parts_tile_only_where_each_begins_at_the_end_of_the_one_before() {
    let part = |from, to| Had::Thread { thread: A, from: Stamp::from_ns(from), to: Stamp::from_ns(to) };
    let tiles = |had: &[Had]| tiles(had, Stamp::from_ns(10), Stamp::from_ns(30));
    assert!(tiles(&[part(10, 20), part(20, 30)]));
    assert!(!tiles(&[]) && !tiles(&[part(10, 20)]) && !tiles(&[part(11, 30)]));
    assert!(!tiles(&[part(10, 10), part(10, 30)]));
    assert!(!tiles(&[part(10, 20), part(21, 30)]) && !tiles(&[part(10, 25), part(25, 20), part(20, 30)]));
}
