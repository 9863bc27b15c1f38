//! A watch on a made-up service: how many changes it notices, how soon, and its false notices.
//!
//! Slices are 10 s. A week without any change is watched, on rarely called services and on an often called service;
//! then changes are planted. All chance has fixed seeds. The tables are printed by `cargo test -p wakepath-distribution
//! --test profiles -- --nocapture watched`.
//!
//! A planted change's expected score is the moved calls, in percent, times their distance in buckets: 25% that take
//! four times as long score 50, and stay below the threshold, 58.
//!
//! A made-up service has chance alone. A machine does more, so that the same rule is also tried on measured profiles of
//! operations in the same condition, each profile for a piece, in random order.

use std::time::Duration;

use wakepath_distribution::evaluation::MIN_CALLS;
use wakepath_distribution::watch::{ChangeDetector, Notice, NoticeCounts, Stretch};
use wakepath_distribution::{Histogram, Unit};

use crate::measured::{MEASURED, profiles};
use crate::rng::Rng;
use crate::service::{Change, Service};

const SLICE: Duration = Duration::from_secs(10);
const SLICES_IN_A_WEEK: u32 = 7 * 24 * 360;

fn slice(at: u32, histogram: Histogram) -> Stretch {
    Stretch::new(SLICE * at, SLICE * (at + 1), histogram)
}

/// A week's news with these slices.
fn week(mut calls: impl FnMut() -> Histogram) -> NoticeCounts {
    let mut detector = ChangeDetector::default();
    for at in 0..SLICES_IN_A_WEEK {
        detector.observe(&slice(at, calls()), 0).expect("one unit");
    }
    detector.counts()
}

#[test]
fn watched_for_a_week_without_a_change_no_change_is_noticed() {
    for seed in 0..3 {
        let mut rng = Rng::new(3 << 40 | seed);
        let mut service = Service::draw(&mut rng);
        let found = week(|| {
            let calls = rng.poisson(20.0) as usize;
            service.calls(calls, &mut rng)
        });
        println!("20 calls a slice, seed {seed}: {found:?}");
        assert_eq!(found, NoticeCounts::default(), "seed {seed}");
    }
    // Where each slice is a piece, there are fifty times as many chances.
    let mut rng = Rng::new(3 << 40 | 3);
    let shares = *Service::draw(&mut rng).calls(20_000, &mut rng).counts();
    let found = week(|| {
        let counts = shares.map(|count| rng.poisson(count as f64 * 1500.0 / 20_000.0));
        Histogram::from_counters(Unit::Nanoseconds, counts, 0)
    });
    println!("1500 calls a slice: {found:?}");
    assert_eq!(found, NoticeCounts::default());
}

/// The number of pieces with 1000 calls from a change to its notice; `None` if it was not within ten.
fn noticed(change: Change, seed: u64) -> Option<u32> {
    let mut rng = Rng::new(4 << 40 | seed);
    let mut service = Service::draw(&mut rng);
    let mut detector = ChangeDetector::default();
    for at in 0..22 {
        if at == 12 {
            service.change(change);
        }
        let piece = service.calls(MIN_CALLS as usize, &mut rng);
        let news = detector.observe(&slice(at, piece), 0).expect("one unit");
        if news.iter().any(|notice| matches!(notice, Notice::Changed(_))) {
            return Some(at + 1 - 12);
        }
    }
    None
}

#[test]
fn watched_changes_are_noticed_by_their_size() {
    const EACH: u64 = 10;
    let shares = [0.05, 0.1, 0.25, 0.5, 1.0];
    let slowed = [2.0, 4.0, 10.0].into_iter().flat_map(|times| {
        shares.map(|share| {
            (format!("{:.0}% take {times} times as long", share * 100.0), Change::Slowed(share, times))
        })
    });
    let locks = [0.03, 0.1, 0.15, 0.25, 0.5]
        .map(|share| (format!("{:.0}% wait for a lock", share * 100.0), Change::Cause(share)));
    let mut table = String::new();
    for (row, (name, change)) in slowed.chain(locks).enumerate() {
        let pieces: Vec<u32> =
            (0..EACH).filter_map(|seed| noticed(change, (row as u64) << 20 | seed)).collect();
        let last =
            pieces.iter().max().map_or_else(String::new, |most| format!(", after at most {most} pieces"));
        table += &format!("{name}: {} of {EACH}{last}\n", pieces.len());
    }
    println!("{table}");
    assert_eq!(table, EXPECTED);
}

/// The changes that the rule notices among same-condition profiles, and the pieces.
#[test]
fn watched_profiles_of_one_condition_on_a_real_machine_are_changes_in_8_of_78_series() {
    const PIECES: u32 = 200;
    let mut rng = Rng::new(5 << 40);
    let (mut series, mut with_changes, mut changes, mut short) = (0, 0, 0, 0);
    for conditions in profiles(MEASURED).values() {
        for runs in conditions.values().filter(|runs| runs.len() >= 3) {
            let runs: Vec<&Histogram> = runs.values().collect();
            let mut detector = ChangeDetector::default();
            for at in 0..PIECES {
                let run = runs[(rng.uniform() * runs.len() as f64) as usize];
                detector.observe(&slice(at, run.clone()), 0).expect("one unit");
            }
            let found = detector.counts();
            series += 1;
            with_changes += u32::from(found.changed > 0);
            changes += found.changed;
            short += found.short;
        }
    }
    println!(
        "{series} series of {PIECES} pieces: {with_changes} with changes, {changes} changes, {short} short"
    );
    assert_eq!((series, with_changes, changes, short), (78, 8, 101, 189));
}

const EXPECTED: &str = "\
5% take 2 times as long: 0 of 10
10% take 2 times as long: 0 of 10
25% take 2 times as long: 0 of 10
50% take 2 times as long: 1 of 10, after at most 2 pieces
100% take 2 times as long: 10 of 10, after at most 2 pieces
5% take 4 times as long: 0 of 10
10% take 4 times as long: 0 of 10
25% take 4 times as long: 3 of 10, after at most 6 pieces
50% take 4 times as long: 10 of 10, after at most 2 pieces
100% take 4 times as long: 10 of 10, after at most 2 pieces
5% take 10 times as long: 0 of 10
10% take 10 times as long: 0 of 10
25% take 10 times as long: 10 of 10, after at most 2 pieces
50% take 10 times as long: 10 of 10, after at most 2 pieces
100% take 10 times as long: 10 of 10, after at most 2 pieces
3% wait for a lock: 0 of 10
10% wait for a lock: 8 of 10, after at most 5 pieces
15% wait for a lock: 10 of 10, after at most 5 pieces
25% wait for a lock: 10 of 10, after at most 2 pieces
50% wait for a lock: 10 of 10, after at most 2 pieces
";
