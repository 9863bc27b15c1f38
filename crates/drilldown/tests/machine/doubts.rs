//! Reasons for doubt.

use expect_test::expect;
use wakepath_drilldown::{CallRecord, Drift, Event, LatencyRange, Parameters, ProbeCost};

use crate::drawing::{Drawing, check, check_with};
use crate::driver::ALL;

#[test]
fn close_votes_and_minorities_are_doubts() {
    check(
        "f0 10us\n  a 900us 13/20\n  b 900us 7/20+13",
        expect![[r#"
        RootCauseFound
        f0 > a: itself (NoCallees(Leaf))  [13-7/20 13-0/13] close:f0
    "#]],
    );
    check(
        "f0 10us\n  a 900us 14/20\n  b 900us 6/20+14",
        expect![[r#"
            RootCauseFound
            f0 > a: itself (NoCallees(Leaf))  [14-6/20 14-0/14] close:f0
        "#]],
    );
    check(
        "f0 10us\n  a 900us 8/20\n  b 900us 6/20+8\n  c 900us 6/20+14",
        expect![[r#"
        RootCauseFound
        f0 > a: itself (NoCallees(Leaf))  [8-6/20 8-0/8] close:f0 minority:f0 few:a:8
    "#]],
    );
}

#[test]
fn a_contributor_in_another_bucket_is_chosen_if_an_eighth_is_between_and_a_doubt_if_it_has_half_the_time() {
    // 524288 ns begin a bucket.
    check(
        "f0 10us\n  a 530us\n  b 520us",
        expect![[r#"
        RootCauseFound
        f0 > a: itself (NoCallees(Leaf))  [20-0/20 20-0/20]
        f0 > b: itself (NoCallees(Leaf))  [20-0/20 20-0/20]
    "#]],
    );
    check(
        "f0 10us\n  a 530us\n  b 464us",
        expect![[r#"
        RootCauseFound
        f0 > a: itself (NoCallees(Leaf))  [20-0/20 20-0/20]
        f0 > b: itself (NoCallees(Leaf))  [20-0/20 20-0/20]
    "#]],
    );
    check(
        "f0 10us\n  a 530us\n  b 463us",
        expect![[r#"
        RootCauseFound
        f0 > a: itself (NoCallees(Leaf))  [20-0/20 20-0/20] close:f0
    "#]],
    );
    check(
        "f0 10us\n  a 530us\n  b 266us",
        expect![[r#"
        RootCauseFound
        f0 > a: itself (NoCallees(Leaf))  [20-0/20 20-0/20] close:f0
    "#]],
    );
    check(
        "f0 10us\n  a 530us\n  b 265us",
        expect![[r#"
        RootCauseFound
        f0 > a: itself (NoCallees(Leaf))  [20-0/20 20-0/20]
    "#]],
    );
}

#[test]
fn few_calls_are_a_doubt() {
    check_with(
        "f0 10us\n  a 900us\n    b 1us",
        |it| it.decision_calls = 9,
        expect![[r#"
        RootCauseFound
        f0 > a: itself  [9-0/9 9-0/9] few:f0:9 few:a:9
    "#]],
    );
    check_with(
        "f0 10us\n  a 900us\n    b 1us",
        |it| it.decision_calls = 10,
        expect![[r#"
        RootCauseFound
        f0 > a: itself  [10-0/10 10-0/10]
    "#]],
    );
}

#[test]
fn sites_that_are_not_measured_are_a_doubt_where_their_callers_own_time_is_the_answer() {
    check(
        "f0 10us\n  a 900us refused\n  b 10us",
        expect![[r#"
        RootCauseFound
        f0: itself  [20-0/20] unmeasured:f0:1
    "#]],
    );
    check(
        "f0 10us\n  a 900us unattachable\n  b 10us",
        expect![[r#"
        RootCauseFound
        f0: itself  [20-0/20] unmeasured:f0:1
    "#]],
    );
    check(
        "f0 10us\n  a 10us unattachable\n  b 900us",
        expect![[r#"
        RootCauseFound
        f0 > b: itself (NoCallees(Leaf))  [20-0/20 20-0/20]
    "#]],
    );
    check(
        "f0 10us\n  a 10us refused\n  b 900us",
        expect![[r#"
        RootCauseFound
        f0 > b: itself (NoCallees(Leaf))  [20-0/20 20-0/20]
    "#]],
    );
    check(
        "f0 10us\n  a 900us refused",
        expect![[r#"
            EndsEarly
            f0: - (NoCallees(Refused(SingleStep)))  [20-0/20]
        "#]],
    );
    check(
        "f0 10us\n  a 900us unattachable",
        expect![[r#"
            EndsEarly
            f0: - (NoCallees(Refused(Kernel { errno: 22 })))  [20-0/20]
        "#]],
    );
    check(
        "f0 10us\n  a 10us\n    b 900us refused",
        expect![[r#"
            EndsEarly
            f0 > a: - (NoCallees(Refused(SingleStep)))  [20-0/20 20-0/20]
        "#]],
    );
}

#[test]
fn targets_that_are_not_known_are_a_doubt() {
    // Each call has another target, out of 60, 100 or 300.
    for (targets, expected) in [
        (
            60,
            expect![[r#"
        RootCauseFound
        f0 > t0: itself (NoCallees(Leaf))  [1-0/20 1-0/1] minority:f0 few:t0:1
        f0 > t1: itself (NoCallees(Leaf))  [1-0/20 1-0/1] minority:f0 few:t1:1
        f0 > t2: itself (NoCallees(Leaf))  [1-0/20 1-0/1] minority:f0 few:t2:1
        f0 > t3: itself (NoCallees(Leaf))  [1-0/20 1-0/1] minority:f0 few:t3:1
        f0 > t4: itself (NoCallees(Leaf))  [1-0/20 1-0/1] minority:f0 few:t4:1
        f0 > t5: itself (NoCallees(Leaf))  [1-0/20 1-0/1] minority:f0 few:t5:1
        f0 > t6: itself (NoCallees(Leaf))  [1-0/20 1-0/1] minority:f0 few:t6:1
        f0 > t7: itself (NoCallees(Leaf))  [1-0/20 1-0/1] minority:f0 few:t7:1
        f0 > t8: itself (NoCallees(Leaf))  [1-0/20 1-0/1] minority:f0 few:t8:1
        f0 > t9: itself (NoCallees(Leaf))  [1-0/20 1-0/1] minority:f0 few:t9:1
        f0 > t10: itself (NoCallees(Leaf))  [1-0/20 1-0/1] minority:f0 few:t10:1
        f0 > t11: itself (NoCallees(Leaf))  [1-0/20 1-0/1] minority:f0 few:t11:1
        f0 > t12: itself (NoCallees(Leaf))  [1-0/20 1-0/1] minority:f0 few:t12:1
        f0 > t13: itself (NoCallees(Leaf))  [1-0/20 1-0/1] minority:f0 few:t13:1
        f0 > t14: itself (NoCallees(Leaf))  [1-0/20 1-0/1] minority:f0 few:t14:1
        f0 > t15: itself (NoCallees(Leaf))  [1-0/20 1-0/1] minority:f0 few:t15:1
        f0 > t16: itself (NoCallees(Leaf))  [1-0/20 1-0/1] minority:f0 few:t16:1
        f0 > t17: itself (NoCallees(Leaf))  [1-0/20 1-0/1] minority:f0 few:t17:1
        f0 > t18: itself (NoCallees(Leaf))  [1-0/20 1-0/1] minority:f0 few:t18:1
        f0 > t19: itself (NoCallees(Leaf))  [1-0/20 1-0/1] minority:f0 few:t19:1
    "#]],
        ),
        (
            100,
            expect![[r#"
        RootCauseFound
        f0 > t22: itself (NoCallees(Leaf))  [1-0/20 1-0/1] minority:f0 few:t22:1
        f0 > t23: itself (NoCallees(Leaf))  [1-0/20 1-0/1] minority:f0 few:t23:1
        f0 > t24: itself (NoCallees(Leaf))  [1-0/20 1-0/1] minority:f0 few:t24:1
        f0 > t25: itself (NoCallees(Leaf))  [1-0/20 1-0/1] minority:f0 few:t25:1
        f0 > t26: itself (NoCallees(Leaf))  [1-0/20 1-0/1] minority:f0 few:t26:1
        f0 > t27: itself (NoCallees(Leaf))  [1-0/20 1-0/1] minority:f0 few:t27:1
        f0 > t28: itself (NoCallees(Leaf))  [1-0/20 1-0/1] minority:f0 few:t28:1
        f0 > t29: itself (NoCallees(Leaf))  [1-0/20 1-0/1] minority:f0 few:t29:1
        f0 > t30: itself (NoCallees(Leaf))  [1-0/20 1-0/1] minority:f0 few:t30:1
        f0 > t31: itself (NoCallees(Leaf))  [1-0/20 1-0/1] minority:f0 few:t31:1
        f0 > t32: itself (NoCallees(Leaf))  [1-0/20 1-0/1] minority:f0 few:t32:1
        f0 > t33: itself (NoCallees(Leaf))  [1-0/20 1-0/1] minority:f0 few:t33:1
        f0 > t34: itself (NoCallees(Leaf))  [1-0/20 1-0/1] minority:f0 few:t34:1
        f0 > t35: itself (NoCallees(Leaf))  [1-0/20 1-0/1] minority:f0 few:t35:1
        f0 > t36: itself (NoCallees(Leaf))  [1-0/20 1-0/1] minority:f0 few:t36:1
        f0 > t37: itself (NoCallees(Leaf))  [1-0/20 1-0/1] minority:f0 few:t37:1
        f0 > t38: itself (NoCallees(Leaf))  [1-0/20 1-0/1] minority:f0 few:t38:1
        f0 > t39: itself (NoCallees(Leaf))  [1-0/20 1-0/1] minority:f0 few:t39:1
        f0 > t40: itself (NoCallees(Leaf))  [1-0/20 1-0/1] minority:f0 few:t40:1
        f0 > t41: itself (NoCallees(Leaf))  [1-0/20 1-0/1] minority:f0 few:t41:1
    "#]],
        ),
        (
            300,
            expect![[r#"
        RootCauseFound
        f0 > ?: unknown target (UnknownTarget)  [20-0/20 20-0/20] targets:f0
    "#]],
        ),
    ] {
        let mut text = String::from("f0 10us\n  z 1us\n");
        for target in 0..targets {
            text += &format!("  t{target} 900us indirect site 1 1/{targets}+{target}\n");
        }
        check(&text, expected);
    }
}

/// The cost of two uprobes.
const UPROBES: ProbeCost = ProbeCost { inside_ns: 600, outside_ns: 600 };

fn with_cost(drawing: &str, peak: LatencyRange, cost: ProbeCost) -> (String, u64) {
    let drawing = Drawing::new(drawing);
    let mut driver = drawing.driver(Parameters::default(), cost);
    let calls = drawing.run(&mut driver, peak, 5000);
    (drawing.answers(&driver.machine), calls)
}

#[test]
fn time_of_probes_is_taken_off_and_a_vote_that_depends_on_it_is_a_doubt() {
    // 500 calls at 100 ns: with probes they take 650 us more.
    let drawing = "f0 10us\n  a 100ns x500\n  b 300us";
    expect![[r#"
        RootCauseFound
        f0 > b: itself (NoCallees(Leaf))  [20-0/20 20-0/20] probes:f0:20
    "#]]
    .assert_eq(&with_cost(drawing, ALL, UPROBES).0);
    // Without a doubt where probe time is small beside the answer.
    expect![[r#"
        RootCauseFound
        f0 > b: itself (NoCallees(Leaf))  [20-0/20 20-0/20]
    "#]]
    .assert_eq(&with_cost("f0 10us\n  a 100ns x50\n  b 900us", ALL, UPROBES).0);
    // The answer is the rest after taking off mostly probes.
    expect![[r#"
        RootCauseFound
        f0: calls a 500 times  [20-0/20] probes:f0:20
    "#]]
    .assert_eq(&with_cost("f0 10us\n  a 1us x500\n  b 100us", ALL, UPROBES).0);
}

#[test]
fn a_call_is_within_the_peak_without_the_time_of_its_probes() {
    let peak = LatencyRange { from_ns: 262_144, to_ns: 524_287 };
    let (answers, calls) = with_cost("f0 10us\n  a 100ns x500\n  b 300us", peak, UPROBES);
    expect![[r#"
        RootCauseFound
        f0 > b: itself (NoCallees(Leaf))  [20-0/20 20-0/20] probes:f0:20 shift:20
    "#]]
    .assert_eq(&answers);
    assert_eq!(calls, 20);
}

#[test]
fn records_that_overflowed_or_were_lost_are_a_doubt() {
    let drawing = Drawing::new("f0 10us\n  a 900us");
    let mut driver = drawing.driver(Parameters::default(), ProbeCost::default());
    driver.handle(Event::Lost { calls: 5 });
    driver.handle(Event::Peak(ALL));
    driver.handle(Event::Lost { calls: 3 });
    let overflowed = CallRecord { epoch: driver.probes.epoch, overflowed: true, ..CallRecord::default() };
    driver.handle(Event::Call(overflowed));
    drawing.run_on(&mut driver, 0, 100);
    expect![[r#"
        RootCauseFound
        f0 > a: itself (NoCallees(Leaf))  [20-0/20 20-0/20] missing:4
    "#]]
    .assert_eq(&drawing.answers(&driver.machine));
    expect!["Calls { used: 20, outside_peak: 0, outdated: 0, overflowed: 1, lost: 8 }"]
        .assert_eq(&format!("{:?}", driver.machine.calls()));
}

#[test]
fn a_change_of_the_distribution_is_a_doubt() {
    let drawing = Drawing::new("f0 10us\n  a 900us");
    let mut driver = drawing.driver(Parameters::default(), ProbeCost::default());
    driver.handle(Event::Peak(ALL));
    driver.handle(Event::Drift(Drift { earth_mover: 180.0 }));
    drawing.run_on(&mut driver, 0, 100);
    expect![[r#"
        RootCauseFound
        f0 > a: itself (NoCallees(Leaf))  [20-0/20 20-0/20] drift:180
    "#]]
    .assert_eq(&drawing.answers(&driver.machine));
}
