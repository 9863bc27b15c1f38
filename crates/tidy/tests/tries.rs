//! `packaging/test`: what it prints of what cargo prints, which tests are tried again and how often, and which are
//! failures; `packaging/tries`: how often that was. A script stands in for cargo.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// The result of a run.
struct Run {
    succeeded: bool,
    printed: String,
    /// The lines that `packaging/test` says of tries and failures.
    own: Vec<String>,
    /// The output of `packaging/tries` after it.
    tries: String,
}

/// Runs the script where the tests print `first`, and the tries behind it one word each, `ok` or `FAILED`.
fn run(first: &str, tries: &[&str]) -> Run {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
    write("first", first);
    write("words", &tries.iter().map(|word| format!("{word}\n")).collect::<String>());
    write(
        "cargo",
        "#!/bin/sh\n\
         cd \"$(dirname \"$0\")\" || exit 1\n\
         case \"$*\" in *--exact*)\n\
         read -r word <words; sed -i 1d words\n\
         echo '     Running tests/again.rs (target/debug/deps/again-0123456789abcdef)'\n\
         echo \"test x ... $word\"\n\
         echo \"test result: $word. $([ \"$word\" = ok ] && echo '1 passed; 0 failed' || echo '0 passed; 1 failed')\"\n\
         [ \"$word\" = ok ]; exit;;\n\
         esac\n\
         cat first\n\
         ! grep -q 'FAILED\\|^error' first\n",
    );
    let cargo = folder.path().join("cargo");
    std::fs::set_permissions(&cargo, PermissionsExt::from_mode(0o755)).expect("executable");
    let script = |name: &str| {
        let mut command =
            Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(name));
        command.env("WAKEPATH_TEST_LOGS", folder.path());
        command
    };
    let text = |bytes| String::from_utf8(bytes).expect("text");
    let output = script("test").arg(&cargo).output().expect("packaging/test");
    let printed = text(output.stdout);
    let own = printed.lines().filter_map(|line| line.strip_prefix("test: ")).map(str::to_owned).collect();
    let tries = text(script("tries").output().expect("packaging/tries").stdout);
    Run { succeeded: output.status.success(), printed, own, tries }
}

/// Whether it succeeds, and its own lines.
fn tried(first: &str, tries: &[&str]) -> (bool, Vec<String>) {
    let run = run(first, tries);
    (run.succeeded, run.own)
}

/// The output of a test program that cargo runs.
fn program(name: &str, tests: &[(&str, &str)]) -> String {
    let mut text = format!("     Running tests/{name}.rs (target/debug/deps/{name}-0123456789abcdef)\n");
    tests.iter().for_each(|(test, word)| text.push_str(&format!("test {test} ... {word}\n")));
    let count = |word: &str| tests.iter().filter(|test| test.1 == word).count();
    let (passed, failed) = (count("ok"), count("FAILED"));
    text + &format!("test result: whatever. {passed} passed; {failed} failed; finished in 3.25s\n")
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
    assert!(!is_right && said[2] == "failed three times: live_root_a m::x", "{said:?}");
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
    assert!(!is_right && said == ["failed: live_root_a x", "failed: wakepath_ctf y"], "{said:?}");
}

#[test]
fn what_did_not_build_or_ended_before_its_tests_is_a_failure() {
    assert!(!tried("error: could not compile\n", &["ok"]).0);
    let mut cut = program("live_root_a", &[("x", "FAILED")]);
    cut.truncate(cut.rfind("test result").expect("one"));
    let (is_right, said) = tried(&cut, &["ok"]);
    assert!(!is_right, "{said:?}");
}

/// The output of a test program with `--show-output`, for a test that passed, one that skipped and one that failed.
fn talkative() -> String {
    "     Running tests/a.rs (target/debug/deps/live_root_a-0123456789abcdef)\n\
     running 3 tests\ntest silent ... ok\ntest modest ... ok\ntest loud ... FAILED\n\
     successes:\n---- modest stdout ----\nskipped: no root; would show more\n---- silent stdout ----\nnot shown\n\
     successes:\n    modest\n    silent\n\
     failures:\n---- loud stdout ----\nit is wrong\nfailures:\n    loud\n\
     test result: FAILED. 2 passed; 1 failed; 0 ignored; finished in 3.25s\n"
        .to_owned()
}

#[test]
fn a_line_is_printed_for_each_program_and_skip_and_the_output_of_what_failed() {
    let first = "   Compiling x\n".to_owned() + &talkative() + &program("other", &[("y", "ok")]);
    assert_eq!(
        run(&first, &["ok"]).printed.lines().collect::<Vec<_>>(),
        [
            "   Compiling x",
            "FAILED: live_root_a loud",
            "skipped: live_root_a modest: no root; would show more",
            "---- loud stdout ----",
            "it is wrong",
            "live_root_a: 2 passed, 1 failed in 3.25s",
            "other: 1 passed, 0 failed in 3.25s",
            "test: live_root_a loud failed: a second try, alone",
            "again: 1 passed, 0 failed",
            "test: live_root_a loud passed at the second try",
            "3 passed, 1 of them at another try, 0 failed, 1 skipped",
        ]
    );
}

#[test]
fn all_that_a_program_printed_is_shown_where_a_signal_ended_it() {
    let mut cut = talkative();
    cut.truncate(cut.find("successes").expect("some"));
    let run = run(&(cut + "cannot allocate\nerror: signal 6\n"), &[]);
    assert!(
        !run.succeeded && run.printed.contains("\ncannot allocate\nerror: signal 6\n"),
        "{}",
        run.printed
    );
    assert!(run.printed.contains("\nFAILED: live_root_a ended before its tests did\n"), "{}", run.printed);
}

#[test]
fn tries_are_summed_and_a_test_that_was_skipped_has_none() {
    assert_eq!(
        run(&talkative(), &["FAILED", "ok"]).tries,
        "1 runs of live tests; 1 of 2 tests needed more than one try\n\
         live_root_a loud: 1 of 1 runs, 0 of them failed (too few runs to judge)\n"
    );
    let failed = run(&talkative(), &["FAILED", "FAILED"]).tries;
    assert!(failed.contains("1 of 1 runs, 1 of them failed"), "{failed}");
}
