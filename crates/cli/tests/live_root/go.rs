//! Counted calls of Go functions: goroutines change threads, stacks move, panics unwind calls.

mod blocks;
mod later;
mod trace;
mod waits;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use wakepath_harness::live::{Place, document, go, latency, list, number, place, record, run};

/// A folder where a test may count, and the `go` command, on the path or where Go's own archive installs it; `None`, with
/// a printed reason, if either is missing.
fn go_place(would_show: &str) -> Option<(Place, PathBuf)> {
    Some((place(would_show)?, go(would_show)?))
}

/// Builds `calls.go` in a folder.
fn build(go: &Path, folder: &Path, options: &[&str]) -> String {
    build_file(go, folder, "calls", options)
}

/// Builds the program with this name in a folder.
fn build_file(go: &Path, folder: &Path, name: &str, options: &[&str]) -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/live_root/go").join(format!("{name}.go"));
    let mut compiler = Command::new(go);
    compiler.args(["build", "-o"]).arg(folder.join(name)).args(options).arg(source);
    // The build needs no downloads.
    compiler.envs([("GOTOOLCHAIN", "local"), ("GOPROXY", "off"), ("GOFLAGS", "")]);
    if std::env::var_os("HOME").is_none() && std::env::var_os("GOCACHE").is_none() {
        compiler.env("GOCACHE", folder.join("cache"));
    }
    assert!(compiler.status().expect("go").success(), "{name}.go does not build");
    folder.join(name).to_str().expect("a path").to_owned()
}

/// The counts of a command's functions, and the numbers that the command printed, summed by name.
fn count(folder: &Path, functions: &[&str], command: &[&str]) -> (Vec<Value>, HashMap<String, u64>) {
    let targets: Vec<String> = functions.iter().map(|name| format!("./calls:main.{name}")).collect();
    let targets = targets.iter().map(String::as_str).chain(["--slow-probes"]);
    latency(folder, &targets.collect::<Vec<_>>(), command)
}

/// The numbers of calls that returned, were unwound, had not ended, and were not counted.
fn ends(target: &Value) -> [u64; 4] {
    ["count", "left", "open", "crowded"].map(|key| number(&target[key]))
}

/// Compares the calls with the program's own stamps: each began before and ended after the stamps taken within it, and
/// lies within the stamps taken around it.
fn takes_what_the_program_says(target: &Value, own: &HashMap<String, u64>, name: &str) {
    let (within, around) = (own[&format!("{name}_within_ns")], own[&format!("{name}_around_ns")]);
    let counted = number(&target["sum"]);
    println!("{name}: {within} ns within its calls, {counted} counted, {around} around them");
    assert!((within..=around).contains(&counted), "{name}: {within} <= {counted} <= {around}");
}

#[test]
fn calls_of_goroutines_that_change_threads_and_whose_stacks_move_are_counted_one_by_one() {
    let Some((folder, go)) = go_place("calls of goroutines are counted") else { return };
    let functions = ["counted", "sleeps", "grows"];
    let flags = ["counted=5000", "sleeps=200", "grows=40"];
    // The program unchanged, stripped, and position-independent and stripped.
    for options in [&[][..], &["-ldflags=-s -w"], &["-buildmode=pie", "-ldflags=-s -w"]] {
        let calls = build(&go, &folder, options);
        let (counted, own) = count(&folder, &functions, &[&[calls.as_str()], &flags[..]].concat());
        let [quick, sleeps, grows] = counted.as_slice() else { panic!("{counted:#?}") };
        assert_eq!(own["counted"], 20_000);
        assert_eq!(ends(quick), [20_000, 0, 0, 0], "{options:?}: {quick}");
        assert_eq!((ends(sleeps), own["sleeps"]), ([800, 0, 0, 0], 800), "{options:?}: {sleeps}");
        assert_eq!((ends(grows), own["grows"]), ([40, 0, 0, 0], 40), "{options:?}: {grows}");
        assert!(own["moved"] > 100, "calls ended in another thread than they began in: {}", own["moved"]);
        takes_what_the_program_says(sleeps, &own, "sleeps");
        takes_what_the_program_says(grows, &own, "grows");
        // No call was confused with another: no sleep is shorter than 1 ms, which is in bucket 19.
        assert!(number(&sleeps["buckets"][0]["index"]) >= 19, "{options:?}: {sleeps}");
    }
}

#[test]
fn calls_of_go_that_are_nested_left_or_too_deep_are_told_apart() {
    let Some((folder, go)) = go_place("calls of goroutines that are nested or left are told apart") else {
        return;
    };
    let calls = build(&go, &folder, &[]);
    let functions = ["nested", "deeper", "panics", "recovers", "catches", "exits", "stays"];
    let flags = ["nested=50", "deeper=50", "panics=100", "catches=50", "exits=50", "open"].join(" ");
    // Two processes at once, with goroutines at the same addresses: each makes all these calls.
    let line = format!("{calls} {flags} & {calls} {flags}; wait; exit 0");
    for (times, command) in [
        (1, [&["sh", "-c"][..], &[&format!("{calls} {flags}; exit 0")]].concat()),
        (2, vec!["sh", "-c", &line]),
    ] {
        let (counted, own) = count(&folder, &functions, &command);
        assert_eq!(own["nested"], 50 * times);
        let expected = [
            ("nested", [250, 0, 0, 0]),
            // Eight nested calls are counted; deeper calls are reported as not counted.
            ("deeper", [400, 0, 0, 200]),
            ("panics", [50, 50, 0, 0]),
            ("recovers", [100, 0, 0, 0]),
            // The outermost call recovers, and returns; the three calls within it do not.
            ("catches", [50, 150, 0, 0]),
            // Found by the next goroutine at the same address, or at the process's end.
            ("exits", [0, 50, 0, 0]),
            ("stays", [0, 1, 0, 0]),
        ];
        for (target, (name, expected)) in counted.iter().zip(expected) {
            assert_eq!(ends(target), expected.map(|n| n * times), "{times} times {name}: {target}");
        }
    }
}

#[test]
fn functions_of_go_that_cannot_be_probed_say_why() {
    let Some((folder, go)) = go_place("Go's refused functions have their reasons") else { return };
    build(&go, &folder, &[]);
    for (function, expected) in [
        ("main.nothing", "no function `main.nothing`"),
        // Assembler code, which switches to other goroutines.
        ("runtime.mcall", "does not keep it in r14"),
    ] {
        let (_, said) = run(&folder, &["latency", &format!("./calls:{function}"), "-a", "-d", "0.1"], 2);
        assert!(said.contains(expected), "{function}: {said}");
    }
}

#[test]
fn recorded_calls_of_goroutines_that_changed_threads_have_no_path_and_that_is_said() {
    let Some((folder, go)) = go_place("recorded calls of goroutines are told apart") else { return };
    let calls = build(&go, &folder, &[]);
    let target = "./calls:main.sleeps";
    let asked = ["--call", target, "--slow-probes", "--", &calls, "sleeps=100"];
    let (printed, said) = record(&folder, &asked, 0);
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("run in goroutines, but a path follows a thread"), "{said}");
    let moved = printed.lines().find_map(|line| line.strip_prefix("moved ")?.parse::<u64>().ok());
    let answer = document(&folder, &["path", "--call", "--slowest", "1000"]);
    let counted: u64 = list(&answer["buckets"]).iter().map(|bucket| number(&bucket["count"])).sum();
    assert_eq!((counted, &answer["left"], &answer["open"]), (400, &0.into(), &0.into()), "{answer}");
    // The program compares threads within the call, a little after its beginning and before its end.
    let (moved, told) = (moved.expect("its own count"), number(&answer["moved"]));
    assert!(moved > 50 && told.abs_diff(moved) <= 8, "{moved} changed threads, {told} are told to");
    assert_eq!(answer["asked"]["calls"], 400 - told, "{answer}");
}
