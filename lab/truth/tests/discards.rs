//! The runs that `wakepath-truth` repeats, its output about them, and its count. A script with hand-made runs stands
//! for the tool.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::{Value, json};

const TID: u32 = 10;

/// Gives out the runs' documents in turn: a truth while it records, a path when it is asked.
const TOOL: &str = r#"#!/bin/sh
here=$(dirname "$0")
run=$(cat "$here/run")
if [ "$1" = record ]; then
    run=$((run + 1))
    echo "$run" >"$here/run"
    for file; do :; done
    cp "$here/truth.$run" "$file"
else
    cat "$here/path.$run"
fi
"#;

/// The truth and the path of a 100 ms run, by the name of its case.
fn run(name: &str) -> (Value, Value) {
    const MS: i64 = 1_000_000;
    let part = |kind: &str, call: Option<&str>, ms: i64| json!({"pid": TID, "tid": TID, "comm": "cpm", "kind": kind, "call": call, "total_ns": ms * MS});
    let mut truth = json!({
        "schema": "wakepath.truth/1", "workload": "cpm", "must": [], "never": [],
        "window": {"pid": TID, "tid": TID, "comm": "cpm", "from_ns": MS, "to_ns": 101 * MS},
        "clocks": {"unawares_ns": 0, "stolen_ns": 0, "running_ns": 60 * MS},
        "threads": [{"pid": TID, "tid": TID, "comm": "cpm"}],
        "contributors": [part("running", None, 60), part("timer", Some("poll"), 40)],
    });
    let drawing: &[(i64, &str)] = match name {
        "right" | "must" | "books" => &[(61, "running"), (41, "timer")],
        "void" | "must beside unknown" | "never beside unknown" => {
            &[(61, "running"), (31, "timer"), (10, "unknown")]
        }
        "charged" | "charged beside bad books" => &[(71, "running"), (21, "timer"), (10, "unknown")],
        other => panic!("no run is called {other}"),
    };
    match name {
        "must" | "must beside unknown" => truth["must"] = json!(["segments kind=lock"]),
        "never beside unknown" => truth["never"] = json!(["segments kind=timer"]),
        "books" | "charged beside bad books" => truth["clocks"]["running_ns"] = json!(20 * MS),
        _ => {}
    }
    let window: i64 = drawing.iter().map(|(ms, _)| ms * MS).sum();
    let (mut at, mut segments, mut contributors) = (0, Vec::new(), Vec::new());
    for &(ms, kind) in drawing {
        let (from, ns) = (at, ms * MS);
        at += ns;
        let call = (kind == "timer").then_some("poll");
        segments.push(
            json!({"from_ns": from, "to_ns": at, "kind": kind, "tid": TID, "comm": "cpm", "call": call,
            "cause": null}),
        );
        contributors
            .push(json!({"tid": TID, "kind": kind, "total_ns": ns, "share": ns as f64 / window as f64}));
    }
    let missing = json!([{"count": null, "reported": false}]);
    let path = json!({
        "schema": "wakepath.path/1", "origin_ns": "0", "waits": [],
        "losses": if drawing.len() > 2 { missing } else { json!([]) },
        "window": {"tid": TID, "comm": "cpm", "from_ns": 0, "to_ns": window},
        "segments": segments, "contributors": contributors,
    });
    (truth, path)
}

/// Judges runs of `cpm` in this order; returns the exit code and the output.
fn judge(runs: &[&str], repeat: usize) -> (i32, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: String| fs::write(folder.path().join(name), text).expect("a file");
    for (index, name) in runs.iter().enumerate() {
        let (truth, path) = run(name);
        write(&format!("truth.{}", index + 1), truth.to_string());
        write(&format!("path.{}", index + 1), path.to_string());
    }
    write("run", String::from("0"));
    let tool = folder.path().join("tool");
    fs::write(&tool, TOOL).expect("the tool");
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).expect("a tool that can be run");
    let output = Command::new(env!("CARGO_BIN_EXE_wakepath-truth"))
        .args(["cpm", "--repeat", &repeat.to_string(), "--wakepath"])
        .arg(&tool)
        .output()
        .expect("the judge starts");
    let said = String::from_utf8(output.stdout).expect("text");
    println!("{runs:?}\n{said}{}", String::from_utf8_lossy(&output.stderr));
    (output.status.code().expect("an exit code"), said)
}

#[test]
fn a_wrong_run_is_never_repeated_whatever_is_unknown_beside_it() {
    for (wrong, reason) in [
        ("charged", "contributors differ by 10.000%"),
        ("must beside unknown", "this must hold and does not: segments kind=lock"),
        ("never beside unknown", "this must not hold and does 1 times: segments kind=timer"),
        ("must", "this must hold and does not"),
    ] {
        let (code, said) = judge(&[wrong, "right"], 1);
        assert_eq!(code, 1, "{wrong}");
        assert!(said.contains("WRONG") && said.contains(reason), "{wrong}: {said}");
        assert!(said.contains("Void: 0 of 1 runs"), "{wrong}: {said}");
    }
}

#[test]
fn a_wrong_run_after_void_ones_is_the_result() {
    let (code, said) = judge(&["void", "charged", "right"], 1);
    assert_eq!(code, 1);
    assert!(said.contains("Void: 1 of 2 runs (50.0%)") && said.contains("WRONG"), "{said}");
}

#[test]
fn a_void_run_is_printed_whole_counted_and_repeated() {
    let (code, said) = judge(&["void", "books", "right"], 1);
    assert_eq!(code, 0);
    for part in [
        "9.000%    1.0%   9.000%        1",
        "void: 9.000% is unknown where events are missing",
        "the main thread ran for 60000000 ns by its account, for 20000000 ns by its clock",
        "40.000       31.000    -9.000  timer of cpm",
        "discarded (run 1 of at most 4)",
        "discarded (run 2 of at most 4)",
        "Void: 2 of 3 runs (66.7%), at most 25%: too few runs for the bound",
    ] {
        assert!(said.contains(part), "`{part}` is not in {said}");
    }
}

#[test]
fn a_program_without_a_run_that_could_be_judged_is_not_right() {
    let (code, said) = judge(&["void"; 4], 1);
    assert_eq!(code, 1);
    assert!(said.contains("Void: 4 of 4 runs"), "{said}");
    assert_eq!(said.matches("discarded").count(), 3, "{said}");
}

#[test]
fn books_that_contradict_themselves_judge_nothing() {
    let (code, said) = judge(&["charged beside bad books", "right"], 1);
    assert_eq!(code, 0);
    assert!(said.contains("Void: 1 of 2 runs") && !said.contains("WRONG"), "{said}");
}

#[test]
fn a_series_with_too_many_void_runs_is_wrong_though_each_program_was_judged_in_the_end() {
    let few = [&["void"; 3][..], &["right"; 9]].concat();
    let (code, said) = judge(&few, 9);
    assert_eq!(code, 0);
    assert!(said.contains("Void: 3 of 12 runs (25.0%), at most 25%: right"), "{said}");
    let many = ["void", "right", "void", "right", "void", "right"].repeat(2);
    let (code, said) = judge(&many, 6);
    assert_eq!(code, 1);
    assert!(said.contains("Void: 6 of 12 runs (50.0%), at most 25%: WRONG"), "{said}");
}
