//! The lines of the function that a path ends at.

use super::{Drilled, alone, document, list, number, only_path, program};

const SOURCE: &str = include_str!("lines.c");

/// The line of the source with this comment, as an answer has it.
fn line(comment: &str) -> String {
    let at = SOURCE.lines().position(|line| line.contains(comment)).expect("the line");
    format!("lines.c:{}", at + 1)
}

#[test]
fn the_lines_of_a_function_have_their_parts_of_its_time_in_slow_calls() {
    let Some(folder) = alone("the lines that take a function's time are sampled") else { return };
    let built = program(&folder, "lines", SOURCE, &["-O1", "-g", "-pthread"]);
    let process = Drilled::start_program(&built, &[]);
    let target = format!("{built}:serve");
    let answer = document(&folder, &["drill", &target, "-p", &process.1, "--start-ops", "200"]);
    let (path, cause) = only_path(&answer);
    assert_eq!((path, &cause["cause"]), (vec!["serve", "leaf"], &"itself".into()), "{answer:#}");
    let sampled = &cause["sampled"];
    let all = number(&sampled["samples"]);
    assert!(all >= 100, "{sampled:#}");
    let of = |comment: &str| {
        let of = list(&sampled["places"]).iter().filter(|place| place["line"] == line(comment).as_str());
        of.map(|place| number(&place["samples"])).sum::<u64>() as f64 / all as f64
    };
    // Of 200 samples, a part of three quarters has 0.69 to 0.81 in 19 of 20 runs.
    assert!((0.62..0.88).contains(&of("/* most */")), "{sampled:#}");
    assert!((0.12..0.38).contains(&of("/* rest */")), "{sampled:#}");
    // Its caller is not sampled.
    assert!(of("/* caller */") < 0.01, "{sampled:#}");
    assert_eq!(sampled["places"][0]["function"], "leaf", "{sampled:#}");
}
