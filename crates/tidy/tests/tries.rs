//! `packaging/test`: which tests are tried again, how often, and what is a failure. A script stands in for cargo.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Whether it succeeds, and its own lines, where the tests print `first`, and the tries behind it one word each, `ok` or
/// `FAILED`.
fn tried(first: &str, tries: &[&str]) -> (bool, Vec<String>) {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
    write("first", first);
    write("tries", &tries.iter().map(|word| format!("{word}\n")).collect::<String>());
    write(
        "cargo",
        "#!/bin/sh\n\
         cd \"$(dirname \"$0\")\" || exit 1\n\
         case \"$*\" in *--exact*)\n\
         read -r word <tries; sed -i 1d tries\n\
         echo \"test x ... $word\"\n\
         echo \"test result: $word. $([ \"$word\" = ok ] && echo 1 passed || echo 0 passed)\"\n\
         [ \"$word\" = ok ]; exit;;\n\
         esac\n\
         cat first\n\
         ! grep -q 'FAILED\\|^error' first\n",
    );
    let cargo = folder.path().join("cargo");
    std::fs::set_permissions(&cargo, PermissionsExt::from_mode(0o755)).expect("executable");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/test");
    let output = Command::new(script).arg(&cargo).output().expect("packaging/test");
    let printed = String::from_utf8(output.stdout).expect("text");
    let own = printed.lines().filter_map(|line| line.strip_prefix("test: ")).map(str::to_owned).collect();
    (output.status.success(), own)
}

/// What a test program prints that cargo runs.
fn program(name: &str, tests: &[(&str, &str)]) -> String {
    let mut text = format!("     Running tests/{name}.rs (target/debug/deps/{name}-0123456789abcdef)\n");
    tests.iter().for_each(|(test, word)| text.push_str(&format!("test {test} ... {word}\n")));
    text + "test result: whatever. 1 passed; 0 failed\n"
}

#[test]
fn tests_that_pass_are_tried_once() {
    let first = program("live_root_a", &[("x", "ok")]) + &program("other", &[("y", "ok")]);
    assert_eq!(tried(&first, &[]), (true, vec![]));
}

#[test]
fn a_live_test_that_fails_is_tried_again_and_said() {
    let first = program("live_root_a", &[("m::x", "FAILED"), ("y", "ok")]);
    let again = "live_root_a m::x failed: a second try, alone";
    let once_more = "live_root_a m::x failed: a third try, alone";
    let passed = |at: &str| format!("live_root_a m::x passed at the {at} try");
    assert_eq!(tried(&first, &["ok"]), (true, vec![again.into(), passed("second")]));
    assert_eq!(
        tried(&first, &["FAILED", "ok"]),
        (true, vec![again.into(), once_more.into(), passed("third")])
    );
    let (is_right, said) = tried(&first, &["FAILED", "FAILED", "ok"]);
    assert!(!is_right && said[2] == "live_root_a m::x failed three times", "{said:?}");
}

#[test]
fn another_live_test_that_passes_makes_up_for_none() {
    let first = program("live_root_a", &[("x", "FAILED"), ("y", "FAILED")]);
    assert!(tried(&first, &["ok", "ok"]).0);
    assert!(!tried(&first, &["FAILED", "FAILED", "ok"]).0);
    assert!(!tried(&first, &["ok", "FAILED", "FAILED"]).0);
}

#[test]
fn a_test_that_needs_no_machine_has_one_try() {
    let other = program("live_root_a", &[("x", "FAILED")]) + &program("wakepath_ctf", &[("y", "FAILED")]);
    let (is_right, said) = tried(&other, &["ok", "ok"]);
    assert!(!is_right && said[0].starts_with("failed: "), "{said:?}");
}

#[test]
fn what_did_not_build_or_ended_before_its_tests_is_a_failure() {
    assert!(!tried("error: could not compile\n", &["ok"]).0);
    let mut cut = program("live_root_a", &[("x", "FAILED")]);
    cut.truncate(cut.rfind("test result").expect("one"));
    let (is_right, said) = tried(&cut, &["ok"]);
    assert!(!is_right, "{said:?}");
}
