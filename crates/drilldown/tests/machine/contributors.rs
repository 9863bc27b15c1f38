//! Takers of a function's time (Traeger 2008, section 3.12): preemption, interrupts, the hypervisor.

use expect_test::expect;

use crate::drawing::check;

#[test]
fn what_takes_the_time_in_one_function_is_the_answer_there() {
    check(
        "f0 10us\n  a 20us\n    b 30us preempted 900us\n    c 40us",
        expect![[r#"
        RootCauseFound
        f0 > a > b: preempted (NoCallees(Leaf))  [20-0/20 20-0/20 20-0/20]
    "#]],
    );
    check(
        "f0 10us\n  a 20us\n    b 30us irq236 900us irq32 100us\n    c 40us",
        expect![[r#"
        RootCauseFound
        f0 > a > b: interrupt 236 (NoCallees(Leaf))  [20-0/20 20-0/20 20-0/20]
    "#]],
    );
    check(
        "f0 10us\n  a 20us\n    b 30us stolen 900us\n    c 40us",
        expect![[r#"
        RootCauseFound
        f0 > a > b: stolen (NoCallees(Leaf))  [20-0/20 20-0/20 20-0/20]
    "#]],
    );
}

#[test]
fn what_takes_the_time_of_a_function_with_callees_is_not_its_own_time() {
    check(
        "f0 10us\n  a 100us preempted 900us\n    b 30us",
        expect![[r#"
        RootCauseFound
        f0 > a: preempted  [20-0/20 20-0/20]
    "#]],
    );
}

#[test]
fn interrupts_of_one_number_add_up_and_those_of_two_do_not() {
    check(
        "f0 300us irq1 200us irq1 201us\n  a 10us",
        expect![[r#"
        RootCauseFound
        f0: itself  [20-0/20]
        f0: interrupt 1  [20-0/20]
    "#]],
    );
    check(
        "f0 300us irq1 200us irq2 201us\n  a 10us",
        expect![[r#"
            RootCauseFound
            f0: itself  [20-0/20] close:f0
        "#]],
    );
}

#[test]
fn preemption_that_hits_any_callee_is_the_answer_at_their_caller() {
    check(
        "f0 10us
           a 10us
             b 20us preempted 900us 1/3 site 0
             b 20us 2/3+1 site 0
             c 20us preempted 900us 1/3+1 site 1
             c 20us 2/3+2 site 1
             d 20us preempted 900us 1/3+2 site 2
             d 20us 2/3 site 2",
        expect![[r#"
            RootCauseFound
            f0 > a: preempted, spread  [20-0/20 20-7/20] close:a
        "#]],
    );
}

#[test]
fn preemption_that_hits_two_callees_leads_to_both() {
    check(
        "f0 10us
           a 10us
             b 20us preempted 900us 1/2 site 0
             b 20us 1/2+1 site 0
             c 20us preempted 900us 1/2+1 site 1
             c 20us 1/2 site 1",
        expect![[r#"
            RootCauseFound
            f0 > a > b: preempted (NoCallees(Leaf))  [20-0/20 10-0/20 10-0/10]
            f0 > a > c: preempted (NoCallees(Leaf))  [20-0/20 10-0/20 10-0/10]
        "#]],
    );
}

#[test]
fn preemption_that_hits_one_callee_most_of_the_time_leads_there() {
    check(
        "f0 10us
           b 20us preempted 900us 19/20 site 0
           b 20us 1/20+19 site 0
           c 20us preempted 900us 1/20+19 site 1
           c 20us 19/20 site 1",
        expect![[r#"
            RootCauseFound
            f0 > b: preempted (NoCallees(Leaf))  [19-1/20 19-0/19]
        "#]],
    );
}

#[test]
fn preemption_beside_slow_code_is_one_answer_of_two() {
    check(
        "f0 10us\n  a 600us preempted 700us\n  b 10us",
        expect![[r#"
        RootCauseFound
        f0 > a: itself (NoCallees(Leaf))  [20-0/20 20-0/20]
        f0 > a: preempted (NoCallees(Leaf))  [20-0/20 20-0/20]
    "#]],
    );
}

#[test]
fn preemption_of_less_than_half_the_time_is_not_spread() {
    check(
        "f0 10us
           a 500us preempted 300us 1/2 site 0
           a 500us 1/2+1 site 0
           b 30us preempted 300us 1/2+1",
        expect![[r#"
            RootCauseFound
            f0 > a: itself (NoCallees(Leaf))  [20-10/20 20-10/20] close:f0 close:a
        "#]],
    );
}
