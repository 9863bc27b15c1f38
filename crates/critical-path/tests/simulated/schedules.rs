//! Properties over generated programs, run by a small scheduler that knows the truth.

use proptest::prelude::*;
use wakepath_critical_path::{Basis, Path, Segment, SegmentKind, active, contributors, exact};
use wakepath_event::Event;
use wakepath_scenario::arbitrary::cases;
use wakepath_scenario::simulate::{Action, LossReport, Program, Run, lose, simulate, tid};
use wakepath_wait_graph::Graph;

use crate::explanation::explanation;
use crate::{index, window};

const GATES: usize = 3;

fn graph(events: &[Event]) -> Graph {
    events.iter().collect()
}

fn assert_adds_up(graph: &Graph, path: &Path) {
    assert!(path.tiles_window(), "{path:#?}");
    let sum: u64 = contributors(graph, path).iter().map(|part| part.total_ns).sum();
    assert_eq!(sum, path.window.to.since(path.window.from), "so do the contributors");
    for (id, wait) in path.waits.iter().enumerate() {
        assert!(wait.parent.is_none_or(|parent| (parent.0 as usize) < id), "parents come first");
    }
}

fn at(path: &Path, ns: u64) -> &Segment {
    let next = path.segments.partition_point(|segment| segment.to.ns() <= ns);
    &path.segments[next]
}

fn duration() -> impl Strategy<Value = u64> {
    1..200u64
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        5 => duration().prop_map(Action::Run),
        3 => (0..GATES).prop_map(Action::Post),
        3 => (0..GATES).prop_map(Action::Wait),
        1 => duration().prop_map(Action::Sleep),
        1 => duration().prop_map(Action::Disk),
        2 => (0..GATES).prop_map(Action::Send),
        2 => (0..GATES).prop_map(Action::Receive),
        1 => Just(Action::Fork(0)),
    ]
}

/// Programs with up to six threads. Forks get children of their own; the last thread gives, late, everything
/// for which the others may still wait, so that most runs come to their end.
pub fn program(cpus: impl Strategy<Value = Option<usize>>) -> impl Strategy<Value = Program> {
    let threads = prop::collection::vec(prop::collection::vec(action(), 1..9), 2..6);
    (threads, cpus, 1..40u64, 0..4u64, prop_oneof![Just(0), 1..30u64], any::<bool>()).prop_map(
        |(mut threads, cpus, slice, latency, flight, give)| {
            let mut next_child = threads.len().div_ceil(2);
            let mut waits = Vec::new();
            let count = threads.len();
            for actions in &mut threads {
                for action in &mut *actions {
                    match action {
                        Action::Fork(child) if next_child < count => {
                            *child = next_child;
                            next_child += 1;
                        }
                        Action::Fork(_) => *action = Action::Run(7),
                        Action::Wait(gate) => waits.push(Action::Post(*gate)),
                        Action::Receive(gate) => waits.push(Action::Send(*gate)),
                        _ => {}
                    }
                }
            }
            if give {
                waits.insert(0, Action::Run(3000));
                threads.push(waits);
            }
            // A thread cannot fork itself or its forkers: only later threads.
            for (thread, actions) in threads.iter_mut().enumerate() {
                for action in actions {
                    if matches!(action, Action::Fork(child) if *child <= thread) {
                        *action = Action::Run(7);
                    }
                }
            }
            Program { threads, cpus, slice, latency, flight }
        },
    )
}

fn any_cpus() -> impl Strategy<Value = Option<usize>> {
    prop_oneof![Just(None), (1..4usize).prop_map(Some)]
}

proptest! {
    // Rare coincidences take many tries: 20,000 met coincidences that 256 did not.
    #![proptest_config(cases(2_000))]

    #[test]
    fn the_active_path_is_at_each_moment_what_the_wakers_did_then(program in program(any_cpus())) {
        let Run { events, truth, end } = simulate(&program);
        let graph = graph(&events);
        for thread in 0..program.threads.len() {
            let Some(index) = index(&graph, tid(thread)) else { continue };
            let path = active(&graph, window(index, 0, end));
            assert_adds_up(&graph, &path);
            for &moment in truth.change_times().iter().filter(|&&moment| moment < end) {
                let segment = at(&path, moment);
                prop_assert_eq!(
                    explanation(&graph, segment), Some(truth.active(thread, moment)),
                    "thread {} at {}: {:#?}\n{:#?}", thread, moment, segment, events
                );
            }
        }
    }

    #[test]
    fn every_window_is_tiled(program in program(any_cpus()), cuts in prop::collection::vec((0..4000u64, 0..4000u64), 4)) {
        let Run { events, end, .. } = simulate(&program);
        let graph = graph(&events);
        for (thread, _) in graph.threads() {
            for &(from, to) in cuts.iter().chain(&[(0, end)]) {
                let window = window(thread, from.min(to), from.max(to));
                let path = active(&graph, window);
                assert_adds_up(&graph, &path);
                assert_adds_up(&graph, &exact(&graph, window));
                prop_assert_eq!(&path, &active(&graph, window), "the same again");
            }
        }
    }

    /// The oracle of the exact path: shorten an action by a nanosecond and run the program again. The first
    /// thread is done a nanosecond earlier if and only if the action is on its path.
    ///
    /// Only for as many CPUs as threads: a thread that waits for a CPU depends on all threads that had it
    /// before, and the exact path does not follow those.
    #[test]
    fn shortening_an_action_matters_if_and_only_if_it_is_on_the_exact_path(program in program(Just(None))) {
        let Some(program) = without_ties(program) else { return Ok(()) };
        let Run { events, truth, .. } = simulate(&program);
        let Some(done) = truth.completed[0] else { return Ok(()) };
        let graph = graph(&events);
        let Some(first) = index(&graph, tid(0)) else { return Ok(()) };
        let path = exact(&graph, window(first, 0, done));
        assert_adds_up(&graph, &path);
        for (thread, actions) in program.threads.iter().enumerate() {
            for (number, &action) in actions.iter().enumerate() {
                let mut shorter = program.clone();
                let Some(ns) = timed(&mut shorter.threads[thread][number]) else { continue };
                *ns -= 1;
                let on_path = truth.actions[thread][number].is_some_and(|interval| {
                    path.segments.iter().any(|segment| is_of(&graph, segment, thread, action, interval))
                });
                let expected = if on_path { done - 1 } else { done };
                prop_assert_eq!(
                    simulate(&shorter).truth.completed[0], Some(expected),
                    "thread {} action {} {:?} on path: {}\n{:#?}", thread, number, action, on_path, path.segments
                );
            }
        }
    }

    #[test]
    fn what_one_lost_record_moves_is_unknown_or_marked(
        program in program(any_cpus()), which in any::<prop::sample::Index>(), report in report(),
    ) {
        let run = simulate(&program);
        let which = which.index(run.events.len());
        let kept = lose(&run.events, report, |number| number == which);
        nothing_moves_unmarked(&program, &run, &kept)?;
    }

    #[test]
    fn what_many_lost_records_move_is_unknown_or_marked(
        program in program(any_cpus()), lost in prop::collection::vec(prop::bool::weighted(0.03), 1000), report in report(),
    ) {
        let run = simulate(&program);
        let kept = lose(&run.events, report, |number| lost.get(number).copied().unwrap_or(false));
        nothing_moves_unmarked(&program, &run, &kept)?;
    }

    /// Consecutive records: a thread may come and go within a single loss.
    #[test]
    fn what_a_stretch_of_lost_records_moves_is_unknown_or_marked(
        program in program(any_cpus()), first in any::<prop::sample::Index>(), count in 2..8usize, report in report(),
    ) {
        let run = simulate(&program);
        let first = first.index(run.events.len());
        let kept = lose(&run.events, report, |number| (first..first + count).contains(&number));
        nothing_moves_unmarked(&program, &run, &kept)?;
    }
}

fn report() -> impl Strategy<Value = LossReport> {
    prop::sample::select(&LossReport::ALL[..])
}

/// At each moment, a path over the kept events has the true explanation, or none.
fn nothing_moves_unmarked(program: &Program, run: &Run, kept: &[Event]) -> Result<(), TestCaseError> {
    let graph = graph(kept);
    for thread in 0..program.threads.len() {
        let Some(index) = index(&graph, tid(thread)) else { continue };
        let path = active(&graph, window(index, 0, run.end));
        assert_adds_up(&graph, &path);
        assert_adds_up(&graph, &exact(&graph, path.window));
        for &moment in run.truth.change_times().iter().filter(|&&moment| moment < run.end) {
            let segment = at(&path, moment);
            if segment.kind == SegmentKind::Unknown || segment.basis == Basis::Ambiguous {
                continue;
            }
            prop_assert_eq!(
                explanation(&graph, segment),
                Some(run.truth.active(thread, moment)),
                "thread {} at {}: {:#?}\n{}\nkept\n{}",
                thread,
                moment,
                segment,
                lines(&run.events),
                lines(kept)
            );
        }
    }
    Ok(())
}

fn lines(events: &[Event]) -> String {
    events
        .iter()
        .map(|e| format!("{} c{} {} {:?} {:?}\n", e.at.ns(), e.cpu.0, e.current, e.context, e.kind))
        .collect()
}

/// An action's duration, if it takes time by itself.
fn timed(action: &mut Action) -> Option<&mut u64> {
    match action {
        Action::Run(ns) | Action::Sleep(ns) | Action::Disk(ns) => Some(ns),
        _ => None,
    }
}

/// The program with durations in which no two different sums are equal or differ by less than 4: each
/// duration has a bit of its own below a part that divides all other times. Without ties, shortening by a
/// nanosecond changes event times and never their order.
fn without_ties(mut program: Program) -> Option<Program> {
    const PART: u32 = 33;
    let mut bit = 2;
    for ns in program.threads.iter_mut().flatten().filter_map(timed) {
        *ns = (*ns << PART) + (1 << bit);
        bit += 1;
    }
    program.latency <<= PART;
    program.flight <<= PART;
    (bit < PART - 1).then_some(program)
}

/// Whether a segment is part of an action that ran from `from` to `to`.
fn is_of(graph: &Graph, segment: &Segment, thread: usize, action: Action, (from, to): (u64, u64)) -> bool {
    let kind = match action {
        Action::Sleep(_) => segment.kind == SegmentKind::Timer,
        Action::Disk(_) => segment.kind == SegmentKind::BlockDevice,
        _ => matches!(segment.kind, SegmentKind::Running | SegmentKind::Interrupted),
    };
    kind && segment.thread.is_some_and(|index| graph.thread(index).tid() == tid(thread))
        && segment.from.ns() < to
        && from < segment.to.ns()
}
