//! Paths of handed-over work, by a caller's knowledge: queue time stays queue time, whatever the threads that delayed the work did, and unknown time
//! stays unknown.

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::{
    Basis, Cause, EndedWait, Had, HandOvers, Rule, SegmentKind, Timeouts, Window, active_with,
};
use wakepath_scenario::{STEP, draw};
use wakepath_wait_graph::{Graph, ThreadIndex};

/// The work that ended a thread's waits.
#[derive(Debug)]
struct Known {
    waiter: ThreadIndex,
    had: Vec<Had>,
}

impl HandOvers for Known {
    fn parts_of_wait(&self, wait: &EndedWait) -> Option<Vec<Had>> {
        (wait.waiter == self.waiter).then(|| self.had.clone())
    }

    fn since(&self, _: ThreadIndex, _: Stamp<Reference>) -> Option<Stamp<Reference>> {
        None
    }
}

#[test]
fn all_that_keeps_work_in_a_queue_is_queue_but_the_unknown() {
    // The worker (1) has the work from column 12 on. Before, it works for others, waits for a helper (2), and has a wait without a known end.
    let drawing = draw(
        "0 ==...........1==
         1 ===..2=...======
         2 ================",
    );
    let graph: Graph = drawing.events.iter().collect();
    let thread = |row: usize| graph.with_tid(drawing.tids[row]).next().expect("it is in the graph").0;
    let at = |column: u64| Stamp::from_ns(column * STEP);
    let (waiter, worker) = (thread(0), thread(1));
    let basis = Basis::Inferred(Rule::HandedOver);
    let queue = Had::NoThread { next: worker, from: at(2), to: at(12), kind: SegmentKind::Queue, basis };
    let had = vec![queue, Had::Thread { thread: worker, from: at(12), to: at(14) }];
    let window = Window { thread: waiter, from: at(0), to: at(16) };
    let path = active_with(&graph, window, Timeouts::AsTheyAre, &Known { waiter, had });
    assert!(path.tiles_window(), "{path:#?}");
    let found: Vec<_> = path
        .segments
        .iter()
        .map(|one| {
            let (from, to) = (one.from.ns() / STEP, one.to.ns() / STEP);
            let row = (0..3).find(|&row| one.thread == Some(thread(row)));
            assert!(one.kind != SegmentKind::Queue || one.cause == Cause::None, "{one:?}");
            (from, to, one.kind, row, one.basis)
        })
        .collect();
    use SegmentKind::{Queue, Running, Unknown};
    let expected = [
        (0, 2, Running, Some(0), Basis::Measured),
        (2, 3, Queue, Some(1), basis),
        (3, 6, Queue, Some(2), basis),
        (6, 7, Queue, Some(1), basis),
        // The end of this wait was not recorded: whether the worker could have picked up the work is not
        // known.
        (7, 10, Unknown, Some(1), Basis::Measured),
        (10, 12, Queue, Some(1), basis),
        (12, 14, Running, Some(1), Basis::Measured),
        (14, 16, Running, Some(0), Basis::Measured),
    ];
    assert_eq!(found, expected);
}
