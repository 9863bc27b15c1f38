//! The six measures' errors on profiles of operations on a real machine, and whether these support the default.
//!
//! `packaging/profiles` made them, four or more for each operation in each condition. Pairs are labelled by
//! construction: two runs in the same condition, or a run in the base condition and a run in another, whatever its
//! effect. A pair's runs are never from the same round, so that both sorts of pairs are equally far apart in time.
//! Thresholds are chosen on every other operation by name and judged on the rest.
//!
//! The limits were argued before any measurement. A test cannot judge the noise on the machine that made the profiles,
//! so they are relative. A measure without information reports as many changed pairs as others: the default has to find
//! at least 30 in 100 more. No other threshold for its measure may be better by more than 15 in 100, in both errors
//! together; otherwise these pairs do not support the default.
//!
//! The tables are printed by `cargo test -p wakepath-distribution --test profiles -- --ignored --nocapture measured`,
//! which writes the figure too if `WAKEPATH_FIGURE` names a file.

use std::collections::BTreeMap;

use wakepath_distribution::evaluation::{DEFAULT_MEASURE, DEFAULT_THRESHOLD, Errors, LEVEL, MIN_CALLS, Pair};
use wakepath_distribution::{BUCKETS, Histogram, Measure, Unit};

use crate::tables::{chosen, figure, print_tables, scores};

pub const MEASURED: &str = include_str!("measured.txt");

/// Runs by condition.
pub type Conditions<'t> = BTreeMap<&'t str, BTreeMap<u32, Histogram>>;

/// Conditions by operation and counted target.
pub fn profiles(text: &str) -> BTreeMap<(&str, &str), Conditions<'_>> {
    let mut profiles: BTreeMap<_, Conditions<'_>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let mut word = || words.next().expect("OPERATION CONDITION RUN TARGET");
        let (operation, condition, run, target) = (word(), word(), word().parse().expect("a run"), word());
        let mut counts = [0; BUCKETS];
        for bucket in words {
            let (index, count) = bucket.split_once(':').expect("BUCKET:COUNT");
            counts[index.parse::<usize>().expect("a bucket")] = count.parse().expect("a count");
        }
        // Sums are not kept: no measure uses them.
        let histogram = Histogram::from_counters(Unit::Nanoseconds, counts, 0);
        if histogram.calls() >= MIN_CALLS {
            profiles
                .entry((operation, target))
                .or_default()
                .entry(condition)
                .or_default()
                .insert(run, histogram);
        }
    }
    profiles
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Half {
    Choosing,
    Judging,
}

/// Whether a pair's runs did the same work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Any,
    Same,
    Other,
}

impl Work {
    /// Every other run does half as much again.
    fn takes(self, first: u32, second: u32) -> bool {
        match self {
            Work::Any => true,
            Work::Same => (first + second).is_multiple_of(2),
            Work::Other => !(first + second).is_multiple_of(2),
        }
    }
}

fn half(text: &str, operation: &str) -> Half {
    let mut operations: Vec<&str> = profiles(text).keys().map(|(operation, _)| *operation).collect();
    operations.dedup();
    let place = operations.iter().position(|&found| found == operation);
    if place.is_some_and(|place| place % 2 == 0) { Half::Choosing } else { Half::Judging }
}

/// Pairs with their operation, target and condition.
fn labelled(wanted: Half, work: Work) -> Vec<([&'static str; 3], Pair)> {
    let mut pairs = Vec::new();
    for ((operation, target), conditions) in &profiles(MEASURED) {
        if half(MEASURED, operation) != wanted {
            continue;
        }
        for (&condition, runs) in conditions {
            let mut pair = |first: &BTreeMap<u32, Histogram>, changed| {
                for (&a, first) in first {
                    for (_, second) in runs.iter().filter(|&(&b, _)| a < b && work.takes(a, b)) {
                        let pair = Pair { first: first.clone(), second: second.clone(), changed };
                        pairs.push(([*operation, *target, condition], pair));
                    }
                }
            };
            pair(runs, false);
            if let Some(base) = conditions.get("base").filter(|_| condition != "base") {
                pair(base, true);
            }
        }
    }
    pairs
}

fn pairs(half: Half, work: Work) -> Vec<Pair> {
    labelled(half, work).into_iter().map(|(_, pair)| pair).collect()
}

/// The reported share of changed pairs less the reported share of same-condition pairs.
fn reported_share(errors: Errors) -> f64 {
    1.0 - errors.false_negative_rate().expect("changed pairs")
        - errors.false_positive_rate().expect("same ones")
}

#[test]
fn there_are_pairs_of_both_sorts_of_enough_operations() {
    let profiles = profiles(MEASURED);
    for ((operation, target), conditions) in &profiles {
        assert!(conditions.contains_key("base"), "{operation} {target}");
        assert!(conditions.len() >= 3, "{operation} {target}: {:?}", conditions.keys());
    }
    for half in [Half::Choosing, Half::Judging] {
        let pairs = labelled(half, Work::Any);
        let mut operations: Vec<&str> = pairs.iter().map(|([operation, ..], _)| *operation).collect();
        operations.dedup();
        assert!(operations.len() >= 5, "{half:?}: {operations:?}");
        for changed in [false, true] {
            let count = pairs.iter().filter(|(_, pair)| pair.changed == changed).count();
            assert!(count >= 100, "{half:?}, changed {changed}: {count}");
        }
    }
}

#[test]
fn the_default_is_what_the_choosing_half_chooses() {
    let pairs = pairs(Half::Choosing, Work::Any);
    let (measure, errors) = chosen(&pairs);
    assert_eq!(measure, DEFAULT_MEASURE);
    assert_eq!(errors.threshold.ceil(), DEFAULT_THRESHOLD);
}

#[test]
fn the_default_errs_within_its_limits_on_the_judging_half() {
    let errors = scores(DEFAULT_MEASURE, &pairs(Half::Judging, Work::Any)).errors(DEFAULT_THRESHOLD);
    assert!(errors.false_positive_rate().unwrap() <= 0.1, "{errors:?}");
    // Better than chance: it finds far more changed pairs than others.
    assert!(reported_share(errors) >= 0.3, "{errors:?}");
    for threshold in 1..200 {
        let other = scores(DEFAULT_MEASURE, &pairs(Half::Judging, Work::Any)).errors(f64::from(threshold));
        assert!(reported_share(other) <= reported_share(errors) + 0.15, "{threshold}: {other:?}");
    }
}

#[test]
#[ignore = "prints tables; asserts nothing"]
fn measured_table() {
    println!("{}", MEASURED.lines().next().unwrap_or_default());
    for work in [Work::Any, Work::Same, Work::Other] {
        println!("\nWork: {work:?}\n");
        print_tables(&pairs(Half::Choosing, work), &pairs(Half::Judging, work));
    }
    println!(
        "\n| half | operation | target | condition | same, told apart | changed, found |\n|---|---|---|---|---|---|"
    );
    let mut found: BTreeMap<_, [u64; 4]> = BTreeMap::new();
    for half in [Half::Choosing, Half::Judging] {
        for (label, pair) in labelled(half, Work::Any) {
            let score = DEFAULT_MEASURE.score(&pair.first, &pair.second).unwrap();
            let counts = found.entry((half == Half::Judging, label)).or_default();
            let at = if pair.changed { 2 } else { 0 };
            counts[at] += u64::from(score > DEFAULT_THRESHOLD);
            counts[at + 1] += 1;
        }
    }
    for ((judging, [operation, target, condition]), [a, of_a, b, of_b]) in found {
        let half = if judging { "judging" } else { "choosing" };
        println!("| {half} | {operation} | {target} | {condition} | {a} of {of_a} | {b} of {of_b} |");
    }
    println!("\nAt {LEVEL} on all pairs of one condition:");
    let all = [pairs(Half::Choosing, Work::Any), pairs(Half::Judging, Work::Any)].concat();
    for measure in Measure::ALL {
        println!("{measure}: {:?}", scores(measure, &all).at_level(LEVEL));
    }
    if let Some(file) = std::env::var_os("WAKEPATH_FIGURE") {
        std::fs::write(file, figure(&pairs(Half::Judging, Work::Any))).expect("a file to write");
    }
}
