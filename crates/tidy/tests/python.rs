//! Tests in Python of the laboratory's programs. `packaging/bench-loads`: which reports it reads, which it refuses, and its arithmetic.
//! `lab/drilled`: which verdict each answer gets.

use std::path::Path;
use std::process::Command;

/// Runs a file with tests, more than ten. Without Python, says what is `not_known` then.
fn succeed(tests: &str, not_known: &str) {
    let python = "/usr/bin/python3";
    if !Path::new(python).exists() {
        println!("skipped: no {python} here; not known: {not_known}");
        return;
    }
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab").join(tests);
    let output = Command::new(python).arg("-EsB").arg(tests).output().expect("python3");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let ran = said.lines().find_map(|line| line.strip_prefix("Ran ")?.split(' ').next()?.parse::<u32>().ok());
    assert!(ran.is_some_and(|ran| ran > 10), "all tests were found: {said}");
}

#[test]
fn the_benchs_own_tests_of_reports_and_intervals_succeed() {
    succeed("loads/test_loads.py", "whether `make bench-loads` reads the loads' reports");
}

#[test]
fn the_judges_own_tests_of_verdicts_succeed() {
    succeed("drilled/test_judge.py", "whether `make drilled` judges answers by their documents");
}
