//! The goroutine states that steps show.

use wakepath_clock::Stamp;
use wakepath_event::{GoStep, GoroutineStep, LostRecords};

use crate::drawn::{drawn, drawn_with_lost, drawn_without, stamp};
use crate::{Goroutines, State};

/// A goroutine's states as a line, a column per step.
fn states(drawn: &crate::drawn::Drawn, number: u64) -> String {
    let mut line = String::new();
    let mut at = stamp(0);
    for interval in &drawn.goroutines.get(drawn.goroutine(number)).intervals {
        let step = wakepath_scenario::STEP;
        line.extend(std::iter::repeat_n('_', (interval.from.since(at) / step) as usize));
        let letter = match interval.state {
            State::Running(_) => '=',
            State::Queued => 'q',
            State::Parked(_) => '.',
            State::Unknown => '?',
        };
        line.extend(std::iter::repeat_n(letter, (interval.to.since(interval.from) / step) as usize));
        at = interval.to;
    }
    line
}

#[track_caller]
fn check(drawing: &str, losses: &[(usize, usize)], number: u64, expected: &str) {
    assert_eq!(states(&drawn(drawing, losses), number), expected, "{drawing}");
}

#[test]
fn states_are_as_drawn() {
    check(
        "0 ==ss1qq==qq=___
         1 ==============",
        &[],
        0,
        "==...qq==qq=",
    );
}

#[test]
fn behind_a_loss_nothing_is_known_until_a_step_proves_it() {
    let drawing = "0 ==llll1==
                   1 =========";
    check(drawing, &[(4, 5)], 0, "==..???==");
    // Between the steps around the loss.
    check(drawing, &[(0, 1)], 0, "??.....==");
    check(drawing, &[(8, 9)], 0, "==.....=?");
    let lost = drawn(drawing, &[(4, 5)]);
    assert_eq!(lost.line(0), "00ll???00", "what ended the wait is not known either");
}

#[test]
fn a_lost_socket_or_disk_request_says_nothing_against_a_state() {
    let drawing = "0 ==llll1==
                   1 =========";
    for (lost, expected) in [
        (LostRecords::Sockets, "==.....=="),
        (LostRecords::DiskRequests, "==.....=="),
        (LostRecords::Calls, "==..???=="),
    ] {
        assert_eq!(states(&drawn_with_lost(drawing, lost, &[(4, 5)]), 0), expected, "{lost:?}");
    }
}

#[test]
fn a_loss_before_a_goroutine_was_first_seen_changes_nothing() {
    check("0 ____==..", &[(1, 2)], 0, "____====");
}

#[test]
fn one_that_left_without_a_step_is_unknown_from_its_last_step() {
    // The end of goroutine 0's turn was not recorded.
    let drawing = "0 ===q==
                   1@0 ___===";
    let kept = |step: &(u64, wakepath_event::GoroutineStep)| !matches!(step.1.step, GoStep::Yields);
    let drawn = drawn_without(drawing, &[], kept);
    assert_eq!(states(&drawn, 0), "????==", "it may have left at any time");
}

#[test]
fn a_thread_that_runs_another_one_has_left_the_first_at_an_unknown_time() {
    // It made goroutine 2 ready, which proves that it ran then; no later record shows it.
    let drawing = "0 ===q__
                   1@0 ___===
                   2 cc0===";
    let kept = |step: &(u64, wakepath_event::GoroutineStep)| !matches!(step.1.step, GoStep::Yields);
    assert_eq!(states(&drawn_without(drawing, &[], kept), 0), "===???");
    let kept = |step: &(u64, wakepath_event::GoroutineStep)| {
        !matches!(step.1.step, GoStep::Yields) && (step.0, step.1.goroutine) != (3, 3)
    };
    assert_eq!(states(&drawn_without(drawing, &[], kept), 0), "??????");
}

#[test]
fn one_in_a_queue_that_is_made_ready_stays_there() {
    let drawing = "0 ==qss1==
                   1 ========";
    let kept = |step: &(u64, wakepath_event::GoroutineStep)| !matches!(step.1.step, GoStep::Parks(_));
    assert_eq!(states(&drawn_without(drawing, &[], kept), 0), "==qqqq==");
}

#[test]
fn a_loss_that_ends_or_begins_with_a_step_leaves_what_the_step_proves() {
    let drawing = "0 ==lll1==
                   1 ========";
    check(drawing, &[(1, 2)], 0, "=?....==");
    check(drawing, &[(6, 7)], 0, "==....??");
    assert_eq!(drawn(drawing, &[(6, 7)]).line(0), "001111??");
}

#[test]
fn a_park_whose_beginning_was_not_seen_is_unknown() {
    let drawing = "0 ==ss1==
                   1 =======";
    let kept = |step: &(u64, wakepath_event::GoroutineStep)| !matches!(step.1.step, GoStep::Parks(_));
    assert_eq!(states(&drawn_without(drawing, &[], kept), 0), "?????==");
    // A park without a recorded end lasts until the recording's end.
    let kept = |step: &(u64, wakepath_event::GoroutineStep)| step.0 < 5;
    assert_eq!(states(&drawn_without(drawing, &[], kept), 0), "==.....");
}

#[test]
fn one_that_makes_another_ready_runs() {
    let drawing = "0 ==ss1==
                   1 =======";
    let kept = |step: &(u64, wakepath_event::GoroutineStep)| !(step.1.goroutine == 2 && step.0 == 0);
    let drawn = drawn_without(drawing, &[], kept);
    // Its earlier states are not known: this is its first record.
    assert_eq!(states(&drawn, 1), "_____==");
}

#[test]
fn the_goroutines_of_a_thread_are_pieces_without_gap_or_overlap() {
    let drawn = drawn(
        "0 ==qqq==ss
         1@0 _q===qq==",
        &[],
    );
    let [first, second] = [0, 1].map(|number| Some(drawn.goroutine(number)));
    let on = |from, to| drawn.goroutines.on_thread(drawn.thread(0), stamp(from), stamp(to));
    assert_eq!(
        on(1, 9),
        [
            (stamp(1), stamp(2), first),
            (stamp(2), stamp(5), second),
            (stamp(5), stamp(7), first),
            (stamp(7), stamp(9), second)
        ]
    );
    assert_eq!(on(3, 4), [(stamp(3), stamp(4), second)]);
    assert_eq!(on(4, 4), []);
    assert_eq!(drawn.goroutines.on_thread(drawn.thread(1), stamp(0), stamp(2)), [(stamp(0), stamp(2), None)]);
}

#[test]
fn a_span_of_the_same_ids_begins_in_a_goroutine_of_each_process() {
    let drawn = drawn("0 ====\n1 ====", &[]);
    let [(one, of_one), (other, of_other)] = [0, 1].map(|row| {
        let thread = drawn.thread(row);
        (thread, drawn.graph.thread(thread).tid())
    });
    let begins = |at, tid, goroutine, trace| {
        let step = GoStep::BeginsSpan([trace; 16], [3; 8]);
        (Stamp::from_ns(at), tid, GoroutineStep { tgid: tid, program: 0, goroutine, began_in: 0, step })
    };
    // The same number is another goroutine there; within a process, the first goroutine counts.
    let steps = [
        begins(1, of_other, 7, 2),
        begins(2, of_one, 7, 2),
        begins(3, of_one, 8, 2),
        begins(4, of_other, 9, 1),
    ];
    let thread = |tid, _| drawn.graph.with_tid(tid).next().map(|(index, _)| index);
    let goroutines = Goroutines::new(&drawn.graph, &steps, &[], thread);
    let of = |trace| -> Vec<_> {
        let found = goroutines.with_span([trace; 16], [3; 8]);
        found.map(|(process, index)| (process, goroutines.get(index).number)).collect()
    };
    assert_eq!(of(2), [(one, 7), (other, 7)]);
    assert_eq!(of(1), [(other, 9)]);
    assert_eq!(of(3), []);
}

/// The goroutines of these steps: time, thread and goroutine by row and number, and the step. The threads run for 10 columns.
fn goroutines_from_steps(steps: &[(u64, u32, u64, GoStep)]) -> (crate::drawn::Drawn, Goroutines) {
    let drawn = drawn("0 ==========\n1 ==========", &[]);
    let tid = |row| drawn.graph.thread(drawn.thread(row)).tid();
    let steps: Vec<_> = steps
        .iter()
        .map(|&(column, row, goroutine, step)| {
            let began_in = goroutine * 0x1000;
            let step = GoroutineStep { tgid: tid(0), program: 0, goroutine, began_in, step };
            (Stamp::from_ns(column * wakepath_scenario::STEP), tid(row), step)
        })
        .collect();
    let thread = |tid, _| drawn.graph.with_tid(tid).next().map(|(index, _)| index);
    let goroutines = Goroutines::new(&drawn.graph, &steps, &[], thread);
    (drawn, goroutines)
}

/// The states of the goroutine with this number, each with its columns.
fn states_of(goroutines: &Goroutines, number: u64) -> Vec<(char, u64, u64)> {
    let (_, found) = goroutines.iter().find(|(_, one)| one.number == number).expect("a goroutine");
    let column = |at: Stamp<wakepath_clock::Reference>| at.ns() / wakepath_scenario::STEP;
    let state = |state| match state {
        State::Running(_) => '=',
        State::Queued => 'q',
        State::Parked(_) => '.',
        State::Unknown => '?',
    };
    found.intervals.iter().map(|one| (state(one.state), column(one.from), column(one.to))).collect()
}

#[test]
fn a_step_of_a_goroutine_that_could_not_be_read_shows_that_its_thread_may_run_another_one() {
    let runs = GoStep::Runs(0);
    for (step, expected) in [
        (GoStep::Parks(0), vec![('?', 0, 8), ('=', 8, 10)]),
        (GoStep::Yields, vec![('?', 0, 8), ('=', 8, 10)]),
        (GoStep::Runs(0), vec![('?', 0, 8), ('=', 8, 10)]),
        // A thread goes on after it makes another goroutine ready.
        (GoStep::Ready(0), vec![('=', 0, 8), ('=', 8, 10)]),
    ] {
        let (_drawn, goroutines) = goroutines_from_steps(&[
            (0, 0, 1, runs),
            (4, 0, 0, step),
            (8, 0, 1, GoStep::Yields),
            (8, 1, 1, runs),
        ]);
        assert_eq!(states_of(&goroutines, 1), expected, "{step:?}");
        assert_eq!(goroutines.iter().count(), 1, "number 0 is no goroutine");
        assert_eq!(goroutines.get(crate::GoroutineIndex(0)).began_in, Some(0x1000));
    }
}

#[test]
fn a_thread_that_runs_another_goroutine_takes_nothing_from_one_that_another_thread_runs_by_then() {
    let runs = GoStep::Runs(0);
    // Goroutine 1 appears on thread 1, and then thread 0, which ran it before, runs goroutine 2.
    let (_drawn, goroutines) = goroutines_from_steps(&[
        (0, 0, 1, runs),
        (2, 0, 1, GoStep::BeginsSpan([1; 16], [1; 8])),
        (4, 1, 1, runs),
        (6, 0, 2, runs),
    ]);
    assert_eq!(states_of(&goroutines, 1), [('=', 0, 2), ('?', 2, 4), ('=', 4, 10)]);
    assert_eq!(states_of(&goroutines, 2), [('=', 6, 10)]);
}

#[test]
fn a_state_that_several_steps_prove_is_one_interval() {
    let (_drawn, goroutines) = goroutines_from_steps(&[
        (0, 0, 1, GoStep::Yields),
        (2, 0, 1, GoStep::Ready(0)),
        (4, 0, 2, GoStep::Runs(0)),
        (6, 0, 1, GoStep::Yields),
        (7, 0, 1, GoStep::Yields),
    ]);
    assert_eq!(states_of(&goroutines, 1), [('q', 0, 2), ('?', 2, 7), ('q', 7, 10)]);
}
