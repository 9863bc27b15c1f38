//! The path by samples and waits.

use wakepath_symbols::Function;

use super::*;

fn frame(name: &str) -> Frame {
    let function = Function { name: name.to_owned(), module: Some(b"app".to_vec()), line: None };
    Frame { found: Found::Function(function), in_kernel: false, proved: true }
}

const SAMPLE: Spent = Spent { samples: 1, waits: 0, waited_ns: 0 };

/// Ten selected calls of 10 ms and ten usual ones of 1 ms, of which this part of the time ran.
fn tree(asked_ran_ms: u64, usual_ran_ms: u64) -> FunctionTree {
    let mut tree = FunctionTree::default();
    let times = |ran_ms: u64, total_ms: u64| GroupTimes {
        calls: 10,
        ran_ns: ran_ms * 10_000_000,
        ready_ns: 0,
        total_ns: total_ms * 10_000_000,
    };
    tree.add_calls(true, times(asked_ran_ms, 10));
    tree.add_calls(false, times(usual_ran_ms, 1));
    tree
}

/// Adds samples in the functions `a > b > c`.
fn samples(tree: &mut FunctionTree, is_asked: bool, count: u64, functions: &str) {
    let functions: Vec<_> = functions.split(" > ").filter(|name| !name.is_empty()).map(frame).collect();
    (0..count).for_each(|_| tree.add(is_asked, SAMPLE, Some(functions.iter().cloned())));
}

fn waits(tree: &mut FunctionTree, is_asked: bool, count: u64, ms: u64, functions: &str) {
    let functions: Vec<_> = functions.split(" > ").filter(|name| !name.is_empty()).map(frame).collect();
    let spent = Spent { samples: 0, waits: 1, waited_ns: ms * 1_000_000 };
    (0..count).for_each(|_| tree.add(is_asked, spent, Some(functions.iter().cloned())));
}

/// The path's functions, each with its difference, ms per call.
fn steps(path: &SampledPath) -> Vec<(String, f64)> {
    let name = |frame: &Frame| match &frame.found {
        Found::Function(function) => function.name.clone(),
        _ => String::new(),
    };
    path.steps.iter().map(|step| (name(&step.frame), step.more_ns / 1e6)).collect()
}

fn step(name: &str, ms: f64) -> (String, f64) {
    (name.to_owned(), ms)
}

#[test]
fn the_path_goes_down_to_the_function_with_most_of_the_difference() {
    let mut tree = tree(10, 1);
    samples(&mut tree, true, 60, "a > b > c");
    samples(&mut tree, true, 30, "a > b");
    samples(&mut tree, true, 10, "d");
    samples(&mut tree, false, 10, "d");
    let path = tree.path();
    // A sample stands for 0.1 ms of a call in both groups.
    assert_eq!(steps(&path), [step("a", 9.0), step("b", 9.0), step("c", 6.0)]);
    assert_eq!((path.more_ns, path.own_ns, path.waits), (9e6, 6e6, false));
    assert_eq!(path.doubts, []);
    assert_eq!(path.steps[2].spent, Spent { samples: 60, ..Spent::default() });
    assert_eq!((path.spent.samples, path.times.asked.calls), (100, 10));
}

#[test]
fn what_usual_calls_have_too_makes_nothing_slow() {
    let mut tree = tree(10, 1);
    // Most of a slow call's time, and as much of a usual call's.
    let times = GroupTimes { calls: 0, ran_ns: 50_000_000, ready_ns: 0, total_ns: 50_000_000 };
    tree.add_calls(false, times);
    samples(&mut tree, true, 60, "always");
    samples(&mut tree, false, 60, "always");
    samples(&mut tree, true, 40, "sometimes");
    let path = tree.path();
    assert_eq!(steps(&path), [step("sometimes", 4.0)]);
    assert_eq!(path.more_ns, 4e6);
}

#[test]
fn a_function_whose_own_time_is_the_largest_ends_the_path() {
    let mut tree = tree(10, 0);
    samples(&mut tree, true, 60, "a");
    samples(&mut tree, true, 30, "a > b");
    samples(&mut tree, true, 10, "");
    let path = tree.path();
    assert_eq!(steps(&path), [step("a", 9.0)]);
    assert_eq!(path.own_ns, 6e6);
    assert_eq!(path.doubts, []);
    // The asked function itself.
    let mut tree = self::tree(10, 0);
    samples(&mut tree, true, 90, "");
    samples(&mut tree, true, 10, "a");
    let path = tree.path();
    assert_eq!((steps(&path), path.own_ns), (vec![], 9e6));
}

#[test]
fn waits_have_their_own_time_beside_samples() {
    let mut tree = tree(1, 1);
    samples(&mut tree, true, 100, "a");
    waits(&mut tree, true, 10, 9, "take > lock");
    samples(&mut tree, false, 10, "a");
    let path = tree.path();
    assert_eq!(steps(&path), [step("take", 9.0), step("lock", 9.0)]);
    assert_eq!((path.own_ns, path.waits), (9e6, true));
    let spent = Spent { samples: 0, waits: 10, waited_ns: 90_000_000 };
    assert_eq!(path.steps[0].spent, spent);
    // Where most of the last function's own time ran, it did not wait.
    let mut tree = self::tree(5, 0);
    samples(&mut tree, true, 100, "a");
    waits(&mut tree, true, 10, 4, "a");
    assert!(!tree.path().waits);
    // Nor if the waits are below it.
    waits(&mut tree, true, 10, 4, "a > b");
    assert_eq!((steps(&tree.path()).len(), tree.path().waits), (1, false));
}

#[test]
fn recursion_is_a_single_step_and_lines_of_a_function_are_one_function() {
    let mut tree = tree(10, 0);
    samples(&mut tree, true, 30, "sort > sort > sort > compare");
    samples(&mut tree, true, 10, "sort > compare");
    let of_line = |line| {
        let mut frame = frame("compare");
        if let Found::Function(function) = &mut frame.found {
            function.line = Some((String::from("a.c"), line));
        }
        [self::frame("sort"), frame]
    };
    (0..10).for_each(|line| tree.add(true, SAMPLE, Some(of_line(line))));
    let path = tree.path();
    assert_eq!(steps(&path), [step("sort", 10.0), step("compare", 10.0)]);
    assert_eq!(path.steps[1].frame, frame("compare"));
    // A step is no longer than this, also where functions call each other in turn.
    let mut tree = self::tree(10, 0);
    let deep = vec!["a > b"; 100].join(" > ");
    samples(&mut tree, true, 30, &deep);
    assert_eq!(tree.path().steps.len(), 64);
}

#[test]
fn too_few_samples_and_waits_are_a_doubt() {
    for (in_samples, in_waits, few) in [(29, 9, true), (30, 0, false), (0, 10, false)] {
        let mut tree = tree(5, 0);
        samples(&mut tree, true, in_samples, "a");
        waits(&mut tree, true, in_waits, 1, "b");
        // Those of usual calls do not count.
        samples(&mut tree, false, 100, "a");
        waits(&mut tree, false, 100, 1, "b");
        assert_eq!(tree.path().doubts.contains(&SampledDoubt::Few), few, "{in_samples} {in_waits}");
    }
}

#[test]
fn stacks_that_do_not_reach_the_function_are_a_doubt_above_a_tenth() {
    for (placed, lost, is_doubt) in [(90, 10, false), (89, 11, true)] {
        let mut tree = tree(10, 0);
        samples(&mut tree, true, placed, "a");
        (0..lost).for_each(|_| tree.add(true, SAMPLE, None::<[Frame; 0]>));
        let path = tree.path();
        let expected = [SampledDoubt::Unplaced(lost, 100)];
        assert_eq!(path.doubts, if is_doubt { &expected[..] } else { &[] }, "{lost}");
        // They are a part of the time too.
        assert_eq!(path.steps[0].more_ns, placed as f64 * 1e5);
        assert_eq!(path.spent.samples, 100);
    }
}

#[test]
fn parts_within_the_samples_error_are_a_doubt() {
    let doubts = |first: u64, second: u64, at: &str| {
        let mut tree = tree(10, 0);
        samples(&mut tree, true, first, "a > b");
        samples(&mut tree, true, second, at);
        (tree.path().doubts, tree.path().steps.len())
    };
    // The difference of 60 and 40 is two standard deviations, 2 × √100; of 61 and 39 more.
    for (first, second, is_close) in [(60, 41, true), (61, 39, false)] {
        let close = |step, other: Option<&str>| {
            if is_close { vec![SampledDoubt::Close(step, other.map(frame))] } else { vec![] }
        };
        assert_eq!(doubts(first, second, "c"), (close(0, Some("c")), 2));
        assert_eq!(doubts(first, second, ""), (close(0, None), 2));
        assert_eq!(doubts(first, second, "a"), (close(1, None), 2));
        assert_eq!(doubts(second, first, "a"), (close(1, Some("b")), 1));
    }
    // Nothing is no part, however few the samples are.
    assert_eq!(doubts(3, 0, "c"), (vec![SampledDoubt::Few], 2));
}

#[test]
fn the_time_without_a_cpu_is_no_functions() {
    let mut tree = tree(6, 1);
    tree.add_calls(true, GroupTimes { ready_ns: 40_000_000, ..GroupTimes::default() });
    tree.add_calls(false, GroupTimes { ready_ns: 10_000_000, ..GroupTimes::default() });
    samples(&mut tree, true, 60, "a");
    samples(&mut tree, false, 10, "a");
    let path = tree.path();
    assert_eq!((path.ready_ns, path.more_ns), (3e6, 9e6));
    assert_eq!(steps(&path), [step("a", 5.0)]);
}

#[test]
fn the_kernels_work_for_probes_is_no_functions_and_keeps_its_part_of_the_time() {
    let mut tree = tree(10, 1);
    samples(&mut tree, true, 40, "a");
    (0..60).for_each(|_| tree.add_probe(true));
    samples(&mut tree, false, 5, "a");
    (0..5).for_each(|_| tree.add_probe(false));
    let path = tree.path();
    // A sample stands for 0.1 ms in both groups, in a probe too.
    assert_eq!((steps(&path), path.probes_ns), (vec![step("a", 3.5)], 5.5e6));
    assert_eq!((path.more_ns, path.own_ns, path.spent.samples), (9e6, 3.5e6, 40));
    assert_eq!(path.doubts, []);
    // Samples in probes rank no functions, however many there are.
    let mut tree = self::tree(10, 1);
    samples(&mut tree, true, 29, "a");
    (0..60).for_each(|_| tree.add_probe(true));
    assert_eq!(tree.path().doubts, [SampledDoubt::Few]);
    // A sample in a probe changes no error: 60 and 40 differ by two standard deviations.
    for (second, is_close) in [(41, true), (39, false)] {
        let mut tree = self::tree(10, 0);
        samples(&mut tree, true, 60 + u64::from(!is_close), "a");
        samples(&mut tree, true, second, "b");
        (0..100).for_each(|_| tree.add_probe(true));
        assert_eq!(tree.path().doubts.len(), usize::from(is_close), "{second}");
    }
}
