//! Levels that do not fit: groups of nodes one behind the other, and batches of callees.

use std::collections::BTreeSet;

use expect_test::expect;
use wakepath_drilldown::{Contributor, Decision, NodeId, Parameters, ProbeCost};

use crate::drawing::{Drawing, check_with};
use crate::driver::ALL;

/// f₀ with callees of 1, 2, … us; the callee `slow` takes 5 ms.
fn wide(callees: usize, slow: usize) -> String {
    let mut text = String::from("f0 10us\n");
    for callee in 0..callees {
        let us = if callee == slow { 5000 } else { callee + 1 };
        text += &format!("  c{callee} {us}us\n    d{callee} 1us\n");
    }
    text
}

#[test]
fn a_level_that_does_not_fit_is_measured_in_batches_and_no_site_is_dropped() {
    for slow in [0, 10, 19, 20, 38] {
        let drawing = Drawing::new(&wide(39, slow));
        let parameters = Parameters { max_nodes: 11, ..Parameters::default() };
        let mut driver = drawing.driver(parameters, ProbeCost::default());
        let calls = drawing.run(&mut driver, ALL, 1000);
        let expected = format!("RootCauseFound\nf0 > c{slow}: itself  [20-0/20 20-0/20]\n");
        assert_eq!(drawing.answers(&driver.machine), expected);
        // Four batches, the vote, and the slow callee's level.
        assert_eq!(calls, 20 * 6);
        let decision = &driver.machine.decisions()[0];
        assert_eq!(decision.batches.iter().map(|it| it.calls).collect::<Vec<_>>(), [20; 4]);
        assert_eq!(decision.batches.iter().map(|it| it.nodes.len()).collect::<Vec<_>>(), [11, 11, 11, 6]);
        let batches = decision.batches.iter().flat_map(|it| it.nodes.iter().copied());
        assert_eq!(batches.collect::<BTreeSet<_>>().len(), 39);
        assert_eq!(with_or_without_vote(decision).len(), 39);
        let means: Vec<u64> = decision.left_out.iter().map(|it| it.1).collect();
        assert!(means.is_sorted_by(|a, b| a > b) && means.len() == 28, "{means:?}");
        let slowest_left_out = if slow > 28 { 29_000 } else { 30_000 };
        assert_eq!(means[0], slowest_left_out);
    }
}

fn with_or_without_vote(decision: &Decision) -> BTreeSet<NodeId> {
    let voted = decision.contributors.iter().filter_map(|it| match it.contributor {
        Contributor::Callee(callee) => Some(callee),
        _ => None,
    });
    voted.chain(decision.left_out.iter().map(|it| it.0)).collect()
}

#[test]
fn time_of_callees_without_a_vote_is_not_their_callers_own() {
    // 30 callees at 40 us take 1200 us together; 2 at 100 us have a vote, f₀ has 90 us.
    let mut text = String::from("f0 60us\n");
    for callee in 0..30 {
        text += &format!("  c{callee} 40us\n");
    }
    text += "  slow0 100us\n  slow1 99us\n";
    check_with(
        &text,
        |it| (it.max_nodes, it.max_depth) = (4, 3),
        expect![[r#"
            RootCauseFound
            f0 > slow0: itself (NoCallees(Leaf))  [20-0/20 20-0/20] close:f0
            f0 > slow1: itself (NoCallees(Leaf))  [20-0/20 20-0/20] close:f0
        "#]],
    );
}

#[test]
fn a_callee_without_a_vote_that_is_as_slow_as_the_chosen_is_a_doubt() {
    let mut text = String::from("f0 1us\n");
    for callee in 0..8 {
        text += &format!("  c{callee} 4{callee}us\n");
    }
    check_with(
        &text,
        |it| (it.max_nodes, it.max_depth) = (4, 3),
        expect![[r#"
        RootCauseFound
        f0 > c4: itself (NoCallees(Leaf))  [20-0/20 20-0/20] left-out:f0
        f0 > c5: itself (NoCallees(Leaf))  [20-0/20 20-0/20] left-out:f0
        f0 > c6: itself (NoCallees(Leaf))  [20-0/20 20-0/20] left-out:f0
        f0 > c7: itself (NoCallees(Leaf))  [20-0/20 20-0/20] left-out:f0
    "#]],
    );
    let mut text = String::from("f0 1us\n");
    for callee in 0..8 {
        text += &format!("  c{callee} {}us\n", 4 << callee);
    }
    check_with(
        &text,
        |it| (it.max_nodes, it.max_depth) = (4, 3),
        expect![[r#"
        RootCauseFound
        f0 > c7: itself (NoCallees(Leaf))  [20-0/20 20-0/20]
    "#]],
    );
}

#[test]
fn half_of_the_mean_of_the_chosen_is_no_doubt() {
    for (us, doubt) in [(50, false), (51, true)] {
        let mut text = String::from("f0 1us\n");
        for callee in 0..4 {
            text += &format!("  c{callee} 100us\n  d{callee} {us}us\n");
        }
        let drawing = Drawing::new(&text);
        let parameters = Parameters { max_nodes: 4, max_depth: 3, ..Parameters::default() };
        let mut driver = drawing.driver(parameters, ProbeCost::default());
        drawing.run(&mut driver, ALL, 1000);
        assert_eq!(drawing.answers(&driver.machine).contains("left-out"), doubt, "{us}");
    }
}

#[test]
fn a_batch_is_as_long_with_few_votes_as_with_many_and_the_vote_is_longer() {
    let mut text = String::from("f0 10us\n  b 800us\n  a 900us 1/3\n");
    for callee in 0..5 {
        text += &format!("    c{callee} 1us\n");
    }
    let drawing = Drawing::new(&text);
    let parameters =
        Parameters { max_nodes: 4, max_depth: 3, maxcount_percentage: 30, ..Parameters::default() };
    let mut driver = drawing.driver(parameters, ProbeCost::default());
    drawing.run(&mut driver, ALL, 1000);
    let decision = driver.machine.decisions().last().unwrap();
    assert_eq!(decision.batches.iter().map(|it| it.calls).collect::<Vec<_>>(), [20, 20]);
    // Every third call has a vote; there are ten.
    assert_eq!((decision.votes, decision.calls), (10, 28));
}

#[test]
fn nodes_that_do_not_fit_together_are_examined_one_behind_the_other() {
    let drawing = Drawing::new(
        "f0 1us
           a 1us
             a1 10us
             a2 500us
             a3 10us
           b 1us
             b1 10us
             b2 500us
             b3 10us
           c 1us
             c1 10us
             c2 10us
             c3 500us",
    );
    for (max_nodes, rounds) in [(12, 2), (11, 3), (8, 3), (7, 4), (4, 4), (3, 10)] {
        let parameters = Parameters { max_nodes, max_depth: 2, ..Parameters::default() };
        let mut driver = drawing.driver(parameters, ProbeCost::default());
        let calls = drawing.run(&mut driver, ALL, 1000);
        let found = drawing.answers(&driver.machine);
        let expected = "MaxDepthReached\n\
             f0 > a > a2: - (MaxDepth)  [20-0/20 20-0/20 20-0/20]\n\
             f0 > b > b2: - (MaxDepth)  [20-0/20 20-0/20 20-0/20]\n\
             f0 > c > c3: - (MaxDepth)  [20-0/20 20-0/20 20-0/20]\n";
        assert_eq!((found.as_str(), calls), (expected, rounds * 20), "{max_nodes}");
    }
}

#[test]
fn a_target_that_comes_while_batches_are_measured_is_in_one_of_them() {
    let mut text = wide(10, 99);
    text += "  slow 5000us indirect\n";
    let drawing = Drawing::new(&text);
    let parameters = Parameters { max_nodes: 4, max_depth: 3, ..Parameters::default() };
    let mut driver = drawing.driver(parameters, ProbeCost::default());
    let calls = drawing.run(&mut driver, ALL, 1000);
    assert_eq!(
        drawing.answers(&driver.machine),
        "RootCauseFound\nf0 > slow: itself (NoCallees(Leaf))  [20-0/20 20-0/20]\n"
    );
    // 11 callees are three batches, the target is the fourth; then the vote.
    assert_eq!(calls, 20 * 5);
    let decision = &driver.machine.decisions()[0];
    assert_eq!(decision.batches.iter().map(|it| it.nodes.len()).collect::<Vec<_>>(), [4, 4, 3, 1]);
}

#[test]
fn a_target_that_comes_with_the_vote_is_in_the_next_one() {
    let mut text = String::from("f0 10us\n");
    for callee in 0..5 {
        text += &format!("  c{callee} 1us\n");
    }
    text += "  q 100us indirect site 9\n  slow 5000us indirect site 9 from 65\n";
    check_with(
        &text,
        |it| (it.max_nodes, it.max_depth) = (4, 3),
        expect![[r#"
        RootCauseFound
        f0 > slow: itself (NoCallees(Leaf))  [20-0/20 20-0/20]
    "#]],
    );
}

#[test]
fn time_of_targets_without_a_vote_is_not_taken_off_twice() {
    // Each call has one of 100 targets.
    let mut text = String::from("f0 600us\n");
    for target in 0..100 {
        text += &format!("  t{target} 900us indirect site 0 1/100+{target}\n");
    }
    let drawing = Drawing::new(&text);
    let mut driver = drawing.driver(Parameters::default(), ProbeCost::default());
    drawing.run(&mut driver, ALL, 5000);
    let answers = drawing.answers(&driver.machine);
    assert!(answers.contains("\nf0: itself  [20-"), "{answers}");
}
