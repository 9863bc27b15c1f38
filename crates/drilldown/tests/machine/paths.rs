//! Paths: descent, the cases of Traeger 2008, sections 3.3 to 3.11, and where a path ends.

use expect_test::expect;
use wakepath_drilldown::{LatencyRange, ProbeCost};

use crate::drawing::{Drawing, check, check_with};

#[test]
fn the_path_goes_down_to_the_function_that_takes_the_time() {
    check(
        "f0 10us
           a 20us
           b 10us
             c 5us
             d 10us
               e 900us
           g 30us",
        expect![[r#"
            RootCauseFound
            f0 > b > d > e: itself (NoCallees(Leaf))  [20-0/20 20-0/20 20-0/20 20-0/20]
        "#]],
    );
}

#[test]
fn a_function_with_more_time_than_its_callees_is_the_answer_itself() {
    check(
        "f0 900us
           a 20us
           b 100us",
        expect![[r#"
            RootCauseFound
            f0: itself  [20-0/20]
        "#]],
    );
}

#[test]
fn a_function_that_waits_is_the_answer_as_blocked() {
    check(
        "f0 10us
           a 20us blocked 900us
             b 30us",
        expect![[r#"
            RootCauseFound
            f0 > a: itself, blocked  [20-0/20 20-0/20]
        "#]],
    );
}

#[test]
fn contributors_within_one_power_of_two_are_all_chosen_and_decided_in_the_same_calls() {
    // 530 to 1040 us share a bucket.
    check(
        "f0 10us
           a 20us
             c 530us
           b 1000us
             d 20us
           e 520us",
        expect![[r#"
            RootCauseFound
            f0 > b: itself  [20-0/20 20-0/20] close:f0
            f0 > a > c: itself (NoCallees(Leaf))  [20-0/20 20-0/20 20-0/20] close:f0
        "#]],
    );
}

#[test]
fn the_function_itself_and_a_callee_may_both_be_the_answer() {
    check(
        "f0 600us
           a 20us
             b 700us",
        expect![[r#"
            RootCauseFound
            f0: itself  [20-0/20]
            f0 > a > b: itself (NoCallees(Leaf))  [20-0/20 20-0/20 20-0/20]
        "#]],
    );
}

#[test]
fn a_slow_function_in_a_loop_is_the_answer_and_the_loop_is_not() {
    // A single call out of ten is slow.
    check(
        "f0 10us
           a 5us x9
           a 900us
             b 20us",
        expect![[r#"
            RootCauseFound
            f0 > a: itself  [20-0/20 20-0/20]
        "#]],
    );
}

#[test]
fn a_loop_of_short_calls_is_the_answer_with_the_number_of_calls() {
    check(
        "f0 10us
           a 5us
             b 9us x100
               c 1us
           d 100us",
        expect![[r#"
            RootCauseFound
            f0 > a: calls b 100 times  [20-0/20 20-0/20]
        "#]],
    );
}

#[test]
fn a_loop_in_few_of_the_calls_is_not_the_answer() {
    check(
        "f0 10us\n  a 900us\n    b 9us x200 1/4",
        expect![[r#"
        RootCauseFound
        f0 > a: itself  [20-0/20 20-0/20]
    "#]],
    );
}

#[test]
fn a_loop_beside_more_time_of_its_own_is_not_the_answer() {
    check(
        "f0 10us
           a 900us
             b 9us x50",
        expect![[r#"
            RootCauseFound
            f0 > a: itself  [20-0/20 20-0/20]
        "#]],
    );
}

#[test]
fn the_loop_with_more_time_is_the_answer() {
    check(
        "f0 10us
           a 5us x50
           b 9us x50",
        expect![[r#"
            RootCauseFound
            f0: calls b 50 times  [20-0/20]
        "#]],
    );
}

// Table 3.1: f_c is called within a condition.

#[test]
fn case_a_true_and_the_only_root_cause() {
    check(
        "f0 10us\n  c 900us\n  d 100us",
        expect![[r#"
        RootCauseFound
        f0 > c: itself (NoCallees(Leaf))  [20-0/20 20-0/20]
    "#]],
    );
}

#[test]
fn case_b_true_and_one_of_two_root_causes() {
    check(
        "f0 10us\n  c 900us\n  d 800us",
        expect![[r#"
        RootCauseFound
        f0 > c: itself (NoCallees(Leaf))  [20-0/20 20-0/20]
        f0 > d: itself (NoCallees(Leaf))  [20-0/20 20-0/20]
    "#]],
    );
}

#[test]
fn case_c_true_and_no_root_cause() {
    check(
        "f0 10us\n  c 100us\n  d 800us",
        expect![[r#"
        RootCauseFound
        f0 > d: itself (NoCallees(Leaf))  [20-0/20 20-0/20]
    "#]],
    );
}

#[test]
fn case_d_false_and_the_only_root_cause_is_outside_of_the_peak() {
    let drawing = Drawing::new("f0 10us\n  c 900us 1/4\n  d 100us");
    let mut driver = drawing.driver(Default::default(), ProbeCost::default());
    let peak = LatencyRange { from_ns: 524_288, to_ns: 1_048_575 };
    let calls = drawing.run(&mut driver, peak, 1000);
    expect![[r#"
        RootCauseFound
        f0 > c: itself (NoCallees(Leaf))  [20-0/20 20-0/20]
    "#]]
    .assert_eq(&drawing.answers(&driver.machine));
    expect!["77 Calls { used: 20, outside_peak: 57, outdated: 0, overflowed: 0, lost: 0 }"]
        .assert_eq(&format!("{calls} {:?}", driver.machine.calls()));
}

#[test]
fn case_e_false_and_one_of_two_root_causes_by_the_percentage() {
    let drawing = "f0 10us\n  c 900us 3/4\n  d 800us";
    check(
        drawing,
        expect![[r#"
        RootCauseFound
        f0 > d: itself (NoCallees(Leaf))  [20-15/20 20-0/20] close:f0
    "#]],
    );
    check_with(
        drawing,
        |it| it.maxcount_percentage = 75,
        expect![[r#"
        RootCauseFound
        f0 > c: itself (NoCallees(Leaf))  [15-0/20 15-0/15]
        f0 > d: itself (NoCallees(Leaf))  [20-0/20 20-0/20]
    "#]],
    );
    check_with(
        drawing,
        |it| it.maxcount_percentage = 76,
        expect![[r#"
        RootCauseFound
        f0 > d: itself (NoCallees(Leaf))  [20-15/20 20-0/20] close:f0
    "#]],
    );
}

#[test]
fn case_f_false_and_no_root_cause() {
    check(
        "f0 10us\n  c 100us 1/4\n  d 800us",
        expect![[r#"
        RootCauseFound
        f0 > d: itself (NoCallees(Leaf))  [20-0/20 20-0/20]
    "#]],
    );
}

#[test]
fn a_percentage_of_zero_chooses_all_that_had_a_vote_and_no_other() {
    let drawing = "f0 10us\n  c 900us 1/10\n  d 800us\n  e 100us\n  g 0ns";
    check_with(
        drawing,
        |it| it.maxcount_percentage = 0,
        expect![[r#"
            RootCauseFound
            f0 > c: itself (NoCallees(Leaf))  [2-0/20 2-0/2] minority:f0 few:c:2 close:f0
            f0 > d: itself (NoCallees(Leaf))  [20-0/20 20-0/20] close:f0
        "#]],
    );
}

#[test]
fn a_function_reached_on_two_paths_is_two_nodes() {
    // Figure 3.8: y is called by w and by x; only one path to z matters below x.
    check(
        "f0 10us
           w 5us
             y 10us
               z 900us
           x 5us
             y 700us
               z 10us",
        expect![[r#"
            RootCauseFound
            f0 > x > y: itself  [20-0/20 20-0/20 20-0/20]
            f0 > w > y > z: itself (NoCallees(Leaf))  [20-0/20 20-0/20 20-0/20 20-0/20]
        "#]],
    );
}

#[test]
fn two_calls_of_one_function_are_two_nodes() {
    // Figure 3.2.
    check(
        "f0 10us
           a 10us
             c 10us
           a 900us
             c 20us",
        expect![[r#"
            RootCauseFound
            f0 > a: itself  [20-0/20 20-0/20]
        "#]],
    );
}

#[test]
fn recursion_goes_down_one_level_at_a_time() {
    // Figure 3.10: x calls y, and y calls x.
    let drawing = "f0 1us
           x 5us
             y 5us
               x 5us
                 y 5us
                   x 900us";
    check(
        drawing,
        expect![[r#"
        RootCauseFound
        f0 > x > y > x > y > x: itself  [20-0/20 20-0/20 20-0/20 20-0/20 20-0/20 20-0/20]
    "#]],
    );
    check_with(
        drawing,
        |it| it.max_depth = 3,
        expect![[r#"
        MaxDepthReached
        f0 > x > y > x: - (MaxDepth)  [20-0/20 20-0/20 20-0/20 20-0/20]
    "#]],
    );
}

#[test]
fn f0_below_itself_is_a_node_like_any_other() {
    check(
        "f0 10us\n  f0 20us\n    f0 900us",
        expect![[r#"
        RootCauseFound
        f0 > f0 > f0: itself  [20-0/20 20-0/20 20-0/20]
    "#]],
    );
}

#[test]
fn a_path_ends_at_the_maximum_depth() {
    let drawing = "f0 1us\n a 1us\n  b 1us\n   c 900us";
    check_with(
        drawing,
        |it| it.max_depth = 2,
        expect![[r#"
        MaxDepthReached
        f0 > a > b: - (MaxDepth)  [20-0/20 20-0/20 20-0/20]
    "#]],
    );
    check_with(
        drawing,
        |it| it.max_depth = 3,
        expect![[r#"
        MaxDepthReached
        f0 > a > b > c: - (MaxDepth)  [20-0/20 20-0/20 20-0/20 20-0/20]
    "#]],
    );
    check_with(
        drawing,
        |it| it.max_depth = 4,
        expect![[r#"
        RootCauseFound
        f0 > a > b > c: itself (NoCallees(Leaf))  [20-0/20 20-0/20 20-0/20 20-0/20]
    "#]],
    );
}

#[test]
fn a_path_ends_below_the_lowest_bucket() {
    // 16384 to 32767 ns is bucket 14.
    let drawing = "f0 1us\n  a 1us\n    b 1us\n      c 15us";
    check_with(
        drawing,
        |it| it.min_bucket = 14,
        expect![[r#"
            EndsEarly
            f0 > a > b: - (BelowMinBucket)  [20-0/20 20-0/20 20-0/20]
        "#]],
    );
    check_with(
        drawing,
        |it| it.min_bucket = 15,
        expect![[r#"
            EndsEarly
            f0 > a: - (BelowMinBucket)  [20-0/20 20-0/20]
        "#]],
    );
    check_with(
        drawing,
        |it| it.min_bucket = 13,
        expect![[r#"
        RootCauseFound
        f0 > a > b > c: itself (NoCallees(Leaf))  [20-0/20 20-0/20 20-0/20 20-0/20]
    "#]],
    );
}

#[test]
fn a_tail_call_is_a_callee() {
    check(
        "f0 10us\n  a 20us\n    b 900us tail\n      c 10us indirect tail",
        expect![[r#"
        RootCauseFound
        f0 > a > b: itself  [20-0/20 20-0/20 20-0/20]
    "#]],
    );
}

#[test]
fn f0_without_callees_is_examined_alone() {
    check(
        "f0 900us",
        expect![[r#"
        RootCauseFound
        f0: itself (NoCallees(Leaf))  [20-0/20]
    "#]],
    );
    check(
        "f0 10us preempted 900us",
        expect![[r#"
        RootCauseFound
        f0: preempted (NoCallees(Leaf))  [20-0/20]
    "#]],
    );
    check(
        "f0 900us undecodable",
        expect![[r#"
            EndsEarly
            f0: - (NoCallees(NotDecodable))  [20-0/20]
        "#]],
    );
}

#[test]
fn a_function_that_cannot_be_decoded_ends_the_path_without_a_cause() {
    check(
        "f0 10us\n  a 900us undecodable",
        expect![[r#"
            EndsEarly
            f0 > a: - (NoCallees(NotDecodable))  [20-0/20 20-0/20]
        "#]],
    );
}

#[test]
fn targets_of_an_indirect_site_are_named_when_they_are_seen() {
    check(
        "f0 10us
           a 10us indirect site 0
           b 900us indirect site 0
             c 20us
           d 30us",
        expect![[r#"
            RootCauseFound
            f0 > b: itself  [20-0/20 20-0/20]
        "#]],
    );
}

#[test]
fn a_target_that_comes_late_is_measured_from_then_on() {
    // The two calls in which a target is new count for the site; so b has 17 of 20 votes from call 2 on.
    let drawing = |from| {
        format!(
            "f0 10us
               a 900us indirect site 0 until {from}
               b 900us indirect site 0 from {from}
                 c 20us"
        )
    };
    check(
        &drawing(2),
        expect![[r#"
            RootCauseFound
            f0 > b: itself  [19-1/20 20-0/20]
        "#]],
    );
    check(
        &drawing(12),
        expect![[r#"
            RootCauseFound
            f0 > a: itself (NoCallees(Leaf))  [11-9/20 11-0/11] close:f0
        "#]],
    );
    check(
        &drawing(19),
        expect![[r#"
            RootCauseFound
            f0 > a: itself (NoCallees(Leaf))  [18-2/20 18-0/18]
        "#]],
    );
}

#[test]
fn a_site_with_more_targets_than_are_kept_keeps_the_others_together() {
    let mut text = String::from("f0 10us\n  a 900us indirect site 0 from 1\n");
    for target in 0..256 {
        text += &format!("  t{target} 2us indirect site 0 until 1\n");
    }
    check_with(
        &text,
        |it| it.max_nodes = 1000,
        expect![[r#"
            RootCauseFound
            f0 > ?: unknown target (UnknownTarget)  [20-0/20 20-0/20] targets:f0
        "#]],
    );
}
