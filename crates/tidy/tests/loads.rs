//! `packaging/bench-loads`: its own tests, in Python, show which reports it reads, which it refuses, and its arithmetic.

use std::path::Path;
use std::process::Command;

#[test]
fn the_benchs_own_tests_of_reports_and_intervals_succeed() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/loads/test_loads.py");
    let python = "/usr/bin/python3";
    if !Path::new(python).exists() {
        println!("skipped: no {python} here; not known: whether `make bench-loads` reads the loads' reports");
        return;
    }
    let output = Command::new(python).arg("-EsB").arg(tests).output().expect("python3");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let ran = said.lines().find_map(|line| line.strip_prefix("Ran ")?.split(' ').next()?.parse::<u32>().ok());
    assert!(ran.is_some_and(|ran| ran > 10), "all tests were found: {said}");
}
