//! Tests for threads' turns, as noted by spans.

use super::*;
use crate::testing::at;

#[test]
fn turns_in_all_threads_are_those_of_each_thread_in_the_order_of_their_first_ones() {
    let turn = |from, to| (at(from), at(to));
    let noted = NotedTurns {
        since: at(5),
        turns: vec![turn(50, 60), turn(10, 20), turn(30, 40), turn(70, 80)],
        tids: Some(vec![7, 8, 8, 9]),
        ready: Vec::new(),
    };
    let known = |tid: u32, from: Stamp<Reference>, to: Stamp<Reference>| {
        let expected = [(7, (50, 60)), (8, (10, 40)), (9, (70, 80))].into_iter().find(|one| one.0 == tid);
        assert_eq!(
            expected.map(|one| one.1),
            Some((from.ns(), to.ns())),
            "{tid}: from its first turn to its last"
        );
        // The third thread was not recorded.
        (tid != 9).then_some(ThreadIndex(tid))
    };
    for (own, expected) in [
        (None, vec![(8, 2), (7, 1)]),
        (Some(7), vec![(8, 2), (7, 1)]),
        // It has no turn.
        (Some(3), vec![(8, 2), (7, 1), (3, 0)]),
    ] {
        let found = in_threads(own.map(ThreadIndex), &noted, known);
        let counts = found.iter().map(|(thread, noted)| {
            let noted = noted.as_ref().expect("turns");
            assert_eq!((noted.since, &noted.tids), (at(5), &Some(Vec::new())));
            (thread.0, noted.turns.len())
        });
        assert_eq!(counts.collect::<Vec<_>>(), expected);
    }
}
