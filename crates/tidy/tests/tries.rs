//! `packaging/test`: its output from cargo's output, the tests that are tried again and how often, and failures;
//! `packaging/tries`: the counts over several runs. A script stands in for cargo, and scripts for test programs.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Runs the programs in the folder `first` like cargo, each by the requested runner; and, if a test is tried again, a
/// program with this test alone, whose result is the next word in `words`.
const CARGO: &str = r#"#!/bin/sh
cd "$(dirname "$0")" || exit 1
runner=$(env | sed -n 's/^CARGO_TARGET_.*_RUNNER=//p')
programs=first
case "$*" in
*--exact*)
    read -r word <words
    sed -i 1d words
    while [ "$1" != --test ]; do shift; done
    program=$2
    while [ "$1" != --exact ]; do shift; done
    programs=again
    rm -rf again
    mkdir again
    output=$PWD/again/$program
    case $word in
    FAILED) line="$2 ... FAILED" tail="failures:\n\nfailures:\n    $2\n\ntest result: FAILED. 0 passed; 1" code=101 ;;
    skipped) line="$2 ... ok" tail="successes:\n\n---- $2 stdout ----\nskipped: not possible here: no\n\ntest result: ok. 1 passed; 0" code=0 ;;
    *) line="$2 ... ok" tail="test result: ok. 1 passed; 0" code=0 ;;
    esac
    printf "running 1 test\ntest $line\n\n$tail failed; 0 ignored; finished in 0.50s\n" >"$output"
    [ "$word" != dies ] || code='$(kill -9 $$)'
    printf '#!/bin/sh\ncat %s\nexit %s\n' "$output" "$code" >"$output-0123456789abcdef"
    chmod +x "$output-0123456789abcdef"
    ;;
*)
    cat build
    ! grep -q ^error build || exit 101
    ;;
esac
code=0
for program in "$PWD/$programs"/*-0123456789abcdef; do
    [ -e "$program" ] || continue
    echo "     Running tests/it.rs (target/debug/deps/${program##*/})"
    "${runner:-env}" "$program" --show-output && continue
    echo 'error: test failed, to rerun pass `-p it --test it`'
    code=101
done
[ "$programs" = again ] || cat doc-tests
[ "$word" != breaks ] || code=101
exit "$code"
"#;

/// The tests that may be tried again.
const NOISY: &str = "# A comment: none.\n\
    live_root_a x: a reason\nlive_root_a y: a reason\nlive_root_a m::x: a reason\nlive_root_a loud: a reason\nlive_root_n z: a reason\n";

/// Cargo's programs, and its other output.
#[derive(Default)]
struct Machine {
    build: String,
    programs: Vec<Program>,
    doc_tests: String,
    /// `WAKEPATH_REQUIRE_LIVE`.
    all_must_run: bool,
}

/// A test program: its output, and the end of its script.
struct Program {
    name: &'static str,
    prints: String,
    ends: String,
}

/// A run's result.
struct Run {
    succeeded: bool,
    printed: String,
    /// The lines from `packaging/test` about tries and failures.
    own: Vec<String>,
    /// The output of `packaging/tries` afterwards.
    tries: String,
    /// The kept failures.
    failures: String,
}

impl Run {
    /// The numbers in the closing line: passed, passed at another try, failed, skipped.
    fn sum(&self) -> Vec<u64> {
        let last = self.printed.lines().last().expect("a line");
        last.split(' ').filter_map(|word| word.parse().ok()).collect()
    }
}

/// A command without any settings from this test run.
fn script(name: &str, folder: &Path) -> Command {
    let mut command = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(name));
    command.env("WAKEPATH_TEST_LOGS", folder).env("WAKEPATH_NOISY_TESTS", folder.join("noisy"));
    command.env_remove("WAKEPATH_REQUIRE_LIVE").env_remove("CARGO_TARGET_DIR");
    command
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("text")
}

fn executable(path: &Path, text: &str) {
    std::fs::write(path, text).expect("written");
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).expect("executable");
}

/// Runs the scripts; the results of the tries behind the first are these words.
fn run(machine: &Machine, tries: &[&str]) -> Run {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let write = |name: &str, text: &str| std::fs::write(at(name), text).expect("written");
    write("build", &machine.build);
    write("doc-tests", &machine.doc_tests);
    write("noisy", NOISY);
    write("words", &tries.iter().map(|word| format!("{word}\n")).collect::<String>());
    std::fs::create_dir(at("first")).expect("a folder");
    for Program { name, prints, ends } in &machine.programs {
        write(&format!("first/{name}"), prints);
        let program = format!("#!/bin/sh\ncat {}\n{ends}\n", at(&format!("first/{name}")).display());
        executable(&at(&format!("first/{name}-0123456789abcdef")), &program);
    }
    executable(&at("cargo"), CARGO);
    let mut test = script("test", folder.path());
    if machine.all_must_run {
        test.env("WAKEPATH_REQUIRE_LIVE", "1");
    }
    let output = test.arg(at("cargo")).output().expect("packaging/test");
    let printed = text(output.stdout);
    let own = printed.lines().filter_map(|line| line.strip_prefix("test: ")).map(str::to_owned).collect();
    let tries = text(script("tries", folder.path()).output().expect("packaging/tries").stdout);
    let failures = std::fs::read_to_string(at("failures")).unwrap_or_default();
    Run { succeeded: output.status.success(), printed, own, tries, failures }
}

/// Whether these programs succeed, and the lines from `packaging/test` about tries.
fn tried(programs: Vec<Program>, tries: &[&str]) -> (bool, Vec<String>) {
    let run = run(&Machine { programs, ..Machine::default() }, tries);
    (run.succeeded, run.own)
}

/// A test program with these tests: a name, its result, and its output.
fn talkative(name: &'static str, tests: &[(&str, &str, &str)]) -> Program {
    let mut prints = format!("\nrunning {} tests\n", tests.len());
    let of = |result: &'static str| tests.iter().filter(move |test| test.1 == result);
    tests.iter().for_each(|(test, result, _)| writeln!(prints, "test {test} ... {result}").expect("text"));
    for (part, result) in [("successes", "ok"), ("failures", "FAILED")] {
        if of(result).count() == 0 {
            continue;
        }
        writeln!(prints, "\n{part}:\n").expect("text");
        for (test, _, said) in of(result).filter(|test| !test.2.is_empty()) {
            writeln!(prints, "---- {test} stdout ----\n{said}\n").expect("text");
        }
        writeln!(prints, "\n{part}:").expect("text");
        of(result).for_each(|(test, ..)| writeln!(prints, "    {test}").expect("text"));
    }
    let (passed, failed) = (of("ok").count(), of("FAILED").count());
    let word = if failed == 0 { "ok" } else { "FAILED" };
    let ignored = tests.len() - passed - failed;
    writeln!(
        prints,
        "\ntest result: {word}. {passed} passed; {failed} failed; {ignored} ignored; 0 measured; 0 filtered out; finished in 3.25s"
    )
    .expect("text");
    Program { name, prints, ends: format!("exit {}", if failed == 0 { 0 } else { 101 }) }
}

fn program(name: &'static str, tests: &[(&str, &str)]) -> Program {
    talkative(name, &tests.iter().map(|&(test, result)| (test, result, "")).collect::<Vec<_>>())
}

#[test]
fn tests_that_pass_are_tried_once() {
    let programs = vec![program("live_root_a", &[("x", "ok")]), program("other", &[("y", "ok")])];
    assert_eq!(tried(programs, &[]), (true, vec![]));
}

#[test]
fn a_noisy_test_that_fails_is_tried_again_and_said() {
    let first = || vec![program("live_root_a", &[("m::x", "FAILED"), ("y", "ok")])];
    let again = "live_root_a m::x failed: a second try, alone";
    let once_more = "live_root_a m::x failed: a third try, alone";
    let passed = |at: &str| format!("live_root_a m::x passed at the {at} try");
    assert_eq!(tried(first(), &["ok"]), (true, vec![again.into(), passed("second")]));
    assert_eq!(
        tried(first(), &["FAILED", "ok"]),
        (true, vec![again.into(), once_more.into(), passed("third")])
    );
    let (is_right, said) = tried(first(), &["FAILED", "FAILED", "ok"]);
    assert!(!is_right && said[2] == "failed three times: live_root_a m::x", "{said:?}");
}

#[test]
fn another_try_that_dies_skips_the_test_or_breaks_the_build_is_no_pass() {
    for word in ["dies", "skipped", "breaks"] {
        let first = vec![program("live_root_a", &[("x", "FAILED")])];
        let (is_right, said) = tried(first, &[word, word]);
        assert!(!is_right && said[2] == "failed three times: live_root_a x", "{word}: {said:?}");
    }
}

#[test]
fn another_live_test_that_passes_makes_up_for_none() {
    let first = || vec![program("live_root_a", &[("x", "FAILED"), ("y", "FAILED")])];
    assert!(tried(first(), &["ok", "ok"]).0);
    assert!(!tried(first(), &["FAILED", "FAILED", "ok"]).0);
    assert!(!tried(first(), &["ok", "FAILED", "FAILED"]).0);
}

#[test]
fn a_test_that_is_not_listed_as_noisy_has_one_try() {
    let first = vec![program("live_root_a", &[("x", "FAILED"), ("modes", "FAILED")])];
    let (is_right, said) = tried(first, &["ok", "ok"]);
    assert!(!is_right && said == ["failed: live_root_a modes", "failed: live_root_a x"], "{said:?}");
    let first = vec![program("live_root_b", &[("x", "FAILED")])];
    assert!(!tried(first, &["ok"]).0, "the name of another program");
}

#[test]
fn what_does_not_build_or_has_no_tests_is_a_failure() {
    let build = String::from("error: could not compile\n");
    assert!(!run(&Machine { build, ..Machine::default() }, &["ok"]).succeeded);
    assert!(!run(&Machine::default(), &[]).succeeded);
}

#[test]
fn a_program_that_does_not_finish_its_tests_is_a_failure_whatever_it_printed() {
    let good = || program("live_root_a", &[("x", "ok")]);
    let two_fail = program("live_root_a", &[("x", "FAILED"), ("y", "FAILED")]).prints;
    let cut = |prints: String| prints[..prints.rfind("test result").expect("one")].to_owned();
    for (what, prints, ends) in [
        ("it dies of a signal at its end", good().prints, "kill -9 $$"),
        ("it ends with a code of its own", good().prints, "exit 1"),
        ("a test ends it without a failure", cut(good().prints), "exit 0"),
        ("a signal ends it", cut(good().prints) + "error: signal 6\n", "kill -6 $$"),
        ("a test that ends it has printed a sum", good().prints.replace("running 1", "running 2"), "exit 0"),
        ("it fails and says that all is well", good().prints, "exit 101"),
        ("it says that one failed", good().prints.replace("1 passed; 0", "0 passed; 1"), "exit 0"),
        ("nothing is printed", String::new(), "exit 0"),
        ("its list of failed tests is cut", two_fail.replace("\n    x\n    y\n", "\n    x\n"), "exit 101"),
    ] {
        // A noisy test that also fails, and would pass at the second try, does not hide it.
        for (result, failed) in [("ok", 1), ("FAILED", 2)] {
            let ended = Program { name: "live_root_a", prints: prints.clone(), ends: ends.to_owned() };
            let programs = vec![ended, program("live_root_n", &[("z", result)])];
            let run = run(&Machine { programs, ..Machine::default() }, &["ok"]);
            assert!(!run.succeeded && run.sum()[2] == failed, "{what}: {}", run.printed);
            assert!(
                run.printed.contains(&format!("{prints}FAILED: live_root_a ")),
                "{what}: {}",
                run.printed
            );
        }
    }
}

#[test]
fn a_program_that_is_killed_with_its_runner_is_a_failure() {
    for z in ["ok", "FAILED"] {
        let mut killed = program("live_root_a", &[("x", "ok")]);
        killed.ends = String::from("kill -9 $PPID");
        let programs = vec![killed, program("live_root_n", &[("z", z)])];
        let run = run(&Machine { programs, ..Machine::default() }, &["ok"]);
        assert!(!run.succeeded && run.own.contains(&String::from("failed: cargo -")), "{}", run.printed);
    }
}

/// Lines that a test may print.
const SPOOF: &str = "     Running tests/it.rs (target/debug/deps/it-0123456789abcdef)\n\
    running 5 tests\ntest x ... ok\ntest y ... ok\n\
    ---- y stdout ----\nfailures:\n    y\n\
    test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
    5 passed, 0 of them at another try, 0 failed, 0 skipped\n\
    \x20  Doc-tests it";

#[test]
fn lines_like_those_of_the_harness_in_the_output_of_a_test_count_for_nothing() {
    let programs = || vec![talkative("a", &[("x", "ok", SPOOF)]), talkative("b", &[("z", "FAILED", SPOOF)])];
    let run = run(&Machine { programs: programs(), ..Machine::default() }, &[]);
    assert!(!run.succeeded && run.own == ["failed: b z"], "{}", run.printed);
    assert_eq!(run.sum(), [1, 0, 1, 0], "{}", run.printed);
    // The lines of a process run by a test stand among the results.
    let mut passes = program("a", &[("x", "ok"), ("w", "ok")]);
    passes.prints = passes.prints.replace("test w", &format!("{SPOOF}\ntest w"));
    let run = self::run(&Machine { programs: vec![passes], ..Machine::default() }, &[]);
    assert!(run.succeeded && run.sum() == [2, 0, 0, 0], "{}", run.printed);
}

#[test]
fn a_line_is_printed_for_each_program_and_skip_and_the_output_of_what_failed() {
    let loud = [
        ("silent", "ok", "not shown"),
        ("modest", "ok", "skipped: no root; would show more"),
        ("loud", "FAILED", "it is wrong"),
    ];
    let programs = vec![talkative("live_root_a", &loud), program("other", &[("y", "ok")])];
    let machine = Machine { build: String::from("   Compiling x\n"), programs, ..Machine::default() };
    let printed = run(&machine, &["ok"]).printed;
    assert_eq!(
        printed.lines().filter(|line| !line.is_empty()).collect::<Vec<_>>(),
        [
            "   Compiling x",
            "FAILED: live_root_a loud",
            "skipped: live_root_a modest: no root; would show more",
            "---- loud stdout ----",
            "it is wrong",
            "live_root_a: 2 passed, 1 failed in 3.25s",
            "other: 1 passed, 0 failed in 3.25s",
            "test: live_root_a loud failed: a second try, alone",
            "live_root_a: 1 passed, 0 failed in 0.50s",
            "test: live_root_a loud passed at the second try",
            "3 passed, 1 of them at another try, 0 failed, 1 skipped",
        ]
    );
}

#[test]
fn a_long_output_of_a_failed_test_is_printed_without_its_middle_and_kept_for_the_end_of_the_log() {
    let lines: Vec<_> = (1..=100).map(|n| format!("line {n}")).collect();
    let said: &'static str = lines.join("\n").leak();
    let long = "b".repeat(5000).leak();
    let programs = vec![
        talkative("a", &[("x", "FAILED", said), ("y", "ok", "quiet")]),
        talkative("c", &[("z", "FAILED", long)]),
    ];
    let run = run(&Machine { programs, ..Machine::default() }, &[]);
    // The line with the test name is the first, two empty lines are the last.
    let expected = |from: usize, to: usize| lines[from - 1..to].join("\n");
    let middle = "[43 lines: all are in target/test/output]";
    let shown = format!("{}\n{middle}\n{}\n\n\n", expected(1, 29), expected(73, 100));
    assert!(run.printed.contains(&shown), "{}", run.printed);
    let cut = "b".repeat(2000);
    let failures =
        format!("FAILED: a x\n---- x stdout ----\n{shown}FAILED: c z\n---- z stdout ----\n{cut}\n\n\n");
    assert_eq!(run.failures, failures);
}

#[test]
fn where_all_must_run_a_skip_is_a_failure_unless_it_is_not_possible_here() {
    let machine = |said, all_must_run| {
        let programs = vec![talkative("a", &[("x", "ok", said), ("y", "ok", "")])];
        Machine { programs, all_must_run, ..Machine::default() }
    };
    let skips = "skipped: no root; would show more";
    assert_eq!(run(&machine(skips, false), &[]).sum(), [1, 0, 0, 1]);
    // Another test's line in its output does not hide the test that skipped.
    let spoofed = format!("---- z stdout ----\n{skips}");
    assert_eq!(run(&machine(&spoofed, false), &[]).sum(), [1, 0, 0, 1]);
    let required = run(&machine(skips, true), &[]);
    assert!(!required.succeeded && required.own == ["failed: a x"], "{}", required.printed);
    assert_eq!(required.sum()[2], 1, "{}", required.printed);
    let other_kernel = run(&machine("skipped: not possible here: an old kernel; would show more", true), &[]);
    assert!(other_kernel.succeeded && other_kernel.sum() == [1, 0, 0, 1], "{}", other_kernel.printed);
}

#[test]
fn doc_tests_are_summed_and_fail_too() {
    let doc_tests = |word: &str, passed, failed| {
        format!(
            "   Doc-tests it\n\nrunning 1 test\ntest src/lib.rs - it (line 3) ... {word}\n\n{}test result: {word}. {passed} passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s\n\n",
            if word == "ok" { "" } else { "failures:\n    src/lib.rs - it (line 3)\n\n" }
        )
    };
    let sum = |doc_tests: String| {
        let programs = vec![program("a", &[("x", "ok")])];
        let run = run(&Machine { programs, doc_tests, ..Machine::default() }, &[]);
        (run.succeeded, run.sum())
    };
    assert_eq!(sum(doc_tests("ok", 1, 0)), (true, vec![2, 0, 0, 0]));
    assert_eq!(sum(doc_tests("FAILED", 0, 1)), (false, vec![1, 0, 1, 0]));
    assert_eq!(sum(String::from("   Doc-tests it\n")), (false, vec![1, 0, 1, 0]));
}

#[test]
fn tries_are_summed_and_a_test_that_was_skipped_has_none() {
    let machine = || {
        let tests =
            [("x", "ok", ""), ("y", "ok", "skipped: no root; would show more"), ("loud", "FAILED", "")];
        Machine { programs: vec![talkative("live_root_a", &tests)], ..Machine::default() }
    };
    assert_eq!(
        run(&machine(), &["FAILED", "ok"]).tries,
        "1 runs of noisy tests; 1 of 2 tests needed more than one try\n\
         live_root_a loud: 1 of 1 runs, 0 of them failed (too few runs to judge)\n"
    );
    let failed = run(&machine(), &["FAILED", "FAILED"]).tries;
    assert!(failed.contains("1 of 1 runs, 1 of them failed"), "{failed}");
}

/// The stand-ins assume this output from cargo and the test harness.
#[test]
fn cargo_itself_is_judged_by_what_its_programs_did() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
    for name in ["src", "tests"] {
        std::fs::create_dir(folder.path().join(name)).expect("a folder");
    }
    write("noisy", "");
    write("Cargo.toml", "[package]\nname = \"it\"\nedition = \"2024\"\n[workspace]\n");
    write("src/lib.rs", "//! ```\n//! assert!(true);\n//! ```\n");
    let prints = format!(
        "println!({SPOOF:?}); std::process::Command::new(\"echo\").arg({SPOOF:?}).status().unwrap();"
    );
    let test = |name: &str, body: &str| format!("#[test] fn {name}() {{ {prints} {body} }}\n");
    write("tests/passes.rs", &(test("one", "") + &test("two", "")));
    let judged = || {
        let mut command = script("test", folder.path());
        let manifest = folder.path().join("Cargo.toml");
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = command.arg(cargo).args(["--offline", "--manifest-path"]).arg(manifest).output();
        let output = output.expect("packaging/test");
        let run = Run {
            succeeded: output.status.success(),
            printed: text(output.stdout),
            own: vec![],
            tries: String::new(),
            failures: String::new(),
        };
        (run.succeeded, if run.printed.is_empty() { vec![] } else { run.sum() }, run.printed)
    };
    let (succeeded, sum, printed) = judged();
    assert!(succeeded && sum == [3, 0, 0, 0], "{printed}");
    write("tests/aborts.rs", &test("three", "std::process::abort();"));
    write("tests/exits.rs", &test("four", "std::process::exit(0);"));
    write("tests/fails.rs", &(test("five", "panic!();") + &test("six", "")));
    let (succeeded, sum, printed) = judged();
    assert!(!succeeded && sum == [4, 0, 3, 0], "{printed}");
    write("tests/fails.rs", "no Rust\n");
    let (succeeded, _, printed) = judged();
    assert!(!succeeded && printed.ends_with("test: failed: the build\n"), "{printed}");
}

#[test]
fn signals_that_the_caller_ignores_are_not_ignored_in_tests() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("noisy"), NOISY).expect("written");
    let cargo = folder.path().join("cargo");
    executable(&cargo, "#!/bin/sh\nsed -n 's/SigIgn:[^0-9a-f]*/ignored /p' /proc/self/status\n");
    let test = script("test", folder.path());
    let mut caller = Command::new("sh");
    caller.args(["-c", "trap '' HUP INT QUIT; exec \"$@\"", "sh"]).arg(test.get_program()).arg(&cargo);
    for (name, value) in test.get_envs() {
        match value {
            Some(value) => caller.env(name, value),
            None => caller.env_remove(name),
        };
    }
    let printed = text(caller.output().expect("packaging/test").stdout);
    let ignored = printed.lines().find_map(|line| line.strip_prefix("ignored "));
    let ignored = u64::from_str_radix(ignored.expect("cargo's line"), 16).expect("hexadecimal");
    assert_eq!(ignored & 0b111, 0, "SIGHUP, SIGINT and SIGQUIT: {printed}");
}
