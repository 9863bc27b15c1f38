//! `lab/drilled`: its own tests, in Python, show which verdict each answer gets.

use std::path::Path;
use std::process::Command;

#[test]
fn the_judges_own_tests_of_verdicts_succeed() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/drilled/test_judge.py");
    let python = "/usr/bin/python3";
    if !Path::new(python).exists() {
        println!(
            "skipped: no {python} here; not known: whether `make drilled` judges answers by their documents"
        );
        return;
    }
    let output = Command::new(python).arg("-EsB").arg(tests).output().expect("python3");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let ran = said.lines().find_map(|line| line.strip_prefix("Ran ")?.split(' ').next()?.parse::<u32>().ok());
    assert!(ran.is_some_and(|ran| ran > 10), "all tests were found: {said}");
}
