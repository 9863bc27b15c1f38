//! The lines of a path's last function.

use serde_json::Value;

use super::{Drilled, alone, document, list, number, only_path, program};

const SOURCE: &str = include_str!("lines.c");

/// The source line with this comment, in an answer's form.
fn line(comment: &str) -> String {
    let at = SOURCE.lines().position(|line| line.contains(comment)).expect("the line");
    format!("lines.c:{}", at + 1)
}

/// The share of samples in the line with this comment.
fn part(sampled: &Value, comment: &str) -> f64 {
    let line = line(comment);
    let there = list(&sampled["places"]).iter().filter(|place| place["line"] == line.as_str());
    there.map(|place| number(&place["samples"])).sum::<u64>() as f64 / number(&sampled["samples"]) as f64
}

#[test]
fn the_lines_of_a_function_have_their_parts_of_its_time_in_slow_calls() {
    let Some(folder) = alone("the lines that take a function's time are sampled") else { return };
    let built = program(&folder, "lines", SOURCE, &["-O1", "-g", "-pthread"]);
    let process = Drilled::start_program(&built, &[]);
    let target = format!("{built}:serve");
    let ask = |peak: &str| {
        let words = ["drill", &target, "-p", &process.1, "--start-ops", "200", "--peak", peak];
        let answer = document(&folder, &words);
        let (path, cause) = only_path(&answer);
        assert_eq!((path, &cause["cause"]), (vec!["serve", "leaf"], &"itself".into()), "{answer}");
        assert!(number(&cause["sampled"]["samples"]) >= 100, "{answer}");
        cause["sampled"].clone()
    };
    let sampled = ask("2");
    let of = |comment: &str| part(&sampled, comment);
    // With 200 samples, a share of three quarters measures 0.69 to 0.81 in 19 of 20 runs: the bounds are four standard
    // deviations, since a test runs more often.
    assert!((0.62..0.88).contains(&of("/* most */")), "{sampled}");
    assert!((0.12..0.38).contains(&of("/* rest */")), "{sampled}");
    // Its caller is not sampled.
    assert!(of("/* caller */") < 0.01, "{sampled}");
    assert_eq!(sampled["places"][0]["function"], "leaf", "{sampled}");
    // The other calls never reach the first line.
    let sampled = ask("1");
    assert!(part(&sampled, "/* most */") < 0.01 && part(&sampled, "/* rest */") > 0.9, "{sampled}");
}
