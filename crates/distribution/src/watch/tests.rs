//! The rule by drawings: a letter is a slice of one second.
//!
//! | letter | calls |
//! |---|---|
//! | `a` `b` `c` `e` | 1000 in bucket 10, 11, 14, 18 |
//! | `x` | 500 like `a` and 500 like `c` |
//! | `A` `C` | 250 like `a` or `c`: four make a piece |
//! | `i` | 20 like `a`: fifty make a piece |
//! | `.` | none; three are open |

use super::history::MAX_HISTORY_PARTS;
use super::*;
use crate::histogram::{BUCKETS, Unit};

fn of(counts: &[(usize, u64)]) -> Histogram {
    let mut buckets = [0; BUCKETS];
    counts.iter().for_each(|&(bucket, count)| buckets[bucket] = count);
    let sum = counts.iter().map(|&(bucket, count)| u128::from(count) << bucket).sum();
    Histogram::from_counters(Unit::Nanoseconds, buckets, sum)
}

fn letter(letter: char) -> Histogram {
    match letter {
        'a' => of(&[(10, 1000)]),
        'b' => of(&[(11, 1000)]),
        'c' => of(&[(14, 1000)]),
        'e' => of(&[(18, 1000)]),
        'x' => of(&[(10, 500), (14, 500)]),
        'A' => of(&[(10, 250)]),
        'C' => of(&[(14, 250)]),
        'i' => of(&[(10, 20)]),
        _ => of(&[]),
    }
}

const fn second(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// The slice with this number.
fn slice(at: u64, histogram: Histogram) -> Stretch {
    Stretch::new(second(at), second(at + 1), histogram)
}

fn words(notice: &Notice) -> String {
    match notice {
        Notice::Usual(piece) => format!("usual since {}", piece.from.as_secs()),
        Notice::Changed(change) => {
            let Change { since, as_it_was, alarm, .. } = &**change;
            let earlier =
                as_it_was.map(|(from, to)| format!(", as from {} to {}", from.as_secs(), to.as_secs()));
            let verb = match alarm {
                Alarm::Rings => "changed",
                Alarm::Wavers => "wavers",
                Alarm::Quiet => "(changed)",
            };
            format!("{verb} since {}{}", since.as_secs(), earlier.unwrap_or_default())
        }
        Notice::Settled { change, quiet } => {
            let Change { since, before, as_it_was, .. } = &**change;
            let verb = if as_it_was.is_some() { "as before" } else { "other than" };
            let [since, from, to] = [since, &before.from, &before.to].map(Duration::as_secs);
            format!("settled since {since} after {quiet}, {verb} {from} to {to}")
        }
        Notice::Short(Short { from, piece, quiet, .. }) => {
            let [from, to] = [from, &piece.to].map(Duration::as_secs);
            if *quiet { format!("(short {from} to {to})") } else { format!("short {from} to {to}") }
        }
        Notice::Stopped(Stop { since, expected, open }) => {
            format!("stopped since {}, {expected:.0} expected, {open} open", since.as_secs())
        }
        Notice::Back { stopped, back } => format!("back after {}", (*back - *stopped).as_secs()),
    }
}

/// A drawing's news, each with the time at which it came.
fn news(drawing: &str) -> Vec<String> {
    let mut detector = ChangeDetector::default();
    let mut all = Vec::new();
    for (at, drawn) in (0..).zip(drawing.chars()) {
        let found = detector.observe(&slice(at, letter(drawn)), 3).expect("one unit");
        all.extend(found.iter().map(|notice| format!("{}: {}", at + 1, words(notice))));
    }
    all
}

#[track_caller]
fn check(drawing: &str, expected: &[&str]) {
    assert_eq!(news(drawing), expected, "{drawing}");
}

#[test]
fn a_distribution_that_stays_has_no_news() {
    check("", &[]);
    check(&"a".repeat(40), &["1: usual since 0"]);
}

#[test]
fn a_lasting_change_is_noticed_with_its_second_piece_since_its_first() {
    check("aaaacccc", &["1: usual since 0", "6: changed since 4"]);
}

#[test]
fn the_piece_in_which_a_change_comes_is_like_neither_side() {
    check("aaaaxccc", &["1: usual since 0", "7: changed since 4"]);
}

#[test]
fn a_short_disturbance_is_no_change() {
    check("aaaacaaa", &["1: usual since 0", "6: short 4 to 5"]);
    check("aaaaceaa", &["1: usual since 0", "7: short 4 to 6"]);
    check("aaaacacaca", &["1: usual since 0", "6: short 4 to 5", "8: short 6 to 7", "10: short 8 to 9"]);
}

#[test]
fn slow_pieces_of_two_kinds_are_a_change_with_the_third() {
    check("aaaacec", &["1: usual since 0", "7: changed since 4"]);
}

/// Either piece has a score of 60 against the reference, and 50 against the other; together they have 35.
#[test]
fn two_pieces_that_differ_less_together_are_not_yet_a_change() {
    let mut detector = ChangeDetector::default();
    let reference = of(&[(10, 500), (11, 250), (12, 250)]);
    let [up, down] = [of(&[(10, 150), (11, 350), (12, 500)]), of(&[(10, 150), (11, 850)])];
    for (at, histogram, expected) in [(0, &reference, 1), (1, &up, 0), (2, &down, 0), (3, &down, 1)] {
        let found = detector.observe(&slice(at, histogram.clone()), 0).expect("one unit");
        assert_eq!(found.len(), expected, "{at}: {found:?}");
    }
    assert_eq!(detector.counts().changed, 1);
}

#[test]
fn a_slow_drift_is_noticed_when_it_has_become_large_enough() {
    let mut detector = ChangeDetector::default();
    // Each slice has 3% more calls in the next bucket: a score of 3 against the slice before.
    let drifted = |at: u64| {
        let slow = if at < 20 { 0 } else { (30 * (at - 20)).min(1000) };
        of(&[(10, 1000 - slow), (11, slow)])
    };
    let mut changes = Vec::new();
    for at in 0..70 {
        for notice in detector.observe(&slice(at, drifted(at)), 0).expect("one unit") {
            if let Notice::Changed(change) = notice {
                changes.push((at, change.since.as_secs(), change.before.histogram));
            }
        }
    }
    // 60 is the first score above the threshold; the next piece is like it.
    assert_eq!(changes, [(41, 40, of(&[(10, 10_000)]))]);
}

#[test]
fn few_calls_are_gathered_until_chance_is_small() {
    check("AAAAAAAACCCCCCCC", &["4: usual since 0", "16: changed since 8"]);
    // 750 calls are no piece.
    check("AAAAAAAACCCCCCC", &["4: usual since 0"]);
    check("AAA", &[]);
}

#[test]
fn a_return_to_an_earlier_condition_is_recognised() {
    check(
        "aaaaccccaaaaeeeecccc",
        &[
            "1: usual since 0",
            "6: changed since 4",
            "10: changed since 8, as from 0 to 4",
            "14: changed since 12",
            "18: wavers since 16, as from 4 to 8",
        ],
    );
}

#[test]
fn an_earlier_condition_was_from_its_first_piece_that_differed_to_its_last() {
    check(
        "aaaaxcccaaaacc",
        &[
            "1: usual since 0",
            "7: changed since 4",
            "10: changed since 8, as from 0 to 4",
            "14: wavers since 12, as from 4 to 8",
        ],
    );
    // The reference's time has no stop in it.
    let found = news(&format!("{}....ccccaa", "a".repeat(12)));
    assert_eq!(found.last().map(String::as_str), Some("22: changed since 20, as from 0 to 12"));
}

#[test]
fn the_latest_of_several_like_conditions_is_named() {
    check(
        "aaccaacc",
        &[
            "1: usual since 0",
            "4: changed since 2",
            "6: changed since 4, as from 0 to 2",
            "8: wavers since 6, as from 2 to 4",
        ],
    );
    let last = news("aaccaaccaa").pop();
    assert_eq!(last.as_deref(), Some("10: (changed) since 8, as from 4 to 6"));
}

#[test]
fn a_cause_is_a_single_alarm_while_it_wavers() {
    let twelve = |letter: &str| letter.repeat(12);
    // It becomes slow, and is as before: both are news. Then it wavers, which is news once.
    check(
        &format!("{}ccaaccaaccaa", twelve("a")),
        &[
            "1: usual since 0",
            "14: changed since 12",
            "16: changed since 14, as from 0 to 12",
            "18: wavers since 16, as from 12 to 14",
            "20: (changed) since 18, as from 14 to 16",
            "22: (changed) since 20, as from 16 to 18",
            "24: (changed) since 22, as from 18 to 20",
        ],
    );
    // Ten pieces alike end it, with the conditions before and now; the next change is an alarm again.
    let settled = |last: &str| news(&format!("{}ccaaccaa{last}", twelve("a")))[4..].to_vec();
    assert_eq!(
        settled(&format!("{}cc", "a".repeat(8))),
        [
            "20: (changed) since 18, as from 14 to 16",
            "28: settled since 18 after 2, as before 0 to 12",
            "30: changed since 28, as from 16 to 18",
        ]
    );
    assert_eq!(
        settled(&format!("{}aa", "c".repeat(10))),
        [
            "20: (changed) since 18, as from 14 to 16",
            "22: (changed) since 20, as from 16 to 18",
            "30: settled since 20 after 3, other than 0 to 12",
            "32: changed since 30, as from 18 to 20",
        ]
    );
    // Nine are not enough, nor are ten with a disturbance.
    assert_eq!(settled(&"a".repeat(7)).len(), 1);
    assert_eq!(settled(&format!("aaaac{}", "a".repeat(7)))[1..], ["26: (short 24 to 25)"]);
    assert_eq!(
        settled(&format!("aaaac{}", "a".repeat(8)))[1..],
        ["26: (short 24 to 25)", "33: settled since 18 after 2, as before 0 to 12"]
    );
}

#[test]
fn what_wavered_for_long_is_steady_only_after_as_long() {
    // Changes from 12 s to 42 s.
    let wavering = format!("{}{}aa", "a".repeat(12), "ccaa".repeat(8));
    let after = |steady: usize| news(&format!("{wavering}{}", "a".repeat(steady))).pop();
    assert_eq!(after(24).as_deref(), Some("44: (changed) since 42, as from 38 to 40"));
    assert_eq!(after(26).as_deref(), Some("72: settled since 42 after 14, as before 0 to 12"));
}

/// Pieces count, not calls: a busy target wavers as long.
#[test]
fn a_busy_target_is_no_sooner_steady() {
    let mut detector = ChangeDetector::default();
    let mut found = Vec::new();
    for (at, drawn) in (0..).zip("aaaaccaaccaaccaa".chars()) {
        let bucket = if drawn == 'a' { 10 } else { 14 };
        found.extend(detector.observe(&slice(at, of(&[(bucket, 1_000_000)])), 0).expect("one unit"));
    }
    let news: Vec<_> = found.iter().map(words).collect();
    assert_eq!(
        news[1..4],
        ["changed since 4", "changed since 6, as from 0 to 4", "wavers since 8, as from 4 to 6",]
    );
    assert!(news[4..].iter().all(|news| news.starts_with("(changed)")), "{news:?}");
}

#[test]
fn what_becomes_worse_while_it_wavers_is_an_alarm() {
    let found = news(&format!("{}ccaaccaaeecceebb", "a".repeat(12)));
    assert_eq!(
        found[4..],
        [
            "20: (changed) since 18, as from 14 to 16",
            "22: changed since 20",
            "24: (changed) since 22, as from 16 to 18",
            "26: (changed) since 24, as from 20 to 22",
            "28: (changed) since 26",
        ]
    );
    // From a slow condition to a less slow condition, and back.
    check(
        &format!("{}eecceecc", "a".repeat(12)),
        &[
            "1: usual since 0",
            "14: changed since 12",
            "16: wavers since 14",
            "18: (changed) since 16, as from 12 to 14",
            "20: (changed) since 18, as from 14 to 16",
        ],
    );
}

#[test]
fn what_is_worse_and_gone_again_is_an_alarm_both_times() {
    check(
        &format!("{}ccaaeeaacc", "a".repeat(12)),
        &[
            "1: usual since 0",
            "14: changed since 12",
            "16: changed since 14, as from 0 to 12",
            "18: changed since 16",
            "20: changed since 18, as from 14 to 16",
            "22: wavers since 20, as from 12 to 14",
        ],
    );
}

#[test]
fn pieces_before_the_last_change_do_not_count_as_steady() {
    let found = |steady: usize| news(&format!("{}eeeeeecc{}", "a".repeat(12), "c".repeat(steady)));
    assert_eq!(found(7).last().map(String::as_str), Some("20: wavers since 18"));
    assert_eq!(found(8).last().map(String::as_str), Some("28: settled since 18 after 1, other than 0 to 12"));
}

#[test]
fn a_disturbance_before_it_wavers_is_news() {
    check(
        &format!("{}ccccacc", "a".repeat(12)),
        &["1: usual since 0", "14: changed since 12", "18: short 16 to 17"],
    );
}

#[test]
fn disturbances_while_it_wavers_are_quiet() {
    let found = news(&format!("{}caccaaccaaacaa", "a".repeat(12)));
    assert_eq!(
        found[1..],
        [
            "14: short 12 to 13",
            "16: changed since 14",
            "18: changed since 16, as from 0 to 14",
            "20: wavers since 18, as from 14 to 16",
            "22: (changed) since 20, as from 16 to 18",
            "25: (short 23 to 24)",
        ]
    );
}

#[test]
fn a_change_without_wavering_ends_its_episode_without_news() {
    check(
        &format!("{}{}{}", "a".repeat(12), "c".repeat(12), "a".repeat(12)),
        &["1: usual since 0", "14: changed since 12", "26: changed since 24, as from 0 to 12"],
    );
}

#[test]
fn eight_earlier_references_are_kept_and_the_oldest_goes() {
    // Changes to nine further conditions, each at its own place, and back to the first or the second.
    let changes = |then: usize| {
        let mut detector = ChangeDetector::default();
        let places = (0..10).map(|n| 4 + 4 * n).chain([then]);
        let mut last = None;
        for (at, bucket) in (0..).zip(places.flat_map(|bucket| [bucket; 2])) {
            for notice in detector.observe(&slice(at, of(&[(bucket, 1000)])), 0).expect("one unit") {
                last = Some(words(&notice));
            }
        }
        last.expect("changes")
    };
    assert_eq!(changes(4), "changed since 20");
    assert_eq!(changes(8), "wavers since 20, as from 2 to 4");
}

#[test]
fn calls_that_stop_and_come_back_are_noticed() {
    check(
        &format!("{}...{}..a", "a".repeat(12), "a".repeat(3)),
        &[
            "1: usual since 0",
            "13: stopped since 12, 1000 expected, 3 open",
            "16: back after 3",
            "19: stopped since 18, 1000 expected, 3 open",
            "21: back after 2",
        ],
    );
}

#[test]
fn with_a_low_rate_several_empty_slices_are_needed() {
    let long = "i".repeat(500);
    check(
        &format!("{long}......i"),
        &["50: usual since 0", "505: stopped since 500, 100 expected, 3 open", "507: back after 6"],
    );
    check(&format!("{long}....i....i"), &["50: usual since 0"]);
}

#[test]
fn pauses_in_the_time_of_the_reference_are_usual() {
    // The first pause may be a stop, since no pause is known yet; the last is longer than all before it. The
    // reference's 10,000 calls take 42 s.
    check(
        &format!("{}a....a......", "a....".repeat(10)),
        &[
            "1: usual since 0",
            "2: stopped since 1, 1000 expected, 3 open",
            "6: back after 4",
            "61: stopped since 56, 1190 expected, 3 open",
        ],
    );
    // Before the first call there is none.
    check(
        &format!("{}{}..", ".".repeat(90), "a".repeat(12)),
        &["91: usual since 90", "103: stopped since 102, 1000 expected, 3 open"],
    );
}

#[test]
fn no_piece_reaches_across_a_stop() {
    let drawing = format!("{}AA{}CCCCCCCC", "a".repeat(12), ".".repeat(20));
    let found = news(&drawing);
    assert_eq!(found.last().map(String::as_str), Some("42: changed since 34"));
}

#[test]
fn a_change_has_both_sides_with_their_rates() {
    let mut detector = ChangeDetector::default();
    let mut found = Vec::new();
    for (at, drawn) in (0..).zip("aaaaaaaaaaaaaaCCCCCCCC".chars()) {
        found.extend(detector.observe(&slice(at, letter(drawn)), 0).expect("one unit"));
    }
    let Some(Notice::Changed(change)) = found.last() else { panic!("{found:?}") };
    assert_eq!(change.before.histogram, of(&[(10, 10_000)]), "the reference takes no more");
    assert_eq!(
        (change.before.from, change.before.to),
        (second(0), second(14)),
        "but it holds until the change"
    );
    assert_eq!(change.after.histogram, of(&[(14, 2000)]));
    assert_eq!((change.before.rate(), change.after.rate()), (1000.0, 250.0));
    assert_eq!(change.score, 400.0);
    assert_eq!(detector.now(), Some(&change.after));
}

#[test]
fn a_change_that_is_not_yet_certain_is_known() {
    let mut detector = ChangeDetector::default();
    for (at, drawn) in (0..).zip("aaac".chars()) {
        detector.observe(&slice(at, letter(drawn)), 0).expect("one unit");
    }
    assert_eq!(detector.differs_since(), Some(second(3)));
    detector.observe(&slice(4, letter('a')), 0).expect("one unit");
    assert_eq!(detector.differs_since(), None);
    assert_eq!(detector.counts(), NoticeCounts { short: 1, ..NoticeCounts::default() });
}

#[test]
fn cycles_are_not_mixed_with_nanoseconds() {
    let mut detector = ChangeDetector::default();
    detector.observe(&slice(0, letter('a')), 0).expect("the first");
    let cycles = slice(1, Histogram::from_counters(Unit::Cycles, [1; BUCKETS], 0));
    assert!(detector.observe(&cycles, 0).is_err());
}

#[test]
fn memory_is_bounded_over_a_million_slices_and_no_call_is_missing_in_the_history() {
    let mut detector = ChangeDetector::default();
    let slices = 1_000_000;
    // Endless changes: each condition lasts for 1000 slices with 250 calls.
    for at in 0..slices {
        let bucket = 4 + 3 * (at / 1000 % 19) as usize;
        detector.observe(&slice(at, of(&[(bucket, 250)])), 0).expect("one unit");
    }
    assert_eq!(detector.earlier.len(), MAX_EARLIER_REFERENCES);
    assert!(detector.history().len() <= MAX_HISTORY_PARTS);
    assert!(detector.history().len() > MAX_HISTORY_PARTS / 2);
    assert_eq!(detector.counts(), NoticeCounts { changed: slices / 1000 - 1, ..NoticeCounts::default() });
    let calls: u64 = detector.history().iter().map(|part| part.histogram.calls()).sum();
    assert_eq!(calls, 250 * slices);
    // The least power of two with few enough parts; the last part is still growing.
    let whole_parts = detector.history().split_last().map(|(_, whole)| whole).unwrap_or_default();
    assert!(whole_parts.iter().all(|part| part.counted == second(1 << 14)), "each part has as many slices");
    assert!(detector.history().windows(2).all(|pair| pair[0].to == pair[1].from), "parts tile the time");
    let ends =
        [detector.history().first().map(|part| part.from), detector.history().last().map(|part| part.to)];
    assert_eq!(ends, [Some(second(0)), Some(second(slices))]);
}
