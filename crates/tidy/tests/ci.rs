//! `.ci/run`: it succeeds only if the tests ran to their sum and the demo recorded live, and it ends with this sum. A
//! script stands in for make.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

const SUM: &str = "7 passed, 0 of them at another try, 0 failed, 0 skipped";

/// Runs it where `make test` and `make demo` do this, in a folder with an earlier run's sum. Returns whether it succeeds,
/// and its last line.
fn ci(test: &str, demo: &str) -> (bool, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    for name in [".ci", "bin", "target/test"] {
        std::fs::create_dir_all(at(name)).expect("a folder");
    }
    let script = |name: &str, text: &str| {
        std::fs::write(at(name), text).expect("written");
        std::fs::set_permissions(at(name), PermissionsExt::from_mode(0o755)).expect("executable");
    };
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.ci/run");
    script(".ci/run", &std::fs::read_to_string(run).expect(".ci/run"));
    script("bin/make", &format!("#!/bin/sh\ncase \"$1\" in\ntest) {test} ;;\ndemo) {demo} ;;\nesac\n"));
    std::fs::write(at("target/test/sum"), "99 passed\n").expect("written");
    let path = format!("{}:{}", at("bin").display(), std::env::var("PATH").expect("a path"));
    let mut command = Command::new(at(".ci/run"));
    let output = command.env("PATH", path).env_remove("WAKEPATH_TEST_LOGS").output().expect(".ci/run");
    let said = String::from_utf8(output.stdout).expect("text");
    (output.status.success(), said.lines().last().unwrap_or_default().to_owned())
}

#[test]
fn only_tests_that_ran_to_their_sum_and_a_live_demo_are_a_success() {
    let sum = format!("echo {SUM} >target/test/sum");
    let live = "echo demo: recorded live";
    let none = SUM.replace('7', "0");
    for (what, test, demo, succeeds, last) in [
        ("all is well", sum.clone(), live, true, SUM),
        ("tests fail", format!("{sum}; exit 2"), live, false, SUM),
        ("no test ran", String::from("true"), live, false, none.as_str()),
        (
            "a test prints a sum, and then make fails",
            format!("echo {SUM}; exit 2"),
            live,
            false,
            none.as_str(),
        ),
        ("a test prints another sum", format!("{sum}; echo 9{SUM}"), live, true, SUM),
        ("the demo fell back", sum.clone(), "echo demo: this machine did not record", false, SUM),
        ("the demo fails", sum.clone(), "echo demo: recorded live; exit 2", false, SUM),
    ] {
        assert_eq!(ci(&test, demo), (succeeds, last.to_owned()), "{what}");
    }
}
